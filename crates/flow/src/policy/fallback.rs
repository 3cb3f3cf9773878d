//! Fallback agents: named here, used in `advance`. No agent judges its own work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Policy;
use crate::job::Task;

/// The agent that takes over, by what is to be done; a reviewer's reviewer may have its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fallback {
    /// For the builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// For the reviewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// For the verifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
}

impl Fallback {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Policy {
    /// Returns the fallback agent of a job. A linter has none, because it is the project's own.
    pub fn fallback_for(&self, task: &Task) -> Option<&str> {
        match task {
            Task::Build { .. } => self.fallback.build.as_deref(),
            Task::Verify { .. } => self.fallback.verify.as_deref(),
            Task::Review { reviewer, .. } => {
                let spec = self.reviewers.iter().find(|spec| spec.name == *reviewer);
                let own = spec.and_then(|spec| spec.fallback.as_deref());
                let linter = spec.is_some_and(super::ReviewerConfig::is_linter);
                own.or(self.fallback.review.as_deref()).filter(|_| !linter)
            }
            Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => None,
        }
    }

    /// A fallback builder judges nothing. If that leaves a reviewer or verifier without an agent,
    /// the change could never land. The reviewer and the verifier as the project names them.
    pub fn fallback_judge_problem(&self, reviewer: &str, verifier: &str) -> Option<String> {
        let builder = self.fallback.build.as_deref()?;
        let reviewers = self
            .reviewers
            .iter()
            .filter(|reviewer| !reviewer.is_linter());
        let judges = reviewers.map(|one| {
            let agent = one.agent.as_deref().unwrap_or(reviewer);
            (
                agent,
                one.fallback.as_ref().or(self.fallback.review.as_ref()),
            )
        });
        let verifier = (verifier, self.fallback.verify.as_ref());
        let mut judges = judges.chain(std::iter::once(verifier));
        let stuck = |(agent, other): &(&str, Option<&String>)| {
            *agent == builder && other.is_none_or(|other| other == builder)
        };
        judges.find(stuck).map(|_| {
            format!(
                "fallback.build = {builder:?} also reviews or verifies: name an agent that does not, or give that reviewer a fallback of its own"
            )
        })
    }

    /// Whether anybody is named at all.
    pub fn has_fallback(&self) -> bool {
        let mut reviewers = self.reviewers.iter();
        !self.fallback.is_empty() || reviewers.any(|reviewer| reviewer.fallback.is_some())
    }
}
