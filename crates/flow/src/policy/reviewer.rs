//! The reviewers of a policy, and the changes that each of them reviews.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Policy;
use super::pattern::{self, PathPatterns};
use crate::ticket::{Submission, Ticket};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReviewerConfig {
    /// The reviewer's name.
    pub name: String,
    /// The subject that this reviewer looks at above all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "lens")]
    pub focus: Option<String>,
    /// The agent that reviews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agent that reviews when that one cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Asked only when the others would approve: a second, fresh look at the same commit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[serde(alias = "confirms")]
    pub second_reviewer: bool,
    /// Only for changes that touch one of these paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Only for tickets of one of these kinds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Only for changes of at least this many lines.
    #[serde(skip_serializing_if = "is_zero")]
    pub lines_min: u32,
    /// Only from this round on.
    #[serde(skip_serializing_if = "is_zero")]
    pub from_round: u32,
    /// Only up to this round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_round: Option<u32>,
    /// The whole change, or from the second round on only what changed since the last.
    #[serde(skip_serializing_if = "ReviewScope::is_whole")]
    pub scope: ReviewScope,
    /// A linter as a reviewer: its output is read as findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The part of a change that a reviewer looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewScope {
    #[default]
    Whole,
    /// From the second round on, what has changed since the last one.
    Delta,
}

impl ReviewScope {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for ReviewerConfig {
    fn default() -> Self {
        Self {
            name: "reviewer".to_owned(),
            focus: None,
            agent: None,
            fallback: None,
            second_reviewer: false,
            paths: Vec::new(),
            kinds: Vec::new(),
            lines_min: 0,
            from_round: 0,
            until_round: None,
            scope: ReviewScope::Whole,
            command: None,
        }
    }
}

impl Policy {
    /// Puts agents into the reviewers that name none: the same one everywhere if it is one, else in
    /// turn. Where there are more agents than reviewers, each of the rest has a reviewer of its own.
    pub fn assign_agents(&mut self, agents: &[String]) {
        if agents.len() < 2 {
            return;
        }
        let mut next = agents.iter().cycle();
        let mut panel_names = 0;
        for reviewer in &mut self.reviewers {
            if reviewer.agent.is_none() && !reviewer.is_linter() && !reviewer.second_reviewer {
                reviewer.agent = next.next().cloned();
                panel_names += 1;
            }
        }
        for (at, agent) in agents.iter().enumerate().skip(panel_names) {
            self.reviewers.push(ReviewerConfig {
                name: format!("reviewer-{}", at + 1),
                agent: Some(agent.clone()),
                ..ReviewerConfig::default()
            });
        }
    }
}

impl ReviewerConfig {
    /// Whether this reviewer has a say on the ticket's commit in the round at work.
    pub fn applies_to(&self, ticket: &Ticket, round: u32) -> bool {
        let kind = ticket.spec.kind.as_deref().unwrap_or_default();
        let of_kind = self.kinds.is_empty() || self.kinds.iter().any(|known| known == kind);
        let in_time = round >= self.from_round && self.until_round.is_none_or(|last| round <= last);
        let put = ticket.submission.as_ref();
        of_kind && in_time && put.is_none_or(|put| self.applies_to_change(put))
    }

    fn applies_to_change(&self, put: &Submission) -> bool {
        let here = self.paths.is_empty() || self.touched_by(put);
        here && put.lines_changed >= self.lines_min
    }

    fn touched_by(&self, put: &Submission) -> bool {
        let mut files = put.files.iter();
        if put.edition == 0 {
            return files.any(|file| {
                let mut paths = self.paths.iter();
                paths.any(|pattern| pattern::legacy::matches(pattern, file))
            });
        }
        let patterns = PathPatterns::new(&self.paths);
        files.any(|file| patterns.matches(file))
    }

    /// An agent's reviewer that is there for every change of every ticket in every round, and sees
    /// the whole of it.
    pub fn is_unconditional(&self) -> bool {
        self.paths.is_empty()
            && self.kinds.is_empty()
            && self.lines_min == 0
            && self.from_round <= 1
            && self.until_round.is_none()
            && self.scope == ReviewScope::Whole
            && self.command.is_none()
    }

    /// Two reviewers, one after the other without a gap, are as good as one that stays.
    pub fn is_unconditional_but_for_rounds(&self) -> bool {
        self.command.is_none()
            && !self.second_reviewer
            && self.scope == ReviewScope::Whole
            && self.paths.is_empty()
            && self.kinds.is_empty()
            && self.lines_min == 0
    }

    pub fn is_linter(&self) -> bool {
        self.command.is_some()
    }
}
