//! Statements of agents under a claim, and rules of repositories.

use flow::TicketId;
use flow::event::Lease;
use rusqlite::{Connection, params};

use crate::error::Error;
use crate::record::{ClaimStatement, ProjectRule, RuleUpdate, StatementKind};
use crate::rows::{clean, int, time};

use super::writer::Tx;

impl Tx<'_> {
    pub(super) fn add_statement(&self, statement: &ClaimStatement) -> Result<(), Error> {
        let (kind, finding) = statement.kind.parts();
        self.db
            .prepare_cached(
                "INSERT INTO claim_statements (ticket, serial, fence, kind, finding, at, by, text)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                statement.ticket.as_str(),
                statement.lease.serial,
                int(statement.lease.fence),
                kind,
                finding,
                statement.at.0,
                clean(&statement.by),
                clean(&statement.text),
            ])?;
        Ok(())
    }

    pub(super) fn update_rule(&self, update: &RuleUpdate) -> Result<bool, Error> {
        let changed = match update {
            RuleUpdate::Answer {
                repository,
                accepted,
                text,
                by,
                at,
            } => self
                .db
                .prepare_cached(
                    "INSERT INTO project_rules (repository, accepted, text, by, at)
                    VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![
                    clean(repository),
                    accepted,
                    clean(text),
                    clean(by),
                    at.0
                ])?,
            RuleUpdate::Withdraw { id, at } => self
                .db
                .prepare_cached(
                    "UPDATE project_rules SET withdrawn_at = ?2
                    WHERE id = ?1 AND withdrawn_at IS NULL",
                )?
                .execute(params![id, at.0])?,
        };
        Ok(changed > 0)
    }
}

pub(super) fn of_claim(
    db: &Connection,
    (ticket, lease): (&TicketId, Lease),
    most: u32,
) -> Result<Vec<ClaimStatement>, Error> {
    let mut select = db.prepare_cached(
        "SELECT kind, finding, at, by, text FROM claim_statements
        WHERE ticket = ?1 AND serial = ?2 AND fence = ?3 ORDER BY id LIMIT ?4",
    )?;
    let values = params![ticket.as_str(), lease.serial, int(lease.fence), most];
    let mut rows = select.query(values)?;
    let mut statements = Vec::new();
    while let Some(row) = rows.next()? {
        statements.push(ClaimStatement {
            ticket: ticket.clone(),
            lease,
            kind: StatementKind::read(&row.get::<_, String>(0)?, row.get(1)?)?,
            at: time(row.get(2)?),
            by: row.get(3)?,
            text: row.get(4)?,
        });
    }
    Ok(statements)
}

pub(super) fn rules(
    db: &Connection,
    repository: &str,
    most: u32,
) -> Result<Vec<ProjectRule>, Error> {
    let mut select = db.prepare_cached(
        "SELECT id, accepted, text, by, at FROM project_rules
        WHERE repository = ?1 AND withdrawn_at IS NULL ORDER BY id LIMIT ?2",
    )?;
    let rows = select.query_map(params![clean(repository), most], |row| {
        Ok(ProjectRule {
            id: row.get(0)?,
            accepted: row.get(1)?,
            text: row.get(2)?,
            by: row.get(3)?,
            at: time(row.get(4)?),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
