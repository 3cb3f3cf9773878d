//! Sends keys and events to the view and compares the drawn screen with snapshots.
#![expect(
    clippy::needless_raw_string_hashes,
    reason = "snapshots are written by expect-test"
)]

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use flow::event::{Actor, Event, EventKind, Role};
use flow::ledger::{FindingStatus, LedgerEntry};
use flow::ticket::{Escalation, Reason, Spec};
use flow::{Policy, Stage};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::*;
use crate::cli::paint::{ASCII, UNICODE};
use crate::cli::watch::draw::{Theme, draw};
use app::operations::diff::{DiffFile, DiffRow, DiffRowKind};
use app::operations::overview::ActiveLease;

const NOW: Time = Time(1_770_112_800_000);

fn id(text: &str) -> TicketId {
    TicketId::new(text).unwrap()
}

fn row(number: i64, stage: Stage, title: &str) -> TicketRow {
    TicketRow {
        number,
        id: id(&format!("T-{number}")),
        title: title.to_owned(),
        stage,
        priority: 50,
        round: 2,
        epic: None,
        repository: None,
        version: 7,
        waits_for: 0,
        open_must_fix: u32::from(stage == Stage::Escalated),
        usd_micros: 340_000,
        created_at: NOW,
        updated_at: Time(NOW.0 - 65_000),
    }
}

fn paged(rows: Vec<TicketRow>, next: Option<i64>) -> Paged<TicketRow> {
    Paged { items: rows, next }
}

fn all(after: Option<i64>) -> PageRequest {
    PageRequest {
        group: TicketGroup::All,
        after,
    }
}

fn overview() -> Overview {
    Overview {
        tally: vec![
            (Stage::Building, 1),
            (Stage::Escalated, 1),
            (Stage::Done, 398),
        ],
        leases: vec![ActiveLease {
            kind: "build".to_owned(),
            ticket: Some(id("T-399")),
            holder: "claude".to_owned(),
            until: Some(Time(NOW.0 + 30_000)),
            attempts: 1,
        }],
        ready: [("review".to_owned(), 2)].into(),
        spent_today: flow::Usage {
            usd_micros: 4_200_000,
            ..flow::Usage::default()
        },
        ..Overview::default()
    }
}

/// Returns a view of four hundred tickets with the first page loaded.
fn view() -> View {
    let mut view = View {
        now: NOW,
        person: "ada".to_owned(),
        size: (80, 24),
        ..View::default()
    };
    view.handle(ViewEvent::Overview(Box::new(overview())));
    let mut rows = vec![
        row(400, Stage::Escalated, "Greet by name"),
        row(399, Stage::Building, "Say goodbye"),
    ];
    rows.extend((201..399).rev().map(|n| row(n, Stage::Done, "Old")));
    view.handle(ViewEvent::Page(all(None), paged(rows, Some(201))));
    view
}

/// Returns an escalated ticket with one finding.
fn escalated() -> (Stored, PendingEscalation) {
    let spec = Spec {
        title: "Greet by name".to_owned(),
        ..Spec::default()
    };
    let event = Event {
        at: NOW,
        by: Actor::new("ada", Role::Human),
        expects: None,
        what: EventKind::Created {
            spec: Box::new(spec),
            met: BTreeSet::new(),
            failed: Vec::new(),
        },
    };
    let opened = flow::open_ticket(&id("T-400"), &event, &Policy::default());
    let mut ticket = opened.unwrap().ticket;
    ticket.stage = Stage::Escalated;
    ticket.escalation = Some(Escalation {
        reason: Reason::RoundsUsedUp { rounds: 3 },
        from: Stage::Reviewing,
        at: NOW,
        evidence: String::new(),
    });
    ticket.ledger.entries.push(entry());
    ticket.submission = Some(flow::ticket::Submission {
        commit: "c0ffee".repeat(6),
        branch: "countersign/T-400".to_owned(),
        ..flow::ticket::Submission::default()
    });
    let waiting = PendingEscalation {
        accept_needs_flag: false,
        id: id("T-400"),
        title: "Greet by name".to_owned(),
        reason: "after 3 rounds, the change is not approved".to_owned(),
        evidence: String::new(),
        choices: vec![
            "accept",
            "continue",
            "take-over",
            "reset",
            "reassign",
            "reject",
        ],
        feedback: Vec::new(),
        document: None,
    };
    let stored = Stored {
        number: 400,
        ticket,
        policy: String::new(),
    };
    (stored, waiting)
}

fn entry() -> LedgerEntry {
    let read = findings::read(
        "## Findings\n### [HIGH] An empty name is greeted\n**File:** greet.sh:2\n**Problem:** `greet ''` prints `Hello, `.\n**Fix:** Refuse it.\n",
    );
    let mut ledger = flow::ledger::Ledger::default();
    let incoming = read
        .findings
        .iter()
        .map(|finding| flow::ledger::IncomingFinding {
            finding,
            blocking: false,
            low_confidence: false,
        });
    let incoming: Vec<_> = incoming.collect();
    ledger.record_review(1, "codex", &incoming, &findings::LineMap::default());
    let mut entry = ledger.entries.remove(0);
    entry.finding.file = Some("greet.sh".to_owned());
    entry.finding.line = Some(2);
    assert_eq!(entry.status, FindingStatus::Open);
    entry
}

fn changes() -> RoundDiff {
    let line = |kind, old, new, text: &str| DiffRow {
        kind,
        old,
        new,
        text: text.to_owned(),
    };
    let rows = vec![
        line(DiffRowKind::Kept, Some(1), Some(1), "#!/bin/sh"),
        line(DiffRowKind::Removed, Some(2), None, "echo hello"),
        line(
            DiffRowKind::Added,
            None,
            Some(2),
            "printf 'Hello, %s\\n' \"$1\"",
        ),
        line(DiffRowKind::Kept, Some(3), Some(3), "# end"),
    ];
    RoundDiff {
        from_round: None,
        base_moved: false,
        ticket: id("T-400"),
        round: 3,
        commit: "c0ffee".repeat(6),
        base: "abcdef".repeat(6),
        files: vec![DiffFile {
            path: "greet.sh".to_owned(),
            old_path: None,
            status: 'M',
            added: Some(1),
            removed: Some(1),
            hunks: vec![app::operations::diff::DiffHunk {
                heading: String::new(),
                rows,
            }],
        }],
        findings: vec![entry()],
        cut: false,
        root: None,
    }
}

fn key(code: KeyCode) -> ViewEvent {
    ViewEvent::Key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn press(view: &mut View, keys: &str) -> Vec<ViewRequest> {
    let mut requests = Vec::new();
    for c in keys.chars() {
        requests = view.handle(key(match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        }));
    }
    requests
}

fn opened() -> View {
    let mut view = view();
    press(&mut view, "\n");
    let (stored, waiting) = escalated();
    view.handle(ViewEvent::Ticket(Box::new(stored), Some(waiting)));
    view
}

fn seen_at(view: &mut View, columns: u16, rows: u16, theme: &Theme) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, view, theme)).unwrap();
    let lines = crate::cli::watch::buffer_lines(terminal.backend().buffer());
    let text: Vec<String> = lines
        .iter()
        .map(|line| line.to_string().trim_end().to_owned())
        .collect();
    format!("{}\n", text.join("\n").trim_end())
}

const PLAIN: Theme = Theme {
    glyphs: UNICODE,
    colours: true,
};

#[track_caller]
fn shows(view: &mut View, columns: u16, rows: u16, expected: &Expect) {
    expected.assert_eq(&seen_at(view, columns, rows, &PLAIN));
}

#[test]
fn the_list_says_what_goes_on() {
    shows(
        &mut view(),
        80,
        12,
        &expect![[r#"
            countersign · 1 for you · 1 working · 2 queued · $4.20 today · 10:00:00
             1 all 400  2 for you 1  3 at work 1  4 waiting 0  5 ended 398  w work
            ────────────────────────────────────────────────────────────────────────────────
              ticket  stage      rd    cost      age  1 of 400
            ▸ T-400   escalated   2   $0.34   1m 05s  1 must-fix  Greet by name
              T-399   building    2   $0.34   1m 05s  Say goodbye
              T-398   done        2   $0.34   1m 05s  Old
              T-397   done        2   $0.34   1m 05s  Old
              T-396   done        2   $0.34   1m 05s  Old
              T-395   done        2   $0.34   1m 05s  Old
              T-394   done        2   $0.34   1m 05s  Old
            j k move · Enter open · 1-5 group · / id · w work · ? keys · q quit
        "#]],
    );
}

#[test]
fn a_tall_screen_shows_who_works_too() {
    shows(
        &mut view(),
        120,
        34,
        &expect![[r#"
            countersign · 1 for you · 1 working · 2 queued · $4.20 today · 10:00:00
             1 all 400  2 for you 1  3 at work 1  4 waiting 0  5 ended 398  w work
            ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
              ticket  stage      rd    cost      age  1 of 400
            ▸ T-400   escalated   2   $0.34   1m 05s  1 must-fix  Greet by name
              T-399   building    2   $0.34   1m 05s  Say goodbye
              T-398   done        2   $0.34   1m 05s  Old
              T-397   done        2   $0.34   1m 05s  Old
              T-396   done        2   $0.34   1m 05s  Old
              T-395   done        2   $0.34   1m 05s  Old
              T-394   done        2   $0.34   1m 05s  Old
              T-393   done        2   $0.34   1m 05s  Old
              T-392   done        2   $0.34   1m 05s  Old
              T-391   done        2   $0.34   1m 05s  Old
              T-390   done        2   $0.34   1m 05s  Old
              T-389   done        2   $0.34   1m 05s  Old
              T-388   done        2   $0.34   1m 05s  Old
              T-387   done        2   $0.34   1m 05s  Old
              T-386   done        2   $0.34   1m 05s  Old
              T-385   done        2   $0.34   1m 05s  Old
              T-384   done        2   $0.34   1m 05s  Old
              T-383   done        2   $0.34   1m 05s  Old
              T-382   done        2   $0.34   1m 05s  Old
              T-381   done        2   $0.34   1m 05s  Old
              T-380   done        2   $0.34   1m 05s  Old
              T-379   done        2   $0.34   1m 05s  Old
              T-378   done        2   $0.34   1m 05s  Old
              T-377   done        2   $0.34   1m 05s  Old
              T-376   done        2   $0.34   1m 05s  Old
              T-375   done        2   $0.34   1m 05s  Old
            ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
              build   T-399                         claude  lease 30s  try 2
              waiting for a worker: 2 review
            j k move · Enter open · 1-5 group · / id · w work · ? keys · q quit
        "#]],
    );
}

#[test]
fn twenty_columns_and_ascii_get_what_fits() {
    let theme = Theme {
        glyphs: ASCII,
        colours: false,
    };
    expect![[r#"
        countersign - 1 for~
         1 all 400  2 for y~
        --------------------
          ticket  1 of 400
        > T-400   escalated~
          T-399   building ~
          T-398   done     ~
        j k move - Enter op~
    "#]]
    .assert_eq(&seen_at(&mut view(), 20, 8, &theme));
}

#[test]
fn the_work_has_a_screen_of_its_own() {
    let mut view = view();
    press(&mut view, "w");
    shows(
        &mut view,
        80,
        12,
        &expect![[r#"
        countersign · 1 for you · 1 working · 2 queued · $4.20 today · 10:00:00
         1 all 400  2 for you 1  3 at work 1  4 waiting 0  5 ended 398  w work
        ────────────────────────────────────────────────────────────────────────────────
          build   T-399                       claude  lease 30s  try 2
          waiting for a worker: 2 review
          tickets: 1 building, 1 escalated, 398 done





        j k move · Enter open · 1-5 group · / id · w work · ? keys · q quit
    "#]],
    );
}

#[test]
fn an_escalated_ticket_asks_to_be_settled() {
    shows(
        &mut opened(),
        80,
        16,
        &expect![[r#"
            T-400  escalated  round 1  Greet by name
             rounds 0  findings 1  diff  log
            ────────────────────────────────────────────────────────────────────────────────
            waits for you: after 3 rounds, the change is not approved; s settles it
              escalated, waits for a person's decision
              commit c0ffeec0ff on countersign/T-400 (0 files)
              after 3 rounds, the change is not approved
              resolve it: countersign escalation show T-400
              spent $0.00, 0 tokens, 0 s

            findings
              F1  high  open  greet.sh:2  An empty name is greeted



            s settle · c comment · Tab next · n finding · [ ] round · ? keys · q back
        "#]],
    );
}

#[test]
fn the_diff_has_its_findings_in_place() {
    let mut view = opened();
    assert_eq!(
        press(&mut view, "d"),
        [ViewRequest::Diff(id("T-400"), None)]
    );
    view.handle(ViewEvent::Diff(id("T-400"), Box::new(changes())));
    shows(
        &mut view,
        80,
        20,
        &expect![[r#"
            T-400  escalated  round 1  Greet by name
             rounds 0  findings 1  diff  log
            ────────────────────────────────────────────────────────────────────────────────
            waits for you: after 3 rounds, the change is not approved; s settles it
            T-400  round 3  abcdefabcd..c0ffeec0ff  1 file, 1 finding open

            greet.sh  +1 -1
            ───
              1   #!/bin/sh
              2 - echo hello
              2 + printf 'Hello, %s\n' "$1"
                ╭ F1 high open · round 1, codex
                │ An empty name is greeted
                │ `greet ''` prints `Hello, `.
                ╰ fix: Refuse it.
              3   # end



            s settle · c comment · Tab next · n finding · [ ] round · ? keys · q back
        "#]],
    );
}

#[test]
fn one_goes_from_finding_to_finding() {
    let mut view = opened();
    press(&mut view, "d");
    let mut long = changes();
    for _ in 0..6 {
        long.files.push(long.files[0].clone());
    }
    view.handle(ViewEvent::Diff(id("T-400"), Box::new(long)));
    seen_at(&mut view, 80, 12, &PLAIN);
    let top = |view: &View| view.opened.as_ref().unwrap().top;
    press(&mut view, "n");
    let first = top(&view);
    press(&mut view, "n");
    assert!(0 < first && first < top(&view));
    press(&mut view, "N");
    assert_eq!(top(&view), first);
}

#[test]
fn all_six_choices_are_offered_and_asked_about() {
    let mut view = opened();
    press(&mut view, "s");
    shows(
        &mut view,
        80,
        20,
        &expect![[r#"
            T-400  escalated  round 1  Greet by name
             rounds 0  findings 1  diff  log
            ────────────────────────────────────────────────────────────────────────────────
            waits for you: after 3 rounds, the change is not approved; s settles it
              escalated, waits for a person's decision
              commit c0ffeec0ff on countersign/T-400 (0 files)
              after 3 rounds, the change is not approved
              resolve it: countersign escalation show T-400
              spent $0.00, 0 tokens, 0 s

            ────────────────────────────────────────────────────────────────────────────────
            settle T-400
            ▸ 1 accept     done despite open findings, which are waived in your name
              2 continue   one more round, or retry the interrupted step
              3 take-over  you fix it by hand and resubmit; until then the ticket is blocked
              4 reset      restart the count of rounds
              5 reassign   assign another builder or reviewer
              6 reject     the ticket fails
            number or Enter: choose; Esc: cancel
        "#]],
    );
    press(&mut view, "5");
    shows(
        &mut view,
        80,
        20,
        &expect![[r#"
        T-400  escalated  round 1  Greet by name
         rounds 0  findings 1  diff  log
        ────────────────────────────────────────────────────────────────────────────────
        waits for you: after 3 rounds, the change is not approved; s settles it
          escalated, waits for a person's decision
          commit c0ffeec0ff on countersign/T-400 (0 files)
          after 3 rounds, the change is not approved
          resolve it: countersign escalation show T-400
          spent $0.00, 0 tokens, 0 s

        findings
        ────────────────────────────────────────────────────────────────────────────────
        settle T-400
        reassign   assign another builder or reviewer
        ▸ builder         _  (empty: no change)
          reviewer          (empty: no change)
          why               (recorded with your name)
          who             ada
        Enter: next field, or decide at the last one; Esc: back
    "#]],
    );
}

#[test]
fn a_decision_carries_who_and_why() {
    let mut view = opened();
    let requests = press(&mut view, "s1they know\n \n\n");
    let [ViewRequest::Settle(ticket, decision)] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(ticket.as_str(), "T-400");
    assert_eq!(
        **decision,
        Decision {
            choice: "accept",
            who: "ada".to_owned(),
            why: "they know".to_owned(),
            over_red_checks: true,
            builder: None,
            reviewer: None,
        }
    );
    assert!(press(&mut view, "\n").is_empty(), "it is sent once");
}

#[test]
fn another_name_and_other_agents_can_be_typed() {
    let mut view = opened();
    let requests = press(&mut view, "s5gemini\n\n\n\u{8}\u{8}\u{8}eve\n");
    let [ViewRequest::Settle(_, decision)] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(decision.builder.as_deref(), Some("gemini"));
    assert_eq!(
        (decision.reviewer.as_deref(), decision.who.as_str()),
        (None, "eve")
    );
}

#[test]
fn what_needs_a_reason_is_not_decided_without_one() {
    for keys in ["s1\n\n\n", "s6\n\n"] {
        let mut view = opened();
        assert!(press(&mut view, keys).is_empty());
        let resolve_dialog = view.opened.unwrap().resolve_dialog.unwrap();
        assert_eq!(resolve_dialog.form.unwrap().missing, Some("why"));
    }
}

#[test]
fn a_refused_decision_can_be_made_otherwise() {
    let mut view = opened();
    press(&mut view, "s1because\n\n\n");
    view.handle(ViewEvent::Failed("checks are not green".to_owned()));
    let text = seen_at(&mut view, 80, 20, &PLAIN);
    assert!(text.contains("checks are not green"), "{text}");
    assert!(matches!(
        press(&mut view, "\n").as_slice(),
        [ViewRequest::Settle(..)]
    ));
}

#[test]
fn nothing_is_settled_by_leaving() {
    let mut view = opened();
    assert!(press(&mut view, "s1reason\u{1b}\u{1b}").is_empty());
    assert!(view.opened.as_ref().unwrap().resolve_dialog.is_none());
    press(&mut view, "\u{1b}");
    assert!(view.opened.is_none());
    assert_eq!(press(&mut view, "q"), [ViewRequest::Quit]);
}

#[test]
fn a_ticket_that_waits_for_nobody_says_so() {
    let mut view = opened();
    let (mut stored, _) = escalated();
    stored.ticket.stage = Stage::Building;
    stored.ticket.escalation = None;
    press(&mut view, "s");
    view.handle(ViewEvent::Ticket(Box::new(stored), None));
    assert!(
        view.opened.as_ref().unwrap().resolve_dialog.is_none(),
        "settled by somebody else"
    );
    press(&mut view, "s");
    let text = seen_at(&mut view, 80, 20, &PLAIN);
    assert!(text.contains("T-400 needs no decision"), "{text}");
}

#[test]
fn the_list_goes_on_page_by_page_and_back() {
    let mut view = view();
    press(&mut view, "G");
    assert_eq!(view.list.chosen().unwrap().number, 201);
    assert_eq!(press(&mut view, "j"), [ViewRequest::Page(all(Some(201)))]);
    let rest: Vec<_> = (1..201).rev().map(|n| row(n, Stage::Done, "Old")).collect();
    view.handle(ViewEvent::Page(all(Some(201)), paged(rest, None)));
    assert_eq!(view.list.chosen().unwrap().number, 200);
    let text = seen_at(&mut view, 80, 10, &PLAIN);
    assert!(text.contains("201 of 400"), "{text}");
    assert_eq!(press(&mut view, "k"), [ViewRequest::Page(all(None))]);
    let first: Vec<_> = (201..401)
        .rev()
        .map(|n| row(n, Stage::Done, "Old"))
        .collect();
    view.handle(ViewEvent::Page(all(None), paged(first, Some(201))));
    assert_eq!(view.list.chosen().unwrap().number, 201);
}

#[test]
fn the_choice_stays_on_its_ticket_when_others_come() {
    let mut view = view();
    press(&mut view, "j");
    assert_eq!(view.list.chosen().unwrap().number, 399);
    let rows: Vec<_> = (395..402)
        .rev()
        .map(|n| row(n, Stage::Done, "New"))
        .collect();
    view.handle(ViewEvent::Page(all(None), paged(rows, None)));
    assert_eq!(view.list.chosen().unwrap().number, 399);
}

#[test]
fn enter_may_be_faster_than_the_page() {
    let mut view = view();
    press(&mut view, "2\n");
    let request = PageRequest {
        group: TicketGroup::ForYou,
        after: None,
    };
    let page = paged(vec![row(400, Stage::Escalated, "Greet by name")], None);
    assert_eq!(
        view.handle(ViewEvent::Page(request, page)),
        [ViewRequest::Ticket(id("T-400"))]
    );
}

#[test]
fn an_answer_to_an_older_question_is_left() {
    let mut view = view();
    press(&mut view, "2");
    view.handle(ViewEvent::Page(
        all(None),
        paged(vec![row(1, Stage::Done, "Old")], None),
    ));
    assert!(view.list.rows.is_empty());
}

#[test]
fn a_ticket_is_opened_by_its_id_and_a_bad_one_is_refused() {
    let mut view = view();
    assert_eq!(press(&mut view, "/T-7\n"), [ViewRequest::Ticket(id("T-7"))]);
    press(&mut view, "q");
    assert!(press(&mut view, "/../x\n").is_empty());
    assert!(
        view.notice
            .as_ref()
            .unwrap()
            .1
            .contains("cannot name a ticket")
    );
}

#[test]
fn colours_can_be_left_out() {
    let theme = Theme {
        glyphs: UNICODE,
        colours: false,
    };
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut view = opened();
    terminal
        .draw(|frame| draw(frame, &mut view, &theme))
        .unwrap();
    let cells = &terminal.backend().buffer().content;
    assert!(
        cells
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
}

/// Every key on every screen size is drawn without a panic.
#[test]
fn no_key_and_no_size_breaks_it() {
    let keys = "jkGg\n scdfl[]nNw12345/?\t\u{1b}q\u{8}x ";
    for (columns, rows) in [(1, 1), (2, 3), (20, 5), (80, 24)] {
        for first in keys.chars() {
            for second in "j\nsc1d\t\u{1b}".chars() {
                let mut view = opened();
                view.handle(ViewEvent::Diff(id("T-400"), Box::new(changes())));
                view.handle(ViewEvent::Resized(columns, rows));
                press(&mut view, &format!("{first}{second}"));
                seen_at(&mut view, columns, rows, &PLAIN);
            }
        }
    }
}

#[test]
fn ctrl_c_quits_from_everywhere() {
    for keys in ["", "w", "?", "/", "\n", "\ns", "\ns1", "\nc", "\ndc"] {
        let mut view = opened();
        press(&mut view, keys);
        let quit = ViewEvent::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(view.handle(quit), [ViewRequest::Quit], "{keys:?}");
    }
}

/// Opens the diff, draws it and presses keys.
fn in_diff(keys: &str) -> (View, Vec<ViewRequest>) {
    let mut view = opened();
    press(&mut view, "d");
    view.handle(ViewEvent::Diff(id("T-400"), Box::new(changes())));
    seen_at(&mut view, 80, 24, &PLAIN);
    let requests = press(&mut view, keys);
    (view, requests)
}

#[test]
fn a_finding_is_written_on_a_line_of_the_diff() {
    let (mut view, _) = in_diff("cj\nThe name is not quoted");
    shows(
        &mut view,
        80,
        24,
        &expect![[r#"
        T-400  escalated  round 1  Greet by name
         rounds 0  findings 1  diff  log
        ────────────────────────────────────────────────────────────────────────────────
        waits for you: after 3 rounds, the change is not approved; s settles it
        T-400  round 3  abcdefabcd..c0ffeec0ff  1 file, 1 finding open

        greet.sh  +1 -1
        ───
          1   #!/bin/sh
          2 - echo hello
          2 + printf 'Hello, %s\n' "$1"
            ╭ F1 high open · round 1, codex
            │ An empty name is greeted
            │ `greet ''` prints `Hello, `.
            ╰ fix: Refuse it.
          3   # end
        ────────────────────────────────────────────────────────────────────────────────
        a finding of yours on T-400
          place           greet.sh:2
        ▸ what is wrong   The name is not quoted_
          must fix        yes  (toggle with space)
          who             ada
        Enter: next field, or add it at the last one; Esc: back
    "#]],
    );
    let requests = press(&mut view, "\n \n\n");
    let comment = Comment {
        place: "greet.sh:2".to_owned(),
        text: "The name is not quoted".to_owned(),
        must_fix: false,
        who: "ada".to_owned(),
    };
    assert_eq!(
        requests,
        [ViewRequest::Comment(id("T-400"), Box::new(comment))]
    );
    let (stored, _) = escalated();
    let added = AddedFinding {
        id: "F2".to_owned(),
        severity: "high".to_owned(),
        location: "greet.sh:2".to_owned(),
        title: "The name is not quoted".to_owned(),
        status: "open".to_owned(),
    };
    let requests = view.handle(ViewEvent::Commented(Box::new(stored.ticket), vec![added]));
    assert!(requests.contains(&ViewRequest::Ticket(id("T-400"))));
    let text = seen_at(&mut view, 80, 24, &PLAIN);
    assert!(
        text.contains("added F2 (high) The name is not quoted"),
        "{text}"
    );
    assert!(view.opened.as_ref().unwrap().comment_dialog.is_none());
}

#[test]
fn a_finding_outside_the_diff_has_its_place_typed() {
    let mut view = opened();
    let requests = press(&mut view, "cgreet.sh:3\nA typo\n\n\n");
    let [ViewRequest::Comment(_, comment)] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!(
        (comment.place.as_str(), comment.must_fix),
        ("greet.sh:3", true)
    );
}

#[test]
fn a_finding_needs_a_text_and_is_not_written_by_leaving() {
    let (mut view, requests) = in_diff("c\n\n\n\n");
    assert!(requests.is_empty());
    let text = seen_at(&mut view, 80, 24, &PLAIN);
    assert!(text.contains("what is wrong is required"), "{text}");
    press(&mut view, "\u{1b}\u{1b}");
    assert!(view.opened.as_ref().unwrap().comment_dialog.is_none());
}

#[test]
fn a_refused_finding_can_be_sent_again() {
    let (mut view, _) = in_diff("c\nWrong\n\n\n");
    view.handle(ViewEvent::Failed("greet.sh has 3 lines".to_owned()));
    let text = seen_at(&mut view, 80, 24, &PLAIN);
    assert!(text.contains("greet.sh has 3 lines"), "{text}");
    assert!(matches!(
        press(&mut view, "\n").as_slice(),
        [ViewRequest::Comment(..)]
    ));
}

#[test]
fn only_the_newest_commit_takes_findings() {
    let mut view = opened();
    press(&mut view, "d");
    let older = RoundDiff {
        commit: "0".repeat(40),
        ..changes()
    };
    view.handle(ViewEvent::Diff(id("T-400"), Box::new(older)));
    press(&mut view, "c");
    let text = seen_at(&mut view, 80, 24, &PLAIN);
    assert!(text.contains("added to the newest commit"), "{text}");
}
