//! Adds, finds, lists and revokes tokens.

use std::sync::Arc;

use deadpool_postgres::Pool;
use flow::Time;
use tokio_postgres::Row;

use crate::batched::TokenByHash;
use crate::batcher::BatchRequest;
use crate::error::Error;
use crate::rows::{self, clean, int, time};
use crate::token::{ENDED_LINK_MS, Token, TokenChange, TokenKind};

use super::Postgres;
use super::pipeline::{self, index, values};

const COLUMNS: &str = "id, hash, agent, principal, role, family, ticket, created_by, created_at,
    expires_at, revoked_at, serial, fence, kind, parent, uses";

impl BatchRequest<Pool> for TokenByHash {
    type Answer = Option<Token>;

    async fn put(pool: &Pool, requests: Arc<[Self]>) -> Result<Vec<Option<Token>>, Error> {
        let sql = format!(
            "SELECT {COLUMNS}, place
            FROM unnest($1::text[]) WITH ORDINALITY AS secret (given, place)
            JOIN tokens ON tokens.hash = secret.given"
        );
        let hashes: Vec<String> = requests.iter().map(|secret| secret.0.clone()).collect();
        let mut tokens: Vec<Option<Token>> = requests.iter().map(|_| None).collect();
        for row in pipeline::read(pool, &sql, values![hashes]).await? {
            if let Some(slot) = tokens.get_mut(index(row.get(16))) {
                *slot = Some(read(&row)?);
            }
        }
        Ok(tokens)
    }
}

impl Postgres {
    pub(super) async fn insert_token(&self, token: &Token) -> Result<(), Error> {
        let sql = format!(
            "INSERT INTO tokens ({COLUMNS})
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
            ON CONFLICT DO NOTHING RETURNING 1"
        );
        let values = values![
            clean(&token.id),
            clean(&token.hash),
            clean(&token.agent),
            clean(&token.principal),
            clean(&token.role),
            token.family.as_deref().map(clean),
            token.ticket.as_ref().map(ToString::to_string),
            clean(&token.created_by),
            token.created_at.0,
            token.expires_at.map(|at| at.0),
            token.revoked_at.map(|at| at.0),
            token.lease.map(|lease| i64::from(lease.serial)),
            token.lease.map(|lease| int(lease.fence)),
            token.kind.as_str().to_owned(),
            token.parent.as_deref().map(clean),
            int(token.uses),
        ];
        if self.change(&sql, values).await?.is_empty() {
            return Err(Error::token_exists(&token.id));
        }
        if token.lease.is_some() || token.kind != TokenKind::Bearer {
            self.forget_ended(token.created_at).await?;
        }
        Ok(())
    }

    /// Deletes the tokens of runs, and the sessions and login codes, that have ended, and links that
    /// ended long ago.
    async fn forget_ended(&self, now: Time) -> Result<(), Error> {
        let sql = "DELETE FROM tokens
            WHERE ((fence IS NOT NULL OR kind NOT IN ('bearer', 'shared_link'))
                    AND (revoked_at IS NOT NULL OR expires_at <= $1))
                OR (kind = 'shared_link' AND (revoked_at <= $2 OR expires_at <= $2)) RETURNING 1";
        let long_ago = now.0.saturating_sub(ENDED_LINK_MS);
        self.change(sql, values![now.0, long_ago]).await?;
        Ok(())
    }

    pub(super) async fn list_tokens(
        &self,
        kind: TokenKind,
        most: u32,
    ) -> Result<Vec<Token>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM tokens WHERE kind = $2
            ORDER BY created_at DESC, id LIMIT $1"
        );
        let rows = self
            .read(&sql, values![i64::from(most), kind.as_str().to_owned()])
            .await?;
        rows.iter().map(read).collect()
    }

    pub(super) async fn update_token(
        &self,
        token: &str,
        change: TokenChange,
    ) -> Result<bool, Error> {
        let changed = match change {
            TokenChange::Revoke(at) => {
                let sql = "UPDATE tokens SET revoked_at = $2
                    WHERE (id = $1 OR parent = $1) AND revoked_at IS NULL RETURNING 1";
                self.change(sql, values![clean(token), at.0]).await?
            }
            TokenChange::CountUse => {
                let sql = "UPDATE tokens SET uses = uses + 1
                    WHERE id = $1 AND revoked_at IS NULL RETURNING 1";
                self.change(sql, values![clean(token)]).await?
            }
            TokenChange::Extend(until) => {
                let sql = "UPDATE tokens SET expires_at = $2 WHERE id = $1 AND revoked_at IS NULL
                    AND NOT EXISTS (SELECT 1 FROM tokens AS other
                        WHERE other.id = tokens.parent AND other.expires_at < $2) RETURNING 1";
                self.change(sql, values![clean(token), until.0]).await?
            }
        };
        Ok(!changed.is_empty())
    }
}

fn read(row: &Row) -> Result<Token, Error> {
    let ticket: Option<String> = row.get(6);
    Ok(Token {
        id: row.get(0),
        hash: row.get(1),
        agent: row.get(2),
        principal: row.get(3),
        role: row.get(4),
        family: row.get(5),
        ticket: ticket.map(rows::ticket_id).transpose()?,
        created_by: row.get(7),
        created_at: time(row.get(8)),
        expires_at: row.get::<_, Option<i64>>(9).map(time),
        revoked_at: row.get::<_, Option<i64>>(10).map(time),
        lease: rows::lease(row.get(11), row.get(12)),
        kind: TokenKind::parse(row.get(13)),
        parent: row.get(14),
        uses: row.get::<_, i64>(15).unsigned_abs(),
    })
}
