//! The actions that are possible in a state of the model, and the state after each.

use super::decision_cache::{
    Decision, DecisionCache, Deed, Happening, Kind, Outcome, Report, STRANGER,
};
use super::world::{Answer, At, Bug, ModelAction, Pending, Run, Stray, Violation, WORKERS, World};

/// The rules of the model: one step from state to state.
#[derive(Debug)]
pub struct Rules<'a> {
    pub desk: &'a mut DecisionCache,
    pub bug: Option<Bug>,
    pub depends: bool,
}

impl Rules<'_> {
    /// Lists every action that is possible next.
    pub fn possible(&self, world: &World, out: &mut Vec<ModelAction>) {
        out.clear();
        for worker in 0..WORKERS {
            match world.workers[usize::from(worker)] {
                None => self.claims(world, worker, out),
                Some(run) => run_actions(world, worker, run, out),
            }
        }
        for ticket in 0..2 {
            self.ticket_actions(world, ticket, out);
        }
        if world.stray.is_some() {
            out.push(ModelAction::Arrive);
        }
        if world.pending.is_some() {
            out.extend([ModelAction::Flush, ModelAction::Restart]);
        }
    }

    fn claims(&self, world: &World, worker: u8, out: &mut Vec<ModelAction>) {
        for ticket in 0..2_u8 {
            let built = world.builders[usize::from(ticket)] & (1 << worker) != 0;
            for row in world.rows[usize::from(ticket)].iter().flatten() {
                let own = row.kind.judges() && built && self.bug != Some(Bug::ApprovalByBuilder);
                // The third worker never builds, so that one worker can always judge and merge.
                let cannot = row.kind == Kind::Build && worker + 1 == WORKERS;
                if row.leased || own || cannot {
                    continue;
                }
                let serial = row.serial;
                out.push(ModelAction::Take {
                    worker,
                    ticket,
                    serial,
                });
                if world.fate.pauses > 0 {
                    out.push(ModelAction::TakeAndSleep {
                        worker,
                        ticket,
                        serial,
                    });
                }
                // A crash leaves nothing behind, so any of the workers may be the one.
                if world.fate.crashes > 0 && worker == 0 {
                    out.push(ModelAction::TakeAndCrash { ticket, serial });
                }
            }
        }
    }

    fn ticket_actions(&self, world: &World, ticket: u8, out: &mut Vec<ModelAction>) {
        use flow::Stage::{Approved, Blocked, Escalated, Merging};
        let at = usize::from(ticket);
        let facts = self.desk.facts(world.tickets[at]);
        for row in world.rows[at].iter().flatten().filter(|row| row.leased) {
            let alive = world.workers.iter().flatten().any(|run| {
                run.ticket == ticket
                    && (run.report.serial, run.report.fence) == (row.serial, row.fence)
            });
            if world.pending.is_none() && (!alive || world.fate.pauses > 0) {
                let serial = row.serial;
                out.push(ModelAction::Expire { ticket, serial });
            }
        }
        if facts.stage.is_terminal() {
            return;
        }
        let approved = matches!(facts.stage, Approved | Merging);
        if approved && world.pushed[at] {
            out.push(ModelAction::Notice { ticket });
        }
        if facts.stage == Blocked && !facts.by_dependency {
            out.push(ModelAction::Resubmit { ticket });
        }
        if world.fate.overrides > 0 {
            out.push(ModelAction::Cancel { ticket });
            if approved && !world.pushed[at] {
                out.push(ModelAction::Push { ticket });
            }
            if facts.stage == Escalated {
                out.extend([
                    ModelAction::Continue { ticket },
                    ModelAction::Accept { ticket },
                    ModelAction::TakeOver { ticket },
                ]);
            }
        }
    }

    /// Returns the state after an action. An error is a violation of an invariant.
    pub fn after(&mut self, world: &World, action: ModelAction) -> Result<World, Violation> {
        let mut next = *world;
        match action {
            ModelAction::Take {
                worker,
                ticket,
                serial,
            } => {
                self.claim(&mut next, worker, ticket, serial)?;
                self.start(&mut next, worker)?;
            }
            ModelAction::TakeAndCrash { ticket, serial } => {
                next.fate.crashes -= 1;
                self.claim(&mut next, 0, ticket, serial)?;
                next.workers[0] = None;
            }
            ModelAction::TakeAndSleep {
                worker,
                ticket,
                serial,
            } => {
                self.claim(&mut next, worker, ticket, serial)?;
                self.expire(&mut next, ticket, serial)?;
            }
            ModelAction::Start { worker } => self.start(&mut next, worker)?,
            ModelAction::Merge { worker } => self.merge(&mut next, worker)?,
            ModelAction::Report {
                worker,
                outcome,
                answer,
            } => self.report(&mut next, worker, outcome, answer)?,
            ModelAction::Repeat { worker } => self.repeat(&mut next, worker)?,
            ModelAction::Crash {
                worker,
                report_is_on_its_way,
            } => {
                next.fate.crashes -= 1;
                if report_is_on_its_way {
                    let run = self.result(&mut next, worker, Outcome::Well)?;
                    next.stray = Some(Stray { run, taken: false });
                }
                next.workers[usize::from(worker)] = None;
            }
            ModelAction::Arrive => {
                let stray = next.stray.take().expect("a stray report");
                let accepted = self.deliver(&mut next, stray.run)?;
                if accepted && stray.taken {
                    return Err("a report was applied twice");
                }
            }
            ModelAction::Expire { ticket, serial } => self.expire(&mut next, ticket, serial)?,
            ModelAction::Cancel { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::Cancelled)?;
            }
            ModelAction::Push { ticket } => {
                next.fate.overrides -= 1;
                next.pushed[usize::from(ticket)] = true;
                next.commits[usize::from(ticket)] += 1;
            }
            ModelAction::Notice { ticket } => {
                next.pushed[usize::from(ticket)] = false;
                let commit = next.commits[usize::from(ticket)];
                self.person(&mut next, ticket, Happening::WentStale(commit))?;
            }
            ModelAction::Continue { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::Continued)?;
            }
            ModelAction::Accept { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::Accepted)?;
            }
            ModelAction::TakeOver { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::TakenOver)?;
            }
            ModelAction::Resubmit { ticket } => {
                next.commits[usize::from(ticket)] += 1;
                let commit = next.commits[usize::from(ticket)];
                self.person(&mut next, ticket, Happening::Resubmitted(commit))?;
            }
            ModelAction::Flush => self.flush(&mut next)?,
            ModelAction::Restart => {
                if let Some(Pending::Commit(_)) = next.pending.take() {
                    return Err("an acknowledged report was lost");
                }
            }
        }
        Ok(next)
    }

    fn person(&mut self, world: &mut World, ticket: u8, what: Happening) -> Result<(), Violation> {
        let was = world.tickets[usize::from(ticket)];
        let decision = self.desk.decide(was, what);
        self.commit(world, ticket, what, decision).map(drop)
    }

    /// Commits one transaction: ticket, event and jobs. Returns whether it was accepted.
    fn commit(
        &mut self,
        world: &mut World,
        ticket: u8,
        what: Happening,
        decision: Decision,
    ) -> Result<bool, Violation> {
        let Some((now, deeds)) = decision else {
            return Ok(false);
        };
        let at = usize::from(ticket);
        let was = std::mem::replace(&mut world.tickets[at], now);
        let apart = self.bug == Some(Bug::EffectOutsideTransaction) && !deeds.is_empty();
        if apart && world.pending.is_none() {
            world.pending = Some(Pending::Effects {
                ticket,
                was,
                now: what,
            });
        } else {
            world.write(at, &deeds, self.depends)?;
        }
        Ok(true)
    }

    fn flush(&mut self, world: &mut World) -> Result<(), Violation> {
        match world.pending.take() {
            Some(Pending::Commit(run)) => self.deliver(world, run).map(drop),
            Some(Pending::Effects { ticket, was, now }) => {
                let decision = self.desk.decide(was, now);
                let (_, deeds) = decision.expect("it was accepted before");
                world.write(usize::from(ticket), &deeds, self.depends)
            }
            None => Ok(()),
        }
    }

    fn claim(
        &mut self,
        world: &mut World,
        worker: u8,
        ticket: u8,
        serial: u8,
    ) -> Result<(), Violation> {
        let commit = self.desk.facts(world.tickets[usize::from(ticket)]).commit;
        let row = world.row_mut(ticket, serial).ok_or("claimed nothing")?;
        row.leased = true;
        row.fence += 1;
        let name = if row.kind.judges() && self.bug == Some(Bug::ApprovalByBuilder) {
            STRANGER
        } else {
            worker
        };
        let report = Report {
            kind: row.kind,
            serial,
            fence: row.fence,
            worker: name,
        };
        world.workers[usize::from(worker)] = Some(Run {
            ticket,
            report,
            outcome: Outcome::Well,
            commit,
            at: At::Claimed,
        });
        Ok(())
    }

    fn start(&mut self, world: &mut World, worker: u8) -> Result<(), Violation> {
        let mut run = world.workers[usize::from(worker)].expect("a claim");
        let mut taken = run.report.kind.is_news();
        if !taken {
            let what = Happening::Started(run.report);
            let decision = self
                .desk
                .decide(world.tickets[usize::from(run.ticket)], what);
            taken = self.commit(world, run.ticket, what, decision)?;
        }
        run.at = At::Working;
        world.workers[usize::from(worker)] = taken.then_some(run);
        Ok(())
    }

    /// Changes the branch by compare-and-swap, without a look at the lease. It reads the branch
    /// first, so that a commit is not merged twice.
    fn merge(&self, world: &mut World, worker: u8) -> Result<(), Violation> {
        let mut run = world.workers[usize::from(worker)].expect("a run");
        run.at = At::Merged;
        world.workers[usize::from(worker)] = Some(run);
        let at = usize::from(run.ticket);
        let other = self.bug == Some(Bug::MergeOfAnotherCommit) && world.pushed[at];
        let commit = if other { world.commits[at] } else { run.commit };
        world.merged[at] |= 1 << commit;
        let approved = self.desk.facts(world.tickets[at]).approved;
        if approved & (1 << commit) == 0 {
            return Err("a commit was merged that nobody approved");
        }
        Ok(())
    }

    fn report(
        &mut self,
        world: &mut World,
        worker: u8,
        outcome: Outcome,
        answer: Answer,
    ) -> Result<(), Violation> {
        let at = usize::from(worker);
        let run = self.result(world, worker, outcome)?;
        if self.bug == Some(Bug::AckBeforeCommit) && world.pending.is_none() {
            world.pending = Some(Pending::Commit(run));
            world.workers[at] = None;
            return Ok(());
        }
        let taken = self.deliver(world, run)?;
        match answer {
            Answer::Heard => world.workers[at] = None,
            Answer::Lost => {
                world.fate.lost_answers -= 1;
                let at = At::Unanswered(taken);
                world.workers[usize::from(worker)] = Some(Run { at, ..run });
            }
            Answer::HeardAndCopied => {
                world.fate.duplicates -= 1;
                world.workers[at] = None;
                world.stray = Some(Stray { run, taken });
            }
        }
        Ok(())
    }

    /// Returns the worker's report. Dependent tickets are notified before it is sent.
    fn result(
        &mut self,
        world: &mut World,
        worker: u8,
        outcome: Outcome,
    ) -> Result<Run, Violation> {
        let mut run = world.workers[usize::from(worker)].expect("a run");
        let at = usize::from(run.ticket);
        run.outcome = outcome;
        if outcome == Outcome::Badly {
            world.fate.setbacks -= 1;
        }
        if run.report.kind == Kind::Build {
            world.commits[at] += 1;
            run.commit = world.commits[at];
        }
        if run.report.kind.is_news() {
            let what = Happening::News(run.report.kind);
            let decision = self.desk.decide(world.tickets[1], what);
            self.commit(world, 1, what, decision)?;
        }
        Ok(run)
    }

    /// The worker sends the report again under the same key. An accepted one is answered, not
    /// applied again.
    fn repeat(&mut self, world: &mut World, worker: u8) -> Result<(), Violation> {
        let run = world.workers[usize::from(worker)].take().expect("a run");
        match run.at {
            At::Unanswered(true) => {
                // The store has the key. Without the key, `flow` itself must refuse the report.
                let mut without_a_key = *world;
                if self.deliver(&mut without_a_key, run)? {
                    return Err("a report was applied twice");
                }
                Ok(())
            }
            At::Unanswered(false) | At::Claimed | At::Working | At::Merged => {
                if self.deliver(world, run)? {
                    return Err("a report that was refused is accepted later");
                }
                Ok(())
            }
        }
    }

    /// A report reaches the store.
    fn deliver(&mut self, world: &mut World, run: Run) -> Result<bool, Violation> {
        let at = usize::from(run.ticket);
        let row = world.row(run.ticket, run.report.serial);
        let live = row.is_some_and(|row| row.leased && row.fence == run.report.fence);
        if run.report.kind.is_news() {
            if let Some(row) = row.filter(|_| live) {
                world.write(at, &[Deed::End(row.serial)], self.depends)?;
            }
            return Ok(live);
        }
        let mut report = run.report;
        if let Some(row) = row.filter(|_| self.bug == Some(Bug::NoFence)) {
            report.fence = row.fence;
            report.worker = self.holder(world, run.ticket, row.serial, report.worker);
        }
        let what = Happening::Reported(report, run.outcome, run.commit);
        let decision = self.desk.decide(world.tickets[at], what);
        let accepted = self.commit(world, run.ticket, what, decision)?;
        if accepted && !live {
            return Err("a result was accepted under an old token");
        }
        if accepted {
            took(world, run)?;
        }
        Ok(accepted)
    }

    fn holder(&self, world: &World, ticket: u8, serial: u8, otherwise: u8) -> u8 {
        let known = self.desk.ticket(world.tickets[usize::from(ticket)]);
        let job = known
            .jobs
            .iter()
            .find(|job| job.serial == u32::from(serial));
        let name = job.and_then(|job| job.holder.as_ref()?.strip_prefix('w')?.parse().ok());
        name.unwrap_or(otherwise)
    }

    /// A lease expires: its holder crashed, or sleeps and does not notice.
    fn expire(&mut self, world: &mut World, ticket: u8, serial: u8) -> Result<(), Violation> {
        let row = world.row(ticket, serial).ok_or("no such job")?;
        let alive = world.workers.iter().flatten().any(|run| {
            run.ticket == ticket && (run.report.serial, run.report.fence) == (serial, row.fence)
        });
        if alive {
            world.fate.pauses -= 1;
        }
        if row.kind.is_news() {
            return world.write(usize::from(ticket), &[Deed::GiveBack(serial)], self.depends);
        }
        let fence = row.fence;
        let what = Happening::LeaseLost { serial, fence };
        let decision = self.desk.decide(world.tickets[usize::from(ticket)], what);
        if !self.commit(world, ticket, what, decision)? {
            return Err("a lost lease cannot be reported");
        }
        Ok(())
    }
}

/// Records the worker that really did it, whatever name it gave.
fn took(world: &mut World, run: Run) -> Result<(), Violation> {
    let at = usize::from(run.ticket);
    let mut workers = world.workers.iter();
    let true_worker = workers.position(|known| {
        known.is_some_and(|other| {
            other.ticket == run.ticket
                && (other.report.serial, other.report.fence)
                    == (run.report.serial, run.report.fence)
        })
    });
    let bit = true_worker.map_or(1 << run.report.worker.min(7), |worker| 1_u8 << worker);
    if run.report.kind == Kind::Build {
        world.builders[at] |= bit;
        world.pushed[at] = false;
    }
    if run.report.kind.judges() && world.builders[at] & bit != 0 {
        return Err("a builder judged its own work");
    }
    Ok(())
}

fn run_actions(world: &World, worker: u8, run: Run, out: &mut Vec<ModelAction>) {
    let fate = world.fate;
    let kind = run.report.kind;
    let can_report = match run.at {
        At::Claimed => {
            out.push(ModelAction::Start { worker });
            false
        }
        At::Unanswered(_) => {
            out.push(ModelAction::Repeat { worker });
            false
        }
        At::Working if kind == Kind::Merge => {
            out.push(ModelAction::Merge { worker });
            false
        }
        At::Working | At::Merged => true,
    };
    if can_report {
        reports(world, worker, Outcome::Well, out);
    }
    let can_go_badly = kind.judges() || matches!(kind, Kind::Check | Kind::Merge);
    if run.at == At::Working && can_go_badly && fate.setbacks > 0 {
        reports(world, worker, Outcome::Badly, out);
    }
    if fate.crashes > 0 {
        let mut crash = |report_is_on_its_way| {
            out.push(ModelAction::Crash {
                worker,
                report_is_on_its_way,
            });
        };
        crash(false);
        if can_report && world.stray.is_none() {
            crash(true);
        }
    }
}

fn reports(world: &World, worker: u8, outcome: Outcome, out: &mut Vec<ModelAction>) {
    let mut report = |answer| {
        out.push(ModelAction::Report {
            worker,
            outcome,
            answer,
        });
    };
    report(Answer::Heard);
    if world.fate.lost_answers > 0 {
        report(Answer::Lost);
    }
    if world.fate.duplicates > 0 && world.stray.is_none() {
        report(Answer::HeardAndCopied);
    }
}
