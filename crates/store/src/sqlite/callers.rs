//! State of callers between their calls.

use rusqlite::{Connection, OptionalExtension, params};

use crate::caller::{CallerRecord, SESSIONS_MAX};
use crate::error::Error;
use crate::rows::{clean, decode, int, nat};

use super::writer::Tx;

impl Tx<'_> {
    /// Writes the state of a caller; false if it changed since it was read.
    pub(super) fn put_caller(&self, caller: &CallerRecord) -> Result<bool, Error> {
        let (token, session) = (clean(&caller.token), clean(&caller.session));
        let body = serde_json::to_string(&caller.state)?;
        if caller.version > 0 {
            let sql = "UPDATE callers SET version = version + 1, at = ?4, body = ?5
                WHERE token = ?1 AND session = ?2 AND version = ?3";
            let values = params![token, session, int(caller.version), self.now, body];
            return Ok(self.db.prepare_cached(sql)?.execute(values)? > 0);
        }
        let sql = "INSERT INTO callers (token, session, version, at, body)
            VALUES (?1, ?2, 1, ?3, ?4) ON CONFLICT DO NOTHING";
        let values = params![token, session, self.now, body];
        let added = self.db.prepare_cached(sql)?.execute(values)? > 0;
        if added && !session.is_empty() {
            let sql = "DELETE FROM callers WHERE token = ?1 AND session <> '' AND session <> ?2
                AND session NOT IN (SELECT session FROM callers
                    WHERE token = ?1 AND session <> '' ORDER BY at DESC, session LIMIT ?3)";
            let values = params![token, session, SESSIONS_MAX];
            self.db.prepare_cached(sql)?.execute(values)?;
        }
        Ok(added)
    }
}

pub(super) fn one(
    db: &Connection,
    token: &str,
    session: &str,
) -> Result<Option<CallerRecord>, Error> {
    let sql = "SELECT version, body FROM callers WHERE token = ?1 AND session = ?2";
    let row: Option<(i64, String)> = db
        .prepare_cached(sql)?
        .query_row(params![clean(token), clean(session)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((version, body)) = row else {
        return Ok(None);
    };
    Ok(Some(CallerRecord {
        token: token.to_owned(),
        session: session.to_owned(),
        version: nat(version),
        state: decode(&body)?,
    }))
}
