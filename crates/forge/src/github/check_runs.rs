//! Check runs, which only Apps may write.

use serde_json::{Value, json};

use super::Github;
use super::feedback::EXTERNAL_ID;
use super::read::{entries, id, text};
use crate::ForgeError;
use crate::body::cut_body;
use crate::model::{ForgeGate, GateState};
use crate::rest::encoded;
use crate::review_plan::CUT_NOTICE;

/// GitHub takes 65,535 bytes; a character has at most four.
const SUMMARY_CHARS_MAX: usize = 65_535 / 4;
const TITLE_CHARS_MAX: usize = 200;

impl Github {
    /// Writes the gate as a check run. Our own run on the commit is found by its external id.
    pub(super) async fn try_check_run(&self, gate: &ForgeGate) -> Result<(), ForgeError> {
        let commit = encoded(&gate.commit);
        let name = encoded(&gate.name);
        let list = format!("/commits/{commit}/check-runs?check_name={name}&per_page=100");
        let found = self.rest.get(&self.path(&list)).await?;
        let external_id = format!("{EXTERNAL_ID}{}", gate.name);
        let mut runs = entries(&found["check_runs"]).iter();
        let run = runs.find(|run| run["external_id"] == external_id.as_str());
        let (status, conclusion) = match gate.state {
            GateState::Pending => ("in_progress", Value::Null),
            GateState::Success => ("completed", json!("success")),
            GateState::Failure => ("completed", json!("failure")),
            GateState::Error => ("completed", json!("action_required")),
        };
        let words = findings::one_line(&gate.description);
        let title = findings::shorten(&words, TITLE_CHARS_MAX);
        let summary = cut_body(&gate.description, SUMMARY_CHARS_MAX, CUT_NOTICE);
        let url = gate.url.as_deref();
        if run.is_some_and(|run| {
            run["status"] == status
                && run["conclusion"] == conclusion
                && run["output"]["title"] == title.as_str()
                && run["details_url"].as_str() == url
        }) {
            return Ok(());
        }
        let mut request = json!({"name": gate.name, "status": status,
            "external_id": external_id, "output": {"title": title, "summary": summary}});
        if let Some(url) = url {
            request["details_url"] = json!(url);
        }
        // A run that is not completed has no conclusion, not even null.
        if !conclusion.is_null() {
            request["conclusion"] = conclusion;
        }
        // A completed run stays completed: work that begins again gets a run of its own.
        let open = run.filter(|run| text(run, "status") != "completed" || status == "completed");
        let (method, path) = if let Some(run) = open {
            ("PATCH", format!("/check-runs/{}", id(run)))
        } else {
            request["head_sha"] = json!(gate.commit);
            ("POST", "/check-runs".to_owned())
        };
        self.rest
            .write(method, &self.path(&path), &request)
            .await
            .map(drop)
    }
}
