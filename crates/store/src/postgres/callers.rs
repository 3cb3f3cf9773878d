//! State of callers between their calls.

use crate::caller::{CallerRecord, SESSIONS_MAX};
use crate::error::Error;
use crate::rows::{clean, decode, int, nat};

use super::Postgres;
use super::pipeline::values;

impl Postgres {
    /// Writes the state of a caller; false if it changed since it was read.
    pub(super) async fn write_caller(&self, caller: &CallerRecord) -> Result<bool, Error> {
        let (token, session) = (clean(&caller.token), clean(&caller.session));
        let body = serde_json::to_string(&caller.state)?;
        if caller.version > 0 {
            let sql = "UPDATE callers SET version = version + 1, at = clock_ms(), body = $4
                WHERE token = $1 AND session = $2 AND version = $3 RETURNING 1";
            let values = values![token, session, int(caller.version), body];
            return Ok(!self.change(sql, values).await?.is_empty());
        }
        let sql = "INSERT INTO callers (token, session, version, at, body)
            VALUES ($1, $2, 1, clock_ms(), $3) ON CONFLICT DO NOTHING RETURNING 1";
        let values = values![token.clone(), session.clone(), body];
        let added = !self.change(sql, values).await?.is_empty();
        if added && !session.is_empty() {
            let sql = "DELETE FROM callers WHERE token = $1 AND session <> '' AND session <> $2
                AND session NOT IN (SELECT session FROM callers
                    WHERE token = $1 AND session <> '' ORDER BY at DESC, session LIMIT $3)
                RETURNING 1";
            self.change(sql, values![token, session, SESSIONS_MAX])
                .await?;
        }
        Ok(added)
    }

    pub(super) async fn one_caller(
        &self,
        token: &str,
        session: &str,
    ) -> Result<Option<CallerRecord>, Error> {
        let sql = "SELECT version, body FROM callers WHERE token = $1 AND session = $2";
        let rows = self
            .read(sql, values![clean(token), clean(session)])
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(Some(CallerRecord {
            token: token.to_owned(),
            session: session.to_owned(),
            version: nat(row.get(0)),
            state: decode(row.get(1))?,
        }))
    }
}
