//! Scores the reader against a corpus of annotated reviews and prints the table.
//!
//! `cargo run --release -p countersign-findings --example score -- DIR [--gen] [-v] [--dump OUT]`

#![expect(clippy::print_stdout, reason = "this tool prints a table")]
#![expect(
    clippy::disallowed_methods,
    reason = "a separate tool, not part of the program"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use findings::score::{self, CorpusDocument, RoundPair};

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dump = args
        .iter()
        .position(|arg| arg == "--dump")
        .and_then(|at| args.get(at + 1))
        .map(PathBuf::from);
    let directory = args
        .iter()
        .find(|arg| !arg.starts_with('-') && dump.as_deref() != Some(Path::new(arg)))
        .map(PathBuf::from);
    let Some(dir) = directory.or_else(|| std::env::var_os("COUNTERSIGN_CORPUS").map(PathBuf::from))
    else {
        println!("name the corpus directory as an argument or in COUNTERSIGN_CORPUS");
        return Ok(());
    };
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let documents = load(&dir)?;
    let table = score::score(&documents, has("--gen"));
    println!("{table}");
    let pairs = fs::read_to_string(dir.join("TRACKING.json"))
        .map(|text| serde_json::from_str(&text).unwrap_or_default())
        .map(|value| RoundPair::parse_list(&value))
        .unwrap_or_default();
    let tracking = score::score_tracking(&pairs, &documents);
    println!("{tracking}");
    if has("-v") {
        for line in table.details.iter().chain(&tracking.details) {
            println!("{line}");
        }
    }
    if let Some(out) = dump {
        write_results(&out, &documents)?;
    }
    Ok(())
}

/// Loads every `NNN-….*` that has an `NNN.expected.json` in the same directory.
fn load(dir: &Path) -> io::Result<Vec<CorpusDocument>> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some((number, _)) = name.split_once('-') else {
            continue;
        };
        let Ok(expected) = fs::read_to_string(dir.join(format!("{number}.expected.json"))) else {
            continue;
        };
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        documents.push(CorpusDocument {
            number: number.to_owned(),
            text,
            expected: serde_json::from_str(&expected)?,
        });
    }
    documents.sort_by(|a, b| a.number.cmp(&b.number));
    Ok(documents)
}

/// Writes the results in the format that other scorers expect.
fn write_results(out: &Path, documents: &[CorpusDocument]) -> io::Result<()> {
    fs::create_dir_all(out)?;
    for document in documents {
        let review = findings::read(&document.text);
        let results: Vec<serde_json::Value> = review
            .findings
            .iter()
            .map(|finding| {
                let mut value = serde_json::to_value(finding).unwrap_or_default();
                value["severity"] = serde_json::json!(finding.rating.severity.word());
                value["raw_severity"] = serde_json::json!(finding.rating.raw);
                value
            })
            .collect();
        let result =
            serde_json::json!({"verdict": score::claim_word(review.claim), "findings": results});
        fs::write(
            out.join(format!("{}.json", document.number)),
            result.to_string(),
        )?;
    }
    Ok(())
}
