//! A short hash by which the same finding is known again.

use sha2::{Digest, Sha256};

use crate::finding::Finding;

/// Sixteen hex digits over what a finding says and where, but not the line: lines move.
pub fn fingerprint(finding: &Finding) -> String {
    let mut hash = Sha256::new();
    hash.update(finding.file.as_deref().unwrap_or_default());
    hash.update([0]);
    hash.update(finding.rule.as_deref().unwrap_or_default());
    hash.update([0]);
    hash.update(folded(&finding.title));
    if let Some(anchor) = &finding.anchor {
        hash.update([0]);
        hash.update(anchor.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    hash.finalize()
        .iter()
        .take(8)
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Lower case, letters and digits only, single spaces.
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
