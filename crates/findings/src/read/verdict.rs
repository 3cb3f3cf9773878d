//! What a reviewer claims in prose.
//!
//! Only a verdict that is stated as one counts, and of several the last: a labelled line, a
//! heading with its answer below, a line that is nothing else. A bare word never counts. A
//! negation turns an approval, a condition takes it back, and a choice of answers is a question.

mod words;

use crate::finding::Claim;

use super::blocks::{Block, Kind};
use super::fields;
use words::says;

/// A claim, and how plainly it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub claim: Claim,
    pub text: String,
    pub strength: Strength,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// "I found no issues": counts only where there are none.
    Clean,
    /// A sentence that approves or refuses.
    Sentence,
    /// A line such as `Status: passed`, or a title that ends in a verdict.
    Mark,
    /// A line that is labelled as the verdict.
    Label,
}

/// The claim of a short phrase, such as the value of a verdict field.
pub(super) fn of_phrase(text: &str) -> Option<Claim> {
    words::claim(text, true)
}

/// A verdict stands at the beginning or the end; the middle of a huge document is not searched.
const HEAD_BLOCKS: usize = 2_000;
const TAIL_BLOCKS: usize = 10_000;

/// Whether a label announces a verdict.
pub(super) fn is_label(label: &str) -> bool {
    words::label_strength(label).is_some()
}

/// The document's verdict: the plainest kind of statement, and of those the last.
pub(super) fn of_blocks(blocks: &[Block]) -> Option<Verdict> {
    let mut verdicts = Vec::new();
    let (head, tail) = (HEAD_BLOCKS, blocks.len().saturating_sub(TAIL_BLOCKS));
    let quotes_all = blocks.iter().filter(|block| block.quoted).count() * 2 > blocks.len();
    for (index, block) in blocks.iter().enumerate() {
        if (index > head && index < tail) || (block.quoted && !quotes_all) {
            continue;
        }
        match &block.kind {
            Kind::Heading(_) => verdicts.extend(of_heading(&block.text, blocks.get(index + 1))),
            Kind::Item(_) | Kind::Paragraph => {
                of_text(&block.text, blocks.get(index + 1), &mut verdicts);
            }
            Kind::Table(rows) => verdicts.extend(rows.iter().filter_map(|row| of_row(row))),
            Kind::Code | Kind::Rule | Kind::Close(_) => {}
        }
    }
    // Under headings "no issues found" speaks of one section, not of the change.
    let sectioned = blocks
        .iter()
        .any(|block| matches!(block.kind, Kind::Heading(level) if level > 1));
    verdicts.retain(|verdict| verdict.strength != Strength::Clean || !sectioned);
    if verdicts.is_empty() {
        return of_opening(blocks.first()?);
    }
    let strongest = verdicts.iter().map(|verdict| verdict.strength).max()?;
    verdicts
        .into_iter()
        .rev()
        .find(|verdict| verdict.strength == strongest)
}

fn verdict(claim: Option<Claim>, text: &str, strength: Strength) -> Option<Verdict> {
    claim.map(|claim| Verdict {
        claim,
        text: crate::clean::shorten(&crate::clean::one_line(text), 160),
        strength,
    })
}

/// `## Verdict` with the answer below it, `## Verdict: …`, `# Review — approve`.
fn of_heading(heading: &str, next: Option<&Block>) -> Option<Verdict> {
    if let Some((strength, value)) = words::labelled_heading(heading) {
        let below = next
            .filter(|block| matches!(block.kind, Kind::Item(_) | Kind::Paragraph))
            .map(|block| block.text.as_str());
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

/// `Rejected: the tests fail`, as the first words of a document that says it nowhere else. Only a
/// refusal is taken from so little: an approval that is missed is asked for again.
fn of_opening(first: &Block) -> Option<Verdict> {
    if !matches!(first.kind, Kind::Paragraph) || first.quoted {
        return None;
    }
    let line = first.text.lines().next()?;
    let (head, reason) = line.split_once(':').or_else(|| line.split_once(" — "))?;
    let says_why = reason
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count()
        > 1;
    let claim = words::alone(head).filter(|claim| *claim == Claim::ChangesRequested && says_why);
    verdict(claim, line, Strength::Sentence)
}

fn of_row(row: &[String]) -> Option<Verdict> {
    let [label, value] = row else { return None };
    let strength = words::label_strength(label)?;
    verdict(words::claim(value, false), value, strength)
}

fn of_text(text: &str, next: Option<&Block>, verdicts: &mut Vec<Verdict>) {
    let before = verdicts.len();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let below = lines
            .peek()
            .copied()
            .or_else(|| next.map(|block| block.text.as_str()));
        verdicts.extend(of_line(line, below));
    }
    if verdicts.len() == before {
        for sentence in sentences(text) {
            let (claim, strength) = says(sentence);
            verdicts.extend(verdict(claim, sentence, strength));
        }
    }
}

fn of_line(line: &str, below: Option<&str>) -> Option<Verdict> {
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
        .take(400)
}

#[cfg(test)]
mod tests;
