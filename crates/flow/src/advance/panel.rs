//! The reviewers' table: who sits there in this round, and who is asked once more.

use findings::ReviewClaim;

use super::Refused;
use super::draft::Transition;
use crate::event::Lease;
use crate::job::Task;
use crate::policy::{Land, ReviewMode, SeatSpec, VerifyOpenFindings};
use crate::ticket::{ApprovedBy, Reason, ReworkReason, Seat, Stage};

/// Whether reviews of the very same tree may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewReuse {
    /// They count: nothing has changed that they have not seen.
    Same,
    /// A person asks for a new look.
    Fresh,
}

impl Transition<'_> {
    /// The checks have nothing against it: on to the reviewers, if there is need of any.
    pub(super) fn go_to_review(&mut self, eyes: ReviewReuse) {
        if self.policy.review == ReviewMode::None {
            return self.approve(ApprovedBy::NobodyAsPolicySays);
        }
        if let Some(round) = self.approved_before() {
            return self.approve(ApprovedBy::Earlier { round });
        }
        if self.rounds_used_up() {
            return self.exhausted();
        }
        self.enter_round();
        if self.affords(Stage::Reviewing) {
            self.open_review(eyes);
        }
    }

    fn open_review(&mut self, eyes: ReviewReuse) {
        let Some(commit) = self.commit() else {
            return self.order_build();
        };
        self.void_approval();
        self.ticket.stage = Stage::Reviewing;
        self.ticket.review_started_at = self.event.at;
        self.ticket.verified_new = false;
        self.ticket.seats = Vec::new();
        let same = self
            .reviews_of_this_tree()
            .filter(|_| eyes == ReviewReuse::Same);
        if same.is_none() && self.policy.disposition == VerifyOpenFindings::First {
            self.order_disposition(commit);
            return self.decide_when_complete();
        }
        self.seat_reviewers(same);
        if self.ticket.stage == Stage::Reviewing {
            self.order_disposition(commit);
            self.decide_when_complete();
        }
    }

    /// What was to be fixed has been looked at, before anybody is paid for reading the rest. What
    /// is still there goes back; a few times, and then the reviewers see it all the same.
    pub(super) fn after_disposition(&mut self) {
        let open = !self.ticket.ledger.open_must_fix(self.policy).is_empty();
        if open && self.ticket.counts.unfixed < self.policy.limits.unfixed_max {
            self.ticket.counts.unfixed += 1;
            return self.rework(ReworkReason::Findings);
        }
        if self.affords(Stage::Reviewing) {
            self.seat_reviewers(None);
        }
    }

    fn seat_reviewers(&mut self, same: Option<Vec<Seat>>) {
        let Some(seats) = same else {
            let panel = self.panel();
            return self.give_seats(&panel);
        };
        self.ticket.seats = seats;
    }

    fn give_seats(&mut self, panel: &[SeatSpec]) {
        for seat in panel {
            let first = self.ticket.seats.is_empty();
            self.ticket.seats.push(Seat {
                name: seat.name.clone(),
                attempts: 0,
                linter: seat.is_linter(),
                answer: None,
                refusal: None,
            });
            if !self.order_review(seat, first) {
                return;
            }
        }
    }

    /// The others would let it through: those who are asked only then have their look at the same
    /// commit, with no word of what was said. True where there is somebody left to ask.
    pub(super) fn seat_confirming(&mut self) -> bool {
        let (seats, round) = (&self.ticket.seats, self.ticket.round);
        let sits = |seat: &SeatSpec| seats.iter().any(|known| known.name == seat.name);
        let all = self.policy.reviewers.iter();
        let asked = all.filter(|seat| seat.confirms && seat.fits(&self.ticket, round));
        let asked: Vec<SeatSpec> = asked.filter(|seat| !sits(seat)).cloned().collect();
        if asked.is_empty() {
            return false;
        }
        if self.affords(Stage::Reviewing) {
            self.ticket.verified_new = false;
            self.give_seats(&asked);
        }
        true
    }

    /// Those of the policy's reviewers that have a say on this change. Where the conditions leave
    /// nobody, the first is asked all the same.
    fn panel(&self) -> Vec<SeatSpec> {
        let all = &self.policy.reviewers;
        let round = self.ticket.round;
        let fits = |seat: &&SeatSpec| !seat.confirms && seat.fits(&self.ticket, round);
        let panel: Vec<SeatSpec> = all.iter().filter(fits).cloned().collect();
        if panel.iter().any(|seat| !seat.is_linter()) {
            return panel;
        }
        let first = all.iter().find(|seat| !seat.is_linter() && !seat.confirms);
        first.cloned().into_iter().chain(panel).collect()
    }

    /// What reviewers said of this very tree under this very policy in the round before.
    fn reviews_of_this_tree(&self) -> Option<Vec<Seat>> {
        let (now, last) = (self.ticket.submission.as_ref()?, self.ticket.rounds.last()?);
        let same = last.tree == now.tree
            && last.base_tree == now.base_tree
            && last.policy == self.policy.id();
        let by_author = |seat: &Seat| {
            let answer = seat.answer.as_ref();
            answer.is_none_or(|answer| self.ticket.authors.contains(&answer.reviewer))
        };
        // A look that was interrupted before its verdict leaves its findings: whoever approved before
        // and reported something since may have taken its word back.
        let spoke_since = |reviewer: &String| {
            let mut entries = self.ticket.ledger.entries.iter();
            entries.any(|e| e.last_round > last.number && e.reported_by.contains(reviewer))
        };
        let taken_back = |seat: &Seat| {
            let answer = seat.answer.as_ref();
            answer.is_some_and(|a| a.claim == ReviewClaim::Approved && spoke_since(&a.reviewer))
        };
        let mut seats = last.seats.iter();
        let sound = !last.seats.is_empty() && !seats.any(|one| by_author(one) || taken_back(one));
        (same && sound).then(|| last.seats.clone())
    }

    /// A person's choice of a reviewer is for the first seat; the others keep theirs. False where
    /// whoever is meant cannot judge.
    fn order_review(&mut self, seat: &SeatSpec, first: bool) -> bool {
        let Some(commit) = self.commit() else {
            return false;
        };
        let chosen = self.ticket.assigned.reviewer.clone();
        let agent = chosen.filter(|_| first).or_else(|| seat.agent.clone());
        let task = Task::Review {
            commit,
            round: self.ticket.round,
            seat: seat.name.clone(),
        };
        let author = agent
            .clone()
            .filter(|name| self.ticket.authors.contains(name));
        let Some(author) = author else {
            self.order(task, agent);
            return true;
        };
        let ordered = self.order_instead(task, &author);
        if !ordered {
            let why = format!("{author} is to review, and has built part of the change");
            self.nobody_to_judge(&why);
        }
        ordered
    }

    pub(super) fn nobody_to_judge(&mut self, why: &str) {
        let reason = Reason::NobodyToJudge {
            why: why.to_owned(),
        };
        self.escalate(reason, Stage::Reviewing, why);
    }

    /// The round in which this very tree, on this very base, was approved under this policy (in a
    /// landing queue: this very diff),
    /// unless something has been held against it since.
    fn approved_before(&self) -> Option<u32> {
        let now = self.ticket.submission.as_ref()?;
        let mut later = self.ticket.rounds.iter().rev();
        let turned_down = later
            .find(|round| round.tree == now.tree)
            .is_some_and(|round| !round.verdict.approved);
        if turned_down || !self.ticket.ledger.open_must_fix(self.policy).is_empty() {
            return None;
        }
        let policy = self.policy.id();
        let same = self.ticket.approvals_voided.iter().rev().find(|earlier| {
            let same_tree = earlier.tree == now.tree && earlier.base_tree == now.base_tree;
            // A queue brings the newest base under a change; reading it again is only for a
            // change that is no longer the same.
            let same_diff = !now.diff_id.is_empty()
                && earlier.diff_id == now.diff_id
                && self.policy.land == Land::Queue;
            (same_tree || same_diff) && earlier.policy == policy
        })?;
        // A person's word over open findings or red checks is for one commit; it is not lent.
        (!matches!(same.by, ApprovedBy::Person { .. })).then_some(same.round)
    }

    pub(super) fn seat_of(&self, serial: u32) -> Option<String> {
        let job = self.ticket.jobs.iter().find(|job| job.serial == serial)?;
        match &job.task {
            Task::Review { seat, .. } => Some(seat.clone()),
            Task::Build { .. }
            | Task::Check { .. }
            | Task::Verify { .. }
            | Task::Merge { .. }
            | Task::Tell { .. } => None,
        }
    }

    pub(super) fn seat_spec(&self, name: &str) -> Option<&SeatSpec> {
        self.policy.reviewers.iter().find(|spec| spec.name == name)
    }

    /// Another reviewer with a fresh mind, and after too many of them a person.
    pub(super) fn review_unusable(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        let Some(name) = self.seat_of(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        if self.is_asked_to_countersign(&name) {
            self.left_follow_ups(lease, &name, why);
            return Ok(());
        }
        self.finish(lease.serial);
        self.ask_again(&name, why);
        Ok(())
    }

    fn ask_again(&mut self, name: &str, why: &str) {
        self.ticket.counts.unusable_reviews += 1;
        let first = self
            .ticket
            .seats
            .first()
            .is_some_and(|seat| seat.name == name);
        let Some(seat) = self.ticket.seats.iter_mut().find(|seat| seat.name == name) else {
            return;
        };
        seat.answer = None;
        seat.refusal = None;
        seat.attempts += 1;
        let attempts = seat.attempts;
        if attempts > self.policy.limits.unusable_reviews_max {
            self.escalate(Reason::NoUsableReview { attempts }, Stage::Reviewing, why);
        } else if self.affords(Stage::Reviewing) {
            let spec = self.seat_spec(name).cloned().unwrap_or_else(|| SeatSpec {
                name: name.to_owned(),
                ..SeatSpec::default()
            });
            self.order_review(&spec, first);
        }
    }

    /// A review that stated no verdict lived by the findings that it named. Where none of them
    /// stands, it says nothing, and somebody else is asked. True where that is so.
    pub(super) fn ask_again_where_nothing_is_said(&mut self) -> bool {
        let ledger = &self.ticket.ledger;
        let stands = |id: &String| {
            let entry = ledger.get(id);
            entry.is_some_and(|entry| entry.status.is_open() && !entry.low_confidence)
        };
        let empty = self.ticket.seats.iter().find(|seat| {
            seat.answer.as_ref().is_some_and(|answer| {
                answer.claim == ReviewClaim::Unknown && !answer.reported.iter().any(stands)
            })
        });
        let Some(name) = empty.map(|seat| seat.name.clone()) else {
            return false;
        };
        self.ask_again(
            &name,
            "it stated no verdict, and nothing that it named stands",
        );
        true
    }
}
