//! Reads whatever a reviewer answered.
//!
//! The readers are tried from the strictest to the loosest: a whole JSON document, JSON inside
//! prose, text. Each says how sure it is. What no reader understands is [`Claim::Unknown`].

mod blocks;
mod claim;
mod compose;
mod degree;
mod draft;
mod extract;
mod fields;
mod item;
mod json;
mod keys;
mod label;
mod lenient;
mod linters;
mod markdown;
mod markup;
mod place;
mod records;
mod sarif;
mod sections;
mod table;
mod topic;
mod unit;
mod verdict;
mod xml;

use serde_json::Value;

use crate::clean::{FIELD_CHARS_MAX, FINDINGS_MAX, clean, shorten};
use crate::finding::{Claim, Disposition, Review, Way};
use verdict::Strength;

pub(crate) use xml::OWN_SOURCE;

/// Reads a review. Text that is not one gives [`Claim::Unknown`] and no findings.
pub fn read(text: &str) -> Review {
    if let Some(found) = extract::whole(text) {
        let (said, tool) = said_or_tool(&found.value);
        if said.is_review() {
            let way = if let Some(tool) = tool {
                tool
            } else if found.repaired {
                Way::RepairedJson
            } else if said.linter {
                Way::Linter
            } else {
                Way::Json
            };
            return of_said(said, way, found.cut_off);
        }
        return nothing();
    }
    if let Some(drafts) = records::drafts(&clean(text)) {
        let said = json::Said {
            drafts,
            linter: true,
            has_list: true,
            ..json::Said::default()
        };
        return of_said(said, Way::Linter, false);
    }
    let mut review = read_text(text);
    if is_broken_json(text) && review.claim == Claim::Approved {
        review = nothing();
    }
    let embedded = extract::inside(text)
        .into_iter()
        .map(|found| (json::said(&found.value), found))
        .rfind(|(said, _)| said.is_embedded_review());
    if let Some((said, found)) = embedded {
        let way = if found.repaired {
            Way::RepairedJson
        } else {
            Way::JsonInProse
        };
        let machine = of_said(said, way, found.cut_off);
        review = join(machine, review);
    }
    review
}

/// Reads JSON: a tool's own format where it is one, else whatever it says.
fn said_or_tool(value: &Value) -> (json::Said, Option<Way>) {
    let of_tool = |drafts| json::Said {
        drafts,
        linter: true,
        has_list: true,
        ..json::Said::default()
    };
    if sarif::is_sarif(value) {
        return (of_tool(sarif::drafts(value)), Some(Way::Sarif));
    }
    if let Some(drafts) = linters::drafts(value) {
        let way =
            if value.get("diagnostics").is_some() || value[0]["location"].get("range").is_some() {
                Way::Rdjson
            } else {
                Way::Linter
            };
        return (of_tool(drafts), Some(way));
    }
    (json::said(value), None)
}

/// The machine's fields first; the prose around them fills what they leave out.
fn join(machine: Review, prose: Review) -> Review {
    let mut review = machine;
    if review.claim == Claim::Unknown && prose.sureness >= 60 {
        (review.claim, review.claim_text) = (prose.claim, prose.claim_text);
    }
    if review.findings.is_empty() && review.blocking_issues.is_empty() {
        review.findings = prose.findings;
    }
    if review.earlier.is_empty() {
        review.earlier = prose.earlier;
    }
    review
}

/// JSON that not even the lenient reader understood: its words are no prose.
fn is_broken_json(text: &str) -> bool {
    let mut marks = text
        .trim_start_matches('\u{feff}')
        .chars()
        .filter(|c| !c.is_whitespace());
    matches!(
        (marks.next(), marks.next()),
        (Some('{'), _) | (Some('['), Some('{'))
    )
}

/// A reviewer that only repeats what it was told has not reviewed.
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

/// Reads Markdown and prose.
fn read_text(text: &str) -> Review {
    let cleaned = clean(text);
    if is_prompt(&cleaned) {
        return nothing();
    }
    let blocks = blocks::blocks(&markup::lines(&cleaned));
    let verdict = verdict::of_blocks(&blocks);
    let too_long = blocks.len() > sections::BLOCKS_MAX;
    let root = sections::sections(blocks);
    let found = markdown::findings(&root);
    let verdict =
        verdict.filter(|verdict| verdict.strength != Strength::Clean || found.drafts.is_empty());
    let too_long = too_long || found.drafts.len() >= FINDINGS_MAX;
    let claim = verdict
        .as_ref()
        .map_or(Claim::Unknown, |verdict| verdict.claim);
    // What was not read to its end is no approval.
    let claim = if too_long && claim == Claim::Approved {
        Claim::Unknown
    } else {
        claim
    };
    let findings = draft::finish(found.drafts, claim, true);
    let sureness = match verdict.as_ref().map(|verdict| verdict.strength) {
        Some(Strength::Label) => 90,
        Some(Strength::Mark) => 80,
        Some(Strength::Sentence) => 65,
        Some(Strength::Clean) => 50,
        None if findings.is_empty() => 0,
        None => 70,
    };
    let way = if sureness == 0 {
        Way::Nothing
    } else if root.children.is_empty() && findings.is_empty() {
        Way::Text
    } else {
        Way::Markdown
    };
    let notes = (claim == Claim::ChangesRequested && findings.is_empty())
        .then(|| shorten(cleaned.trim(), FIELD_CHARS_MAX));
    let earlier = found
        .earlier
        .into_iter()
        .take(1000)
        .map(|(subject, fixed)| Disposition {
            subject: shorten(&crate::clean::one_line(&subject), 240),
            fixed,
            evidence: None,
        })
        .collect();
    let mut review = Review {
        claim,
        claim_text: verdict.map(|verdict| verdict.text),
        findings,
        notes,
        earlier,
        way,
        sureness,
        ..nothing()
    };
    if too_long {
        review
            .remarks
            .push("the document is too long; its end was not searched for findings".to_owned());
    }
    remark(&mut review);
    review
}

/// Reads the structured arguments of a review tool: the same shapes, already parsed.
pub fn read_value(value: &Value) -> Review {
    let (said, tool) = said_or_tool(value);
    if said.is_review() {
        of_said(said, tool.unwrap_or(Way::Json), false)
    } else {
        nothing()
    }
}

fn of_said(mut said: json::Said, way: Way, cut_off: bool) -> Review {
    let comments = std::mem::take(&mut said.comments);
    let mut review = of_fields(said, way, cut_off);
    for comment in comments.iter().take(200) {
        let read = read_text(comment);
        if read.claim != Claim::Unknown {
            (review.claim, review.claim_text) = (read.claim, read.claim_text);
        }
        review.findings.extend(read.findings);
    }
    review
}

fn of_fields(said: json::Said, way: Way, cut_off: bool) -> Review {
    let (claim, claim_text) = said.claim();
    let mut remarks = Vec::new();
    if said.contradicts_itself() {
        remarks.push("the verdict fields contradict each other; read as a refusal".to_owned());
    }
    if cut_off {
        remarks.push("the document is cut off".to_owned());
    }
    let sureness = match (way, cut_off) {
        (_, true) => 40,
        (Way::RepairedJson, false) => 75,
        (Way::JsonInProse, false) => 90,
        _ => 98,
    };
    let claim = if cut_off && claim == Claim::Approved {
        Claim::Unknown
    } else {
        claim
    };
    let mut review = Review {
        claim,
        claim_text,
        findings: draft::finish(said.drafts, claim, !said.linter),
        blocking_issues: said.blocking,
        scores: said.scores.into_iter().collect(),
        overall_score: said.overall,
        notes: said
            .notes
            .map(|notes| shorten(&clean(&notes), FIELD_CHARS_MAX)),
        criteria: said.criteria,
        earlier: said.earlier,
        way,
        sureness,
        remarks,
    };
    remark(&mut review);
    review
}

/// Says what a careful reader would notice about the review as a whole.
fn remark(review: &mut Review) {
    let unknown = review
        .findings
        .iter()
        .filter(|finding| finding.rating.unknown_word)
        .count();
    if unknown > 0 {
        review.remarks.push(format!(
            "{unknown} severity words are unknown and count as high"
        ));
    }
    let must_fix = review
        .findings
        .iter()
        .filter(|finding| finding.actionable && finding.rating.severity.is_must_fix())
        .count();
    if review.claim == Claim::Approved && must_fix + review.blocking_issues.len() > 0 {
        review.remarks.push(format!(
            "approves, yet lists {} must-fix findings",
            must_fix + review.blocking_issues.len()
        ));
    }
}

fn nothing() -> Review {
    Review {
        way: Way::Nothing,
        sureness: 0,
        ..Review::new(Claim::Unknown, Vec::new())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod traps;
