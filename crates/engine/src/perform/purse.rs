//! The budget's clock: an agent is stopped when it has spent what is left of its round or its
//! ticket, as far as it tells while it works.
//!
//! Most tell their price only with their last word; what was done by then is not thrown away.

use std::time::Duration;

use flow::usage::Caps;

use super::agents::spent;
use crate::agent::{Adapter, AgentAssignment, AgentEvent, AgentReport, AgentUsage};
use crate::process::ProcessExit;

#[derive(Debug)]
pub struct BudgetGuard {
    left: Caps,
    /// What the session had spent before, where the agent tells its sum.
    before: AgentUsage,
    emptied: Option<String>,
}

impl BudgetGuard {
    pub fn new(left: Caps, adapter: &dyn Adapter, assignment: &AgentAssignment) -> Self {
        let session = assignment.session.as_ref();
        let before = session.filter(|_| adapter.sums_over_session());
        Self {
            left,
            before: before.map(|session| session.spent).unwrap_or_default(),
            emptied: None,
        }
    }

    /// Whether what the agent has told by now is all that there was, or more.
    pub fn is_emptied_by(&mut self, told: AgentUsage) -> bool {
        if self.emptied.is_none() {
            let used = spent(told.since(self.before), Duration::ZERO);
            self.emptied = self.left.reached_by(used);
        }
        self.emptied.is_some()
    }

    /// What its end was: its own, or the end of the money or of the time.
    pub fn judge(self, mut report: AgentReport) -> AgentReport {
        let timed_out = (report.exit == ProcessExit::WallLimit).then(|| {
            self.left
                .reached_by(spent(AgentUsage::default(), report.wall))
        });
        let stopped = self
            .emptied
            .filter(|_| report.exit == ProcessExit::Cancelled);
        let Some(limit) = stopped.or(timed_out.flatten()) else {
            return report;
        };
        let has_answered = |event: &AgentEvent| {
            matches!(event, AgentEvent::Answered { .. } | AgentEvent::Finished)
        };
        if report.events.iter().any(has_answered) {
            report.exit = ProcessExit::Dismissed;
        } else {
            let message = format!("stopped at what was left for it: {limit}");
            report.trouble = Some(AgentEvent::OverBudget { message });
        }
        report
    }
}
