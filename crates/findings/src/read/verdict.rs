//! Reads the claim of a reviewer in prose.
//!
//! The two claims follow different rules. A refusal counts in any form: after a label, in a
//! heading, a table, a sentence. An approval counts only if it is a whole value from a closed list
//! (`approval`), is in the reviewer's own words, and nothing in the document contradicts it
//! (`cues`). Anything else is no claim.
//!
//! The difference is deliberate. Texts of other systems are read here, and a person relies on the
//! word `approved`. A refusal that was none costs a look; an approval that was none lands a change.

mod approval;
mod approval_lists;
mod candidates;
mod cue_lists;
mod cues;
mod harmless;
mod harmless_lists;
mod phrases;
mod rows;
mod signs;
mod stop_lists;
mod stops;
mod surroundings;
mod words;

pub(super) use approval::{ApprovalMatch, match_keyed};
pub(crate) use stops::{blocks as blocks_the_merge, find as find_stop};

use crate::finding::ReviewClaim;

use super::blocks::{Block, BlockKind, Marker};
use super::fields;
use words::sentence_claim;

/// A claim, its text and its strength.
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

/// The verdict of a document, and the reason why an approval in it does not count.
#[derive(Clone, Debug, Default)]
pub(super) struct DocumentVerdict {
    pub verdict: Option<StatedVerdict>,
    pub doubt: Option<&'static str>,
}

/// Returns whether a short phrase refuses, such as the value of a verdict field.
pub(super) fn refuses(text: &str) -> bool {
    words::value_claim(text, true) == Some(ReviewClaim::ChangesRequested)
}

/// Returns whether words near an approval contradict it.
pub(super) fn objects(text: &str) -> bool {
    cues::objects(text)
}

/// Returns whether words contradict an approval anywhere in the document.
pub(super) fn forbids(text: &str) -> bool {
    cues::forbids(text) || cues::accuses(text)
}

/// Returns whether every sentence of a text is understood and has no reservation.
pub(super) fn is_harmless(text: &str) -> bool {
    harmless::is_harmless(text)
}

/// Returns whether a text has a sign or a vote that is not known to be harmless.
pub(super) fn has_doubtful_sign(text: &str) -> bool {
    signs::has_doubtful(text) || signs::has_vote(text)
}

/// Like [`is_harmless`], for parsed blocks. Their own approving words are harmless, too.
pub(super) fn is_understood(blocks: &[Block]) -> bool {
    surroundings::are_understood(blocks)
}

/// Returns the approximate number of words in a text.
pub(super) fn word_count(text: &str) -> usize {
    phrases::TokenizedSentence::parse(text).weight()
}

/// Maximum number of words of a short document. In a short one every sentence is checked, in a
/// longer one only those near the verdict or about approval.
/// An approval in a short text is most of it, so every sentence counts. In a long one the checks of
/// single sentences would never all pass.
pub(super) const SHORT_WORDS: usize = 180;

/// Number of blocks at the start that are searched for a refusal. A verdict is at the start or the
/// end, so the middle of a huge document is not searched. It never approves: see [`of_blocks`].
/// A bound on work: blocks are compared with lists of phrases.
const HEAD_BLOCKS: usize = 2_000;
const TAIL_BLOCKS: usize = 10_000;

/// Returns whether a label announces a verdict.
pub(super) fn is_label(label: &str) -> bool {
    words::label_strength(label).is_some()
}

/// Returns the verdict of a document. A refusal overrides an approval, unless the approval comes
/// later and the refusal has no label; then neither counts.
pub(super) fn find_verdict(blocks: &[Block]) -> DocumentVerdict {
    let refusals = refusals(blocks);
    // Approvals first: without one the strongest refusal decides, and no doubt has to be looked
    // for.
    let scan = candidates::find_approvals(blocks);
    let Some(last) = scan.approvals.last() else {
        return DocumentVerdict {
            verdict: strongest(refusals),
            doubt: None,
        };
    };
    // The last approval counts. A reviewer changes its mind in the course of a text and not
    // backwards.
    let later = refusals.iter().any(|(index, _)| *index >= last.index);
    // A label says that this is the verdict, so its place does not matter.
    let labelled = refusals
        .iter()
        .any(|(_, refusal)| refusal.strength == Strength::Label);
    if later || labelled {
        return DocumentVerdict {
            verdict: strongest(refusals),
            doubt: None,
        };
    }
    // Both are in the text, and the approval comes later. It may be a summary of what others said,
    // so neither counts.
    let doubt = if refusals.is_empty() {
        scan.doubt.or_else(|| surroundings::doubt(blocks, last))
    } else {
        Some("the text also refuses")
    };
    DocumentVerdict {
        verdict: doubt.is_none().then(|| last.verdict.clone()),
        doubt,
    }
}

/// Returns the reason why the prose around a structured approval contradicts it, if it does.
pub(super) fn doubt_around(blocks: &[Block]) -> Option<&'static str> {
    candidates::find_approvals(blocks)
        .doubt
        .or_else(|| surroundings::doubt_in_prose(blocks))
}

// Of several refusals with equal strength the last one is quoted.
fn strongest(refusals: Vec<(usize, StatedVerdict)>) -> Option<StatedVerdict> {
    let strongest = refusals.iter().map(|(_, verdict)| verdict.strength).max()?;
    refusals
        .into_iter()
        .rev()
        .map(|(_, verdict)| verdict)
        .find(|verdict| verdict.strength == strongest)
}

/// Finds every refusal of the document with the index of its block.
fn refusals(blocks: &[Block]) -> Vec<(usize, StatedVerdict)> {
    let mut refusals = Vec::new();
    let (head, tail) = (HEAD_BLOCKS, blocks.len().saturating_sub(TAIL_BLOCKS));
    // A mail client quotes the whole text. Then the quotation is the review.
    let quotes_all = blocks.iter().filter(|block| block.quoted).count() * 2 > blocks.len();
    let mut verdicts = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        if (index > head && index < tail) || (block.quoted && !quotes_all) {
            continue;
        }
        match &block.kind {
            BlockKind::Heading(_) => {
                verdicts.extend(verdict_in_heading(&block.text, blocks.get(index + 1)));
            }
            // An unticked box is an option that was not chosen.
            BlockKind::Item(marker) if *marker == (Marker::Box { ticked: false }) => {}
            BlockKind::Item(_) | BlockKind::Paragraph => {
                verdicts_in_text(&block.text, blocks.get(index + 1), &mut verdicts);
            }
            BlockKind::Table(rows) => verdicts_in_table(rows, &mut verdicts),
            // Code is not prose: an example of a refusal is no refusal.
            BlockKind::Code | BlockKind::Rule | BlockKind::Close(_) => {}
        }
        let refused = verdicts
            .drain(..)
            .filter(|verdict| verdict.claim == ReviewClaim::ChangesRequested);
        refusals.extend(refused.map(|verdict| (index, verdict)));
    }
    // Only without another refusal: it is the weakest form of one.
    if refusals.is_empty() {
        let opening = blocks.first().and_then(verdict_in_opening);
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

/// Reads `## Verdict` with the answer below it, `## Verdict: …`, `# Review — reject`.
/// The answer may stand on the line of the heading or below it, with or without a colon.
fn verdict_in_heading(heading: &str, next: Option<&Block>) -> Option<StatedVerdict> {
    let below = next
        .filter(|block| matches!(block.kind, BlockKind::Item(_) | BlockKind::Paragraph))
        .map(|block| block.text.as_str());
    if let Some(answer) = candidates::answer_to_question(heading) {
        let answer = if answer.is_empty() { below? } else { answer };
        return verdict(denial(answer), answer, Strength::Label);
    }
    if let Some((strength, value)) = words::labelled_heading(heading) {
        let value = if value.trim().is_empty() {
            below?
        } else {
            value
        };
        // The text below a heading may be a sentence; its label is the heading.
        return verdict(
            words::value_claim(value, strength == Strength::Label),
            value,
            Strength::Label,
        );
    }
    // The part after the last dash: titles of reviews end in their verdict.
    let tail = heading
        .rsplit(['—', '–', ':'])
        .next()
        .filter(|tail| tail.len() < heading.len())?;
    verdict(words::whole_line_claim(tail), heading, Strength::Mark)
}

fn denial(answer: &str) -> Option<ReviewClaim> {
    approval::is_no(answer).then_some(ReviewClaim::ChangesRequested)
}

/// Reads a refusal in the first words of a document without another one: `Rejected: the tests
/// fail`.
fn verdict_in_opening(first: &Block) -> Option<StatedVerdict> {
    if !matches!(first.kind, BlockKind::Paragraph) || first.quoted {
        return None;
    }
    let line = first.text.lines().next()?;
    let (head, reason) = line.split_once(':').or_else(|| line.split_once(" — "))?;
    // A reason has at least two words. One word may be a value.
    let says_why = reason
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count()
        > 1;
    let claim = words::whole_line_claim(head)
        .filter(|claim| *claim == ReviewClaim::ChangesRequested && says_why);
    verdict(claim, line, Strength::Sentence)
}

/// Reads rows of two cells, and a column with the head of a verdict.
fn verdicts_in_table(rows: &[Vec<String>], verdicts: &mut Vec<StatedVerdict>) {
    verdicts.extend(rows.iter().filter_map(|row| verdict_in_row(row)));
    let column = rows
        .first()
        .and_then(|head| head.iter().position(|cell| approval::is_label(cell)));
    // A table of one row has no head.
    let Some(column) = column.filter(|_| rows.len() > 1) else {
        return;
    };
    for cell in rows[1..].iter().filter_map(|row| row.get(column)) {
        verdicts.extend(verdict(words::whole_line_claim(cell), cell, Strength::Mark));
    }
}

fn verdict_in_row(row: &[String]) -> Option<StatedVerdict> {
    let [label, value] = row else { return None };
    if candidates::answer_to_question(label).is_some() {
        return verdict(denial(value), value, Strength::Label);
    }
    let strength = words::label_strength(label)?;
    verdict(
        words::value_claim(value, approval::is_label(label)),
        value,
        strength,
    )
}

// Lines before sentences: a labelled line is more certain.
fn verdicts_in_text(text: &str, next: Option<&Block>, verdicts: &mut Vec<StatedVerdict>) {
    let before = verdicts.len();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let below = lines
            .peek()
            .copied()
            .or_else(|| next.map(|block| block.text.as_str()));
        verdicts.extend(verdict_in_line(line, below));
    }
    // Sentences are read only if no line refuses. Each of them would give the same refusal again.
    if verdicts.len() == before
        || verdicts[before..]
            .iter()
            .all(|verdict| verdict.claim != ReviewClaim::ChangesRequested)
    {
        for sentence in sentences(text) {
            let (claim, strength) = sentence_claim(sentence);
            verdicts.extend(verdict(claim, sentence, strength));
        }
    }
}

fn verdict_in_line(line: &str, below: Option<&str>) -> Option<StatedVerdict> {
    if let Some(answer) = candidates::answer_to_question(line) {
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
        if let Some(stated) = verdict(
            words::value_claim(
                value,
                strength == Strength::Label && words::names_a_verdict(label),
            ),
            value,
            strength,
        ) {
            return Some(stated);
        }
    }
    if let Some(value) = words::verdict_inside(line) {
        return verdict(words::value_claim(value, true), value, Strength::Label);
    }
    verdict(words::whole_line_claim(line), line, Strength::Mark)
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '。', '！', '？'])
        .flat_map(|line| line.split_inclusive(['.', '!', '?', ';']))
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
}

#[cfg(test)]
mod tests;
