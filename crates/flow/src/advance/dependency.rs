//! Dependencies: all must be met. One that cannot be met blocks, visibly, and so on down the line.

use std::collections::BTreeSet;

use super::Refused;
use super::draft::Transition;
use crate::job::DependencyUpdate;
use crate::ticket::{BlockedReason, Reason, Stage, TicketId};

impl Transition<'_> {
    /// Takes stock of all dependencies and puts a new ticket where it belongs.
    pub(super) fn arrange_dependencies(
        &mut self,
        depends_on: &BTreeSet<TicketId>,
        met: &BTreeSet<TicketId>,
        failed: &[(TicketId, String)],
    ) {
        self.take_stock(depends_on, met, failed);
        self.wait_or_start();
    }

    /// What has failed is not met, whatever was said of it before.
    fn take_stock(
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
        self.ticket.waits_for = depends_on
            .iter()
            .filter(|ticket| !met.contains(*ticket) || broken.contains_key(*ticket))
            .cloned()
            .collect();
    }

    fn wait_or_start(&mut self) {
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

    pub(super) fn dependency_met(&mut self, dependency: &TicketId) -> Result<(), Refused> {
        self.must_wait_for_others()?;
        if !self.ticket.waits_for.remove(dependency) {
            return Err(Refused::NotADependency {
                ticket: dependency.clone(),
            });
        }
        self.ticket.broken.remove(dependency);
        self.wait_or_start_and_tell();
        Ok(())
    }

    pub(super) fn dependency_failed(
        &mut self,
        dependency: &TicketId,
        why: &str,
    ) -> Result<(), Refused> {
        if !self.ticket.spec.depends_on.contains(dependency) {
            return Err(Refused::NotADependency {
                ticket: dependency.clone(),
            });
        }
        self.ticket
            .broken
            .insert(dependency.clone(), why.to_owned());
        match self.ticket.stage {
            Stage::Pending | Stage::Blocked if self.must_wait_for_others().is_ok() => {
                self.ticket.waits_for.insert(dependency.clone());
                self.wait_or_start_and_tell();
            }
            // Already waiting for a person; the reason is on record now.
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
                let (from, ticket) = (self.ticket.stage, dependency.clone());
                self.escalate(Reason::DependencyFailed { ticket }, from, why);
            }
        }
        Ok(())
    }

    pub(super) fn dependency_repaired(&mut self, dependency: &TicketId) -> Result<(), Refused> {
        self.must_wait_for_others()?;
        if self.ticket.broken.remove(dependency).is_none() {
            return Err(Refused::NotADependency {
                ticket: dependency.clone(),
            });
        }
        self.wait_or_start_and_tell();
        Ok(())
    }

    pub(super) fn dependencies_set(
        &mut self,
        depends_on: &BTreeSet<TicketId>,
        met: &BTreeSet<TicketId>,
        failed: &[(TicketId, String)],
        why: &str,
    ) -> Result<(), Refused> {
        self.must_wait_for_others()?;
        if depends_on.contains(&self.ticket.id) {
            return Err(Refused::DependsOnItself);
        }
        if why.trim().is_empty() {
            return Err(Refused::NoReason);
        }
        self.ticket.spec.depends_on.clone_from(depends_on);
        self.take_stock(depends_on, met, failed);
        self.wait_or_start_and_tell();
        Ok(())
    }

    /// Those behind a ticket hear when it gets stuck, and when it comes free.
    fn wait_or_start_and_tell(&mut self) {
        let was_blocked = self.ticket.stage == Stage::Blocked;
        self.wait_or_start();
        match (was_blocked, self.ticket.stage == Stage::Blocked) {
            (true, false) => self.tell(DependencyUpdate::Repaired),
            (false, true) => {
                let why: Vec<&str> = self.ticket.broken.values().map(String::as_str).collect();
                self.tell(DependencyUpdate::Failed {
                    why: format!("{} is blocked: {}", self.ticket.id, why.join("; ")),
                });
            }
            (true, true) | (false, false) => {}
        }
    }

    /// A ticket that a person has taken over is blocked too, but not by its dependencies.
    fn must_wait_for_others(&self) -> Result<(), Refused> {
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
