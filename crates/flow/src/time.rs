//! Points in time. They are always passed in: nothing here reads a clock.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, UTC.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    #[must_use]
    // Saturating: a wait of u64::MAX milliseconds must lie in the future and not in the past.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Start of the day in UTC.
    #[must_use]
    pub fn start_of_day(self) -> Self {
        // Euclidean, so that times before 1970 belong to the day that they are in.
        Self(self.0 - self.0.rem_euclid(86_400_000))
    }

    /// Parses a time as programs write it: RFC 3339, also with an offset such as `+0200`.
    pub fn parse_iso(text: &str) -> Option<Self> {
        let time: Timestamp = text.parse().ok()?;
        Some(Self(time.as_millisecond()))
    }

    /// Formats the time: `2026-02-03T10:00:00.000Z`. Times outside the years of the calendar are
    /// shown as its first or last moment.
    pub fn to_iso(self) -> String {
        let limit = if self.0 < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        };
        format!(
            "{:.3}",
            Timestamp::from_millisecond(self.0).unwrap_or(limit)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_calendars_have_them() {
        assert_eq!(Time(0).to_iso(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(1_770_112_800_123).to_iso(), "2026-02-03T10:00:00.123Z");
        assert_eq!(Time(951_782_399_999).to_iso(), "2000-02-28T23:59:59.999Z");
        assert_eq!(Time(951_868_800_000).to_iso(), "2000-03-01T00:00:00.000Z");
        assert_eq!(
            Time(1_770_112_800_123).start_of_day().to_iso(),
            "2026-02-03T00:00:00.000Z"
        );
        assert_eq!(Time(-1).to_iso(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Time(i64::MAX).to_iso(), "9999-12-30T22:00:00.999Z");
        for text in ["2026-02-03T10:00:00.123Z", "2026-02-03T12:00:00.123+0200"] {
            assert_eq!(
                Time::parse_iso(text),
                Some(Time(1_770_112_800_123)),
                "{text}"
            );
        }
        assert_eq!(Time::parse_iso("yesterday"), None);
        assert!(Time(i64::MIN).to_iso().starts_with("-009999-"));
    }
}
