//! Dependencies of a ticket. All must be met before it starts. One that cannot be met blocks the
//! ticket and, through it, the tickets that depend on it.
//!
//! Updates of dependencies come from `tell` jobs, which may run late, twice or after a person
//! changed the list. So an update about a ticket that this one does not wait for is refused and
//! changes nothing.

use std::collections::BTreeSet;

use super::Refused;
use super::transition::Transition;
use crate::job::DependencyUpdate;
use crate::ticket::{BlockedReason, Reason, Stage, TicketId};

impl Transition<'_> {
    /// Records the dependencies of a new ticket, and starts, holds or blocks it.
    pub(super) fn init_dependencies(
        &mut self,
        depends_on: &BTreeSet<TicketId>,
        met: &BTreeSet<TicketId>,
        failed: &[(TicketId, String)],
    ) {
        self.record_dependencies(depends_on, met, failed);
        self.wait_or_start();
    }

    /// Records which dependencies are failed or not met. A failed one is not met, even if it is in
    /// `met`.
    fn record_dependencies(
        &mut self,
        depends_on: &BTreeSet<TicketId>,
        met: &BTreeSet<TicketId>,
        failed: &[(TicketId, String)],
    ) {
        self.ticket.broken = failed
            .iter()
            .filter(|(ticket, _)| depends_on.contains(ticket))
            .cloned()
            .collect();
        let broken = &self.ticket.broken;
        // Failed wins over met: `met` may have been read before the dependency broke, and a start
        // on a broken dependency costs a paid build.
        self.ticket.waits_for = depends_on
            .iter()
            .filter(|ticket| !met.contains(*ticket) || broken.contains_key(*ticket))
            .cloned()
            .collect();
    }

    fn wait_or_start(&mut self) {
        // Broken goes first. A ticket with one broken and one open dependency cannot start in
        // either case, and only the first needs a person.
        if !self.ticket.broken.is_empty() {
            self.ticket.stage = Stage::Blocked;
            self.ticket.blocked = Some(BlockedReason::ByDependency);
            return;
        }
        self.ticket.blocked = None;
        if self.ticket.waits_for.is_empty() {
            self.order_build();
        } else {
            self.ticket.stage = Stage::Pending;
        }
    }

    pub(super) fn on_dependency_met(&mut self, dependency: &TicketId) -> Result<(), Refused> {
        self.ensure_waiting_for_dependencies()?;
        if !self.ticket.waits_for.remove(dependency) {
            return Err(Refused::NotADependency {
                ticket: dependency.clone(),
            });
        }
        // A ticket can be repaired and finish before its dependents hear of the repair.
        self.ticket.broken.remove(dependency);
        self.wait_or_start_and_notify();
        Ok(())
    }

    pub(super) fn on_dependency_failed(
        &mut self,
        dependency: &TicketId,
        why: &str,
    ) -> Result<(), Refused> {
        // A person may have removed the dependency since the update was ordered.
        if !self.ticket.spec.depends_on.contains(dependency) {
            return Err(Refused::NotADependency {
                ticket: dependency.clone(),
            });
        }
        self.ticket
            .broken
            .insert(dependency.clone(), why.to_owned());
        match self.ticket.stage {
            // A ticket that a person took over is blocked too, but not by its dependencies: it must
            // not be released or blocked again by them.
            Stage::Pending | Stage::Blocked if self.ensure_waiting_for_dependencies().is_ok() => {
                self.ticket.waits_for.insert(dependency.clone());
                self.wait_or_start_and_notify();
            }
            // The ticket already waits for a person; the reason is recorded now.
            Stage::Pending | Stage::Blocked | Stage::Escalated => {}
            Stage::Queued
            | Stage::Building
            | Stage::Checking
            | Stage::Reviewing
            | Stage::Rework
            | Stage::Approved
            | Stage::Merging
            | Stage::Done
            | Stage::Failed
            | Stage::Cancelled => {
                // The ticket was stacked on work that is now void: its branch contains commits that
                // will not land. Only a person can tell whether the change makes sense without
                // them.
                let (from, ticket) = (self.ticket.stage, dependency.clone());
                self.escalate(Reason::DependencyFailed { ticket }, from, why);
            }
        }
        Ok(())
    }

    pub(super) fn on_dependency_repaired(&mut self, dependency: &TicketId) -> Result<(), Refused> {
        self.ensure_waiting_for_dependencies()?;
        if self.ticket.broken.remove(dependency).is_none() {
            return Err(Refused::NotADependency {
                ticket: dependency.clone(),
            });
        }
        self.wait_or_start_and_notify();
        Ok(())
    }

    pub(super) fn on_dependencies_set(
        &mut self,
        depends_on: &BTreeSet<TicketId>,
        met: &BTreeSet<TicketId>,
        failed: &[(TicketId, String)],
        why: &str,
    ) -> Result<(), Refused> {
        self.ensure_waiting_for_dependencies()?;
        if depends_on.contains(&self.ticket.id) {
            return Err(Refused::DependsOnItself);
        }
        // The reason is recorded, because removing a dependency lets a ticket start out of order.
        if why.trim().is_empty() {
            return Err(Refused::NoReason);
        }
        self.ticket.spec.depends_on.clone_from(depends_on);
        self.record_dependencies(depends_on, met, failed);
        self.wait_or_start_and_notify();
        Ok(())
    }

    /// Starts, holds or blocks the ticket, and notifies its dependents if it became blocked or
    /// unblocked.
    fn wait_or_start_and_notify(&mut self) {
        // Dependents are told about a change only. Told every time, they would get one job per
        // update of each of their ancestors.
        let was_blocked = self.ticket.stage == Stage::Blocked;
        self.wait_or_start();
        match (was_blocked, self.ticket.stage == Stage::Blocked) {
            (true, false) => self.notify_dependents(DependencyUpdate::Repaired),
            (false, true) => {
                let why: Vec<&str> = self.ticket.broken.values().map(String::as_str).collect();
                self.notify_dependents(DependencyUpdate::Failed {
                    why: format!("{} is blocked: {}", self.ticket.id, why.join("; ")),
                });
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Refuses the event for a ticket that a person took over: it is blocked, but not by its
    /// dependencies.
    fn ensure_waiting_for_dependencies(&self) -> Result<(), Refused> {
        match self.ticket.blocked {
            Some(BlockedReason::TakenOver { .. }) => Err(Refused::NotNow {
                event: self.event.what.name(),
                stage: self.ticket.stage,
                stages: &[Stage::Pending],
            }),
            Some(BlockedReason::ByDependency) | None => Ok(()),
        }
    }
}
