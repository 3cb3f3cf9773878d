//! Epics, pauses, provider limits, messages and agents.

use rusqlite::{Connection, params};

use flow::Time;

use crate::batched::UnreadMessages;
use crate::error::Error;
use crate::record::{Agent, Epic, Message, NewMessage, Pause, PauseScope};
use crate::rows::{self, clean, time};

use super::writer::{Tx, now};

impl Tx<'_> {
    pub(super) fn limit_provider(&self, provider: &str, most: Option<u32>) -> Result<bool, Error> {
        // SQLite keeps a NUL character, and PostgreSQL refuses it. Both must store the same.
        let provider = clean(provider);
        let changed = match most {
            Some(most) => self
                .db
                .prepare_cached(
                    "INSERT INTO provider_limits (provider, most) VALUES (?1, ?2)
                    ON CONFLICT (provider) DO UPDATE SET most = excluded.most",
                )?
                .execute(params![provider, most])?,
            // No row is no limit, so that a claim has one thing to look for.
            None => self
                .db
                .prepare_cached("DELETE FROM provider_limits WHERE provider = ?1")?
                .execute([provider])?,
        };
        Ok(changed > 0)
    }

    pub(super) fn put_epic(&self, epic: &Epic) -> Result<(), Error> {
        let body = serde_json::to_string(&epic.body)?;
        self.db
            .prepare_cached(
                "INSERT INTO epics (id, title, body, updated_at) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (id) DO UPDATE SET title = excluded.title, body = excluded.body,
                    updated_at = excluded.updated_at",
            )?
            .execute(params![
                clean(&epic.id),
                clean(&epic.title),
                body,
                epic.updated_at.0
            ])?;
        Ok(())
    }

    pub(super) fn pause(&self, pause: &Pause) -> Result<(), Error> {
        // One pause for each name: a second one replaces reason and end.
        let (scope, name) = pause.scope.parts();
        let until = pause.until.map(|time| time.0);
        self.db
            .prepare_cached(
                "INSERT INTO pauses (scope, name, until, why, by) VALUES (?1, ?2, ?3, ?4, ?5)
                ON CONFLICT (scope, name) DO UPDATE SET until = excluded.until,
                    why = excluded.why, by = excluded.by",
            )?
            .execute(params![
                scope,
                name,
                until,
                clean(&pause.why),
                clean(&pause.by)
            ])?;
        Ok(())
    }

    pub(super) fn resume(&mut self, scope: &PauseScope) -> Result<bool, Error> {
        let (scope, name) = scope.parts();
        // A paused worker may be waiting; any queue name wakes all waiters.
        self.made_ready(&name);
        let removed = self
            .db
            .prepare_cached("DELETE FROM pauses WHERE scope = ?1 AND name = ?2")?
            .execute(params![scope, name])?;
        Ok(removed > 0)
    }

    pub(super) fn send(&self, message: &NewMessage) -> Result<i64, Error> {
        self.db
            .prepare_cached(
                "INSERT INTO messages (at, sender, recipient, kind, ticket, content)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                message.at.0,
                clean(&message.from),
                clean(&message.to),
                clean(&message.kind),
                message.ticket.as_ref().map(flow::TicketId::as_str),
                clean(&message.content),
            ])?;
        Ok(self.db.last_insert_rowid())
    }

    pub(super) fn mark_processed(&self, message: i64, at: Time) -> Result<bool, Error> {
        let marked = self
            .db
            .prepare_cached(
                // The first reader counts; a later one learns that it was not the first.
                "UPDATE messages SET processed_at = ?2 WHERE id = ?1 AND processed_at IS NULL",
            )?
            .execute(params![message, at.0])?;
        Ok(marked > 0)
    }

    pub(super) fn beat(&self, agent: &Agent) -> Result<(), Error> {
        let body = serde_json::to_string(&agent.body)?;
        self.db
            .prepare_cached(
                "INSERT INTO agents (name, role, seen_at, body) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (name) DO UPDATE SET role = excluded.role,
                    seen_at = excluded.seen_at, body = excluded.body",
            )?
            .execute(params![
                clean(&agent.name),
                clean(&agent.role),
                agent.seen_at.0,
                body
            ])?;
        Ok(())
    }
}

pub(super) fn epics(db: &Connection) -> Result<Vec<Epic>, Error> {
    let mut select =
        db.prepare_cached("SELECT id, title, body, updated_at FROM epics ORDER BY id")?;
    let mut rows = select.query([])?;
    let mut epics = Vec::new();
    while let Some(row) = rows.next()? {
        epics.push(Epic {
            id: row.get(0)?,
            title: row.get(1)?,
            body: rows::decode(&row.get::<_, String>(2)?)?,
            updated_at: time(row.get(3)?),
        });
    }
    Ok(epics)
}

pub(super) fn provider_limits(db: &Connection) -> Result<Vec<(String, u32)>, Error> {
    let sql = "SELECT provider, most FROM provider_limits ORDER BY provider";
    let mut select = db.prepare_cached(sql)?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Lists the pauses in force, without those that have ended by themselves.
pub(super) fn pauses(db: &Connection) -> Result<Vec<Pause>, Error> {
    let mut select = db.prepare_cached(
        "SELECT scope, name, until, why, by FROM pauses WHERE until IS NULL OR until > ?1
        ORDER BY scope, name",
    )?;
    let mut rows = select.query([now(db)?])?;
    let mut pauses = Vec::new();
    while let Some(row) = rows.next()? {
        pauses.push(Pause {
            scope: PauseScope::read(&row.get::<_, String>(0)?, row.get(1)?)?,
            until: row.get::<_, Option<i64>>(2)?.map(time),
            why: row.get(3)?,
            by: row.get(4)?,
        });
    }
    Ok(pauses)
}

pub(super) fn messages(db: &Connection, request: &UnreadMessages) -> Result<Vec<Message>, Error> {
    let mut select = db.prepare_cached(
        "SELECT id, at, sender, recipient, kind, ticket, content, processed_at FROM messages
        WHERE recipient = ?1 AND processed_at IS NULL ORDER BY id LIMIT ?2",
    )?;
    let mut rows = select.query(params![request.to, request.most])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(Message {
            id: row.get(0)?,
            message: NewMessage {
                at: time(row.get(1)?),
                from: row.get(2)?,
                to: row.get(3)?,
                kind: row.get(4)?,
                ticket: row
                    .get::<_, Option<String>>(5)?
                    .map(rows::ticket_id)
                    .transpose()?,
                content: row.get(6)?,
            },
            processed_at: row.get::<_, Option<i64>>(7)?.map(time),
        });
    }
    Ok(messages)
}

pub(super) fn agents(db: &Connection) -> Result<Vec<Agent>, Error> {
    let mut select =
        db.prepare_cached("SELECT name, role, seen_at, body FROM agents ORDER BY name")?;
    let mut rows = select.query([])?;
    let mut agents = Vec::new();
    while let Some(row) = rows.next()? {
        agents.push(Agent {
            name: row.get(0)?,
            role: row.get(1)?,
            seen_at: time(row.get(2)?),
            body: rows::decode(&row.get::<_, String>(3)?)?,
        });
    }
    Ok(agents)
}
