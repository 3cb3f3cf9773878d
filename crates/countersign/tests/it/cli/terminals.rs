//! On real terminals, good and bad ones: `run` and `watch` as a person has them before the eyes.

use expect_test::expect;
use rustix::process::Signal;

use crate::support::crew::{quarrel, smooth, two_rounds};
use crate::support::processes::signal;
use crate::support::{DEADLINE, TICKET, World, reached, until};

const USUAL: (u16, u16) = (80, 24);
/// Of the alternate screen, and of a hidden cursor.
const LEFT: &str = "\u{1b}[?1049l";
const SHOWN: &str = "\u{1b}[?25h";

/// The words of a run of this crew.
fn run(world: &World, crew: &serde_json::Value) -> Vec<String> {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(crew));
    ["run", &ticket, "--builder", &agent, "--reviewer", &agent]
        .map(str::to_owned)
        .to_vec()
}

fn words(run: &[String]) -> Vec<&str> {
    run.iter().map(String::as_str).collect()
}

/// A world with a ticket that waits for a person.
fn escalated() -> World {
    let world = World::new();
    let run = run(&world, &quarrel());
    world.call(&words(&run)).ends_with(4);
    world
}

#[test]
fn a_run_is_live_and_leaves_its_story() {
    let world = World::new();
    let run = run(&world, &two_rounds());
    let mut terminal = world.on_terminal(USUAL, &[], &words(&run));
    assert_eq!(terminal.ends(), 0, "{}", terminal.text());
    let text = terminal.text();
    for part in [
        "greet  building  round 1",
        "greet  checking  round 1",
        "[REVIEW-REJECTED]",
        "greet  reviewing  round 2",
        "greet: done on main",
        "findings by round",
        "next: countersign ticket diff greet",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(terminal.is_as_before());
    assert!(
        !terminal.raw().contains("\u{1b}[?1049h"),
        "the scroll-back stays"
    );
}

#[test]
fn a_run_fits_twenty_columns() {
    let world = World::new();
    let run = run(&world, &smooth());
    let mut terminal = world.on_terminal((20, 6), &[], &words(&run));
    assert_eq!(terminal.ends(), 0, "{}", terminal.text());
    assert!(terminal.text().contains("greet: done on"));
}

#[test]
fn a_dumb_terminal_gets_text_and_nothing_else() {
    let world = World::new();
    let run = run(&world, &smooth());
    let mut terminal = world.on_terminal(USUAL, &[("TERM", "dumb")], &words(&run));
    assert_eq!(terminal.ends(), 0, "{}", terminal.text());
    assert!(!terminal.raw().contains('\u{1b}'), "{}", terminal.raw());
    let mut watch = world.on_terminal(USUAL, &[("TERM", "dumb")], &["watch"]);
    assert_eq!(watch.ends(), 2);
    watch.shows("countersign watch --once");
}

#[test]
fn no_color_means_none() {
    let world = World::new();
    let run = run(&world, &two_rounds());
    let mut terminal = world.on_terminal(USUAL, &[("NO_COLOR", "1")], &words(&run));
    assert_eq!(terminal.ends(), 0);
    let colour = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    assert!(!colour.is_match(&terminal.raw()));
}

#[test]
fn a_locale_without_unicode_gets_ascii_lines_and_bars() {
    let world = World::new();
    let run = run(&world, &smooth());
    let mut terminal = world.on_terminal(USUAL, &[("LANG", "C")], &words(&run));
    assert_eq!(terminal.ends(), 0);
    assert!(terminal.raw().is_ascii(), "{}", terminal.raw());
    let once = world.call(&["watch", "--once"]).ends_with(0);
    assert!(once.out.is_ascii(), "{}", once.out);
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let world = World::unconfined();
    let flag = world.root().join("builder-is-there");
    let slow = format!("touch {}; exec sleep 300", flag.display());
    let crew = serde_json::json!({
        "version": 1, "build": {"always": [{"run": {"command": slow}}]},
    });
    let run = run(&world, &crew);
    let mut terminal = world.on_terminal(USUAL, &[], &words(&run));
    until("the builder is at work", || flag.exists());
    signal(terminal.pid(), Signal::INT);
    assert_eq!(terminal.ends(), 130);
    // It stands there until the safe point is reached, however soon that is.
    let told = terminal.text();
    assert!(
        told.contains("stopping at the next safe point; Ctrl-C again stops at once"),
        "{told}"
    );
    terminal.shows("next: countersign run greet");
}

#[test]
fn an_escalation_is_settled_in_the_live_view() {
    let world = escalated();
    let mut terminal = world.on_terminal(USUAL, &[], &["watch"]);
    terminal.shows("1 for you");
    terminal.press("2\r");
    terminal.shows("s settles it");
    terminal.press("d");
    terminal.shows("greet.sh  new");
    terminal.press("s");
    terminal.shows("take-over");
    terminal.press("6not worth it\r\r");
    terminal.shows("greet: reject; now failed");
    terminal.press("qq");
    assert_eq!(terminal.ends(), 0);
    assert!(terminal.is_as_before());
    let ticket = world.ticket("greet");
    assert_eq!(ticket["stage"], "failed");
    let log = world.call(&["log", "greet"]).ends_with(0);
    assert!(
        log.out.contains("ada decided: reject (not worth it)"),
        "{}",
        log.out
    );
    world.must_be_sound();
}

/// A change by another process appears soon, without a key press.
#[test]
fn the_live_view_follows_what_happens() {
    let world = World::new();
    let mut terminal = world.on_terminal(USUAL, &[], &["watch"]);
    terminal.shows("no tickets yet");
    let file = world.put("greet.md", TICKET);
    world.call(&["ticket", "add", &file]).ends_with(0);
    terminal.shows("Greet by name");
    terminal.resize(40, 10);
    terminal.press("j\r");
    terminal.shows("rounds 0");
    terminal.press("\u{3}");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn the_terminal_is_given_back_when_the_view_is_ended() {
    for ending in [Signal::TERM, Signal::HUP, Signal::INT] {
        let world = World::new();
        let mut terminal = world.on_terminal(USUAL, &[], &["watch"]);
        terminal.shows("no tickets yet");
        assert!(!terminal.is_as_before());
        signal(terminal.pid(), ending);
        assert_eq!(terminal.ends(), 0);
        assert!(terminal.is_as_before());
        let raw = terminal.raw();
        assert!(raw.contains(LEFT) && raw.contains(SHOWN), "{raw:?}");
    }
}

#[test]
fn one_frame_is_printed_for_scripts() {
    let world = escalated();
    let frame = world.call(&["watch", "--once"]).ends_with(0);
    let text = regex::Regex::new(r"\d\d:\d\d:\d\d| +(?:\d+m )?\d+s\b")
        .unwrap()
        .replace_all(&frame.out, " TIME")
        .into_owned();
    expect![[r#"
        countersign - 1 for you - 0 working - 0 queued - $0.30 today -  TIME
         1 all 1  2 for you 1  3 at work 0  4 waiting 0  5 ended 0  w work
        --------------------------------------------------------------------------------
          ticket  stage      rd    cost      age  1 of 1
        > greet   escalated   3   $0.30 TIME  1 must-fix  Greet by name


















        j k move - Enter open - 1-5 group - / id - w work - ? keys - q quit"#]]
    .assert_eq(text.trim_end());
    let json = world.json(&["watch", "--once"]);
    assert_eq!(json["tickets"][0]["id"], "greet");
    world
        .call(&["watch", "--once", "nobody"])
        .ends_with(2)
        .says("there is no ticket nobody");
    world
        .call(&["watch"])
        .ends_with(2)
        .says("countersign watch --once");
}

#[test]
fn the_log_is_followed_until_nobody_reads() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut running = world.start_into(&["log", "--follow"], writer);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
    let file = world.put("greet.md", TICKET);
    world.call(&["ticket", "add", &file]).ends_with(0);
    let line = lines.next().unwrap().unwrap();
    assert!(line.ends_with("greet  queued: Greet by name"), "{line}");
    drop(lines);
    assert!(
        reached(DEADLINE, || running.has_ended()),
        "it goes on for nobody"
    );
    let ran = running.wait(DEADLINE).ends_with(0);
    assert_eq!(ran.err, "");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let world = escalated();
    let verbs: [&[&str]; 5] = [
        &["log"],
        &["ticket", "diff", "greet"],
        &["status"],
        &["watch", "--once"],
        &["ticket", "list"],
    ];
    for verb in verbs {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = world.start_into(verb, writer).wait(DEADLINE).ends_with(0);
        assert_eq!(ran.err, "", "{verb:?}");
    }
}

#[test]
fn progress_for_programs_is_one_object_a_line() {
    let world = World::new();
    let run = run(&world, &smooth());
    let ran = world.call(&[&words(&run)[..], &["--progress", "json"]].concat());
    let lines: Vec<serde_json::Value> = ran
        .ends_with(0)
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.iter().all(|line| line["version"] == 1));
    let told: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["progress"].as_str())
        .collect();
    for word in [
        "created",
        "run_began",
        "run_ended",
        "checked",
        "verdict",
        "done",
    ] {
        assert!(told.contains(&word), "{word} is not among {told:?}");
    }
    assert_eq!(lines.last().unwrap()["exit"], 0, "the answer comes last");
}

#[test]
fn a_change_is_shown_with_its_findings_in_place() {
    let world = World::new();
    let run = run(&world, &two_rounds());
    world.call(&words(&run)).ends_with(0);
    let first = world
        .call(&["ticket", "diff", "greet", "--round", "1"])
        .ends_with(0);
    expect![[r#"
        greet  round 1  SHORT..SHORT  1 file, 1 finding open

        greet.sh  new  +2 -0
        ---
          1 + #!/bin/sh
          2 + printf 'Hello, %s\n' "$1"
            . F1 high open - round 1, scripted (reviewer)
            | An empty name is accepted
            | The ticket asks for an error.
            ` fix: Refuse it with exit code 2.
    "#]]
    .assert_eq(&world.masked(&first.out));
    let last = world.call(&["ticket", "diff", "greet"]).ends_with(0);
    expect![[r#"
        greet  round 2  SHORT..SHORT  1 file, 0 findings open

        greet.sh  new  +3 -0
        ---
          1 + #!/bin/sh
          2 + [ -n "$1" ] || { echo 'greet: the name is empty' >&2; exit 2; }
          3 + printf 'Hello, %s\n' "$1"
            . F1 high fixed - round 1, scripted (reviewer)
            | An empty name is accepted
            | The ticket asks for an error.
            | fix: Refuse it with exit code 2.
            ` scripted (verifier) in round 2: greet.sh:2
    "#]]
    .assert_eq(&world.masked(&last.out));
    let json = world.json(&["ticket", "diff", "greet"]);
    assert_eq!(json["files"][0]["path"], "greet.sh");
    assert_eq!(json["findings"][0]["status"], "fixed");
    world
        .call(&["ticket", "diff", "greet", "--round", "9"])
        .ends_with(2)
        .says("its rounds are 1, 2");
}

#[test]
fn links_lead_to_the_line_where_the_terminal_shows_them() {
    let world = World::new();
    let run = run(&world, &two_rounds());
    world.call(&words(&run)).ends_with(0);
    let shown = |variables: &[(&str, &str)]| {
        let mut terminal = world.on_terminal(USUAL, variables, &["ticket", "diff", "greet"]);
        assert_eq!(terminal.ends(), 0);
        terminal.raw()
    };
    assert!(!shown(&[]).contains("\u{1b}]8;;"));
    let linked = shown(&[("KITTY_WINDOW_ID", "1")]);
    assert!(linked.contains("\u{1b}]8;;file:///"), "{linked:?}");
    assert!(linked.contains("greet.sh#"), "{linked:?}");
}
