//! Posts a review on a pull request: one review with findings on lines, one thread for each finding,
//! one summary that is edited in place, and a commit status on the exact commit. Every step can be
//! repeated.
//!
//! The review is a comment and never an approval or a request for changes: the commit status is the
//! verdict, and it ends with the commit. A request for changes would block the pull request until a
//! person dismisses it.

use engine::git::{DiffContext, Oid, Repository};
use findings::LineMap;
use flow::adhoc_review::AdhocOutcome;
use forge::anchors::{CommentableLines, Placement};
use forge::{
    ChangeKey, CommentDraft, CommentTopic, ForgeChange, ForgeError, ForgeGate, GateState,
    InlineFinding, ReviewDraft, ReviewEvent, ThreadAnswer, ThreadDraft, ThreadPlace, ThreadState,
};

use super::PostReceipt;
use super::memory::{PostedFinding, PostedFindings, memory_path};
use super::texts::{self, ListedFinding};
use crate::failure::Failure;
use crate::operations::App;
use crate::operations::finding_threads::line_anchor;
use crate::operations::forge_connection::{ConnectedForge, forge_failure};
use crate::operations::review::{JudgedChange, ReviewedChange, open_findings, verdict_sentence};

/// Name of the commit status.
const GATE: &str = "countersign/review";
/// Subject of the summary.
const SUMMARY: &str = "review";

/// A finished review, and the pull request to post it on.
#[derive(Debug)]
pub struct Posting<'a> {
    pub app: &'a App,
    pub git: &'a Repository,
    pub connected: &'a ConnectedForge,
    pub change: &'a ForgeChange,
    pub commits: &'a ReviewedChange,
    pub judged: &'a JudgedChange,
    pub reports_only: bool,
}

impl Posting<'_> {
    pub async fn post(&self) -> Result<PostReceipt, Failure> {
        self.require_same_head().await?;
        let location = &self.connected.repository.location;
        let identity = format!("{} {}", location.api, location.repository);
        let path = memory_path(&self.app.environment, &identity, self.change.number);
        let mut memory = PostedFindings::read(&path);
        let entries = open_findings(self.judged);
        let new: Vec<findings::Finding> =
            entries.iter().map(|entry| entry.finding.clone()).collect();
        let moved = self.lines_since(&memory.head).await;
        let keys = memory.keys_for(&new, &moved);
        let diff = self
            .git
            .diff(&self.commits.base, &self.commits.head, DiffContext::Usual);
        let diff = diff.await.map_err(Failure::error)?;
        let limits = self.connected.forge.capabilities().diff_limits;
        let lines = CommentableLines::parse(&diff.text, limits);
        let sentence = verdict_sentence(self.judged, self.reports_only);
        let drafts: Vec<InlineFinding> = entries
            .iter()
            .zip(&keys)
            .map(|(entry, key)| InlineFinding {
                key: key.clone(),
                anchor: line_anchor(&entry.finding),
                body: texts::finding_text(entry, self.judged),
            })
            .collect();
        let mut receipt = PostReceipt::default();
        self.post_review(&drafts, &lines, &sentence).await?;
        let mut listed = Vec::new();
        for (entry, draft) in entries.iter().zip(&drafts) {
            let place = self.post_thread(draft, &lines).await?;
            match place {
                Some(ThreadPlace::Line) => receipt.on_lines += 1,
                Some(ThreadPlace::File) => receipt.on_files += 1,
                Some(ThreadPlace::Comment) | None => receipt.in_summary += 1,
            }
            listed.push(ListedFinding {
                entry,
                has_thread: place.is_some(),
            });
        }
        self.settle(&mut memory, &keys, &mut receipt).await?;
        remember(&mut memory, &self.change.head_commit, &listed, &keys);
        // Before the summary and the gate: a thread that exists and is forgotten would be made
        // again by a review with other words.
        memory.write(&path)?;
        self.post_summary(&sentence, &listed).await?;
        receipt.gate = self.post_gate(&sentence).await?;
        Ok(receipt)
    }

    /// Refuses to post a review of a commit that is no longer the head.
    async fn require_same_head(&self) -> Result<(), Failure> {
        let number = self.change.number;
        let key = ChangeKey::Number(number);
        let found = self.connected.forge.find_change(&key).await;
        let found = found.map_err(forge_failure)?;
        let head = found.map(|found| found.head_commit).unwrap_or_default();
        if head == self.change.head_commit {
            return Ok(());
        }
        Err(Failure::error(format!(
            "nothing was posted: somebody pushed to pull request {number} during the review, which is of {}",
            self.commits.head.short()
        ))
        .hint("run it again to review the new head"))
    }

    /// Returns how lines moved since the last review. An unknown commit tells nothing about lines.
    async fn lines_since(&self, head: &str) -> LineMap {
        let Some(earlier) = Oid::parse(head) else {
            return LineMap::default();
        };
        let diff = self
            .git
            .diff(&earlier, &self.commits.head, DiffContext::None);
        match diff.await {
            Ok(diff) => LineMap::parse(&diff.text),
            Err(_) => LineMap::default(),
        }
    }

    /// Posts the review with the findings that are on lines of the diff.
    async fn post_review(
        &self,
        drafts: &[InlineFinding],
        lines: &CommentableLines,
        sentence: &str,
    ) -> Result<(), Failure> {
        let is_on_line = |draft: &&InlineFinding| {
            let anchor = draft.anchor.as_ref();
            anchor.is_some_and(|anchor| matches!(lines.place(anchor), Placement::Line(_)))
        };
        let on_lines: Vec<InlineFinding> = drafts.iter().filter(is_on_line).cloned().collect();
        if on_lines.is_empty() {
            return Ok(());
        }
        let review = ReviewDraft {
            key: self.change.head_commit.clone(),
            change: self.change.number,
            commit: self.change.head_commit.clone(),
            event: ReviewEvent::Comment,
            body: texts::review_text(self.commits, sentence),
            findings: on_lines,
            lines: lines.clone(),
        };
        let posted = self.connected.forge.ensure_review(&review).await;
        posted.map(drop).map_err(forge_failure)
    }

    /// Makes sure that a finding in a file of the diff has its thread.
    async fn post_thread(
        &self,
        draft: &InlineFinding,
        lines: &CommentableLines,
    ) -> Result<Option<ThreadPlace>, Failure> {
        let placement = draft.anchor.as_ref().map(|anchor| lines.place(anchor));
        if !matches!(placement, Some(Placement::Line(_) | Placement::File(_))) {
            return Ok(None);
        }
        let thread = ThreadDraft {
            change: self.change.number,
            commit: self.change.head_commit.clone(),
            finding: draft.clone(),
            lines: lines.clone(),
        };
        let thread = self.connected.forge.ensure_thread(&thread).await;
        Ok(Some(thread.map_err(forge_failure)?.place))
    }

    /// Resolves threads of findings that a later commit no longer has, and reopens those of findings
    /// that came back. Another review of the same commit resolves nothing: agents overlook things.
    async fn settle(
        &self,
        memory: &mut PostedFindings,
        keys: &[String],
        receipt: &mut PostReceipt,
    ) -> Result<(), Failure> {
        let is_later = memory.head != self.change.head_commit;
        let head = self.commits.head.short();
        for posted in &mut memory.findings {
            let is_reported = keys.contains(&posted.key);
            let (state, word) = match (is_reported, posted.resolved) {
                (true, true) => (ThreadState::Open, "Reported again"),
                (false, false) if is_later => (ThreadState::Resolved, "Not reported again"),
                _ => continue,
            };
            let key = format!("{}.{}", word.replace(' ', "-"), self.change.head_commit);
            let answer = ThreadAnswer {
                change: self.change.number,
                finding: posted.key.clone(),
                state,
                reply: Some((key, format!("{word} for {head}."))),
            };
            match self.connected.forge.settle_thread(&answer).await {
                // A person may have deleted it.
                Ok(()) | Err(ForgeError::NotFound { .. }) => {}
                Err(error) => return Err(forge_failure(error)),
            }
            posted.resolved = state == ThreadState::Resolved;
            match state {
                ThreadState::Open => receipt.reopened += 1,
                ThreadState::Resolved => receipt.resolved += 1,
            }
        }
        Ok(())
    }

    async fn post_summary(
        &self,
        sentence: &str,
        listed: &[ListedFinding<'_>],
    ) -> Result<(), Failure> {
        let facts = (sentence, self.change.from_fork);
        let comment = CommentDraft {
            on: self.change.number.to_string(),
            topic: CommentTopic(SUMMARY.to_owned()),
            body: texts::summary_text(self.commits, self.judged, facts, listed),
        };
        let posted = self.connected.forge.ensure_comment(&comment).await;
        posted.map(drop).map_err(forge_failure)
    }

    async fn post_gate(&self, sentence: &str) -> Result<&'static str, Failure> {
        let (state, word) = match &self.judged.outcome {
            AdhocOutcome::Approved => (GateState::Success, "success"),
            AdhocOutcome::Undecided(_) => (GateState::Error, "error"),
            AdhocOutcome::ChangesRequested
            | AdhocOutcome::RedChecks(_)
            | AdhocOutcome::ForbiddenPaths(_)
                if self.reports_only =>
            {
                (GateState::Success, "success")
            }
            AdhocOutcome::ChangesRequested
            | AdhocOutcome::RedChecks(_)
            | AdhocOutcome::ForbiddenPaths(_) => (GateState::Failure, "failure"),
        };
        let gate = ForgeGate {
            commit: self.change.head_commit.clone(),
            name: GATE.to_owned(),
            state,
            description: forge::neutral::neutralise_line_of(sentence),
            url: None,
        };
        let posted = self.connected.forge.ensure_gate(&gate).await;
        posted.map_err(forge_failure)?;
        Ok(word)
    }
}

/// Adds the findings that have threads to those of earlier reviews.
fn remember(
    memory: &mut PostedFindings,
    head: &str,
    listed: &[ListedFinding<'_>],
    keys: &[String],
) {
    head.clone_into(&mut memory.head);
    for (one, key) in listed.iter().zip(keys) {
        if !one.has_thread {
            continue;
        }
        let finding = one.entry.finding.clone();
        match memory.findings.iter_mut().find(|posted| posted.key == *key) {
            Some(posted) => posted.finding = finding,
            None => memory.findings.push(PostedFinding {
                key: key.clone(),
                finding,
                resolved: false,
            }),
        }
    }
}
