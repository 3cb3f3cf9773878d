//! The one place that reads the wall clock.

use std::time::UNIX_EPOCH;

use flow::Time;

/// Milliseconds since 1970, now.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the others are sent to"
)]
pub fn now() -> Time {
    let since = std::time::SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
