//! Adds, finds, lists and revokes tokens.

use flow::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Error;
use crate::rows::{self, clean, int, time};
use crate::token::{ENDED_LINK_MS, Token, TokenChange, TokenKind};

use super::writer::Tx;

const COLUMNS: &str = "id, hash, agent, principal, role, family, ticket, created_by, created_at,
    expires_at, revoked_at, serial, fence, kind, parent, uses";

impl Tx<'_> {
    pub(super) fn put_token(&self, token: &Token) -> Result<(), Error> {
        let sql = format!(
            "INSERT INTO tokens ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
            ON CONFLICT DO NOTHING"
        );
        let added = self.db.prepare_cached(&sql)?.execute(params![
            clean(&token.id),
            clean(&token.hash),
            clean(&token.agent),
            clean(&token.principal),
            clean(&token.role),
            token.family.as_deref().map(clean),
            token.ticket.as_ref().map(flow::TicketId::as_str),
            clean(&token.created_by),
            token.created_at.0,
            token.expires_at.map(|at| at.0),
            token.revoked_at.map(|at| at.0),
            token.lease.map(|lease| lease.serial),
            token.lease.map(|lease| int(lease.fence)),
            token.kind.as_str(),
            token.parent.as_deref().map(clean),
            int(token.uses),
        ])?;
        if added == 0 {
            return Err(Error::token_exists(&token.id));
        }
        if token.lease.is_some() || token.kind != TokenKind::Bearer {
            self.forget_ended(token.created_at)?;
        }
        Ok(())
    }

    /// Deletes the tokens of runs, and the sessions and login codes, that have ended, and links that
    /// ended long ago.
    fn forget_ended(&self, now: Time) -> Result<(), Error> {
        let sql = "DELETE FROM tokens
            WHERE ((fence IS NOT NULL OR kind NOT IN ('bearer', 'shared_link'))
                    AND (revoked_at IS NOT NULL OR expires_at <= ?1))
                OR (kind = 'shared_link' AND (revoked_at <= ?2 OR expires_at <= ?2))";
        let long_ago = now.0.saturating_sub(ENDED_LINK_MS);
        self.db.prepare_cached(sql)?.execute([now.0, long_ago])?;
        Ok(())
    }

    pub(super) fn change_token(&self, token: &str, change: TokenChange) -> Result<bool, Error> {
        let changed = match change {
            TokenChange::Revoke(at) => {
                let sql = "UPDATE tokens SET revoked_at = ?2 WHERE (id = ?1 OR parent = ?1) AND revoked_at IS NULL";
                self.db.prepare_cached(sql)?.execute(params![token, at.0])?
            }
            TokenChange::CountUse => {
                let sql = "UPDATE tokens SET uses = uses + 1 WHERE id = ?1 AND revoked_at IS NULL";
                self.db.prepare_cached(sql)?.execute(params![token])?
            }
            TokenChange::Extend(until) => {
                let sql = "UPDATE tokens SET expires_at = ?2 WHERE id = ?1 AND revoked_at IS NULL
                    AND NOT EXISTS (SELECT 1 FROM tokens AS other
                        WHERE other.id = tokens.parent AND other.expires_at < ?2)";
                self.db
                    .prepare_cached(sql)?
                    .execute(params![token, until.0])?
            }
        };
        Ok(changed > 0)
    }
}

pub(super) fn by_hash(db: &Connection, hash: &str) -> Result<Option<Token>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM tokens WHERE hash = ?1");
    let mut select = db.prepare_cached(&sql)?;
    let token = select.query_row([hash], |row| Ok(read(row)));
    token.optional()?.transpose()
}

pub(super) fn list(db: &Connection, kind: TokenKind, most: u32) -> Result<Vec<Token>, Error> {
    let sql = format!(
        "SELECT {COLUMNS} FROM tokens WHERE kind = ?2
        ORDER BY created_at DESC, id LIMIT ?1"
    );
    let mut select = db.prepare_cached(&sql)?;
    let rows = select.query_map(params![most, kind.as_str()], |row| Ok(read(row)))?;
    rows.map(|token| token?).collect()
}

fn read(row: &Row<'_>) -> Result<Token, Error> {
    let ticket: Option<String> = row.get(6)?;
    Ok(Token {
        id: row.get(0)?,
        hash: row.get(1)?,
        agent: row.get(2)?,
        principal: row.get(3)?,
        role: row.get(4)?,
        family: row.get(5)?,
        ticket: ticket.map(rows::ticket_id).transpose()?,
        created_by: row.get(7)?,
        created_at: time(row.get(8)?),
        expires_at: row.get::<_, Option<i64>>(9)?.map(time),
        revoked_at: row.get::<_, Option<i64>>(10)?.map(time),
        lease: rows::lease(row.get(11)?, row.get(12)?),
        kind: TokenKind::parse(&row.get::<_, String>(13)?),
        parent: row.get(14)?,
        uses: row.get::<_, i64>(15)?.unsigned_abs(),
    })
}
