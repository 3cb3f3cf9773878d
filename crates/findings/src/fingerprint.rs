//! A short hash that recognises the same finding.
//!
//! Code quality reports and SARIF use it to match findings between runs of other tools. Linking
//! over the rounds of a ticket is the work of `track`, which tolerates other words.

use sha2::{Digest, Sha256};

use crate::finding::Finding;

/// Returns sixteen hex digits over the file, rule, title and quoted line of a finding. The line
/// number is left out, because lines move.
pub fn fingerprint(finding: &Finding) -> String {
    let mut hash = Sha256::new();
    // A zero byte between the parts, so that `ab` + `c` and `a` + `bc` differ.
    hash.update(finding.file.as_deref().unwrap_or_default());
    hash.update([0]);
    hash.update(finding.rule.as_deref().unwrap_or_default());
    hash.update([0]);
    hash.update(folded(&finding.title));
    if let Some(anchor) = &finding.anchor {
        hash.update([0]);
        // White space is folded: formatting a line must not make a new finding.
        hash.update(anchor.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    hash.finalize()
        .iter()
        .take(8)
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Folds a text to lower case, letters and digits only, single spaces.
pub(crate) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
    out
}
