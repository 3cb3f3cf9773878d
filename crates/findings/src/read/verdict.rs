//! What a reviewer claims in prose.
//!
//! The two claims are read by different rules. A refusal is heard in any form: behind a label, in
//! a heading, a table, a sentence. An approval counts only if it is the whole of a value from a
//! closed list (`approval`), stands where the reviewer itself speaks, and nothing in the document
//! takes it back (`cues`). What is neither is no claim.

mod approval;
mod approval_lists;
mod candidates;
mod cue_lists;
mod cues;
mod harmless;
mod harmless_lists;
mod phrases;
mod stop_lists;
mod stops;
mod surroundings;
mod words;

pub(super) use approval::{ApprovalMatch, keyed};
pub(crate) use stops::{blocks as blocks_the_merge, find as find_stop};

use crate::finding::ReviewClaim;

use super::blocks::{Block, BlockKind, Marker};
use super::fields;
use words::says;

/// A claim, and how plainly it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatedVerdict {
    pub claim: ReviewClaim,
    pub text: String,
    pub strength: Strength,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// A sentence that approves or refuses.
    Sentence,
    /// A line such as `Status: failed`, or a title that ends in a verdict.
    Mark,
    /// A line that is labelled as the verdict.
    Label,
}

/// The verdict of a document, and why an approval in it does not count.
#[derive(Clone, Debug, Default)]
pub(super) struct DocumentVerdict {
    pub verdict: Option<StatedVerdict>,
    pub doubt: Option<&'static str>,
}

/// The refusal in a short phrase, such as the value of a verdict field.
pub(super) fn refuses(text: &str) -> bool {
    words::claim(text, true) == Some(ReviewClaim::ChangesRequested)
}

/// Whether an explanation speaks for the change and takes nothing back.
pub(super) fn vouches(text: &str) -> bool {
    cues::vouches(text)
}

/// Whether words near an approval take it back.
pub(super) fn objects(text: &str) -> bool {
    cues::objects(text)
}

/// Whether words take an approval back wherever they stand.
pub(super) fn forbids(text: &str) -> bool {
    cues::forbids(text) || cues::accuses(text)
}

/// Whether every sentence of a text is understood and takes nothing back.
pub(super) fn is_harmless(text: &str) -> bool {
    harmless::is_harmless(text)
}

/// The same for a text that was taken apart. Its own approving words are harmless too.
pub(super) fn is_understood(blocks: &[Block]) -> bool {
    surroundings::are_understood(blocks)
}

/// Roughly how many words a text has.
pub(super) fn weight(text: &str) -> usize {
    phrases::TokenizedSentence::of(text).weight()
}

/// In a document of at most so many words every sentence is judged; in a longer one only those
/// that stand near the verdict or speak of approval.
pub(super) const SHORT_WORDS: usize = 180;

/// A verdict stands at the beginning or the end; the middle of a huge document is not searched
/// for a refusal. It never approves: see [`of_blocks`].
const HEAD_BLOCKS: usize = 2_000;
const TAIL_BLOCKS: usize = 10_000;

/// Whether a label announces a verdict.
pub(super) fn is_label(label: &str) -> bool {
    words::label_strength(label).is_some()
}

/// The document's verdict. A refusal beats an approval unless the approval is the later and the
/// plainer one; then neither counts.
pub(super) fn of_blocks(blocks: &[Block]) -> DocumentVerdict {
    let refusals = refusals(blocks);
    let found = candidates::find(blocks);
    let Some(last) = found.approvals.last() else {
        return DocumentVerdict {
            verdict: strongest(refusals),
            doubt: None,
        };
    };
    let later = refusals.iter().any(|(index, _)| *index >= last.index);
    let labelled = refusals
        .iter()
        .any(|(_, refusal)| refusal.strength == Strength::Label);
    if later || labelled {
        return DocumentVerdict {
            verdict: strongest(refusals),
            doubt: None,
        };
    }
    let doubt = if refusals.is_empty() {
        found.doubt.or_else(|| surroundings::doubt(blocks, last))
    } else {
        Some("the text also refuses")
    };
    DocumentVerdict {
        verdict: doubt.is_none().then(|| last.verdict.clone()),
        doubt,
    }
}

/// Why the prose around a structured approval takes it back, if it does.
pub(super) fn doubt_around(blocks: &[Block]) -> Option<&'static str> {
    candidates::find(blocks)
        .doubt
        .or_else(|| surroundings::doubt_in_prose(blocks))
}

fn strongest(refusals: Vec<(usize, StatedVerdict)>) -> Option<StatedVerdict> {
    let strongest = refusals.iter().map(|(_, verdict)| verdict.strength).max()?;
    refusals
        .into_iter()
        .rev()
        .map(|(_, verdict)| verdict)
        .find(|verdict| verdict.strength == strongest)
}

/// Every refusal of the document with the index of its block.
fn refusals(blocks: &[Block]) -> Vec<(usize, StatedVerdict)> {
    let mut refusals = Vec::new();
    let (head, tail) = (HEAD_BLOCKS, blocks.len().saturating_sub(TAIL_BLOCKS));
    let quotes_all = blocks.iter().filter(|block| block.quoted).count() * 2 > blocks.len();
    let mut verdicts = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        if (index > head && index < tail) || (block.quoted && !quotes_all) {
            continue;
        }
        match &block.kind {
            BlockKind::Heading(_) => {
                verdicts.extend(of_heading(&block.text, blocks.get(index + 1)))
            }
            BlockKind::Item(marker) if *marker == (Marker::Box { ticked: false }) => {}
            BlockKind::Item(_) | BlockKind::Paragraph => {
                of_text(&block.text, blocks.get(index + 1), &mut verdicts);
            }
            BlockKind::Table(rows) => of_table(rows, &mut verdicts),
            BlockKind::Code | BlockKind::Rule | BlockKind::Close(_) => {}
        }
        let refused = verdicts
            .drain(..)
            .filter(|verdict| verdict.claim == ReviewClaim::ChangesRequested);
        refusals.extend(refused.map(|verdict| (index, verdict)));
    }
    if refusals.is_empty() {
        let opening = blocks.first().and_then(of_opening);
        refusals.extend(opening.map(|verdict| (0, verdict)));
    }
    refusals
}

fn verdict(claim: Option<ReviewClaim>, text: &str, strength: Strength) -> Option<StatedVerdict> {
    claim.map(|claim| StatedVerdict {
        claim,
        text: crate::clean::shorten(&crate::clean::one_line(text), 160),
        strength,
    })
}

/// `## Verdict` with the answer below it, `## Verdict: …`, `# Review — reject`.
fn of_heading(heading: &str, next: Option<&Block>) -> Option<StatedVerdict> {
    let below = next
        .filter(|block| matches!(block.kind, BlockKind::Item(_) | BlockKind::Paragraph))
        .map(|block| block.text.as_str());
    if let Some(answer) = candidates::asked(heading) {
        let answer = if answer.is_empty() { below? } else { answer };
        return verdict(denial(answer), answer, Strength::Label);
    }
    if let Some((strength, value)) = words::labelled_heading(heading) {
        let value = if value.trim().is_empty() {
            below?
        } else {
            value
        };
        // What stands below a heading may be a sentence; its label is the heading.
        return verdict(
            words::claim(value, strength == Strength::Label),
            value,
            Strength::Label,
        );
    }
    let tail = heading
        .rsplit(['—', '–', ':'])
        .next()
        .filter(|tail| tail.len() < heading.len())?;
    verdict(words::alone(tail), heading, Strength::Mark)
}

fn denial(answer: &str) -> Option<ReviewClaim> {
    approval::denied(answer).then_some(ReviewClaim::ChangesRequested)
}

/// `Rejected: the tests fail`, as the first words of a document that says it nowhere else.
fn of_opening(first: &Block) -> Option<StatedVerdict> {
    if !matches!(first.kind, BlockKind::Paragraph) || first.quoted {
        return None;
    }
    let line = first.text.lines().next()?;
    let (head, reason) = line.split_once(':').or_else(|| line.split_once(" — "))?;
    let says_why = reason
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count()
        > 1;
    let claim =
        words::alone(head).filter(|claim| *claim == ReviewClaim::ChangesRequested && says_why);
    verdict(claim, line, Strength::Sentence)
}

/// Rows of two cells, and a column that is headed as the verdict.
fn of_table(rows: &[Vec<String>], verdicts: &mut Vec<StatedVerdict>) {
    verdicts.extend(rows.iter().filter_map(|row| of_row(row)));
    let column = rows
        .first()
        .and_then(|head| head.iter().position(|cell| approval::is_label(cell)));
    let Some(column) = column.filter(|_| rows.len() > 1) else {
        return;
    };
    for cell in rows[1..].iter().filter_map(|row| row.get(column)) {
        verdicts.extend(verdict(words::alone(cell), cell, Strength::Mark));
    }
}

fn of_row(row: &[String]) -> Option<StatedVerdict> {
    let [label, value] = row else { return None };
    if candidates::asked(label).is_some() {
        return verdict(denial(value), value, Strength::Label);
    }
    let strength = words::label_strength(label)?;
    verdict(
        words::claim(value, approval::is_label(label)),
        value,
        strength,
    )
}

fn of_text(text: &str, next: Option<&Block>, verdicts: &mut Vec<StatedVerdict>) {
    let before = verdicts.len();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let below = lines
            .peek()
            .copied()
            .or_else(|| next.map(|block| block.text.as_str()));
        verdicts.extend(of_line(line, below));
    }
    if verdicts.len() == before
        || verdicts[before..]
            .iter()
            .all(|verdict| verdict.claim != ReviewClaim::ChangesRequested)
    {
        for sentence in sentences(text) {
            let (claim, strength) = says(sentence);
            verdicts.extend(verdict(claim, sentence, strength));
        }
    }
}

fn of_line(line: &str, below: Option<&str>) -> Option<StatedVerdict> {
    if let Some(answer) = candidates::asked(line) {
        let answer = if answer.is_empty() { below? } else { answer };
        return verdict(denial(answer), answer, Strength::Label);
    }
    if let Some((label, value)) = fields::split_label(line)
        && let Some(strength) = words::label_strength(label)
    {
        let value = if value.trim_matches(['*', ' ']).is_empty() {
            below?
        } else {
            value
        };
        if let Some(found) = verdict(
            words::claim(
                value,
                strength == Strength::Label && words::names_a_verdict(label),
            ),
            value,
            strength,
        ) {
            return Some(found);
        }
    }
    if let Some(value) = words::verdict_inside(line) {
        return verdict(words::claim(value, true), value, Strength::Label);
    }
    verdict(words::alone(line), line, Strength::Mark)
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '。', '！', '？'])
        .flat_map(|line| line.split_inclusive(['.', '!', '?', ';']))
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
}

#[cfg(test)]
mod tests;
