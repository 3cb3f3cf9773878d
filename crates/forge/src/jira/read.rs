//! Reads Jira's answers.

use serde_json::Value;

use super::Jira;
use crate::feedback::{CommentKind, CommentRef, PersonComment};
use crate::json::{entries, id, text};
use crate::model::TrackedIssue;

/// Words in the names of statuses that mean: it is not going to be done.
const DECLINED: [&str; 5] = ["won't", "wont", "cancel", "declin", "reject"];
const MINUTE_MS: i64 = 60_000;

pub fn words(list: &Value) -> Vec<String> {
    let words = entries(list).iter();
    words
        .filter_map(|word| Some(word.as_str()?.to_owned()))
        .collect()
}

pub fn is_done(status: &Value) -> bool {
    status["statusCategory"]["key"] == "done"
}

pub fn is_declined(status: &Value) -> bool {
    let name = text(status, "name").to_ascii_lowercase();
    DECLINED.iter().any(|word| name.contains(word))
}

/// Returns a query without its order: it becomes a part of a larger one.
pub fn without_order(query: &str) -> &str {
    let lower = query.to_ascii_lowercase();
    lower
        .rfind("order by")
        .map_or(query, |at| &query[..at])
        .trim()
}

/// Returns the minutes since a time of Jira, rounded up; `None` without a time.
pub fn minutes_since(updated_at: &str, now_ms: i64) -> Option<i64> {
    let format = "%Y-%m-%dT%H:%M:%S%.f%z";
    let time = jiff::fmt::strtime::parse(format, updated_at).ok()?;
    let then = time.to_timestamp().ok()?.as_millisecond();
    Some((now_ms.saturating_sub(then) / MINUTE_MS + 2).max(2))
}

pub fn issue(value: &Value, account: &str, api: &str) -> TrackedIssue {
    let fields = &value["fields"];
    let key = text(value, "key");
    let site = api.split_once("/rest/").map_or(api, |(site, _)| site);
    let mut issue = TrackedIssue {
        title: text(fields, "summary"),
        body: Jira::plain_text(&fields["description"]),
        author: text(&fields["reporter"], account),
        assignees: [text(&fields["assignee"], account)]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect(),
        closed: is_done(&fields["status"]),
        status: text(&fields["status"], "name"),
        labels: words(&fields["labels"]),
        sub_issues: crate::json::texts(&fields["subtasks"], "key"),
        url: format!("{site}/browse/{key}"),
        updated_at: text(fields, "updated"),
        key,
        ..TrackedIssue::default()
    };
    for link in entries(&fields["issuelinks"]) {
        let (inward, outward) = (&link["inwardIssue"], &link["outwardIssue"]);
        // The inward name is what this issue is to the other: "is blocked by".
        let is_blocked = text(&link["type"], "inward").eq_ignore_ascii_case("is blocked by");
        if is_blocked && !inward.is_null() {
            issue.blocked_by.push(text(inward, "key"));
            continue;
        }
        let others = [inward, outward]
            .into_iter()
            .filter(|other| !other.is_null());
        issue.links.extend(others.map(|other| text(other, "key")));
    }
    issue
}

pub fn comment(value: &Value, on: &str, account: &str, own: &str) -> PersonComment {
    let author = text(&value["author"], account);
    let (created_at, updated_at) = (text(value, "created"), text(value, "updated"));
    PersonComment {
        comment: CommentRef {
            on: on.to_owned(),
            id: id(value),
            kind: CommentKind::Plain,
        },
        is_bot: value["author"]["accountType"] == "app",
        is_own: author == own,
        author,
        edited: created_at != updated_at,
        body: Jira::plain_text(&value["body"]),
        place: None,
        in_reply_to: None,
        finding: None,
        resolved: false,
        created_at,
        updated_at,
        url: String::new(),
    }
}
