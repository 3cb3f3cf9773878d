//! What in the rest of a document speaks against an approval in it.

use std::sync::LazyLock;

use crate::severity::Severity;

use super::super::blocks::{Block, Kind, Marker};
use super::super::degree;
use super::super::fields;
use super::super::label;
use super::super::topic::{self, Topic};
use super::candidates::{Approval, ELSEWHERE, NOT_OWN, ROUND, is_elsewhere};
use super::phrases::{Phrases, Sentence};
use super::{SHORT_WORDS, cues};

const RESERVED: &str = "the text around the approval takes it back or sets a condition";
const UNFINISHED: &str = "the text forbids the approval or says that the review is not finished";

/// What says that a finding of an earlier round is still there.
static STILL_OPEN: LazyLock<Phrases> = LazyLock::new(|| {
    Phrases::of(&["
not fixed, not resolved, not addressed, not been fixed, not been resolved, not been addressed, isn't fixed, unresolved, unfixed, still open, still broken, still present, still fails, still there, remains open, remains broken, remains unfixed, reopened, regressed, nicht behoben, non corrigé*, no corregid*, não corrigid*, не исправлен*, 未修复, 未解决, 未修正"])
});

/// What in the rest of the document speaks against the approval.
pub(super) fn doubt(blocks: &[Block], approval: &Approval) -> Option<&'static str> {
    let others = |(index, _): &(usize, &Block)| *index != approval.index && *index != approval.end;
    doubt_of(blocks, approval.end, others, approval.alone)
}

/// The same for an approval that does not stand in the prose.
pub(super) fn doubt_in_prose(blocks: &[Block]) -> Option<&'static str> {
    let announced = blocks
        .windows(2)
        .any(|pair| pair[1].kind == Kind::Code && is_example(&pair[0]));
    let set_apart = blocks.iter().any(|block| {
        let elsewhere =
            matches!(block.kind, Kind::Heading(level) if is_elsewhere(&block.text, level));
        block.quoted || block.apart || elsewhere
    });
    if announced || set_apart {
        return Some(NOT_OWN);
    }
    doubt_of(blocks, usize::MAX, |_| true, false)
}

fn doubt_of(
    blocks: &[Block],
    end: usize,
    others: impl Fn(&(usize, &Block)) -> bool,
    alone: bool,
) -> Option<&'static str> {
    let words: usize = blocks
        .iter()
        .map(|block| Sentence::of(&text_of(block)).weight())
        .sum();
    let short = words <= SHORT_WORDS;
    let mut harmless_heading = false;
    let mut earlier = false;
    let mut same_section = true;
    for (index, block) in blocks.iter().enumerate().filter(others) {
        if let Kind::Heading(level) = block.kind {
            let minor = degree::degree_heading(&block.text).and_then(|word| Severity::of(&word));
            harmless_heading = minor.is_some_and(|severity| !severity.is_must_fix());
            same_section &= index < end;
            earlier = topic::topic(&block.text) == Topic::Earlier;
            let filled = blocks.get(index + 1).is_some_and(|next| {
                !matches!(next.kind, Kind::Heading(_) | Kind::Rule | Kind::Close(_))
                    && !topic::is_nothing(&next.text)
            });
            if filled && !earlier && cues::demands(&block.text) {
                return Some("the text lists changes that are required");
            }
            if index > end && !earlier && level > 1 && ROUND.is_in(&Sentence::of(&block.text)) {
                return Some(NOT_OWN);
            }
        }
        let offered = matches!(block.kind, Kind::Item(Marker::Box { ticked: false }))
            && super::words::alone(&block.text).is_some();
        if block.kind == Kind::Code || offered {
            continue;
        }
        let text = text_of(block);
        if cues::forbids(&text) {
            return Some(UNFINISHED);
        }
        // What a heading announces is judged by what stands under it.
        let announces =
            matches!(block.kind, Kind::Heading(_)) && topic::topic(&block.text) != Topic::Open;
        if !earlier && is_grave(block) {
            return Some("a must-fix finding stands beside the approval");
        }
        let accused = !announces && !earlier && cues::accuses(&text);
        if accused {
            return Some("the text names a grave defect");
        }
        let minor = harmless_heading || announces || is_minor(&block.text);
        let near = index > end && same_section && matches!(block.kind, Kind::Paragraph);
        let reserved = if earlier {
            STILL_OPEN.is_in(&Sentence::of(&text))
        } else if short && !minor {
            is_reserved(block, &text, alone)
        } else {
            near && cues::turns(&text)
        };
        if reserved && !(block.quoted && index < end && !short) {
            return Some(RESERVED);
        }
    }
    ends_in_mid_sentence(blocks, end).then_some("the text ends in the middle of a sentence")
}

/// A line that announces code which is not the answer: `The format is:`.
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
        && (ELSEWHERE.is_in(&Sentence::of(line)) || !OWN.iter().any(|word| lower.contains(word)))
}

/// In a short document every block is judged; beside an approval without a label it also has to
/// speak for the change.
fn is_reserved(block: &Block, text: &str, alone: bool) -> bool {
    let prose = matches!(block.kind, Kind::Paragraph);
    let metadata = block.text.lines().all(|line| {
        fields::split_label(line)
            .is_some_and(|(label, value)| !value.is_empty() && is_metadata(label))
    });
    if alone && prose && !metadata {
        return !cues::vouches(&text.replace('\n', " "));
    }
    cues::objects(text)
}

/// Labels of what a report says about itself.
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

/// An item or paragraph that carries the degree of a must-fix finding, wherever it stands.
fn is_grave(block: &Block) -> bool {
    if !matches!(block.kind, Kind::Item(_) | Kind::Paragraph) {
        return false;
    }
    let (_, text) = label::ordinal(&block.text);
    label::leading(text).is_some_and(|label| {
        label.plain == label::Plain::Strong
            && Severity::of(&label.raw).is_some_and(Severity::is_must_fix)
            && label.rest.chars().filter(|c| c.is_alphabetic()).count() > 4
            && !topic::is_nothing(label.rest)
            && !topic::is_settled(label.rest)
            && !matches!(block.kind, Kind::Item(Marker::Box { ticked: true }))
    })
}

fn is_minor(text: &str) -> bool {
    label::leading(text)
        .and_then(|label| Severity::of(&label.raw))
        .is_some_and(|severity| !severity.is_must_fix())
}

fn text_of(block: &Block) -> String {
    match &block.kind {
        Kind::Table(rows) => rows
            .iter()
            .map(|row| row.join(". "))
            .collect::<Vec<_>>()
            .join(". "),
        Kind::Code | Kind::Rule | Kind::Close(_) => String::new(),
        Kind::Heading(_) | Kind::Item(_) | Kind::Paragraph => block.text.clone(),
    }
}

/// A last paragraph that stops without an end was cut.
fn ends_in_mid_sentence(blocks: &[Block], end: usize) -> bool {
    let Some((index, last)) = blocks
        .iter()
        .enumerate()
        .rfind(|(_, block)| !matches!(block.kind, Kind::Rule | Kind::Close(_)))
    else {
        return false;
    };
    let line = last.text.lines().last().unwrap_or_default();
    matches!(last.kind, Kind::Paragraph)
        && index != end
        && fields::split_label(line).is_none()
        && line
            .trim_end()
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, ',' | '-' | '–' | '('))
}
