//! Writes what is missing on a pull request: the gate, the review of a round, one thread for each
//! finding with its answers, and the summary. Every step looks first, and what was written before is
//! remembered.

use engine::git::{DiffContext, Oid, Repository};
use flow::ledger::LedgerEntry;
use flow::pull_request::{ChangePlan, PlannedGate, PlannedThread, has_thread};
use flow::ticket::Submission;
use flow::{Policy, Ticket};
use forge::anchors::{CommentableLines, Placement};
use forge::neutral::neutralise;
use forge::{
    CommentDraft, CommentTopic, Forge, ForgeError, ForgeGate, GateState, InlineFinding,
    ReviewDraft, ReviewEvent, ThreadAnswer, ThreadDraft, ThreadState,
};

use super::LookError;
use super::memory::WrittenReport;
use super::texts;
use crate::failure::Failure;
use crate::operations::finding_threads::line_anchor;

/// Name of the gate.
pub const GATE: &str = "countersign";
/// Subject of the summary.
const SUMMARY: &str = "ticket";

/// A pull request and the ticket that it should show.
#[derive(Debug)]
pub struct ReportWriter<'a> {
    pub forge: &'a dyn Forge,
    pub git: &'a Repository,
    pub number: u64,
    pub ticket: &'a Ticket,
    pub submission: &'a Submission,
    pub policy: &'a Policy,
    pub plan: &'a ChangePlan,
    /// Whether the head of the pull request is the submitted commit. On another head no line of it
    /// can be commented.
    pub shows_submission: bool,
}

impl ReportWriter<'_> {
    /// Writes everything that differs from what was written before.
    pub async fn write(&self, written: &mut WrittenReport) -> Result<(), LookError> {
        // The review comes first: its findings get their threads with it, in one notification.
        let lines = self.lines_if_needed(written).await?;
        if let Some(lines) = &lines {
            self.write_review(written, lines).await?;
        }
        self.write_threads(written, lines.as_ref()).await?;
        self.write_summary(written).await?;
        // The gate is last: a commit is green only after everything is said about it.
        self.write_gate(written).await
    }

    /// Reads the diff, if a review or a thread has to be written.
    async fn lines_if_needed(
        &self,
        written: &WrittenReport,
    ) -> Result<Option<CommentableLines>, LookError> {
        let is_written = |thread: &PlannedThread| {
            written.threads.get(&thread.finding) == Some(&thread_state(thread))
        };
        if !self.shows_submission || self.plan.threads.iter().all(is_written) {
            return Ok(None);
        }
        let commits = Oid::parse(&self.submission.base).zip(Oid::parse(&self.submission.commit));
        let Some((base, head)) = commits else {
            return Ok(None);
        };
        let diff = self.git.diff(&base, &head, DiffContext::Usual).await;
        let diff = diff.map_err(Failure::error)?;
        Ok(Some(CommentableLines::parse(
            &diff.text,
            self.forge.capabilities().diff_limits,
        )))
    }

    /// Posts the review of the last round with its findings on lines of the diff.
    async fn write_review(
        &self,
        written: &mut WrittenReport,
        lines: &CommentableLines,
    ) -> Result<(), LookError> {
        let Some(round) = self.ticket.rounds.last().map(|round| round.number) else {
            return Ok(());
        };
        if written.rounds.contains(&round) {
            return Ok(());
        }
        let findings: Vec<InlineFinding> = self
            .open_entries()
            .map(|entry| self.draft(entry))
            .filter(|draft| {
                let anchor = draft.anchor.as_ref();
                anchor.is_some_and(|anchor| matches!(lines.place(anchor), Placement::Line(_)))
            })
            .collect();
        if !findings.is_empty() {
            let review = ReviewDraft {
                key: format!("{}.round.{round}", self.ticket.id),
                change: self.number,
                commit: self.submission.commit.clone(),
                // The gate is the verdict. A request for changes would block the pull request
                // until a person dismisses it.
                event: ReviewEvent::Comment,
                body: texts::review_body(self.ticket, &self.plan.gate, round),
                findings,
                lines: lines.clone(),
            };
            self.forge.ensure_review(&review).await?;
        }
        written.rounds.insert(round);
        Ok(())
    }

    /// Makes, answers, resolves and reopens the threads of findings. Without lines it makes none.
    async fn write_threads(
        &self,
        written: &mut WrittenReport,
        lines: Option<&CommentableLines>,
    ) -> Result<(), LookError> {
        for thread in &self.plan.threads {
            let state = thread_state(thread);
            if written.threads.get(&thread.finding) == Some(&state) {
                continue;
            }
            let is_known = written.threads.contains_key(&thread.finding);
            let entry = self.ticket.ledger.get(&thread.finding);
            // A finding that is closed before the first look gets its thread as well: it is the
            // record of what was found.
            if let Some(entry) = entry.filter(|_| !is_known) {
                let Some(lines) = lines else {
                    continue;
                };
                self.ensure_thread(self.draft(entry), lines).await?;
            }
            if is_known || !thread.is_open || thread.reply.is_some() {
                self.settle(thread).await?;
            }
            written.threads.insert(thread.finding.clone(), state);
        }
        Ok(())
    }

    async fn ensure_thread(
        &self,
        finding: InlineFinding,
        lines: &CommentableLines,
    ) -> Result<(), LookError> {
        let placement = finding.anchor.as_ref().map(|anchor| lines.place(anchor));
        // The summary has the findings that are in no file of the diff.
        if !matches!(placement, Some(Placement::Line(_) | Placement::File(_))) {
            return Ok(());
        }
        let thread = ThreadDraft {
            change: self.number,
            commit: self.submission.commit.clone(),
            finding,
            lines: lines.clone(),
        };
        self.forge.ensure_thread(&thread).await?;
        Ok(())
    }

    async fn settle(&self, thread: &PlannedThread) -> Result<(), LookError> {
        let answer = ThreadAnswer {
            change: self.number,
            finding: self.key_of(&thread.finding),
            state: if thread.is_open {
                ThreadState::Open
            } else {
                ThreadState::Resolved
            },
            reply: thread
                .reply
                .as_ref()
                .map(|(key, text)| (key.clone(), neutralise(text))),
        };
        match self.forge.settle_thread(&answer).await {
            // It never had a thread, or a person deleted it.
            Ok(()) | Err(ForgeError::NotFound { .. } | ForgeError::Unsupported { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn write_summary(&self, written: &mut WrittenReport) -> Result<(), LookError> {
        let body = texts::summary(self.ticket, self.policy, self.plan);
        let hash = engine::hash::short_sha256(body.as_bytes());
        if written.summary == hash {
            return Ok(());
        }
        let comment = CommentDraft {
            on: self.number.to_string(),
            topic: CommentTopic(SUMMARY.to_owned()),
            body,
        };
        self.forge.ensure_comment(&comment).await?;
        written.summary = hash;
        Ok(())
    }

    async fn write_gate(&self, written: &mut WrittenReport) -> Result<(), LookError> {
        let (state, text) = match &self.plan.gate {
            PlannedGate::Pending(text) => (GateState::Pending, text),
            PlannedGate::Success(text) => (GateState::Success, text),
            PlannedGate::Failure(text) => (GateState::Failure, text),
        };
        let gate = ForgeGate {
            commit: self.submission.commit.clone(),
            name: GATE.to_owned(),
            state,
            description: forge::neutral::neutralise_line_of(text),
            url: None,
        };
        let known = format!("{} {state:?} {}", gate.commit, gate.description);
        if written.gate == known {
            return Ok(());
        }
        self.forge.ensure_gate(&gate).await?;
        written.gate = known;
        Ok(())
    }

    /// Returns the open findings that have a thread of ours.
    fn open_entries(&self) -> impl Iterator<Item = &LedgerEntry> {
        let entries = self.ticket.ledger.entries.iter();
        entries.filter(|entry| entry.status.is_open() && has_thread(self.ticket, entry))
    }

    fn draft(&self, entry: &LedgerEntry) -> InlineFinding {
        InlineFinding {
            key: self.key_of(&entry.id),
            anchor: line_anchor(&entry.finding),
            body: texts::finding_text(entry, self.policy),
        }
    }

    /// Returns the key of a finding's thread. A pull request has one ticket, and a finding one thread
    /// over all rounds.
    fn key_of(&self, finding: &str) -> String {
        format!("{}.{finding}", self.ticket.id)
    }
}

fn thread_state(thread: &PlannedThread) -> String {
    let key = thread.reply.as_ref().map_or("", |(key, _)| key);
    format!("{} {key}", if thread.is_open { "open" } else { "resolved" })
}
