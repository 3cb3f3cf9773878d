//! Reads GitLab's answers.

use serde_json::Value;

use crate::feedback::{CommentKind, CommentPlace, CommentRef, PersonComment};
use crate::json::{entries, id, number, text, texts, without_prefix};
use crate::model::{ChangeState, ForgeChange, TrackedIssue};

/// Beginning of the title of a draft.
pub const DRAFT: &str = "Draft: ";
pub const DRAFTS: [&str; 3] = ["Draft:", "[Draft]", "(Draft)"];

pub fn names(labels: &Value) -> Vec<String> {
    let labels = entries(labels).iter();
    labels
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect()
}

pub fn is_own(note: &Value, own: &str) -> bool {
    text(&note["author"], "username").eq_ignore_ascii_case(own)
}

/// Accounts of project and group tokens have such names.
pub fn is_bot(user: &Value) -> bool {
    let name = text(user, "username");
    user["bot"] == true
        || ((name.starts_with("project_") || name.starts_with("group_")) && name.contains("_bot"))
}

pub fn change(value: &Value) -> ForgeChange {
    let state = match value["state"].as_str() {
        Some("merged") => ChangeState::Merged,
        Some("closed") => ChangeState::Closed,
        _ => ChangeState::Open,
    };
    let full = text(value, "title");
    let (draft, title) = without_prefix(&full, &DRAFTS);
    ForgeChange {
        number: number(value, "iid"),
        title: title.to_owned(),
        body: text(value, "description"),
        author: text(&value["author"], "username"),
        assignees: texts(&value["assignees"], "username"),
        reviewers: texts(&value["reviewers"], "username"),
        state,
        draft: draft || value["draft"] == true,
        head_branch: text(value, "source_branch"),
        head_commit: text(value, "sha"),
        base_branch: text(value, "target_branch"),
        from_fork: value["source_project_id"] != value["target_project_id"],
        labels: names(&value["labels"]),
        url: text(value, "web_url"),
        updated_at: text(value, "updated_at"),
    }
}

pub fn issue_key(value: &Value) -> String {
    format!("#{}", number(value, "iid"))
}

pub fn issue(value: &Value) -> TrackedIssue {
    TrackedIssue {
        key: issue_key(value),
        title: text(value, "title"),
        body: text(value, "description"),
        author: text(&value["author"], "username"),
        assignees: texts(&value["assignees"], "username"),
        closed: value["state"] == "closed",
        status: match value["state"].as_str() {
            Some("closed") => "closed".to_owned(),
            _ => "open".to_owned(),
        },
        labels: names(&value["labels"]),
        url: text(value, "web_url"),
        updated_at: text(value, "updated_at"),
        ..TrackedIssue::default()
    }
}

/// Reads a note. GitLab writes notes of its own (`system`), which are nobody's words.
pub fn comment(note: &Value, on: &str, own: &str, pages: &str) -> Option<PersonComment> {
    if note["system"] == true {
        return None;
    }
    let position = &note["position"];
    let path = position["new_path"].as_str();
    let line = position["new_line"].as_u64();
    let (created_at, updated_at) = (text(note, "created_at"), text(note, "updated_at"));
    Some(PersonComment {
        comment: CommentRef {
            on: on.to_owned(),
            id: id(note),
            kind: if path.is_some() {
                CommentKind::Inline
            } else {
                CommentKind::Plain
            },
        },
        author: text(&note["author"], "username"),
        is_bot: is_bot(&note["author"]),
        is_own: is_own(note, own),
        // A note that was resolved has a new time too: it counts as edited, which is the safe side.
        edited: created_at != updated_at,
        body: text(note, "body"),
        place: path.map(|path| CommentPlace {
            path: path.to_owned(),
            line: line.and_then(|line| u32::try_from(line).ok()),
        }),
        in_reply_to: None,
        finding: None,
        resolved: note["resolved"] == true,
        created_at,
        updated_at,
        url: match on.strip_prefix('#') {
            Some(issue) => format!("{pages}/issues/{issue}#note_{}", id(note)),
            None => format!("{pages}/merge_requests/{on}#note_{}", id(note)),
        },
    })
}

/// Returns the day before a day: GitLab's events are those after a day, in its own time zone.
pub fn day_before(day: &str) -> String {
    let parsed: Result<jiff::civil::Date, _> = day.parse();
    let before = parsed.ok().and_then(|day| day.yesterday().ok());
    before.map_or_else(|| day.to_owned(), |day| day.to_string())
}
