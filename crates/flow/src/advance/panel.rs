//! The panel: which reviewers read the change in this round, and which are asked again.

use findings::ReviewClaim;

use super::Refused;
use super::transition::Transition;
use crate::event::Lease;
use crate::job::Task;
use crate::policy::{Land, ReviewMode, SeatSpec, VerifyOpenFindings};
use crate::ticket::{ApprovedBy, Reason, ReworkReason, Seat, Stage};

/// Whether earlier reviews of an identical tree may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewReuse {
    /// Earlier reviews of the same tree count.
    Allowed,
    /// A person asks for new reviews.
    Forbidden,
}

impl Transition<'_> {
    /// Starts the review, or approves the change if the policy or an earlier approval allows it.
    pub(super) fn go_to_review(&mut self, reuse: ReviewReuse) {
        if self.policy.review == ReviewMode::None {
            return self.approve(ApprovedBy::NobodyAsPolicySays);
        }
        if let Some(round) = self.earlier_approval_round() {
            return self.approve(ApprovedBy::Earlier { round });
        }
        if self.rounds_used_up() {
            return self.on_rounds_exhausted();
        }
        self.enter_round();
        if self.check_budget(Stage::Reviewing) {
            self.open_review(reuse);
        }
    }

    fn open_review(&mut self, reuse: ReviewReuse) {
        let Some(commit) = self.current_commit() else {
            return self.order_build();
        };
        self.void_approval();
        self.ticket.stage = Stage::Reviewing;
        self.ticket.review_started_at = self.event.at;
        self.ticket.verified_new = false;
        self.ticket.seats = Vec::new();
        let earlier = self
            .reusable_reviews()
            .filter(|_| reuse == ReviewReuse::Allowed);
        if earlier.is_none() && self.policy.verify_open == VerifyOpenFindings::BeforeReview {
            self.order_open_verification(commit);
            return self.decide_when_complete();
        }
        self.seat_reviewers(earlier);
        if self.ticket.stage == Stage::Reviewing {
            self.order_open_verification(commit);
            self.decide_when_complete();
        }
    }

    /// Continues after open findings were verified before the review. Unfixed ones go back to the
    /// builder without a review, but only `unfixed_max` times; then the reviewers read the change.
    pub(super) fn after_open_findings_verified(&mut self) {
        let open = !self.ticket.ledger.open_must_fix(self.policy).is_empty();
        if open && self.ticket.counts.unfixed < self.policy.limits.unfixed_max {
            self.ticket.counts.unfixed += 1;
            return self.start_rework(ReworkReason::Findings);
        }
        if self.check_budget(Stage::Reviewing) {
            self.seat_reviewers(None);
        }
    }

    fn seat_reviewers(&mut self, earlier: Option<Vec<Seat>>) {
        let Some(seats) = earlier else {
            let panel = self.select_panel();
            return self.assign_seats(&panel);
        };
        self.ticket.seats = seats;
    }

    fn assign_seats(&mut self, panel: &[SeatSpec]) {
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

    /// Asks the second reviewers, which read the change only once the others would approve it. They
    /// see nothing of the other reviews. Returns whether there is a reviewer left to ask.
    pub(super) fn seat_second_reviewers(&mut self) -> bool {
        let (seats, round) = (&self.ticket.seats, self.ticket.round);
        let is_seated = |seat: &SeatSpec| seats.iter().any(|one| one.name == seat.name);
        let all = self.policy.reviewers.iter();
        let second =
            all.filter(|seat| seat.second_reviewer && seat.applies_to(&self.ticket, round));
        let second: Vec<SeatSpec> = second.filter(|seat| !is_seated(seat)).cloned().collect();
        if second.is_empty() {
            return false;
        }
        if self.check_budget(Stage::Reviewing) {
            self.ticket.verified_new = false;
            self.assign_seats(&second);
        }
        true
    }

    /// Returns the policy's reviewers whose conditions fit this change. If none except linters fit,
    /// the first reviewer is asked in any case.
    fn select_panel(&self) -> Vec<SeatSpec> {
        let all = &self.policy.reviewers;
        let round = self.ticket.round;
        let fits = |seat: &&SeatSpec| !seat.second_reviewer && seat.applies_to(&self.ticket, round);
        let panel: Vec<SeatSpec> = all.iter().filter(fits).cloned().collect();
        if panel.iter().any(|seat| !seat.is_linter()) {
            return panel;
        }
        let first = all
            .iter()
            .find(|seat| !seat.is_linter() && !seat.second_reviewer);
        first.cloned().into_iter().chain(panel).collect()
    }

    /// Returns the reviews of the round before, if they are of the same tree, base and policy.
    fn reusable_reviews(&self) -> Option<Vec<Seat>> {
        let (now, last) = (self.ticket.submission.as_ref()?, self.ticket.rounds.last()?);
        let same = last.tree == now.tree
            && last.base_tree == now.base_tree
            && last.policy == self.policy.id();
        let by_author = |seat: &Seat| {
            let answer = seat.answer.as_ref();
            answer.is_none_or(|answer| self.ticket.authors.contains(&answer.reviewer))
        };
        // A review that was interrupted before its verdict leaves its findings: a reviewer that
        // approved before and reported something since may no longer approve.
        let reported_since = |reviewer: &String| {
            let mut entries = self.ticket.ledger.entries.iter();
            entries.any(|e| e.last_round > last.number && e.reported_by.contains(reviewer))
        };
        let taken_back = |seat: &Seat| {
            let answer = seat.answer.as_ref();
            answer.is_some_and(|a| a.claim == ReviewClaim::Approved && reported_since(&a.reviewer))
        };
        let mut seats = last.seats.iter();
        let sound = !last.seats.is_empty() && !seats.any(|one| by_author(one) || taken_back(one));
        (same && sound).then(|| last.seats.clone())
    }

    /// Orders a review. A reviewer that a person chose takes the first seat; the others keep
    /// theirs. Returns false if the agent is an author and no fallback may take its place.
    fn order_review(&mut self, seat: &SeatSpec, first: bool) -> bool {
        let Some(commit) = self.current_commit() else {
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
            self.order_job(task, agent);
            return true;
        };
        let ordered = self.order_from_fallback(task, &author);
        if !ordered {
            let why = format!("{author} is to review, and has built part of the change");
            self.escalate_no_eligible_reviewer(&why);
        }
        ordered
    }

    pub(super) fn escalate_no_eligible_reviewer(&mut self, why: &str) {
        let reason = Reason::NobodyToJudge {
            why: why.to_owned(),
        };
        self.escalate(reason, Stage::Reviewing, why);
    }

    /// Returns the round in which the same tree on the same base (in a landing queue: the same
    /// diff) was approved under this policy, unless it was rejected since or must-fix findings are
    /// open.
    fn earlier_approval_round(&self) -> Option<u32> {
        let now = self.ticket.submission.as_ref()?;
        let mut later = self.ticket.rounds.iter().rev();
        let was_rejected = later
            .find(|round| round.tree == now.tree)
            .is_some_and(|round| !round.verdict.approved);
        if was_rejected || !self.ticket.ledger.open_must_fix(self.policy).is_empty() {
            return None;
        }
        let policy = self.policy.id();
        let same = self.ticket.approvals_voided.iter().rev().find(|earlier| {
            let same_tree = earlier.tree == now.tree && earlier.base_tree == now.base_tree;
            // A queue puts a change on the newest base; only a changed diff needs a new review.
            let same_diff = !now.diff_id.is_empty()
                && earlier.diff_id == now.diff_id
                && self.policy.land == Land::Queue;
            (same_tree || same_diff) && earlier.policy == policy
        })?;
        // A person accepted open findings or red checks for one commit only, so that is not reused.
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

    /// Asks for another review from a new session, and after too many unusable ones a person.
    pub(super) fn on_review_unusable(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        let Some(name) = self.seat_of(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        if self.is_asked_to_countersign(&name) {
            self.on_follow_ups_unanswered(lease, &name, why);
            return Ok(());
        }
        self.finish_job(lease.serial);
        self.retry_seat(&name, why);
        Ok(())
    }

    fn retry_seat(&mut self, name: &str, why: &str) {
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
        } else if self.check_budget(Stage::Reviewing) {
            let spec = self.seat_spec(name).cloned().unwrap_or_else(|| SeatSpec {
                name: name.to_owned(),
                ..SeatSpec::default()
            });
            self.order_review(&spec, first);
        }
    }

    /// Asks for another review if one without a verdict has no open finding left: it counted only
    /// for its findings. Returns whether that was so.
    pub(super) fn retry_empty_review(&mut self) -> bool {
        let ledger = &self.ticket.ledger;
        let is_open = |id: &String| {
            let entry = ledger.get(id);
            entry.is_some_and(|entry| entry.status.is_open() && !entry.low_confidence)
        };
        let empty = self.ticket.seats.iter().find(|seat| {
            seat.answer.as_ref().is_some_and(|answer| {
                answer.claim == ReviewClaim::Unknown && !answer.reported.iter().any(is_open)
            })
        });
        let Some(name) = empty.map(|seat| seat.name.clone()) else {
            return false;
        };
        self.retry_seat(
            &name,
            "it stated no verdict, and nothing that it named stands",
        );
        true
    }
}
