//! State of connections to forges.

use rusqlite::{Connection, params};

use crate::error::Error;
use crate::forge_state::ForgeState;
use crate::rows::{clean, decode, int, nat, time};

use super::writer::Tx;

impl Tx<'_> {
    /// Writes a state; false if it changed since it was read.
    pub(super) fn put_forge_state(&self, state: &ForgeState) -> Result<bool, Error> {
        let (name, body) = (clean(&state.name), serde_json::to_string(&state.body)?);
        if state.version > 0 {
            let sql = "UPDATE forge_states SET version = version + 1, at = ?3, body = ?4
                WHERE name = ?1 AND version = ?2";
            let values = params![name, int(state.version), self.now, body];
            return Ok(self.db.prepare_cached(sql)?.execute(values)? > 0);
        }
        let sql = "INSERT INTO forge_states (name, version, at, body) VALUES (?1, 1, ?2, ?3)
            ON CONFLICT DO NOTHING";
        let values = params![name, self.now, body];
        Ok(self.db.prepare_cached(sql)?.execute(values)? > 0)
    }
}

/// Lists the states whose names begin with the text, by name.
pub(super) fn list(db: &Connection, prefix: &str, most: u32) -> Result<Vec<ForgeState>, Error> {
    let sql = "SELECT name, version, at, body FROM forge_states
        WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name LIMIT ?2";
    let mut select = db.prepare_cached(sql)?;
    let mut rows = select.query(params![clean(prefix), most])?;
    let mut states = Vec::new();
    while let Some(row) = rows.next()? {
        states.push(ForgeState {
            name: row.get(0)?,
            version: nat(row.get(1)?),
            at: time(row.get(2)?),
            body: decode(&row.get::<_, String>(3)?)?,
        });
    }
    Ok(states)
}
