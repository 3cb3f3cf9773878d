//! Reads GitHub's answers. Missing fields are empty: Enterprise Server has older ones.

use serde_json::Value;

use crate::feedback::{CommentKind, CommentPlace, CommentRef, PersonComment};
pub use crate::json::{entries, id, text};
use crate::model::{ChangeState, ForgeChange, ForgeCursor, ForgePermission, TrackedIssue};

pub fn number(value: &Value) -> String {
    value["number"].as_u64().unwrap_or_default().to_string()
}

pub fn is_bot(user: &Value) -> bool {
    user["type"] == "Bot" || text(user, "login").ends_with("[bot]")
}

pub fn logins(users: &Value) -> Vec<String> {
    entries(users)
        .iter()
        .map(|user| text(user, "login"))
        .collect()
}

/// Returns the cursor after a page.
pub fn advanced(cursor: &ForgeCursor, newest: Option<String>, etag: Option<String>) -> ForgeCursor {
    let updated_at = newest.unwrap_or_else(|| cursor.updated_at.clone());
    // The tag belongs to an address, and the address has the time.
    let etag = etag.filter(|_| updated_at == cursor.updated_at);
    ForgeCursor { updated_at, etag }
}

pub fn issue(value: &Value) -> TrackedIssue {
    TrackedIssue {
        key: number(value),
        title: text(value, "title"),
        body: text(value, "body"),
        author: text(&value["user"], "login"),
        assignees: logins(&value["assignees"]),
        closed: value["state"] == "closed",
        status: text(value, "state"),
        labels: names(entries(&value["labels"])),
        url: text(value, "html_url"),
        updated_at: text(value, "updated_at"),
        ..TrackedIssue::default()
    }
}

pub fn comment(value: &Value, kind: CommentKind, own: &str) -> PersonComment {
    let belongs_to = match kind {
        CommentKind::Plain => text(value, "issue_url"),
        CommentKind::Inline => text(value, "pull_request_url"),
    };
    let (created_at, updated_at) = (text(value, "created_at"), text(value, "updated_at"));
    let author = text(&value["user"], "login");
    let line = value["line"].as_u64().filter(|_| value["side"] != "LEFT");
    PersonComment {
        comment: CommentRef {
            on: belongs_to.rsplit('/').next().unwrap_or_default().to_owned(),
            id: id(value),
            kind,
        },
        is_bot: is_bot(&value["user"]),
        is_own: author.eq_ignore_ascii_case(own),
        author,
        edited: created_at != updated_at,
        body: text(value, "body"),
        place: value["path"].as_str().map(|path| CommentPlace {
            path: path.to_owned(),
            line: line.and_then(|line| u32::try_from(line).ok()),
        }),
        in_reply_to: value["in_reply_to_id"].as_u64().map(|id| id.to_string()),
        finding: None,
        resolved: false,
        created_at,
        updated_at,
        url: text(value, "html_url"),
    }
}

pub fn names(entries: &[Value]) -> Vec<String> {
    entries.iter().map(|entry| text(entry, "name")).collect()
}

pub fn permission(word: &str) -> ForgePermission {
    match word {
        "admin" => ForgePermission::Admin,
        "write" | "maintain" => ForgePermission::Write,
        "read" | "triage" => ForgePermission::Read,
        _ => ForgePermission::None,
    }
}

pub fn change(value: &Value) -> ForgeChange {
    let is_merged = value["merged"] == true || !value["merged_at"].is_null();
    let state = match () {
        () if is_merged => ChangeState::Merged,
        () if value["state"] == "closed" => ChangeState::Closed,
        () => ChangeState::Open,
    };
    // The repository of a fork that was deleted is null.
    let (head, base) = (
        &value["head"]["repo"]["full_name"],
        &value["base"]["repo"]["full_name"],
    );
    ForgeChange {
        number: value["number"].as_u64().unwrap_or_default(),
        title: text(value, "title"),
        body: text(value, "body"),
        author: text(&value["user"], "login"),
        assignees: logins(&value["assignees"]),
        reviewers: logins(&value["requested_reviewers"]),
        state,
        draft: value["draft"] == true,
        head_branch: text(&value["head"], "ref"),
        head_commit: text(&value["head"], "sha"),
        base_branch: text(&value["base"], "ref"),
        from_fork: head.is_null() || head != base,
        labels: names(value["labels"].as_array().map_or(&[], Vec::as_slice)),
        url: text(value, "html_url"),
        updated_at: text(value, "updated_at"),
    }
}
