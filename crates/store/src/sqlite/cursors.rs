//! Leased cursors of the readers of the event log. The table is called `bookmarks`.
//!
//! A cursor has one holder at a time, so an event is delivered by one process. After a crash
//! between delivery and move, the next holder delivers it again: at least once, never lost.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use crate::error::Error;
use crate::record::Cursor;
use crate::rows::{clean, int, lease_end, nat};

use super::writer::Tx;

impl Tx<'_> {
    pub(super) fn take_cursor(
        &self,
        name: &str,
        holder: &str,
        start: Cursor,
        lease: Duration,
    ) -> Result<Option<Cursor>, Error> {
        // An existing row keeps its position. Only the first caller's start counts, so a restart
        // does not skip events.
        let mut upsert = self.db.prepare_cached(
            "INSERT INTO bookmarks (name, tx, sequence, holder, lease_until)
            VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (name) DO UPDATE
                SET holder = excluded.holder, lease_until = excluded.lease_until
                WHERE bookmarks.holder = excluded.holder OR bookmarks.lease_until <= ?6
            RETURNING tx, sequence",
        )?;
        let values = params![
            clean(name),
            int(start.transaction),
            int(start.sequence),
            clean(holder),
            lease_end(self.now, lease),
            self.now,
        ];
        let position = upsert.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)));
        let cursor = position.optional()?.map(|(transaction, sequence)| Cursor {
            transaction: nat(transaction),
            sequence: nat(sequence),
        });
        Ok(cursor)
    }

    pub(super) fn move_cursor(
        &self,
        name: &str,
        holder: &str,
        to: Cursor,
        lease: Duration,
    ) -> Result<bool, Error> {
        // Holding is enough: a lease that ran out but was not taken is still good for its holder.
        let mut update = self.db.prepare_cached(
            "UPDATE bookmarks SET tx = ?3, sequence = ?4, lease_until = ?5
            WHERE name = ?1 AND holder = ?2",
        )?;
        let moved = update.execute(params![
            clean(name),
            clean(holder),
            int(to.transaction),
            int(to.sequence),
            lease_end(self.now, lease),
        ])?;
        Ok(moved > 0)
    }
}
