//! Remembers the findings that were posted on a pull request, so that a finding keeps its thread
//! when a later review words it differently. Without the file, a finding is recognised by its
//! fingerprint, which is enough to write nothing twice.

use std::path::PathBuf;

use findings::{Finding, KnownFinding, LineMap, track};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::settings::{Environment, read_bounded};

const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Findings of a pull request, over all its reviews.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PostedFindings {
    /// Head of the last review.
    pub head: String,
    pub findings: Vec<PostedFinding>,
}

/// A finding with a thread.
#[derive(Debug, Serialize, Deserialize)]
pub struct PostedFinding {
    /// Key of its thread.
    pub key: String,
    pub finding: Finding,
    pub resolved: bool,
}

/// Path of the file for a pull request.
pub fn memory_path(environment: &Environment, repository: &str, number: u64) -> PathBuf {
    let name = engine::hash::short_sha256(repository.as_bytes());
    let dir = environment.data_dir.join("pull-requests").join(name);
    dir.join(format!("{number}.json"))
}

impl PostedFindings {
    /// Reads the file. A missing or damaged one is an empty one: nothing depends on it but threads
    /// of findings with other words.
    pub fn read(path: &std::path::Path) -> Self {
        let bytes = read_bounded(path, "the posted findings", MEMORY_BYTES_MAX);
        let bytes = bytes.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub fn write(&self, path: &std::path::Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(Failure::error)?;
        let part = path.with_extension("part");
        let dir = path.parent().unwrap_or(path);
        engine::private_files::make_dir(dir)
            .and_then(|()| engine::private_files::write(&part, text))
            .and_then(|()| std::fs::rename(&part, path))
            .map_err(|error| Failure::error(format!("{}: {error}", path.display())))
    }

    /// Returns a key for each new finding: the one of the same finding of an earlier review, or its
    /// fingerprint.
    pub fn keys_for(&self, new: &[Finding], lines: &LineMap) -> Vec<String> {
        let known: Vec<KnownFinding<'_>> = self
            .findings
            .iter()
            .map(|posted| KnownFinding {
                id: &posted.key,
                finding: &posted.finding,
            })
            .collect();
        let links = track(&known, new, lines);
        let mut keys: Vec<String> = Vec::with_capacity(new.len());
        for (index, finding) in new.iter().enumerate() {
            let linked = links.iter().find(|link| link.new == index);
            let first =
                linked.map_or_else(|| findings::fingerprint(finding), |link| link.id.clone());
            let mut key = first.clone();
            let mut count = 1;
            // Two findings of one review have two threads, even with the same words.
            while keys.contains(&key) {
                count += 1;
                key = format!("{first}.{count}");
            }
            keys.push(key);
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use findings::Severity;

    fn finding(title: &str, line: u32) -> Finding {
        Finding {
            file: Some("greet.sh".to_owned()),
            line: Some(line),
            ..Finding::new(title, Severity::High.into())
        }
    }

    #[test]
    fn a_finding_keeps_its_key_and_no_two_share_one() {
        let mut memory = PostedFindings::default();
        let lines = LineMap::default();
        let first = [finding("An empty name is accepted", 2)];
        let keys = memory.keys_for(&first, &lines);
        assert_eq!(keys, memory.keys_for(&first, &lines));
        memory.findings.push(PostedFinding {
            key: "known".to_owned(),
            finding: first[0].clone(),
            resolved: false,
        });
        let again = [finding("An empty name is still accepted", 2)];
        assert_eq!(memory.keys_for(&again, &lines), ["known"]);
        let twice = [finding("Quote it", 9), finding("Quote it", 30)];
        let keys = memory.keys_for(&twice, &lines);
        assert_ne!(keys[0], keys[1]);
    }
}
