//! Reads the findings of a Markdown document.
//!
//! There is no list of layouts. A document is a tree of sections; the topic of a heading decides
//! whether findings are expected under it. If so, each child heading, list item, bold line or table
//! row is one; elsewhere only text with its own severity is.

use super::blocks::{Block, BlockKind, Marker};
use super::compose;
use super::draft::FindingDraft;
use super::finding_unit::{self, FindingUnit};
use super::label::{self, DegreeStrength};
use super::locations;
use super::sections::Section;
use super::table;
use super::topic::{self, Topic};
use crate::clean::FINDINGS_MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct SectionContext {
    pub severity: Option<String>,
    pub file: Option<String>,
    /// Findings are expected here.
    pub expected: bool,
    /// Under a heading that calls its findings settled.
    pub settled: bool,
    /// Lists of findings count even under a summary.
    pub opens_asides: bool,
    pub unrated: UnratedItems,
}

/// Meaning of list items without a severity, outside of lists of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UnratedItems {
    #[default]
    Remarks,
    /// The text refuses, so each item is something to fix.
    Findings,
}

impl SectionContext {
    fn takes_unrated(&self) -> bool {
        self.unrated == UnratedItems::Findings
    }
}

/// Findings of a document, and its statements about earlier rounds.
#[derive(Debug, Default)]
pub(super) struct MarkdownFindings {
    pub drafts: Vec<FindingDraft>,
    pub earlier: Vec<(String, bool)>,
}

pub(super) fn findings(root: &Section) -> MarkdownFindings {
    findings_in(root, &SectionContext::default())
}

/// Reads the findings of a text that refuses.
pub(super) fn listed_findings(root: &Section) -> MarkdownFindings {
    let context = SectionContext {
        unrated: UnratedItems::Findings,
        ..SectionContext::default()
    };
    findings_in(root, &context)
}

fn findings_in(root: &Section, context: &SectionContext) -> MarkdownFindings {
    let mut result = MarkdownFindings::default();
    walk(root, context, &mut result);
    if result.drafts.is_empty() {
        // A document may put all of its findings under `Summary` or `Result`.
        let open = SectionContext {
            opens_asides: true,
            ..context.clone()
        };
        let mut second_pass = MarkdownFindings::default();
        walk(root, &open, &mut second_pass);
        result.drafts = second_pass.drafts;
    }
    result
}

fn walk(section: &Section, context: &SectionContext, result: &mut MarkdownFindings) {
    if result.drafts.len() >= FINDINGS_MAX {
        return;
    }
    own_blocks(section, context, result);
    // An empty severity heading rates the following headings of its level: `### High`, `### 1. …`.
    let mut carried: Option<SectionContext> = None;
    for child in &section.children {
        let topic = topic_of(child);
        let announces = matches!(topic, Topic::Degree(_) | Topic::Findings);
        if announces || matches!(topic, Topic::Aside | Topic::Earlier) {
            carried = None;
        }
        if announces && is_empty(child) && child.level > 1 {
            let degree = match topic {
                Topic::Degree(degree) => Some(degree),
                _ => None,
            };
            carried = Some(inner(child, context, degree, true));
        } else {
            enter(child, carried.as_ref().unwrap_or(context), result);
        }
    }
}

fn is_empty(section: &Section) -> bool {
    section.blocks.is_empty() && section.children.is_empty()
}

fn topic_of(section: &Section) -> Topic {
    if section.is_lead() {
        topic::topic_of_lead(&section.heading).unwrap_or(Topic::Open)
    } else {
        topic::topic(&section.heading)
    }
}

fn enter(child: &Section, context: &SectionContext, result: &mut MarkdownFindings) {
    if result.drafts.len() >= FINDINGS_MAX {
        return;
    }
    let topic = topic_of(child);
    let numbered = label::split_ordinal(&child.heading).0.is_some();
    let is_title = child.level == 1
        && !(child.children.is_empty() && matches!(topic, Topic::Degree(_) | Topic::Findings));
    match topic {
        _ if is_title => walk(child, context, result),
        Topic::Earlier if !(context.expected && numbered) => earlier(child, result),
        Topic::Aside if !(context.expected && numbered) => aside(child, context, result),
        Topic::Degree(degree) if !(context.expected && numbered && !is_group(child, context)) => {
            walk(child, &inner(child, context, Some(degree), true), result);
        }
        Topic::Findings if !numbered && !is_itself_a_finding(child) => {
            walk(child, &inner(child, context, None, true), result);
        }
        Topic::Degree(_) | Topic::Findings | Topic::Aside | Topic::Open | Topic::Earlier => {
            open(child, context, result);
        }
    }
}

/// Walks a summary: it has no findings of its own, but perhaps lists of them.
fn aside(section: &Section, context: &SectionContext, result: &mut MarkdownFindings) {
    if !context.opens_asides {
        return;
    }
    for child in &section.children {
        if matches!(
            topic::topic(&child.heading),
            Topic::Degree(_) | Topic::Findings
        ) {
            enter(child, context, result);
        }
    }
}

/// Returns whether a heading that sounds like a list names a defect itself: `Issue links are lost`.
fn is_itself_a_finding(section: &Section) -> bool {
    let fields = FindingUnit::from_outer_blocks(section).fields;
    section.children.is_empty()
        && !section.is_lead()
        && fields.file.is_some()
        && (fields.fix.is_some() || !fields.problem.is_empty())
}

/// Walks a heading without a known topic: a finding, a group of findings, or plain text.
fn open(child: &Section, context: &SectionContext, result: &mut MarkdownFindings) {
    let label = compose::label_of(&child.heading);
    let group = is_group(child, context);
    if group && label.is_some() {
        let severity = label.map(|(raw, _)| raw);
        return walk(child, &inner(child, context, severity, true), result);
    }
    let numbered = label::split_ordinal(&child.heading).0.is_some();
    let is_unit = context.expected
        || (context.takes_unrated() && numbered)
        || stands_alone(child, label.as_ref().map(|(_, plain)| *plain));
    if group || !is_unit {
        return walk(
            child,
            &inner(child, context, None, context.expected && group),
            result,
        );
    }
    let one_word = child.heading.split_whitespace().count() < 2
        && child.heading.is_ascii()
        && !is_file_alone(child);
    let unit = FindingUnit::from_section(child);
    if topic::is_nothing(&child.heading)
        || (one_word && !child.is_headed())
        || unit.is_rated_as_nothing()
    {
        return;
    }
    result.drafts.extend(compose::draft(&unit, context));
}

fn inner(
    child: &Section,
    context: &SectionContext,
    severity: Option<String>,
    expected: bool,
) -> SectionContext {
    SectionContext {
        severity: severity.or_else(|| context.severity.clone()),
        file: file_of(&child.heading).or_else(|| context.file.clone()),
        expected,
        settled: context.settled || (expected && topic::is_settled(&child.heading)),
        opens_asides: context.opens_asides,
        unrated: context.unrated,
    }
}

/// Returns the file at the start of a heading.
fn file_of(heading: &str) -> Option<String> {
    let (_, rest) = label::split_ordinal(heading);
    let first = rest.split_whitespace().next()?;
    locations::find_location(first).file
}

/// Returns whether a heading outside a list of findings is a finding: it has a severity, or parts
/// that only a finding has.
fn stands_alone(section: &Section, plain: Option<DegreeStrength>) -> bool {
    let fields = FindingUnit::from_section(section).fields;
    let located = fields
        .file
        .as_deref()
        .is_some_and(|file| locations::find_location(file).file.is_some());
    plain == Some(DegreeStrength::Strong)
        || (plain.is_some() && fields.is_telling())
        || (fields.severity.is_some() && fields.is_telling())
        || (located && (fields.fix.is_some() || fields.impact.is_some()))
        || (fields.names_problem && fields.fix.is_some())
}

/// Returns whether a heading only groups the findings under it.
fn is_group(section: &Section, context: &SectionContext) -> bool {
    let real_children = section.children.iter().filter(|child| child.is_headed());
    let has_findings = real_children.clone().any(|child| {
        !super::fields::is_label(&child.heading) && topic::topic(&child.heading) != Topic::Aside
    });
    if has_findings || section.children.iter().any(is_file_alone) {
        return true;
    }
    if FindingUnit::from_outer_blocks(section).fields.is_telling() {
        return false;
    }
    if !context.expected && section.children.iter().any(Section::is_lead) {
        return true;
    }
    let numbered = label::split_ordinal(&section.heading).0.is_some();
    let base = section
        .blocks
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::Item(_)))
        .map(|block| block.indent)
        .min();
    let items = section
        .blocks
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::Item(_)) && Some(block.indent) == base);
    let has_own = items
        .clone()
        .any(|item| stands_by_itself(item, context, numbered));
    let has_table = section.blocks.iter().any(|block| matches!(&block.kind, BlockKind::Table(rows) if table::is_findings(rows, context.expected)));
    let lists_by_file = context.expected
        && is_file_alone(section)
        && locations::find_location(&section.heading).line.is_none()
        && base.is_some();
    has_own
        || has_table
        || lists_by_file
        || (is_file_alone(section) && !section.children.is_empty())
}

/// Returns whether a heading is only the name of a file, perhaps with a count after it.
fn is_file_alone(section: &Section) -> bool {
    let words = section
        .heading
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count();
    words == 1 && locations::find_location(&section.heading).file.is_some()
}

fn stands_by_itself(item: &Block, context: &SectionContext, numbered: bool) -> bool {
    let boxed = matches!(item.kind, BlockKind::Item(Marker::Box { .. }))
        && item.text.split_whitespace().count() > 3;
    let labelled =
        compose::label_of(&item.text).is_some_and(|(_, plain)| plain == DegreeStrength::Strong);
    let bold_lead = item.text.starts_with("**")
        && !super::fields::is_label(item.text.split("**").nth(1).unwrap_or_default());
    boxed || labelled || (bold_lead && !(context.expected && numbered))
}

/// Reads the section's own lists, paragraphs and tables.
fn own_blocks(section: &Section, context: &SectionContext, result: &mut MarkdownFindings) {
    for rows in section.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Table(rows) => Some(rows),
        _ => None,
    }) {
        if table::is_earlier(rows) {
            result.earlier.extend(table::earlier(rows));
        } else if table::is_findings(rows, context.expected) {
            result.drafts.extend(table::drafts(rows, context));
        }
    }
    for unit in finding_unit::units(&section.blocks) {
        if is_finding(&unit, context) {
            result.drafts.extend(compose::draft(&unit, context));
        } else if let Some((subject, fixed)) = unit.disposition().filter(|_| !context.expected) {
            result.earlier.push((subject, fixed));
        }
    }
}

fn is_finding(unit: &FindingUnit, context: &SectionContext) -> bool {
    let one_word = unit.title.is_ascii()
        && unit.title.split_whitespace().count() < 2
        && !unit.fields.is_telling()
        && !unit.fields.names_problem
        && !(unit.fields.problem.contains(' ')
            && locations::find_location(&unit.title).file.is_some());
    if (one_word && !context.takes_unrated())
        || unit.is_rated_as_nothing()
        || topic::is_nothing(&unit.title)
        || (topic::is_praise(&unit.title) && !context.expected)
    {
        return false;
    }
    if unit.is_remark(context.expected) {
        return false;
    }
    let label = compose::label_of(&unit.title);
    if context.expected {
        return unit.is_item || label.is_some() || unit.bold_lead;
    }
    if unit.is_item && unit.fields.severity.is_some() && unit.fields.is_located() {
        return true;
    }
    if unit.is_item && context.takes_unrated() {
        return true;
    }
    let place = locations::find_location(&unit.title);
    match label {
        Some((_, DegreeStrength::Strong)) => !topic::is_praise(unit.without_label()),
        Some((_, DegreeStrength::Weak)) => place.file.is_some() && place.line.is_some(),
        None => false,
    }
}

/// Records the statements of a section about earlier rounds.
fn earlier(section: &Section, result: &mut MarkdownFindings) {
    for unit in finding_unit::units(&section.blocks) {
        if unit.is_item {
            let (_, rest) = label::split_ordinal(&unit.title);
            result
                .earlier
                .push((rest.to_owned(), topic::is_settled(&unit.title)));
        }
    }
    for block in &section.blocks {
        if let BlockKind::Table(rows) = &block.kind {
            result.earlier.extend(table::earlier(rows));
        }
    }
    for child in &section.children {
        if topic::is_settled(&child.heading) || label::split_ordinal(&child.heading).0.is_some() {
            result
                .earlier
                .push((child.heading.clone(), topic::is_settled(&child.heading)));
        }
        earlier(child, result);
    }
}
