//! Fallback agents take over, and no agent gets to judge its own work through one.

use flow::event::{Failure, Lease};
use flow::policy::{Fallback, ReviewerConfig};
use flow::ticket::Reason;
use flow::{Actor, Effect, EventKind, Policy, Refused, Role, Stage, Time, Usage, fallback_agent};

use crate::story::{Story, approves, builder, held, house, submitted};

const UNTIL: Time = Time(9_000_000);

fn falls_back(build: Option<&str>, judge: Option<&str>) -> Policy {
    let name = |name: Option<&str>| name.map(str::to_owned);
    Policy {
        fallback: Fallback {
            build: name(build),
            review: name(judge),
            verify: name(judge),
        },
        ..Policy::default()
    }
}

fn failed(lease: Lease, failure: Failure) -> EventKind {
    EventKind::JobFailed {
        lease,
        failure,
        message: "oak is out".to_owned(),
        usage: Usage::default(),
    }
}

/// An agent under its own name, in a role.
fn written(name: &str, role: Role) -> Actor {
    Actor {
        written: Some(name.to_owned()),
        ..Actor::new(&format!("{name} ({})", role.as_str()), role)
    }
}

#[track_caller]
fn goes_to(story: &Story, queue: &str, agent: &str) {
    let job = story.job(queue);
    assert_eq!(job.agent.as_deref(), Some(agent));
    assert!(job.fallback);
    let ordered = story.effects.iter().any(
        |effect| matches!(effect, Effect::Enqueue(new) if new.agent.as_deref() == Some(agent)),
    );
    assert!(ordered, "{:?}", story.effects);
}

#[test]
fn whoever_is_out_hands_the_job_to_the_one_that_the_policy_names() {
    for failure in [Failure::Quota { until: UNTIL }, Failure::Permanent] {
        let mut story = Story::at(Stage::Building, &falls_back(Some("elm"), None));
        let lease = held(&story, "build");
        story.tell(&builder(), failed(lease, failure));
        assert_eq!(story.stage(), Stage::Queued);
        goes_to(&story, "build", "elm");
        let buried = |effect: &Effect| matches!(effect, Effect::Bury { serial, .. } if *serial == lease.serial);
        assert!(story.effects.iter().any(buried), "its history is kept");
    }
}

#[test]
fn what_is_worth_another_try_is_tried_again_by_the_same() {
    for failure in [Failure::Transient, Failure::Interrupted] {
        let mut story = Story::at(Stage::Building, &falls_back(Some("elm"), None));
        let lease = held(&story, "build");
        story.tell(&builder(), failed(lease, failure));
        assert_eq!(story.job("build").agent, None);
    }
}

#[test]
fn without_a_fallback_the_pause_stays() {
    let mut story = Story::at(Stage::Building, &Policy::default());
    let lease = held(&story, "build");
    story.tell(&builder(), failed(lease, Failure::Quota { until: UNTIL }));
    let waits = |effect: &Effect| matches!(effect, Effect::Retry { not_before, .. } if *not_before == UNTIL);
    assert!(story.effects.iter().any(waits), "{:?}", story.effects);
}

#[test]
fn a_stand_in_has_no_stand_in() {
    let mut story = Story::at(Stage::Building, &falls_back(Some("elm"), None));
    let lease = held(&story, "build");
    story.tell(&builder(), failed(lease, Failure::Permanent));
    let elm = written("elm", Role::Builder);
    let lease = story.start("build", &elm);
    story.tell(&elm, failed(lease, Failure::Permanent));
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert!(
        matches!(reason, Reason::RetriesExhausted { .. }),
        "{reason:?}"
    );
}

/// Returns a ticket in review, with a change that `by` built.
fn built_by(by: &Actor, policy: Policy) -> Story {
    let mut story = Story::under(policy);
    let lease = story.start("build", by);
    story.tell(by, submitted(lease, "c1")).green();
    story
}

#[test]
fn who_built_does_not_stand_in_as_its_judge_and_the_pause_stays() {
    for builder in ["elm", "elm@large"] {
        let mut story = built_by(
            &written(builder, Role::Builder),
            falls_back(None, Some("elm")),
        );
        let serial = story.job("review").serial;
        assert_eq!(fallback_agent(&story.ticket, &story.policy, serial), None);
        let why = "oak is paused".to_owned();
        let refused = story.refused(&house(), EventKind::AgentOut { serial, why });
        assert_eq!(refused, Refused::NoFallback { serial });
        let oak = written("oak", Role::Reviewer);
        let lease = story.start("review", &oak);
        story.tell(&oak, failed(lease, Failure::Quota { until: UNTIL }));
        assert_eq!(story.job("review").agent, None, "it waits for its own");
        assert_eq!(story.stage(), Stage::Reviewing);
    }
}

#[test]
fn somebody_else_stands_in_as_a_judge() {
    let mut story = built_by(
        &written("oak", Role::Builder),
        falls_back(None, Some("elm")),
    );
    let serial = story.job("review").serial;
    let why = "fir is paused".to_owned();
    story.tell(&house(), EventKind::AgentOut { serial, why });
    goes_to(&story, "review", "elm");
    let elm = written("elm", Role::Reviewer);
    let lease = story.start("review", &elm);
    let report = story.review_report(lease, approves());
    story.tell(&elm, report);
    assert_eq!(story.stage(), Stage::Approved);
}

#[test]
fn who_built_in_anothers_place_judges_nothing_of_it() {
    let mut story = Story::at(Stage::Building, &falls_back(Some("elm"), None));
    let lease = held(&story, "build");
    story.tell(&builder(), failed(lease, Failure::Permanent));
    let elm = written("elm", Role::Builder);
    let lease = story.start("build", &elm);
    story.tell(&elm, submitted(lease, "c1")).green();
    let job = story.job("review");
    let lease = Lease {
        serial: job.serial,
        fence: job.fence + 1,
    };
    let refused = story.refused(
        &written("elm", Role::Reviewer),
        EventKind::Started { lease },
    );
    assert!(matches!(refused, Refused::OwnWork { .. }), "{refused}");
    story.start("review", &written("oak", Role::Reviewer));
}

#[test]
fn a_person_may_choose_one_program_for_both() {
    let mut story = built_by(&written("elm", Role::Builder), Policy::default());
    story.start("review", &written("elm", Role::Reviewer));
}

#[test]
fn a_reviewer_whose_reviewer_built_it_goes_to_the_reviewers_own_fallback() {
    let reviewer = ReviewerConfig {
        agent: Some("elm".to_owned()),
        fallback: Some("fir".to_owned()),
        ..ReviewerConfig::default()
    };
    let policy = Policy {
        reviewers: vec![reviewer],
        ..falls_back(Some("elm"), Some("ash"))
    };
    let mut story = Story::at(Stage::Building, &policy);
    let lease = held(&story, "build");
    story.tell(&builder(), failed(lease, Failure::Permanent));
    let elm = written("elm", Role::Builder);
    let lease = story.start("build", &elm);
    story.tell(&elm, submitted(lease, "c1")).green();
    goes_to(&story, "review", "fir");
}

#[test]
fn nobody_is_handed_a_job_that_is_in_hand_or_gone() {
    let story = Story::at(Stage::Building, &falls_back(Some("elm"), None));
    let why = "oak is paused".to_owned();
    let serial = held(&story, "build").serial;
    let refused = story.refused(
        &house(),
        EventKind::AgentOut {
            serial,
            why: why.clone(),
        },
    );
    assert!(matches!(refused, Refused::NotNow { .. }), "{refused}");
    let story = Story::under(falls_back(Some("elm"), None));
    let refused = story.refused(&house(), EventKind::AgentOut { serial: 99, why });
    assert_eq!(refused, Refused::NoSuchJob { serial: 99 });
}

#[test]
fn no_money_means_no_stand_in() {
    let mut policy = falls_back(Some("elm"), None);
    policy.budget.ticket.usd_micros = Some(1_000_000);
    let mut story = Story::at(Stage::Building, &policy);
    let lease = held(&story, "build");
    let what = EventKind::JobFailed {
        lease,
        failure: Failure::Permanent,
        message: "not logged in".to_owned(),
        usage: crate::story::dollars(2),
    };
    story.tell(&builder(), what);
    let reason = &story.ticket.escalation.as_ref().unwrap().reason;
    assert!(matches!(reason, Reason::Budget { .. }), "{reason:?}");
    assert!(story.ticket.jobs.is_empty());
}

#[test]
fn agents_take_the_free_reviewers_in_turn_and_the_rest_get_reviewers_of_their_own() {
    let lens = |name: &str, agent: Option<&str>| ReviewerConfig {
        name: name.to_owned(),
        agent: agent.map(str::to_owned),
        ..ReviewerConfig::default()
    };
    let panel_names = |reviewers: Vec<ReviewerConfig>, agents: &[&str]| -> Vec<Option<String>> {
        let mut policy = Policy {
            reviewers,
            ..Policy::default()
        };
        let agents: Vec<String> = agents.iter().map(|&name| name.to_owned()).collect();
        policy.assign_agents(&agents);
        assert!(policy.problems().is_empty(), "{:?}", policy.problems());
        policy
            .reviewers
            .into_iter()
            .map(|reviewer| reviewer.agent)
            .collect()
    };
    let some = |name: &str| Some(name.to_owned());
    let one = || vec![lens("a", None)];
    assert_eq!(panel_names(one(), &["oak"]), [None], "the usual one");
    assert_eq!(
        panel_names(one(), &["oak", "elm"]),
        [some("oak"), some("elm")]
    );
    let three = vec![lens("a", None), lens("b", Some("fir")), lens("c", None)];
    let in_turn = [some("oak"), some("fir"), some("elm")];
    assert_eq!(panel_names(three, &["oak", "elm"]), in_turn);
}

#[test]
fn a_builder_in_reserve_must_not_be_the_only_judge() {
    let policy = falls_back(Some("elm"), None);
    assert!(policy.fallback_judge_problem("elm", "oak").is_some());
    assert!(policy.fallback_judge_problem("oak", "elm").is_some());
    assert!(policy.fallback_judge_problem("oak", "oak").is_none());
    let covered = falls_back(Some("elm"), Some("fir"));
    assert!(covered.fallback_judge_problem("elm", "elm").is_none());
}
