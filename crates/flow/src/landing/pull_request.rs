//! Settings of `land = "pr"`: who merges the pull request, and how it looks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Account that merges an approved pull request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestMerge {
    /// A person, on the forge.
    #[default]
    Person,
    /// Countersign, as soon as the forge allows it, and the approved commit only.
    Countersign,
    /// The merge queue of the forge. Countersign marks the pull request as ready and waits.
    Queue,
}

/// Longest label, as forges limit it.
const LABEL_CHARS_MAX: usize = 50;
/// Most labels of a pull request.
const LABELS_MAX: usize = 20;

/// Lists impossible labels, each with what to write instead.
pub fn label_problems(labels: &[String], found: &mut Vec<String>) {
    if labels.len() > LABELS_MAX {
        found.push(format!(
            "landing.pr_labels: {LABELS_MAX} labels are the most"
        ));
    }
    for label in labels {
        let is_plain = !label.trim().is_empty()
            && label.chars().count() <= LABEL_CHARS_MAX
            && !label.contains([',', '\n'])
            && !label.contains(findings::is_hidden);
        if !is_plain {
            let shown = findings::shorten(&findings::one_line(label), 40);
            found.push(format!(
                "landing.pr_labels: {shown:?} is not a label: write one line of at most {LABEL_CHARS_MAX} characters without commas"
            ));
        }
    }
}
