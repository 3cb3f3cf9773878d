//! A job's report counts once, under the newest token, from its holder.

use flow::event::{Failure, Lease};
use flow::policy::OnExhausted;
use flow::ticket::Reason;
use flow::{Actor, Effect, EventKind, Policy, Refused, Role, Stage, Time, Usage};

use crate::story::{Story, alias, approves, builder, held, house, reviewer, submitted, verifier};

fn failed(lease: Lease, failure: Failure) -> EventKind {
    EventKind::JobFailed {
        lease,
        failure,
        message: "the connection broke".to_owned(),
        usage: Usage::default(),
    }
}

#[test]
fn a_report_under_an_old_token_is_refused() {
    let mut story = Story::begin();
    let old = story.start("build", &builder());
    story.tell(&house(), EventKind::LeaseLost { lease: old });
    assert_eq!(story.stage(), Stage::Queued);
    assert!(story.attempt(&builder(), submitted(old, "c1")).is_err());
    let new = story.start("build", &Actor::new("betty", Role::Builder));
    assert!(new.fence > old.fence);
    assert!(matches!(
        story.refused(&builder(), submitted(old, "c1")),
        Refused::StaleFence { .. }
    ));
}

#[test]
fn a_token_that_was_used_is_not_accepted_again() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    let refused = story.refused(&builder(), EventKind::Started { lease });
    assert!(matches!(refused, Refused::NotNow { .. }));
    story.tell(&house(), EventKind::LeaseLost { lease });
    let refused = story.refused(&builder(), EventKind::Started { lease });
    assert!(matches!(refused, Refused::StaleFence { .. }));
}

#[test]
fn a_held_job_is_not_taken_from_its_holder() {
    let mut story = Story::at(Stage::Checking, &Policy::default());
    let lease = story.start("check", &house());
    let newer = Lease {
        fence: lease.fence + 1,
        ..lease
    };
    let other = Actor::new("other-house", Role::Service);
    assert!(matches!(
        story.refused(&other, EventKind::Started { lease: newer }),
        Refused::NotHolder { .. }
    ));
}

#[test]
fn a_failure_reported_twice_counts_once() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    for what in [
        failed(lease, Failure::Transient),
        EventKind::LeaseLost { lease },
    ] {
        let by = if what.name() == "lease_lost" {
            house()
        } else {
            builder()
        };
        let mut once = story.clone();
        once.tell(&by, what.clone());
        assert!(matches!(
            once.refused(&by, what),
            Refused::StaleFence { .. }
        ));
        assert_eq!(once.ticket.jobs[0].attempts, 1);
    }
}

#[test]
fn a_lease_can_be_lost_before_its_start_was_reported() {
    let mut story = Story::begin();
    let lease = Lease {
        serial: story.job("build").serial,
        fence: 1,
    };
    story.tell(&house(), EventKind::LeaseLost { lease });
    assert_eq!(story.ticket.jobs[0].fence, 1);
    assert!(
        story
            .attempt(&builder(), EventKind::Started { lease })
            .is_err()
    );
}

#[test]
fn a_review_that_was_given_back_cannot_be_called_unusable() {
    let mut story = Story::at(Stage::Reviewing, &Policy::default());
    let lease = story.start("review", &reviewer());
    story.tell(&house(), EventKind::LeaseLost { lease });
    let what = EventKind::ReviewUnusable {
        lease,
        why: "it wrote nothing".to_owned(),
        usage: Usage::default(),
    };
    assert!(matches!(
        story.refused(&house(), what),
        Refused::StaleFence { .. }
    ));
}

#[test]
fn a_builder_cannot_end_somebody_elses_review() {
    let mut story = Story::at(Stage::Reviewing, &Policy::default());
    let lease = story.start("review", &reviewer());
    let rival = Actor::new("rolf", Role::Reviewer);
    let unusable = EventKind::ReviewUnusable {
        lease,
        why: "I say so".to_owned(),
        usage: Usage::default(),
    };
    for by in [builder(), alias(Role::Reviewer), verifier(), rival] {
        story.refused(&by, failed(lease, Failure::Permanent));
        story.refused(&by, unusable.clone());
    }
    story.tell(&reviewer(), failed(lease, Failure::Transient));
}

#[test]
fn only_the_holder_reports_a_result() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    let other = Actor::new("betty", Role::Builder);
    assert!(matches!(
        story.refused(&other, submitted(lease, "c1")),
        Refused::NotHolder { .. }
    ));
}

#[test]
fn nobody_takes_a_job_that_judges_their_own_work() {
    let mut story = Story::begin();
    story.rejected_round("c1", &["Names are not escaped"]);
    story.built("c2").green();
    for (queue, role) in [("review", Role::Reviewer), ("verify", Role::Verifier)] {
        let lease = Lease {
            serial: story.job(queue).serial,
            fence: 1,
        };
        assert_eq!(
            story.refused(&alias(role), EventKind::Started { lease }),
            Refused::OwnWork {
                principal: "bob".to_owned()
            }
        );
    }
}

#[test]
fn a_committer_of_the_range_is_an_author_as_well() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    let mut what = submitted(lease, "c1");
    if let EventKind::Submitted { submission, .. } = &mut what {
        submission.authors.insert("rita".to_owned());
    }
    story.tell(&builder(), what).green();
    let lease = Lease {
        serial: story.job("review").serial,
        fence: 1,
    };
    assert!(matches!(
        story.refused(&reviewer(), EventKind::Started { lease }),
        Refused::OwnWork { .. }
    ));
}

#[test]
fn a_review_of_another_commit_is_refused() {
    let mut story = Story::at(Stage::Reviewing, &Policy::default());
    let lease = story.start("review", &reviewer());
    let mut what = story.review_report(lease, approves());
    if let EventKind::Reviewed { commit, .. } = &mut what {
        *commit = "c0".to_owned();
    }
    assert!(matches!(
        story.refused(&reviewer(), what),
        Refused::OtherCommit { .. }
    ));
}

#[test]
fn a_job_cannot_report_what_is_not_its_task() {
    let mut story = Story::begin();
    story.rejected_round("c1", &["Names are not escaped"]);
    story.built("c2").green();
    let lease = story.start("verify", &verifier());
    let refused = story.refused(&verifier(), story.review_report(lease, approves()));
    assert!(matches!(refused, Refused::WrongJob { .. }));
}

#[test]
fn retries_back_off_and_end_with_a_person() {
    let mut story = Story::begin();
    let mut pauses = Vec::new();
    for _ in 0..story.policy.limits.retries_max {
        let lease = story.start("build", &builder());
        story.tell(&builder(), failed(lease, Failure::Transient));
        assert_eq!(story.stage(), Stage::Queued);
        let [Effect::Retry { not_before, .. }] = story.effects.as_slice() else {
            panic!("one retry, not {:?}", story.effects)
        };
        pauses.push(not_before.0 - story.ticket.updated_at.0);
    }
    assert!(pauses.is_sorted(), "{pauses:?}");
    let lease = story.start("build", &builder());
    story.tell(&builder(), failed(lease, Failure::Transient));
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert!(matches!(reason, Reason::RetriesExhausted { .. }));
    assert!(matches!(story.effects[..], [Effect::Bury { .. }]));
}

#[test]
fn a_permanent_error_is_not_tried_again() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    story.tell(&builder(), failed(lease, Failure::Permanent));
    assert_eq!(story.stage(), Stage::Escalated);
}

#[test]
fn a_policy_that_fails_fails_what_cannot_be_done() {
    let policy = Policy {
        on_exhausted: OnExhausted::Fail,
        ..Policy::default()
    };
    let mut story = Story::at(Stage::Building, &policy);
    let lease = held(&story, "build");
    story.tell(&builder(), failed(lease, Failure::Permanent));
    assert_eq!(story.stage(), Stage::Failed);
}

#[test]
fn a_quota_pauses_the_job_and_counts_no_try() {
    let mut story = Story::at(Stage::Building, &Policy::default());
    let lease = held(&story, "build");
    let until = Time(9_000_000);
    story.tell(&builder(), failed(lease, Failure::Quota { until }));
    assert_eq!(story.stage(), Stage::Queued);
    assert_eq!(story.ticket.jobs[0].attempts, 0);
    assert!(matches!(story.effects[..], [Effect::Retry { not_before, .. }] if not_before == until));
}

/// Whatever end of a quota an agent names, the job does not start again at once, does not wait for
/// ever, and reaches a person after a bounded number of starts.
#[test]
fn no_named_quota_time_starts_a_job_without_end() {
    const WEEK: i64 = 7 * 86_400_000;
    for until in [Time(i64::MIN), Time(-1), Time(0), Time(1), Time(i64::MAX)] {
        let policy = Policy::default();
        let (mut story, mut starts, mut last_wait) = (Story::at(Stage::Building, &policy), 1, 0);
        let mut lease = held(&story, "build");
        loop {
            story.tell(&builder(), failed(lease, Failure::Quota { until }));
            let at = story.log.last().unwrap().at;
            let wait = story.effects.iter().find_map(|effect| match effect {
                Effect::Retry { not_before, .. } => Some(not_before.0 - at.0),
                _ => None,
            });
            let Some(wait) = wait else {
                break;
            };
            assert!((12_000..=WEEK).contains(&wait), "{until:?}: {wait}");
            assert!(
                starts > 8 || wait > last_wait || wait == WEEK,
                "{starts}: {wait}"
            );
            last_wait = wait;
            starts += 1;
            assert!(starts < 100, "{until:?}");
            lease = story.start("build", &builder());
        }
        assert_eq!(story.stage(), Stage::Escalated, "{until:?}");
        let most = flow::policy::QUOTA_WAITS_MAX + policy.limits.retries_max + 1;
        assert_eq!(starts, most, "{until:?}");
        assert!(matches!(
            story
                .ticket
                .escalation
                .as_ref()
                .map(|escalation| &escalation.reason),
            Some(Reason::RetriesExhausted { .. })
        ));
    }
}

#[test]
fn a_landing_that_comes_after_another_waits_and_counts_no_try() {
    let mut story = Story::at(Stage::Merging, &Policy::default());
    let lease = held(&story, "merge");
    let until = Time(9_000_000);
    story.tell(&house(), failed(lease, Failure::Deferred { until }));
    assert_eq!(story.stage(), Stage::Approved);
    assert_eq!(story.ticket.jobs[0].attempts, 0);
    assert!(matches!(story.effects[..], [Effect::Retry { not_before, .. }] if not_before == until));
}

#[test]
fn a_landing_that_was_put_off_as_a_quota_is_still_read() {
    let old = r#"{"failure":"quota","until":9}"#;
    let read: Failure = serde_json::from_str(old).unwrap();
    assert_eq!(read, Failure::Quota { until: Time(9) });
    let new = serde_json::to_string(&Failure::Deferred { until: Time(9) }).unwrap();
    assert_eq!(new, r#"{"failure":"deferred","until":9}"#);
}

#[test]
fn a_lost_merge_lease_leaves_the_approval_in_place() {
    let mut story = Story::at(Stage::Merging, &Policy::default());
    let lease = held(&story, "merge");
    story.tell(&house(), EventKind::LeaseLost { lease });
    assert_eq!(story.stage(), Stage::Approved);
    assert!(story.ticket.approval.is_some());
    let late = story.refused(&house(), story.landing(lease, "c1", "diff of c1"));
    assert!(matches!(late, Refused::NotNow { .. }));
}

/// Ends a try of a build by `by`, and returns what people read about it.
fn told(story: &mut Story, by: &Actor, lease: Lease, failure: Failure) -> Vec<String> {
    let before = story.ticket.clone();
    story.tell(by, failed(lease, failure));
    let last = story.log.last().unwrap();
    let told = flow::narrate::narrate(Some(&before), last, &story.ticket, &story.policy);
    told.into_iter().map(|sentence| sentence.text).collect()
}

#[test]
fn a_failed_try_names_the_job_its_agent_and_the_next_try() {
    let mut story = Story::begin();
    story.policy.limits.retries_max = 1;
    let lease = story.start("build", &builder());
    let first = told(&mut story, &builder(), lease, Failure::Transient);
    let head = "round 1: build by bob failed: the connection broke";
    let (said, wait) = first[0].split_once("; try 2 of 2 in ").unwrap();
    assert_eq!(said, head);
    let Some(Effect::Retry { not_before, .. }) = story.effects.last() else {
        panic!("{:?}", story.effects);
    };
    let waited = (not_before.0 - story.log.last().unwrap().at.0 + 999) / 1000;
    assert_eq!(wait, format!("{waited} s"));
    // The last try is followed by the escalation, which says what happens next.
    let lease = story.start("build", &builder());
    let last = told(&mut story, &builder(), lease, Failure::Transient);
    assert_eq!(last[0], head);
    assert!(last[1].contains("a person decides"), "{last:?}");
}

#[test]
fn an_interrupted_try_names_the_command_that_continues() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    let said = told(&mut story, &builder(), lease, Failure::Interrupted);
    let expected = "round 1: build by bob was stopped before it was done; \
                    `countersign run t` or a worker continues it";
    assert_eq!(said, [expected]);
}

#[test]
fn an_unknown_price_is_the_agents_that_ran() {
    let mut story = Story::begin();
    let lease = story.start("build", &builder());
    let mut what = failed(lease, Failure::Interrupted);
    if let EventKind::JobFailed { usage, .. } = &mut what {
        usage.unpriced_runs = 1;
    }
    story.tell(&builder(), what);
    let cost = story
        .ticket
        .spent
        .ticket
        .describe_cost(&story.ticket.unpriced);
    assert_eq!(cost, "≥ $0.00, bob: price unknown");
}
