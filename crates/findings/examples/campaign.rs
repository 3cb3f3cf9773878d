//! Fuzzes the reader with random documents for some seconds, on the stable toolchain.
//!
//! `cargo run --release -p countersign-findings --example campaign -- [SECONDS] [SEED]`
//!
//! Documents are built from pieces that readers look for, then cut, repeated and mixed with random
//! bytes. A panic, a broken invariant or a slow document ends the run with the document on standard
//! output.

#![expect(
    clippy::disallowed_methods,
    reason = "a campaign lasts as long as the clock says"
)]

use std::io::Write;
use std::panic;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use findings::write::{self, DiffLines, FindingEntry};
use findings::{KnownFinding, LineMap};

/// Maximum time to read a small document, whatever it contains.
const PATIENCE: Duration = Duration::from_millis(1500);

fn main() -> std::io::Result<ExitCode> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(10);
    let mut random = Random(
        args.next()
            .and_then(|arg| arg.parse().ok())
            .unwrap_or(0x9e37_79b9_7f4a_7c15),
    );
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut documents, mut bytes, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    let mut out = std::io::stdout().lock();
    while Instant::now() < end {
        let data = document(&mut random);
        let start = Instant::now();
        let outcome = panic::catch_unwind(|| promises(&data));
        slowest = slowest.max(start.elapsed());
        let broken = match outcome {
            Ok(Ok(())) if start.elapsed() < PATIENCE => None,
            Ok(Ok(())) => Some(format!("took {:?}", start.elapsed())),
            Ok(Err(invariant)) => Some(invariant.to_owned()),
            Err(_) => Some("panicked".to_owned()),
        };
        if let Some(invariant) = broken {
            writeln!(
                out,
                "broken after {documents} documents: {invariant}\n{:?}",
                String::from_utf8_lossy(&data)
            )?;
            return Ok(ExitCode::FAILURE);
        }
        documents += 1;
        bytes += data.len() as u64;
    }
    writeln!(
        out,
        "{documents} documents, {} MB, {seconds} s, slowest {slowest:?}: no invariant broken",
        bytes / 1_000_000
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Checks the invariants that hold for any bytes.
fn promises(data: &[u8]) -> Result<(), &'static str> {
    let text = String::from_utf8_lossy(data);
    let once = findings::clean(&text);
    if findings::clean(&once) != once {
        return Err("cleaning is not idempotent");
    }
    let review = findings::read(&text);
    let confined = |file: &str| !file.starts_with('/') && file.split('/').all(|part| part != "..");
    if review
        .findings
        .iter()
        .any(|finding| finding.title.is_empty() || !finding.file.as_deref().is_none_or(confined))
    {
        return Err("a finding without a title or outside the repository");
    }
    let entries: Vec<FindingEntry<'_>> = review.findings.iter().map(FindingEntry::from).collect();
    if findings::read_value(&write::sarif("c", "0", &entries))
        .findings
        .len()
        != entries.len()
    {
        return Err("SARIF lost a finding");
    }
    let _ = findings::read(&write::checklist(&entries));
    let _ = findings::read(&write::workflow_commands(&entries));
    let _ = write::escape_for_forge(&text);
    let _ = DiffLines::parse(&text);
    let known: Vec<KnownFinding<'_>> = review
        .findings
        .iter()
        .map(|finding| KnownFinding { id: "F1", finding })
        .collect();
    let links = findings::track(&known, &review.findings, &LineMap::parse(&text));
    if links.iter().any(|link| link.new >= review.findings.len()) {
        return Err("a link to nothing");
    }
    Ok(())
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap_or(0)
    }
}

fn document(random: &mut Random) -> Vec<u8> {
    let mut data = Vec::new();
    for _ in 0..=random.below(60) {
        let piece = PIECES[random.below(PIECES.len())].as_bytes();
        for _ in 0..if random.below(40) == 0 {
            random.below(200)
        } else {
            1
        } {
            data.extend_from_slice(piece);
        }
    }
    for _ in 0..random.below(8) {
        disturb(&mut data, random);
    }
    data
}

fn disturb(data: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(data.len());
    let end = at + random.below((data.len() - at).min(300) + 1);
    match random.below(5) {
        0 => data.truncate(at),
        1 => drop(data.drain(at..end)),
        2 => {
            let copy = data[at..end].to_vec();
            data.extend_from_slice(&copy);
        }
        3 => data.insert(at, u8::try_from(random.below(256)).unwrap_or(0)),
        _ => {
            let bytes: Vec<u8> = (0..random.below(20))
                .map(|_| u8::try_from(random.below(256)).unwrap_or(0))
                .collect();
            data.splice(at..end, bytes);
        }
    }
}

const PIECES: &[&str] = &[
    "\n",
    "\n\n",
    " ",
    "\t",
    "\r\n",
    "# ",
    "## Critical Issues (Must Fix)\n\n",
    "### 1. A title\n",
    "- **File:** `src/a.rs`, lines 3-9\n",
    "  - **Fix:** do it\n",
    "1. **[Security]:** text\n",
    "- [ ] **HIGH** (performance): src/b.rs:89\n",
    "- [x] done\n",
    "**Bold line**\n",
    "`29-42`: _⚠️ Potential issue_ | _🟠 Major_\n",
    "> ",
    "> > ",
    "---\n",
    "====\n",
    "| Severity | File | Issue |\n|---|---|---|\n",
    "| HIGH | a.rs:1 | bad |\n",
    "|",
    "```json\n",
    "```\n",
    "~~~\n",
    "````",
    "<details>",
    "</details>",
    "<summary>",
    "</summary>",
    "<td>",
    "<br>",
    "<!--",
    "-->",
    "<T>",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ":",
    ",",
    "\\",
    "\\u",
    "\\ud83d",
    "//",
    "/*",
    "*/",
    "null",
    "true",
    "-1e9",
    "99999999999999999999",
    "{\"verdict\": \"approve\", \"findings\": [",
    "{\"severity\": \"high\", \"file\": \"../../x\", \"line\": 3, \"title\": \"t\"},",
    "\"line_range\": \"7-8\"",
    "{\"runs\": [{\"results\": [{\"message\": {\"text\": \"m\"}}]}], \"version\": \"2.1.0\"}",
    "[P1] ",
    "P1 — ",
    "🔴 ",
    "💡",
    "⚠️",
    "严重",
    "第24-40行",
    "Bug：",
    "VERDICT: ",
    "NO-GO",
    "APPROVED",
    "LGTM",
    "not ",
    "I can't approve",
    "or ",
    "Round 1 ",
    "FIXED",
    "None.",
    "résumé",
    "src/a.rs:12:5: warning: x [W1]\n",
    "::error file=a,line=1::m\n",
    "error[E1]: x\n --> a.rs:1:2\n",
    "File: a.rs\nLine: 3 to 4\n",
    "<checkstyle><file name=\"a\"><error line=\"1\" message=\"m\"/>",
    "::",
    "-->",
    "diff --git a/x b/x\n",
    "--- a/x\n",
    "+++ b/x\n",
    "@@ -1,2 +3 @@\n",
    "@@ -4294967295,4294967295 +1 @@\n",
    "+a\n",
    "\u{1b}[31m",
    "\u{1b}]0;",
    "\u{7}",
    "\u{9b}",
    "\u{202e}",
    "\u{200b}",
    "\u{feff}",
    "\u{e0041}",
    "\0",
    "é",
    "日本",
    "a\u{301}",
];
