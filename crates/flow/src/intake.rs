//! Decides what arrives from forges and trackers: which changes are reviewed, which issues become
//! tickets, and how the state of a ticket is told to its issue.

use crate::ticket::{Stage, Ticket, TicketId};

/// Facts about a change on a forge that decide whether it is reviewed.
#[derive(Clone, Debug, Default)]
pub struct ArrivedChange {
    pub labels: Vec<String>,
    pub assignees: Vec<String>,
    pub base_branch: String,
    pub is_open: bool,
    pub is_draft: bool,
}

/// Rules by which a change is reviewed without a ticket. One of them is enough.
#[derive(Clone, Debug, Default)]
pub struct ReviewRules {
    pub label: Option<String>,
    /// Our own account: a change that is assigned to it is reviewed.
    pub account: Option<String>,
    /// Target branches whose changes are always reviewed; `*` stands for every branch.
    pub base_branches: Vec<String>,
}

/// The rule that made a change wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewReason {
    Label,
    Assigned,
    BaseBranch,
}

impl ReviewReason {
    pub fn word(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Assigned => "assigned",
            Self::BaseBranch => "base_branch",
        }
    }
}

fn has_name(names: &[String], wanted: Option<&String>) -> bool {
    wanted.is_some_and(|wanted| names.iter().any(|name| name.eq_ignore_ascii_case(wanted)))
}

/// Returns why a change is reviewed, or `None` if no rule wants it. A rule for a branch leaves
/// drafts alone, because nobody has asked for a review of them yet.
pub fn review_reason(change: &ArrivedChange, rules: &ReviewRules) -> Option<ReviewReason> {
    if !change.is_open {
        return None;
    }
    if has_name(&change.labels, rules.label.as_ref()) {
        return Some(ReviewReason::Label);
    }
    if has_name(&change.assignees, rules.account.as_ref()) {
        return Some(ReviewReason::Assigned);
    }
    let mut branches = rules.base_branches.iter();
    let is_wanted = branches.any(|branch| branch == "*" || *branch == change.base_branch);
    (is_wanted && !change.is_draft).then_some(ReviewReason::BaseBranch)
}

/// Facts about an issue that decide whether it becomes a ticket.
#[derive(Clone, Debug, Default)]
pub struct ArrivedIssue {
    pub labels: Vec<String>,
    pub assignees: Vec<String>,
    pub is_closed: bool,
}

/// Rules by which an issue becomes a ticket.
#[derive(Clone, Debug, Default)]
pub struct IntakeRules {
    pub label: Option<String>,
    pub account: Option<String>,
    /// Every issue that arrives is wanted, because the tracker was asked for exactly these.
    pub all: bool,
}

/// Returns whether an issue becomes a ticket.
pub fn is_wanted(issue: &ArrivedIssue, rules: &IntakeRules) -> bool {
    !issue.is_closed
        && (rules.all
            || has_name(&issue.labels, rules.label.as_ref())
            || has_name(&issue.assignees, rules.account.as_ref()))
}

/// Returns the id of an issue's ticket: the key of a tracker as it is (`PROJ-7`), a number behind
/// the name of its connection (`app-7`). GitLab's numbers have a sign in front (`#7`).
pub fn ticket_id_of_issue(connection: &str, key: &str) -> Option<TicketId> {
    let key = key.strip_prefix('#').unwrap_or(key);
    let is_number = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    let id = if is_number {
        format!("{connection}-{key}")
    } else {
        key.to_owned()
    };
    TicketId::new(&id).ok()
}

/// State of a ticket in the words of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssueProgress {
    Waiting,
    Working,
    InReview,
    ChangesRequested,
    Approved,
    Done,
    NeedsPerson,
    Stopped,
}

impl IssueProgress {
    pub fn of(ticket: &Ticket) -> Self {
        match ticket.stage {
            Stage::Pending | Stage::Queued | Stage::Blocked => Self::Waiting,
            Stage::Building if ticket.rounds.is_empty() => Self::Working,
            Stage::Building | Stage::Rework => Self::ChangesRequested,
            Stage::Checking | Stage::Reviewing => Self::InReview,
            Stage::Approved | Stage::Merging => Self::Approved,
            Stage::Done => Self::Done,
            Stage::Escalated => Self::NeedsPerson,
            Stage::Failed | Stage::Cancelled => Self::Stopped,
        }
    }

    /// Returns the word that is part of a label: `countersign: in review`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::InReview => "in review",
            Self::ChangesRequested => "changes requested",
            Self::Approved => "approved",
            Self::Done => "done",
            Self::NeedsPerson => "needs a person",
            Self::Stopped => "stopped",
        }
    }

    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Working,
        Self::InReview,
        Self::ChangesRequested,
        Self::Approved,
        Self::Done,
        Self::NeedsPerson,
        Self::Stopped,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn one_rule_is_enough_and_a_closed_change_is_never_reviewed() {
        let rules = ReviewRules {
            label: Some("ready-for-review".to_owned()),
            account: Some("counter-bot".to_owned()),
            base_branches: names(&["release"]),
        };
        let open = ArrivedChange {
            is_open: true,
            base_branch: "main".to_owned(),
            ..ArrivedChange::default()
        };
        assert_eq!(review_reason(&open, &rules), None);
        let labelled = ArrivedChange {
            labels: names(&["bug", "Ready-For-Review"]),
            is_draft: true,
            ..open.clone()
        };
        assert_eq!(review_reason(&labelled, &rules), Some(ReviewReason::Label));
        let assigned = ArrivedChange {
            assignees: names(&["Counter-Bot"]),
            ..open.clone()
        };
        assert_eq!(
            review_reason(&assigned, &rules),
            Some(ReviewReason::Assigned)
        );
        let mut by_branch = ArrivedChange {
            base_branch: "release".to_owned(),
            ..open
        };
        assert_eq!(
            review_reason(&by_branch, &rules),
            Some(ReviewReason::BaseBranch)
        );
        by_branch.is_draft = true;
        assert_eq!(review_reason(&by_branch, &rules), None);
        let closed = ArrivedChange {
            is_open: false,
            ..labelled
        };
        assert_eq!(review_reason(&closed, &rules), None);
        // Without a rule nothing is reviewed, also not a change without labels.
        assert_eq!(review_reason(&by_branch, &ReviewRules::default()), None);
    }

    #[test]
    fn issues_are_wanted_by_label_assignment_or_query() {
        let rules = IntakeRules {
            label: Some("countersign".to_owned()),
            account: Some("bot".to_owned()),
            all: false,
        };
        let plain = ArrivedIssue::default();
        assert!(!is_wanted(&plain, &rules));
        let labelled = ArrivedIssue {
            labels: names(&["Countersign"]),
            ..plain.clone()
        };
        assert!(is_wanted(&labelled, &rules));
        assert!(is_wanted(
            &ArrivedIssue {
                assignees: names(&["bot"]),
                ..plain.clone()
            },
            &rules
        ));
        assert!(!is_wanted(
            &ArrivedIssue {
                is_closed: true,
                ..labelled
            },
            &rules
        ));
        assert!(is_wanted(&plain, &IntakeRules { all: true, ..rules }));
        assert!(!is_wanted(&plain, &IntakeRules::default()));
    }

    #[test]
    fn keys_of_trackers_are_ids_and_numbers_get_the_name_of_their_connection() {
        let id = |connection, key| ticket_id_of_issue(connection, key).map(|id| id.to_string());
        assert_eq!(id("app", "7").as_deref(), Some("app-7"));
        assert_eq!(id("app", "#7").as_deref(), Some("app-7"));
        assert_eq!(id("app", "PROJ-7").as_deref(), Some("PROJ-7"));
        assert_eq!(id("app", "../7"), None);
        assert_eq!(id("app", ""), None);
    }
}
