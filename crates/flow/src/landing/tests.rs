use std::collections::BTreeMap;

use findings::ReviewClaim;
use proptest::prelude::*;

use super::*;
use crate::advance::open_ticket;
use crate::event::{Actor, Event, EventKind, Role};
use crate::policy::Policy;
use crate::ticket::{PanelReviewer, Round, Spec, TicketId, Time};
use crate::usage::Usage;
use crate::verdict::Verdict;

fn ticket(title: &str, description: &str) -> Ticket {
    let what = EventKind::Created {
        spec: Box::new(Spec {
            title: title.to_owned(),
            description: description.to_owned(),
            ..Spec::default()
        }),
        met: std::collections::BTreeSet::new(),
        failed: Vec::new(),
    };
    let event = Event {
        at: Time(0),
        by: Actor::new("hugo", Role::Human),
        expects: None,
        what,
    };
    let id = TicketId::new("T-7").unwrap();
    open_ticket(&id, &event, &Policy::default()).unwrap().ticket
}

fn answer(reviewer: &str, model: Option<&str>) -> PanelReviewer {
    PanelReviewer {
        name: reviewer.to_owned(),
        attempts: 1,
        linter: false,
        refusal: None,
        answer: Some(ReviewerAnswer {
            reviewer: reviewer.to_owned(),
            model: model.map(str::to_owned),
            claim: ReviewClaim::Approved,
            first_claim: None,
            reported: std::collections::BTreeSet::new(),
            scores: BTreeMap::new(),
            overall_score: None,
            blocking_issues: 0,
            criteria: Vec::new(),
            notes: None,
            sandbox: String::new(),
            answers_open: false,
            remarks: Vec::new(),
        }),
    }
}

fn approved(mut ticket: Ticket, by: ApprovedBy, panel: Vec<PanelReviewer>) -> Ticket {
    ticket.rounds.push(Round {
        number: 1,
        allowed: 3,
        commit: "c1".to_owned(),
        tree: String::new(),
        base_tree: String::new(),
        builder: None,
        policy: String::new(),
        review_started_at: Time(0),
        decided_at: Time(0),
        verdict: Verdict {
            approved: true,
            gates: Vec::new(),
            claims: BTreeMap::new(),
            disagreement: None,
            open_must_fix: 0,
            follow_ups: Vec::new(),
            notes: Vec::new(),
            overall_score: None,
        },
        panel,
        checks: Vec::new(),
        usage: Usage::default(),
        findings: Vec::new(),
        scores: BTreeMap::new(),
    });
    ticket.approval = Some(Approval {
        commit: "c1".to_owned(),
        tree: String::new(),
        base_tree: String::new(),
        diff_id: "d".to_owned(),
        policy: "p1".to_owned(),
        round: 1,
        at: Time(0),
        by,
        checks: Vec::new(),
    });
    ticket
}

fn by(names: &[&str], refused: &[&str]) -> ApprovedBy {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ApprovedBy::Reviewers {
        names: list(names),
        refused: list(refused),
    }
}

fn template(text: &str) -> LandingConfig {
    LandingConfig {
        message: Some(text.to_owned().try_into().unwrap()),
        ..LandingConfig::default()
    }
}

#[test]
fn the_trailers_name_those_that_approved_with_agent_and_model_and_never_one_that_refused() {
    let seats = vec![
        answer("codex (reviewer)", Some("gpt-5.2")),
        answer("claude@opus (reviewer 2)", None),
        answer("gemini (reviewer)", Some("pro")),
    ];
    let names = ["codex (reviewer)", "claude@opus (reviewer 2)"];
    let done = approved(
        ticket("Greet", ""),
        by(&names, &["gemini (reviewer)"]),
        seats,
    );
    assert_eq!(
        trailers(&done),
        "Countersigned-by: codex (gpt-5.2) <codex@countersign.invalid>\n\
         Countersigned-by: claude (opus) <claude@countersign.invalid>\n\
         Ticket: T-7\nCountersign-Ticket: T-7\nCountersign-Commit: c1\nCountersign-Policy: p1\n"
    );
}

#[test]
fn a_person_and_an_earlier_round_are_named_and_nobody_is_not() {
    let person = ApprovedBy::Person {
        name: "ada@example.org".to_owned(),
        why: String::new(),
        over_red_checks: false,
    };
    let text = trailers(&approved(ticket("x", ""), person, Vec::new()));
    assert!(
        text.starts_with("Countersigned-by: ada@example.org <ada@example.org>\n"),
        "{text}"
    );
    let mut again = approved(
        ticket("x", ""),
        by(&["codex (reviewer)"], &[]),
        vec![answer("codex (reviewer)", Some("m"))],
    );
    let first = again.approval.clone().unwrap();
    again.approvals_voided.push(first.clone());
    again.approval = Some(Approval {
        by: ApprovedBy::Earlier { round: 1 },
        round: 2,
        ..first
    });
    assert!(trailers(&again).starts_with("Countersigned-by: codex (m) <"));
    let nobody = approved(ticket("x", ""), ApprovedBy::NobodyAsPolicySays, Vec::new());
    let text = trailers(&nobody);
    assert!(!text.contains("Countersigned-by"), "{text}");
    assert!(text.contains("Countersign-Review: none"), "{text}");
}

#[test]
fn a_template_is_filled_and_a_wrong_one_is_refused_with_what_is_known() {
    let done = approved(
        ticket("Greet", "Say hello."),
        by(&["codex (reviewer)"], &[]),
        Vec::new(),
    );
    let config = template("{ticket}: {title} {{by {reviewers}}}\n\n{body}");
    let text = message(&done, &config, LandingStyle::Squash);
    assert!(
        text.starts_with("T-7: Greet {by codex}\n\nSay hello.\n\nCountersigned-by: codex <"),
        "{text}"
    );
    let merge = message(&done, &LandingConfig::default(), LandingStyle::Merge);
    assert!(
        merge.starts_with("Merge T-7: Greet\n\nCountersigned-by"),
        "{merge}"
    );
    let long = "x".repeat(TEMPLATE_CHARS_MAX + 1);
    for (wrong, why) in [
        ("{titel}", "unknown placeholder {titel}: use {title}"),
        ("{title", "single brace"),
        ("title}", "single brace"),
        ("", "no first line"),
        ("\n{title}", "no first line"),
        ("a\u{202e}b", "invisible"),
        (&long, "longer than"),
    ] {
        let error = MessageTemplate::try_from(wrong.to_owned()).unwrap_err();
        assert!(error.contains(why), "{wrong:?}: {error}");
    }
}

#[test]
fn names_on_commits_are_a_word_or_a_name_with_an_address() {
    for good in [
        "builder",
        "person",
        "countersign",
        "Ada L <ada@example.org>",
    ] {
        let name = CommitName::try_from(good.to_owned()).unwrap();
        assert_eq!(String::from(name), good);
    }
    for bad in [
        "",
        "ada",
        "Ada <>",
        "<a@b>",
        "Ada <a@b> x",
        "A\nB <a@b>",
        "A<B <a@b>>",
    ] {
        assert!(CommitName::try_from(bad.to_owned()).is_err(), "{bad}");
    }
    let wrong = LandingConfig {
        committer: Some(CommitName::Builder),
        ..LandingConfig::default()
    };
    assert_eq!(wrong.problems().len(), 1);
}

#[test]
fn a_rework_message_has_the_round() {
    let message = ReworkMessage::code_review_round();
    assert_eq!(
        message.for_round(2),
        "fix: address code review round 2 - <what you did>"
    );
    assert!(ReworkMessage::try_from("fix {title}".to_owned()).is_err());
}

proptest! {
    /// Whatever a builder or a ticket writes, only our own last paragraph countersigns.
    #[test]
    fn no_text_can_add_a_countersignature(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("Countersigned-by: codex <codex@countersign.invalid>".to_owned()),
                Just("  countersigned-BY: me".to_owned()),
                Just("Countersigned-by : me".to_owned()),
                Just("> * Countersigned-by\t: me".to_owned()),
                Just("Countersigned-by：me".to_owned()),
                Just("Countersign-Commit: c9".to_owned()),
                Just("Ticket: T-1".to_owned()),
                Just(String::new()),
                "[ -~]{0,40}",
            ],
            0..12,
        ),
    ) {
        let own = "Countersigned-by: x <x@y>\nTicket: T-7\n";
        let text = with_trailers(&lines.join("\n"), own);
        prop_assert!(text.ends_with(own));
        let said = text.strip_suffix(own).unwrap().to_lowercase();
        let is_key = |c: &char| c.is_alphanumeric() || matches!(c, '-' | ':' | '：');
        let forged = said.lines().any(|line| {
            let bare: String = line.chars().filter(is_key).collect();
            let bare = bare.trim_start_matches('-').replace('：', ":");
            bare.starts_with("countersigned-by:")
        });
        prop_assert!(!forged, "{}", said);
        prop_assert!(!text.trim_start().is_empty());
    }

    #[test]
    fn any_template_is_taken_or_refused(text in "[{}a-z\\n ]{0,30}") {
        if let Ok(template) = MessageTemplate::try_from(text.clone()) {
            let config = LandingConfig { message: Some(template), ..LandingConfig::default() };
            let done = approved(ticket("Greet", ""), by(&[], &[]), Vec::new());
            prop_assert!(message(&done, &config, LandingStyle::Squash).contains("Ticket: T-7"));
        }
    }
}
