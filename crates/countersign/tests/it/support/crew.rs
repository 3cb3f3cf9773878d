//! Scripted crews: what each of them does, step by step.

use serde_json::{Value, json};

pub const GOOD: &str = "#!/bin/sh
[ -n \"$1\" ] || { echo 'greet: the name is empty' >&2; exit 2; }
printf 'Hello, %s\\n' \"$1\"
";
pub const HASTY: &str = "#!/bin/sh
printf 'Hello, %s\\n' \"$1\"
";
/// Not what the check wants.
pub const WRONG: &str = "#!/bin/sh
echo Hello
";

/// A whole script out of three parts.
pub fn crew(build: &Value, review: &Value, verify: &Value) -> Value {
    json!({"version": 1, "build": build, "review": review, "verify": verify})
}

/// Builds it right at once, and is approved.
pub fn smooth() -> Value {
    crew(
        &always(builds("greet.sh", GOOD)),
        &always(approves()),
        &always(verifies(&[])),
    )
}

/// Two rounds: the empty name is forgotten, found, mended, verified.
pub fn two_rounds() -> Value {
    crew(
        &rounds([builds("greet.sh", HASTY), builds("greet.sh", GOOD)]),
        &rounds([rejects([empty_name("high")]), approves()]),
        &always(verifies(&[("F1", "fixed")])),
    )
}

/// The reviewer never has enough, and the builder changes only the comment.
pub fn quarrel() -> Value {
    let try_again = |n: u32| builds("greet.sh", &format!("{HASTY}# {n}\n"));
    crew(
        &rounds([try_again(1), try_again(2), try_again(3), try_again(4)]),
        &always(rejects([empty_name("high")])),
        &always(verifies(&[("F1", "confirmed")])),
    )
}

/// The same builder, another reviewer.
pub fn reviewed_by(review: &Value) -> Value {
    crew(
        &always(builds("greet.sh", GOOD)),
        review,
        &always(verifies(&[])),
    )
}

/// Another builder, and a reviewer that approves whatever it is shown.
pub fn built_by(build: &Value) -> Value {
    crew(build, &always(approves()), &always(verifies(&[])))
}

pub fn always(steps: impl Into<Value>) -> Value {
    json!({"always": steps.into()})
}

pub fn rounds(rounds: impl IntoIterator<Item = Vec<Value>>) -> Value {
    json!({"rounds": rounds.into_iter().collect::<Vec<_>>()})
}

pub fn builds(path: &str, text: &str) -> Vec<Value> {
    vec![
        writes(path, text),
        json!({"usage": {"usd": 0.10, "tokens_in": 100, "tokens_out": 10}}),
        json!({"result": {"summary": "Done."}}),
    ]
}

pub fn writes(path: &str, text: &str) -> Value {
    json!({"write": {"path": path, "text": text}})
}

pub fn runs(command: &str) -> Value {
    json!({"run": {"command": command}})
}

pub fn says(text: &str) -> Value {
    json!({"say": text})
}

pub fn answers(result: impl Into<Value>) -> Vec<Value> {
    vec![json!({"result": result.into()})]
}

pub fn approves() -> Vec<Value> {
    answers(json!({"verdict": "approve", "commit": "$COMMIT", "complete": true, "findings": []}))
}

/// The script with what its reviewer says when it is asked for the form, or to countersign.
pub fn asked(mut script: Value, question: &str, steps: Vec<Value>) -> Value {
    script[format!("review_{question}")] = always(steps);
    script
}

pub fn rejects(findings: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let findings: Vec<Value> = findings.into_iter().collect();
    answers(
        json!({"verdict": "request_changes", "commit": "$COMMIT", "complete": true,
        "findings": findings}),
    )
}

pub fn verifies(outcomes: &[(&str, &str)]) -> Vec<Value> {
    let answers_of: Vec<Value> = outcomes
        .iter()
        .map(|(finding, outcome)| {
            json!({"finding": finding, "outcome": outcome, "evidence": "greet.sh:2"})
        })
        .collect();
    answers(json!({"answers": answers_of}))
}

pub fn empty_name(severity: &str) -> Value {
    json!({"severity": severity, "category": "correctness", "file": "greet.sh", "line": 2,
        "title": "An empty name is accepted",
        "problem": "The ticket asks for an error.",
        "fix": "Refuse it with exit code 2."})
}
