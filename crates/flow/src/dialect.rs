//! The words that other systems use for our stages. Only exports speak them; the store knows ours.

use crate::ticket::Stage;

/// The five designs that this one unites, by the names of their presets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sergeant,
    Queue,
    Scored,
    Supervisor,
    Story,
}

/// What a review has come to, in 000's words: approved, rework or escalated; reviewing where
/// others have still to answer.
pub fn after_review(stage: Stage) -> &'static str {
    match stage {
        Stage::Approved | Stage::Merging | Stage::Done => "approved",
        Stage::Rework | Stage::Building | Stage::Queued => "rework",
        Stage::Reviewing | Stage::Checking | Stage::Pending => "reviewing",
        Stage::Escalated | Stage::Blocked | Stage::Failed | Stage::Cancelled => "escalated",
    }
}

impl Stage {
    /// Reads what [`Stage::word`] writes.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.word() == word)
    }
}

/// The stage in another system's words.
pub fn word(stage: Stage, dialect: Dialect) -> &'static str {
    let [sergeant, queue, scored, supervisor, story] = match stage {
        Stage::Pending => ["pending", "pending", "pending", "Pending", "pending"],
        Stage::Queued => ["pending", "pending", "queued", "Queued", "pending"],
        Stage::Building => [
            "in_progress",
            "in_progress",
            "executing",
            "Running",
            "in-progress",
        ],
        Stage::Checking => ["in_progress", "testing", "validating", "Running", "gates"],
        Stage::Reviewing => [
            "completed",
            "awaiting_review",
            "reviewing",
            "Running",
            "review",
        ],
        Stage::Rework => ["rework", "pending", "needs_revision", "Queued", "fixer"],
        Stage::Approved | Stage::Merging => {
            ["approved", "completed", "completed", "Completed", "clean"]
        }
        Stage::Done => ["approved", "completed", "completed", "Completed", "done"],
        Stage::Escalated => [
            "escalated",
            "escalation",
            "reviewing",
            "Escalated",
            "escalate",
        ],
        Stage::Blocked => ["escalated", "pending", "blocked", "Pending", "blocked"],
        Stage::Failed => ["escalated", "failed", "failed", "Failed", "blocked"],
        Stage::Cancelled => ["escalated", "cancelled", "failed", "Failed", "blocked"],
    };
    match dialect {
        Dialect::Sergeant => sergeant,
        Dialect::Queue => queue,
        Dialect::Scored => scored,
        Dialect::Supervisor => supervisor,
        Dialect::Story => story,
    }
}
