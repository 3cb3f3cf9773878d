//! The answer's form: what misses it is asked for once more, and what refuses over minor findings is put
//! to its reviewer once. An approval that nobody gave is impossible.

use std::fs;

use serde_json::{Value, json};

use super::{go_on, greet, greet_with, merges};
use crate::support::crew::{
    always, answers, approves, asked, empty_name, rejects, reviewed_by, runs, says,
};
use crate::support::{TICKET, World, until};

/// An approval as the contract's first version had it.
fn old_form() -> Value {
    json!({"verdict": "approved", "findings": []})
}

/// Counts the runs of the reviewer in a file of its own, then answers.
fn counted(world: &World, mut steps: Vec<Value>) -> Vec<Value> {
    let file = world.root().join("runs");
    steps.insert(
        0,
        runs(&format!("echo $COUNTERSIGN_QUESTION >> {}", file.display())),
    );
    steps.insert(
        1,
        json!({"usage": {"usd": 0.05, "tokens_in": 10, "tokens_out": 1}}),
    );
    steps
}

fn questions(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.root().join("runs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_answer_that_misses_the_form_is_asked_for_once_more() {
    let world = World::unconfined();
    let script = reviewed_by(&always(counted(&world, answers(old_form()))));
    let script = asked(script, "form", counted(&world, approves()));
    greet(&world, &script)
        .ends_with(0)
        .says("countersigned by scripted (reviewer)");
    assert_eq!(questions(&world), ["work", "form"]);
    assert_eq!(world.count("greet", "reviewed"), 1);
    assert_eq!(world.count("greet", "review_unusable"), 0);
    // The builder's 0.10, and both answers.
    let spent = world.ticket("greet")["spent"]["ticket"]["usd_micros"].take();
    assert_eq!(spent, json!(200_000));
    assert_eq!(merges(&world), 1);
    let brief = world
        .data
        .join("tickets/greet/jobs/3/run-1/scratch/brief.md");
    let brief = fs::read_to_string(brief).unwrap();
    assert!(brief.contains("neither \"approve\" nor"), "{brief}");
    world.must_be_sound();
}

/// Killed while the second answer is awaited: the first was paid for, and is not asked for again.
#[test]
fn a_kill_between_the_two_answers_repeats_only_the_second() {
    let world = World::unconfined();
    let first = reviewed_by(&always(counted(&world, answers(old_form()))));
    let hangs = vec![json!({"wait_ms": 600_000})];
    let script = asked(first.clone(), "form", counted(&world, hangs));
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&script));
    let running = world.start(&["run", &ticket, "--builder", &agent, "--reviewer", &agent]);
    until("the second question", || questions(&world).len() == 2);
    drop(running);
    let script = asked(first, "form", counted(&world, approves()));
    go_on(&world, &script)
        .ends_with(0)
        .says("countersigned by scripted (reviewer)");
    assert_eq!(questions(&world), ["work", "form", "form"]);
    assert_eq!(world.count("greet", "reviewed"), 1);
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

/// The first answer leaves too little of the round's budget for a second.
#[test]
fn nobody_is_asked_again_for_money_that_is_not_there() {
    let world = World::unconfined();
    let settings = fs::read_to_string(world.repository.join("countersign.toml")).unwrap();
    world.write(
        "countersign.toml",
        &format!("{settings}\n[policy.budget.round]\nusd = 0.15\n"),
    );
    world.commit("a small budget");
    let script = reviewed_by(&always(counted(&world, answers(old_form()))));
    greet(&world, &script).ends_with(4);
    assert_eq!(questions(&world), ["work"]);
    assert_eq!(merges(&world), 0);
}

#[test]
fn unknown_twice_is_a_fresh_reviewer_and_then_a_person() {
    let world = World::unconfined();
    let script = reviewed_by(&always(counted(&world, answers(old_form()))));
    greet(&world, &script)
        .ends_with(4)
        .says("no usable review in 3 attempts");
    assert_eq!(questions(&world), ["work", "form"].repeat(3));
    assert_eq!(world.count("greet", "review_unusable"), 3);
    world
        .call(&["log", "greet"])
        .ends_with(0)
        .says("neither a clear approval nor a refusal");
    assert_eq!(merges(&world), 0);
}

/// Answers that look like an approval and are none, each asked for twice.
#[test]
fn nothing_but_the_form_lands() {
    let form = |more: Value| {
        let mut form = json!({"verdict": "approve", "commit": "$COMMIT", "complete": true});
        for (name, value) in more.as_object().unwrap() {
            form[name] = value.clone();
        }
        answers(form)
    };
    let echo = "cat \"$COUNTERSIGN_BRIEF_FILE\" > \"$COUNTERSIGN_RESULT_FILE\"";
    let example =
        "sed -n '/^```json/,/^```$/p' \"$COUNTERSIGN_BRIEF_FILE\" > \"$COUNTERSIGN_RESULT_FILE\"";
    let head = "printf '{\"verdict\": \"approve\", \"commit\": \"%s\", \"complete\": true}' \"$(git rev-parse HEAD)\" > \"$COUNTERSIGN_RESULT_FILE\"";
    let around = "printf 'Fine.\\n{\"verdict\": \"approve\", \"commit\": \"%s\", \"complete\": true}\\n' \"$COUNTERSIGN_COMMIT\"";
    let rows = [
        vec![runs(echo)],
        vec![runs(example)],
        vec![runs(head)],
        vec![runs(around)],
        answers("LGTM, ship it"),
        answers("Verdict: approve"),
        answers(json!({"status": "ok"})),
        answers(json!({"approved": true, "findings": []})),
        form(json!({"commit": "0123456789012345678901234567890123456789"})),
        form(json!({"complete": false})),
        form(json!({"error": "context window exceeded, review incomplete"})),
        form(json!({"findings": "CRITICAL: the password is logged"})),
    ];
    let count = rows.len();
    for steps in rows {
        let world = World::unconfined();
        let shown = format!("{steps:?}");
        let ran = greet_with(&world, &reviewed_by(&always(steps)), &["--max-rounds", "1"]);
        assert_eq!(ran.code, 4, "{shown}\n{}{}", ran.out, ran.err);
        assert_eq!(merges(&world), 0, "{shown}");
        assert!(!ran.out.contains("countersigned"), "{shown}\n{}", ran.out);
    }
    println!("{count} answers that miss the form, 0 landed");
}

#[test]
fn a_refusal_beside_the_form_is_heard() {
    let rows = [
        [vec![says("Verdict: request changes")], approves()].concat(),
        answers(
            json!({"verdict": "approve", "commit": "$COMMIT", "complete": true,
            "notes": "I cannot approve this: the name is not checked."}),
        ),
        answers(
            json!({"verdict": "approve", "commit": "$COMMIT", "complete": true,
            "blocking_issues": [{"message": "no test"}]}),
        ),
    ];
    for steps in rows {
        let world = World::unconfined();
        let shown = format!("{steps:?}");
        let ran = greet_with(&world, &reviewed_by(&always(steps)), &["--max-rounds", "1"]);
        assert_eq!(ran.code, 4, "{shown}\n{}{}", ran.out, ran.err);
        assert_eq!(world.count("greet", "reviewed"), 1, "{shown}");
        assert_eq!(merges(&world), 0, "{shown}");
    }
}

#[test]
fn a_refusal_over_minor_findings_lands_after_a_yes() {
    let world = World::unconfined();
    let low = counted(&world, rejects([empty_name("low")]));
    let script = asked(
        reviewed_by(&always(low)),
        "countersign",
        counted(&world, approves()),
    );
    greet(&world, &script)
        .ends_with(0)
        .says("countersigned by scripted (reviewer)");
    assert_eq!(questions(&world), ["work", "countersign"]);
    let log = world.call(&["log", "greet"]).ends_with(0);
    assert!(
        log.out.contains("is asked whether it countersigns"),
        "{}",
        log.out
    );
    let ticket = world.ticket("greet");
    assert_eq!(ticket["ledger"].as_array().unwrap().len(), 1);
    let answer = &ticket["rounds"][0]["panel"][0]["answer"];
    assert_eq!(answer["claim"], "approved");
    assert_eq!(answer["first_claim"], "changes_requested");
    assert_eq!(merges(&world), 1);
    world.must_be_sound();
}

#[test]
fn a_no_and_garbage_are_rework() {
    for steps in [
        rejects([empty_name("low")]),
        answers("Yes, I countersign."),
        answers(old_form()),
        Vec::new(),
    ] {
        let world = World::unconfined();
        let low = reviewed_by(&always(rejects([empty_name("low")])));
        let script = asked(low, "countersign", steps.clone());
        greet_with(&world, &script, &["--max-rounds", "1"]).ends_with(4);
        assert_eq!(merges(&world), 0, "{steps:?}");
        let ticket = world.ticket("greet");
        assert_eq!(ticket["rounds"][0]["verdict"]["approved"], false);
        assert_eq!(
            world.count("greet", "review_unusable") + world.count("greet", "reviewed"),
            2
        );
    }
}

#[test]
fn where_the_policy_approves_over_a_refusal_nobody_is_named() {
    let world = World::with_settings("[policy]\nminor_only = \"approve\"\n");
    let script = reviewed_by(&always(rejects([empty_name("low")])));
    let ran = greet(&world, &script)
        .ends_with(0)
        .says("approved by policy, reviewer refused: scripted (reviewer)");
    assert!(!ran.out.contains("countersigned"), "{}", ran.out);
    let shown = world.call(&["ticket", "show", "greet"]).ends_with(0);
    assert!(!shown.out.contains("countersigned by"), "{}", shown.out);
    assert!(shown.out.contains("approved by policy"), "{}", shown.out);
    let approval = world.ticket("greet")["approval"]["by"].take();
    assert_eq!(approval["names"], json!([]));
    assert_eq!(approval["refused"], json!(["scripted (reviewer)"]));
    world.must_be_sound();
}

#[test]
fn a_change_without_a_ticket_is_asked_about_in_the_same_way() {
    let world = World::unconfined();
    world.git(&["switch", "--quiet", "--create", "topic"]);
    world.write("greet.sh", "echo hello\n");
    world.commit("Greet");
    let first = reviewed_by(&always(counted(&world, answers(old_form()))));
    let script = asked(first.clone(), "form", counted(&world, approves()));
    let agent = world.crew(&script);
    world.call(&["review", "--reviewer", &agent]).ends_with(0);
    assert_eq!(questions(&world), ["work", "form"]);
    let agent = world.crew(&first);
    world.call(&["review", "--reviewer", &agent]).ends_with(4);
}
