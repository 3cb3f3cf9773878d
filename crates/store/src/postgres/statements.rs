//! Statements of agents under a claim, and rules of repositories.

use flow::TicketId;
use flow::event::Lease;
use tokio_postgres::Row;

use crate::error::Error;
use crate::record::{ClaimStatement, ProjectRule, RuleUpdate, StatementKind};
use crate::rows::{clean, int, time};

use super::Postgres;
use super::pipeline::values;

impl Postgres {
    pub(super) async fn insert_statement(&self, statement: &ClaimStatement) -> Result<(), Error> {
        let sql = "INSERT INTO claim_statements
                (ticket, serial, fence, kind, finding, at, by, text)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let (kind, finding) = statement.kind.parts();
        let values = values![
            statement.ticket.to_string(),
            i64::from(statement.lease.serial),
            int(statement.lease.fence),
            kind,
            finding,
            statement.at.0,
            clean(&statement.by),
            clean(&statement.text),
        ];
        self.change(sql, values).await.map(drop)
    }

    pub(super) async fn list_statements(
        &self,
        (ticket, lease): (&TicketId, Lease),
        most: u32,
    ) -> Result<Vec<ClaimStatement>, Error> {
        let sql = "SELECT kind, finding, at, by, text FROM claim_statements
            WHERE ticket = $1 AND serial = $2 AND fence = $3 ORDER BY id LIMIT $4";
        let values = values![
            ticket.to_string(),
            i64::from(lease.serial),
            int(lease.fence),
            i64::from(most),
        ];
        let decode = |row: &Row| {
            Ok(ClaimStatement {
                ticket: ticket.clone(),
                lease,
                kind: StatementKind::read(row.get(0), row.get(1))?,
                at: time(row.get(2)),
                by: row.get(3),
                text: row.get(4),
            })
        };
        self.read(sql, values).await?.iter().map(decode).collect()
    }

    pub(super) async fn change_rule(&self, update: RuleUpdate) -> Result<bool, Error> {
        let (sql, values) = match update {
            RuleUpdate::Answer {
                repository,
                accepted,
                text,
                by,
                at,
            } => (
                "INSERT INTO project_rules (repository, accepted, text, by, at)
                VALUES ($1, $2, $3, $4, $5) RETURNING 1",
                values![clean(&repository), accepted, clean(&text), clean(&by), at.0],
            ),
            RuleUpdate::Withdraw { id, at } => (
                "UPDATE project_rules SET withdrawn_at = $2
                WHERE id = $1 AND withdrawn_at IS NULL RETURNING 1",
                values![id, at.0],
            ),
        };
        Ok(!self.change(sql, values).await?.is_empty())
    }

    pub(super) async fn list_rules(
        &self,
        repository: &str,
        most: u32,
    ) -> Result<Vec<ProjectRule>, Error> {
        let sql = "SELECT id, accepted, text, by, at FROM project_rules
            WHERE repository = $1 AND withdrawn_at IS NULL ORDER BY id LIMIT $2";
        let decode = |row: &Row| ProjectRule {
            id: row.get(0),
            accepted: row.get(1),
            text: row.get(2),
            by: row.get(3),
            at: time(row.get(4)),
        };
        let rows = self
            .read(sql, values![clean(repository), i64::from(most)])
            .await?;
        Ok(rows.iter().map(decode).collect())
    }
}
