//! Git bundles: stored, requested, and read by their key.

use rusqlite::{Connection, OptionalExtension, params};

use crate::bundle::{BUNDLE_MS_MAX, StoredBundle};
use crate::error::Error;
use crate::rows::clean;

use super::writer::Tx;

impl Tx<'_> {
    pub(super) fn put_bundle(&self, bundle: &StoredBundle) -> Result<(), Error> {
        let delete_old = "DELETE FROM parcels WHERE at < ?1";
        self.db
            .prepare_cached(delete_old)?
            .execute([self.now - BUNDLE_MS_MAX])?;
        let sql = "INSERT INTO parcels (key, tip, why, wanted, at, bytes)
            VALUES (?1, ?2, ?3, 0, ?4, ?5)
            ON CONFLICT (key) DO UPDATE SET tip = excluded.tip, why = excluded.why, wanted = 0,
                at = excluded.at, bytes = excluded.bytes";
        self.db.prepare_cached(sql)?.execute(params![
            clean(&bundle.key),
            clean(&bundle.tip),
            bundle.why.as_deref().map(clean),
            self.now,
            bundle.bytes,
        ])?;
        Ok(())
    }

    pub(super) fn want_bundle(&self, key: &str) -> Result<(), Error> {
        let sql = "INSERT INTO parcels (key, tip, wanted, at) VALUES (?1, '', 1, ?2)
            ON CONFLICT (key) DO UPDATE SET wanted = 1";
        self.db
            .prepare_cached(sql)?
            .execute(params![clean(key), self.now])?;
        Ok(())
    }
}

pub(super) fn wanted(db: &Connection, most: u32) -> Result<Vec<String>, Error> {
    let sql = "SELECT key FROM parcels WHERE wanted ORDER BY at LIMIT ?1";
    let mut select = db.prepare_cached(sql)?;
    let rows = select.query_map([most], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn one(db: &Connection, key: &str) -> Result<Option<StoredBundle>, Error> {
    let sql = "SELECT key, tip, why, bytes FROM parcels WHERE key = ?1";
    let mut select = db.prepare_cached(sql)?;
    let bundle = select.query_row([key], |row| {
        Ok(StoredBundle {
            key: row.get(0)?,
            tip: row.get(1)?,
            why: row.get(2)?,
            bytes: row.get(3)?,
        })
    });
    Ok(bundle.optional()?)
}
