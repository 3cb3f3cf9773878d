//! Words of other systems for our stages. Only exports use them; the store has ours.

use crate::ticket::Stage;

/// Systems whose words exports can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sergeant,
    Queue,
    Scored,
    Supervisor,
    Story,
}

/// Returns the result of a review as one word: approved, rework or escalated, or reviewing while
/// other reviewers have not answered.
pub fn review_result_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Approved | Stage::Merging | Stage::Done => "approved",
        Stage::Rework | Stage::Building | Stage::Queued => "rework",
        Stage::Reviewing | Stage::Checking | Stage::Pending => "reviewing",
        Stage::Escalated | Stage::Blocked | Stage::Failed | Stage::Cancelled => "escalated",
    }
}

impl Stage {
    /// Parses the output of [`Stage::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }
}

/// Returns the stage in another system's words.
pub fn stage_word(stage: Stage, dialect: Dialect) -> &'static str {
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
