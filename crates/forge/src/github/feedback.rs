//! Reads what others say on a pull request: reviews, comments, checks and conflicts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::read::{self, entries, id, text};
use super::{Github, PAGE, is_own};
use crate::ForgeError;
use crate::feedback::{
    ChangeFeedback, CommentKind, LOG_CHARS_MAX, LOGS_MAX, OtherCheck, OtherCheckState,
    PersonComment, PersonReview, ReviewVerdict,
};
use crate::marker::marker_key;
use crate::rest::encoded;

/// Mark of our own check runs.
pub(super) const EXTERNAL_ID: &str = "countersign:";

impl Github {
    pub(super) async fn read_feedback(&self, number: u64) -> Result<ChangeFeedback, ForgeError> {
        let own = self.own_login().await?.to_owned();
        let pull = self
            .rest
            .get(&self.path(&format!("/pulls/{number}")))
            .await?;
        let head = text(&pull["head"], "sha");
        let reviews = self.path(&format!("/pulls/{number}/reviews"));
        let reviews = self.rest.list(&reviews, PAGE).await?;
        let reviews = reviews.iter().filter_map(|entry| review(entry, &own));
        let mut comments = self.inline_comments(number, &own).await?;
        let plain = self.path(&format!("/issues/{number}/comments"));
        let plain = self.rest.list(&plain, PAGE).await?;
        let plain = plain.iter();
        comments.extend(plain.map(|entry| read::comment(entry, CommentKind::Plain, &own)));
        comments.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        // `blocked` and `behind` are no conflict; null means that GitHub still computes it.
        let conflict = match (&pull["mergeable"], pull["mergeable_state"].as_str()) {
            (_, Some("dirty")) => Some(true),
            (Value::Bool(mergeable), _) => Some(!mergeable),
            _ => None,
        };
        Ok(ChangeFeedback {
            checks: self.others_checks(&head, &own).await?,
            head_commit: head,
            reviews: reviews.collect(),
            comments,
            conflict,
        })
    }

    async fn inline_comments(
        &self,
        number: u64,
        own: &str,
    ) -> Result<Vec<PersonComment>, ForgeError> {
        let path = self.path(&format!("/pulls/{number}/comments"));
        let found = self.rest.list(&path, PAGE).await?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let resolved = self.resolved_threads(number).await?;
        let mut keys = BTreeMap::new();
        for entry in found.iter().filter(|entry| is_own(entry, own)) {
            if let Some(key) = marker_key(&text(entry, "body"), "finding") {
                keys.insert(id(entry), key);
            }
        }
        let read = |entry: &Value| {
            let mut comment = read::comment(entry, CommentKind::Inline, own);
            let first = comment
                .in_reply_to
                .as_ref()
                .unwrap_or(&comment.comment.id)
                .clone();
            comment.finding = keys.get(&first).cloned();
            comment.resolved = resolved.contains(&first);
            comment
        };
        Ok(found.iter().map(read).collect())
    }

    /// Reads check runs and commit statuses of other programs.
    async fn others_checks(&self, commit: &str, own: &str) -> Result<Vec<OtherCheck>, ForgeError> {
        let commit = encoded(commit);
        let path = self.path(&format!("/commits/{commit}/check-runs?per_page=100"));
        let runs = self.rest.get_maybe(&path).await?.unwrap_or_default();
        let mut checks = Vec::new();
        let mut logs = 0;
        let runs = entries(&runs["check_runs"]).iter();
        for run in runs.filter(|run| !text(run, "external_id").starts_with(EXTERNAL_ID)) {
            let state = run_state(run);
            let is_job = run["app"]["slug"] == "github-actions";
            let wanted = state == OtherCheckState::Failed && is_job && logs < LOGS_MAX;
            let log_tail = if wanted {
                logs += 1;
                self.job_log(&id(run)).await
            } else {
                None
            };
            let output = &run["output"];
            let summary = [text(output, "title"), text(output, "summary")];
            checks.push(OtherCheck {
                name: text(run, "name"),
                state,
                summary: findings::shorten(summary.join("\n").trim(), LOG_CHARS_MAX),
                url: text(run, "html_url"),
                log_tail,
            });
        }
        let statuses = self.path(&format!("/commits/{commit}/statuses?per_page=100"));
        let statuses = self.rest.get_maybe(&statuses).await?.unwrap_or_default();
        // The newest of a name comes first, and only that counts.
        let mut seen = Vec::new();
        for status in entries(&statuses) {
            let name = text(status, "context");
            if seen.contains(&name) {
                continue;
            }
            seen.push(name.clone());
            if text(&status["creator"], "login").eq_ignore_ascii_case(own) {
                continue;
            }
            checks.push(OtherCheck {
                name,
                state: match status["state"].as_str() {
                    Some("success") => OtherCheckState::Passed,
                    Some("failure" | "error") => OtherCheckState::Failed,
                    _ => OtherCheckState::Pending,
                },
                summary: text(status, "description"),
                url: text(status, "target_url"),
                log_tail: None,
            });
        }
        Ok(checks)
    }

    /// Reads the end of a job's log. A log that cannot be read hides nothing: the check is red anyway.
    async fn job_log(&self, job: &str) -> Option<String> {
        let path = self.path(&format!("/actions/jobs/{}/logs", encoded(job)));
        let text = self.rest.get_end(&path, LOG_CHARS_MAX).await.ok()?;
        (!text.is_empty()).then_some(text)
    }

    /// Withdraws our verdicts. A verdict that is withdrawn already stays as it is.
    pub(super) async fn withdraw_reviews(
        &self,
        change: u64,
        reason: &str,
    ) -> Result<usize, ForgeError> {
        let own = self.own_login().await?;
        let path = self.path(&format!("/pulls/{change}/reviews"));
        let found = self.rest.list(&path, PAGE).await?;
        let counts = |entry: &&Value| {
            matches!(
                entry["state"].as_str(),
                Some("APPROVED" | "CHANGES_REQUESTED")
            )
        };
        let mut withdrawn = 0;
        for entry in found
            .iter()
            .filter(|entry| is_own(entry, own))
            .filter(counts)
        {
            let path = format!("{path}/{}/dismissals", id(entry));
            let request = json!({"message": reason, "event": "DISMISS"});
            self.rest.write("PUT", &path, &request).await?;
            withdrawn += 1;
        }
        Ok(withdrawn)
    }
}

fn review(entry: &Value, own: &str) -> Option<PersonReview> {
    let verdict = match entry["state"].as_str()? {
        "APPROVED" | "APPROVE" => ReviewVerdict::Approved,
        "CHANGES_REQUESTED" | "REQUEST_CHANGES" => ReviewVerdict::ChangesRequested,
        "COMMENTED" | "COMMENT" => ReviewVerdict::Commented,
        "DISMISSED" => ReviewVerdict::Dismissed,
        // A review that is not submitted is its author's alone.
        _ => return None,
    };
    Some(PersonReview {
        id: id(entry),
        author: text(&entry["user"], "login"),
        is_bot: read::is_bot(&entry["user"]),
        is_own: is_own(entry, own),
        verdict,
        body: text(entry, "body"),
        commit: text(entry, "commit_id"),
        submitted_at: text(entry, "submitted_at"),
    })
}

fn run_state(run: &Value) -> OtherCheckState {
    if run["status"] != "completed" {
        return OtherCheckState::Pending;
    }
    match run["conclusion"].as_str() {
        Some("success") => OtherCheckState::Passed,
        Some("failure" | "timed_out" | "action_required" | "startup_failure") => {
            OtherCheckState::Failed
        }
        _ => OtherCheckState::Neutral,
    }
}
