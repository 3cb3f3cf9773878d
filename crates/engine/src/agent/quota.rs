//! Finds the time at which a provider's quota resets, in the message of its CLI.
//!
//! Every CLI has its own wording, and it changes, so the search looks for times and not for a
//! fixed form. Agents are started with `TZ=UTC`, so a time of day without a zone is in UTC.

use std::sync::LazyLock;

use flow::Time;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use regex::Regex;

const SECOND: i64 = 1000;
const DAY: i64 = 24 * 3600 * SECOND;
/// Age up to which a named time may be one that passed while the agent ended, or by a clock that
/// differs from ours.
const PAST_MAX: i64 = 60 * SECOND;

/// Time of the quota's reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaReset {
    At(Time),
    /// Milliseconds from now.
    In(i64),
    /// Next occurrence of a time of day, in milliseconds since midnight.
    Clock(i64),
}

impl QuotaReset {
    /// Returns the named time, or `None` if it has long passed and so says nothing about the future.
    pub fn to_time(self, now: Time) -> Option<Time> {
        match self {
            Self::At(time) => (time.0 >= now.0.saturating_sub(PAST_MAX)).then_some(time),
            Self::In(ms) => Some(Time(now.0.saturating_add(ms))),
            Self::Clock(of_day) => {
                let midnight = now.0 - now.0.rem_euclid(DAY);
                let today = midnight + of_day;
                Some(Time(if today > now.0 { today } else { today + DAY }))
            }
        }
    }

    /// Converts a Unix time in seconds or milliseconds.
    pub fn from_epoch(number: i64) -> Option<Self> {
        let ms = if number > 100_000_000_000 {
            number
        } else {
            number.checked_mul(SECOND)?
        };
        from_milliseconds(ms)
    }

    /// Returns the first time in the text, in any of the known forms.
    pub fn find(text: &str) -> Option<Self> {
        parse_epoch(text)
            .or_else(|| parse_iso(text))
            .or_else(|| parse_date(text))
            .or_else(|| parse_duration(text))
            .or_else(|| parse_clock(text))
    }
}

/// Compiles a regular expression once. An invalid one matches nothing, which a test would show.
macro_rules! expression {
    ($text:expr) => {{
        static FOUND: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
        FOUND.as_ref()
    }};
}

/// Finds a Unix time: `limit reached|1760000000`.
fn parse_epoch(text: &str) -> Option<QuotaReset> {
    let captures = expression!(r"\b(1\d{9}|1\d{12})\b")?.captures(text)?;
    QuotaReset::from_epoch(captures[1].parse().ok()?)
}

/// Finds an ISO time: `2030-01-01T00:00:00Z`. Seconds and fractions are optional.
fn parse_iso(text: &str) -> Option<QuotaReset> {
    let captures =
        expression!(r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?")?
            .captures(text)?;
    let zone = captures.get(2).map_or("Z", |zone| zone.as_str());
    let time: Timestamp = format!("{}{zone}", &captures[1]).parse().ok()?;
    from_milliseconds(time.as_millisecond())
}

/// Finds a date: `Nov 3rd, 2026 4:12 PM`.
fn parse_date(text: &str) -> Option<QuotaReset> {
    let captures = expression!(
        r"(?i)\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})"
    )?
    .captures(text)?;
    let [month, day, year] = [&captures[1], &captures[2], &captures[3]];
    let date = Date::strptime("%b %d %Y", format!("{month} {day} {year}")).ok()?;
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let rest = &text[captures.get(0)?.end()..];
    from_milliseconds(midnight.as_millisecond() + parse_time_of_day(rest).unwrap_or(0))
}

/// No quota was reset before 1970.
fn from_milliseconds(ms: i64) -> Option<QuotaReset> {
    (ms > 0).then_some(QuotaReset::At(Time(ms)))
}

/// Finds a duration: `in 1 day 2 hours 3 minutes`, `after 18h23m5s`, `in 12.5s`.
fn parse_duration(text: &str) -> Option<QuotaReset> {
    let whole = expression!(
        r"(?i)\b(?:in|after)\s+((?:\d+(?:\.\d+)?\s*(?:d|h|m|s)[a-z]*[\s,]*(?:and\s+)?)+)"
    )?;
    let captures = whole.captures(text)?;
    let unit = expression!(r"(?i)(\d+)(?:\.\d+)?\s*(d|h|m|s)[a-z]*")?;
    let mut ms: i64 = 0;
    for part in unit.captures_iter(&captures[1]) {
        let each = match part[2].to_lowercase().as_str() {
            "d" => DAY,
            "h" => 3600 * SECOND,
            "m" => 60 * SECOND,
            _ => SECOND,
        };
        ms = ms.saturating_add(part[1].parse::<i64>().ok()?.saturating_mul(each));
    }
    // Add a second for the fraction that was cut off.
    Some(QuotaReset::In(ms.saturating_add(SECOND)))
}

/// Finds a time of day in a text without a date. Next to a date that says nothing, such as one in
/// 1970, the time of day alone would mean today.
fn parse_clock(text: &str) -> Option<QuotaReset> {
    let dated = expression!(r"\b(?:19|20)\d\d\b")?.is_match(text);
    (!dated)
        .then(|| parse_time_of_day(text).map(QuotaReset::Clock))
        .flatten()
}

/// Finds a time of day, `3pm`, `3:51 PM` or `15:51`, and returns milliseconds since midnight.
fn parse_time_of_day(text: &str) -> Option<i64> {
    let captures = expression!(r"(?i)\b(\d{1,2})(?::(\d\d))?\s*([ap])\.?m\b|\b(\d{1,2}):(\d\d)\b")?
        .captures(text)?;
    let number = |at: usize| {
        captures
            .get(at)
            .and_then(|part| part.as_str().parse::<i64>().ok())
    };
    let (hour, minute) = match captures.get(3) {
        Some(half) => {
            let noon = if half.as_str().eq_ignore_ascii_case("p") {
                12
            } else {
                0
            };
            (number(1)? % 12 + noon, number(2).unwrap_or(0))
        }
        None => (number(4)?, number(5)?),
    };
    (hour < 24 && minute < 60).then_some((hour * 60 + minute) * 60 * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T01:00:00Z
    const NOW: Time = Time(1_794_790_800_000);

    fn resolved(text: &str) -> Option<String> {
        let reset = QuotaReset::find(text)?;
        reset.to_time(NOW).map(Time::to_iso)
    }

    #[test]
    fn a_time_that_has_long_passed_says_nothing() {
        for text in [
            "out of quota until 2026-11-15T01:00:00Z",
            "until 1970-01-01T00:00:00Z",
            "limit reached|1000000000",
            "try again at Jan 1st, 1970 0:00 AM",
            "until 2026-11-16T00:58:00Z",
            "until 0000-00-00T00:00:00Z",
            "until -1",
            "in -5 seconds",
            "when it is over",
        ] {
            assert_eq!(resolved(text), None, "{text}");
        }
        assert!(resolved("until 2026-11-16T00:59:30Z").is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_search_fail(text in "(until |in |after |at |\\|)?[0-9:TZ+. dhmsapn-]{0,40}") {
            if let Some(reset) = QuotaReset::find(&text) {
                reset.to_time(NOW);
            }
        }
    }

    #[test]
    fn every_known_way_to_name_the_end_of_a_limit_is_understood() {
        for (text, time) in [
            (
                "Claude AI usage limit reached|1794794400",
                "2026-11-16T02:00:00.000Z",
            ),
            (
                "You've hit your limit · resets 3pm (UTC)",
                "2026-11-16T15:00:00.000Z",
            ),
            (
                "5-hour limit reached ∙ resets 12:30am",
                "2026-11-17T00:30:00.000Z",
            ),
            (
                "Upgrade to Pro or try again at 3:51 PM.",
                "2026-11-16T15:51:00.000Z",
            ),
            (
                "try again at Nov 18th, 2026 4:12 PM.",
                "2026-11-18T16:12:00.000Z",
            ),
            (
                "try again in 1 day 2 hours 3 minutes.",
                "2026-11-17T03:03:01.000Z",
            ),
            (
                "Your quota will reset after 18h23m5s.",
                "2026-11-16T19:23:06.000Z",
            ),
            ("Please retry in 12.5s.", "2026-11-16T01:00:13.000Z"),
            ("until 2030-01-01T00:00:00Z", "2030-01-01T00:00:00.000Z"),
            (
                "until 2030-01-01T02:00:00+02:00",
                "2030-01-01T00:00:00.000Z",
            ),
            ("until 2030-01-01 02:00+0200", "2030-01-01T00:00:00.000Z"),
            (
                "resets 2030-01-01T00:00:59.1234567890123Z",
                "2030-01-01T00:00:59.000Z",
            ),
            ("on FEBRUARY 1, 2028", "2028-02-01T00:00:00.000Z"),
        ] {
            assert_eq!(resolved(text).as_deref(), Some(time), "{text}");
        }
        for text in [
            "usage limit reached",
            "until Feb 30, 2027",
            "until 2030-13-01T99:99:99Z",
        ] {
            assert_eq!(resolved(text), None, "{text}");
        }
    }
}
