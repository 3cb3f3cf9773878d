//! Reads what others say on a pull request.

use std::collections::BTreeMap;

use super::Forgejo;
use super::read::{self, is_own};
use crate::ForgeError;
use crate::feedback::{ChangeFeedback, OtherCheck, OtherCheckState, PersonReview, ReviewVerdict};
use crate::json::{id, number, text};
use crate::marker::marker_key;
use crate::rest::encoded;

impl Forgejo {
    pub(super) async fn read_feedback(&self, change: u64) -> Result<ChangeFeedback, ForgeError> {
        let own = self.own_login().await?.to_owned();
        let pull = self
            .rest
            .get(&self.path(&format!("/pulls/{change}")))
            .await?;
        let head = text(&pull["head"], "sha");
        let on = change.to_string();
        let reviews = self
            .list(&self.path(&format!("/pulls/{change}/reviews")))
            .await?;
        let inline = self.inline_comments(change, &reviews).await?;
        // Comments on the same line of a file are one thread; the first one began it.
        let mut threads = BTreeMap::new();
        let mut comments = Vec::new();
        for entry in &inline {
            let place = (
                text(entry, "path"),
                number(entry, "position"),
                number(entry, "original_position"),
            );
            let mut comment = read::comment(entry, &on, &own);
            let own_finding = || {
                let key = marker_key(&text(entry, "body"), "finding");
                key.filter(|_| is_own(entry, &own))
            };
            if let Some((first, finding)) = threads.get(&place) {
                comment.in_reply_to = Some(String::clone(first));
                comment.finding = own_finding().or_else(|| Option::clone(finding));
            } else {
                comment.finding = own_finding();
                threads.insert(place, (id(entry), comment.finding.clone()));
            }
            comments.push(comment);
        }
        let plain = self.comments_on(&change.to_string(), "").await?;
        comments.extend(plain.iter().map(|entry| read::comment(entry, &on, &own)));
        comments.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        let reviews = reviews.iter().filter_map(|entry| {
            let verdict = match entry["state"].as_str()? {
                _ if entry["dismissed"] == true => ReviewVerdict::Dismissed,
                "APPROVED" => ReviewVerdict::Approved,
                "REQUEST_CHANGES" => ReviewVerdict::ChangesRequested,
                "COMMENT" => ReviewVerdict::Commented,
                _ => return None,
            };
            Some(PersonReview {
                id: id(entry),
                author: text(&entry["user"], "login"),
                is_bot: read::is_bot(&entry["user"]),
                is_own: is_own(entry, &own),
                verdict,
                body: text(entry, "body"),
                commit: text(entry, "commit_id"),
                submitted_at: text(entry, "submitted_at"),
            })
        });
        Ok(ChangeFeedback {
            reviews: reviews.collect(),
            comments,
            checks: self.others_checks(&head, &own).await?,
            head_commit: head,
            // False is also said of a draft and while the server computes it.
            conflict: (pull["mergeable"] == true).then_some(false),
        })
    }

    async fn others_checks(&self, commit: &str, own: &str) -> Result<Vec<OtherCheck>, ForgeError> {
        let path = self.path(&format!("/commits/{}/statuses", encoded(commit)));
        let mut statuses = self.list(&path).await?;
        statuses.sort_by_key(|status| std::cmp::Reverse(number(status, "id")));
        let (mut seen, mut checks) = (Vec::new(), Vec::new());
        for status in &statuses {
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
                state: match status["status"].as_str() {
                    Some("success") => OtherCheckState::Passed,
                    Some("failure" | "error") => OtherCheckState::Failed,
                    Some("warning" | "skipped") => OtherCheckState::Neutral,
                    _ => OtherCheckState::Pending,
                },
                summary: text(status, "description"),
                url: text(status, "target_url"),
                // The API has no logs of jobs.
                log_tail: None,
            });
        }
        Ok(checks)
    }
}
