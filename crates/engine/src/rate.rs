//! How often one may call, or have a refusal noted: a bucket for each name, filled again as time
//! goes by.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::time::Instant;

/// More names than this are not told apart: the table begins anew.
const NAMES_MAX: usize = 10_000;

#[derive(Debug)]
pub struct RateLimiter {
    /// How many may come at once, and how many a second are given back.
    burst: f64,
    a_second: f64,
    buckets: Mutex<HashMap<String, RateBucket>>,
}

#[derive(Debug)]
struct RateBucket {
    left: f64,
    seen: Instant,
}

/// The rate of refusals that are noted.
impl Default for RateLimiter {
    fn default() -> Self {
        Self::of_refusals()
    }
}

impl RateLimiter {
    pub fn of_calls() -> Self {
        Self::new(2000.0, 1000.0)
    }

    /// Each is an event; a flood of them must not fill the log.
    pub fn of_refusals() -> Self {
        Self::new(100.0, 1.0)
    }

    fn new(burst: f64, a_second: f64) -> Self {
        Self {
            burst,
            a_second,
            buckets: Mutex::default(),
        }
    }

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
        let bucket = buckets.entry(name.to_owned()).or_insert(RateBucket {
            left: self.burst,
            seen: now,
        });
        let since = now.duration_since(bucket.seen).as_secs_f64();
        bucket.left = (bucket.left + since * self.a_second).min(self.burst);
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
        let rates = RateLimiter::of_calls();
        let let_in = (0..3000).filter(|_| rates.admit("a")).count();
        assert!(let_in < 3000, "{let_in}");
        assert!(rates.admit("b"));
        let noted = RateLimiter::of_refusals();
        assert!((0..3000).filter(|_| noted.admit("a")).count() < 200);
    }
}
