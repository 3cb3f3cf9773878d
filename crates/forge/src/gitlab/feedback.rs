//! Reads what others say on a merge request.

use serde_json::Value;

use super::read::{self, is_own};
use super::{Gitlab, PAGE};
use crate::ForgeError;
use crate::feedback::{
    ChangeFeedback, LOG_CHARS_MAX, LOGS_MAX, OtherCheck, OtherCheckState, PersonComment,
    PersonReview, ReviewVerdict,
};
use crate::json::{entries, id, number, text};
use crate::marker::marker_key;
use crate::rest::encoded;

impl Gitlab {
    pub(super) async fn read_feedback(&self, change: u64) -> Result<ChangeFeedback, ForgeError> {
        let own = self.own_login().await?.to_owned();
        let found = self.rest.get(&self.change_path(change, "")).await?;
        let head = text(&found, "sha");
        let approvals = self.change_path(change, "/approvals");
        let approvals = self.rest.get_maybe(&approvals).await?.unwrap_or_default();
        let reviews = entries(&approvals["approved_by"]).iter().map(|entry| {
            let user = &entry["user"];
            let author = text(user, "username");
            PersonReview {
                id: format!("approval-{author}"),
                is_bot: read::is_bot(user),
                is_own: author.eq_ignore_ascii_case(&own),
                author,
                verdict: ReviewVerdict::Approved,
                body: String::new(),
                // GitLab does not say which commit was approved.
                commit: String::new(),
                submitted_at: text(entry, "approved_at"),
            }
        });
        let mut comments = Vec::new();
        let path = self.change_path(change, "/discussions");
        for discussion in self.rest.list(&path, PAGE).await? {
            let notes = entries(&discussion["notes"]);
            let first = notes.first().map(id);
            let head = notes.first().filter(|note| is_own(note, &own));
            let finding = head.and_then(|note| marker_key(&text(note, "body"), "finding"));
            let resolved = notes.first().is_some_and(|note| note["resolved"] == true);
            for (index, note) in notes.iter().enumerate() {
                let Some(mut comment) = read::comment(note, &change.to_string(), &own, &self.pages)
                else {
                    continue;
                };
                comment.in_reply_to = first.clone().filter(|_| index > 0);
                comment.finding.clone_from(&finding);
                comment.resolved = resolved;
                comments.push(comment);
            }
        }
        comments.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        let wanting = self.reviewers_who_want_changes(change).await?;
        let wanting = wanting
            .iter()
            .map(|entry| wanted_changes(entry, &comments, &own));
        let reviews: Vec<PersonReview> = reviews.chain(wanting).collect();
        let conflict = match found["detailed_merge_status"].as_str() {
            Some("conflict") => Some(true),
            Some("checking" | "unchecked" | "preparing") => None,
            Some(_) => found["has_conflicts"].as_bool(),
            None => found["has_conflicts"]
                .as_bool()
                .filter(|conflict| *conflict),
        };
        Ok(ChangeFeedback {
            checks: self.others_checks(&head, &own).await?,
            head_commit: head,
            reviews,
            comments,
            conflict,
        })
    }

    async fn reviewers_who_want_changes(&self, change: u64) -> Result<Vec<Value>, ForgeError> {
        let path = self.change_path(change, "/reviewers");
        // Older servers do not have it.
        let found = self.rest.get_maybe(&path).await?.unwrap_or_default();
        let all = entries(&found).iter().cloned();
        Ok(all
            .filter(|entry| entry["state"] == "requested_changes")
            .collect())
    }

    async fn others_checks(&self, commit: &str, own: &str) -> Result<Vec<OtherCheck>, ForgeError> {
        let commit = encoded(commit);
        let path = self.path(&format!("/repository/commits/{commit}/statuses"));
        let mut statuses = self.rest.list(&path, PAGE).await?;
        statuses.sort_by_key(|status| std::cmp::Reverse(number(status, "id")));
        let (mut seen, mut checks, mut logs) = (Vec::new(), Vec::new(), 0);
        for status in &statuses {
            let (name, url) = (text(status, "name"), text(status, "target_url"));
            if seen.contains(&name) {
                continue;
            }
            seen.push(name.clone());
            // A job belongs to the account that pushed, and that is often ours.
            let is_job = url.contains("/-/jobs/") || url.contains("/-/builds/");
            if !is_job && is_own(status, own) {
                continue;
            }
            let state = match status["status"].as_str() {
                Some("success") => OtherCheckState::Passed,
                Some("failed") if status["allow_failure"] == true => OtherCheckState::Neutral,
                Some("failed") => OtherCheckState::Failed,
                Some("canceled" | "skipped" | "manual") => OtherCheckState::Neutral,
                _ => OtherCheckState::Pending,
            };
            let mut log_tail = None;
            if state == OtherCheckState::Failed && is_job && logs < LOGS_MAX {
                logs += 1;
                log_tail = self.job_log(status).await;
            }
            checks.push(OtherCheck {
                name,
                state,
                summary: text(status, "description"),
                url,
                log_tail,
            });
        }
        Ok(checks)
    }

    async fn job_log(&self, job: &Value) -> Option<String> {
        let path = self.path(&format!("/jobs/{}/trace", id(job)));
        let text = self.rest.get_end(&path, LOG_CHARS_MAX).await.ok()?;
        (!text.is_empty()).then_some(text)
    }
}

/// Reads a request for changes. GitLab keeps the state only; the words are the reviewer's last
/// comment on the merge request.
fn wanted_changes(entry: &Value, comments: &[PersonComment], own: &str) -> PersonReview {
    let user = &entry["user"];
    let author = text(user, "username");
    let mut words = comments.iter().rev().filter(|one| one.place.is_none());
    let words = words.find(|one| one.author == author && one.finding.is_none());
    let id = words.map_or_else(String::new, |one| one.comment.id.clone());
    PersonReview {
        id: format!("changes-{author}-{id}"),
        is_bot: read::is_bot(user),
        is_own: author.eq_ignore_ascii_case(own),
        author,
        verdict: ReviewVerdict::ChangesRequested,
        body: words.map(|one| one.body.clone()).unwrap_or_default(),
        commit: String::new(),
        submitted_at: text(entry, "created_at"),
    }
}
