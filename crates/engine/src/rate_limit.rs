//! Rate limits for calls and for recorded refusals: a token bucket per name, refilled over time.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::time::Instant;

/// Maximum number of buckets; one more name clears the table.
const NAMES_MAX: usize = 10_000;

#[derive(Debug)]
pub struct RateLimiter {
    /// Calls that may come at once, and calls that are refilled per second.
    burst: f64,
    a_second: f64,
    buckets: Mutex<HashMap<String, RateBucket>>,
}

#[derive(Debug)]
struct RateBucket {
    left: f64,
    seen: Instant,
}

/// Uses the limit for recorded refusals.
impl Default for RateLimiter {
    fn default() -> Self {
        Self::for_refusals()
    }
}

impl RateLimiter {
    pub fn for_calls() -> Self {
        Self::new(2000.0, 1000.0)
    }

    /// Returns the limit for recorded refusals. Each is an event, and a flood of them must not
    /// fill the log.
    pub fn for_refusals() -> Self {
        Self::new(100.0, 1.0)
    }

    fn new(burst: f64, a_second: f64) -> Self {
        Self {
            burst,
            a_second,
            buckets: Mutex::default(),
        }
    }

    /// Returns whether one more call of that name is permitted.
    pub fn allow(&self, name: &str) -> bool {
        let now = Instant::now();
        // A panic in another thread cannot leave these numbers inconsistent.
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
        let rates = RateLimiter::for_calls();
        let let_in = (0..3000).filter(|_| rates.allow("a")).count();
        assert!(let_in < 3000, "{let_in}");
        assert!(rates.allow("b"));
        let noted = RateLimiter::for_refusals();
        assert!((0..3000).filter(|_| noted.allow("a")).count() < 200);
    }
}
