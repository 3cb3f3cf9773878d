//! What a worker that is elsewhere may report: every event, as it would really come.

use flow::outpost::{Barred, Ground, ground};

use super::{EVENTS, for_all};

/// What each event rests on, as the design says.
fn rests_on(event: &str) -> Option<&'static str> {
    match event {
        "started" | "submitted" | "checked" | "reviewed" | "review_unusable" | "verified"
        | "landed" | "conflicted" | "combination_red" | "job_failed" => Some("its own lease"),
        "went_stale" => Some("a lease that it does not name"),
        "lease_lost" => Some("a lease that ran out"),
        "budget_reached" => Some("a spent day"),
        "agent_out" => Some("a paused provider"),
        _ => None,
    }
}

#[test]
fn a_worker_elsewhere_reports_on_its_own_jobs_and_decides_nothing() {
    let mut seen = std::collections::BTreeSet::new();
    for_all(|_, _, what| {
        let name = what.name();
        seen.insert(name);
        let found = match ground(&what) {
            Ok(Ground::Holds(lease)) => {
                assert_eq!(what.lease(), Some(lease), "{name}");
                Some("its own lease")
            }
            Ok(Ground::Lapsed(lease)) => {
                assert_eq!(what.lease(), Some(lease), "{name}");
                Some("a lease that ran out")
            }
            Ok(Ground::DayIsSpent) => Some("a spent day"),
            Ok(Ground::ProviderRests) => Some("a paused provider"),
            Err(Barred::NotAWorkers { event }) => {
                assert_eq!(event, name);
                None
            }
            Err(Barred::NamesNoLease { event }) => {
                assert_eq!(event, name);
                Some("a lease that it does not name")
            }
            Err(other) => panic!("{name}: {other}"),
        };
        assert_eq!(found, rests_on(name), "{name}");
    });
    assert_eq!(seen.len(), EVENTS.len());
}
