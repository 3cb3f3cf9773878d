//! Reviews, verification, and the verdict that follows from them.

use std::collections::BTreeSet;

use findings::{Claim, Finding, Rating, Review, Severity};

use super::Refused;
use super::draft::Draft;
use crate::event::{Answer, AnswerOutcome, Lease};
use crate::job::Task;
use crate::ledger::{Incoming, Status};
use crate::policy::{OnExhausted, ReviewMode, SeatSpec, Verify};
use crate::ticket::{ApprovedBy, Reason, Round, Seat, SeatAnswer, Setback, Stage};
use crate::verdict::{Verdict, verdict};

/// Must-fix findings that have not fallen over so many verdicts end the loop.
const VERDICTS_WITHOUT_PROGRESS: usize = 3;
/// How much of a reviewer's text becomes a title.
const TITLE_CHARS_MAX: usize = 120;

impl Draft<'_> {
    /// The checks have nothing against it: on to the reviewers, if there is need of any.
    pub(super) fn go_to_review(&mut self) {
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
            self.open_review();
        }
    }

    fn open_review(&mut self) {
        let Some(commit) = self.commit() else {
            return self.order_build();
        };
        let round = self.ticket.round;
        self.void_approval();
        self.ticket.stage = Stage::Reviewing;
        self.ticket.review_started_at = self.event.at;
        self.ticket.verified_new = false;
        self.ticket.seats = Vec::new();
        for seat in &self.policy.reviewers {
            self.ticket.seats.push(Seat {
                name: seat.name.clone(),
                attempts: 0,
                answer: None,
            });
            self.order_review(seat);
        }
        let open: Vec<String> = self
            .ticket
            .ledger
            .open_must_fix(self.policy)
            .iter()
            .map(|entry| entry.id.clone())
            .collect();
        if !open.is_empty() {
            self.order(
                Task::Verify {
                    commit,
                    round,
                    findings: open,
                },
                None,
            );
        }
    }

    fn order_review(&mut self, seat: &SeatSpec) {
        let Some(commit) = self.commit() else { return };
        let agent = self
            .ticket
            .assigned
            .reviewer
            .clone()
            .or_else(|| seat.agent.clone());
        self.order(
            Task::Review {
                commit,
                round: self.ticket.round,
                seat: seat.name.clone(),
            },
            agent,
        );
    }

    /// The round in which this very tree, on this very base, was approved under this policy,
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
            earlier.tree == now.tree
                && earlier.base_tree == now.base_tree
                && earlier.policy == policy
        })?;
        // A person's word over open findings or red checks is for one commit; it is not lent.
        (!matches!(same.by, ApprovedBy::Person { .. })).then_some(same.round)
    }

    pub(super) fn reviewed(
        &mut self,
        lease: Lease,
        commit: &str,
        review: &Review,
        isolation: &str,
    ) -> Result<(), Refused> {
        self.must_be_current(commit)?;
        self.must_not_judge_own_work()?;
        if let Some(why) = unusable(review, self.policy) {
            return self.review_unusable(lease, why);
        }
        let Some(seat) = self.seat_of(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        self.finish(lease.serial);
        let answer = self.answer(review, isolation);
        if let Some(seat) = self
            .ticket
            .seats
            .iter_mut()
            .find(|known| known.name == seat)
        {
            seat.answer = Some(answer);
        }
        self.decide_when_complete();
        Ok(())
    }

    pub(super) fn must_not_judge_own_work(&self) -> Result<(), Refused> {
        self.must_be_no_author(&self.event.by.principal)
    }

    pub(super) fn must_be_no_author(&self, principal: &str) -> Result<(), Refused> {
        if self.ticket.authors.contains(principal) {
            return Err(Refused::OwnWork {
                principal: principal.to_owned(),
            });
        }
        Ok(())
    }

    fn seat_of(&self, serial: u32) -> Option<String> {
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

    /// Findings and blocking issues go into the ledger; a bare rejection becomes a finding.
    /// Says which entries it spoke of, and how many findings were beyond the limit.
    fn take_in(&mut self, review: &Review) -> (BTreeSet<String>, usize) {
        let most = self.policy.limits.findings_max as usize;
        let blocking: Vec<Finding> = review
            .blocking_issues
            .iter()
            .map(blocking_finding)
            .collect();
        let bare = bare_rejection(review);
        let mut incoming: Vec<Incoming<'_>> = blocking
            .iter()
            .map(|finding| Incoming {
                finding,
                blocking: true,
            })
            .chain(bare.iter().map(|finding| Incoming {
                finding,
                blocking: false,
            }))
            .chain(review.findings.iter().map(|finding| Incoming {
                finding,
                blocking: false,
            }))
            .collect();
        let left_out = incoming.len().saturating_sub(most);
        if left_out > 0 {
            // The gravest stay: a flood of small ones must not wash them away.
            incoming.sort_by_key(|one| {
                let finding = one.finding;
                (!one.blocking, !finding.actionable, finding.rating.severity)
            });
            incoming.truncate(most);
        }
        let touched = self
            .ticket
            .submission
            .as_ref()
            .map(|put| put.touched.clone())
            .unwrap_or_default();
        let by = self.event.by.agent.clone();
        let ledger = &mut self.ticket.ledger;
        let reported = ledger.absorb(self.ticket.round, &by, &incoming, &touched);
        (reported, left_out)
    }

    fn answer(&mut self, review: &Review, isolation: &str) -> SeatAnswer {
        let (reported, left_out) = self.take_in(review);
        let mut remarks = review.remarks.clone();
        if left_out > 0 {
            remarks.push(format!("{left_out} more findings were not kept"));
        }
        SeatAnswer {
            reviewer: self.event.by.agent.clone(),
            claim: review.claim,
            reported,
            scores: review.scores.clone(),
            overall_score: review.overall_score,
            blocking_issues: u32::try_from(review.blocking_issues.len()).unwrap_or(u32::MAX),
            criteria: review.criteria.clone(),
            notes: review.notes.clone(),
            isolation: isolation.to_owned(),
            remarks,
        }
    }

    /// Another reviewer with a fresh mind, and after too many of them a person.
    pub(super) fn review_unusable(&mut self, lease: Lease, why: &str) -> Result<(), Refused> {
        let Some(name) = self.seat_of(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        self.finish(lease.serial);
        self.ticket.counts.unusable_reviews += 1;
        let Some(seat) = self.ticket.seats.iter_mut().find(|seat| seat.name == name) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        seat.attempts += 1;
        let attempts = seat.attempts;
        if attempts > self.policy.limits.unusable_reviews_max {
            self.escalate(Reason::NoUsableReview { attempts }, Stage::Reviewing, why);
        } else if self.affords(Stage::Reviewing) {
            let spec = self
                .policy
                .reviewers
                .iter()
                .find(|spec| spec.name == name)
                .cloned();
            self.order_review(&spec.unwrap_or(SeatSpec {
                name,
                lens: None,
                agent: None,
            }));
        }
        Ok(())
    }

    pub(super) fn verified(
        &mut self,
        lease: Lease,
        commit: &str,
        answers: &[Answer],
    ) -> Result<(), Refused> {
        self.must_be_current(commit)?;
        self.must_not_judge_own_work()?;
        let asked = self.asked_in(lease.serial);
        self.finish(lease.serial);
        let (round, by) = (self.ticket.round, self.event.by.agent.clone());
        for id in &asked {
            let answer = self.word_on(id, answers);
            self.ticket.ledger.hear_verifier(round, &by, &answer);
        }
        self.decide_when_complete();
        Ok(())
    }

    /// The verifier's word on one finding. Silence and contradiction are uncertain, and what a
    /// reviewer reports on this very commit can be refuted, but it cannot be fixed.
    fn word_on(&self, id: &str, answers: &[Answer]) -> Answer {
        let uncertain = |evidence: &str| Answer {
            finding: id.to_owned(),
            outcome: AnswerOutcome::Uncertain,
            evidence: evidence.to_owned(),
        };
        let mut given = answers.iter().filter(|answer| answer.finding == id);
        let Some(first) = given.next() else {
            return uncertain("the verifier did not answer");
        };
        if given.any(|other| other.outcome != first.outcome) {
            return uncertain("the verifier contradicts itself");
        }
        let mut reviews = self.ticket.seats.iter().filter_map(|s| s.answer.as_ref());
        if first.outcome == AnswerOutcome::Fixed && reviews.any(|r| r.reported.contains(id)) {
            return uncertain("called fixed, but a reviewer reports it on this commit");
        }
        first.clone()
    }

    fn asked_in(&self, serial: u32) -> Vec<String> {
        let job = self.ticket.jobs.iter().find(|job| job.serial == serial);
        match job.map(|job| &job.task) {
            Some(Task::Verify { findings, .. }) => findings.clone(),
            Some(
                Task::Build { .. }
                | Task::Check { .. }
                | Task::Review { .. }
                | Task::Merge { .. }
                | Task::Tell { .. },
            )
            | None => Vec::new(),
        }
    }

    /// With the last answer in, new must-fix findings may be put to a verifier; then it is decided.
    fn decide_when_complete(&mut self) {
        if !self.ticket.jobs.is_empty() {
            return;
        }
        if self.policy.verify == Verify::MustFix && !self.ticket.verified_new {
            self.ticket.verified_new = true;
            if self.order_verification_of_new() {
                return;
            }
        }
        self.decide();
    }

    /// One verifier for each, with nothing but the finding and the code.
    fn order_verification_of_new(&mut self) -> bool {
        let round = self.ticket.round;
        let new: Vec<String> = self
            .ticket
            .ledger
            .open_must_fix(self.policy)
            .iter()
            .filter(|entry| entry.first_round == round || entry.status == Status::Reopened)
            .map(|entry| entry.id.clone())
            .collect();
        let Some(commit) = self.commit().filter(|_| !new.is_empty()) else {
            return false;
        };
        if self.affords(Stage::Reviewing) {
            for id in new {
                self.order(
                    Task::Verify {
                        commit: commit.clone(),
                        round,
                        findings: vec![id],
                    },
                    None,
                );
            }
        }
        true
    }

    fn decide(&mut self) {
        self.ticket.ledger.end_round(self.ticket.round);
        let verdict = verdict(&self.ticket, self.policy);
        self.ticket.counts.verdicts += 1;
        self.record_round(&verdict);
        if verdict.approved {
            let names = verdict.claims.keys().cloned().collect();
            return self.approve(ApprovedBy::Reviewers { names });
        }
        self.ticket.setback = Some(Setback::Findings);
        let back = self.came_back();
        if !back.is_empty() {
            let evidence = format!("fixed before, and back: {}", back.join(", "));
            self.escalate(
                Reason::FindingCameBack { findings: back },
                Stage::Rework,
                &evidence,
            );
        } else if self.rounds_used_up() {
            self.exhausted();
        } else if let Some(open) = self.no_progress() {
            let evidence = format!("open must-fix findings after the last verdicts: {open:?}");
            self.escalate(Reason::NoProgress { open }, Stage::Rework, &evidence);
        } else {
            self.rework(Setback::Findings);
        }
    }

    fn record_round(&mut self, verdict: &Verdict) {
        let submission = self.ticket.submission.clone().unwrap_or_default();
        self.ticket.rounds.push(Round {
            number: self.ticket.round,
            allowed: self.policy.rounds_allowed(self.ticket.counts.granted),
            commit: submission.commit,
            tree: submission.tree,
            review_started_at: self.ticket.review_started_at,
            decided_at: self.event.at,
            verdict: verdict.clone(),
            seats: self.ticket.seats.clone(),
            checks: self
                .ticket
                .checks
                .as_ref()
                .map(|checks| checks.results.clone())
                .unwrap_or_default(),
            usage: self.ticket.spent.round,
        });
    }

    fn came_back(&self) -> Vec<String> {
        let (round, policy) = (self.ticket.round, self.policy);
        let open = self.ticket.ledger.open_must_fix(policy);
        open.iter()
            .filter(|entry| entry.came_back_in(round))
            .map(|entry| entry.id.clone())
            .collect()
    }

    /// The counts of open must-fix findings, if they have not fallen for too long.
    fn no_progress(&self) -> Option<Vec<u32>> {
        let since_reset = self.ticket.counts.verdicts as usize;
        let recent = since_reset.min(VERDICTS_WITHOUT_PROGRESS);
        let rounds = &self.ticket.rounds;
        let open: Vec<u32> = rounds
            .iter()
            .skip(rounds.len().saturating_sub(recent))
            .map(|round| round.verdict.open_must_fix)
            .collect();
        let stuck = open.len() == VERDICTS_WITHOUT_PROGRESS && open.is_sorted();
        stuck.then_some(open)
    }

    pub(super) fn rounds_used_up(&self) -> bool {
        self.ticket.counts.verdicts >= self.policy.rounds_allowed(self.ticket.counts.granted)
    }

    /// A policy that fails, fails what reviewers have turned down. A commit that they approved or
    /// never saw is for a person to decide.
    pub(super) fn exhausted(&mut self) {
        let rounds = self.ticket.counts.verdicts;
        let last = self.ticket.rounds.last();
        let turned_down = last.is_some_and(|round| {
            !round.verdict.approved && self.commit().as_ref() == Some(&round.commit)
        });
        if turned_down && self.policy.on_exhausted == OnExhausted::Fail {
            let revisions = rounds.saturating_sub(1);
            return self.fail(&format!("Review failed after {revisions} revisions"));
        }
        let evidence = if turned_down {
            format!("after {rounds} review rounds, issues remain")
        } else {
            format!("{rounds} review rounds are used up, and the change needs another")
        };
        self.escalate(Reason::RoundsUsedUp { rounds }, Stage::Rework, &evidence);
    }
}

/// Why a review cannot be a basis for a verdict, if it cannot.
fn unusable(review: &Review, policy: &crate::policy::Policy) -> Option<&'static str> {
    let names_must_fix = !review.blocking_issues.is_empty()
        || review.findings.iter().any(|finding| {
            finding.actionable && policy.must_fix.contains(&finding.rating.severity)
        });
    let silent = review.claim == Claim::Unknown && !names_must_fix;
    silent.then_some("it states no verdict and names nothing that must be fixed")
}

fn blocking_finding(issue: &findings::BlockingIssue) -> Finding {
    Finding {
        fix: issue.required_action.clone(),
        dimension: issue.dimension.clone(),
        problem: Some(issue.message.clone()),
        ..plain_finding(&issue.message, Severity::Critical, "blocking issue")
    }
}

/// A rejection that names nothing is one must-fix finding made of its text.
fn bare_rejection(review: &Review) -> Option<Finding> {
    let names_something = review.findings.iter().any(|finding| finding.actionable);
    if review.claim != Claim::ChangesRequested
        || names_something
        || !review.blocking_issues.is_empty()
    {
        return None;
    }
    let text = review
        .notes
        .clone()
        .or_else(|| review.claim_text.clone())
        .unwrap_or_default();
    let said = if text.trim().is_empty() {
        "rejected without a reason".to_owned()
    } else {
        text
    };
    Some(Finding {
        problem: Some(said.clone()),
        ..plain_finding(&said, Severity::High, "rejection")
    })
}

fn plain_finding(text: &str, severity: Severity, raw: &str) -> Finding {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or(raw)
        .trim();
    Finding {
        title: first.chars().take(TITLE_CHARS_MAX).collect(),
        problem: None,
        impact: None,
        fix: None,
        file: None,
        line: None,
        end_line: None,
        rating: Rating {
            severity,
            raw: Some(raw.to_owned()),
            unknown_word: false,
        },
        category: None,
        dimension: None,
        confidence: None,
        rule: None,
        anchor: None,
        actionable: true,
    }
}
