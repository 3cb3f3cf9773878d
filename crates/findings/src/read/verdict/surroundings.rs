//! Searches the rest of a document for reasons to doubt an approval in it.

use std::sync::LazyLock;

use crate::severity::Severity;

use super::super::blocks::{Block, BlockKind, Marker};
use super::super::degree;
use super::super::fields;
use super::super::label;
use super::super::topic::{self, Topic};
use super::candidates::{ApprovalCandidate, ELSEWHERE, NOT_OWN, ROUND, is_elsewhere};
use super::phrases::{Phrases, TokenizedSentence};
use super::{SHORT_WORDS, approval, candidates, cues, harmless, stops};

const RESERVED: &str = "the text around the approval contradicts it or sets a condition";
const UNFINISHED: &str = "the text forbids the approval or says that the review is not finished";

/// Phrases that call a finding of an earlier round still open.
static STILL_OPEN: LazyLock<Phrases> = LazyLock::new(|| {
    Phrases::from_lists(&["
not fixed, not resolved, not addressed, not been fixed, not been resolved, not been addressed, isn't fixed, unresolved, unfixed, still open, still broken, still present, still fails, still there, remains open, remains broken, remains unfixed, reopened, regressed, nicht behoben, non corrigé*, no corregid*, não corrigid*, не исправлен*, 未修复, 未解决, 未修正"])
});

/// Returns the reason to doubt an approval in the prose, from the rest of the document.
pub(super) fn doubt(blocks: &[Block], approval: &ApprovalCandidate) -> Option<&'static str> {
    let others = |(index, _): &(usize, &Block)| *index != approval.index && *index != approval.end;
    doubt_of(blocks, approval.end, others)
}

/// Like [`doubt`], for an approval that is not in the prose.
pub(super) fn doubt_in_prose(blocks: &[Block]) -> Option<&'static str> {
    let announced = blocks
        .windows(2)
        .any(|pair| pair[1].kind == BlockKind::Code && is_example(&pair[0]));
    let set_apart = blocks.iter().any(|block| {
        let elsewhere =
            matches!(block.kind, BlockKind::Heading(level) if is_elsewhere(&block.text, level));
        block.quoted || block.set_apart || elsewhere
    });
    if announced || set_apart {
        return Some(NOT_OWN);
    }
    doubt_of(blocks, usize::MAX, |_| true)
}

fn doubt_of(
    blocks: &[Block],
    end: usize,
    others: impl Fn(&(usize, &Block)) -> bool,
) -> Option<&'static str> {
    let words: usize = blocks
        .iter()
        .map(|block| TokenizedSentence::parse(&text_of(block)).weight())
        .sum();
    let short = words <= SHORT_WORDS;
    let mut harmless_heading = false;
    let mut earlier = false;
    let mut same_section = true;
    for (index, block) in blocks.iter().enumerate().filter(others) {
        if let BlockKind::Heading(level) = block.kind {
            let minor =
                degree::degree_heading(&block.text).and_then(|word| Severity::from_word(&word));
            harmless_heading = minor.is_some_and(|severity| !severity.is_must_fix());
            same_section &= index < end;
            earlier = topic::topic(&block.text) == Topic::Earlier;
            let filled = blocks.get(index + 1).is_some_and(|next| {
                !matches!(
                    next.kind,
                    BlockKind::Heading(_) | BlockKind::Rule | BlockKind::Close(_)
                ) && !topic::is_nothing(&next.text)
            });
            if filled && !earlier && cues::demands(&block.text) {
                return Some("the text lists changes that are required");
            }
            let empty = blocks
                .get(index + 1)
                .is_none_or(|next| matches!(next.kind, BlockKind::Heading(_)));
            if short && empty && index < end && is_elsewhere(&block.text, level) {
                return Some(NOT_OWN);
            }
            if index > end
                && !earlier
                && level > 1
                && ROUND.is_in(&TokenizedSentence::parse(&block.text))
            {
                return Some(NOT_OWN);
            }
        }
        let offered = matches!(block.kind, BlockKind::Item(Marker::Box { ticked: false }))
            && super::words::whole_line_claim(&block.text).is_some();
        if block.kind == BlockKind::Code || offered {
            continue;
        }
        let text = text_of(block);
        if cues::forbids(&text) {
            return Some(UNFINISHED);
        }
        // A heading that announces a list is judged by the text under it.
        let announces =
            matches!(block.kind, BlockKind::Heading(_)) && topic::topic(&block.text) != Topic::Open;
        if !earlier && is_grave(block) {
            return Some("the text has a must-fix finding");
        }
        let accused = !announces && !earlier && cues::accuses(&text);
        if accused {
            return Some("the text names a severe defect");
        }
        let minor = harmless_heading || is_minor(&block.text);
        let near = index > end && same_section && matches!(block.kind, BlockKind::Paragraph);
        let is_json = end == usize::MAX && block.text.trim_start().starts_with(['{', '[']);
        if is_json && matches!(block.kind, BlockKind::Paragraph) {
            continue;
        }
        let reserved = if earlier {
            STILL_OPEN.is_in(&TokenizedSentence::parse(&text))
        } else if minor {
            stops::is_disaster(&text)
        } else if short {
            !is_understood(block)
        } else if announces {
            false
        } else {
            (near && cues::turns(&text)) || is_curt(block) || stops(block, &text)
        };
        if reserved && !(block.quoted && index < end && !short) {
            return Some(RESERVED);
        }
    }
    ends_in_mid_sentence(blocks, end).then_some("the text ends in the middle of a sentence")
}

/// Returns whether every block of a short text is understood, and none is quoted.
pub(super) fn are_understood(blocks: &[Block]) -> bool {
    blocks.iter().all(|block| {
        let approves = approval::match_whole_line(&block.text)
            == Some(approval::ApprovalMatch::Whole)
            || approval::match_keyed(&block.text, false) == Some(approval::ApprovalMatch::Whole);
        !block.quoted
            && !block.set_apart
            && (approves || is_name(&block.text) || is_understood(block))
    })
}

/// Returns whether a word names a person, a tool or a location: it has punctuation or digits.
fn is_name(text: &str) -> bool {
    let inner = text.trim_matches(|c: char| !c.is_alphanumeric());
    inner.is_ascii()
        && !inner.contains(char::is_whitespace)
        && inner.contains(|c: char| c.is_ascii_digit() || matches!(c, '/' | '.' | '@' | ':'))
}

/// Returns whether a block of a short document is understood and has no reservation.
fn is_understood(block: &Block) -> bool {
    let text = block.text.as_str();
    match &block.kind {
        BlockKind::Code | BlockKind::Rule | BlockKind::Close(_) => true,
        BlockKind::Heading(_) => {
            let bare = text.trim_end_matches([':', '：', '*', ' ']);
            topic::topic(text) != Topic::Open
                || approval::is_title(bare)
                || approval::is_label(bare)
                || harmless::is_known(text)
        }
        BlockKind::Table(rows) => is_harmless_table(rows),
        BlockKind::Item(Marker::Box { ticked: true }) => {
            stop_free(text) && !cues::accuses(text) && !text.contains("~~")
        }
        BlockKind::Item(Marker::Box { ticked: false }) => false,
        BlockKind::Item(_) | BlockKind::Paragraph => is_understood_text(text),
    }
}

/// Returns whether a text is understood: metadata lines of a report, then prose in which every
/// sentence is harmless.
pub(super) fn is_understood_text(text: &str) -> bool {
    let mut prose = String::new();
    for line in text.lines() {
        match fields::split_label(line) {
            Some((label, value)) if is_metadata(label) && !value.is_empty() => {
                if !is_harmless_metadata(label, value) {
                    return false;
                }
            }
            Some((_, ""))
                if prose.is_empty() && topic::topic_of_lead(line).is_some_and(is_minor_topic) => {}
            Some((label, "")) if approval::is_label(label) => return false,
            Some((label, value)) if !value.is_empty() && harmless::is_known(label) => {
                prose.push_str(value);
                prose.push('\n');
            }
            _ => {
                prose.push_str(line);
                prose.push('\n');
            }
        }
    }
    let prose = prose.trim();
    let announces = prose.ends_with([':', '：']) && harmless::is_known(prose);
    prose.is_empty()
        || announces
        || (topic::is_nothing(prose)
            && !cues::objects(prose)
            && stop_free(prose)
            && prose.len() < 40)
        || harmless::is_harmless(prose)
        || is_explained_at_length(prose)
}

/// Returns whether a longer explanation is acceptable. It may use unknown words, if every sentence
/// supports the change and none prevents the approval.
fn is_explained_at_length(prose: &str) -> bool {
    TokenizedSentence::parse(prose).weight() >= LONG_WORDS
        && cues::vouches(&prose.replace('\n', " "))
        && stop_free(prose)
        && !harmless::has_curt_stranger(prose)
}

const LONG_WORDS: usize = 25;

fn is_minor_topic(topic: Topic) -> bool {
    match topic {
        Topic::Degree(word) => {
            Severity::from_word(&word).is_some_and(|severity| !severity.is_must_fix())
        }
        Topic::Findings | Topic::Earlier | Topic::Aside | Topic::Open => false,
    }
}

fn stop_free(text: &str) -> bool {
    stops::find(text).is_none()
}

/// Returns whether a block of a long document is a very short paragraph that is not understood:
/// "Nope."
fn is_curt(block: &Block) -> bool {
    let text = block.text.trim();
    matches!(block.kind, BlockKind::Paragraph)
        && !text.ends_with([':', '：'])
        && fields::split_label(text).is_none()
        && !text.contains('`')
        && !topic::is_nothing(text)
        && TokenizedSentence::parse(text).weight() <= CURT_WORDS
        && !harmless::is_harmless(text)
}

const CURT_WORDS: usize = 7;

/// Returns whether prose of a long document withdraws the approval, sets a condition or reports an
/// unread part.
fn stops(block: &Block, text: &str) -> bool {
    matches!(block.kind, BlockKind::Paragraph)
        && stops::find(text).is_some_and(|(stop, _)| {
            matches!(
                stop,
                stops::StopKind::Withdrawal | stops::StopKind::Condition | stops::StopKind::Unread
            )
        })
}

/// Returns whether a metadata value is harmless: a name, a date or a hash. A value that describes
/// the work must be harmless prose.
fn is_harmless_metadata(label: &str, value: &str) -> bool {
    const NOBODY: [&str; 12] = [
        "builder",
        "author",
        "self",
        "nobody",
        "none",
        "bot",
        "placeholder",
        "template",
        "tbd",
        "unknown",
        "old",
        "previous",
    ];
    if cues::objects(value) || !stop_free(value) {
        return false;
    }
    if matches!(
        label.to_lowercase().as_str(),
        "tests" | "scope" | "summary" | "files"
    ) {
        return harmless::is_harmless(value) || harmless::is_known(value);
    }
    let words = TokenizedSentence::parse(value).words;
    words.len() <= 12 && !words.iter().any(|word| NOBODY.contains(&word.as_str()))
}

/// Returns whether every cell is known, or its row is a minor finding.
fn is_harmless_table(rows: &[Vec<String>]) -> bool {
    rows.iter().all(|row| {
        let rated = row
            .iter()
            .filter_map(|cell| Severity::from_word(cell.trim_matches(['*', '`', ' '])))
            .any(|severity| !severity.is_must_fix());
        rated
            || row.iter().all(|cell| {
                cell.trim().is_empty()
                    || harmless::is_known(cell)
                    || harmless::is_harmless(cell)
                    || topic::is_nothing(cell)
                    || (approval::is_label(cell)
                        || approval::match_labelled(cell) == Some(approval::ApprovalMatch::Whole))
                    || candidates::answer_to_question(cell).is_some()
                    || approval::match_yes(cell)
                        .is_some_and(|answer| answer == approval::ApprovalMatch::Whole)
            })
    })
}

/// Returns whether a line announces code that is not the answer: `The format is:`.
fn is_example(block: &Block) -> bool {
    const OWN: [&str; 8] = [
        "my ", "here is", "here's", "review", "verdict", "result", "final", "summary",
    ];
    let line = block.text.lines().last().unwrap_or_default();
    let announces = line
        .trim_end_matches(['*', '_', ' '])
        .ends_with([':', '：']);
    let lower = line.to_lowercase();
    announces
        && (ELSEWHERE.is_in(&TokenizedSentence::parse(line))
            || !OWN.iter().any(|word| lower.contains(word)))
}

/// Returns whether a label is metadata of a report.
pub(super) fn is_metadata(label: &str) -> bool {
    matches!(
        label.to_lowercase().as_str(),
        "reviewer"
            | "date"
            | "commit"
            | "branch"
            | "ticket"
            | "task"
            | "pr"
            | "files"
            | "scope"
            | "model"
            | "tests"
            | "version"
            | "summary"
            | "reviewed commit"
            | "range"
    )
}

/// Returns whether an item or paragraph has the severity of a must-fix finding.
fn is_grave(block: &Block) -> bool {
    if !matches!(block.kind, BlockKind::Item(_) | BlockKind::Paragraph) {
        return false;
    }
    let (_, text) = label::split_ordinal(&block.text);
    label::leading_label(text).is_some_and(|label| {
        label.plain == label::DegreeStrength::Strong
            && Severity::from_word(&label.raw).is_some_and(Severity::is_must_fix)
            && label.rest.chars().filter(|c| c.is_alphabetic()).count() > 4
            && !topic::is_nothing(label.rest)
            && !topic::is_settled(label.rest)
            && !matches!(block.kind, BlockKind::Item(Marker::Box { ticked: true }))
    })
}

fn is_minor(text: &str) -> bool {
    label::leading_label(text)
        .and_then(|label| Severity::from_word(&label.raw))
        .is_some_and(|severity| !severity.is_must_fix())
}

fn text_of(block: &Block) -> String {
    match &block.kind {
        BlockKind::Table(rows) => rows
            .iter()
            .map(|row| row.join(". "))
            .collect::<Vec<_>>()
            .join(". "),
        BlockKind::Code | BlockKind::Rule | BlockKind::Close(_) => String::new(),
        BlockKind::Heading(_) | BlockKind::Item(_) | BlockKind::Paragraph => block.text.clone(),
    }
}

/// Returns whether the last paragraph stops in the middle of a sentence, so the text was truncated.
fn ends_in_mid_sentence(blocks: &[Block], end: usize) -> bool {
    let Some((index, last)) = blocks
        .iter()
        .enumerate()
        .rfind(|(_, block)| !matches!(block.kind, BlockKind::Rule | BlockKind::Close(_)))
    else {
        return false;
    };
    let line = last.text.lines().last().unwrap_or_default();
    matches!(last.kind, BlockKind::Paragraph)
        && index != end
        && fields::split_label(line).is_none()
        && line
            .trim_end()
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, ',' | '-' | '–' | '('))
}
