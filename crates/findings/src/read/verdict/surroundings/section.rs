//! The section of a document that a block stands in, and the doubts that its blocks raise.

use std::sync::LazyLock;

use crate::read::blocks::{Block, BlockKind, Marker};
use crate::read::degree;
use crate::read::topic::{self, Topic};
use crate::read::verdict::candidates::{NOT_OWN, ROUND, is_elsewhere};
use crate::read::verdict::phrases::{Phrases, TokenizedSentence};
use crate::read::verdict::{cues, signs, words};
use crate::severity::Severity;

use super::{
    is_about_proof, is_brief, is_brief_support, is_curt, is_grave, is_minor, is_notes_heading,
    is_open_box, is_stated_fact, is_understood, refuses_in_code, stops, text_of,
};

const RESERVED: &str = "the text around the approval contradicts it or sets a condition";
const SIGN: &str = "the text has a sign that is not known to be harmless";
const REFUSAL_IN_CODE: &str = "a code block refuses, or holds sentences that are not understood";
const UNFINISHED: &str = "the text forbids the approval or says that the review is not finished";

/// Phrases that call a finding of an earlier round still open.
static STILL_OPEN: LazyLock<Phrases> = LazyLock::new(|| {
    Phrases::from_lists(&["
not fixed, not resolved, not addressed, not been fixed, not been resolved, not been addressed, isn't fixed, unresolved, unfixed, still open, still broken, still present, still fails, still there, remains open, remains broken, remains unfixed, reopened, regressed, nicht behoben, non corrigé*, no corregid*, não corrigid*, не исправлен*, 未修复, 未解决, 未修正"])
});

/// Phrases that send a change back, whatever severity the finding has.
static SENT_BACK: LazyLock<Phrases> = LazyLock::new(|| {
    Phrases::from_lists(&["
has to go back, must go back, goes back to, send it back, send this back, breaks every, breaks all, breaks existing, not for production, not in production, cannot go out, can't go out, must not go out"])
});

/// The section that a block stands in, by the heading above it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "a heading can have several of these properties at once"
)]
pub(super) struct SectionState {
    /// Index of the last block of the approval.
    end: usize,
    /// Whether the whole text is so short that every block has to be understood.
    short: bool,
    harmless_heading: bool,
    notes: bool,
    wants_some: bool,
    earlier: bool,
    same_section: bool,
}

impl SectionState {
    pub(super) fn new(end: usize, short: bool) -> Self {
        Self {
            end,
            short,
            harmless_heading: false,
            notes: false,
            wants_some: false,
            earlier: false,
            same_section: true,
        }
    }

    /// Enters the section of a heading, the first block of `rest`, and returns the reason to doubt
    /// that the heading itself gives.
    pub(super) fn enter(
        &mut self,
        rest: &[Block],
        index: usize,
        level: u32,
    ) -> Option<&'static str> {
        let text = &rest[0].text;
        let word = degree::degree_heading(text);
        self.notes = is_notes_heading(text);
        self.wants_some = is_about_proof(text);
        self.harmless_heading = !self.notes
            && word
                .and_then(|word| Severity::from_word(&word))
                .is_some_and(|severity| !severity.is_must_fix());
        self.same_section &= index < self.end;
        self.earlier = topic::topic(text) == Topic::Earlier;
        let filled = rest.get(1).is_some_and(|next| {
            !matches!(
                next.kind,
                BlockKind::Heading(_) | BlockKind::Rule | BlockKind::Close(_)
            ) && !topic::is_nothing(&next.text)
        });
        if filled && !self.earlier && cues::demands(text) {
            return Some("the text lists changes that are required");
        }
        let empty = rest
            .get(1)
            .is_none_or(|next| matches!(next.kind, BlockKind::Heading(_)));
        let elsewhere = self.short && empty && index < self.end && is_elsewhere(text, level);
        let later_round = index > self.end
            && !self.earlier
            && level > 1
            && ROUND.is_in(&TokenizedSentence::parse(text));
        (elsewhere || later_round).then_some(NOT_OWN)
    }

    /// Returns the reason to doubt that the first block of `rest` gives.
    pub(super) fn doubt_of_block(&self, rest: &[Block], index: usize) -> Option<&'static str> {
        let block = &rest[0];
        if block.kind == BlockKind::Code {
            return refuses_in_code(&block.text).then_some(REFUSAL_IN_CODE);
        }
        let offered = matches!(block.kind, BlockKind::Item(Marker::Box { ticked: false }))
            && words::whole_line_claim(&block.text).is_some();
        if offered {
            return None;
        }
        let text = text_of(block);
        let minor = self.harmless_heading || is_minor(&block.text);
        // A warning sign may head a list, because the items below it are read as findings.
        let heads_list = matches!(block.kind, BlockKind::Heading(_) | BlockKind::Paragraph)
            && rest
                .get(1)
                .is_some_and(|next| matches!(next.kind, BlockKind::Item(_)));
        let doubtful = if minor || heads_list {
            signs::has_grave(&text)
        } else {
            signs::has_doubtful(&text)
        };
        if doubtful {
            return Some(SIGN);
        }
        if cues::forbids(&text) {
            return Some(UNFINISHED);
        }
        // A heading that announces a list is judged by the text under it.
        let announces =
            matches!(block.kind, BlockKind::Heading(_)) && topic::topic(&block.text) != Topic::Open;
        if !self.earlier && is_grave(block) {
            return Some("the text has a must-fix finding");
        }
        if !announces && !self.earlier && cues::accuses(&text) {
            return Some("the text names a severe defect");
        }
        if self.wants_some
            && !matches!(block.kind, BlockKind::Heading(_))
            && topic::is_nothing(&block.text)
        {
            return Some(RESERVED);
        }
        let is_json = self.end == usize::MAX && block.text.trim_start().starts_with(['{', '[']);
        if is_json && matches!(block.kind, BlockKind::Paragraph) {
            return None;
        }
        let unread_quote = block.quoted && index < self.end && !self.short;
        (!unread_quote && self.is_reserved(block, &text, index, minor, announces))
            .then_some(RESERVED)
    }

    /// Returns whether a block takes the approval back or sets a condition. How much of it has to
    /// be understood depends on its length and on how near it stands to the verdict.
    fn is_reserved(
        &self,
        block: &Block,
        text: &str,
        index: usize,
        minor: bool,
        announces: bool,
    ) -> bool {
        // Text right behind the verdict explains it, so it has to be understood at any length.
        let near = index > self.end
            && self.same_section
            && matches!(block.kind, BlockKind::Paragraph | BlockKind::Item(_));
        if self.earlier {
            STILL_OPEN.is_in(&TokenizedSentence::parse(text))
        } else if minor {
            stops::is_disaster(text) || SENT_BACK.is_in(&TokenizedSentence::parse(text))
        } else if self.short {
            !is_understood(block)
        } else if index > self.end && is_open_box(block) {
            true
        } else if index > self.end && self.same_section && is_stated_fact(block) {
            !is_understood(block)
        } else if (self.notes || near) && !announces && is_brief(text) {
            !is_understood(block) && !is_brief_support(text)
        } else if self.notes || near {
            // A longer remark explains the verdict, in words that no list has. Only what is known to
            // stop an approval counts there.
            cues::turns(text) || is_curt(block) || stops(block, text)
        } else if announces {
            false
        } else {
            is_curt(block) || stops(block, text)
        }
    }
}
