//! Writes decisions about tickets, and reads tickets.
//!
//! The ticket's body is the truth. The other columns and tables repeat parts of it for lists and
//! filters, and are written in the same transaction. It refuses a decision that was made on an
//! older version.

use rusqlite::{Connection, OptionalExtension, Row, named_params, params, params_from_iter};

use flow::{Stage, TicketId};

use crate::change::{Artefact, CommitOutcome};
use crate::error::Error;
use crate::listing::{Bind, Listing};
use crate::notifier::LOG;
use crate::record::{Page, Paged, Stored, TicketQuery, TicketRow};
use crate::rows::{self, Encoded, TicketColumns, int, nat, nat32, time};

use super::writer::Tx;

impl Tx<'_> {
    /// Writes a whole decision ([`crate::Tickets::commit`]). All guards run before the first write.
    /// There is one writer at a time (BEGIN IMMEDIATE), so a guard stays true until the commit.
    pub(super) fn commit(&mut self, change: &Encoded) -> Result<CommitOutcome, Error> {
        // A repeated call must get the first answer, even if the ticket has moved on since then.
        if let Some(remember) = &change.remember
            && let Some(first) = self.answered(remember)?
        {
            return Ok(CommitOutcome::Again(first));
        }
        // Guards are all reads, so a refusal leaves nothing to roll back.
        self.assert_reads(&change.reads)?;
        self.assert_lease(change)?;
        let number = self.put_ticket(change)?;
        self.put_projections(change)?;
        self.put_policy(&change.policy_id, &change.policy_body)?;
        self.append(&change.event)?;
        self.made_ready(LOG);
        self.turn_jobs(&change.ticket.id, &change.turns)?;
        self.add_jobs(&change.new_jobs)?;
        self.put_artefacts(&change.artefacts)?;
        if let Some(remember) = &change.remember {
            // The answer is remembered in the same transaction: after a crash a repeated call
            // either finds it or finds nothing done.
            self.remember(remember)?;
        }
        // The next claim rides along, which saves the worker a round trip and the disk a sync.
        let claimed = match &change.then {
            Some(request) => self.claim_if_room(request)?,
            None => Vec::new(),
        };
        Ok(CommitOutcome::Written { number, claimed })
    }

    fn assert_reads(&self, reads: &[(String, i64)]) -> Result<(), Error> {
        let mut select = self
            .db
            .prepare_cached("SELECT version FROM tickets WHERE id = ?1")?;
        for (id, expected) in reads {
            let version: Option<i64> = select.query_row([id], |row| row.get(0)).optional()?;
            if version != Some(*expected) {
                return Err(Error::ticket_changed(id));
            }
        }
        Ok(())
    }

    fn put_ticket(&self, change: &Encoded) -> Result<i64, Error> {
        let ticket = &change.ticket;
        let number = match change.was {
            None => self.insert_ticket(ticket)?,
            Some(was) => self.update_ticket(ticket, was)?,
        };
        // No row came back: the id exists already, or the version is no longer the expected one.
        number.ok_or_else(|| match (change.was, TicketId::new(&ticket.id)) {
            (None, Ok(id)) => Error::Exists(id),
            (None, Err(_)) | (Some(_), _) => Error::ticket_changed(&ticket.id),
        })
    }

    fn insert_ticket(&self, ticket: &TicketColumns) -> Result<Option<i64>, Error> {
        // An existing id is an answer here and not an error of the database.
        let sql =
            "INSERT INTO tickets (id, version, stage, title, priority, round, epic, repository,
                waits_for, open_must_fix, usd_micros, created_at, updated_at, policy, body)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
            ON CONFLICT (id) DO NOTHING RETURNING number";
        let values = params![
            ticket.id,
            ticket.version,
            ticket.stage,
            ticket.title,
            ticket.priority,
            ticket.round,
            ticket.epic,
            ticket.repository,
            ticket.waits_for,
            ticket.open_must_fix,
            ticket.usd_micros,
            ticket.created_at,
            ticket.updated_at,
            ticket.policy,
            ticket.body,
        ];
        let mut insert = self.db.prepare_cached(sql)?;
        Ok(insert.query_row(values, |row| row.get(0)).optional()?)
    }

    fn update_ticket(&self, ticket: &TicketColumns, was: i64) -> Result<Option<i64>, Error> {
        // The version in the condition is the compare-and-swap of the whole store.
        let sql = "UPDATE tickets SET version = :version, stage = :stage, title = :title,
                priority = :priority, round = :round, epic = :epic, repository = :repository,
                waits_for = :waits_for, open_must_fix = :open_must_fix, usd_micros = :usd_micros,
                updated_at = :updated_at, policy = :policy, body = :body
            WHERE id = :id AND version = :was RETURNING number";
        let values = named_params! {
            ":id": ticket.id,
            ":was": was,
            ":version": ticket.version,
            ":stage": ticket.stage,
            ":title": ticket.title,
            ":priority": ticket.priority,
            ":round": ticket.round,
            ":epic": ticket.epic,
            ":repository": ticket.repository,
            ":waits_for": ticket.waits_for,
            ":open_must_fix": ticket.open_must_fix,
            ":usd_micros": ticket.usd_micros,
            ":updated_at": ticket.updated_at,
            ":policy": ticket.policy,
            ":body": ticket.body,
        };
        let mut update = self.db.prepare_cached(sql)?;
        Ok(update.query_row(values, |row| row.get(0)).optional()?)
    }

    fn put_projections(&self, change: &Encoded) -> Result<(), Error> {
        self.put_rounds(change)?;
        self.put_findings(change)?;
        self.put_dependencies(&change.ticket.id, &change.depends_on)
    }

    /// Writes new rounds. A round with a verdict never changes.
    fn put_rounds(&self, change: &Encoded) -> Result<(), Error> {
        let mut insert = self.db.prepare_cached(
            "INSERT INTO rounds (ticket, number, commit_id, decided_at, approved, open_must_fix,
                overall_score, usd_micros, tokens, wall_ms)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        )?;
        for round in &change.rounds {
            insert.execute(params![
                change.ticket.id,
                round.number,
                round.commit,
                round.decided_at,
                round.approved,
                round.open_must_fix,
                round.overall_score,
                round.usage.usd_micros,
                round.usage.tokens,
                round.usage.wall_ms,
            ])?;
        }
        Ok(())
    }

    /// Writes new and changed ledger entries. The ledger only grows; an unchanged entry costs no
    /// write.
    fn put_findings(&self, change: &Encoded) -> Result<(), Error> {
        let mut upsert = self.db.prepare_cached(
            "INSERT INTO findings (ticket, id, fingerprint, severity, status, category, file, line,
                title, reported_by, first_round, last_round)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
            ON CONFLICT (ticket, id) DO UPDATE SET fingerprint = excluded.fingerprint,
                severity = excluded.severity, status = excluded.status,
                category = excluded.category, file = excluded.file, line = excluded.line,
                title = excluded.title, reported_by = excluded.reported_by,
                first_round = excluded.first_round, last_round = excluded.last_round
            WHERE (fingerprint, severity, status, category, file, line, title, reported_by,
                    last_round)
                IS NOT (excluded.fingerprint, excluded.severity, excluded.status,
                    excluded.category, excluded.file, excluded.line, excluded.title,
                    excluded.reported_by, excluded.last_round)",
        )?;
        for finding in &change.findings {
            upsert.execute(params![
                change.ticket.id,
                finding.id,
                finding.fingerprint,
                finding.severity,
                finding.status,
                finding.category,
                finding.file,
                finding.line,
                finding.title,
                finding.reported_by,
                finding.first_round,
                finding.last_round,
            ])?;
        }
        Ok(())
    }

    fn put_dependencies(&self, id: &str, dependencies: &[String]) -> Result<(), Error> {
        let mut select = self.db.prepare_cached(
            "SELECT dependency FROM dependencies WHERE dependant = ?1 ORDER BY dependency",
        )?;
        let stored: Vec<String> = select
            .query_map([id], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        // Dependencies rarely change, and an unchanged list costs one read and no write.
        if stored == dependencies {
            return Ok(());
        }
        self.db
            .prepare_cached("DELETE FROM dependencies WHERE dependant = ?1")?
            .execute([id])?;
        let mut insert = self
            .db
            .prepare_cached("INSERT INTO dependencies (dependency, dependant) VALUES (?1, ?2)")?;
        for dependency in dependencies {
            insert.execute([dependency.as_str(), id])?;
        }
        Ok(())
    }

    fn put_artefacts(&self, artefacts: &[Artefact]) -> Result<(), Error> {
        let mut upsert = self.db.prepare_cached(
            "INSERT INTO artefacts (ticket, round, kind, name, path, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT (ticket, round, kind, name, path) DO UPDATE SET bytes = excluded.bytes",
        )?;
        for artefact in artefacts {
            upsert.execute(params![
                artefact.ticket.as_str(),
                artefact.round,
                artefact.kind,
                artefact.name,
                artefact.path,
                int(artefact.bytes),
            ])?;
        }
        Ok(())
    }
}

pub(super) fn by_id(db: &Connection, id: &str) -> Result<Option<Stored>, Error> {
    let mut select = db.prepare_cached("SELECT number, policy, body FROM tickets WHERE id = ?1")?;
    stored(select.query_row([id], parts).optional()?)
}

fn parts(row: &Row<'_>) -> rusqlite::Result<(i64, String, String)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn stored(row: Option<(i64, String, String)>) -> Result<Option<Stored>, Error> {
    let Some((number, policy, body)) = row else {
        return Ok(None);
    };
    Ok(Some(Stored {
        number,
        policy,
        ticket: rows::decode(&body)?,
    }))
}

pub(super) fn count(db: &Connection, query: &TicketQuery) -> Result<Vec<(Stage, u64)>, Error> {
    let listing = Listing::stage_counts(query, '?');
    let mut select = db.prepare_cached(&listing.sql)?;
    let mut rows = select.query(params_from_iter(&listing.binds))?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next()? {
        counts.push((rows::stage(&row.get::<_, String>(0)?)?, nat(row.get(1)?)));
    }
    // The database sorts stages by their words, the caller wants them in the order of the flow.
    counts.sort_unstable();
    Ok(counts)
}

pub(super) fn list(
    db: &Connection,
    query: &TicketQuery,
    page: &Page,
) -> Result<Paged<TicketRow>, Error> {
    let listing = Listing::tickets(rows::TICKET_COLUMNS, query, page, '?');
    let mut select = db.prepare_cached(&listing.sql)?;
    let mut rows = select.query(params_from_iter(&listing.binds))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(line(row)?);
    }
    Ok(listing.page(items, |row| row.number))
}

fn line(row: &Row<'_>) -> Result<TicketRow, Error> {
    Ok(TicketRow {
        number: row.get(0)?,
        id: rows::ticket_id(row.get(1)?)?,
        title: row.get(2)?,
        stage: rows::stage(&row.get::<_, String>(3)?)?,
        priority: row.get(4)?,
        round: nat32(row.get(5)?),
        epic: row.get(6)?,
        repository: row.get(7)?,
        version: nat(row.get(8)?),
        waits_for: nat32(row.get(9)?),
        open_must_fix: nat32(row.get(10)?),
        usd_micros: nat(row.get(11)?),
        created_at: time(row.get(12)?),
        updated_at: time(row.get(13)?),
    })
}

pub(super) fn artefacts(db: &Connection, ticket: &TicketId) -> Result<Vec<Artefact>, Error> {
    let mut select = db.prepare_cached(
        "SELECT round, kind, name, path, bytes FROM artefacts WHERE ticket = ?1
        ORDER BY round, rowid",
    )?;
    let rows = select.query_map([ticket.as_str()], |row| {
        Ok(Artefact {
            ticket: ticket.clone(),
            round: nat32(row.get(0)?),
            kind: row.get(1)?,
            name: row.get(2)?,
            path: row.get(3)?,
            bytes: nat(row.get(4)?),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl rusqlite::ToSql for Bind {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Number(number) => number.to_sql(),
        }
    }
}
