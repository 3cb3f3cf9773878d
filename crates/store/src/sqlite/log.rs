//! The event log, the policies that it names, and the stored answers of idempotency keys.
//!
//! Events are appended and never changed. A reader's position is a sequence number, so it must
//! never be reused.

use rusqlite::{Connection, OptionalExtension, Row, params};

use flow::{Policy, TicketId, Time, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::change::Remembered;
use crate::error::Error;
use crate::record::{Cursor, EventQuery, Spending, StoredEvent};
use crate::rows::{self, EventColumns, int, nat, time};

use super::writer::Tx;

/// Maximum number of events per page. It bounds the memory of one answer; a reader asks for the
/// next page.
const EVENTS_MAX: u32 = 10_000;

impl Tx<'_> {
    pub(super) fn append(&self, event: &EventColumns) -> Result<(), Error> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO events (ticket, version, policy, at, name, by, usd_micros, tokens,
                wall_ms, body)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        insert.execute(params![
            event.ticket,
            event.version,
            event.policy,
            event.at,
            event.name,
            event.by,
            event.spent.map(|spent| spent.usd_micros),
            event.spent.map(|spent| spent.tokens),
            event.spent.map(|spent| spent.wall_ms),
            event.body,
        ])?;
        Ok(())
    }

    /// Appends the event unless one was appended under this key before.
    pub(super) fn append_once(&self, key: &str, event: &EventColumns) -> Result<(), Error> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO answers (key, payload_hash, answer, at) VALUES (?1, '', 'null', ?2)
            ON CONFLICT DO NOTHING",
        )?;
        // The insert decides: of two calls with the same key only one gets a row.
        match insert.execute(params![rows::clean(key), self.now])? {
            0 => Ok(()),
            _ => self.append(event),
        }
    }

    /// Logs an event of a job without a ticket; the log is its only history.
    pub(super) fn log_event(
        &self,
        name: &str,
        by: &str,
        ticket: Option<&str>,
        story: &impl Serialize,
    ) -> Result<(), Error> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO events (ticket, at, name, by, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let body = serde_json::to_string(story)?;
        insert.execute(params![ticket, self.now, name, by, body])?;
        Ok(())
    }

    // A policy is named by its hash, so an existing one has the same content.
    pub(super) fn put_policy(&self, id: &str, body: &str) -> Result<(), Error> {
        self.db
            .prepare_cached(
                "INSERT INTO policies (id, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )?
            .execute([id, body])?;
        Ok(())
    }

    /// Returns the stored answer if the key was used for the same request; refuses another request.
    pub(super) fn answered(&self, request: &Remembered) -> Result<Option<Value>, Error> {
        match recall(self.db, &request.key)? {
            None => Ok(None),
            Some(first) if first.payload_hash == request.payload_hash => Ok(Some(first.answer)),
            Some(_) => Err(Error::KeyReused {
                key: request.key.clone(),
            }),
        }
    }

    pub(super) fn remember(&self, remember: &Remembered) -> Result<(), Error> {
        let answer = serde_json::to_string(&remember.answer)?;
        self.db
            .prepare_cached(
                "INSERT INTO answers (key, payload_hash, answer, at) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                // Keys come from callers and may contain NUL, which PostgreSQL refuses; both stores
                // clean alike.
                rows::clean(&remember.key),
                rows::clean(&remember.payload_hash),
                answer,
                self.now
            ])?;
        Ok(())
    }
}

pub(super) fn recall(db: &Connection, key: &str) -> Result<Option<Remembered>, Error> {
    let mut select =
        db.prepare_cached("SELECT payload_hash, answer FROM answers WHERE key = ?1")?;
    let row: Option<(String, String)> = select
        .query_row([rows::clean(key)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((payload_hash, answer)) = row else {
        return Ok(None);
    };
    Ok(Some(Remembered {
        key: key.to_owned(),
        payload_hash,
        answer: rows::decode(&answer)?,
    }))
}

pub(super) fn policy(db: &Connection, id: &str) -> Result<Option<Policy>, Error> {
    let mut select = db.prepare_cached("SELECT body FROM policies WHERE id = ?1")?;
    let body: Option<String> = select.query_row([id], |row| row.get(0)).optional()?;
    body.map(|text| rows::decode(&text)).transpose()
}

/// Lists events after a cursor. There is one writer at a time, so sequence numbers become visible
/// in order and a cursor at the last event skips none.
pub(super) fn events(db: &Connection, query: &EventQuery) -> Result<Vec<StoredEvent>, Error> {
    let columns = "SELECT sequence, ticket, version, policy, at, name, by, body FROM events";
    let most = query.most.clamp(1, EVENTS_MAX);
    let after = int(query.after.sequence);
    let mut events = Vec::new();
    if let Some(ticket) = &query.ticket {
        let sql =
            format!("{columns} WHERE ticket = ?3 AND sequence > ?1 ORDER BY sequence LIMIT ?2");
        let mut select = db.prepare_cached(&sql)?;
        let mut rows = select.query(params![after, most, ticket.as_str()])?;
        while let Some(row) = rows.next()? {
            events.push(event(row)?);
        }
        return Ok(events);
    }
    // Two statements, because a condition with OR would not use the index on the ticket.
    let sql = format!("{columns} WHERE sequence > ?1 ORDER BY sequence LIMIT ?2");
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![after, most])?;
    while let Some(row) = rows.next()? {
        events.push(event(row)?);
    }
    Ok(events)
}

pub(super) fn newest(
    db: &Connection,
    ticket: Option<&TicketId>,
    most: u32,
) -> Result<Vec<StoredEvent>, Error> {
    let most = most.clamp(1, EVENTS_MAX);
    let filter = if ticket.is_some() {
        "ticket = ?2"
    } else {
        "?2 IS NULL"
    };
    let sql = format!(
        "SELECT sequence, ticket, version, policy, at, name, by, body FROM events
        WHERE {filter} ORDER BY sequence DESC LIMIT ?1"
    );
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query(params![most, ticket.map(TicketId::as_str)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(event(row)?);
    }
    // The query walks from the end; callers want the oldest first.
    events.reverse();
    Ok(events)
}

pub(super) fn has_after(db: &Connection, after: Cursor) -> Result<bool, Error> {
    let mut select = db.prepare_cached("SELECT 1 FROM events WHERE sequence > ?1 LIMIT 1")?;
    Ok(select.exists([int(after.sequence)])?)
}

fn event(row: &Row<'_>) -> Result<StoredEvent, Error> {
    let version: Option<i64> = row.get(2)?;
    let ticket: Option<String> = row.get(1)?;
    Ok(StoredEvent {
        cursor: Cursor {
            // SQLite needs no transaction number: with one writer the sequence alone gives the
            // order.
            transaction: 0,
            sequence: nat(row.get(0)?),
        },
        ticket: ticket.map(rows::ticket_id).transpose()?,
        version: version.map(nat),
        policy: row.get(3)?,
        at: time(row.get(4)?),
        name: row.get(5)?,
        by: row.get(6)?,
        body: rows::event_body(version.is_some(), &row.get::<_, String>(7)?)?,
    })
}

/// Reads the usage of events with their agent and model, and adds it up by day.
pub(super) fn spending(db: &Connection, since: Time) -> Result<Vec<Spending>, Error> {
    let mut select = db.prepare_cached(
        "SELECT at, by, json_extract(body, '$.by.model'), usd_micros, tokens, wall_ms FROM events
        WHERE wall_ms IS NOT NULL AND at >= ?1",
    )?;
    let rows = select.query_map([since.0], |row| {
        Ok(Spending {
            day: time(row.get(0)?),
            by: row.get(1)?,
            model: row.get(2)?,
            usage: Usage {
                usd_micros: nat(row.get(3)?),
                tokens: nat(row.get(4)?),
                wall_ms: nat(row.get(5)?),
                ..Usage::default()
            },
        })
    })?;
    let all: Vec<Spending> = rows.collect::<Result<_, _>>()?;
    Ok(rows::sum_spending(all.into_iter()))
}

/// Sums usage here and not in SQL: our sums saturate, while a sum in `SQLite` overflows.
pub(super) fn spent_since(db: &Connection, since: Time) -> Result<Usage, Error> {
    let mut select = db.prepare_cached(
        "SELECT usd_micros, tokens, wall_ms FROM events WHERE wall_ms IS NOT NULL AND at >= ?1",
    )?;
    let mut rows = select.query([since.0])?;
    let mut sum = Usage::default();
    while let Some(row) = rows.next()? {
        sum = sum.plus(Usage {
            usd_micros: nat(row.get(0)?),
            tokens: nat(row.get(1)?),
            wall_ms: nat(row.get(2)?),
            ..Usage::default()
        });
    }
    Ok(sum)
}
