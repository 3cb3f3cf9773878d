//! Reading takes time in proportion to the length of the text, whatever its shape.

#![expect(
    clippy::disallowed_methods,
    reason = "what reading costs can only be measured with a clock"
)]

use std::fmt::Write as _;
use std::time::Instant;

/// A text of about `bytes` bytes made of one piece again and again.
fn repeated(piece: &str, bytes: usize) -> String {
    piece.repeat(bytes.div_ceil(piece.len()))
}

/// A shape: a name, and the text of a given size.
type Shape = (&'static str, fn(usize) -> String);

const SHAPES: &[Shape] = &[
    ("one paragraph without a colon", |n| {
        repeated("word of a paragraph ", n)
    }),
    ("one paragraph of many lines", |n| {
        repeated("a line without a mark\n", n)
    }),
    ("lines with plus signs", |n| repeated("+++ a\n", n)),
    ("less-than signs", |n| repeated("<", n)),
    ("less-than signs with names", |n| repeated("<a ", n)),
    ("tags that are never closed", |n| repeated("<details>", n)),
    ("tags of unknown names", |n| repeated("<x-y>", n)),
    ("comments that are never closed", |n| repeated("<!-- ", n)),
    ("summaries", |n| repeated("<summary>a", n)),
    ("opening brackets", |n| repeated("[", n)),
    ("opening braces", |n| repeated("{", n)),
    ("objects that begin", |n| repeated("{\"a\":", n)),
    ("objects that begin on lines", |n| {
        repeated("{\"a\": 1\n", n)
    }),
    ("objects in prose", |n| repeated("see {\"a\": 1} there ", n)),
    ("deep arrays", |n| "[".repeat(n / 2) + &"]".repeat(n / 2)),
    ("deep objects", |n| {
        repeated("{\"a\":", n / 2) + &"}".repeat(n / 12)
    }),
    ("an unfinished string", |n| {
        format!("{{\"verdict\": \"{}", repeated("approve ", n))
    }),
    ("quotes inside a string", |n| {
        format!("{{\"a\": \"{}", repeated("\" b", n))
    }),
    ("quotes and blanks inside a string", |n| {
        format!("{{\"a\": \"{}", repeated("\"      ", n))
    }),
    ("json lines", |n| {
        repeated(
            "{\"file\": \"a.rs\", \"line\": 3, \"message\": \"m m\"}\n",
            n,
        )
    }),
    ("one array of findings", |n| {
        format!(
            "[{}]",
            repeated(
                "{\"file\": \"a.rs\", \"title\": \"The name is short\", \"severity\": \"low\"},",
                n
            )
            .trim_end_matches(',')
        )
    }),
    ("keys given twice", |n| {
        format!(
            "{{{}}}",
            repeated("\"verdict\": \"approve\",", n).trim_end_matches(',')
        )
    }),
    ("colons", |n| repeated(":", n)),
    ("labels", |n| repeated("a: b\n", n)),
    ("labels of verdicts", |n| repeated("Verdict: approve\n", n)),
    ("labels of verdicts in paragraphs", |n| {
        repeated("Verdict: approve\n\n", n)
    }),
    ("refusals", |n| repeated("I cannot approve this. ", n)),
    ("approvals alone", |n| repeated("APPROVED\n", n)),
    ("back-ticks", |n| repeated("`", n)),
    ("back-ticks and words", |n| repeated("`a ", n)),
    ("fences that are never closed", |n| repeated("```\na\n", n)),
    ("stars", |n| repeated("*", n)),
    ("bold words", |n| repeated("**a** ", n)),
    ("pipes", |n| repeated("|", n)),
    ("rows of a table", |n| repeated("| a | b |\n|---|---|\n", n)),
    ("one long table", |n| {
        format!(
            "| File | Issue |\n|---|---|\n{}",
            repeated("| a.rs:3 | The name is short |\n", n)
        )
    }),
    ("a table with a verdict", |n| {
        format!(
            "| Field | Value |\n|---|---|\n| Verdict | Approve |\n{}",
            repeated("| Tests | all pass |\n", n)
        )
    }),
    ("one wide row", |n| {
        format!("| Verdict | Approve |\n|---|---|\n|{}", repeated(" a |", n))
    }),
    ("signs", |n| repeated("👎✅", n)),
    ("votes", |n| repeated("-1 2/10 ", n)),
    ("notes after a verdict", |n| {
        format!(
            "Verdict: approve\n\n## Notes\n\n{}",
            repeated("The tests pass. ", n)
        )
    }),
    ("code with sentences", |n| {
        format!(
            "Verdict: approve\n\n```\n{}```\n",
            repeated("All of the tests pass.\n", n)
        )
    }),
    ("flags of a report", |n| {
        let mut text = String::from("{\"approved\": true");
        let mut number = 0;
        while text.len() < n {
            number += 1;
            let _ = write!(text, ", \"flag{number}\": false");
        }
        text + "}"
    }),
    ("number signs", |n| repeated("#", n)),
    ("headings", |n| repeated("# a heading\n", n)),
    ("headings of findings", |n| {
        repeated("## Critical\n\n1. `a.rs:3` — x y z\n\n", n)
    }),
    ("deeper and deeper headings", |n| {
        repeated("# a\n## b\n### c\n#### d\n##### e\n###### f\n", n)
    }),
    ("nested items", |n| {
        let mut text = String::new();
        let mut depth = 0;
        while text.len() < n {
            text.push_str(&" ".repeat(depth % 200));
            text.push_str("- an item\n");
            depth += 2;
        }
        text
    }),
    ("items", |n| repeated("- ", n)),
    ("items on lines", |n| repeated("- an item of a list\n", n)),
    ("items under a heading of findings", |n| {
        format!(
            "## Issues\n\n{}",
            repeated("- The name is short in a.rs\n", n)
        )
    }),
    ("one item of many lines", |n| {
        format!(
            "## Issues\n\n- The name is short\n{}",
            repeated("  and it goes on\n", n)
        )
    }),
    ("quotation marks of blocks", |n| repeated(">", n)),
    ("quoted lines", |n| repeated("> a quoted line\n", n)),
    ("digits", |n| repeated("1", n)),
    ("numbers", |n| repeated("1. ", n)),
    ("slashes", |n| repeated("a/", n)),
    ("dots", |n| repeated("a.", n)),
    ("paths", |n| repeated("src/a.rs:3 ", n)),
    ("one long word", |n| repeated("a", n)),
    ("one long word of another script", |n| repeated("批准", n)),
    ("sentences of another script", |n| {
        repeated("结论：批准。", n)
    }),
    ("accented words", |n| repeated("é è à ", n)),
    ("blanks", |n| repeated(" ", n)),
    ("line ends", |n| repeated("\n", n)),
    ("tabs and words", |n| repeated("\ta\n", n)),
    ("escapes", |n| repeated("\u{1b}[", n)),
    ("escapes of strings", |n| repeated("\u{1b}]0;a", n)),
    ("entities", |n| repeated("&lt;", n)),
    ("compiler messages", |n| {
        repeated("a.c:3:5: warning: unused x [-Wx]\n", n)
    }),
    ("workflow commands", |n| {
        repeated("::error file=a.js,line=3::m\n", n)
    }),
    ("arrows", |n| repeated("error: a\n --> a.rs:3:1\n", n)),
    ("blocks of labels", |n| {
        repeated("========\nFile: a.rs\nLine: 3\nType: bug\nText of it.\n", n)
    }),
    ("checkstyle", |n| {
        format!(
            "<checkstyle>{}</checkstyle>",
            repeated(
                "<file name=\"a\"><error line=\"1\" severity=\"info\" message=\"m\"/></file>",
                n
            )
        )
    }),
    ("checkstyle that is never closed", |n| {
        format!("<checkstyle>{}", repeated("<error message=\"", n))
    }),
    ("front matter", |n| {
        format!("---\n{}", repeated("a: b\n", n))
    }),
    ("questions", |n| repeated("Ready to merge? ", n)),
    ("dashes", |n| repeated("— ", n)),
    ("conditions", |n| {
        format!(
            "Verdict: approve\n\n{}",
            repeated("no no no no no no no new ", n)
        )
    }),
    ("an approval and a long text", |n| {
        format!("Verdict: approve\n\n{}", repeated("All tests pass. ", n))
    }),
    ("an approval and many paragraphs", |n| {
        format!(
            "## Verdict\n\nApprove\n\n{}",
            repeated("All tests pass.\n\n", n)
        )
    }),
];

/// What this thread has run so far, in nanoseconds. Other processes do not count, where the
/// system can tell.
fn cpu_nanos(start: Instant) -> u64 {
    // The kernel brings the figure up to date when a thread gives up its turn, and otherwise only at
    // every tick, which is longer than many of these texts take.
    std::thread::yield_now();
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The least that reading takes of several tries, in nanoseconds.
fn least(text: &str) -> u64 {
    let start = Instant::now();
    (0..3)
        .map(|_| {
            let before = cpu_nanos(start);
            std::hint::black_box(findings::read(std::hint::black_box(text)));
            cpu_nanos(start) - before
        })
        .min()
        .unwrap_or_default()
}

/// Four times the text may take at most seven times as long: linear with room for noise, and far
/// below the sixteen of a quadratic reader.
const RATIO_MAX: f64 = 7.0;
/// Below this the fixed costs count for more than the text, in nanoseconds.
const FLOOR: u64 = 3_000_000;

#[test]
#[expect(clippy::cast_precision_loss, reason = "times are far below 2^52")]
fn four_times_the_text_takes_about_four_times_as_long() {
    // The first call compiles the patterns.
    let _ = findings::read("Verdict: approve\n\n- **High** `a.rs:3` — x y z");
    let mut slow = Vec::new();
    for (name, make) in SHAPES {
        let (small, large) = (make(24 * 1024), make(96 * 1024));
        let (mut short, mut long) = (least(&small).max(FLOOR), least(&large));
        // One more try before a shape is called slow.
        if long as f64 > RATIO_MAX * short as f64 {
            (short, long) = (least(&small).max(FLOOR), least(&large).min(long));
        }
        let ratio = long as f64 / short as f64;
        println!(
            "{ratio:5.1}  {:8.1} ms for 96 KiB: {name}",
            long as f64 / 1e6
        );
        if ratio > RATIO_MAX {
            slow.push(format!("{name}: {ratio:.1}"));
        }
    }
    println!("{} shapes, {} slow", SHAPES.len(), slow.len());
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn a_text_beyond_the_limit_is_cut_and_never_approves() {
    let long = format!(
        "Verdict: approve\n\n{}",
        repeated("All tests pass.\n\n", findings::TEXT_BYTES_MAX)
    );
    let review = findings::read(&long);
    assert_eq!(review.claim, findings::ReviewClaim::Unknown);
    assert!(review.remarks.iter().any(|remark| remark.contains("4 MiB")));
}
