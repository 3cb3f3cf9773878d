//! Tries every event as a report of a worker on another machine.

use flow::remote_access::{ReportDenied, lease_of};

use super::{EVENTS, for_all};

/// The lease that each event needs, as designed.
fn rests_on(event: &str) -> Option<&'static str> {
    match event {
        "started" | "base_red" | "submitted" | "checked" | "reviewed" | "review_unusable"
        | "verified" | "landed" | "conflicted" | "combination_red" | "job_failed" => {
            Some("its own lease")
        }
        "went_stale" => Some("a lease that it does not name"),
        _ => None,
    }
}

#[test]
fn a_worker_elsewhere_reports_on_its_own_jobs_and_decides_nothing() {
    let mut seen = std::collections::BTreeSet::new();
    for_all(|_, _, what| {
        let name = what.name();
        seen.insert(name);
        let found = match lease_of(&what) {
            Ok(lease) => {
                assert_eq!(what.lease(), Some(lease), "{name}");
                Some("its own lease")
            }
            Err(ReportDenied::NotAWorkers { event }) => {
                assert_eq!(event, name);
                None
            }
            Err(ReportDenied::NamesNoLease { event }) => {
                assert_eq!(event, name);
                Some("a lease that it does not name")
            }
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(found, rests_on(name), "{name}");
    });
    assert_eq!(seen.len(), EVENTS.len());
}
