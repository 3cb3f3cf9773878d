//! Reads the answers of Forgejo and Gitea.

use serde_json::Value;

use crate::feedback::{CommentKind, CommentPlace, CommentRef, PersonComment};
use crate::json::{id, number, text, texts, without_prefix};
use crate::model::{ChangeState, ForgeChange, ForgePermission, TrackedIssue};

/// Beginning of the title of a draft.
pub const DRAFT: &str = "WIP: ";
pub const DRAFTS: [&str; 2] = ["WIP:", "[WIP]"];

pub fn is_own(entry: &Value, own: &str) -> bool {
    text(&entry["user"], "login").eq_ignore_ascii_case(own)
}

/// Accounts of the server's own automation.
pub fn is_bot(user: &Value) -> bool {
    let name = text(user, "login");
    name.ends_with("[bot]") || matches!(name.as_str(), "forgejo-actions" | "gitea-actions")
}

pub fn permission(word: &str) -> ForgePermission {
    match word {
        "owner" | "admin" => ForgePermission::Admin,
        "write" => ForgePermission::Write,
        "read" => ForgePermission::Read,
        _ => ForgePermission::None,
    }
}

pub fn change(value: &Value) -> ForgeChange {
    let state = match () {
        () if value["merged"] == true => ChangeState::Merged,
        () if value["state"] == "closed" => ChangeState::Closed,
        () => ChangeState::Open,
    };
    let full = text(value, "title");
    let (draft, title) = without_prefix(&full, &DRAFTS);
    let (head, base) = (&value["head"]["repo_id"], &value["base"]["repo_id"]);
    ForgeChange {
        number: number(value, "number"),
        title: title.to_owned(),
        body: text(value, "body"),
        author: text(&value["user"], "login"),
        assignees: texts(&value["assignees"], "login"),
        reviewers: texts(&value["requested_reviewers"], "login"),
        state,
        draft,
        head_branch: text(&value["head"], "ref"),
        head_commit: text(&value["head"], "sha"),
        base_branch: text(&value["base"], "ref"),
        from_fork: head.is_null() || head != base,
        labels: texts(&value["labels"], "name"),
        url: text(value, "html_url"),
        updated_at: text(value, "updated_at"),
    }
}

pub fn issue(value: &Value) -> TrackedIssue {
    TrackedIssue {
        key: number(value, "number").to_string(),
        title: text(value, "title"),
        body: text(value, "body"),
        author: text(&value["user"], "login"),
        assignees: texts(&value["assignees"], "login"),
        closed: value["state"] == "closed",
        status: text(value, "state"),
        labels: texts(&value["labels"], "name"),
        url: text(value, "html_url"),
        updated_at: text(value, "updated_at"),
        ..TrackedIssue::default()
    }
}

pub fn comment(value: &Value, on: &str, own: &str) -> PersonComment {
    let path = value["path"].as_str();
    let line = value["position"].as_u64().filter(|line| *line > 0);
    let (created_at, updated_at) = (text(value, "created_at"), text(value, "updated_at"));
    PersonComment {
        comment: CommentRef {
            on: on.to_owned(),
            id: id(value),
            kind: if path.is_some() {
                CommentKind::Inline
            } else {
                CommentKind::Plain
            },
        },
        author: text(&value["user"], "login"),
        is_bot: is_bot(&value["user"]),
        is_own: is_own(value, own),
        edited: created_at != updated_at,
        body: text(value, "body"),
        place: path.map(|path| CommentPlace {
            path: path.to_owned(),
            line: line.and_then(|line| u32::try_from(line).ok()),
        }),
        in_reply_to: None,
        finding: None,
        resolved: !value["resolver"].is_null(),
        created_at,
        updated_at,
        url: text(value, "html_url"),
    }
}

/// Number of the issue or change that a comment belongs to, by its addresses.
pub fn belongs_to(comment: &Value) -> String {
    let address = [
        text(comment, "issue_url"),
        text(comment, "pull_request_url"),
    ];
    let address = address.iter().find(|address| !address.is_empty());
    let last = address.and_then(|address| address.rsplit('/').next());
    last.unwrap_or_default().to_owned()
}
