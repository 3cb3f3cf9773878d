//! Points in time. They are always passed in: nothing here reads a clock.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Start of the day in UTC.
    #[must_use]
    pub fn start_of_day(self) -> Self {
        Self(self.0 - self.0.rem_euclid(86_400_000))
    }

    /// Formats the time: `2026-02-03T10:00:00.000Z`.
    pub fn to_iso(self) -> String {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            ms % 1000
        )
    }
}

/// Returns year, month and day of a day number. It counts in years that begin in March, so that the
/// leap day is the last day of a year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
    }
}
