//! A rejected round is told by its findings; gates that no finding explains are sentences.

use findings::{Review, ReviewClaim, Severity};
use flow::event::AnswerOutcome;
use flow::narrate::narrate;
use flow::policy::{MinorOnly, ReviewerConfig, Votes};
use flow::rejection::{FINDINGS_SHOWN_MAX, describe_rejection, describe_rework_reason};
use flow::ticket::{CheckOutcome, CheckResult, ReworkReason};
use flow::{Actor, Policy, Role, Stage, Ticket};

use crate::story::{Story, approves, finding, rejects, review, scores};

fn decided(policy: &Policy, given: Review) -> Story {
    let mut story = Story::at(Stage::Reviewing, policy);
    story.reviewed(given);
    story
}

fn rejection(story: &Story) -> String {
    describe_rejection(&story.ticket, story.ticket.rounds.last().unwrap())
}

#[test]
fn a_refusal_is_told_by_its_findings() {
    let mut defect = finding("An empty name is greeted", Severity::High);
    defect.line = Some(12);
    let story = decided(
        &Policy::default(),
        review(ReviewClaim::ChangesRequested, &[defect]),
    );
    assert_eq!(
        rejection(&story),
        "rita asked for changes: F1 (high) An empty name is greeted, src/greet.rs:12"
    );
}

#[test]
fn the_most_severe_findings_come_first_and_the_rest_is_counted() {
    let mut titles: Vec<String> = (0..8)
        .map(|n| format!("Defect {n} of the parser {n}"))
        .collect();
    titles[7] = "The password is logged in plain text".to_owned();
    let mut all: Vec<_> = titles
        .iter()
        .map(|title| finding(title, Severity::High))
        .collect();
    all[7] = finding(&titles[7], Severity::Critical);
    let story = decided(
        &Policy::default(),
        review(ReviewClaim::ChangesRequested, &all),
    );
    let text = rejection(&story);
    let more = all.len() - FINDINGS_SHOWN_MAX;
    assert!(
        text.contains("changes: F8 (critical) The password"),
        "{text}"
    );
    assert!(text.ends_with(&format!("and {more} more")), "{text}");
    assert_eq!(text.matches("src/greet.rs").count(), FINDINGS_SHOWN_MAX);
}

#[test]
fn gates_without_findings_are_sentences() {
    let low = Review {
        overall_score: Some(71),
        ..approves()
    };
    let story = decided(&Policy::default(), low);
    assert_eq!(rejection(&story), "the weighted score is 71, 75 is needed");
    let weak = scores(&[("requirement_adherence", 89), ("code_quality", 100)]);
    let story = decided(&Policy::default(), weak);
    assert_eq!(
        rejection(&story),
        "the score of requirement_adherence is 89, 90 is needed"
    );
    // An approval with a finding that must be fixed: the finding is named.
    let high = finding("Names are not escaped", Severity::High);
    let story = decided(&Policy::default(), review(ReviewClaim::Approved, &[high]));
    assert_eq!(
        rejection(&story),
        "open: F1 (high) Names are not escaped, src/greet.rs"
    );
}

#[test]
fn votes_of_several_reviewers_are_counted_in_words() {
    let config = |name: &str| ReviewerConfig {
        name: name.to_owned(),
        ..ReviewerConfig::default()
    };
    let policy = Policy {
        votes: Votes::All,
        reviewers: ["one", "two", "three"].map(config).to_vec(),
        minor_only: MinorOnly::Rework,
        ..Policy::default()
    };
    let mut story = Story::at(Stage::Reviewing, &policy);
    for (name, given) in [
        ("ann", approves()),
        ("ben", rejects(&["An empty name is greeted"])),
        ("cid", approves()),
    ] {
        story.reviewed_by(&Actor::new(name, Role::Reviewer), given);
    }
    assert_eq!(
        rejection(&story),
        "ben asked for changes: F1 (high) An empty name is greeted, src/greet.rs; \
         2 of 3 reviewers approved, all are needed"
    );
}

/// Returns the sentences of the story's last event.
fn last_sentences(policy: &Policy, given: Review) -> Vec<(String, String)> {
    let mut story = Story::at(Stage::Reviewing, policy);
    let before = story.ticket.clone();
    story.reviewed(given);
    let event = story.log.last().unwrap().clone();
    let told = narrate(Some(&before), &event, &story.ticket, policy);
    told.into_iter()
        .map(|sentence| (sentence.activity.to_owned(), sentence.text))
        .collect()
}

#[test]
fn each_finding_has_a_line_when_it_arrives_and_at_most_five_do() {
    let told = last_sentences(&Policy::default(), rejects(&["An empty name is greeted"]));
    let texts: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts[..3],
        [
            "round 1: rita asks for changes, 1 finding",
            "F1 (high) An empty name is greeted, src/greet.rs",
            "[REVIEW-REJECTED] attempt 1/3: rita asked for changes: F1 (high) An empty name is \
             greeted, src/greet.rs",
        ]
    );
    let titles = [
        "An empty name is greeted",
        "The port is never checked",
        "Errors are swallowed here",
        "The lock is taken twice",
        "A file handle leaks",
        "Numbers overflow silently",
        "The cache never shrinks",
    ];
    let told = last_sentences(&Policy::default(), rejects(&titles));
    let lines: Vec<&str> = told
        .iter()
        .filter(|(activity, _)| activity == "finding")
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(lines.len(), FINDINGS_SHOWN_MAX + 1);
    assert_eq!(lines[FINDINGS_SHOWN_MAX], "and 2 more findings");
    let told = last_sentences(&Policy::default(), approves());
    assert!(told.iter().all(|(activity, _)| activity != "finding"));
}

#[test]
fn every_reason_for_rework_is_a_sentence() {
    let story = decided(&Policy::default(), rejects(&["An empty name is greeted"]));
    let red = vec![CheckResult {
        name: "test".to_owned(),
        outcome: CheckOutcome::Failed,
        tail: String::new(),
        wall_ms: 0,
    }];
    for (reason, sentence) in [
        (
            ReworkReason::Findings,
            "rita asked for changes: F1 (high) An empty name is greeted, src/greet.rs",
        ),
        (
            ReworkReason::RedChecks {
                results: red.clone(),
            },
            "red checks: `test`",
        ),
        (
            ReworkReason::RedCombination { results: red },
            "red together with the base branch: `test`",
        ),
        (
            ReworkReason::Conflict {
                files: vec!["a.rs".to_owned()],
                evidence: String::new(),
            },
            "conflicts with the base branch: a.rs",
        ),
        (
            ReworkReason::Conflict {
                files: Vec::new(),
                evidence: String::new(),
            },
            "the base branch no longer has the commits it is based on",
        ),
    ] {
        assert_eq!(describe_rework_reason(&story.ticket, &reason), sentence);
    }
}

#[test]
fn a_ticket_of_the_first_release_is_read_with_its_old_names() {
    let story = decided(&Policy::default(), rejects(&["An empty name is greeted"]));
    let text = serde_json::to_string(&story.ticket).unwrap();
    let old = text
        .replace("\"panel\":", "\"seats\":")
        .replace("\"rework_reason\":", "\"setback\":")
        .replace("\"fallback\":", "\"stand_in\":")
        .replace("\"sandbox\":", "\"isolation\":")
        .replace("\"reviewer\":\"reviewer\"", "\"seat\":\"reviewer\"");
    for name in ["seats", "setback", "isolation"] {
        assert!(old.contains(&format!("\"{name}\":")), "{name}");
    }
    let read: Ticket = serde_json::from_str(&old).unwrap();
    assert_eq!(read, story.ticket);
    // Sentences of an older version do not count when a log is compared with the store.
    let mut reworded = read;
    for gate in &mut reworded.rounds[0].verdict.gates {
        gate.why = "0 of 1 approve, 1 needed".to_owned();
        gate.findings.clear();
    }
    assert_ne!(reworded, story.ticket);
    assert_eq!(reworded.without_wording(), story.ticket.without_wording());
}

#[test]
fn an_earlier_round_is_told_in_its_own_words() {
    let mut first = finding("An empty name is greeted", Severity::High);
    first.line = Some(12);
    let mut story = decided(
        &Policy::default(),
        review(ReviewClaim::ChangesRequested, &[first.clone()]),
    );
    let told = rejection(&story);
    story.built("c2").green();
    let later = findings::Finding {
        title: "An empty name is still greeted".to_owned(),
        line: Some(14),
        ..first
    };
    story.reviewed(review(ReviewClaim::ChangesRequested, &[later]));
    let earlier = &story.ticket.rounds[0];
    assert_eq!(describe_rejection(&story.ticket, earlier), told);
    // The round is decided when the open finding of the first has its answer.
    if story.jobs("verify") > 0 {
        story.verified(AnswerOutcome::Confirmed);
    }
    assert_eq!(story.ticket.rounds.len(), 2);
    assert_eq!(
        rejection(&story),
        "rita asked for changes: F1 (high) An empty name is still greeted, src/greet.rs:14"
    );
    let earlier = &story.ticket.rounds[0];
    assert_eq!(describe_rejection(&story.ticket, earlier), told);
}
