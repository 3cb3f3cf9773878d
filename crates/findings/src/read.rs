//! Reads the answer of a reviewer in any format.
//!
//! The readers are tried from the strictest to the loosest: a whole JSON document, JSON inside
//! prose, text. Each reports its confidence. A text that no reader understands is
//! [`ReviewClaim::Unknown`].
//!
//! A refusal counts in any form. An approval must be a whole value from a closed list, and
//! everything else in the document is searched for a reason to doubt it: a refusal, a must-fix
//! finding, a condition, a quotation, a sign that the review or its text is not complete.
//!
//! This reader is for reviews that nobody commissioned in a form: imported files, pull request
//! comments, outputs of linters. A commissioned review is read by `answer`, which uses this one
//! only to find refusals and findings.

mod blocks;
mod compose;
mod confidence;
mod degree;
mod doubts;
mod draft;
mod duplicate_keys;
mod enumeration;
mod extract;
mod fields;
mod finding_unit;
mod item;
mod json;
mod keys;
mod label;
mod lenient;
mod linters;
mod locations;
mod markdown;
mod markup;
mod prose;
mod refusal_words;
mod restate;
mod sarif;
mod sections;
mod table;
mod tool_output;
mod topic;
mod verdict;
mod xml;

use serde_json::Value;

use crate::clean::{FIELD_CHARS_MAX, FINDINGS_MAX, clean, prefix, shorten};
use crate::finding::{Review, ReviewClaim, ReviewFormat};
use prose::Prose;

/// Maximum length of a text, in bytes. A longer one is cut here and never approves.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum length of a JSON document, in bytes. It is larger because reports of linters are long.
pub const JSON_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(crate) use verdict::{blocks_the_merge, find_stop};
pub(crate) use xml::OWN_SOURCE;

/// Reads a review. A text without a review gives [`ReviewClaim::Unknown`] and no findings.
pub fn read(text: &str) -> Review {
    // Only strict JSON may be that long: a linear parser reads it. Prose is searched for phrases,
    // which costs more.
    let long_json = text.len() > TEXT_BYTES_MAX && text.len() <= JSON_BYTES_MAX;
    if let Some(json) = long_json.then(|| extract::parse_strict(text)).flatten() {
        return read_json(json, text);
    }
    if text.len() <= TEXT_BYTES_MAX {
        return read_bounded(text);
    }
    // The refusals and findings of the beginning still count.
    let mut review = read_bounded(prefix(text, TEXT_BYTES_MAX));
    withhold_approval(
        &mut review,
        "the text is longer than 4 MiB; the rest was not read",
    );
    review
}

/// Reads the text of a refusal. Its reader looks for findings with a severity first; in a refusal,
/// items of a list without one are findings too, so that each is answered by itself.
pub(crate) fn read_refusal(text: &str) -> Review {
    let mut review = read(text);
    let is_json = matches!(
        review.format,
        ReviewFormat::Json | ReviewFormat::RepairedJson | ReviewFormat::JsonInProse
    );
    if text.len() > TEXT_BYTES_MAX || (is_json && !review.findings.is_empty()) {
        return review;
    }
    let listed = Prose::listed_findings(text);
    if listed.len() > review.findings.len() {
        review.findings = draft::finish(listed, ReviewClaim::ChangesRequested, true);
    }
    review
}

/// Returns whether a text is JSON in which an object has a duplicate key.
pub fn repeats_a_key(text: &str) -> bool {
    extract::parse_strict(text).is_some_and(|json| json.doubled)
}

fn read_bounded(text: &str) -> Review {
    match extract::parse_whole(text) {
        Some(json) => read_json(json, text),
        None => read_prose(text),
    }
}

/// Withdraws an approval and records why; a refusal stays.
fn withhold_approval(review: &mut Review, why: &str) {
    // The remark is added to a refusal as well. It says what was not read.
    if review.claim == ReviewClaim::Approved {
        review.claim = ReviewClaim::Unknown;
    }
    review.remarks.push(why.to_owned());
}

/// Reads a document that is JSON as a whole.
fn read_json(json: extract::EmbeddedJson, text: &str) -> Review {
    let (mut parsed, tool) = read_json_or_tool(&json.value);
    if !parsed.is_review() {
        return empty_review();
    }
    // Another parser may take the other value of the key.
    parsed.add_doubt(json.doubled.then_some("a key is given twice"));
    parsed.add_doubt(json.commented.then_some("the JSON has comments inside"));
    parsed.add_doubt(doubts::of_indent(text));
    parsed.add_doubt(doubts::doubt_in_characters(text));
    // The format is named for people; it decides nothing.
    let format = if let Some(tool) = tool {
        tool
    } else if json.repaired {
        ReviewFormat::RepairedJson
    } else if parsed.linter {
        ReviewFormat::Linter
    } else {
        ReviewFormat::Json
    };
    review_from_json(parsed, format, json.cut_off)
}

/// Reads everything else: prose, with or without JSON in it, and the text output of tools.
fn read_prose(text: &str) -> Review {
    let mut embedded: Vec<(json::JsonReview, extract::EmbeddedJson)> = extract::find_embedded(text)
        .into_iter()
        .map(|json| (json::extract_review(&json.value), json))
        .collect();
    // Counted before the filter: an example with a verdict is a second verdict too.
    let verdicts = embedded
        .iter()
        .filter(|(parsed, _)| parsed.explicit)
        .count();
    embedded.retain(|(parsed, _)| parsed.is_embedded_review());
    let mut prose = Prose::read(text);
    // Output of a tool only if the text has no document structure and no JSON review in it.
    if let Some(drafts) = tool_output::drafts(&prose.cleaned) {
        if !prose.is_document() && embedded.is_empty() {
            let parsed = json::JsonReview {
                drafts,
                linter: true,
                has_list: true,
                ..json::JsonReview::default()
            };
            return review_from_json(parsed, ReviewFormat::Linter, false);
        }
        // Lines of a tool inside a longer review are only some of its findings.
        prose.drafts.extend(drafts);
    }
    // Its words would be read as prose, and a broken `"approved": false` could lose its meaning.
    if is_broken_json(text) {
        prose.add_doubt(Some("the text is JSON that cannot be read"));
    }
    if embedded.is_empty() {
        return review_from_text(prose);
    }
    // JSON that is quoted or indented may be an example.
    let place = embedded
        .iter()
        .find_map(|(_, json)| doubts::doubt_at_offset(text, json.span.0));
    prose.add_doubt(place);
    let commented = embedded.iter().any(|(_, json)| json.commented);
    prose.add_doubt(commented.then_some("the JSON has comments inside"));
    prose.add_doubt((verdicts > 1).then_some("the text holds several JSON reviews"));
    let fences = extract::find_fences(text);
    let inside = embedded.iter().any(|(_, json)| {
        fences
            .iter()
            .any(|(start, end, _)| json.span.0 > *start && json.span.0 < *end)
    });
    prose.add_doubt(inside.then_some("the JSON is quoted, commented out or set apart"));
    join_json_and_prose(embedded, prose)
}

/// Reads JSON: as a tool's own format if it is one, else as a general review.
fn read_json_or_tool(value: &Value) -> (json::JsonReview, Option<ReviewFormat>) {
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
        let format =
            // Both kinds are rdjson: one document, or one diagnostic per line.
            if value.get("diagnostics").is_some() || value[0]["location"].get("range").is_some() {
                ReviewFormat::Rdjson
            } else {
                ReviewFormat::Linter
            };
        return (of_tool(drafts), Some(format));
    }
    (json::extract_review(value), None)
}

/// Joins JSON and the prose around it: the findings of both are kept, and a refusal in either
/// counts. Only a single JSON review may approve, and only if the prose does not contradict it.
fn join_json_and_prose(
    embedded: Vec<(json::JsonReview, extract::EmbeddedJson)>,
    mut prose: Prose,
) -> Review {
    let several = embedded.len() > 1;
    let repaired = embedded.iter().any(|(_, json)| json.repaired);
    let cut_off = embedded.iter().any(|(_, json)| json.cut_off);
    let doubled = embedded.iter().any(|(_, json)| json.doubled);
    let refused = embedded
        .iter()
        .filter(|(parsed, _)| parsed.claim().0 == ReviewClaim::ChangesRequested)
        .count();
    let mut parsed = json::JsonReview::default();
    for (one, _) in embedded {
        parsed.absorb(one);
    }
    // Several reviews without a refusal: one of them may be an example or an older one.
    if several && refused == 0 {
        parsed.add_doubt(Some("the text holds several JSON reviews"));
    }
    parsed.add_doubt(doubled.then_some("a key is given twice"));
    parsed.add_doubt(prose.doubt);
    parsed.add_doubt(prose.around);
    // The prose often repeats the JSON's findings. Only those that are new are kept.
    let repeats = restate::filter(&parsed.drafts, std::mem::take(&mut prose.drafts));
    parsed.drafts.extend(repeats);
    parsed.unread |= prose.too_long;
    if let Some(verdict) = prose.verdict.take() {
        // Added as one more claim. `claim` prefers a refusal wherever it comes from.
        parsed.claims.push((verdict.claim, verdict.text));
    }
    let format = if repaired {
        ReviewFormat::RepairedJson
    } else {
        ReviewFormat::JsonInProse
    };
    let mut review = review_from_json(parsed, format, cut_off);
    if review.earlier.is_empty() {
        review.earlier = prose.earlier;
    }
    review
}

/// Returns whether the text starts like JSON. Only called for text that even the lenient reader
/// cannot parse, so its words are not prose.
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

/// Builds the review of Markdown and prose.
fn review_from_text(prose: Prose) -> Review {
    let sureness = prose.sureness();
    let format = prose.format(sureness);
    let stated = prose
        .verdict
        .as_ref()
        .map_or(ReviewClaim::Unknown, |verdict| verdict.claim);
    // A refusal without findings keeps its text, else the builder would have nothing to work on.
    let notes = (stated == ReviewClaim::ChangesRequested && prose.drafts.is_empty())
        .then(|| shorten(prose.cleaned.trim(), FIELD_CHARS_MAX));
    let mut review = Review {
        claim: stated,
        claim_text: prose.verdict.map(|verdict| verdict.text),
        findings: draft::finish(prose.drafts, stated, true),
        notes,
        earlier: prose.earlier,
        format,
        sureness,
        ..empty_review()
    };
    if prose.too_long {
        withhold_approval(
            &mut review,
            "the document is too long; its end was not searched for findings",
        );
    }
    apply_doubt(&mut review, prose.doubt);
    review
}

/// Reads the structured arguments of a review tool: the same formats, already parsed.
/// Arguments of a tool call are parsed already, so nothing can be cut off or repaired in them.
pub fn read_value(value: &Value) -> Review {
    let (parsed, tool) = read_json_or_tool(value);
    if parsed.is_review() {
        review_from_json(parsed, tool.unwrap_or(ReviewFormat::Json), false)
    } else {
        empty_review()
    }
}

fn review_from_json(mut parsed: json::JsonReview, format: ReviewFormat, cut_off: bool) -> Review {
    let mut remarks = Vec::new();
    let mut earlier = std::mem::take(&mut parsed.earlier);
    let mut refused = None;
    let comments = std::mem::take(&mut parsed.comments);
    for comment in comments
        .iter()
        .chain(&std::mem::take(&mut parsed.listed_texts))
        // Each comment is read as prose, so their number is bounded. More make the review
        // incomplete.
        .take(200)
    {
        let mut prose = Prose::read(comment);
        // One refusing comment refuses. One approving comment does not approve for the others.
        if let Some(verdict) = prose.verdict.take()
            && verdict.claim == ReviewClaim::ChangesRequested
        {
            refused = Some((verdict.claim, verdict.text));
        }
        parsed.drafts.append(&mut prose.drafts);
        earlier.extend(prose.earlier);
    }
    if !comments.is_empty() {
        parsed.add_doubt(Some(
            "comments of several people are not one reviewer's verdict",
        ));
    }
    parsed.unread |= comments.len() > 200;
    parsed.claims.extend(refused);
    parsed.apply_texts();
    let contradicts = parsed.contradicts_itself();
    let (stated, claim_text) = parsed.claim();
    let findings_left = parsed.drafts.len() >= FINDINGS_MAX;
    if contradicts {
        remarks.push("the verdict fields contradict each other; read as a refusal".to_owned());
    }
    if cut_off {
        remarks.push("the document is cut off".to_owned());
    }
    // The numbers order the formats by how much had to be guessed. They are shown to people and
    // decide nothing.
    let sureness = match (format, cut_off) {
        (_, true) => 40,
        (ReviewFormat::RepairedJson, false) => 75,
        (ReviewFormat::JsonInProse, false) => 90,
        _ => 98,
    };
    // The part that is missing may hold the refusal.
    let claim = if cut_off && stated == ReviewClaim::Approved {
        ReviewClaim::Unknown
    } else {
        stated
    };
    let mut review = Review {
        claim,
        claim_text,
        findings: draft::finish(parsed.drafts, stated, !parsed.linter),
        blocking_issues: parsed.blocking,
        scores: parsed.scores.into_iter().collect(),
        overall_score: parsed.overall,
        notes: parsed
            .notes
            .map(|notes| shorten(&clean(&notes), FIELD_CHARS_MAX)),
        criteria: parsed.criteria,
        earlier,
        format,
        sureness,
        remarks,
    };
    if parsed.unread || findings_left {
        withhold_approval(
            &mut review,
            "the document is too deep or too long; not all of it was read",
        );
    }
    apply_doubt(&mut review, parsed.doubt);
    review
}

/// Withdraws an approval if there is a reason, and adds remarks about the findings.
fn apply_doubt(review: &mut Review, doubt: Option<&'static str>) {
    // Taken before anything is withdrawn, so that every reason is recorded and not only the first.
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
        withhold_approval(review, &format!("not counted as an approval: {doubt}"));
    }
    let must_fix = review
        .findings
        .iter()
        .filter(|finding| finding.actionable && finding.rating.severity.is_must_fix())
        .count()
        + review.blocking_issues.len();
    if approves && must_fix > 0 {
        let why =
            format!("approves, but lists {must_fix} must-fix findings; not counted as an approval");
        withhold_approval(review, &why);
    }
    // Unrated findings count as high elsewhere. An approval next to one contradicts itself.
    let unrated = review
        .findings
        .iter()
        .filter(|finding| finding.actionable && finding.rating.raw.is_none())
        .count();
    if approves && unrated > 0 {
        let why = format!(
            "approves, but lists {unrated} findings without a severity; not counted as an approval"
        );
        withhold_approval(review, &why);
    }
    let unmet = review.criteria.iter().filter(|answer| !answer.met).count();
    if approves && unmet > 0 {
        let why = format!(
            "approves, but {unmet} acceptance criteria are not met; not counted as an approval"
        );
        withhold_approval(review, &why);
    }
}

fn empty_review() -> Review {
    Review {
        format: ReviewFormat::Nothing,
        sureness: 0,
        ..Review::new(ReviewClaim::Unknown, Vec::new())
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod traps;
