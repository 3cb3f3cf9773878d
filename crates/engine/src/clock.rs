//! Reads the wall clock, as the only module that does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flow::Time;

/// Returns the current time in milliseconds since 1970.
pub fn now() -> Time {
    let since = system_time().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the current time as the file system writes it.
#[expect(
    clippy::disallowed_methods,
    reason = "other code calls this function instead of the clock"
)]
pub fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Returns the age of a file time. A time in the future has none.
pub fn age_since(then: SystemTime) -> Duration {
    system_time().duration_since(then).unwrap_or_default()
}
