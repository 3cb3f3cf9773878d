//! Findings in a Markdown document.
//!
//! There is no list of layouts. A document is a tree of sections; what a heading announces says
//! whether findings are expected under it. Where they are, each child heading, list item, bold
//! line or table row is one; elsewhere only what carries a severity of its own.

use super::blocks::{Block, BlockKind, Marker};
use super::compose;
use super::draft::FindingDraft;
use super::label::{self, DegreeStrength};
use super::place;
use super::sections::Section;
use super::table;
use super::topic::{self, Topic};
use super::unit::{self, FindingUnit};
use crate::clean::FINDINGS_MAX;

#[derive(Clone, Debug, Default)]
pub(super) struct SectionContext {
    pub severity: Option<String>,
    pub file: Option<String>,
    /// Findings are expected here.
    pub expected: bool,
    /// Under a heading that says these are dealt with.
    pub settled: bool,
    /// Lists of findings count even under a summary.
    pub opens_asides: bool,
}

/// What the document's findings are, and what it says of earlier rounds.
#[derive(Debug, Default)]
pub(super) struct MarkdownFindings {
    pub drafts: Vec<FindingDraft>,
    pub earlier: Vec<(String, bool)>,
}

pub(super) fn findings(root: &Section) -> MarkdownFindings {
    let mut found = MarkdownFindings::default();
    walk(root, &SectionContext::default(), &mut found);
    if found.drafts.is_empty() {
        // A document may put all of its findings under `Summary` or `Result`.
        let open = SectionContext {
            opens_asides: true,
            ..SectionContext::default()
        };
        let mut again = MarkdownFindings::default();
        walk(root, &open, &mut again);
        found.drafts = again.drafts;
    }
    found
}

fn walk(section: &Section, context: &SectionContext, found: &mut MarkdownFindings) {
    if found.drafts.len() >= FINDINGS_MAX {
        return;
    }
    own_blocks(section, context, found);
    // A degree with nothing under it rates what follows on its own level: `### High`, `### 1. …`.
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
            enter(child, carried.as_ref().unwrap_or(context), found);
        }
    }
}

fn is_empty(section: &Section) -> bool {
    section.blocks.is_empty() && section.children.is_empty()
}

fn topic_of(section: &Section) -> Topic {
    if section.is_lead() {
        topic::lead(&section.heading).unwrap_or(Topic::Open)
    } else {
        topic::topic(&section.heading)
    }
}

fn enter(child: &Section, context: &SectionContext, found: &mut MarkdownFindings) {
    if found.drafts.len() >= FINDINGS_MAX {
        return;
    }
    let topic = topic_of(child);
    let numbered = label::ordinal(&child.heading).0.is_some();
    let is_title = child.level == 1
        && !(child.children.is_empty() && matches!(topic, Topic::Degree(_) | Topic::Findings));
    match topic {
        _ if is_title => walk(child, context, found),
        Topic::Earlier if !(context.expected && numbered) => earlier(child, found),
        Topic::Aside if !(context.expected && numbered) => aside(child, context, found),
        Topic::Degree(degree) if !(context.expected && numbered && !is_group(child, context)) => {
            walk(child, &inner(child, context, Some(degree), true), found);
        }
        Topic::Findings if !numbered && !is_itself_a_finding(child) => {
            walk(child, &inner(child, context, None, true), found);
        }
        Topic::Degree(_) | Topic::Findings | Topic::Aside | Topic::Open | Topic::Earlier => {
            open(child, context, found);
        }
    }
}

/// A summary holds no findings of its own, but perhaps lists of them.
fn aside(section: &Section, context: &SectionContext, found: &mut MarkdownFindings) {
    if !context.opens_asides {
        return;
    }
    for child in &section.children {
        if matches!(
            topic::topic(&child.heading),
            Topic::Degree(_) | Topic::Findings
        ) {
            enter(child, context, found);
        }
    }
}

/// A heading may name a defect in the words of a list: `Issue links are lost`.
fn is_itself_a_finding(section: &Section) -> bool {
    let fields = FindingUnit::of_outer_blocks(section).fields;
    section.children.is_empty()
        && !section.is_lead()
        && fields.file.is_some()
        && (fields.fix.is_some() || !fields.problem.is_empty())
}

/// A heading that announces nothing by itself: a finding, a group of findings, or plain text.
fn open(child: &Section, context: &SectionContext, found: &mut MarkdownFindings) {
    let label = compose::label_of(&child.heading);
    let group = is_group(child, context);
    if group && label.is_some() {
        let severity = label.map(|(raw, _)| raw);
        return walk(child, &inner(child, context, severity, true), found);
    }
    if group || !(context.expected || stands_alone(child, label.as_ref().map(|(_, plain)| *plain)))
    {
        return walk(
            child,
            &inner(child, context, None, context.expected && group),
            found,
        );
    }
    let one_word = child.heading.split_whitespace().count() < 2
        && child.heading.is_ascii()
        && !is_file_alone(child);
    let unit = FindingUnit::of_section(child);
    if topic::is_nothing(&child.heading)
        || (one_word && !child.is_headed())
        || unit.is_rated_as_nothing()
    {
        return;
    }
    found.drafts.extend(compose::draft(&unit, context));
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
    }
}

/// The file that a heading begins with.
fn file_of(heading: &str) -> Option<String> {
    let (_, rest) = label::ordinal(heading);
    let first = rest.split_whitespace().next()?;
    place::place(first).file
}

/// Outside a list of findings a heading is one if it carries a degree, or parts that only a
/// finding has.
fn stands_alone(section: &Section, plain: Option<DegreeStrength>) -> bool {
    let fields = FindingUnit::of_section(section).fields;
    let located = fields
        .file
        .as_deref()
        .is_some_and(|file| place::place(file).file.is_some());
    plain == Some(DegreeStrength::Strong)
        || (plain.is_some() && fields.is_telling())
        || (fields.severity.is_some() && fields.is_telling())
        || (located && (fields.fix.is_some() || fields.impact.is_some()))
        || (fields.names_problem && fields.fix.is_some())
}

/// Whether a heading only gathers findings that stand under it by themselves.
fn is_group(section: &Section, context: &SectionContext) -> bool {
    let real_children = section.children.iter().filter(|child| child.is_headed());
    let gathers = real_children.clone().any(|child| {
        !super::fields::is_label(&child.heading) && topic::topic(&child.heading) != Topic::Aside
    });
    if gathers || section.children.iter().any(is_file_alone) {
        return true;
    }
    if FindingUnit::of_outer_blocks(section).fields.is_telling() {
        return false;
    }
    if !context.expected && section.children.iter().any(Section::is_lead) {
        return true;
    }
    let numbered = label::ordinal(&section.heading).0.is_some();
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
        && place::place(&section.heading).line.is_none()
        && base.is_some();
    has_own
        || has_table
        || lists_by_file
        || (is_file_alone(section) && !section.children.is_empty())
}

/// A heading that is nothing but a file's name, perhaps with a count behind it.
fn is_file_alone(section: &Section) -> bool {
    let words = section
        .heading
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphabetic))
        .count();
    words == 1 && place::place(&section.heading).file.is_some()
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

/// The section's own lists, paragraphs and tables.
fn own_blocks(section: &Section, context: &SectionContext, found: &mut MarkdownFindings) {
    for rows in section.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Table(rows) => Some(rows),
        _ => None,
    }) {
        if table::is_earlier(rows) {
            found.earlier.extend(table::earlier(rows));
        } else if table::is_findings(rows, context.expected) {
            found.drafts.extend(table::drafts(rows, context));
        }
    }
    for unit in unit::units(&section.blocks) {
        if is_finding(&unit, context) {
            found.drafts.extend(compose::draft(&unit, context));
        } else if let Some((subject, fixed)) = unit.disposition().filter(|_| !context.expected) {
            found.earlier.push((subject, fixed));
        }
    }
}

fn is_finding(unit: &FindingUnit, context: &SectionContext) -> bool {
    let one_word = unit.title.is_ascii()
        && unit.title.split_whitespace().count() < 2
        && !unit.fields.is_telling()
        && !unit.fields.names_problem
        && !(unit.fields.problem.contains(' ') && place::place(&unit.title).file.is_some());
    if one_word
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
    let place = place::place(&unit.title);
    match label {
        Some((_, DegreeStrength::Strong)) => !topic::is_praise(unit.without_label()),
        Some((_, DegreeStrength::Weak)) => place.file.is_some() && place.line.is_some(),
        None => false,
    }
}

/// Notes what a section on earlier rounds says of each finding.
fn earlier(section: &Section, found: &mut MarkdownFindings) {
    for unit in unit::units(&section.blocks) {
        if unit.is_item {
            let (_, rest) = label::ordinal(&unit.title);
            found
                .earlier
                .push((rest.to_owned(), topic::is_settled(&unit.title)));
        }
    }
    for block in &section.blocks {
        if let BlockKind::Table(rows) = &block.kind {
            found.earlier.extend(table::earlier(rows));
        }
    }
    for child in &section.children {
        if topic::is_settled(&child.heading) || label::ordinal(&child.heading).0.is_some() {
            found
                .earlier
                .push((child.heading.clone(), topic::is_settled(&child.heading)));
        }
        earlier(child, found);
    }
}
