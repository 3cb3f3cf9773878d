//! Finds the time at which a provider's quota resets, in the message of its CLI.
//!
//! Every CLI has its own wording, and it changes, so the search looks for times and not for a
//! fixed form. Agents are started with `TZ=UTC`, so a time of day without a zone is in UTC.

use std::sync::LazyLock;

use flow::Time;
use regex::Regex;

const SECOND: i64 = 1000;
const DAY: i64 = 24 * 3600 * SECOND;

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
    pub fn to_time(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::In(ms) => Time(now.0.saturating_add(ms)),
            Self::Clock(of_day) => {
                let midnight = now.0 - now.0.rem_euclid(DAY);
                let today = midnight + of_day;
                Time(if today > now.0 { today } else { today + DAY })
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
        (ms > 0).then_some(Self::At(Time(ms)))
    }

    /// Returns the first time in the text, in any of the known forms.
    pub fn find(text: &str) -> Option<Self> {
        parse_epoch(text)
            .or_else(|| parse_iso(text))
            .or_else(|| parse_date(text))
            .or_else(|| parse_duration(text))
            .or_else(|| parse_time_of_day(text).map(Self::Clock))
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
    let captures = expression!(
        r"\b(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d))?(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?"
    )?
    .captures(text)?;
    let number = |at: usize| captures.get(at).and_then(|part| part.as_str().parse().ok());
    let (hour, minute, second): (i64, i64, i64) =
        (number(4)?, number(5)?, number(6).unwrap_or_default());
    let days = days_from_civil(number(1)?, number(2)?, number(3)?)?;
    let east = captures.get(7).map_or(0, |zone| zone_offset(zone.as_str()));
    let seconds = hour * 3600 + minute * 60 + second - east;
    Some(QuotaReset::At(Time(days * DAY + seconds * SECOND)))
}

fn zone_offset(zone: &str) -> i64 {
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    let Some((hours, minutes)) = digits.split_at_checked(2) else {
        return 0;
    };
    let seconds = hours.parse().unwrap_or(0) * 3600 + minutes.parse().unwrap_or(0) * 60;
    if zone.starts_with('-') {
        -seconds
    } else {
        seconds
    }
}

/// Finds a date: `Nov 3rd, 2026 4:12 PM`.
fn parse_date(text: &str) -> Option<QuotaReset> {
    let captures = expression!(
        r"(?i)\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})"
    )?
    .captures(text)?;
    let months = "janfebmaraprmayjunjulaugsepoctnovdec";
    let month = months.find(&captures[1].to_lowercase())? / 3 + 1;
    let days = days_from_civil(
        captures[3].parse().ok()?,
        i64::try_from(month).ok()?,
        captures[2].parse().ok()?,
    )?;
    let rest = &text[captures.get(0)?.end()..];
    Some(QuotaReset::At(Time(
        days * DAY + parse_time_of_day(rest).unwrap_or(0),
    )))
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

/// Returns the number of a day since 1970. Years start in March here, so that the leap day is the
/// last.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T01:00:00Z
    const NOW: Time = Time(1_794_790_800_000);

    fn resolved(text: &str) -> Option<String> {
        QuotaReset::find(text).map(|until| until.to_time(NOW).to_iso())
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
        ] {
            assert_eq!(resolved(text).as_deref(), Some(time), "{text}");
        }
        assert_eq!(resolved("usage limit reached"), None);
    }
}
