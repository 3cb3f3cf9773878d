//! Reads whatever a reviewer answered.
//!
//! The readers are tried from the strictest to the loosest: a whole JSON document, JSON inside
//! prose, text. Each says how sure it is. What no reader understands is [`Claim::Unknown`].
//!
//! A refusal is heard in any form. An approval has to be the whole of a value from a closed list,
//! and everything else in the document is searched for a reason to doubt it: a refusal, a must-fix
//! finding, a condition, a quotation, a sign that the review or its text is not complete.

mod blocks;
mod claim;
mod compose;
mod confidence;
mod degree;
mod doubts;
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
mod prose;
mod records;
mod restate;
mod sarif;
mod sections;
mod table;
mod topic;
mod twice;
mod unit;
mod verdict;
mod xml;

use serde_json::Value;

use crate::clean::{FIELD_CHARS_MAX, FINDINGS_MAX, clean, prefix, shorten};
use crate::finding::{Review, ReviewClaim, ReviewFormat};
use prose::Prose;

/// The longest text that is read, in bytes. A longer one is cut here and never approves.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest JSON document that is read whole, in bytes: reports of linters are long.
pub const JSON_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(crate) use verdict::{blocks_the_merge, find_stop};
pub(crate) use xml::OWN_SOURCE;

/// Reads a review. Text that is not one gives [`Claim::Unknown`] and no findings.
pub fn read(text: &str) -> Review {
    let long_json = text.len() > TEXT_BYTES_MAX && text.len() <= JSON_BYTES_MAX;
    if let Some(found) = long_json.then(|| extract::strict(text)).flatten() {
        return of_json(found, text);
    }
    if text.len() <= TEXT_BYTES_MAX {
        return read_bounded(text);
    }
    let mut review = read_bounded(prefix(text, TEXT_BYTES_MAX));
    withhold(
        &mut review,
        "the text is longer than 4 MiB; the rest was not read",
    );
    review
}

/// Whether a text is JSON in which an object has a key twice.
pub fn repeats_a_key(text: &str) -> bool {
    extract::strict(text).is_some_and(|found| found.doubled)
}

fn read_bounded(text: &str) -> Review {
    match extract::whole(text) {
        Some(found) => of_json(found, text),
        None => of_prose(text),
    }
}

/// Takes an approval back and says why; a refusal stays.
fn withhold(review: &mut Review, why: &str) {
    if review.claim == ReviewClaim::Approved {
        review.claim = ReviewClaim::Unknown;
    }
    review.remarks.push(why.to_owned());
}

/// A document that is JSON from its beginning to its end.
fn of_json(found: extract::EmbeddedJson, text: &str) -> Review {
    let (mut said, tool) = said_or_tool(&found.value);
    if !said.is_review() {
        return nothing();
    }
    said.doubt(found.doubled.then_some("a key is given twice"));
    said.doubt(found.commented.then_some("the JSON has comments inside"));
    said.doubt(doubts::of_indent(text));
    said.doubt(doubts::of_characters(text));
    let way = if let Some(tool) = tool {
        tool
    } else if found.repaired {
        ReviewFormat::RepairedJson
    } else if said.linter {
        ReviewFormat::Linter
    } else {
        ReviewFormat::Json
    };
    of_said(said, way, found.cut_off)
}

/// Everything else: prose, with or without JSON in it, and the text that tools print.
fn of_prose(text: &str) -> Review {
    let mut embedded: Vec<(json::JsonReview, extract::EmbeddedJson)> = extract::inside(text)
        .into_iter()
        .map(|found| (json::said(&found.value), found))
        .collect();
    let verdicts = embedded.iter().filter(|(said, _)| said.explicit).count();
    embedded.retain(|(said, _)| said.is_embedded_review());
    let mut prose = Prose::read(text);
    if let Some(drafts) = records::drafts(&prose.cleaned) {
        if !prose.is_document() && embedded.is_empty() {
            let said = json::JsonReview {
                drafts,
                linter: true,
                has_list: true,
                ..json::JsonReview::default()
            };
            return of_said(said, ReviewFormat::Linter, false);
        }
        // A tool's lines inside a longer review are some of its findings, not all of it.
        prose.drafts.extend(drafts);
    }
    if is_broken_json(text) {
        prose.doubt(Some("the text is JSON that cannot be read"));
    }
    if embedded.is_empty() {
        return of_text(prose);
    }
    let place = embedded
        .iter()
        .find_map(|(_, found)| doubts::of_place(text, found.span.0));
    prose.doubt(place);
    let commented = embedded.iter().any(|(_, found)| found.commented);
    prose.doubt(commented.then_some("the JSON has comments inside"));
    prose.doubt((verdicts > 1).then_some("the text holds several JSON reviews"));
    let fences = extract::fences(text);
    let inside = embedded.iter().any(|(_, found)| {
        fences
            .iter()
            .any(|(start, end, _)| found.span.0 > *start && found.span.0 < *end)
    });
    prose.doubt(inside.then_some("the JSON is quoted, commented out or set apart"));
    join(embedded, prose)
}

/// Reads JSON: a tool's own format where it is one, else whatever it says.
fn said_or_tool(value: &Value) -> (json::JsonReview, Option<ReviewFormat>) {
    let of_tool = |drafts| json::JsonReview {
        drafts,
        linter: true,
        has_list: true,
        ..json::JsonReview::default()
    };
    if sarif::is_sarif(value) {
        return (of_tool(sarif::drafts(value)), Some(ReviewFormat::Sarif));
    }
    if let Some(drafts) = linters::drafts(value) {
        let way =
            if value.get("diagnostics").is_some() || value[0]["location"].get("range").is_some() {
                ReviewFormat::Rdjson
            } else {
                ReviewFormat::Linter
            };
        return (of_tool(drafts), Some(way));
    }
    (json::said(value), None)
}

/// JSON in prose: the findings of both are kept, and a refusal of either counts. Only one JSON
/// review may approve, and only if the prose around it takes nothing back.
fn join(embedded: Vec<(json::JsonReview, extract::EmbeddedJson)>, mut prose: Prose) -> Review {
    let several = embedded.len() > 1;
    let repaired = embedded.iter().any(|(_, found)| found.repaired);
    let cut_off = embedded.iter().any(|(_, found)| found.cut_off);
    let doubled = embedded.iter().any(|(_, found)| found.doubled);
    let refused = embedded
        .iter()
        .filter(|(said, _)| said.claim().0 == ReviewClaim::ChangesRequested)
        .count();
    let mut said = json::JsonReview::default();
    for (one, _) in embedded {
        said.absorb(one);
    }
    if several && refused == 0 {
        said.doubt(Some("the text holds several JSON reviews"));
    }
    said.doubt(doubled.then_some("a key is given twice"));
    said.doubt(prose.doubt);
    said.doubt(prose.around);
    let repeats = restate::filter(&said.drafts, std::mem::take(&mut prose.drafts));
    said.drafts.extend(repeats);
    said.unread |= prose.too_long;
    if let Some(verdict) = prose.verdict.take() {
        said.claims.push((verdict.claim, verdict.text));
    }
    let way = if repaired {
        ReviewFormat::RepairedJson
    } else {
        ReviewFormat::JsonInProse
    };
    let mut review = of_said(said, way, cut_off);
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

/// Markdown and prose.
fn of_text(prose: Prose) -> Review {
    let sureness = prose.sureness();
    let way = prose.way(sureness);
    let stated = prose
        .verdict
        .as_ref()
        .map_or(ReviewClaim::Unknown, |verdict| verdict.claim);
    let notes = (stated == ReviewClaim::ChangesRequested && prose.drafts.is_empty())
        .then(|| shorten(prose.cleaned.trim(), FIELD_CHARS_MAX));
    let mut review = Review {
        claim: stated,
        claim_text: prose.verdict.map(|verdict| verdict.text),
        findings: draft::finish(prose.drafts, stated, true),
        notes,
        earlier: prose.earlier,
        way,
        sureness,
        ..nothing()
    };
    if prose.too_long {
        withhold(
            &mut review,
            "the document is too long; its end was not searched for findings",
        );
    }
    settle(&mut review, prose.doubt);
    review
}

/// Reads the structured arguments of a review tool: the same shapes, already parsed.
pub fn read_value(value: &Value) -> Review {
    let (said, tool) = said_or_tool(value);
    if said.is_review() {
        of_said(said, tool.unwrap_or(ReviewFormat::Json), false)
    } else {
        nothing()
    }
}

fn of_said(mut said: json::JsonReview, way: ReviewFormat, cut_off: bool) -> Review {
    let mut remarks = Vec::new();
    let mut earlier = std::mem::take(&mut said.earlier);
    let mut refused = None;
    let comments = std::mem::take(&mut said.comments);
    for comment in comments
        .iter()
        .chain(&std::mem::take(&mut said.listed_texts))
        .take(200)
    {
        let mut prose = Prose::read(comment);
        if let Some(verdict) = prose.verdict.take()
            && verdict.claim == ReviewClaim::ChangesRequested
        {
            refused = Some((verdict.claim, verdict.text));
        }
        said.drafts.append(&mut prose.drafts);
        earlier.extend(prose.earlier);
    }
    if !comments.is_empty() {
        said.doubt(Some("the comments of several people are no verdict of one"));
    }
    said.unread |= comments.len() > 200;
    said.claims.extend(refused);
    said.hear_texts();
    let contradicts = said.contradicts_itself();
    let (stated, claim_text) = said.claim();
    let findings_left = said.drafts.len() >= FINDINGS_MAX;
    if contradicts {
        remarks.push("the verdict fields contradict each other; read as a refusal".to_owned());
    }
    if cut_off {
        remarks.push("the document is cut off".to_owned());
    }
    let sureness = match (way, cut_off) {
        (_, true) => 40,
        (ReviewFormat::RepairedJson, false) => 75,
        (ReviewFormat::JsonInProse, false) => 90,
        _ => 98,
    };
    let claim = if cut_off && stated == ReviewClaim::Approved {
        ReviewClaim::Unknown
    } else {
        stated
    };
    let mut review = Review {
        claim,
        claim_text,
        findings: draft::finish(said.drafts, stated, !said.linter),
        blocking_issues: said.blocking,
        scores: said.scores.into_iter().collect(),
        overall_score: said.overall,
        notes: said
            .notes
            .map(|notes| shorten(&clean(&notes), FIELD_CHARS_MAX)),
        criteria: said.criteria,
        earlier,
        way,
        sureness,
        remarks,
    };
    if said.unread || findings_left {
        withhold(
            &mut review,
            "the document is too deep or too long; not all of it was read",
        );
    }
    settle(&mut review, said.doubt);
    review
}

/// Takes an approval back where there is a reason to, and says what a careful reader would notice.
fn settle(review: &mut Review, doubt: Option<&'static str>) {
    let approves = review.claim == ReviewClaim::Approved;
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
    if let Some(doubt) = doubt.filter(|_| review.claim != ReviewClaim::ChangesRequested) {
        withhold(review, &format!("not counted as an approval: {doubt}"));
    }
    let must_fix = review
        .findings
        .iter()
        .filter(|finding| finding.actionable && finding.rating.severity.is_must_fix())
        .count()
        + review.blocking_issues.len();
    if approves && must_fix > 0 {
        let why =
            format!("approves, yet lists {must_fix} must-fix findings; not counted as an approval");
        withhold(review, &why);
    }
    let unrated = review
        .findings
        .iter()
        .filter(|finding| finding.actionable && finding.rating.raw.is_none())
        .count();
    if approves && unrated > 0 {
        let why = format!(
            "approves, yet lists {unrated} findings without a severity; not counted as an approval"
        );
        withhold(review, &why);
    }
    let unmet = review.criteria.iter().filter(|answer| !answer.met).count();
    if approves && unmet > 0 {
        let why = format!(
            "approves, yet {unmet} acceptance criteria are not met; not counted as an approval"
        );
        withhold(review, &why);
    }
}

fn nothing() -> Review {
    Review {
        way: ReviewFormat::Nothing,
        sureness: 0,
        ..Review::new(ReviewClaim::Unknown, Vec::new())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod traps;
