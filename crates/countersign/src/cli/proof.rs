//! Shows how the setup and the checks of a project run on its base, for `init` and `doctor`.

use engine::activity::{Activity, ActivityKind};
use engine::coordinator::{ProgressListener, ProgressUpdate};

use super::out::Out;
use app::operations::proof::ProofReport;

/// Shows each command when it starts.
#[derive(Debug)]
pub struct ProofListener(pub Out);

impl ProgressListener for ProofListener {
    fn on_update(&self, _update: ProgressUpdate) {}

    fn on_activity(&self, activity: Activity) {
        if activity.sign == ActivityKind::Began {
            let verb = match activity.role {
                "preparing" => "preparing",
                _ => "running",
            };
            self.0.progress(format!("{verb} {}…", activity.name));
        }
    }
}

/// Renders the results: one line each, and the end of the output of those that are red.
pub fn render(report: &ProofReport) -> Vec<String> {
    let mut lines = Vec::new();
    for check in &report.checks {
        let mark = if check.green { "ok " } else { "!! " };
        let how = if check.green { "green" } else { "red" };
        let seconds = check.seconds;
        lines.push(format!(
            "{mark} {:<10} {how} after {seconds:.1} s",
            check.name
        ));
        lines.extend(check.last_lines.iter().map(|line| format!("    | {line}")));
        if !check.hint.is_empty() {
            lines.push(format!("    likely fix: {}", check.hint));
        }
    }
    lines.extend(report.notes.iter().map(|note| format!("!!  {note}")));
    lines
}
