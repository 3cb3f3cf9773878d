//! Leased cursors of the readers of the event log. The table is called `bookmarks`.

use std::time::Duration;

use crate::error::Error;
use crate::record::Cursor;
use crate::rows::{clean, int, lease_end, nat};

use super::Postgres;
use super::pipeline::values;

impl Postgres {
    pub(super) async fn hold_cursor(
        &self,
        name: &str,
        holder: &str,
        start: Cursor,
        lease: Duration,
    ) -> Result<Option<Cursor>, Error> {
        let sql = "INSERT INTO bookmarks (name, tx, sequence, holder, lease_until)
            VALUES ($1, $2, $3, $4, clock_ms() + $5)
            ON CONFLICT (name) DO UPDATE
                SET holder = excluded.holder, lease_until = excluded.lease_until
                WHERE bookmarks.holder = excluded.holder OR bookmarks.lease_until <= clock_ms()
            RETURNING tx, sequence";
        let values = values![
            clean(name),
            int(start.transaction),
            int(start.sequence),
            clean(holder),
            lease_end(0, lease),
        ];
        let rows = self.change(sql, values).await?;
        Ok(rows.first().map(|row| Cursor {
            transaction: nat(row.get(0)),
            sequence: nat(row.get(1)),
        }))
    }

    pub(super) async fn shift_cursor(
        &self,
        name: &str,
        holder: &str,
        to: Cursor,
        lease: Duration,
    ) -> Result<bool, Error> {
        let sql = "UPDATE bookmarks SET tx = $3, sequence = $4, lease_until = clock_ms() + $5
            WHERE name = $1 AND holder = $2 RETURNING 1";
        let values = values![
            clean(name),
            clean(holder),
            int(to.transaction),
            int(to.sequence),
            lease_end(0, lease),
        ];
        Ok(!self.change(sql, values).await?.is_empty())
    }
}
