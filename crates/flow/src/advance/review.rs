//! Reviews, and the verdict that follows from them.

use std::collections::BTreeSet;

use findings::{Finding, Rating, Review, ReviewClaim, Severity};

use super::Refused;
use super::draft::Transition;
use crate::event::Lease;
use crate::ledger::IncomingFinding;
use crate::policy::{OnExhausted, Policy, SeatSpec};
use crate::ticket::{Reason, ReworkReason, Round, SeatAnswer, Spec, Stage};
use crate::verdict::{Verdict, verdict};

/// Must-fix findings that have not fallen over so many verdicts end the loop.
const VERDICTS_WITHOUT_PROGRESS: usize = 3;
/// How much of a reviewer's text becomes a title.
const TITLE_CHARS_MAX: usize = 120;

impl Transition<'_> {
    pub(super) fn reviewed(
        &mut self,
        lease: Lease,
        commit: &str,
        review: &Review,
        isolation: &str,
    ) -> Result<(), Refused> {
        self.must_be_current(commit)?;
        self.must_not_judge_own_work()?;
        let Some(seat) = self.seat_of(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        if self.is_asked_to_countersign(&seat) {
            return self.answered_follow_ups(lease, &seat, review);
        }
        let linted = self.seat_spec(&seat).is_some_and(SeatSpec::is_linter);
        let review = &if linted {
            as_linter(review, self.policy)
        } else {
            review.clone()
        };
        if let Some(why) = unusable(review, self.policy) {
            return self.review_unusable(lease, why);
        }
        if let Some(why) = self.unanswered(review).filter(|_| !linted) {
            return self.review_unusable(lease, &why);
        }
        let refusal = self.refusal(lease.serial, review).filter(|_| !linted);
        self.finish(lease.serial);
        let answer = self.answer(review, isolation);
        if let Some(seat) = self
            .ticket
            .seats
            .iter_mut()
            .find(|known| known.name == seat)
        {
            seat.answer = Some(answer);
            seat.refusal = refusal;
        }
        self.decide_when_complete();
        Ok(())
    }

    pub(super) fn must_not_judge_own_work(&self) -> Result<(), Refused> {
        self.must_be_no_author(&self.event.by.principal)
    }

    /// The criteria that a policy wants answered with evidence, and this review does not answer.
    fn unanswered(&self, review: &Review) -> Option<String> {
        if !self.policy.criteria_required {
            return None;
        }
        let asked = crate::brief::criteria(&self.ticket.spec);
        let answered = |at: usize, criterion: &str| {
            review.criteria.iter().any(|answer| {
                is_about(&answer.criterion, at, criterion)
                    && answer
                        .evidence
                        .as_ref()
                        .is_some_and(|text| !text.trim().is_empty())
            })
        };
        let missing: Vec<String> = asked
            .iter()
            .enumerate()
            .filter(|(at, criterion)| !answered(*at, criterion))
            .map(|(at, _)| (at + 1).to_string())
            .collect();
        let list = missing.join(", ");
        (!missing.is_empty()).then(|| format!("it does not answer with evidence: criteria {list}"))
    }

    pub(super) fn must_be_no_author(&self, principal: &str) -> Result<(), Refused> {
        if self.ticket.authors.contains(principal) {
            return Err(Refused::OwnWork {
                principal: principal.to_owned(),
            });
        }
        Ok(())
    }

    /// Findings and blocking issues go into the ledger; a bare rejection becomes a finding.
    /// Says which entries it spoke of, and how many findings were beyond the limit.
    pub(super) fn take_in(&mut self, review: &Review) -> (BTreeSet<String>, usize) {
        let most = self.policy.limits.findings_max as usize;
        let blocking: Vec<Finding> = review
            .blocking_issues
            .iter()
            .map(blocking_finding)
            .collect();
        let mut bare: Vec<Finding> = bare_rejection(review).into_iter().collect();
        if !names_must_fix(review, self.policy) {
            bare.extend(unmet(review, &self.ticket.spec));
        }
        let incoming = |finding, blocking| IncomingFinding {
            finding,
            blocking,
            low_confidence: !blocking && self.policy.is_note(finding),
        };
        let named = bare.iter().chain(&review.findings);
        let mut incoming: Vec<IncomingFinding<'_>> = blocking
            .iter()
            .map(|finding| incoming(finding, true))
            .chain(named.map(|finding| incoming(finding, false)))
            .collect();
        let left_out = incoming.len().saturating_sub(most);
        if left_out > 0 {
            // The gravest stay: a flood of small ones must not wash them away.
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

    pub(super) fn decide(&mut self) {
        let waits = if verdict(&self.ticket, self.policy).approved {
            self.seat_confirming()
        } else {
            self.put_follow_ups()
        };
        if waits {
            return;
        }
        self.ticket.ledger.end_round(self.ticket.round);
        let verdict = verdict(&self.ticket, self.policy);
        self.ticket.counts.verdicts += 1;
        self.record_round(&verdict);
        if verdict.approved {
            return self.approve(verdict.approved_by());
        }
        self.ticket.setback = Some(ReworkReason::Findings);
        let back = self.came_back();
        if !back.is_empty() {
            let evidence = format!("fixed before, and back: {}", back.join(", "));
            self.escalate(
                Reason::FindingCameBack { findings: back },
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
            self.exhausted();
        } else if let Some(open) = self.no_progress() {
            let evidence = format!("open must-fix findings after the last verdicts: {open:?}");
            self.escalate(Reason::NoProgress { open }, Stage::Rework, &evidence);
        } else {
            self.rework(ReworkReason::Findings);
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
pub(crate) fn unusable(review: &Review, policy: &Policy) -> Option<&'static str> {
    let silent = review.claim == ReviewClaim::Unknown && !names_must_fix(review, policy);
    silent.then_some("it states no verdict and names nothing that must be fixed")
}

pub(crate) fn names_must_fix(review: &Review, policy: &Policy) -> bool {
    let must = |finding: &Finding| {
        finding.actionable
            && policy.must_fix.contains(&finding.rating.severity)
            && !policy.is_note(finding)
    };
    !review.blocking_issues.is_empty() || review.findings.iter().any(must)
}

/// A linter states no verdict: what it names is all that it says.
fn as_linter(review: &Review, policy: &Policy) -> Review {
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

/// Whether an answer speaks of the criterion: by its words, or by its number.
fn is_about(said: &str, at: usize, criterion: &str) -> bool {
    let plain = |text: &str| {
        let kept = text.chars().filter(|c| c.is_alphanumeric());
        kept.flat_map(char::to_lowercase).collect::<String>()
    };
    let (said, criterion, number) = (plain(said), plain(criterion), (at + 1).to_string());
    let words = said.trim_start_matches(char::is_alphabetic);
    !said.is_empty()
        && (said.contains(&criterion)
            || said == format!("{number}{criterion}")
            || (criterion.contains(&said) && said.len() * 2 > criterion.len())
            || words == number && said.len() < number.len() + 12)
}

/// Criteria of the ticket that the reviewer itself calls unmet, in a review that names no other
/// reason: each is something that must be fixed, whatever the review claims.
fn unmet(review: &Review, spec: &Spec) -> Vec<Finding> {
    let asked = crate::brief::criteria(spec);
    let no = review.criteria.iter().filter(|answer| {
        let mut known = asked.iter().enumerate();
        !answer.met && known.any(|(at, criterion)| is_about(&answer.criterion, at, criterion))
    });
    no.map(|answer| {
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

/// A rejection that names nothing is one must-fix finding made of its text.
fn bare_rejection(review: &Review) -> Option<Finding> {
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
    let title: String = first.chars().take(TITLE_CHARS_MAX).collect();
    let rating = Rating {
        raw: Some(raw.to_owned()),
        ..severity.into()
    };
    Finding::new(&title, rating)
}
