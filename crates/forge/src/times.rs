//! Times as forges write them. Some have the offset of a zone, which changes twice a year, so they
//! are not compared as text.

use std::cmp::Ordering;

fn parse(text: &str) -> Option<jiff::Timestamp> {
    text.parse().ok()
}

/// Compares two times; as text if one of them is none.
pub fn compare(one: &str, other: &str) -> Ordering {
    match (parse(one), parse(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.cmp(other),
    }
}

/// Returns whether a time is that of a cursor or later. Updates in the same second count again,
/// because one of them may be new.
pub fn is_since(time: &str, cursor: &str) -> bool {
    compare(time, cursor) != Ordering::Less
}

/// Returns the latest of some times.
pub fn newest<'a>(times: impl Iterator<Item = &'a str>) -> Option<String> {
    times
        .max_by(|one, other| compare(one, other))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_two_zones_are_compared_by_the_moment() {
        // The hour that comes twice in autumn: the second text is the later moment.
        let (first, second) = ("2026-10-25T02:30:00+02:00", "2026-10-25T02:10:00+01:00");
        assert_eq!(compare(first, second), Ordering::Less);
        assert!(is_since(second, first) && is_since(second, second));
        assert_eq!(newest([first, second].into_iter()).as_deref(), Some(second));
        // As Jira writes it, and no time at all.
        assert!(is_since(
            "2026-01-01T01:00:00.000+0100",
            "2026-01-01T00:00:00Z"
        ));
        assert!(is_since("2026-01-01T00:00:00Z", ""));
        assert_eq!(newest(std::iter::empty()), None);
    }
}
