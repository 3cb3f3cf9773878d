//! State of connections to forges.

use crate::error::Error;
use crate::forge_state::ForgeState;
use crate::rows::{clean, decode, int, nat, time};

use super::Postgres;
use super::pipeline::values;

impl Postgres {
    /// Writes a state; false if it changed since it was read.
    pub(super) async fn write_forge_state(&self, state: &ForgeState) -> Result<bool, Error> {
        let (name, body) = (clean(&state.name), serde_json::to_string(&state.body)?);
        let changed = if state.version > 0 {
            let sql = "UPDATE forge_states SET version = version + 1, at = clock_ms(), body = $3
                WHERE name = $1 AND version = $2 RETURNING 1";
            self.change(sql, values![name, int(state.version), body])
                .await?
        } else {
            let sql = "INSERT INTO forge_states (name, version, at, body)
                VALUES ($1, 1, clock_ms(), $2) ON CONFLICT DO NOTHING RETURNING 1";
            self.change(sql, values![name, body]).await?
        };
        Ok(!changed.is_empty())
    }

    /// Lists the states whose names begin with the text, by name.
    pub(super) async fn list_forge_states(
        &self,
        prefix: &str,
        most: u32,
    ) -> Result<Vec<ForgeState>, Error> {
        let sql = "SELECT name, version, at, body FROM forge_states
            WHERE starts_with(name, $1) ORDER BY name LIMIT $2";
        let values = values![clean(prefix), i64::from(most)];
        let rows = self.read(sql, values).await?;
        rows.iter()
            .map(|row| {
                Ok(ForgeState {
                    name: row.get(0),
                    version: nat(row.get(1)),
                    at: time(row.get(2)),
                    body: decode(row.get(3))?,
                })
            })
            .collect()
    }
}
