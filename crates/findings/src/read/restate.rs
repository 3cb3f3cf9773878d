//! Removes findings that a document states twice: once as JSON and once in the prose around it.

use std::collections::{HashMap, HashSet};

use crate::severity::Severity;

use super::draft::FindingDraft;

/// Returns the drafts of the prose that are not in the JSON. A finding that is worse in the prose
/// than in the JSON stays, so that no severe finding gets lost.
pub(super) fn filter(stated: &[FindingDraft], prose: Vec<FindingDraft>) -> Vec<FindingDraft> {
    if stated.is_empty() {
        return prose;
    }
    let mut by_file: HashMap<&str, Vec<&FindingDraft>> = HashMap::new();
    for draft in stated.iter().take(STATED_MAX) {
        let file = draft.file.as_deref().map(name_of).unwrap_or_default();
        by_file.entry(file).or_default().push(draft);
    }
    let words: Vec<(HashSet<String>, &FindingDraft)> = stated
        .iter()
        .take(COMPARED_MAX)
        .map(|draft| (words_of(draft), draft))
        .collect();
    prose
        .into_iter()
        .filter(|draft| !is_stated(draft, &by_file, &words))
        .collect()
}

/// Maximum number of findings that are searched for repeats.
const STATED_MAX: usize = 10_000;
const COMPARED_MAX: usize = 64;
/// Maximum length of each text that is compared.
const WORDS_CHARS_MAX: usize = 600;

fn is_stated(
    draft: &FindingDraft,
    by_file: &HashMap<&str, Vec<&FindingDraft>>,
    words: &[(HashSet<String>, &FindingDraft)],
) -> bool {
    let file = draft.file.as_deref().map(name_of);
    let same_place = file
        .and_then(|file| by_file.get(file))
        .into_iter()
        .flatten()
        .take(COMPARED_MAX)
        .any(|other| is_near(draft, other) && covers(other, draft));
    let own = words_of(draft);
    same_place
        || words.iter().any(|(others, other)| {
            let shared = own.intersection(others).count();
            shared * 2 >= own.len().min(others.len()).max(2) && covers(other, draft)
        })
}

fn is_near(a: &FindingDraft, b: &FindingDraft) -> bool {
    match (a.line, b.line) {
        (Some(a), Some(b)) => a.abs_diff(b) <= 5,
        _ => true,
    }
}

/// Returns whether the stated finding is at least as severe as the repeat.
fn covers(stated: &FindingDraft, repeat: &FindingDraft) -> bool {
    let degree = |draft: &FindingDraft| {
        draft
            .degree
            .or_else(|| draft.severity.as_deref().and_then(Severity::from_word))
    };
    match (degree(stated), degree(repeat)) {
        (Some(stated), Some(repeat)) => stated <= repeat || !repeat.is_must_fix(),
        (None, Some(repeat)) => !repeat.is_must_fix(),
        (_, None) => true,
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

fn words_of(draft: &FindingDraft) -> HashSet<String> {
    let parts = [
        Some(draft.title.as_str()),
        draft.problem.as_deref(),
        draft.impact.as_deref(),
    ];
    parts
        .into_iter()
        .flatten()
        .flat_map(|part| part.chars().take(WORDS_CHARS_MAX).chain([' ']))
        .collect::<String>()
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 3)
        .map(str::to_owned)
        .collect()
}
