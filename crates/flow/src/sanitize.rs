//! Cleans every text before it enters a ticket: removes control and escape sequences, bidirectional
//! and invisible characters, line breaks in one-line fields, and secrets of our own tokens. It runs
//! before an event is made and never on a stored one, so that old tickets replay as they were
//! written.
//!
//! Commits, paths and patterns are left unchanged: they name files exactly, and are cleaned where
//! they are shown.

use std::collections::BTreeSet;

use findings::{Finding, Review, clean, clean_json, clean_name, one_line};

use crate::event::{Actor, Choice, EventKind};
use crate::ticket::{ChangeObservation, CheckResult, EDITION, Spec, Submission, TicketContext};

fn clean_text(text: &mut String) {
    *text = clean(text);
}

fn clean_single_name(text: &mut String) {
    *text = clean_name(text);
}

fn clean_names<'a>(all: impl IntoIterator<Item = &'a mut String>) {
    all.into_iter().for_each(clean_single_name);
}

fn clean_texts<'a>(all: impl IntoIterator<Item = &'a mut String>) {
    all.into_iter().for_each(clean_text);
}

impl Spec {
    /// Returns the request without dangerous and invisible characters.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        // A title is shown in lists and in commit subjects, so it has no line break.
        self.title = one_line(&self.title);
        clean_text(&mut self.description);
        clean_texts(&mut self.acceptance);
        clean_names(&mut self.kind);
        self.context = self.context.cleaned();
        self
    }
}

impl TicketContext {
    fn cleaned(mut self) -> Self {
        clean_names(&mut self.epic);
        clean_names(&mut self.base_branch);
        clean_names(&mut self.branch);
        clean_names(&mut self.jira_key);
        clean_names(&mut self.github_repo);
        clean_names(&mut self.remote);
        clean_texts(&mut self.coordination);
        // Two labels may become equal when they are cleaned; the set keeps one.
        let needs: BTreeSet<String> = self.needs.iter().map(|label| clean_name(label)).collect();
        self.needs = needs;
        if let Some(imported) = &mut self.imported {
            let mut fields = serde_json::Value::Object(std::mem::take(&mut imported.fields));
            clean_json(&mut fields);
            if let serde_json::Value::Object(fields) = fields {
                imported.fields = fields;
            }
            let met = std::mem::take(&mut imported.completed_dependencies);
            imported.completed_dependencies = met.iter().map(|id| clean_name(id)).collect();
        }
        // `extra` holds fields of other systems that we write back. Keys are shown too, so they are
        // cleaned as well.
        let extra = std::mem::take(&mut self.extra).into_iter();
        self.extra = extra
            .map(|(key, mut value)| {
                clean_json(&mut value);
                (clean_name(&key), value)
            })
            .collect();
        self
    }
}

impl Actor {
    /// Returns the actor with names that are safe to show in a terminal. The configured name is
    /// compared with the policy, so it is left unchanged.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        clean_single_name(&mut self.agent);
        clean_single_name(&mut self.principal);
        clean_names(&mut self.family);
        clean_names(&mut self.model);
        self
    }
}

impl EventKind {
    /// Returns the event without dangerous and invisible characters.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        // The match names every event. A new event with a text does not compile until somebody
        // decides how it is cleaned.
        match &mut self {
            Self::Created { spec, failed, .. } => {
                **spec = std::mem::take(&mut **spec).cleaned();
                clean_texts(failed.iter_mut().map(|(_, why)| why));
            }
            Self::Submitted {
                submission,
                reports,
                ..
            } => {
                clean_submission(submission);
                for report in reports {
                    clean_single_name(&mut report.finding);
                    clean_text(&mut report.note);
                }
            }
            Self::Checked { results, .. } | Self::CombinationRed { results, .. } => {
                clean_results(results);
            }
            Self::BaseRed {
                base,
                results,
                hint,
                ..
            } => {
                clean_single_name(base);
                clean_results(results);
                clean_text(hint);
            }
            Self::Reviewed {
                review, sandbox, ..
            } => {
                clean_review(review);
                clean_text(sandbox);
            }
            Self::Verified { answers, .. } => {
                for answer in answers {
                    clean_single_name(&mut answer.finding);
                    clean_text(&mut answer.evidence);
                }
            }
            Self::Conflicted { evidence, .. } => clean_text(evidence),
            Self::WentStale {
                submission, why, ..
            } => {
                clean_submission(submission);
                clean_text(why);
            }
            Self::Resubmitted { submission } => clean_submission(submission),
            Self::Settled { choice, why } => {
                // Names of agents are compared with the configuration, so they are cleaned as
                // names: no line break, no invisible letter that makes two names look equal.
                if let Choice::Reassign { builder, reviewer } = choice {
                    clean_names(builder);
                    clean_names(reviewer);
                }
                clean_text(why);
            }
            Self::Waived { finding, why } => {
                clean_single_name(finding);
                clean_text(why);
            }
            Self::FindingsAdded {
                findings, comments, ..
            } => {
                findings.iter_mut().for_each(clean_finding);
                comments.iter_mut().for_each(clean_single_name);
            }
            Self::ChangeObserved { seen } => clean_observation(seen),
            Self::JobFailed { message, .. } => clean_text(message),
            Self::BudgetReached { limit } => clean_text(limit),
            Self::DependencyFailed { why, .. }
            | Self::DependenciesSet { why, .. }
            | Self::ReviewUnusable { why, .. }
            | Self::AgentOut { why, .. }
            | Self::HelpRequested { why, .. }
            | Self::BudgetRaised { why, .. }
            | Self::ReportRequested { why }
            | Self::Cancelled { why } => clean_text(why),
            Self::DependencyMet { .. }
            | Self::DependencyRepaired { .. }
            | Self::Started { .. }
            | Self::Landed { .. }
            | Self::LeaseLost { .. } => {}
        }
        self
    }
}

fn clean_submission(submission: &mut Submission) {
    // A new submission is judged by the current rules, whatever edition its sender names.
    // An old edition has milder rules, which exist only to replay old logs.
    submission.edition = EDITION;
    clean_text(&mut submission.summary);
    clean_names(&mut submission.signed_as);
    for claim in &mut submission.claims {
        clean_text(&mut claim.criterion);
        clean_texts(&mut claim.evidence);
    }
}

fn clean_observation(seen: &mut ChangeObservation) {
    for text in [&mut seen.url, &mut seen.head, &mut seen.waits_for] {
        clean_single_name(text);
    }
    for commit in [&mut seen.base_tip, &mut seen.foreign_head] {
        clean_names(commit);
    }
    clean_results(&mut seen.red);
    if let Some(conflict) = &mut seen.conflict {
        conflict.files.iter_mut().for_each(clean_single_name);
        clean_text(&mut conflict.evidence);
    }
}

fn clean_results(results: &mut [CheckResult]) {
    for result in results {
        clean_single_name(&mut result.name);
        clean_text(&mut result.tail);
    }
}

/// Cleans a person's finding. Its path cannot leave the repository; one that tries is dropped.
fn clean_finding(finding: &mut Finding) {
    clean_single_name(&mut finding.title);
    clean_texts(&mut finding.problem);
    clean_texts(&mut finding.impact);
    clean_texts(&mut finding.fix);
    clean_texts(&mut finding.dimension);
    clean_texts(&mut finding.rule);
    clean_texts(&mut finding.anchor);
    clean_texts(&mut finding.rating.raw);
    // A path of a finding is opened by editors and linked in reports.
    finding.file = finding.file.as_deref().and_then(findings::confine);
    // A line without a file means nothing.
    if finding.file.is_none() {
        (finding.line, finding.end_line) = (None, None);
    }
}

/// Cleans the texts of a review. Its findings are not among them: they are cleaned when they are
/// read.
fn clean_review(review: &mut Review) {
    clean_texts(&mut review.claim_text);
    clean_texts(&mut review.notes);
    clean_texts(&mut review.remarks);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_a_ticket_says_can_be_shown(
            words in proptest::collection::vec("(?s).{0,20}[\u{1b}\u{9b}\u{202e}\u{200b}\u{feff}\0\n]?.{0,9}", 8)
        ) {
            let mut words = words.into_iter();
            let mut next = || words.next().unwrap_or_default();
            let spec = Spec {
                title: next(),
                description: next(),
                acceptance: vec![next()],
                kind: Some(next()),
                context: TicketContext {
                    epic: Some(next()),
                    needs: BTreeSet::from([next()]),
                    extra: [(next(), next().into())].into(),
                    ..TicketContext::default()
                },
                ..Spec::default()
            };
            let cleaned = spec.cleaned();
            let shown = format!(
                "{}{}{}", cleaned.title, cleaned.context.epic.as_deref().unwrap_or_default(),
                cleaned.kind.as_deref().unwrap_or_default()
            );
            prop_assert!(!shown.contains(['\n', '\t']));
            let all = serde_json::to_value(&cleaned).unwrap();
            let mut again = all.clone();
            clean_json(&mut again);
            prop_assert_eq!(all, again);
            prop_assert_eq!(cleaned.clone().cleaned(), cleaned);
        }
    }
}
