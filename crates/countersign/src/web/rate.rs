//! How often one may call: a bucket for each name, filled again as time goes by.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::time::Instant;

/// Calls that may come at once, and how many a second are given back.
const BURST: f64 = 2000.0;
const A_SECOND: f64 = 1000.0;
/// More names than this are not told apart: the table begins anew.
const NAMES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct Rates {
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    seen: Instant,
}

impl Rates {
    /// Whether one more call of that name is let in.
    pub fn admit(&self, name: &str) -> bool {
        let now = Instant::now();
        // A panic elsewhere has not harmed the numbers in here.
        let mut buckets = self
            .buckets
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if buckets.len() >= NAMES_MAX && !buckets.contains_key(name) {
            buckets.clear();
        }
        let bucket = buckets.entry(name.to_owned()).or_insert(Bucket {
            left: BURST,
            seen: now,
        });
        let since = now.duration_since(bucket.seen).as_secs_f64();
        bucket.left = (bucket.left + since * A_SECOND).min(BURST);
        bucket.seen = now;
        let admitted = bucket.left >= 1.0;
        if admitted {
            bucket.left -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_too_often_waits_and_others_do_not() {
        let rates = Rates::default();
        let let_in = (0..3000).filter(|_| rates.admit("a")).count();
        assert!(let_in < 3000, "{let_in}");
        assert!(rates.admit("b"));
    }
}
