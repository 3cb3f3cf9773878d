//! Epics, pauses, provider limits and agents; and the removal of old data.

use std::collections::BTreeMap;
use std::sync::Arc;

use deadpool_postgres::Pool;
use tokio_postgres::Row;

use crate::batcher::BatchRequest;
use crate::error::Error;
use crate::record::{Agent, Epic, Pause, PauseScope, Retention};
use crate::rows::{self, clean, nat, nat32, time};

use super::Postgres;
use super::pipeline::{self, values};

/// Rows per slice, so that other writes never wait long.
const SLICE: i64 = 500;

pub(super) const OLD_JOBS: &str = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs
    WHERE state IN ('done', 'dropped', 'dead') AND ended_at < $1
        AND (ticket IS NULL OR (SELECT stage FROM tickets WHERE tickets.id = jobs.ticket)
            IN ('done', 'failed', 'cancelled'))
    LIMIT $2) RETURNING 1";

pub(super) const OLD_MESSAGES: &str = "DELETE FROM messages WHERE id IN (SELECT id FROM messages
    WHERE processed_at < $1 LIMIT $2) RETURNING 1";

/// Claims as old as this have long been reported or lost.
pub(super) const OLD_STATEMENTS: &str = "DELETE FROM claim_statements WHERE id IN
    (SELECT id FROM claim_statements WHERE at < $1 LIMIT $2) RETURNING 1";

pub(super) const OLD_ANSWERS: &str = "DELETE FROM answers WHERE key IN (SELECT key FROM answers
    WHERE at < $1 LIMIT $2) RETURNING 1";

pub(super) const OLD_NOTES: &str = "DELETE FROM events WHERE (tx, sequence) IN
    (SELECT tx, sequence FROM events WHERE version IS NULL AND at < $1
        AND coalesce((SELECT stage FROM tickets WHERE tickets.id = events.ticket), 'done')
            IN ('done', 'failed', 'cancelled')
    LIMIT $2) RETURNING 1";

/// Terminal tickets that no live ticket depends on, with their jobs and events. A terminal ticket
/// stays terminal, so the selection is still valid at the delete.
pub(super) const OLD_TICKETS: &str = "WITH old AS MATERIALIZED (SELECT id FROM tickets
        WHERE stage IN ('done', 'failed', 'cancelled') AND updated_at < $1
            AND NOT EXISTS (SELECT 1 FROM dependencies
                JOIN tickets AS live ON live.id = dependencies.dependant
                WHERE dependencies.dependency = tickets.id
                    AND live.stage NOT IN ('done', 'failed', 'cancelled'))
        LIMIT $2 FOR UPDATE),
    their_jobs AS (DELETE FROM jobs WHERE ticket IN (SELECT id FROM old)),
    their_events AS (DELETE FROM events WHERE ticket IN (SELECT id FROM old))
    DELETE FROM tickets WHERE id IN (SELECT id FROM old) RETURNING 1";

/// Heartbeat of an agent.
#[derive(Clone)]
pub(super) struct AgentHeartbeat(pub(super) Agent);

impl BatchRequest<Pool> for AgentHeartbeat {
    type Answer = ();
    const WRITES: bool = true;

    /// Writes the last heartbeat of each agent. Rows are sorted by name, so that two batches cannot
    /// deadlock.
    async fn put(pool: &Pool, requests: Arc<[Self]>) -> Result<Vec<()>, Error> {
        let sql = "INSERT INTO agents (name, role, seen_at, body)
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
            ON CONFLICT (name) DO UPDATE SET role = excluded.role, seen_at = excluded.seen_at,
                body = excluded.body";
        let last: BTreeMap<String, &Agent> = requests
            .iter()
            .map(|request| (clean(&request.0.name), &request.0))
            .collect();
        let mut bodies = Vec::with_capacity(last.len());
        for agent in last.values() {
            bodies.push(serde_json::to_string(&agent.body)?);
        }
        let values = values![
            last.keys().cloned().collect::<Vec<_>>(),
            last.values()
                .map(|agent| clean(&agent.role))
                .collect::<Vec<_>>(),
            last.values()
                .map(|agent| agent.seen_at.0)
                .collect::<Vec<_>>(),
            bodies,
        ];
        pipeline::change(pool, sql, values).await?;
        Ok(requests.iter().map(|_| ()).collect())
    }
}

impl Postgres {
    pub(super) async fn put_provider_limit(
        &self,
        provider: &str,
        most: Option<u32>,
    ) -> Result<bool, Error> {
        let provider = clean(provider);
        let (sql, values) = match most {
            Some(most) => (
                "INSERT INTO provider_limits (provider, most) VALUES ($1, $2)
                ON CONFLICT (provider) DO UPDATE SET most = excluded.most RETURNING 1",
                values![provider, i64::from(most)],
            ),
            None => (
                "DELETE FROM provider_limits WHERE provider = $1 RETURNING 1",
                values![provider],
            ),
        };
        Ok(!self.change(sql, values).await?.is_empty())
    }

    pub(super) async fn list_provider_limits(&self) -> Result<Vec<(String, u32)>, Error> {
        let sql = "SELECT provider, most FROM provider_limits ORDER BY provider";
        let rows = self.read(sql, values![]).await?;
        Ok(rows
            .iter()
            .map(|row| (row.get(0), nat32(row.get(1))))
            .collect())
    }

    pub(super) async fn remove(
        &self,
        sql: &'static str,
        retention: &Retention,
    ) -> Result<u64, Error> {
        let mut removed = 0;
        loop {
            let values = values![retention.before.0, SLICE];
            let slice = rows::count(self.change(sql, values).await?.len());
            removed += slice;
            if slice < SLICE {
                return Ok(nat(removed));
            }
        }
    }

    pub(super) async fn upsert_epic(&self, epic: &Epic) -> Result<(), Error> {
        let sql = "INSERT INTO epics (id, title, body, updated_at) VALUES ($1, $2, $3, $4)
            ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body,
                updated_at = excluded.updated_at";
        let body = serde_json::to_string(&epic.body)?;
        let values = values![clean(&epic.id), clean(&epic.title), body, epic.updated_at.0];
        self.change(sql, values).await.map(drop)
    }

    pub(super) async fn list_epics(&self) -> Result<Vec<Epic>, Error> {
        let sql = "SELECT id, title, body, updated_at FROM epics ORDER BY id";
        let decode = |row: &Row| {
            Ok(Epic {
                id: row.get(0),
                title: row.get(1),
                body: rows::decode(row.get(2))?,
                updated_at: time(row.get(3)),
            })
        };
        self.read(sql, Vec::new())
            .await?
            .iter()
            .map(decode)
            .collect()
    }

    pub(super) async fn upsert_pause(&self, pause: &Pause) -> Result<(), Error> {
        let sql = "INSERT INTO pauses (scope, name, until, why, by) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (scope, name) DO UPDATE SET until = excluded.until, why = excluded.why,
                by = excluded.by";
        let (scope, name) = pause.scope.parts();
        let until = pause.until.map(|time| time.0);
        let values = values![scope, name, until, clean(&pause.why), clean(&pause.by)];
        self.change(sql, values).await.map(drop)
    }

    pub(super) async fn delete_pause(&self, scope: &PauseScope) -> Result<bool, Error> {
        let (scope, name) = scope.parts();
        let sql = "DELETE FROM pauses WHERE scope = $1 AND name = $2 RETURNING 1";
        let removed = self.change(sql, values![scope, name]).await?;
        Ok(!removed.is_empty())
    }

    pub(super) async fn list_pauses(&self) -> Result<Vec<Pause>, Error> {
        let sql = "SELECT scope, name, until, why, by FROM pauses
            WHERE until IS NULL OR until > clock_ms() ORDER BY scope, name";
        let decode = |row: &Row| {
            Ok(Pause {
                scope: PauseScope::read(row.get(0), row.get(1))?,
                until: row.get::<_, Option<i64>>(2).map(time),
                why: row.get(3),
                by: row.get(4),
            })
        };
        self.read(sql, Vec::new())
            .await?
            .iter()
            .map(decode)
            .collect()
    }

    pub(super) async fn list_agents(&self) -> Result<Vec<Agent>, Error> {
        let sql = "SELECT name, role, seen_at, body FROM agents ORDER BY name";
        let decode = |row: &Row| {
            Ok(Agent {
                name: row.get(0),
                role: row.get(1),
                seen_at: time(row.get(2)),
                body: rows::decode(row.get(3))?,
            })
        };
        self.read(sql, Vec::new())
            .await?
            .iter()
            .map(decode)
            .collect()
    }
}
