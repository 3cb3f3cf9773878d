//! Limits of a forge: how long an answer asks us to wait, and how fast we may write.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Wait if an answer names no time.
const UNNAMED: Duration = Duration::from_secs(60);
/// Longest wait that we believe: limits are by the hour, and clocks differ.
const LONGEST: Duration = Duration::from_secs(2 * 3600);

/// Returns the time of the forge at its answer, in seconds. Clocks differ, and a reset is by the
/// forge's.
pub fn server_seconds<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<i64> {
    let date = jiff::fmt::rfc2822::parse(header("date")?.trim()).ok()?;
    Some(date.timestamp().as_second())
}

/// Returns the status that an answer means. GraphQL says 200 also when a limit is reached.
pub fn limit_status(url: &str, status: u16, body: &[u8]) -> u16 {
    let is_graphql = url.ends_with("/graphql");
    if !is_graphql || status != 200 {
        return status;
    }
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let is_limited = crate::json::entries(&answer["errors"]).iter().any(|error| {
        let words = crate::json::text(error, "message").to_ascii_lowercase();
        error["type"] == "RATE_LIMITED" || words.contains("secondary rate limit")
    });
    if is_limited { 403 } else { status }
}

/// Returns how long to wait if the answer says that a limit is reached. GitHub says it with 403 and
/// with 429; a 403 without a sign of a limit is a missing permission.
pub fn limit_wait<'a>(
    status: u16,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &str,
    now_seconds: i64,
) -> Option<Duration> {
    if !matches!(status, 403 | 429) {
        return None;
    }
    let number = |name: &str| header(name).and_then(|text| text.trim().parse::<i64>().ok());
    let now_seconds = server_seconds(&header).unwrap_or(now_seconds);
    let seconds = |count: i64| {
        let count = u64::try_from(count).unwrap_or(0).max(1);
        Duration::from_secs(count).min(LONGEST)
    };
    if let Some(after) = number("retry-after") {
        return Some(seconds(after));
    }
    let left = number("x-ratelimit-remaining").or_else(|| number("ratelimit-remaining"));
    let reset = number("x-ratelimit-reset").or_else(|| number("ratelimit-reset"));
    if left == Some(0)
        && let Some(reset) = reset
    {
        return Some(seconds(reset.saturating_sub(now_seconds)));
    }
    let lower = body.to_ascii_lowercase();
    let says_so = ["rate limit", "abuse detection", "too many requests"]
        .iter()
        .any(|words| lower.contains(words));
    (status == 429 || says_so).then_some(UNNAMED)
}

/// Spaces writes to one host: one at a time, at least a second apart, at most 80 a minute and 500
/// an hour, which are GitHub's limits on content. It is a plain value, so that a fleet can keep one for
/// a host and token in its store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSchedule {
    /// Times of the writes of the last hour, in milliseconds. Reserved ones may be in the future.
    recent: VecDeque<i64>,
    /// Time until which the forge wants no request.
    #[serde(default)]
    paused_until: i64,
}

impl WriteSchedule {
    const GAP_MS: i64 = 1000;
    const HOUR_MS: i64 = 3_600_000;
    const WINDOWS: [(usize, i64); 2] = [(80, 60_000), (500, Self::HOUR_MS)];

    /// Returns how long the next write has to wait.
    pub fn wait(&self, now_ms: i64) -> Duration {
        let gap = self.recent.back().map(|last| last + Self::GAP_MS);
        let windows = Self::WINDOWS.iter().filter_map(|(count, length)| {
            let first = self.recent.len().checked_sub(*count)?;
            Some(self.recent.get(first)? + length)
        });
        let pause = Some(self.paused_until);
        let at = gap.into_iter().chain(windows).chain(pause).max();
        let wait = at.unwrap_or(now_ms).saturating_sub(now_ms);
        // A clock that was set back must not stop us for longer than the longest limit.
        let longest = i64::try_from(LONGEST.as_millis()).unwrap_or(Self::HOUR_MS);
        Duration::from_millis(u64::try_from(wait.min(longest)).unwrap_or(0))
    }

    pub fn record(&mut self, now_ms: i64) {
        // Times after a clock that was set back would hold up everything.
        let hour_ahead = now_ms.saturating_add(2 * Self::HOUR_MS);
        self.recent.retain(|time| *time <= hour_ahead);
        self.recent.push_back(now_ms);
        while self.recent.len() > 500 {
            self.recent.pop_front();
        }
    }

    /// Takes the next turn, and returns how long to wait for it. A wait beyond `longest` takes none.
    pub fn reserve(&mut self, now_ms: i64, longest: Duration) -> Duration {
        let wait = self.wait(now_ms);
        if wait <= longest {
            let turn = i64::try_from(wait.as_millis()).unwrap_or(0);
            self.record(now_ms.saturating_add(turn));
        }
        wait
    }

    /// Remembers that the forge wants no request for a time.
    pub fn pause(&mut self, now_ms: i64, time: Duration) {
        let time = i64::try_from(time.min(LONGEST).as_millis()).unwrap_or(0);
        self.paused_until = self.paused_until.max(now_ms.saturating_add(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wait(status: u16, headers: &[(&str, &str)], body: &str) -> Option<u64> {
        let header = |name: &str| {
            let found = headers.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| *value)
        };
        limit_wait(status, header, body, 1000).map(|wait| wait.as_secs())
    }

    #[test]
    fn both_403_and_429_can_mean_a_limit() {
        for status in [403, 429] {
            assert_eq!(wait(status, &[("retry-after", "7")], ""), Some(7));
            let reset = [
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1030"),
            ];
            assert_eq!(wait(status, &reset, ""), Some(30));
            assert_eq!(
                wait(status, &[], "You have exceeded a secondary rate limit"),
                Some(60)
            );
        }
        assert_eq!(wait(429, &[], ""), Some(60));
        assert_eq!(
            wait(
                403,
                &[("x-ratelimit-remaining", "9")],
                "Resource not accessible"
            ),
            None
        );
        assert_eq!(wait(500, &[("retry-after", "7")], ""), None);
        // A clock that is ahead, and nonsense.
        let past = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "900")];
        assert_eq!(wait(403, &past, ""), Some(1));
        assert_eq!(wait(429, &[("retry-after", "9999999999")], ""), Some(7200));
        assert_eq!(wait(429, &[("retry-after", "soon")], ""), Some(60));
    }

    #[test]
    fn a_reset_is_by_the_clock_of_the_forge() {
        // Our clock is at 1000, and the forge's is years ahead.
        let headers = [
            ("date", "Thu, 19 Nov 2026 22:54:15 GMT"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1795128885"),
        ];
        assert_eq!(wait(403, &headers, ""), Some(30));
        let nonsense = [
            ("date", "yesterday"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1030"),
        ];
        assert_eq!(wait(403, &nonsense, ""), Some(30));
    }

    #[test]
    fn graphql_reaches_a_limit_with_status_200() {
        let url = "https://api.github.com/graphql";
        let limited =
            br#"{"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}"#;
        let other = br#"{"data": {"body": "RATE_LIMITED, secondary rate limit"}, "errors": []}"#;
        assert_eq!(limit_status(url, 200, limited), 403);
        assert_eq!(limit_status(url, 200, other), 200);
        assert_eq!(limit_status(url, 200, b"no JSON"), 200);
        // Texts of people in other answers are not ours to read.
        let list = "https://api.github.com/repos/o/r/issues/1/comments";
        assert_eq!(limit_status(list, 200, limited), 200);
    }

    #[test]
    fn a_schedule_is_kept_as_text_and_a_pause_holds_all() {
        let mut schedule = WriteSchedule::default();
        let longest = Duration::from_secs(120);
        assert_eq!(schedule.reserve(1000, longest).as_millis(), 0);
        assert_eq!(schedule.reserve(1000, longest).as_millis(), 1000);
        let text = serde_json::to_string(&schedule).unwrap();
        let mut other: WriteSchedule = serde_json::from_str(&text).unwrap();
        assert_eq!(other.reserve(1000, longest).as_millis(), 2000);
        other.pause(1000, Duration::from_secs(600));
        assert_eq!(other.reserve(1000, longest).as_secs(), 600);
        assert_eq!(other.reserve(601_000, longest).as_secs(), 0);
        // A clock that was set back by a day.
        other.record(90_000_000);
        other.record(3_600_000);
        assert!(other.wait(3_600_000).as_secs() <= 2);
    }

    proptest! {
        #[test]
        fn writes_stay_below_every_limit(pauses in prop::collection::vec(0_i64..1500, 600)) {
            let mut schedule = WriteSchedule::default();
            let (mut now, mut times) = (0_i64, Vec::new());
            for pause in pauses {
                now += pause;
                now += i64::try_from(schedule.wait(now).as_millis()).unwrap();
                schedule.record(now);
                times.push(now);
            }
            for (count, length) in WriteSchedule::WINDOWS {
                prop_assert!(times.windows(count + 1).all(|window| window[count] - window[0] >= length));
            }
            prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1000));
        }
    }
}
