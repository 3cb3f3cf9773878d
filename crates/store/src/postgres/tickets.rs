//! SQL statements of tickets, and reading of their rows.

use flow::{Stage, TicketId};
use tokio_postgres::Row;

use crate::change::Artefact;
use crate::error::Error;
use crate::listing::{Bind, Listing};
use crate::record::{Page, Paged, Stored, TicketQuery, TicketRow};
use crate::rows::{self, Encoded, clean, int, nat, nat32, time};

use super::Postgres;
use super::pipeline::{Pipeline, StepIndex, Value, values};

const COLUMNS: &str = "id, version, stage, title, priority, round, epic, repository, waits_for, \
    open_must_fix, usd_micros, created_at, updated_at, policy, body";

/// Inserts a ticket, or updates it if its version matches; the returned row has its number.
pub(super) fn put(steps: &mut Pipeline, change: &Encoded) -> StepIndex {
    let ticket = &change.ticket;
    let mut values = values![
        ticket.id.clone(),
        ticket.version,
        ticket.stage,
        ticket.title.clone(),
        ticket.priority,
        ticket.round,
        ticket.epic.clone(),
        ticket.repository.clone(),
        ticket.waits_for,
        ticket.open_must_fix,
        ticket.usd_micros,
        ticket.created_at,
        ticket.updated_at,
        ticket.policy.clone(),
        ticket.body.clone(),
    ];
    let Some(was) = change.was else {
        let sql = format!(
            "INSERT INTO tickets ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
                $11, $12, $13, $14, $15)
            ON CONFLICT (id) DO NOTHING RETURNING number"
        );
        return steps.push(sql, values);
    };
    values.push(Box::new(was));
    let sql = format!(
        "UPDATE tickets SET ({COLUMNS}) = ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
            $13, $14, $15)
        WHERE id = $1 AND version = $16 RETURNING number"
    );
    steps.push(sql, values)
}

pub(super) fn put_projections(steps: &mut Pipeline, change: &Encoded) {
    let id = &change.ticket.id;
    for round in &change.rounds {
        steps.push(
            "INSERT INTO rounds (ticket, number, commit_id, decided_at, approved, open_must_fix,
                overall_score, usd_micros, tokens, wall_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
            values![
                id.clone(),
                round.number,
                round.commit.clone(),
                round.decided_at,
                round.approved,
                round.open_must_fix,
                round.overall_score,
                round.usage.usd_micros,
                round.usage.tokens,
                round.usage.wall_ms,
            ],
        );
    }
    put_findings(steps, change);
    if change.was.is_some() || !change.depends_on.is_empty() {
        steps.push(
            "WITH gone AS (DELETE FROM dependencies
                WHERE dependant = $1 AND dependency <> ALL ($2::text[]))
            INSERT INTO dependencies (dependency, dependant)
            SELECT unnest($2::text[]), $1 ON CONFLICT DO NOTHING",
            values![id.clone(), change.depends_on.clone()],
        );
    }
}

fn put_findings(steps: &mut Pipeline, change: &Encoded) {
    for finding in &change.findings {
        steps.push(
            "INSERT INTO findings AS f (ticket, id, fingerprint, severity, status, category, file,
                line, title, reported_by, first_round, last_round)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            ON CONFLICT (ticket, id) DO UPDATE SET fingerprint = excluded.fingerprint,
                severity = excluded.severity, status = excluded.status,
                category = excluded.category, file = excluded.file, line = excluded.line,
                title = excluded.title, reported_by = excluded.reported_by,
                first_round = excluded.first_round, last_round = excluded.last_round
            WHERE f IS DISTINCT FROM excluded",
            values![
                change.ticket.id.clone(),
                finding.id.clone(),
                finding.fingerprint.clone(),
                finding.severity,
                finding.status.clone(),
                finding.category.clone(),
                finding.file.clone(),
                finding.line,
                finding.title.clone(),
                finding.reported_by.clone(),
                finding.first_round,
                finding.last_round,
            ],
        );
    }
}

pub(super) fn put_artefacts(steps: &mut Pipeline, artefacts: &[Artefact]) {
    for artefact in artefacts {
        steps.push(
            "INSERT INTO artefacts (ticket, round, kind, name, path, bytes)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (ticket, round, kind, name, path) DO UPDATE SET bytes = excluded.bytes",
            values![
                artefact.ticket.to_string(),
                i64::from(artefact.round),
                clean(&artefact.kind),
                clean(&artefact.name),
                clean(&artefact.path),
                int(artefact.bytes),
            ],
        );
    }
}

impl Postgres {
    pub(super) async fn one_ticket(
        &self,
        sql: &str,
        value: Value,
    ) -> Result<Option<Stored>, Error> {
        let rows = self.read(sql, vec![value]).await?;
        rows.first().map(stored).transpose()
    }

    pub(super) async fn list_tickets(
        &self,
        query: &TicketQuery,
        page: &Page,
    ) -> Result<Paged<TicketRow>, Error> {
        let listing = Listing::tickets(rows::TICKET_COLUMNS, query, page, '$');
        let rows = self.read(&listing.sql, binds(&listing)).await?;
        let items = rows.iter().map(line).collect::<Result<_, _>>()?;
        Ok(listing.page(items, |row| row.number))
    }

    pub(super) async fn count_stages(
        &self,
        query: &TicketQuery,
    ) -> Result<Vec<(Stage, u64)>, Error> {
        let listing = Listing::stage_counts(query, '$');
        let rows = self.read(&listing.sql, binds(&listing)).await?;
        let decode = |row: &Row| Ok((rows::stage(row.get(0))?, nat(row.get(1))));
        let mut counts: Vec<(Stage, u64)> =
            rows.iter().map(decode).collect::<Result<_, Error>>()?;
        counts.sort_unstable();
        Ok(counts)
    }

    pub(super) async fn list_artefacts(&self, ticket: &TicketId) -> Result<Vec<Artefact>, Error> {
        let sql = "SELECT round, kind, name, path, bytes FROM artefacts WHERE ticket = $1
            ORDER BY round, number";
        let rows = self.read(sql, values![ticket.to_string()]).await?;
        let decode = |row: &Row| Artefact {
            ticket: ticket.clone(),
            round: nat32(row.get(0)),
            kind: row.get(1),
            name: row.get(2),
            path: row.get(3),
            bytes: nat(row.get(4)),
        };
        Ok(rows.iter().map(decode).collect())
    }
}

pub(super) fn binds(listing: &Listing) -> Vec<Value> {
    let bind = |bind: &Bind| match bind {
        Bind::Text(text) => Box::new(text.clone()) as Value,
        Bind::Number(number) => Box::new(*number),
    };
    listing.binds.iter().map(bind).collect()
}

fn stored(row: &Row) -> Result<Stored, Error> {
    Ok(Stored {
        number: row.get(0),
        policy: row.get(1),
        ticket: rows::decode(row.get(2))?,
    })
}

fn line(row: &Row) -> Result<TicketRow, Error> {
    Ok(TicketRow {
        number: row.get(0),
        id: rows::ticket_id(row.get(1))?,
        title: row.get(2),
        stage: rows::stage(row.get(3))?,
        priority: row.get(4),
        round: nat32(row.get(5)),
        epic: row.get(6),
        repository: row.get(7),
        version: nat(row.get(8)),
        waits_for: nat32(row.get(9)),
        open_must_fix: nat32(row.get(10)),
        usd_micros: nat(row.get(11)),
        created_at: time(row.get(12)),
        updated_at: time(row.get(13)),
    })
}
