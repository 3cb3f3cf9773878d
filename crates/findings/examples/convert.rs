//! Reads one document and writes it in every format into a directory.
//!
//! `cargo run -p countersign-findings --example convert -- FILE OUT_DIR`

use std::path::PathBuf;
use std::{env, fs, io};

use findings::Review;
use findings::write::{
    self, DiffLines, DocumentHeader, FindingEntry, GithubReviewEvent, ReviewReport,
};

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1).map(PathBuf::from);
    let (Some(file), Some(out)) = (args.next(), args.next()) else {
        return Err(io::Error::other("usage: convert FILE OUT_DIR"));
    };
    let review = findings::read(&String::from_utf8_lossy(&fs::read(file)?));
    let ids: Vec<String> = (1..=review.findings.len())
        .map(|number| format!("F{number}"))
        .collect();
    let entries: Vec<FindingEntry<'_>> = review
        .findings
        .iter()
        .zip(&ids)
        .map(|(finding, id)| FindingEntry {
            id: Some(id),
            finding,
        })
        .collect();
    fs::create_dir_all(&out)?;
    for (name, text) in texts(&review, &entries)
        .into_iter()
        .chain(machine(&review, &entries))
    {
        fs::write(out.join(name), text)?;
    }
    Ok(())
}

fn texts(review: &Review, entries: &[FindingEntry<'_>]) -> Vec<(&'static str, String)> {
    let approved = review.claim == findings::ReviewClaim::Approved;
    let recommendation = if approved {
        "Approve"
    } else {
        "Request changes"
    };
    let head = DocumentHeader {
        story: "1",
        round: 1,
        reviewer: "Agent (Fresh Context)",
        date: "2026-01-01 00:00",
        branch: "story-1",
        recommendation,
    };
    let scores: Vec<_> = review.scores.clone().into_iter().collect();
    vec![
        (
            "findings.md",
            write::write_findings_document(&head, entries),
        ),
        ("checklist.md", write::checklist(entries)),
        (
            "rework.md",
            write::rework_context(&write::feedback(entries)),
        ),
        (
            "revision.txt",
            write::revision_instructions(
                review.overall_score,
                &review.blocking_issues,
                review.notes.as_deref().unwrap_or("-"),
                &scores,
            ),
        ),
        ("rdjson.jsonl", write::rdjsonl(entries)),
        ("github.txt", write::workflow_commands(entries)),
        (
            "summary.md",
            write::summary("countersign:1", "Review", 1, entries),
        ),
    ]
}

fn machine(review: &Review, entries: &[FindingEntry<'_>]) -> Vec<(&'static str, String)> {
    let approved = review.claim == findings::ReviewClaim::Approved;
    let scores: Vec<_> = review.scores.clone().into_iter().collect();
    let findings_list: Vec<_> = review.findings.iter().collect();
    let report = ReviewReport {
        ticket_id: "1",
        reviewed_at: "2026-01-01T00:00:00Z",
        reviewer: "code-review-agent",
        approved,
        overall_score: review.overall_score,
        revision_count: 0,
        scores: &scores,
        findings: &findings_list,
        blocking_issues: &review.blocking_issues,
        revision_notes: review.notes.as_deref(),
        all_critical_dimensions_pass: Some(approved),
        overall_score_above_threshold: Some(approved),
    };
    let event = if approved {
        GithubReviewEvent::Approve
    } else {
        GithubReviewEvent::RequestChanges
    };
    let values = [
        ("report.json", write::review_report(&report)),
        ("qa.json", write::qa_findings(entries)),
        (
            "results.sarif",
            write::sarif("countersign", env!("CARGO_PKG_VERSION"), entries),
        ),
        ("rdjson.json", write::rdjson("countersign", entries)),
        ("gitlab.json", write::gitlab(entries)),
        (
            "review.json",
            write::github_review(
                event,
                None,
                "Review",
                "countersign:1",
                entries,
                &DiffLines::default(),
            ),
        ),
    ];
    values
        .into_iter()
        .map(|(name, value)| {
            (
                name,
                serde_json::to_string_pretty(&value).unwrap_or_default(),
            )
        })
        .collect()
}
