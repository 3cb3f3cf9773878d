//! The budget's clock: an agent is stopped when it has spent what is left of its round or its
//! ticket, as far as it tells while it works.
//!
//! Most tell their price only with their last word; what was done by then is not thrown away.

use std::time::Duration;

use flow::usage::Caps;

use super::agents::spent;
use crate::agent::{Adapter, AgentEvent, Assignment, Report, Usage};
use crate::process::Exit;

#[derive(Debug)]
pub struct Purse {
    left: Caps,
    /// What the session had spent before, where the agent tells its sum.
    before: Usage,
    emptied: Option<String>,
}

impl Purse {
    pub fn new(left: Caps, adapter: &dyn Adapter, assignment: &Assignment) -> Self {
        let session = assignment.session.as_ref();
        let before = session.filter(|_| adapter.sums_over_session());
        Self {
            left,
            before: before.map(|session| session.spent).unwrap_or_default(),
            emptied: None,
        }
    }

    /// Whether what the agent has told by now is all that there was, or more.
    pub fn is_emptied_by(&mut self, told: Usage) -> bool {
        if self.emptied.is_none() {
            let used = spent(told.since(self.before), Duration::ZERO);
            self.emptied = self.left.reached_by(used);
        }
        self.emptied.is_some()
    }

    /// What its end was: its own, or the end of the money or of the time.
    pub fn judge(self, mut report: Report) -> Report {
        let timed_out = (report.exit == Exit::WallLimit)
            .then(|| self.left.reached_by(spent(Usage::default(), report.wall)));
        let stopped = self.emptied.filter(|_| report.exit == Exit::Cancelled);
        let Some(limit) = stopped.or(timed_out.flatten()) else {
            return report;
        };
        let has_answered = |event: &AgentEvent| {
            matches!(event, AgentEvent::Answered { .. } | AgentEvent::Finished)
        };
        if report.events.iter().any(has_answered) {
            report.exit = Exit::Dismissed;
        } else {
            let message = format!("stopped at what was left for it: {limit}");
            report.trouble = Some(AgentEvent::OverBudget { message });
        }
        report
    }
}
