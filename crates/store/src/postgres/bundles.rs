//! Git bundles: stored, requested, and read by their key.

use crate::bundle::{BUNDLE_MS_MAX, StoredBundle};
use crate::error::Error;
use crate::rows::clean;

use super::Postgres;
use super::pipeline::values;

impl Postgres {
    pub(super) async fn upsert_bundle(&self, bundle: StoredBundle) -> Result<(), Error> {
        let sql = "WITH old AS (DELETE FROM parcels WHERE at < clock_ms() - $5 AND key <> $1)
            INSERT INTO parcels (key, tip, why, wanted, at, bytes)
            VALUES ($1, $2, $3, false, clock_ms(), $4)
            ON CONFLICT (key) DO UPDATE SET tip = excluded.tip, why = excluded.why, wanted = false,
                at = excluded.at, bytes = excluded.bytes RETURNING 1";
        let values = values![
            clean(&bundle.key),
            clean(&bundle.tip),
            bundle.why.as_deref().map(clean),
            bundle.bytes,
            BUNDLE_MS_MAX,
        ];
        self.change(sql, values).await.map(drop)
    }

    pub(super) async fn wish_bundle(&self, key: &str) -> Result<(), Error> {
        let sql =
            "INSERT INTO parcels AS p (key, tip, wanted, at) VALUES ($1, '', true, clock_ms())
            ON CONFLICT (key) DO UPDATE SET wanted = true WHERE NOT p.wanted RETURNING 1";
        self.change(sql, values![clean(key)]).await.map(drop)
    }

    pub(super) async fn list_wanted(&self, most: u32) -> Result<Vec<String>, Error> {
        let sql = "SELECT key FROM parcels WHERE wanted ORDER BY at LIMIT $1";
        let rows = self.read(sql, values![i64::from(most)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(super) async fn one_bundle(&self, key: &str) -> Result<Option<StoredBundle>, Error> {
        let sql = "SELECT key, tip, why, bytes FROM parcels WHERE key = $1";
        let rows = self.read(sql, values![clean(key)]).await?;
        Ok(rows.first().map(|row| StoredBundle {
            key: row.get(0),
            tip: row.get(1),
            why: row.get(2),
            bytes: row.get(3),
        }))
    }
}
