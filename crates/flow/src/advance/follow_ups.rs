//! Refusals with only minor findings under `minor_only = "ask"`. The findings are recorded as
//! follow-ups, and the same reviewer is asked once whether it countersigns the commit after all. A
//! well-formed yes countersigns; any other answer leaves the refusal as it was.
//!
//! The question goes to the reviewer that refused. No other agent can answer for it, and a reviewer
//! that refused is never named as countersigner.

use findings::{Review, ReviewClaim};

use super::Refused;
use super::review::names_must_fix;
use super::transition::Transition;
use crate::event::Lease;
use crate::job::Task;
use crate::ledger::LedgerEntry;
use crate::policy::MinorOnly;
use crate::ticket::{PanelReviewer, Refusal, Stage, Ticket};
use crate::verdict::{compute_verdict, upholds_refusal};

/// Returns the reviewer that the task asks to countersign, if it is such a question.
pub(super) fn reviewer_asked_to_countersign<'a>(
    ticket: &'a Ticket,
    task: &Task,
) -> Option<&'a str> {
    // Only a review job can be such a question, and only while the reviewer's first answer is kept.
    let Task::Review { reviewer, .. } = task else {
        return None;
    };
    let reviewer = ticket.panel.iter().find(|one| one.name == *reviewer)?;
    let answer = reviewer.answer.as_ref()?;
    reviewer
        .is_asked_to_countersign()
        .then_some(&answer.reviewer)
}

/// Returns the open findings of a refusal if none of them must be fixed, else nothing.
pub fn minor_findings<'a>(
    ticket: &'a Ticket,
    reviewer: &PanelReviewer,
    policy: &crate::policy::Policy,
) -> Vec<&'a LedgerEntry> {
    let Some(answer) = &reviewer.answer else {
        return Vec::new();
    };
    let reported = answer
        .reported
        .iter()
        .filter_map(|id| ticket.ledger.get(id));
    let open: Vec<&LedgerEntry> = reported.filter(|entry| entry.status.is_open()).collect();
    // One must-fix finding makes the refusal a matter of rework. Then nothing is returned, also not
    // the minor ones, so that the reviewer is not asked to overlook it.
    if open.iter().any(|entry| entry.is_must_fix(policy)) {
        return Vec::new();
    }
    open
}

impl Transition<'_> {
    pub(super) fn is_asked_to_countersign(&self, reviewer: &str) -> bool {
        let mut reviewers = self.ticket.panel.iter();
        reviewers.any(|one| one.name == reviewer && one.is_asked_to_countersign())
    }

    /// Returns the source of a refusal, but only if its reviewer may be asked about it, so that the
    /// log of a ticket under another policy replays to the same ticket.
    pub(super) fn refusal_to_follow_up(&self, serial: u32, review: &Review) -> Option<Refusal> {
        let mut findings = review.findings.iter();
        let asks = self.policy.minor_only == MinorOnly::Ask
            || findings.any(|finding| self.policy.is_note(finding));
        if !asks || review.claim != ReviewClaim::ChangesRequested {
            return None;
        }
        let job = self.ticket.jobs.iter().find(|job| job.serial == serial)?;
        // The agent of the job is the configured name; an agent that connected by itself has none,
        // and is known by the name it reported under.
        let agent = job.agent.clone();
        Some(Refusal {
            job: serial,
            agent: agent.unwrap_or_else(|| self.event.by.agent.clone()),
            asked: false,
        })
    }

    /// Asks reviewers that refused only over minor findings whether they countersign, if their yes
    /// would approve the change. Returns true if a reviewer is asked, or a person because the
    /// budget is used up.
    pub(super) fn ask_about_follow_ups(&mut self) -> bool {
        let refusing: Vec<String> = self.minor_refusals();
        // The question costs a run. It is asked only if a yes would decide the round; with another
        // gate closed the answer would change nothing.
        if refusing.is_empty() || !self.would_be_approved_by(&refusing) {
            return false;
        }
        let Some(commit) = self.current_commit() else {
            return false;
        };
        if !self.check_budget(Stage::Reviewing) {
            return true;
        }
        for name in refusing {
            let mut reviewers = self.ticket.panel.iter_mut();
            let reviewer = reviewers.find(|reviewer| reviewer.name == name);
            let Some(refusal) = reviewer.and_then(|reviewer| reviewer.refusal.as_mut()) else {
                continue;
            };
            // Set before the answer arrives, so that each refusal is asked about once.
            refusal.asked = true;
            let agent = refusal.agent.clone();
            let task = Task::Review {
                commit: commit.clone(),
                round: self.ticket.round,
                reviewer: name,
            };
            self.order_job(task, Some(agent));
        }
        true
    }

    /// Returns the reviewers that refused only over minor findings and were not asked yet.
    fn minor_refusals(&self) -> Vec<String> {
        let refuses = |reviewer: &&PanelReviewer| {
            let answer = reviewer.answer.as_ref();
            let refused =
                answer.is_some_and(|answer| answer.claim == ReviewClaim::ChangesRequested);
            let unasked = reviewer
                .refusal
                .as_ref()
                .is_some_and(|refusal| !refusal.asked);
            let open = minor_findings(&self.ticket, reviewer, self.policy);
            // Unless `minor_only` is "ask", a finding that is not a note decides by itself.
            let asks = self.policy.minor_only == MinorOnly::Ask
                || !open.iter().any(|entry| upholds_refusal(entry, self.policy));
            refused && unasked && asks && !open.is_empty()
        };
        let reviewers = self.ticket.panel.iter().filter(refuses);
        reviewers.map(|reviewer| reviewer.name.clone()).collect()
    }

    /// Returns the notes behind the refusals, if nothing else blocks the change: its reviewers were
    /// asked and did not countersign, and the builder has nothing to fix.
    pub(super) fn refused_over_notes(&self) -> Option<Vec<String>> {
        let mut notes = std::collections::BTreeSet::new();
        let mut refusing = Vec::new();
        for reviewer in &self.ticket.panel {
            let answer = reviewer.answer.as_ref();
            if answer.is_none_or(|answer| answer.claim != ReviewClaim::ChangesRequested) {
                continue;
            }
            let open = minor_findings(&self.ticket, reviewer, self.policy);
            if !open.is_empty() && open.iter().all(|entry| entry.low_confidence) {
                notes.extend(open.iter().map(|entry| entry.id.clone()));
                refusing.push(reviewer.name.clone());
            }
        }
        // The verdict is computed again with these refusals turned. If another gate is closed, the
        // ticket goes to rework, and the notes are not the reason.
        let only_notes = !notes.is_empty() && self.would_be_approved_by(&refusing);
        only_notes.then(|| notes.into_iter().collect())
    }

    /// Tries the verdict on a copy in which these reviewers approve. The ticket itself keeps the
    /// refusals.
    fn would_be_approved_by(&self, reviewers: &[String]) -> bool {
        let mut ticket = self.ticket.clone();
        for reviewer in &mut ticket.panel {
            if let Some(answer) = reviewer
                .answer
                .as_mut()
                .filter(|_| reviewers.contains(&reviewer.name))
            {
                answer.claim = ReviewClaim::Approved;
            }
        }
        compute_verdict(&ticket, self.policy).approved
    }

    /// Records the answer of a reviewer that was asked to countersign. Its new findings are kept
    /// in any case.
    pub(super) fn on_follow_ups_answered(
        &mut self,
        lease: Lease,
        reviewer: &str,
        review: &Review,
    ) -> Result<(), Refused> {
        // The identity is checked before the job is closed, so that a wrong caller leaves the
        // question open for the right one.
        self.ensure_same_reviewer(reviewer)?;
        self.finish_job(lease.serial);
        let grave = names_must_fix(review, self.policy);
        // A yes together with a new must-fix finding is a contradiction. The finding counts.
        let yes = review.claim == ReviewClaim::Approved && !grave;
        let (reported, _) = self.record_findings(review);
        // New must-fix findings are verified like those of the first answer.
        if grave {
            self.ticket.verified_new = false;
        }
        let mut reviewers = self.ticket.panel.iter_mut();
        if let Some(answer) = reviewers
            .find(|one| one.name == reviewer)
            .and_then(|reviewer| reviewer.answer.as_mut())
        {
            answer.reported.extend(reported);
            let remark = if yes {
                // The first claim stays visible, so that a person can see a changed mind.
                answer.first_claim = Some(answer.claim);
                answer.claim = ReviewClaim::Approved;
                "refused first; countersigned with its findings as follow-ups"
            } else {
                "asked whether it countersigns with its findings as follow-ups, it did not"
            };
            answer.remarks.push(remark.to_owned());
        }
        self.decide_when_complete();
        Ok(())
    }

    /// Records that the reviewer gave no well-formed answer. Its refusal is upheld.
    /// A broken answer must not be retried until it says yes.
    pub(super) fn on_follow_ups_unanswered(&mut self, lease: Lease, reviewer: &str, why: &str) {
        self.finish_job(lease.serial);
        let mut reviewers = self.ticket.panel.iter_mut();
        if let Some(answer) = reviewers
            .find(|one| one.name == reviewer)
            .and_then(|reviewer| reviewer.answer.as_mut())
        {
            let remark = format!("asked whether it countersigns, it gave no valid answer: {why}");
            answer.remarks.push(remark);
        }
        self.decide_when_complete();
    }

    /// Refuses an answer from any agent but the one that refused.
    fn ensure_same_reviewer(&self, reviewer: &str) -> Result<(), Refused> {
        let mut reviewers = self.ticket.panel.iter();
        let reviewer = reviewers.find(|one| one.name == reviewer);
        let reviewer = reviewer.and_then(|reviewer| reviewer.answer.as_ref());
        match reviewer.map(|answer| &answer.reviewer) {
            Some(reviewer) if *reviewer != self.event.by.agent => Err(Refused::NotTheReviewer {
                reviewer: reviewer.clone(),
                given: self.event.by.agent.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}
