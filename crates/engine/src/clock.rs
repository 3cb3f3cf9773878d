//! Reads the wall clock, as the only module that does.

use std::time::UNIX_EPOCH;

use flow::Time;

/// Returns the current time in milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "other code calls this function instead of the clock"
)]
pub fn now() -> Time {
    let since = std::time::SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
