//! The free text of an approving answer: what stops the approval, in every language of the list and
//! in every field, and harmless notes that must not. The test prints the counts.

use findings::{ReviewClaim, read_answer};
use proptest::prelude::*;
use serde_json::{Value, json};

const HARMLESS: &str = include_str!("claims/harmless_notes.txt");
const STOPPING: &str = include_str!("claims/stopping_notes.txt");
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn entries(list: &str) -> Vec<String> {
    list.lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '[']))
        .map(|line| line.replace("\\n", "\n"))
        .collect()
}

fn form(name: &str, value: Value) -> String {
    let mut form =
        json!({"verdict": "approve", "commit": COMMIT, "complete": true, "findings": []});
    form[name] = value;
    form.to_string()
}

fn claim(text: &str) -> ReviewClaim {
    read_answer(text, COMMIT, &[]).review.claim
}

/// The same words in every place of an answer in which words may stand.
fn answers(words: &str) -> Vec<String> {
    vec![
        form("notes", json!(words)),
        form("summary", json!(words)),
        form("feedback", json!(words)),
        form("notes", json!(format!("All tests pass. {words}"))),
        form(
            "notes",
            json!(format!("The code is clean.\n\n{words}\n\nThanks.")),
        ),
        form(
            "dimension_scores",
            json!({"security": {"score": 99, "comment": words}}),
        ),
        form(
            "criteria",
            json!([{"criterion": "1", "met": true, "evidence": words}]),
        ),
    ]
}

#[test]
fn harmless_notes_still_approve() {
    let notes = entries(HARMLESS);
    let stopped: Vec<_> = notes
        .iter()
        .map(|note| (note, read_answer(&form("notes", json!(note)), COMMIT, &[])))
        .filter(|(_, read)| read.review.claim != ReviewClaim::Approved)
        .map(|(note, read)| (note, read.unclear, read.review.claim_text))
        .collect();
    println!(
        "harmless notes: {} tried, {} stopped",
        notes.len(),
        stopped.len()
    );
    assert!(notes.len() >= 150);
    // The rest is asked once for the bare form: a text that is not understood never approves.
    assert!(stopped.len() * 4 <= notes.len(), "{stopped:#?}");
}

#[test]
fn what_stops_an_approval_stops_it_in_every_field() {
    let notes = entries(STOPPING);
    let mut tried = 0;
    let mut wrong = Vec::new();
    for note in &notes {
        for answer in answers(note) {
            tried += 1;
            if claim(&answer) == ReviewClaim::Approved {
                wrong.push(answer);
            }
        }
    }
    assert!(notes.len() >= 400, "{}", notes.len());
    println!(
        "stopping notes: {} in {tried} answers, {} approved",
        notes.len(),
        wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "{} {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(40)]
    );
}

#[test]
fn the_reason_says_what_to_do() {
    let read = read_answer(
        &form("notes", json!("Please revert line 3 before merging.")),
        COMMIT,
        &[],
    );
    let why = read.unclear.unwrap_or_default();
    assert!(
        why.contains("finding with its severity, or leave it out"),
        "{why}"
    );
}

#[test]
fn a_finding_that_blocks_is_no_minor_one() {
    for finding in [
        json!({"text": "the key leaks, must be fixed"}),
        json!({"severity": "low", "title": "x", "problem": "This blocks the merge."}),
        json!({"severity": "none", "title": "critical: leaks the key"}),
        json!({"severity": "low", "title": "CRITICAL remote code execution"}),
        json!({"severity": "low", "title": "x", "problem": "I reject the change because of this."}),
        json!({"severity": "nit", "title": "x", "impact": "It has to be fixed before merging."}),
    ] {
        assert_ne!(
            claim(&form("findings", json!([finding]))),
            ReviewClaim::Approved,
            "{finding}"
        );
    }
    for finding in [
        json!({"severity": "low", "title": "A name misleads", "problem": "`len` does not work as a name.", "fix": "Rename it."}),
        json!({"severity": "suggestion", "title": "Add a test", "problem": "No test covers the empty list."}),
        json!({"severity": "low", "title": "The message does not block anything", "problem": "It could be shorter."}),
    ] {
        assert_eq!(
            claim(&form("findings", json!([finding]))),
            ReviewClaim::Approved,
            "{finding}"
        );
    }
}

const PRAISE: &[&str] = &[
    "Looks good.",
    "All tests pass.",
    "The change is correct and well tested.",
    "No issues found.",
    "LGTM",
    "Saubere Änderung.",
    "Aucun problème trouvé.",
    "Código limpio.",
    "Os testes passam.",
    "Codice pulito.",
    "Замечаний нет.",
    "代码清晰。",
    "問題ありません。",
    "코드가 명확합니다.",
];
const DISGUISES: usize = 12;

/// Writes a text in another way: case, Markdown, line breaks, punctuation, invisible characters,
/// homoglyphs. The first four leave praise as it is.
fn disguised(text: &str, how: usize) -> String {
    let bare = text.trim_end_matches(['.', '。']);
    match how {
        0 => text.to_owned(),
        1 => text.to_uppercase(),
        2 => format!("**{text}**"),
        3 => format!("- {text}"),
        4 => text.replace(' ', "\n"),
        5 => text.replace(' ', "\u{a0}"),
        6 => format!("{bare}!!!"),
        7 => text.replace(' ', " \u{200b}"),
        8 => text.replace('o', "\u{43e}"),
        9 => text.chars().flat_map(|c| [c, '\u{2060}']).collect(),
        10 => format!("`{bare}`"),
        _ => format!("({bare})"),
    }
}

const THINGS: &[&str] = &[
    "the leak",
    "the backdoor",
    "line 3",
    "the race in a.rs",
    "the SQL query",
    "the debug key",
    "that test",
    "the migration",
];
const DONE: &[&str] = &[
    "fixed",
    "removed",
    "resolved",
    "addressed",
    "reverted",
    "renamed",
    "rotated",
    "rewritten",
];
const CONDITIONS: &[&str] = &[
    "Approve once {thing} is {done}.",
    "Approved provided that {thing} is {done}.",
    "Fine if {thing} is {done}.",
    "Approve on condition that {thing} is {done}.",
    "Subject to {thing} being {done}.",
    "OK to merge after {thing} is {done}.",
    "Merge only when {thing} is {done}.",
    "Once {thing} is {done} this can land.",
    "As soon as {thing} is {done}, ship it.",
    "Do not merge until {thing} is {done}.",
    "{thing} must be {done}.",
    "{thing} needs to be {done} before merging.",
    "Please make sure that {thing} is {done}.",
    "{thing} has to be {done} first.",
    "Unless {thing} is {done}, do not ship.",
];
const UNREAD: &[&str] = &[
    "I did not read {file}.",
    "I have not looked at {file}.",
    "I haven't opened {file}.",
    "I only read {file}.",
    "I could not open {file}.",
    "I never ran {file}.",
    "{file} was not reviewed.",
    "I skipped {file}.",
    "I stopped at {file}.",
    "I ran out of time before {file}, and stopped.",
    "I only skimmed {file}.",
    "I was unable to read {file}.",
    "I read half of {file}.",
];
const FILES: &[&str] = &[
    "a.py",
    "the tests",
    "src/main.rs",
    "the second file",
    "the migration",
    "db/schema.sql",
];
const BROKEN: &[&str] = &[
    "{it} does not compile.",
    "{it} doesn't build.",
    "{it} does not work.",
    "{it} won't start.",
    "{it} is broken.",
    "{it} fails to start.",
    "{it} crashes on empty input.",
    "{it} does not pass.",
    "{it} never terminates.",
    "{it} cannot work.",
];
const IT: &[&str] = &[
    "It",
    "This",
    "The change",
    "The new code",
    "The login",
    "The parser",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// A stopping note never approves between vouched sentences, however it is written.
    #[test]
    fn no_disguise_lets_a_stopping_note_pass(
        at in 0_usize..1000, before in 0_usize..PRAISE.len(), after in 0_usize..PRAISE.len(),
        disguise in 0_usize..DISGUISES, join in prop::sample::select(vec![" ", "\n", "\n\n", "; ", "\n- ", " - ", ", "]),
        place in 0_usize..7,
    ) {
        let notes = entries(STOPPING);
        let note = disguised(&notes[at % notes.len()], disguise);
        let words = format!("{}{join}{note}{join}{}", PRAISE[before], PRAISE[after]);
        let answer = &answers(&words)[place];
        prop_assert_ne!(claim(answer), ReviewClaim::Approved, "{}", answer);
    }

    /// Praise stays praise in capitals, in bold and in a list.
    #[test]
    fn praise_passes_however_it_is_written(a in 0_usize..PRAISE.len(), b in 0_usize..PRAISE.len(), disguise in 0_usize..4) {
        let words = format!("{}\n{}", disguised(PRAISE[a], disguise), PRAISE[b]);
        prop_assert_eq!(claim(&form("notes", json!(words))), ReviewClaim::Approved, "{}", words);
    }

    #[test]
    fn no_generated_stop_approves(kind in 0_usize..3, a in 0_usize..100, b in 0_usize..100, c in 0_usize..100, place in 0_usize..7) {
        let words = match kind {
            0 => CONDITIONS[a % CONDITIONS.len()].replace("{thing}", THINGS[b % THINGS.len()]).replace("{done}", DONE[c % DONE.len()]),
            1 => UNREAD[a % UNREAD.len()].replace("{file}", FILES[b % FILES.len()]),
            _ => BROKEN[a % BROKEN.len()].replace("{it}", IT[b % IT.len()]),
        };
        let answer = &answers(&words)[place];
        prop_assert_ne!(claim(answer), ReviewClaim::Approved, "{}", answer);
    }
}
