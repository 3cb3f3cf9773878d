//! Any bytes at all: nothing panics, cleaning is idempotent, paths stay inside, and what is
//! written of what was read can be read again.

#![no_main]

use findings::write::{self, Entry};
use findings::{Known, LineMap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let once = findings::clean(&text);
    assert_eq!(findings::clean(&once), once);
    let review = findings::read(&text);
    for finding in &review.findings {
        assert!(!finding.title.is_empty());
        assert!(finding.file.as_deref().is_none_or(|file| file.split('/').all(|part| part != "..")));
    }
    let entries: Vec<Entry<'_>> = review.findings.iter().map(Entry::from).collect();
    let sarif = write::sarif("fuzz", "0", &entries);
    assert_eq!(findings::read_value(&sarif).findings.len(), entries.len());
    let _ = findings::read(&write::checklist(&entries));
    let known: Vec<Known<'_>> = review.findings.iter().map(|finding| Known { id: "F1", finding }).collect();
    let _ = findings::track(&known, &review.findings, &LineMap::parse(&text));
});
