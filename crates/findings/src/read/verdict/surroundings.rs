//! Searches the rest of a document for reasons to doubt an approval in it.

mod section;

use crate::finding::ReviewClaim;
use crate::severity::Severity;

use super::super::blocks::{Block, BlockKind, Marker};
use super::super::fields;
use super::super::label;
use super::super::topic::{self, Topic};
use super::candidates::{ApprovalCandidate, ELSEWHERE, NOT_OWN, is_elsewhere};
use super::phrases::TokenizedSentence;
use super::{SHORT_WORDS, approval, cues, harmless, rows, signs, stops};
use section::SectionState;

const ROWS: &str = "another row of the table with the approval is not understood or contradicts it";

/// Returns the reason to doubt an approval in the prose, from the rest of the document.
pub(super) fn doubt(blocks: &[Block], approval: &ApprovalCandidate) -> Option<&'static str> {
    if let BlockKind::Table(rows) = &blocks[approval.index].kind
        && !rows::are_harmless(rows)
    {
        return Some(ROWS);
    }
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
    let mut section = SectionState::new(end, words <= SHORT_WORDS);
    for (index, block) in blocks.iter().enumerate().filter(others) {
        let rest = &blocks[index..];
        if let BlockKind::Heading(level) = block.kind
            && let Some(reason) = section.enter(rest, index, level)
        {
            return Some(reason);
        }
        if let Some(reason) = section.doubt_of_block(rest, index) {
            return Some(reason);
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
        BlockKind::Table(rows) => rows::are_harmless(rows),
        BlockKind::Item(Marker::Box { ticked: true }) => {
            // A ticked box may name a question of a form, in known words, or state something.
            (is_understood_text(text) || harmless::is_known(text))
                && stop_free(text)
                && !cues::accuses(text)
                && !text.contains("~~")
                && !signs::has_doubtful(text)
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
        && !signs::has_doubtful(prose)
        && !signs::has_vote(prose)
        && !harmless::has_curt_stranger(prose)
}

const LONG_WORDS: usize = 25;

/// Returns whether a block is a check box that is not ticked, in any spelling (`[ ]`, `[-]`, `[?]`).
fn is_open_box(block: &Block) -> bool {
    let unusual = |text: &str| {
        text.strip_prefix('[')
            .and_then(|rest| rest.get(..2))
            .is_some_and(|mark| mark.ends_with(']') && !mark.starts_with(['x', 'X']))
    };
    match &block.kind {
        BlockKind::Item(Marker::Box { ticked }) => !ticked,
        BlockKind::Item(_) => unusual(&block.text),
        BlockKind::Paragraph
        | BlockKind::Heading(_)
        | BlockKind::Table(_)
        | BlockKind::Code
        | BlockKind::Rule
        | BlockKind::Close(_) => false,
    }
}

/// Returns whether a block states facts as a table, or one fact as `label: value`, such as
/// `Blockers: 2`.
fn is_stated_fact(block: &Block) -> bool {
    let is_label = |text: &str| {
        fields::split_label(text).is_some_and(|(_, value)| {
            !value.is_empty() && TokenizedSentence::parse(value).weight() <= 4
        })
    };
    match &block.kind {
        BlockKind::Table(_) => true,
        BlockKind::Paragraph => !block.text.contains('\n') && is_label(&block.text),
        BlockKind::Item(_)
        | BlockKind::Heading(_)
        | BlockKind::Code
        | BlockKind::Rule
        | BlockKind::Close(_) => false,
    }
}

/// Returns whether a brief text of a long document supports the change: a line that announces a
/// list, an empty section (`None. …`), or words that are mostly known.
fn is_brief_support(text: &str) -> bool {
    let first = text.split(['.', '。']).next().unwrap_or_default();
    let announces = text.trim_end().ends_with([':', '：']);
    stop_free(text)
        && !signs::has_doubtful(text)
        && (announces || topic::is_nothing(first) || harmless::is_supporting(text))
}

/// Returns whether a text is brief, as a defect is that is named in passing.
fn is_brief(text: &str) -> bool {
    const BRIEF_WORDS: usize = 14;
    TokenizedSentence::parse(text).weight() <= BRIEF_WORDS
}

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
pub(super) fn is_harmless_metadata(label: &str, value: &str) -> bool {
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
    if cues::objects(value) || !stop_free(value) || signs::has_doubtful(value) {
        return false;
    }
    if matches!(
        label.to_lowercase().as_str(),
        "tests" | "scope" | "summary" | "files"
    ) {
        let known = harmless::is_harmless(value) || harmless::is_known(value);
        return known && !signs::has_vote(value);
    }
    let words = TokenizedSentence::parse(value).words;
    words.len() <= 12 && !words.iter().any(|word| NOBODY.contains(&word.as_str()))
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
        .filter(|label| !is_note(&label.raw) && label.raw.contains(char::is_alphanumeric))
        .and_then(|label| Severity::from_word(&label.raw))
        .is_some_and(|severity| !severity.is_must_fix())
}

/// Returns whether a word announces a remark. It is also the name of a low severity, but it rates
/// nothing: any text can be called a note.
pub(super) fn is_note(word: &str) -> bool {
    const STEMS: [&str; 30] = [
        "note",
        "notiz",
        "info",
        "observ",
        "osserv",
        "hinweis",
        "remark",
        "remarque",
        "comment",
        "kommentar",
        "coment",
        "fyi",
        "hint",
        "advis",
        "notice",
        "caveat",
        "appendix",
        "anhang",
        "annex",
        "anexo",
        "allegat",
        "anmerk",
        "bemerk",
        "примеч",
        "заметк",
        "прилож",
        "备注",
        "附录",
        "備考",
        "비고",
    ];
    let lower = word.to_lowercase();
    let bare = lower.trim_start_matches(|c: char| !c.is_alphabetic());
    STEMS.iter().any(|stem| bare.starts_with(stem))
}

/// Returns whether a heading announces something that must not be missing: "Confidence: none".
fn is_about_proof(heading: &str) -> bool {
    let words = TokenizedSentence::parse(heading).words;
    words.len() <= 3
        && words.iter().any(|word| {
            matches!(
                word.as_str(),
                "confidence" | "evidence" | "verification" | "validation" | "proof"
            )
        })
}

/// Returns whether a heading announces remarks of any kind.
fn is_notes_heading(heading: &str) -> bool {
    const WORDS: [&str; 12] = [
        "notes",
        "note",
        "caveats",
        "caveat",
        "comments",
        "remarks",
        "appendix",
        "fyi",
        "observations",
        "addendum",
        "miscellaneous",
        "postscript",
    ];
    let words = TokenizedSentence::parse(heading).words;
    is_note(heading) || words.len() <= 4 && words.iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Returns whether code holds a refusal, or sentences of prose that are not harmless.
fn refuses_in_code(code: &str) -> bool {
    const LINES_MAX: usize = 5_000;
    // The unread part may refuse.
    if code.lines().nth(LINES_MAX).is_some() {
        return true;
    }
    code.lines().any(|line| {
        let line = line.trim();
        super::verdict_in_line(line, None)
            .is_some_and(|verdict| verdict.claim == ReviewClaim::ChangesRequested)
            || (is_prose(line) && !harmless::is_harmless(line))
    })
}

/// Returns whether a line of code is a plain sentence: some words, a full stop, no sign of code.
fn is_prose(line: &str) -> bool {
    line.ends_with(['.', '!', '。'])
        && !line.contains([
            '(', ')', '{', '}', ';', '=', '<', '>', '[', ']', '_', '/', '#', '$', '"',
        ])
        && line.split_whitespace().count() >= 4
        && line.starts_with(char::is_uppercase)
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
