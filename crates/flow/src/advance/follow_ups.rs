//! Refusals with only minor findings under `minor_only = "ask"`. The findings are recorded as
//! follow-ups, and the same reviewer is asked once whether it countersigns the commit after all. A
//! well-formed yes countersigns; any other answer leaves the refusal as it was.

use findings::{Review, ReviewClaim};

use super::Refused;
use super::review::names_must_fix;
use super::transition::Transition;
use crate::event::Lease;
use crate::job::Task;
use crate::ledger::LedgerEntry;
use crate::policy::MinorOnly;
use crate::ticket::{Refusal, Seat, Stage, Ticket};
use crate::verdict::{compute_verdict, upholds_refusal};

/// Returns the reviewer that the task asks to countersign, if it is such a question.
pub(super) fn reviewer_asked_to_countersign<'a>(
    ticket: &'a Ticket,
    task: &Task,
) -> Option<&'a str> {
    let Task::Review { seat, .. } = task else {
        return None;
    };
    let seat = ticket.seats.iter().find(|one| one.name == *seat)?;
    let answer = seat.answer.as_ref()?;
    seat.is_asked_to_countersign().then_some(&answer.reviewer)
}

/// Returns the open findings of a refusal if none of them must be fixed, else nothing.
pub fn minor_findings<'a>(
    ticket: &'a Ticket,
    seat: &Seat,
    policy: &crate::policy::Policy,
) -> Vec<&'a LedgerEntry> {
    let Some(answer) = &seat.answer else {
        return Vec::new();
    };
    let reported = answer
        .reported
        .iter()
        .filter_map(|id| ticket.ledger.get(id));
    let open: Vec<&LedgerEntry> = reported.filter(|entry| entry.status.is_open()).collect();
    if open.iter().any(|entry| entry.is_must_fix(policy)) {
        return Vec::new();
    }
    open
}

impl Transition<'_> {
    pub(super) fn is_asked_to_countersign(&self, seat: &str) -> bool {
        let mut seats = self.ticket.seats.iter();
        seats.any(|one| one.name == seat && one.is_asked_to_countersign())
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
            let mut seats = self.ticket.seats.iter_mut();
            let seat = seats.find(|seat| seat.name == name);
            let Some(refusal) = seat.and_then(|seat| seat.refusal.as_mut()) else {
                continue;
            };
            refusal.asked = true;
            let agent = refusal.agent.clone();
            let task = Task::Review {
                commit: commit.clone(),
                round: self.ticket.round,
                seat: name,
            };
            self.order_job(task, Some(agent));
        }
        true
    }

    /// Returns the seats that refused only over minor findings and were not asked yet.
    fn minor_refusals(&self) -> Vec<String> {
        let refuses = |seat: &&Seat| {
            let answer = seat.answer.as_ref();
            let refused =
                answer.is_some_and(|answer| answer.claim == ReviewClaim::ChangesRequested);
            let unasked = seat.refusal.as_ref().is_some_and(|refusal| !refusal.asked);
            let open = minor_findings(&self.ticket, seat, self.policy);
            // Unless `minor_only` is "ask", a finding that is not a note decides by itself.
            let asks = self.policy.minor_only == MinorOnly::Ask
                || !open.iter().any(|entry| upholds_refusal(entry, self.policy));
            refused && unasked && asks && !open.is_empty()
        };
        let seats = self.ticket.seats.iter().filter(refuses);
        seats.map(|seat| seat.name.clone()).collect()
    }

    /// Returns the notes behind the refusals, if nothing else blocks the change: its reviewers were
    /// asked and did not countersign, and the builder has nothing to fix.
    pub(super) fn refused_over_notes(&self) -> Option<Vec<String>> {
        let mut notes = std::collections::BTreeSet::new();
        let mut refusing = Vec::new();
        for seat in &self.ticket.seats {
            let answer = seat.answer.as_ref();
            if answer.is_none_or(|answer| answer.claim != ReviewClaim::ChangesRequested) {
                continue;
            }
            let open = minor_findings(&self.ticket, seat, self.policy);
            if !open.is_empty() && open.iter().all(|entry| entry.low_confidence) {
                notes.extend(open.iter().map(|entry| entry.id.clone()));
                refusing.push(seat.name.clone());
            }
        }
        let only_notes = !notes.is_empty() && self.would_be_approved_by(&refusing);
        only_notes.then(|| notes.into_iter().collect())
    }

    fn would_be_approved_by(&self, seats: &[String]) -> bool {
        let mut ticket = self.ticket.clone();
        for seat in &mut ticket.seats {
            if let Some(answer) = seat.answer.as_mut().filter(|_| seats.contains(&seat.name)) {
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
        seat: &str,
        review: &Review,
    ) -> Result<(), Refused> {
        self.ensure_same_reviewer(seat)?;
        self.finish_job(lease.serial);
        let grave = names_must_fix(review, self.policy);
        let yes = review.claim == ReviewClaim::Approved && !grave;
        let (reported, _) = self.record_findings(review);
        if grave {
            self.ticket.verified_new = false;
        }
        let mut seats = self.ticket.seats.iter_mut();
        if let Some(answer) = seats
            .find(|one| one.name == seat)
            .and_then(|seat| seat.answer.as_mut())
        {
            answer.reported.extend(reported);
            let remark = if yes {
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
    pub(super) fn on_follow_ups_unanswered(&mut self, lease: Lease, seat: &str, why: &str) {
        self.finish_job(lease.serial);
        let mut seats = self.ticket.seats.iter_mut();
        if let Some(answer) = seats
            .find(|one| one.name == seat)
            .and_then(|seat| seat.answer.as_mut())
        {
            let remark = format!("asked whether it countersigns, it gave no valid answer: {why}");
            answer.remarks.push(remark);
        }
        self.decide_when_complete();
    }

    fn ensure_same_reviewer(&self, seat: &str) -> Result<(), Refused> {
        let mut seats = self.ticket.seats.iter();
        let seat = seats.find(|one| one.name == seat);
        let reviewer = seat.and_then(|seat| seat.answer.as_ref());
        match reviewer.map(|answer| &answer.reviewer) {
            Some(reviewer) if *reviewer != self.event.by.agent => Err(Refused::NotTheReviewer {
                reviewer: reviewer.clone(),
                given: self.event.by.agent.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}
