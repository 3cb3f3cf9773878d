//! The one place where texts on their way into a ticket lose what nobody should have to see: control
//! and escape sequences, bidirectional and invisible characters, line ends in one-line fields, and
//! the secrets of our own tokens. It runs before an event is made and never on a stored one, so that
//! old tickets replay as they were written.
//!
//! Commits, paths and patterns stay as they are: they name files exactly, and are cleaned where they
//! are shown.

use std::collections::BTreeSet;

use findings::{Review, clean, clean_json, clean_name, one_line};

use crate::event::{Actor, Choice, EventKind};
use crate::ticket::{CheckResult, EDITION, Spec, Submission, TicketContext};

fn text(text: &mut String) {
    *text = clean(text);
}

fn name(text: &mut String) {
    *text = clean_name(text);
}

fn names<'a>(all: impl IntoIterator<Item = &'a mut String>) {
    all.into_iter().for_each(name);
}

fn texts<'a>(all: impl IntoIterator<Item = &'a mut String>) {
    all.into_iter().for_each(text);
}

impl Spec {
    /// The same wish, without characters that nobody sees.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        self.title = one_line(&self.title);
        text(&mut self.description);
        texts(&mut self.acceptance);
        names(&mut self.kind);
        self.context = self.context.cleaned();
        self
    }
}

impl TicketContext {
    fn cleaned(mut self) -> Self {
        names(&mut self.epic);
        names(&mut self.base_branch);
        names(&mut self.branch);
        names(&mut self.jira_key);
        names(&mut self.github_repo);
        names(&mut self.remote);
        texts(&mut self.coordination);
        let needs: BTreeSet<String> = self.needs.iter().map(|label| clean_name(label)).collect();
        self.needs = needs;
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
    /// The same actor under names that a terminal can show. What the person wrote for it is compared
    /// with the policy, and stays.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        name(&mut self.agent);
        name(&mut self.principal);
        names(&mut self.family);
        self
    }
}

impl EventKind {
    /// The same event, without characters that nobody sees.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        match &mut self {
            Self::Created { spec, failed, .. } => {
                **spec = std::mem::take(&mut **spec).cleaned();
                texts(failed.iter_mut().map(|(_, why)| why));
            }
            Self::Submitted {
                submission,
                reports,
                ..
            } => {
                clean_submission(submission);
                for report in reports {
                    name(&mut report.finding);
                    text(&mut report.note);
                }
            }
            Self::Checked { results, .. } | Self::CombinationRed { results, .. } => {
                clean_results(results);
            }
            Self::Reviewed {
                review, isolation, ..
            } => {
                clean_review(review);
                text(isolation);
            }
            Self::Verified { answers, .. } => {
                for answer in answers {
                    name(&mut answer.finding);
                    text(&mut answer.evidence);
                }
            }
            Self::Conflicted { evidence, .. } => text(evidence),
            Self::WentStale {
                submission, why, ..
            } => {
                clean_submission(submission);
                text(why);
            }
            Self::Resubmitted { submission } => clean_submission(submission),
            Self::Settled { choice, why } => {
                if let Choice::Reassign { builder, reviewer } = choice {
                    names(builder);
                    names(reviewer);
                }
                text(why);
            }
            Self::Waived { finding, why } => {
                name(finding);
                text(why);
            }
            Self::JobFailed { message, .. } => text(message),
            Self::BudgetReached { limit } => text(limit),
            Self::DependencyFailed { why, .. }
            | Self::DependenciesSet { why, .. }
            | Self::ReviewUnusable { why, .. }
            | Self::AgentOut { why, .. }
            | Self::HelpRequested { why, .. }
            | Self::BudgetRaised { why, .. }
            | Self::Cancelled { why } => text(why),
            Self::DependencyMet { .. }
            | Self::DependencyRepaired { .. }
            | Self::Started { .. }
            | Self::Landed { .. }
            | Self::LeaseLost { .. } => {}
        }
        self
    }
}

fn clean_submission(put: &mut Submission) {
    // A new one is judged by the rules of today, whatever its sender says.
    put.edition = EDITION;
    text(&mut put.summary);
    names(&mut put.signed_as);
    for claim in &mut put.claims {
        text(&mut claim.criterion);
        texts(&mut claim.evidence);
    }
}

fn clean_results(results: &mut [CheckResult]) {
    for result in results {
        name(&mut result.name);
        text(&mut result.tail);
    }
}

fn clean_review(review: &mut Review) {
    texts(&mut review.claim_text);
    texts(&mut review.notes);
    texts(&mut review.remarks);
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
