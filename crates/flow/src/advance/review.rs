//! Reviews, and the verdict that follows from them.
//!
//! A review is read from text of an agent. It names findings; the policy decides. Here a review
//! becomes entries of the ledger, and the complete panel becomes a verdict, a rework, an approval
//! or an escalation.

use std::collections::BTreeSet;

use findings::{Finding, LineMap, Rating, Review, ReviewClaim, Severity};

use super::Refused;
use super::transition::Transition;
use crate::event::Lease;
use crate::ledger::IncomingFinding;
use crate::policy::{OnExhausted, Policy, ReviewerConfig};
use crate::ticket::{Reason, ReviewerAnswer, ReworkReason, Round, RoundFinding, Spec, Stage};
use crate::verdict::{Verdict, compute_verdict};

/// Verdicts without a drop in open must-fix findings after which the loop ends.
/// Counts that never fall mean that the builder trades one defect for another.
const VERDICTS_WITHOUT_PROGRESS: usize = 3;
/// Longest title made from a reviewer's text.
/// A rejection may be a page of prose. The whole text stays in the finding's problem.
const TITLE_CHARS_MAX: usize = 120;

impl Transition<'_> {
    /// Records a review, or asks for another one if it is unusable.
    pub(super) fn on_reviewed(
        &mut self,
        lease: Lease,
        commit: &str,
        review: &Review,
        sandbox: &str,
        answers_open: bool,
    ) -> Result<(), Refused> {
        // Both checks repeat those of the claim: a person may have resubmitted, or the agent may
        // have become an author, while it read.
        self.ensure_current_commit(commit)?;
        self.ensure_not_own_work()?;
        let Some(reviewer) = self.reviewer_of_job(lease.serial) else {
            return Err(Refused::NoSuchJob {
                serial: lease.serial,
            });
        };
        if self.is_asked_to_countersign(&reviewer) {
            return self.on_follow_ups_answered(lease, &reviewer, review);
        }
        let is_linter = self
            .reviewer_config(&reviewer)
            .is_some_and(ReviewerConfig::is_linter);
        // The claim that a linter's wrapper prints is ignored; only its findings count.
        let review = &if is_linter {
            with_linter_claim(review, self.policy)
        } else {
            review.clone()
        };
        if let Some(why) = unusable_reason(review, self.policy) {
            return self.on_review_unusable(lease, why);
        }
        // The policy asks for evidence on each criterion, so that a short yes is no review. Linters
        // know no criteria.
        if let Some(why) = self.unanswered_criteria(review).filter(|_| !is_linter) {
            return self.on_review_unusable(lease, &why);
        }
        // Read before the job is closed: it needs the agent of that job.
        let refusal = self
            .refusal_to_follow_up(lease.serial, review)
            .filter(|_| !is_linter);
        self.finish_job(lease.serial);
        let mut answer = self.record_answer(review, sandbox);
        answer.answers_open = answers_open && !is_linter;
        if let Some(reviewer) = self
            .ticket
            .panel
            .iter_mut()
            .find(|one| one.name == reviewer)
        {
            reviewer.answer = Some(answer);
            reviewer.refusal = refusal;
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
        // An answer with blank evidence counts as missing. Else a form filled with dashes would
        // pass.
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
        // Blocking issues come first, and are not limited by confidence: they stop a landing by
        // themselves.
        let blocking: Vec<Finding> = review
            .blocking_issues
            .iter()
            .map(blocking_finding)
            .collect();
        // A rejection has to leave something that can be fixed and verified. Else the builder gets
        // an empty rework, and the verdict has no open finding to wait for.
        let mut derived: Vec<Finding> = finding_from_bare_rejection(review).into_iter().collect();
        // A must-fix finding may be the unmet criterion in other words. Two entries for one defect
        // would have to be verified twice.
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
        let touched = self.touched_lines();
        let by = self.event.by.agent.clone();
        let ledger = &mut self.ticket.ledger;
        let reported = ledger.record_review(self.ticket.round, &by, &incoming, &touched);
        (reported, left_out)
    }

    /// Lines that the current submission wrote.
    pub(super) fn touched_lines(&self) -> LineMap {
        let submission = self.ticket.submission.as_ref();
        submission.map_or_else(LineMap::default, |submission| submission.touched.clone())
    }

    fn record_answer(&mut self, review: &Review, sandbox: &str) -> ReviewerAnswer {
        let (reported, left_out) = self.record_findings(review);
        let mut remarks = review.remarks.clone();
        // A limit that hides something says so.
        if left_out > 0 {
            remarks.push(format!("{left_out} more findings were not kept"));
        }
        ReviewerAnswer {
            reviewer: self.event.by.agent.clone(),
            model: self.event.by.model.clone(),
            claim: review.claim,
            first_claim: None,
            reported,
            scores: review.scores.clone(),
            overall_score: review.overall_score,
            blocking_issues: u32::try_from(review.blocking_issues.len()).unwrap_or(u32::MAX),
            criteria: review.criteria.clone(),
            notes: review.notes.clone(),
            sandbox: sandbox.to_owned(),
            answers_open: false,
            remarks,
        }
    }

    /// Decides the round, unless more reviewers have to be asked first.
    pub(super) fn decide(&mut self) {
        // Second reviewers read only what would be approved; the question about follow-ups is asked
        // only where the round would fail. So one of the two applies.
        let asks_reviewers = if compute_verdict(&self.ticket, self.policy).approved {
            self.add_second_reviewers()
        } else {
            self.ask_about_follow_ups()
        };
        if asks_reviewers {
            return;
        }
        // Marking comes before the verdict, which must not count findings of this round as silent
        // ones.
        self.ticket.ledger.end_round(self.ticket.round);
        let verdict = compute_verdict(&self.ticket, self.policy);
        // Counted for every verdict, also an approval: a stale approval that is reviewed again is a
        // round too.
        self.ticket.counts.verdicts += 1;
        self.record_round(&verdict);
        if verdict.approved {
            return self.approve(verdict.approved_by());
        }
        self.ticket.rework_reason = Some(ReworkReason::Findings);
        let reopened = self.reopened_findings();
        // A finding that was fixed and is back means that two rounds undo each other. More rounds
        // would repeat it, so a person looks first.
        if !reopened.is_empty() {
            let evidence = format!("fixed before, and back: {}", reopened.join(", "));
            self.escalate(
                Reason::FindingCameBack { findings: reopened },
                Stage::Rework,
                &evidence,
            );
        // Before the count of rounds: the builder has nothing to fix, so rework would be wrong in
        // any round.
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
        let answers = self.ticket.panel.iter().filter_map(|it| it.answer.as_ref());
        let reported: BTreeSet<&String> = answers.flat_map(|answer| &answer.reported).collect();
        let entries = self.ticket.ledger.entries.iter();
        let findings = entries
            .filter(|entry| reported.contains(&entry.id))
            .map(|entry| RoundFinding {
                id: entry.id.clone(),
                finding: entry.finding.clone(),
                blocking: entry.blocking,
            })
            .collect();
        let submission = self.ticket.submission.clone().unwrap_or_default();
        self.ticket.rounds.push(Round {
            number: self.ticket.round,
            allowed: self.policy.rounds_allowed(self.ticket.counts.granted),
            commit: submission.commit,
            tree: submission.tree,
            base_tree: submission.base_tree,
            builder: self.ticket.assigned.built_by.clone(),
            policy: self.policy.id(),
            review_started_at: self.ticket.review_started_at,
            decided_at: self.event.at,
            verdict: verdict.clone(),
            panel: self.ticket.panel.clone(),
            checks: self
                .ticket
                .checks
                .as_ref()
                .map(|checks| checks.results.clone())
                .unwrap_or_default(),
            usage: self.ticket.spent.round,
            findings,
            scores: crate::verdict::round_scores(&self.ticket, self.policy),
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
            // Rounds before a reset do not count: the person has decided on them already.
            .skip(rounds.len().saturating_sub(recent))
            .map(|round| round.verdict.open_must_fix)
            .collect();
        // Sorted means that no count is lower than the one before.
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
        // The commit has to be the rejected one. A newer commit was not read by anybody, so it
        // cannot have failed the review.
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
/// A review without a verdict may still name a must-fix finding. That is enough to reject, and
/// never enough to approve.
pub(crate) fn unusable_reason(review: &Review, policy: &Policy) -> Option<&'static str> {
    let is_unusable = review.claim == ReviewClaim::Unknown && !names_must_fix(review, policy);
    is_unusable.then_some("it states no verdict and names nothing that must be fixed")
}

pub(crate) fn names_must_fix(review: &Review, policy: &Policy) -> bool {
    let must = |finding: &Finding| {
        // Praise and remarks are findings that ask for nothing.
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
/// Reviewers shorten, renumber and reformat criteria, so the comparison drops all but letters and
/// digits.
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
            // A quoted part counts if it is more than half of the criterion; a single word would
            // fit several.
            || (criterion.contains(&answer) && answer.len() * 2 > criterion.len())
            // `criterion 2`, `AC2` and `2.` are labels. A longer text that ends in a number is
            // none: 12 characters hold the usual labels.
            || without_label == number && answer.len() < number.len() + 12)
}

/// Returns a must-fix finding for each criterion that the reviewer calls unmet, whatever the review
/// claims. It is used for reviews that name no other must-fix finding.
fn unmet_criteria_findings(review: &Review, spec: &Spec) -> Vec<Finding> {
    let criteria = crate::brief::criteria(spec);
    let unmet = review.criteria.iter().filter(|answer| {
        let mut criteria = criteria.iter().enumerate();
        !answer.met
            // A made-up criterion must not become a must-fix finding.
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
    // Praise alone does not explain a rejection.
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
