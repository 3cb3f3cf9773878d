//! The figures of the annotated corpus, where one is given. `COUNTERSIGN_CORPUS` names its
//! directory; without it the test says that it was skipped.

#![expect(
    clippy::disallowed_methods,
    reason = "where the corpus is can only be said from outside"
)]

use std::fs;
use std::path::Path;

use findings::score::{self, CorpusDocument, RoundPair};

fn load(dir: &Path) -> Vec<CorpusDocument> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut documents: Vec<CorpusDocument> = entries
        .filter_map(|entry| document(dir, &entry.path()))
        .collect();
    documents.sort_by(|a, b| a.number.cmp(&b.number));
    documents
}

fn document(dir: &Path, path: &Path) -> Option<CorpusDocument> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let (number, _) = name.split_once('-')?;
    let expected = fs::read_to_string(dir.join(format!("{number}.expected.json"))).ok()?;
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    Some(CorpusDocument {
        number: number.to_owned(),
        text,
        expected: serde_json::from_str(&expected).ok()?,
    })
}

#[test]
fn the_corpus_is_read_as_well_as_promised() {
    let Some(dir) = std::env::var_os("COUNTERSIGN_CORPUS") else {
        eprintln!("skipped: COUNTERSIGN_CORPUS names no corpus");
        return;
    };
    let dir = Path::new(&dir);
    let documents = load(dir);
    let table = score::score(&documents, false);
    assert!(
        table.documents > 0,
        "no annotated document in {}",
        dir.display()
    );
    println!("{table}");
    let wanted = [
        (table.verdict, 97.0),
        (table.recall, 95.0),
        (table.precision, 95.0),
        (table.file, 97.0),
        (table.line, 95.0),
        (table.severity, 97.0),
    ];
    assert!(
        wanted
            .iter()
            .all(|(ratio, least)| ratio.percent() >= *least),
        "{table}\n{}",
        table.details.join("\n")
    );
    let generated = score::score(&documents, true);
    let least = [
        generated.verdict,
        generated.recall,
        generated.precision,
        generated.file,
        generated.line,
        generated.severity,
    ];
    assert!(
        least.iter().all(|ratio| ratio.percent() >= 97.0),
        "{generated}"
    );
    let pairs = fs::read_to_string(dir.join("TRACKING.json"))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .map(|value| RoundPair::parse_list(&value))
        .unwrap_or_default();
    let tracking = score::score_tracking(&pairs, &documents);
    assert!(
        tracking.same.percent() >= 100.0
            && tracking.reworded.percent() >= 70.0
            && tracking.right.percent() >= 90.0,
        "{tracking}\n{}",
        tracking.details.join("\n")
    );
}
