//! Plays a run and compares the drawn lines with snapshots.

#![expect(
    clippy::needless_raw_string_hashes,
    reason = "snapshots are written by expect-test"
)]

use engine::agent::AgentUsage;
use expect_test::{Expect, expect};
use flow::ticket::Spec;
use flow::{Actor, Event, EventKind, Policy, Role};

use super::*;
use crate::cli::paint::{ASCII, UNICODE};

const START: Time = Time(1_000_000);

fn id(text: &str) -> TicketId {
    TicketId::new(text).unwrap()
}

fn ticket(name: &str, title: &str) -> Ticket {
    let spec = Spec {
        title: title.to_owned(),
        ..Spec::default()
    };
    let event = Event {
        at: START,
        by: Actor::new("ada", Role::Human),
        expects: None,
        what: EventKind::Created {
            spec: Box::new(spec),
            met: BTreeSet::new(),
            failed: Vec::new(),
        },
    };
    flow::open_ticket(&id(name), &event, &Policy::default())
        .unwrap()
        .ticket
}

fn told(ticket: &Ticket) -> ProgressUpdate {
    ProgressUpdate {
        ticket: ticket.id.clone(),
        story: Vec::new(),
        after: Box::new(ticket.clone()),
    }
}

fn sign(
    ticket: &str,
    role: &'static str,
    name: &str,
    sign: ActivityKind,
    detail: &str,
) -> Activity {
    Activity {
        ticket: id(ticket),
        job: 1,
        round: 1,
        role,
        name: name.to_owned(),
        sign,
        detail: detail.to_owned(),
        usage: AgentUsage {
            usd_micros: Some(340_000),
            ..AgentUsage::default()
        },
        at: Time(START.0 + 10_000),
    }
}

/// Returns the progress of a ticket whose builder is running.
fn building() -> RunProgress {
    let mut progress = RunProgress::new(START);
    progress.checks = vec!["lint".to_owned(), "test".to_owned()];
    let mut greet = ticket("greet", "Greet by name");
    greet.stage = Stage::Building;
    progress.apply_update(&told(&greet));
    progress.apply_activity(sign("greet", "build", "claude", ActivityKind::Began, ""));
    progress.apply_activity(sign(
        "greet",
        "build",
        "claude",
        ActivityKind::Used,
        "Bash cargo test",
    ));
    progress
}

fn checking() -> RunProgress {
    let mut progress = building();
    progress.apply_activity(sign(
        "greet",
        "build",
        "claude",
        ActivityKind::Ended,
        "exit code 0",
    ));
    let mut greet = ticket("greet", "Greet by name");
    greet.stage = Stage::Checking;
    progress.apply_update(&told(&greet));
    progress.apply_activity(sign("greet", "check", "lint", ActivityKind::Began, ""));
    progress.apply_activity(sign(
        "greet",
        "check",
        "lint",
        ActivityKind::Ended,
        "exit code 1",
    ));
    progress.apply_activity(sign("greet", "check", "test", ActivityKind::Began, ""));
    progress
}

fn seen(
    progress: &RunProgress,
    width: usize,
    height: usize,
    seconds: i64,
    glyphs: &Glyphs,
) -> String {
    let lines = progress.lines(width, height, Time(START.0 + seconds * 1000), glyphs);
    let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
    format!("{}\n", texts.join("\n"))
}

#[track_caller]
fn shows(progress: &RunProgress, width: usize, expected: &Expect) {
    expected.assert_eq(&seen(progress, width, 12, 15, &UNICODE));
}

#[test]
fn an_agent_at_work_is_shown_with_its_last_word() {
    shows(
        &building(),
        79,
        &expect![[r#"
        ⠋ greet  building  round 1  15s  $0.34  Greet by name
          ╰ build claude  5s  Bash cargo test
    "#]],
    );
}

#[test]
fn checks_are_marked_as_they_go() {
    shows(
        &checking(),
        79,
        &expect![[r#"
        ⠋ greet  checking  round 1  15s  Greet by name
          checks ━━━─── 1/2  ✗ lint  ⠋ test 5s
    "#]],
    );
}

#[test]
fn silence_is_said() {
    let text = seen(&building(), 79, 12, 100, &UNICODE);
    assert!(text.contains("silent for 1m 30s"), "{text}");
}

#[test]
fn a_narrow_terminal_and_one_without_unicode_get_what_fits() {
    expect![[r#"
        | greet  checking ~
          checks ###... 1/~
    "#]]
    .assert_eq(&seen(&checking(), 19, 12, 15, &ASCII));
}

#[test]
fn an_epic_has_a_bar_and_never_takes_more_lines_than_it_is_given() {
    let mut progress = checking();
    progress.expect_tickets(6, [id("a"), id("b")]);
    for name in ["c", "d"] {
        let mut other = ticket(name, "Another one");
        other.stage = Stage::Reviewing;
        progress.apply_update(&told(&other));
        progress.apply_activity(sign(
            name,
            "review",
            "codex",
            ActivityKind::Said,
            "Looks fine",
        ));
    }
    shows(
        &progress,
        79,
        &expect![[r#"
            ⠋ c  reviewing  round 1  15s  $0.34  Another one
              ╰ review codex  5s  Looks fine
            ⠋ d  reviewing  round 1  15s  $0.34  Another one
              ╰ review codex  5s  Looks fine
            ⠋ greet  checking  round 1  15s  Greet by name
              checks ━━━─── 1/2  ✗ lint  ⠋ test 5s
            ━━━━━━━━──────────────── 2/6 tickets · 3 at work · 15s · $0.68
        "#]],
    );
    let few = seen(&progress, 79, 4, 15, &UNICODE);
    assert_eq!(few.lines().count(), 4, "{few}");
}

#[test]
fn a_ticket_that_rests_has_no_line_and_one_that_ended_counts() {
    let mut progress = building();
    progress.expect_tickets(1, []);
    let mut greet = ticket("greet", "Greet by name");
    greet.stage = Stage::Done;
    progress.apply_update(&told(&greet));
    expect![[r#"
        ━━━━━━━━━━━━━━━━━━━━━━━━ 1/1 tickets · 0 at work · 15s
    "#]]
    .assert_eq(&seen(&progress, 79, 12, 15, &UNICODE));
}

#[test]
fn a_person_who_asked_to_stop_is_answered() {
    let mut progress = building();
    progress.stopping();
    let text = seen(&progress, 79, 12, 15, &UNICODE);
    assert!(text.contains("Ctrl-C again stops at once"), "{text}");
}

/// An agent's text never moves the cursor.
#[test]
fn control_characters_never_reach_the_terminal() {
    let mut progress = building();
    progress.apply_activity(sign(
        "greet",
        "build",
        "claude",
        ActivityKind::Said,
        "a\u{1b}[2Jb\nc\r",
    ));
    let text = seen(&progress, 79, 12, 15, &UNICODE);
    assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text:?}");
    assert!(text.contains("ab c"), "{text}");
}
