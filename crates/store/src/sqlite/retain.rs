//! Removes old data in bounded slices, so that other writes never wait long. It never touches data
//! of a ticket that is not terminal.

use rusqlite::params;
use serde_json::json;

use crate::error::Error;
use crate::record::Retention;

use super::writer::Tx;

/// Rows per slice. A slice is one transaction, and other writers wait for it.
pub(super) const SLICE: i64 = 500;

/// Ended jobs without a ticket, or of a terminal one.
const JOBS: &str = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs
    WHERE state IN ('done', 'dropped', 'dead') AND ended_at < ?1
        AND (ticket IS NULL OR (SELECT stage FROM tickets WHERE tickets.id = jobs.ticket)
            IN ('done', 'failed', 'cancelled'))
    LIMIT ?2)";

const MESSAGES: &str = "DELETE FROM messages WHERE id IN (SELECT id FROM messages
    WHERE processed_at < ?1 LIMIT ?2)";

/// Claims as old as this have long been reported or lost.
const STATEMENTS: &str = "DELETE FROM claim_statements WHERE id IN (SELECT id FROM claim_statements
    WHERE at < ?1 LIMIT ?2)";

const ANSWERS: &str = "DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers
    WHERE at < ?1 LIMIT ?2)";

/// Events that changed no ticket, except those about a live ticket. The newest event stays, so that
/// its number is not reused.
const NOTES: &str = "DELETE FROM events WHERE sequence IN (SELECT sequence FROM events
    WHERE version IS NULL AND at < ?1 AND sequence < (SELECT max(sequence) FROM events)
        AND coalesce((SELECT stage FROM tickets WHERE tickets.id = events.ticket), 'done')
            IN ('done', 'failed', 'cancelled')
    LIMIT ?2)";

/// Terminal tickets that no live ticket depends on.
const TICKETS: &str = "SELECT id FROM tickets
    WHERE stage IN ('done', 'failed', 'cancelled') AND updated_at < ?1
        AND NOT EXISTS (SELECT 1 FROM dependencies
            JOIN tickets AS live ON live.id = dependencies.dependant
            WHERE dependencies.dependency = tickets.id
                AND live.stage NOT IN ('done', 'failed', 'cancelled'))
    LIMIT ?2";

#[derive(Clone, Copy, Debug)]
pub(super) enum Sort {
    Jobs,
    Messages,
    Statements,
    Answers,
    Notes,
    Tickets,
}

impl Tx<'_> {
    /// Removes one slice of a kind of data; returns the number of removed rows.
    pub(super) fn remove(&self, sort: Sort, retention: &Retention) -> Result<u64, Error> {
        let sql = match sort {
            Sort::Jobs => JOBS,
            Sort::Messages => MESSAGES,
            Sort::Statements => STATEMENTS,
            Sort::Answers => ANSWERS,
            Sort::Notes => NOTES,
            Sort::Tickets => return self.remove_tickets(retention),
        };
        let mut delete = self.db.prepare_cached(sql)?;
        let removed = delete.execute(params![retention.before.0, SLICE])?;
        Ok(removed as u64)
    }

    fn remove_tickets(&self, retention: &Retention) -> Result<u64, Error> {
        if !retention.tickets {
            return Ok(0);
        }
        let mut select = self.db.prepare_cached(TICKETS)?;
        let ids: Vec<String> = select
            .query_map(params![retention.before.0, SLICE], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        // The event is written first, in the same transaction as the removal.
        if !ids.is_empty() {
            // This event also prevents the number of the newest event from being reused.
            let story = json!({ "removed": ids.len() });
            self.log_event("tickets_removed", "", None, &story)?;
        }
        // The order follows the references: a ticket goes after the rows that name it.
        for id in &ids {
            for sql in [
                "DELETE FROM jobs WHERE ticket = ?1",
                "DELETE FROM events WHERE ticket = ?1",
                "DELETE FROM tickets WHERE id = ?1",
            ] {
                self.db.prepare_cached(sql)?.execute([id])?;
            }
        }
        Ok(ids.len() as u64)
    }
}
