//! Stops an agent that has spent the remaining budget of its round or ticket, as far as it reports
//! its spending during the run.
//!
//! Most agents report their cost only with their last message; finished work is then kept.

use std::time::Duration;

use flow::usage::Caps;

use super::agent_run::{Pricing, to_usage};
use crate::agent::{Adapter, AgentAssignment, AgentEvent, AgentReport, AgentUsage};
use crate::process::ProcessExit;

#[derive(Debug)]
pub struct BudgetGuard<'a> {
    left: Caps,
    pricing: Pricing<'a>,
    /// Earlier spending of the session, if the agent reports the sum of the session.
    before: AgentUsage,
    exceeded: Option<String>,
}

impl<'a> BudgetGuard<'a> {
    pub fn new(
        left: Caps,
        pricing: Pricing<'a>,
        adapter: &dyn Adapter,
        assignment: &AgentAssignment,
    ) -> Self {
        let session = assignment.session.as_ref();
        let before = session.filter(|_| adapter.reports_session_totals());
        Self {
            left,
            pricing,
            before: before.map(|session| session.spent).unwrap_or_default(),
            exceeded: None,
        }
    }

    /// Returns whether the reported usage has reached the remaining budget.
    pub fn is_exceeded_by(&mut self, reported: AgentUsage) -> bool {
        if self.exceeded.is_none() {
            let used = to_usage(reported.since(self.before), Duration::ZERO, self.pricing);
            self.exceeded = self.left.reached_by(used);
        }
        self.exceeded.is_some()
    }

    /// Corrects the exit of a run that ended because its budget or time was spent.
    pub fn apply_to_report(self, mut report: AgentReport) -> AgentReport {
        let timed_out = (report.exit == ProcessExit::WallLimit).then(|| {
            let used = to_usage(AgentUsage::default(), report.wall, self.pricing);
            self.left.reached_by(used)
        });
        let stopped = self
            .exceeded
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
            let message = format!("stopped at the limit of its remaining budget: {limit}");
            report.trouble = Some(AgentEvent::OverBudget { message });
        }
        report
    }
}
