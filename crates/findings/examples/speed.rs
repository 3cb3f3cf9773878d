//! Measures the reading speed in MB/s, for ordinary documents and for adversarial ones.
//!
//! `cargo run --release -p countersign-findings --example speed`

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::io::Write;
use std::time::Instant;

const MEGABYTES: usize = 10;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut slowest = f64::INFINITY;
    for (name, text) in documents() {
        let start = Instant::now();
        let review = findings::read(&text);
        let seconds = start.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a size in megabytes")]
        let speed = text.len() as f64 / 1_000_000.0 / seconds;
        slowest = slowest.min(speed);
        writeln!(
            out,
            "{name:<28} {:>6.1} MB {seconds:>7.3} s {speed:>8.1} MB/s  {:?}, {} findings",
            text.len() / 1_000_000,
            review.format,
            review.findings.len()
        )?;
    }
    writeln!(
        out,
        "slowest {slowest:.1} MB/s; ten megabytes take {:.2} s at most",
        10.0 / slowest
    )
}

fn filled(part: &str) -> String {
    part.repeat(MEGABYTES * 1_000_000 / part.len())
}

fn numbered(part: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 1.. {
        if text.len() > MEGABYTES * 1_000_000 {
            break;
        }
        text.push_str(&part(number));
    }
    text
}

fn documents() -> Vec<(&'static str, String)> {
    let finding = |number: usize| {
        format!(
            "### {number}. The lock of queue {number} is not taken\n\n- **File:** `src/queue/worker_{number}.rs`, lines {number}-{}\n- **Problem:** `drain()` reads the list while another thread writes it.\n- **Impact:** Jobs are lost.\n- **Fix:** Take the lock first.\n\n",
            number + 4
        )
    };
    let json = |number: usize| {
        format!(
            "{{\"file\": \"src/a{number}.rs\", \"line\": {number}, \"severity\": \"high\", \"title\": \"Lock {number} is not taken\", \"description\": \"It is read without a lock.\"}},\n"
        )
    };
    let prose = "The change moves the cache behind a trait and keeps the old behaviour for callers in src/cache.rs:12. I read every call site and ran the tests twice. ";
    vec![
        (
            "findings document",
            format!(
                "# Review\n\n## Critical Issues (Must Fix)\n\n{}\n## Summary\n\n- **Recommendation:** Request changes\n",
                numbered(finding)
            ),
        ),
        ("JSON", format!("[{}{{}}]", numbered(json))),
        (
            "JSON in prose",
            format!("Here it is:\n\n```json\n[{}{{}}]\n```\n", numbered(json)),
        ),
        ("broken JSON", format!("[{}", numbered(json))),
        ("prose", filled(prose)),
        ("prose, one line each", filled(&format!("{prose}\n\n"))),
        (
            "linter lines",
            numbered(|number| {
                format!("src/m{number}.py:{number}:3: warning: unused name x{number} [W0612]\n")
            }),
        ),
        (
            "table",
            format!(
                "## Issues\n\n| Severity | File | Issue |\n|---|---|---|\n{}",
                numbered(|number| format!(
                    "| HIGH | src/a{number}.rs:{number} | Lock {number} is not taken |\n"
                ))
            ),
        ),
        ("open braces", filled("{")),
        ("open brackets", filled("[{\"a\":")),
        ("quotes", filled("> ")),
        ("back-ticks", filled("`")),
        ("fences", filled("```\n")),
        ("stars", filled("*")),
        ("nested lists", filled("  - - - a\n")),
        ("details", filled("<details><summary>x</summary>\n")),
        ("tags", filled("<td><br>")),
        ("headings", filled("# a\n")),
        (
            "same heading",
            filled("### Critical: the same\n\n- **File:** a.rs:1\n\n"),
        ),
        ("escapes", filled("\u{1b}]0;")),
        ("paths", filled("a/b.c:1 ")),
        ("slashes", filled("a/")),
        ("pipes", filled("|")),
        ("colons", filled("a: ")),
        ("dots", filled(".")),
        ("one word", filled("approve")),
        ("negations", filled("not ")),
        ("blank lines", filled("\n")),
        ("comment marks", filled("<!-- ")),
        ("quotation marks", filled("{\"a\": \"b")),
        ("comments in JSON", format!("{{\"a\": {}", filled("/* */ "))),
    ]
}
