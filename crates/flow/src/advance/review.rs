//! Reviews, and the verdict that follows from them.

use std::collections::BTreeSet;

use findings::{Finding, Rating, Review, ReviewClaim, Severity};

use super::Refused;
use super::transition::Transition;
use crate::event::Lease;
use crate::ledger::IncomingFinding;
use crate::policy::{OnExhausted, Policy, SeatSpec};
use crate::ticket::{Reason, ReworkReason, Round, SeatAnswer, Spec, Stage};
use crate::verdict::{Verdict, compute_verdict};

/// Verdicts without a drop in open must-fix findings after which the loop ends.
const VERDICTS_WITHOUT_PROGRESS: usize = 3;
/// Longest title made from a reviewer's text.
const TITLE_CHARS_MAX: usize = 120;

impl Transition<'_> {
    /// Records a review, or asks for another one if it is unusable.
    pub(super) fn on_reviewed(
        &mut self,
        lease: Lease,
        commit: &str,
        review: &Review,
        isolation: &str,
    ) -> Result<(), Refused> {
        self.ensure_current_commit(commit)?;
        self.ensure_not_own_work()?;
        let Some(seat) = self.seat_of(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        if self.is_asked_to_countersign(&seat) {
            return self.on_follow_ups_answered(lease, &seat, review);
        }
        let is_linter = self.seat_spec(&seat).is_some_and(SeatSpec::is_linter);
        let review = &if is_linter {
            with_linter_claim(review, self.policy)
        } else {
            review.clone()
        };
        if let Some(why) = unusable_reason(review, self.policy) {
            return self.on_review_unusable(lease, why);
        }
        if let Some(why) = self.unanswered_criteria(review).filter(|_| !is_linter) {
            return self.on_review_unusable(lease, &why);
        }
        let refusal = self
            .refusal_to_follow_up(lease.serial, review)
            .filter(|_| !is_linter);
        self.finish_job(lease.serial);
        let answer = self.record_answer(review, isolation);
        if let Some(seat) = self.ticket.seats.iter_mut().find(|one| one.name == seat) {
            seat.answer = Some(answer);
            seat.refusal = refusal;
        }
        self.decide_when_complete();
        Ok(())
    }

    pub(super) fn ensure_not_own_work(&self) -> Result<(), Refused> {
        self.ensure_not_author(&self.event.by.principal)
    }

    /// Names the criteria that this review does not answer with evidence, if the policy requires
    /// that.
    fn unanswered_criteria(&self, review: &Review) -> Option<String> {
        if !self.policy.criteria_required {
            return None;
        }
        let criteria = crate::brief::criteria(&self.ticket.spec);
        let answered = |at: usize, criterion: &str| {
            review.criteria.iter().any(|answer| {
                is_about_criterion(&answer.criterion, at, criterion)
                    && answer
                        .evidence
                        .as_ref()
                        .is_some_and(|text| !text.trim().is_empty())
            })
        };
        let missing: Vec<String> = criteria
            .iter()
            .enumerate()
            .filter(|(at, criterion)| !answered(*at, criterion))
            .map(|(at, _)| (at + 1).to_string())
            .collect();
        let list = missing.join(", ");
        (!missing.is_empty()).then(|| format!("it does not answer with evidence: criteria {list}"))
    }

    pub(super) fn ensure_not_author(&self, principal: &str) -> Result<(), Refused> {
        if self.ticket.authors.contains(principal) {
            return Err(Refused::OwnWork {
                principal: principal.to_owned(),
            });
        }
        Ok(())
    }

    /// Records the findings and blocking issues of a review in the ledger. A rejection without
    /// findings becomes one. Returns the ids of the entries, and the number of findings over the
    /// limit.
    pub(super) fn record_findings(&mut self, review: &Review) -> (BTreeSet<String>, usize) {
        let most = self.policy.limits.findings_max as usize;
        let blocking: Vec<Finding> = review
            .blocking_issues
            .iter()
            .map(blocking_finding)
            .collect();
        let mut derived: Vec<Finding> = finding_from_bare_rejection(review).into_iter().collect();
        if !names_must_fix(review, self.policy) {
            derived.extend(unmet_criteria_findings(review, &self.ticket.spec));
        }
        let incoming = |finding, blocking| IncomingFinding {
            finding,
            blocking,
            low_confidence: !blocking && self.policy.is_note(finding),
        };
        let ordinary = derived.iter().chain(&review.findings);
        let mut incoming: Vec<IncomingFinding<'_>> = blocking
            .iter()
            .map(|finding| incoming(finding, true))
            .chain(ordinary.map(|finding| incoming(finding, false)))
            .collect();
        let left_out = incoming.len().saturating_sub(most);
        if left_out > 0 {
            // Keep the most severe: many minor findings must not push them out.
            incoming.sort_by_key(|one| {
                let finding = one.finding;
                let last = (!finding.actionable, one.low_confidence);
                (!one.blocking, last, finding.rating.severity)
            });
            incoming.truncate(most);
        }
        let touched = self
            .ticket
            .submission
            .as_ref()
            .map(|submission| submission.touched.clone())
            .unwrap_or_default();
        let by = self.event.by.agent.clone();
        let ledger = &mut self.ticket.ledger;
        let reported = ledger.record_review(self.ticket.round, &by, &incoming, &touched);
        (reported, left_out)
    }

    fn record_answer(&mut self, review: &Review, isolation: &str) -> SeatAnswer {
        let (reported, left_out) = self.record_findings(review);
        let mut remarks = review.remarks.clone();
        if left_out > 0 {
            remarks.push(format!("{left_out} more findings were not kept"));
        }
        SeatAnswer {
            reviewer: self.event.by.agent.clone(),
            claim: review.claim,
            first_claim: None,
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

    /// Decides the round, unless more reviewers have to be asked first.
    pub(super) fn decide(&mut self) {
        let asks_reviewers = if compute_verdict(&self.ticket, self.policy).approved {
            self.seat_second_reviewers()
        } else {
            self.ask_about_follow_ups()
        };
        if asks_reviewers {
            return;
        }
        self.ticket.ledger.end_round(self.ticket.round);
        let verdict = compute_verdict(&self.ticket, self.policy);
        self.ticket.counts.verdicts += 1;
        self.record_round(&verdict);
        if verdict.approved {
            return self.approve(verdict.approved_by());
        }
        self.ticket.setback = Some(ReworkReason::Findings);
        let reopened = self.reopened_findings();
        if !reopened.is_empty() {
            let evidence = format!("fixed before, and back: {}", reopened.join(", "));
            self.escalate(
                Reason::FindingCameBack { findings: reopened },
                Stage::Rework,
                &evidence,
            );
        } else if let Some(notes) = self.refused_over_notes() {
            let evidence = format!(
                "refused over notes, and nothing that a reviewer is sure of has to be fixed: {}",
                notes.join(", ")
            );
            let reason = Reason::RefusedOverNotes { findings: notes };
            self.escalate(reason, Stage::Rework, &evidence);
        } else if self.rounds_used_up() {
            self.on_rounds_exhausted();
        } else if let Some(open) = self.counts_without_progress() {
            let evidence = format!("open must-fix findings after the last verdicts: {open:?}");
            self.escalate(Reason::NoProgress { open }, Stage::Rework, &evidence);
        } else {
            self.start_rework(ReworkReason::Findings);
        }
    }

    fn record_round(&mut self, verdict: &Verdict) {
        let submission = self.ticket.submission.clone().unwrap_or_default();
        self.ticket.rounds.push(Round {
            number: self.ticket.round,
            allowed: self.policy.rounds_allowed(self.ticket.counts.granted),
            commit: submission.commit,
            tree: submission.tree,
            base_tree: submission.base_tree,
            policy: self.policy.id(),
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

    fn reopened_findings(&self) -> Vec<String> {
        let (round, policy) = (self.ticket.round, self.policy);
        let open = self.ticket.ledger.open_must_fix(policy);
        open.iter()
            .filter(|entry| entry.reopened_in(round))
            .map(|entry| entry.id.clone())
            .collect()
    }

    /// Returns the last counts of open must-fix findings, if they did not fall for too long.
    fn counts_without_progress(&self) -> Option<Vec<u32>> {
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

    /// Ends the loop after the last round. With `on_exhausted = "fail"` a rejected commit fails; a
    /// commit that reviewers approved or never saw is always escalated.
    pub(super) fn on_rounds_exhausted(&mut self) {
        let rounds = self.ticket.counts.verdicts;
        let last = self.ticket.rounds.last();
        let was_rejected = last.is_some_and(|round| {
            !round.verdict.approved && self.current_commit().as_ref() == Some(&round.commit)
        });
        if was_rejected && self.policy.on_exhausted == OnExhausted::Fail {
            let revisions = rounds.saturating_sub(1);
            return self.fail_ticket(&format!("Review failed after {revisions} revisions"));
        }
        let evidence = if was_rejected {
            format!("after {rounds} review rounds, issues remain")
        } else {
            format!("{rounds} review rounds are used up, and the change needs another")
        };
        self.escalate(Reason::RoundsUsedUp { rounds }, Stage::Rework, &evidence);
    }
}

/// Returns the reason why no verdict can be based on the review, if there is one.
pub(crate) fn unusable_reason(review: &Review, policy: &Policy) -> Option<&'static str> {
    let is_unusable = review.claim == ReviewClaim::Unknown && !names_must_fix(review, policy);
    is_unusable.then_some("it states no verdict and names nothing that must be fixed")
}

pub(crate) fn names_must_fix(review: &Review, policy: &Policy) -> bool {
    let must = |finding: &Finding| {
        finding.actionable
            && policy.must_fix.contains(&finding.rating.severity)
            && !policy.is_note(finding)
    };
    !review.blocking_issues.is_empty() || review.findings.iter().any(must)
}

/// Derives a linter's claim from its findings, because a linter states no verdict.
fn with_linter_claim(review: &Review, policy: &Policy) -> Review {
    let claim = if names_must_fix(review, policy) {
        ReviewClaim::ChangesRequested
    } else {
        ReviewClaim::Approved
    };
    Review {
        claim,
        ..review.clone()
    }
}

/// Whether an answer is about the criterion, by its text or by its number (`criterion 2`).
fn is_about_criterion(answer: &str, at: usize, criterion: &str) -> bool {
    let plain = |text: &str| {
        let chars = text.chars().filter(|c| c.is_alphanumeric());
        chars.flat_map(char::to_lowercase).collect::<String>()
    };
    let (answer, criterion, number) = (plain(answer), plain(criterion), (at + 1).to_string());
    let without_label = answer.trim_start_matches(char::is_alphabetic);
    !answer.is_empty()
        && (answer.contains(&criterion)
            || answer == format!("{number}{criterion}")
            || (criterion.contains(&answer) && answer.len() * 2 > criterion.len())
            || without_label == number && answer.len() < number.len() + 12)
}

/// Returns a must-fix finding for each criterion that the reviewer calls unmet, whatever the review
/// claims. It is used for reviews that name no other must-fix finding.
fn unmet_criteria_findings(review: &Review, spec: &Spec) -> Vec<Finding> {
    let criteria = crate::brief::criteria(spec);
    let unmet = review.criteria.iter().filter(|answer| {
        let mut criteria = criteria.iter().enumerate();
        !answer.met
            && criteria.any(|(at, criterion)| is_about_criterion(&answer.criterion, at, criterion))
    });
    unmet
        .map(|answer| {
            let title = format!("Not met: {}", answer.criterion);
            Finding {
                problem: answer.evidence.clone(),
                category: Some(findings::Category::Requirements),
                ..plain_finding(&title, Severity::High, "unmet criterion")
            }
        })
        .collect()
}

fn blocking_finding(issue: &findings::BlockingIssue) -> Finding {
    Finding {
        fix: issue.required_action.clone(),
        dimension: issue.dimension.clone(),
        problem: Some(issue.message.clone()),
        ..plain_finding(&issue.message, Severity::Critical, "blocking issue")
    }
}

/// Turns a rejection without findings into one must-fix finding with its text.
fn finding_from_bare_rejection(review: &Review) -> Option<Finding> {
    let names_something = review.findings.iter().any(|finding| finding.actionable);
    if review.claim != ReviewClaim::ChangesRequested
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
    let problem = if text.trim().is_empty() {
        "rejected without a reason".to_owned()
    } else {
        text
    };
    Some(Finding {
        problem: Some(problem.clone()),
        ..plain_finding(&problem, Severity::High, "rejection")
    })
}

fn plain_finding(text: &str, severity: Severity, raw: &str) -> Finding {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or(raw)
        .trim();
    let title: String = first.chars().take(TITLE_CHARS_MAX).collect();
    let rating = Rating {
        raw: Some(raw.to_owned()),
        ..severity.into()
    };
    Finding::new(&title, rating)
}
