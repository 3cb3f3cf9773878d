//! The pull request of a ticket, as the forge showed it last. The forge has the truth; this record
//! says what a person is told and which comments are in the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{CheckResult, Stage, Ticket};

/// Most comments that a ticket remembers. A later one is not read.
pub const COMMENTS_MAX: usize = 2_000;

/// State of a pull request on its forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangePhase {
    Open,
    Merged,
    /// Closed without a merge.
    Closed,
}

impl ChangePhase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }
}

/// Pull request of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TicketChange {
    pub number: u64,
    pub url: String,
    pub phase: ChangePhase,
    /// Head commit on the forge.
    pub head: String,
    pub draft: bool,
    /// Words that follow "waits for". Empty while Countersign works on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
    /// Comments whose findings are in the ledger, with the ids of those findings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub comments: BTreeMap<String, BTreeSet<String>>,
}

impl TicketChange {
    /// Whether a finding of the ledger comes from a comment.
    pub fn is_from_comment(&self, finding: &str) -> bool {
        self.comments.values().any(|ids| ids.contains(finding))
    }
}

/// State of a pull request as one look showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangeObservation {
    pub number: u64,
    pub url: String,
    pub phase: ChangePhase,
    /// Head commit on the forge. After a merge it is the commit that was merged.
    pub head: String,
    #[serde(default)]
    pub draft: bool,
    #[serde(default)]
    pub waits_for: String,
    /// Tip of the base branch after the merge, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_tip: Option<String>,
    /// Commit that somebody else pushed in place of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_head: Option<String>,
    /// Red checks of others on the head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub red: Vec<CheckResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<ChangeConflict>,
}

/// Conflict of the head with the newest base branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChangeConflict {
    pub files: Vec<String>,
    pub evidence: String,
}

impl ChangeObservation {
    /// Whether the ticket knows all of this already, so that nothing has to be written.
    pub fn is_known_to(&self, ticket: &Ticket) -> bool {
        let is_plain =
            self.foreign_head.is_none() && self.red.is_empty() && self.conflict.is_none();
        // A merge or a close is a decision as long as the ticket is active.
        let is_decided = self.phase == ChangePhase::Open || !ticket.stage.is_active();
        let is_same = ticket.change.as_ref().is_some_and(|known| {
            known.number == self.number
                && known.url == self.url
                && known.phase == self.phase
                && known.head == self.head
                && known.draft == self.draft
                && known.waits_for == self.waits_for
        });
        is_plain && is_decided && is_same
    }
}

impl Ticket {
    /// Whether nothing happens until a person acts.
    pub fn needs_person(&self) -> bool {
        self.stage.waits_for_decision() || self.blocked.is_some()
    }

    /// Whether no worker has anything to do until a person decides or the forge changes.
    pub fn rests(&self) -> bool {
        !self.stage.is_active() || self.waits_for_forge()
    }

    /// Whether the approved change waits on its forge. Every other way to land has a job meanwhile.
    pub fn waits_for_forge(&self) -> bool {
        self.stage == Stage::Approved && self.jobs.is_empty()
    }

    /// Says what the approved change waits for on its forge, to follow the word "waits".
    pub(super) fn describe_forge_wait(&self) -> String {
        match &self.change {
            None => "for its pull request to be opened".to_owned(),
            Some(change) if change.waits_for.is_empty() => {
                format!("for pull request {}", change.number)
            }
            Some(change) => format!("for {} (pull request {})", change.waits_for, change.number),
        }
    }

    /// Whether findings of this comment are in the ledger.
    pub fn has_comment(&self, id: &str) -> bool {
        let change = self.change.as_ref();
        change.is_some_and(|change| change.comments.contains_key(id))
    }
}
