//! Decides how the pull request of a ticket should look: draft or ready, the result on its head, the
//! state of each finding's thread, and whether it may be merged. The writer looks first and writes
//! what is missing, so a plan can be carried out twice.

use crate::landing::{LandingConfig, PullRequestMerge};
use crate::ledger::{FindingStatus, LedgerEntry};
use crate::narrate::{describe_approval, describe_reason};
use crate::policy::Policy;
use crate::rejection::describe_rework_reason;
use crate::ticket::{ApprovedBy, ChangePhase, Stage, Ticket, Time};

/// Shortest and longest time between two looks at a pull request that a machine works on.
const POLL_MS: std::ops::RangeInclusive<u64> = 15_000..=300_000;

/// Result that the exact commit gets on the forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedGate {
    Pending(String),
    Success(String),
    Failure(String),
}

/// State of the thread of one finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedThread {
    /// Id in the ledger. It identifies the thread over all rounds.
    pub finding: String,
    pub is_open: bool,
    /// Key and text of an answer. Each change of the finding has its own key.
    pub reply: Option<(String, String)>,
}

/// Wanted state of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePlan {
    pub draft: bool,
    pub gate: PlannedGate,
    pub threads: Vec<PlannedThread>,
    /// Exact commit that Countersign itself merges, if the forge has no objection.
    pub merge: Option<String>,
}

/// Whether the ticket has, or should have, a pull request now.
pub fn wants_pull_request(ticket: &Ticket, config: &LandingConfig) -> bool {
    let is_needed = config.pr_draft || ticket.approval.is_some();
    ticket.change.is_some() || (is_needed && !ticket.stage.is_terminal())
}

/// Whether a closed pull request is opened again: a person decided to continue after the close.
pub fn reopens_closed(ticket: &Ticket) -> bool {
    let change = ticket.change.as_ref();
    ticket.stage.is_active() && change.is_some_and(|change| change.phase == ChangePhase::Closed)
}

/// Plans the pull request of a ticket.
pub fn plan_change(ticket: &Ticket, policy: &Policy, config: &LandingConfig) -> ChangePlan {
    let approved = approved_commit(ticket);
    let is_ready = approved.is_some() || ticket.stage == Stage::Done;
    let merges = config.pr_merge == PullRequestMerge::Countersign;
    ChangePlan {
        draft: config.pr_draft && !is_ready,
        gate: plan_gate(ticket, policy),
        threads: ticket
            .ledger
            .entries
            .iter()
            .filter(|entry| has_thread(ticket, entry))
            .map(plan_thread)
            .collect(),
        merge: approved.filter(|_| merges).map(str::to_owned),
    }
}

/// Returns the approved commit while it waits on the forge.
pub fn approved_commit(ticket: &Ticket) -> Option<&str> {
    let approval = ticket.approval.as_ref()?;
    ticket.waits_for_forge().then_some(approval.commit.as_str())
}

/// Whether the finding gets a thread of ours: it asks for something, with confidence, and it does not
/// come from a comment, which is a thread already.
pub fn has_thread(ticket: &Ticket, entry: &LedgerEntry) -> bool {
    let is_comment = ticket
        .change
        .as_ref()
        .is_some_and(|change| change.is_from_comment(&entry.id));
    entry.finding.actionable && !entry.low_confidence && !is_comment
}

fn plan_thread(entry: &LedgerEntry) -> PlannedThread {
    let note = entry.note.as_ref();
    let words = |verb: &str| match note {
        Some(note) => format!("{verb} by {}: {}", note.by, note.text),
        None => format!("{verb}."),
    };
    let round = entry
        .history
        .last()
        .map_or(entry.last_round, |turn| turn.round);
    let text = match entry.status {
        FindingStatus::Open | FindingStatus::NotRepeated => None,
        FindingStatus::Fixed => Some(format!("{} (round {round})", words("Found fixed"))),
        FindingStatus::Reopened => Some(format!("It is back in round {round}.")),
        FindingStatus::Refuted => Some(words("Refuted")),
        FindingStatus::Disputed => Some(words("Disputed")),
        FindingStatus::Waived => Some(words("Waived")),
        FindingStatus::Duplicate => Some(words("Closed as a duplicate")),
    };
    // A status has no space in its key, and one status may come twice in a history.
    let status = entry.status.as_str().replace(' ', "-");
    let key = format!("{status}.{}", entry.history.len());
    PlannedThread {
        finding: entry.id.clone(),
        is_open: entry.status.is_open(),
        reply: text.map(|text| (key, text)),
    }
}

fn plan_gate(ticket: &Ticket, policy: &Policy) -> PlannedGate {
    let commit = ticket.submission.as_ref().map(|one| one.commit.as_str());
    let approval = ticket.approval.as_ref().map(|one| one.commit.as_str());
    let is_approved = approval.is_some() && approval == commit;
    match ticket.stage {
        Stage::Approved | Stage::Merging | Stage::Done if is_approved => {
            PlannedGate::Success(describe_approval(ticket).unwrap_or_default())
        }
        Stage::Escalated => {
            let reason = ticket
                .escalation
                .as_ref()
                .map(|one| describe_reason(&one.reason));
            PlannedGate::Failure(format!("a person decides: {}", reason.unwrap_or_default()))
        }
        Stage::Rework | Stage::Building | Stage::Queued => {
            let open = ticket.ledger.open_must_fix(policy).len();
            let why = match &ticket.rework_reason {
                Some(reason) => describe_rework_reason(ticket, reason),
                None => "it is worked on".to_owned(),
            };
            let why = findings::one_line(&why);
            PlannedGate::Failure(if open == 0 {
                format!("changes are needed: {why}")
            } else {
                let count = crate::narrate::count_noun(open, "finding");
                format!("changes are needed, {count} must be fixed: {why}")
            })
        }
        Stage::Failed | Stage::Cancelled => {
            let why = ticket.ended.as_deref().unwrap_or_default();
            PlannedGate::Failure(format!("{}: {}", ticket.stage, findings::one_line(why)))
        }
        Stage::Blocked => PlannedGate::Failure(format!("it waits {}", ticket.describe_wait())),
        Stage::Checking => PlannedGate::Pending("checks run".to_owned()),
        Stage::Reviewing => PlannedGate::Pending("reviewers read this commit".to_owned()),
        Stage::Pending | Stage::Approved | Stage::Merging | Stage::Done => {
            PlannedGate::Pending("it is worked on".to_owned())
        }
    }
}

/// Whether red checks of others count against the approved commit: not if a person accepted it over
/// red checks.
pub fn minds_red_checks(ticket: &Ticket) -> bool {
    let approval = ticket.approval.as_ref();
    !approval.is_some_and(|approval| {
        matches!(
            approval.by,
            ApprovedBy::Person {
                over_red_checks: true,
                ..
            }
        )
    })
}

/// Returns when a pull request is looked at again that waits for a machine. It grows with the time
/// since the approval: a check that took an hour may take another minute.
pub fn next_look(ticket: &Ticket, now: Time) -> Time {
    let since = ticket.approval.as_ref().map_or(now, |approval| approval.at);
    let waited = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
    now.plus_ms((waited / 4).clamp(*POLL_MS.start(), *POLL_MS.end()))
}
