//! A refusal with only minor findings under `minor_only = "ask"`: they are recorded as follow-ups,
//! and the same reviewer is asked once whether it countersigns the commit all the same. A yes in
//! form countersigns; anything else leaves the refusal as it was.

use findings::{Review, ReviewClaim};

use super::Refused;
use super::draft::Transition;
use super::review::names_must_fix;
use crate::event::Lease;
use crate::job::Task;
use crate::ledger::LedgerEntry;
use crate::policy::MinorOnly;
use crate::ticket::{Refusal, Seat, Stage, Ticket};
use crate::verdict::{keeps_refusal, verdict};

/// The reviewer whose own answer this task waits for, where it is such a question.
pub(super) fn reviewer_of<'a>(ticket: &'a Ticket, task: &Task) -> Option<&'a str> {
    let Task::Review { seat, .. } = task else {
        return None;
    };
    let seat = ticket.seats.iter().find(|known| known.name == *seat)?;
    let answer = seat.answer.as_ref()?;
    seat.is_asked_to_countersign().then_some(&answer.reviewer)
}

/// The findings of a refusal that stand, where none of them must be fixed; else nothing.
pub fn minor_findings<'a>(
    ticket: &'a Ticket,
    seat: &Seat,
    policy: &crate::policy::Policy,
) -> Vec<&'a LedgerEntry> {
    let Some(answer) = &seat.answer else {
        return Vec::new();
    };
    let named = answer
        .reported
        .iter()
        .filter_map(|id| ticket.ledger.get(id));
    let open: Vec<&LedgerEntry> = named.filter(|entry| entry.status.is_open()).collect();
    if open.iter().any(|entry| entry.is_must_fix(policy)) {
        return Vec::new();
    }
    open
}

impl Transition<'_> {
    pub(super) fn is_asked_to_countersign(&self, seat: &str) -> bool {
        let mut seats = self.ticket.seats.iter();
        seats.any(|known| known.name == seat && known.is_asked_to_countersign())
    }

    /// Records the source of a refusal, but only if its reviewer may be asked about it, so that the log
    /// of a ticket under another policy replays to the same ticket.
    pub(super) fn refusal(&self, serial: u32, review: &Review) -> Option<Refusal> {
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

    /// Puts minor findings to those who refused over nothing else, where their yes would approve the
    /// change. True where somebody is asked, or a person is because the money is used up.
    pub(super) fn put_follow_ups(&mut self) -> bool {
        let asked: Vec<String> = self.minor_refusals();
        if asked.is_empty() || !self.would_be_approved_by(&asked) {
            return false;
        }
        let Some(commit) = self.commit() else {
            return false;
        };
        if !self.affords(Stage::Reviewing) {
            return true;
        }
        for name in asked {
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
            self.order(task, Some(agent));
        }
        true
    }

    /// The seats whose refusal rests on minor findings alone, and was not put to them yet.
    fn minor_refusals(&self) -> Vec<String> {
        let refuses = |seat: &&Seat| {
            let answer = seat.answer.as_ref();
            let refused =
                answer.is_some_and(|answer| answer.claim == ReviewClaim::ChangesRequested);
            let unasked = seat.refusal.as_ref().is_some_and(|refusal| !refusal.asked);
            let open = minor_findings(&self.ticket, seat, self.policy);
            // Under another rule than "ask" a finding that is no note decides by itself.
            let asks = self.policy.minor_only == MinorOnly::Ask
                || !open.iter().any(|entry| keeps_refusal(entry, self.policy));
            refused && unasked && asks && !open.is_empty()
        };
        let seats = self.ticket.seats.iter().filter(refuses);
        seats.map(|seat| seat.name.clone()).collect()
    }

    /// The notes that refusals rest on, where nothing else holds the change up: its reviewers were
    /// asked and did not countersign, and there is nothing that a builder has to fix.
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
        let decide = !notes.is_empty() && self.would_be_approved_by(&refusing);
        decide.then(|| notes.into_iter().collect())
    }

    fn would_be_approved_by(&self, seats: &[String]) -> bool {
        let mut ticket = self.ticket.clone();
        for seat in &mut ticket.seats {
            if let Some(answer) = seat.answer.as_mut().filter(|_| seats.contains(&seat.name)) {
                answer.claim = ReviewClaim::Approved;
            }
        }
        verdict(&ticket, self.policy).approved
    }

    /// The reviewer answered. What it found now is kept whatever it says.
    pub(super) fn answered_follow_ups(
        &mut self,
        lease: Lease,
        seat: &str,
        review: &Review,
    ) -> Result<(), Refused> {
        self.must_be_the_reviewer(seat)?;
        self.finish(lease.serial);
        let grave = names_must_fix(review, self.policy);
        let yes = review.claim == ReviewClaim::Approved && !grave;
        let (reported, _) = self.take_in(review);
        if grave {
            self.ticket.verified_new = false;
        }
        let mut seats = self.ticket.seats.iter_mut();
        if let Some(answer) = seats
            .find(|known| known.name == seat)
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

    /// The question was left without an answer in form: the refusal stands.
    pub(super) fn left_follow_ups(&mut self, lease: Lease, seat: &str, why: &str) {
        self.finish(lease.serial);
        let mut seats = self.ticket.seats.iter_mut();
        if let Some(answer) = seats
            .find(|known| known.name == seat)
            .and_then(|seat| seat.answer.as_mut())
        {
            let remark = format!("asked whether it countersigns, it gave no answer in form: {why}");
            answer.remarks.push(remark);
        }
        self.decide_when_complete();
    }

    fn must_be_the_reviewer(&self, seat: &str) -> Result<(), Refused> {
        let mut seats = self.ticket.seats.iter();
        let seat = seats.find(|known| known.name == seat);
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
