//! Reviews pull requests without a ticket, and posts the result.

use forge::{ChangeKey, ChangeState};
use serde_json::json;

use super::{ForgeInbox, Progress, commands};
use crate::failure::{ExitKind, Failure};
use crate::operations::connections::LinkedForge;
use crate::operations::forge_connection::forge_failure;
use crate::operations::pull_request::{PullRequestOptions, review_pull_request};
use crate::operations::review::ReviewOptions;

impl ForgeInbox {
    pub(super) async fn review(
        &self,
        client: &LinkedForge,
        number: u64,
        head: &str,
    ) -> Result<Progress, Failure> {
        let Some(forge) = client.forge() else {
            return Ok(Progress::Done);
        };
        let found = forge.find_change(&ChangeKey::Number(number)).await;
        let change = found.map_err(forge_failure)?;
        // A newer head has a job of its own, and a closed change needs no review.
        let is_current = change
            .is_some_and(|change| change.state == ChangeState::Open && change.head_commit == head);
        if !is_current {
            return Ok(Progress::Done);
        }
        let permitted = commands::permitted_by(&self.app, client.name(), number, head).await?;
        let options = PullRequestOptions {
            number,
            post: true,
            reports_only: false,
            permitted_head: permitted.is_some().then(|| head.to_owned()),
            review: ReviewOptions {
                checks: permitted.is_some(),
                ..ReviewOptions::default()
            },
        };
        let directory = &client.link.directory;
        let stop = self.stop.clone();
        let reviewing = review_pull_request(&self.app, directory, &options, stop, |_| {});
        let reviewed = Box::pin(reviewing).await?;
        match reviewed.posted {
            Some(Err(failure)) => {
                let moved = forge.find_change(&ChangeKey::Number(number)).await;
                let moved = moved.map_err(forge_failure)?;
                if moved.is_some_and(|change| change.head_commit == head) {
                    return Err(failure);
                }
            }
            Some(Ok(posted)) => {
                let body = json!({"connection": client.name(), "change": number, "head": head, "gate": posted.gate,
                    "remarks": reviewed.result.remarks,
                    "why": format!("change {number} of {} was reviewed: {}", client.name(), posted.gate)});
                self.note("change_reviewed", body).await;
            }
            None => {}
        }
        if self.stop.is_requested() {
            return Err(Failure::new(ExitKind::Interrupted, "the server stops"));
        }
        Ok(Progress::Done)
    }
}
