//! Reads a document of prose: its verdict, its findings and reasons to doubt an approval.

use crate::clean::{FINDINGS_MAX, clean, one_line, shorten};
use crate::finding::{Disposition, ReviewFormat};

use super::draft::FindingDraft;
use super::verdict::{self, StatedVerdict, Strength};
use super::{blocks, doubts, enumeration, markdown, markup, sections};

#[derive(Debug, Default)]
pub(super) struct Prose {
    pub cleaned: String,
    pub verdict: Option<StatedVerdict>,
    /// Reason why an approval in the prose does not count.
    pub doubt: Option<&'static str>,
    /// Reason why an approval in JSON inside the prose does not count.
    pub around: Option<&'static str>,
    pub drafts: Vec<FindingDraft>,
    pub earlier: Vec<Disposition>,
    pub too_long: bool,
    headed: bool,
}

impl Prose {
    pub fn read(text: &str) -> Self {
        let cleaned = clean(text);
        if is_prompt(&cleaned) {
            return Self {
                cleaned,
                around: Some("the text repeats a prompt"),
                ..Self::default()
            };
        }
        let lines = markup::lines(&cleaned);
        let blocks = blocks::blocks(&lines);
        let stated = verdict::find_verdict(&blocks);
        let hidden = doubts::doubt_in_text(text, &lines);
        let around = if cleaned.contains(['{', '[']) {
            hidden.or_else(|| verdict::doubt_around(&blocks))
        } else {
            hidden
        };
        let too_long = blocks.len() > sections::BLOCKS_MAX;
        let root = sections::sections(blocks);
        let markdown_findings = markdown::findings(&root);
        let earlier = markdown_findings
            .earlier
            .into_iter()
            .take(1000)
            .map(|(subject, fixed)| Disposition {
                subject: shorten(&one_line(&subject), 240),
                fixed,
                evidence: None,
            })
            .collect();
        Self {
            cleaned,
            verdict: stated.verdict,
            doubt: stated.doubt.or(hidden),
            around,
            too_long: too_long || markdown_findings.drafts.len() >= FINDINGS_MAX,
            drafts: markdown_findings.drafts,
            earlier,
            headed: !root.children.is_empty(),
        }
    }

    /// Reads the findings of a text that refuses: what it lists is to be fixed, also without a
    /// severity.
    pub fn listed_findings(text: &str) -> Vec<FindingDraft> {
        let cleaned = clean(text);
        if is_prompt(&cleaned) {
            return Vec::new();
        }
        let split = enumeration::split_lines(&cleaned);
        let blocks = blocks::blocks(&markup::lines(&split));
        markdown::listed_findings(&sections::sections(blocks)).drafts
    }

    /// Adds a reason why an approval does not count.
    pub fn add_doubt(&mut self, why: Option<&'static str>) {
        self.doubt = self.doubt.or(why);
        self.around = self.around.or(why);
    }

    /// Returns whether this is a review in prose and not the output of a tool: it has headings,
    /// fences or a labelled verdict.
    pub fn is_document(&self) -> bool {
        let labelled = self
            .verdict
            .as_ref()
            .is_some_and(|verdict| verdict.strength == Strength::Label);
        let titled = self.cleaned.lines().any(|line| {
            let bare = line.trim_start_matches('#');
            bare.len() < line.len() && bare.starts_with(' ') && bare.len() > 2
        });
        let fenced = self
            .cleaned
            .lines()
            .any(|line| line.trim_start().starts_with("```"));
        labelled || titled || fenced
    }

    pub fn sureness(&self) -> u8 {
        match self.verdict.as_ref().map(|verdict| verdict.strength) {
            Some(Strength::Label) => 90,
            Some(Strength::Mark) => 80,
            Some(Strength::Sentence) => 65,
            None if self.drafts.is_empty() => 0,
            None => 70,
        }
    }

    pub fn format(&self, sureness: u8) -> ReviewFormat {
        if sureness == 0 {
            ReviewFormat::Nothing
        } else if !self.headed && self.drafts.is_empty() {
            ReviewFormat::Text
        } else {
            ReviewFormat::Markdown
        }
    }
}

/// Returns whether the text is a prompt: a reviewer that only repeats its prompt has not reviewed.
fn is_prompt(text: &str) -> bool {
    let head: String = text
        .trim_start()
        .trim_start_matches(['#', '*', '>', ' '])
        .chars()
        .take(12)
        .collect::<String>()
        .to_lowercase();
    head.starts_with("you are a ")
        || head.starts_with("you are an ")
        || head.starts_with("you are the ")
}
