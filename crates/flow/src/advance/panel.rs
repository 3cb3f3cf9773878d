//! The panel: which reviewers read the change in this round, and which are asked again.
//!
//! A review costs money and time, so an earlier one is reused where nothing that it saw has
//! changed: the same tree, on the same base, under the same policy. Everything that could make that
//! reuse wrong is checked here.

use findings::ReviewClaim;

use super::Refused;
use super::transition::Transition;
use crate::event::Lease;
use crate::job::Task;
use crate::policy::{ReviewMode, ReviewerConfig, VerifyOpenFindings};
use crate::ticket::{ApprovedBy, PanelReviewer, Reason, ReviewerAnswer, ReworkReason, Stage};

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
        // The approval says so in its record and in a trailer; it is never shown as a review.
        if self.policy.review == ReviewMode::None {
            return self.approve(ApprovedBy::NobodyAsPolicySays);
        }
        // Before the count of rounds: an approval that exists already needs no round.
        if let Some(round) = self.earlier_approval_round() {
            return self.approve(ApprovedBy::Earlier { round });
        }
        if self.rounds_used_up() {
            return self.on_rounds_exhausted();
        }
        // The round begins before the budget is checked, because the new round has a budget of its
        // own.
        self.enter_round();
        if self.check_budget(Stage::Reviewing) {
            self.open_review(reuse);
        }
    }

    fn open_review(&mut self, reuse: ReviewReuse) {
        let Some(commit) = self.current_commit() else {
            return self.order_build();
        };
        // A new review replaces the old approval, whatever its result.
        self.void_approval();
        self.ticket.stage = Stage::Reviewing;
        self.ticket.review_started_at = self.event.at;
        // Reviewers may name new findings, which have to be verified in this round again.
        self.ticket.verified_new = false;
        self.ticket.panel = Vec::new();
        let earlier = self
            .reusable_reviews()
            .filter(|_| reuse == ReviewReuse::Allowed);
        // Verifying first is cheaper: an unfixed finding goes back without a paid panel. Reused
        // reviews cost nothing, so there is nothing to save.
        if earlier.is_none() && self.policy.verify_open == VerifyOpenFindings::BeforeReview {
            self.order_open_verification(commit);
            return self.decide_when_complete();
        }
        self.assign_panel(earlier);
        // Assigning the panel can escalate the ticket, if nobody may judge. Then no job may be
        // ordered.
        if self.ticket.stage == Stage::Reviewing {
            self.order_open_verification(commit);
            self.decide_when_complete();
        }
    }

    /// Continues after open findings were verified before the review. Unfixed ones go back to the
    /// builder without a review, but only `unfixed_max` times; then the reviewers read the change.
    pub(super) fn after_open_findings_verified(&mut self) {
        let open = !self.ticket.ledger.open_must_fix(self.policy).is_empty();
        // The limit keeps a wrong verifier from sending the same change back for ever. After it,
        // the reviewers see for themselves.
        if open && self.ticket.counts.unfixed < self.policy.limits.unfixed_max {
            self.ticket.counts.unfixed += 1;
            return self.start_rework(ReworkReason::Findings);
        }
        if self.check_budget(Stage::Reviewing) {
            self.assign_panel(None);
        }
    }

    fn assign_panel(&mut self, earlier: Option<Vec<PanelReviewer>>) {
        let Some(reviewers) = earlier else {
            let panel = self.select_panel();
            return self.assign_reviewers(&panel);
        };
        self.ticket.panel = reviewers;
    }

    fn assign_reviewers(&mut self, panel: &[ReviewerConfig]) {
        for reviewer in panel {
            let first = self.ticket.panel.is_empty();
            self.ticket.panel.push(PanelReviewer {
                name: reviewer.name.clone(),
                attempts: 0,
                linter: reviewer.is_linter(),
                answer: None,
                refusal: None,
            });
            // The ticket is escalated in that case, and its jobs are dropped. More of them would
            // run without use.
            if !self.order_review(reviewer, first) {
                return;
            }
        }
    }

    /// Asks the second reviewers, which read the change only once the others would approve it. They
    /// see nothing of the other reviews. Returns whether there is a reviewer left to ask.
    pub(super) fn add_second_reviewers(&mut self) -> bool {
        let (reviewers, round) = (&self.ticket.panel, self.ticket.round);
        let is_in_panel =
            |reviewer: &ReviewerConfig| reviewers.iter().any(|one| one.name == reviewer.name);
        let all = self.policy.reviewers.iter();
        let second = all.filter(|reviewer| {
            reviewer.second_reviewer && reviewer.applies_to(&self.ticket, round)
        });
        let second: Vec<ReviewerConfig> = second
            // A second reviewer that is in the panel already has answered. Without this filter it
            // would be asked after every yes.
            .filter(|reviewer| !is_in_panel(reviewer))
            .cloned()
            .collect();
        if second.is_empty() {
            return false;
        }
        if self.check_budget(Stage::Reviewing) {
            // Findings of a second reviewer are verified as well.
            self.ticket.verified_new = false;
            self.assign_reviewers(&second);
        }
        true
    }

    /// Returns the policy's reviewers whose conditions fit this change. If none except linters fit,
    /// the first reviewer is asked in any case.
    /// A linter alone never approves a change. Conditions on paths or sizes that fit no reviewer
    /// must not turn the review off.
    fn select_panel(&self) -> Vec<ReviewerConfig> {
        let all = &self.policy.reviewers;
        let round = self.ticket.round;
        let fits = |reviewer: &&ReviewerConfig| {
            !reviewer.second_reviewer && reviewer.applies_to(&self.ticket, round)
        };
        let panel: Vec<ReviewerConfig> = all.iter().filter(fits).cloned().collect();
        if panel.iter().any(|reviewer| !reviewer.is_linter()) {
            return panel;
        }
        let first = all
            .iter()
            .find(|reviewer| !reviewer.is_linter() && !reviewer.second_reviewer);
        first.cloned().into_iter().chain(panel).collect()
    }

    /// Returns the reviews of the round before, if they are of the same tree, base and policy.
    fn reusable_reviews(&self) -> Option<Vec<PanelReviewer>> {
        let (now, last) = (self.ticket.submission.as_ref()?, self.ticket.rounds.last()?);
        let same = last.tree == now.tree
            && last.base_tree == now.base_tree
            && last.policy == self.policy.id();
        // A reviewer may have become an author since, for example as a fallback builder.
        let by_author = |reviewer: &PanelReviewer| {
            let answer = reviewer.answer.as_ref();
            answer.is_none_or(|answer| self.ticket.authors.contains(&answer.reviewer))
        };
        // A review that was interrupted before its verdict leaves its findings: a reviewer that
        // approved before and reported something since may no longer approve.
        let reported_since = |reviewer: &String| {
            let mut entries = self.ticket.ledger.entries.iter();
            entries.any(|e| e.last_round > last.number && e.reported_by.contains(reviewer))
        };
        let taken_back = |reviewer: &PanelReviewer| {
            let answer = reviewer.answer.as_ref();
            answer.is_some_and(|a| a.claim == ReviewClaim::Approved && reported_since(&a.reviewer))
        };
        // An approval that speaks for the open findings says nothing about those reported after it.
        let has_open = !self.ticket.ledger.open_must_fix(self.policy).is_empty();
        let outdated = |reviewer: &PanelReviewer| {
            let answer = reviewer.answer.as_ref();
            let speaks = |a: &ReviewerAnswer| a.answers_open && a.claim == ReviewClaim::Approved;
            has_open && answer.is_some_and(speaks)
        };
        let mut reviewers = last.panel.iter();
        let sound =
            // An empty panel would be an approval by nobody.
            !last.panel.is_empty()
                && !reviewers.any(|one| by_author(one) || taken_back(one) || outdated(one));
        (same && sound).then(|| last.panel.clone())
    }

    /// Orders a review. A reviewer that a person chose takes the first reviewer; the others keep
    /// theirs. Returns false if the agent is an author and no fallback may take its place.
    fn order_review(&mut self, reviewer: &ReviewerConfig, first: bool) -> bool {
        let Some(commit) = self.current_commit() else {
            return false;
        };
        let chosen = self.ticket.assigned.reviewer.clone();
        let agent = chosen.filter(|_| first).or_else(|| reviewer.agent.clone());
        let task = Task::Review {
            commit,
            round: self.ticket.round,
            reviewer: reviewer.name.clone(),
        };
        // Checked before the order, because the agent is known here. The claim checks it again.
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

    /// Returns the round in which the same tree on the same base was approved under this policy,
    /// unless it was rejected since or must-fix findings are open. The same diff is not enough: a
    /// builder that resolves a conflict can put the same lines at another place.
    fn earlier_approval_round(&self) -> Option<u32> {
        let now = self.ticket.submission.as_ref()?;
        let mut later = self.ticket.rounds.iter().rev();
        // The newest round on this tree counts: a rejection after an approval takes it back.
        let was_rejected = later
            .find(|round| round.tree == now.tree)
            .is_some_and(|round| !round.verdict.approved);
        if was_rejected || !self.ticket.ledger.open_must_fix(self.policy).is_empty() {
            return None;
        }
        let policy = self.policy.id();
        let same = self.ticket.approvals_voided.iter().rev().find(|earlier| {
            let same_tree = earlier.tree == now.tree && earlier.base_tree == now.base_tree;
            same_tree && earlier.policy == policy
        })?;
        // A person accepted open findings or red checks for one commit only, so that is not reused.
        (!matches!(same.by, ApprovedBy::Person { .. })).then_some(same.round)
    }

    /// Returns nothing for jobs of another kind, so that a report on them is refused.
    pub(super) fn reviewer_of_job(&self, serial: u32) -> Option<String> {
        let job = self.ticket.jobs.iter().find(|job| job.serial == serial)?;
        match &job.task {
            Task::Review { reviewer, .. } => Some(reviewer.clone()),
            Task::Build { .. }
            | Task::Check { .. }
            | Task::Verify { .. }
            | Task::Merge { .. }
            | Task::Tell { .. }
            | Task::Report => None,
        }
    }

    pub(super) fn reviewer_config(&self, name: &str) -> Option<&ReviewerConfig> {
        self.policy.reviewers.iter().find(|spec| spec.name == name)
    }

    /// Asks for another review from a new session, and after too many unusable ones a person.
    /// A review is unusable if it has no verdict, changed the checkout, or was cut off. It costs no
    /// round: the builder has nothing to fix in it.
    pub(super) fn on_review_unusable(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        let Some(name) = self.reviewer_of_job(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        // The first answer of this reviewer is usable. Asking for a whole new review would discard
        // it.
        if self.is_asked_to_countersign(&name) {
            self.on_follow_ups_unanswered(lease, &name, why);
            return Ok(());
        }
        self.finish_job(lease.serial);
        self.retry_reviewer(&name, why);
        Ok(())
    }

    fn retry_reviewer(&mut self, name: &str, why: &str) {
        self.ticket.counts.unusable_reviews += 1;
        let first = self
            .ticket
            .panel
            .first()
            .is_some_and(|reviewer| reviewer.name == name);
        let Some(reviewer) = self
            .ticket
            .panel
            .iter_mut()
            .find(|reviewer| reviewer.name == name)
        else {
            return;
        };
        // The old answer goes first. A later verdict must not count half of an unusable review.
        reviewer.answer = None;
        reviewer.refusal = None;
        reviewer.attempts += 1;
        let attempts = reviewer.attempts;
        if attempts > self.policy.limits.unusable_reviews_max {
            self.escalate(Reason::NoUsableReview { attempts }, Stage::Reviewing, why);
        } else if self.check_budget(Stage::Reviewing) {
            let spec = self
                .reviewer_config(name)
                .cloned()
                // If the policy no longer has the reviewer, its name alone is enough to ask again.
                .unwrap_or_else(|| ReviewerConfig {
                    name: name.to_owned(),
                    ..ReviewerConfig::default()
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
            // A note decides nothing, so a review that has only notes left says nothing either.
            entry.is_some_and(|entry| entry.status.is_open() && !entry.low_confidence)
        };
        let empty = self.ticket.panel.iter().find(|reviewer| {
            reviewer.answer.as_ref().is_some_and(|answer| {
                answer.claim == ReviewClaim::Unknown && !answer.reported.iter().any(is_open)
            })
        });
        let Some(name) = empty.map(|reviewer| reviewer.name.clone()) else {
            return false;
        };
        self.retry_reviewer(
            &name,
            "it stated no verdict, and nothing that it named stands",
        );
        true
    }
}
