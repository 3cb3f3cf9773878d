//! The event log, the policies that it names, and the stored answers of idempotency keys.

use flow::{Policy, TicketId, Time, Usage};
use tokio_postgres::Row;

use crate::change::Remembered;
use crate::error::Error;
use crate::notifier::LOG;
use crate::record::{Cursor, EventQuery, Spending, StoredEvent};
use crate::rows::{self, EventColumns, clean, int, nat, time};

use super::Postgres;
use super::channel_notifier::ChannelNotifier;
use super::pipeline::OpenTransaction;
use super::pipeline::{Pipeline, StepIndex, values};

/// Maximum number of events per page.
const EVENTS_MAX: u32 = 10_000;

pub(super) fn append(steps: &mut Pipeline, event: &EventColumns) -> StepIndex {
    steps.push(
        "INSERT INTO events (ticket, version, policy, at, name, by, usd_micros, tokens, wall_ms,
            body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        values![
            event.ticket.clone(),
            event.version,
            event.policy.clone(),
            event.at,
            event.name.clone(),
            event.by.clone(),
            event.spent.map(|spent| spent.usd_micros),
            event.spent.map(|spent| spent.tokens),
            event.spent.map(|spent| spent.wall_ms),
            event.body.clone(),
        ],
    )
}

pub(super) fn put_policy(steps: &mut Pipeline, id: &str, body: &str) {
    steps.push(
        "INSERT INTO policies (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        values![id.to_owned(), body.to_owned()],
    );
}

/// Inserts the key; the first step returns a row if the key was free. If another transaction is
/// using the key, this waits for it; the second step then returns its answer.
pub(super) fn remember(
    steps: &mut Pipeline,
    remember: &Remembered,
) -> Result<(StepIndex, StepIndex), Error> {
    let key = clean(&remember.key);
    let inserted = steps.push(
        "INSERT INTO answers (key, payload_hash, answer, at) VALUES ($1, $2, $3, clock_ms())
        ON CONFLICT (key) DO NOTHING RETURNING key",
        values![
            key.clone(),
            clean(&remember.payload_hash),
            serde_json::to_string(&remember.answer)?,
        ],
    );
    Ok((inserted, steps.push(RECALL, values![key])))
}

const RECALL: &str = "SELECT payload_hash, answer FROM answers WHERE key = $1";

pub(super) fn remembered(key: &str, rows: &[Row]) -> Result<Option<Remembered>, Error> {
    let decode = |row: &Row| {
        Ok(Remembered {
            key: key.to_owned(),
            payload_hash: row.get(0),
            answer: rows::decode(row.get(1))?,
        })
    };
    rows.first().map(decode).transpose()
}

impl Postgres {
    pub(super) async fn append(&self, event: &EventColumns) -> Result<(), Error> {
        let mut steps = Pipeline::default();
        append(&mut steps, event);
        let mut session = OpenTransaction::new(&self.pool).await?;
        session.run(steps).await?.check_all(true)
    }

    /// Appends the event unless one was appended under this key before.
    pub(super) async fn append_once(&self, key: &str, event: EventColumns) -> Result<(), Error> {
        let sql = "WITH first AS (INSERT INTO answers (key, payload_hash, answer, at)
                VALUES ($1, '', 'null', clock_ms()) ON CONFLICT DO NOTHING RETURNING 1)
            INSERT INTO events (ticket, at, name, by, usd_micros, tokens, wall_ms, body)
            SELECT $2::text, $3::bigint, $4::text, $5::text, $6::bigint, $7::bigint, $8::bigint,
                $9::text FROM first";
        let spent = event.spent;
        let values = values![
            clean(key),
            event.ticket,
            event.at,
            event.name,
            event.by,
            spent.map(|spent| spent.usd_micros),
            spent.map(|spent| spent.tokens),
            spent.map(|spent| spent.wall_ms),
            event.body,
        ];
        self.change(sql, values).await.map(drop)
    }

    pub(super) async fn answer_to(&self, key: &str) -> Result<Option<Remembered>, Error> {
        let rows = self.read(RECALL, values![clean(key)]).await?;
        remembered(key, &rows)
    }

    pub(super) async fn one_policy(&self, id: &str) -> Result<Option<Policy>, Error> {
        let sql = "SELECT body FROM policies WHERE id = $1";
        let rows = self.read(sql, values![id.to_owned()]).await?;
        rows.first().map(|row| rows::decode(row.get(0))).transpose()
    }

    /// Lists events after a cursor. Without a ticket: only events of transactions older than any
    /// open one, so that a cursor at the last event skips none. With a ticket: all events up to
    /// now, because its decisions are serial and each began after the last was committed.
    pub(super) async fn list_events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>, Error> {
        let columns = "SELECT tx::text, sequence, ticket, version, policy, at, name, by, body
            FROM events WHERE (tx, sequence) > ($1::text::xid8, $2)";
        let mut values = values![
            query.after.transaction.to_string(),
            int(query.after.sequence),
            i64::from(query.most.clamp(1, EVENTS_MAX)),
        ];
        let filter = if let Some(ticket) = &query.ticket {
            values.push(Box::new(ticket.to_string()));
            "ticket = $4"
        } else {
            "tx < pg_snapshot_xmin(pg_current_snapshot())"
        };
        let sql = format!("{columns} AND {filter} ORDER BY events.tx, sequence LIMIT $3");
        let rows = self.read(&sql, values).await?;
        rows.iter().map(event).collect()
    }

    /// Lists the newest events, with the same limit on open transactions as [`Self::list_events`].
    pub(super) async fn list_newest(
        &self,
        ticket: Option<&TicketId>,
        most: u32,
    ) -> Result<Vec<StoredEvent>, Error> {
        let mut values = values![i64::from(most.clamp(1, EVENTS_MAX))];
        let filter = if let Some(ticket) = ticket {
            values.push(Box::new(ticket.to_string()));
            "ticket = $2"
        } else {
            "tx < pg_snapshot_xmin(pg_current_snapshot())"
        };
        let sql = format!(
            "SELECT tx::text, sequence, ticket, version, policy, at, name, by, body FROM events
            WHERE {filter} ORDER BY events.tx DESC, sequence DESC LIMIT $1"
        );
        let rows = self.read(&sql, values).await?;
        rows.iter().rev().map(event).collect()
    }

    /// Arms the notification and then looks, so that a later commit finds it armed.
    pub(super) async fn look_for_events(&self, after: Cursor) -> Result<bool, Error> {
        let mut session = OpenTransaction::new(&self.pool).await?;
        let mut steps = ChannelNotifier::arm(&[LOG.to_owned()]);
        let step = steps.push(
            "SELECT 1 FROM events WHERE (tx, sequence) > ($1::text::xid8, $2)
                AND tx < pg_snapshot_xmin(pg_current_snapshot()) LIMIT 1",
            values![after.transaction.to_string(), int(after.sequence)],
        );
        let answers = session.run(steps).await?;
        answers.check_all(false)?;
        Ok(!answers.rows(step)?.is_empty())
    }

    pub(super) async fn used_since(&self, since: Time) -> Result<Usage, Error> {
        let sql = "SELECT usd_micros, tokens, wall_ms FROM events
            WHERE wall_ms IS NOT NULL AND at >= $1";
        let rows = self.read(sql, values![since.0]).await?;
        let usage = |row: &Row| Usage {
            usd_micros: nat(row.get(0)),
            tokens: nat(row.get(1)),
            wall_ms: nat(row.get(2)),
            ..Usage::default()
        };
        Ok(rows.iter().map(usage).fold(Usage::default(), Usage::plus))
    }

    pub(super) async fn used_by_agents(&self, since: Time) -> Result<Vec<Spending>, Error> {
        let sql = "SELECT at, by, body::json #>> '{by,model}', usd_micros, tokens, wall_ms
            FROM events WHERE wall_ms IS NOT NULL AND at >= $1";
        let rows = self.read(sql, values![since.0]).await?;
        let spending = |row: &Row| Spending {
            day: time(row.get(0)),
            by: row.get(1),
            model: row.get(2),
            usage: Usage {
                usd_micros: nat(row.get(3)),
                tokens: nat(row.get(4)),
                wall_ms: nat(row.get(5)),
                ..Usage::default()
            },
        };
        Ok(rows::sum_spending(rows.iter().map(spending)))
    }
}

fn event(row: &Row) -> Result<StoredEvent, Error> {
    let transaction: &str = row.get(0);
    let ticket: Option<String> = row.get(2);
    let version: Option<i64> = row.get(3);
    Ok(StoredEvent {
        cursor: Cursor {
            transaction: transaction
                .parse()
                .map_err(|_| rows::unreadable("a transaction's number"))?,
            sequence: nat(row.get(1)),
        },
        ticket: ticket.map(rows::ticket_id).transpose()?,
        version: version.map(nat),
        policy: row.get(4),
        at: time(row.get(5)),
        name: row.get(6),
        by: row.get(7),
        body: rows::event_body(version.is_some(), row.get(8))?,
    })
}
