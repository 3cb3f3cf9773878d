//! The small world: two tickets, three workers, a store, a network and a branch, and what can go
//! wrong between them.

use super::desk::{Decision, Deed, Desk, Happening, Kind, Outcome, Report, STRANGER};

pub const WORKERS: u8 = 3;
pub const TICKETS: usize = 2;
/// Open jobs of one ticket, news included, that the model has room for.
const ROWS: usize = 5;

/// A bug of the house around `flow`, switched on to see that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    NoFence,
    AckBeforeCommit,
    EffectOutsideTransaction,
    ApprovalByBuilder,
    MergeOfAnotherCommit,
}

/// How often each adversity may strike in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fate {
    pub crashes: u8,
    pub pauses: u8,
    pub lost_answers: u8,
    pub duplicates: u8,
    pub overrides: u8,
    /// Runs that come out badly: a red check, a rejection, a conflict.
    pub setbacks: u8,
}

/// A job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub serial: u8,
    pub kind: Kind,
    pub fence: u8,
    pub leased: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub ticket: u8,
    pub report: Report,
    pub outcome: Outcome,
    pub commit: u8,
    pub at: At,
}

/// How far a worker has come with its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// It has the job, and has not said that it starts.
    Claimed,
    Working,
    /// The branch has been changed, and the report is about to be sent.
    Merged,
    /// Reported, and no answer has come; says whether the store has taken it.
    Unanswered(bool),
}

/// A report on its way through the network, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stray {
    pub run: Run,
    /// The store has taken this very report before.
    pub taken: bool,
}

/// What a process has in memory and nowhere else; only a bug leaves anything here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pending {
    Commit(Run),
    Effects {
        ticket: u8,
        was: u32,
        now: Happening,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub tickets: [u32; TICKETS],
    pub rows: [[Option<Row>; ROWS]; TICKETS],
    pub workers: [Option<Run>; WORKERS as usize],
    pub stray: Option<Stray>,
    pub pending: Option<Pending>,
    /// Commits of each ticket that are on the base branch.
    pub merged: [u16; TICKETS],
    /// Commits that each ticket has had; the next one gets the next number.
    pub commits: [u8; TICKETS],
    /// Somebody has pushed a commit that the house has not noticed.
    pub pushed: [bool; TICKETS],
    /// Who really built, whatever name was given.
    pub builders: [u8; TICKETS],
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A claim and the report of its start.
    Take {
        worker: u8,
        ticket: u8,
        serial: u8,
    },
    /// A claim whose holder crashes before it says that it starts.
    TakeAndCrash {
        ticket: u8,
        serial: u8,
    },
    /// A claim whose holder sleeps until the lease has run out.
    TakeAndSleep {
        worker: u8,
        ticket: u8,
        serial: u8,
    },
    /// The sleeper wakes, and says that it starts.
    Start {
        worker: u8,
    },
    Merge {
        worker: u8,
    },
    Report {
        worker: u8,
        outcome: Outcome,
        answer: Answer,
    },
    Repeat {
        worker: u8,
    },
    Crash {
        worker: u8,
        report_is_on_its_way: bool,
    },
    Arrive,
    Expire {
        ticket: u8,
        serial: u8,
    },
    Cancel {
        ticket: u8,
    },
    Push {
        ticket: u8,
    },
    Notice {
        ticket: u8,
    },
    Continue {
        ticket: u8,
    },
    Accept {
        ticket: u8,
    },
    TakeOver {
        ticket: u8,
    },
    Resubmit {
        ticket: u8,
    },
    Flush,
    Restart,
}

impl Action {
    /// Whether it is part of the ordinary course, rather than something that befalls it.
    pub fn is_ordinary(self) -> bool {
        match self {
            Self::Take { .. }
            | Self::Start { .. }
            | Self::Merge { .. }
            | Self::Repeat { .. }
            | Self::Expire { .. }
            | Self::Flush => true,
            Self::Report { answer, .. } => answer == Answer::Heard,
            Self::TakeAndCrash { .. }
            | Self::TakeAndSleep { .. }
            | Self::Crash { .. }
            | Self::Arrive
            | Self::Cancel { .. }
            | Self::Push { .. }
            | Self::Notice { .. }
            | Self::Continue { .. }
            | Self::Accept { .. }
            | Self::TakeOver { .. }
            | Self::Resubmit { .. }
            | Self::Restart => false,
        }
    }
}

/// What becomes of the store's answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Heard,
    Lost,
    /// Heard, and the network keeps a copy of the report.
    HeardAndCopied,
}

/// What must never happen.
pub type Violation = &'static str;

pub fn begin(desk: &mut Desk, depends: bool, fate: Fate) -> World {
    let mut world = World {
        tickets: [0; TICKETS],
        rows: [[None; ROWS]; TICKETS],
        workers: [None; WORKERS as usize],
        stray: None,
        pending: None,
        merged: [0; TICKETS],
        commits: [0; TICKETS],
        pushed: [false; TICKETS],
        builders: [0; TICKETS],
        fate,
    };
    let second: &[&str] = if depends { &["a"] } else { &[] };
    for (at, (name, depends_on)) in [("a", &[][..]), ("b", second)].into_iter().enumerate() {
        let (ticket, deeds) = desk.begin(name, depends_on);
        world.tickets[at] = ticket;
        world.write(at, &deeds, depends).expect("a first job");
    }
    world
}

impl World {
    pub fn row(&self, ticket: u8, serial: u8) -> Option<Row> {
        let mut rows = self.rows[usize::from(ticket)].iter().flatten();
        rows.find(|row| row.serial == serial).copied()
    }

    fn row_mut(&mut self, ticket: u8, serial: u8) -> Option<&mut Row> {
        let mut rows = self.rows[usize::from(ticket)].iter_mut().flatten();
        rows.find(|row| row.serial == serial)
    }

    /// Writes a decision's effects into the queue.
    fn write(&mut self, ticket: usize, deeds: &[Deed], told: bool) -> Result<(), Violation> {
        let rows = &mut self.rows[ticket];
        for deed in deeds {
            let at = |serial: u8| move |row: &Option<Row>| row.is_some_and(|r| r.serial == serial);
            match *deed {
                Deed::Add(serial, kind) => {
                    if rows.iter().any(at(serial)) {
                        return Err("a job was ordered twice");
                    }
                    // Nobody depends on the second ticket, nor on the first where both are free.
                    if kind.is_news() && (!told || ticket > 0) {
                        continue;
                    }
                    let mut free = rows.iter_mut().filter(|row| row.is_none());
                    *free.next().expect("room in the queue") = Some(Row {
                        serial,
                        kind,
                        fence: 0,
                        leased: false,
                    });
                }
                Deed::GiveBack(serial) => {
                    let Some(row) = rows.iter_mut().flatten().find(|row| row.serial == serial)
                    else {
                        return Err("a job that is gone was given back");
                    };
                    row.leased = false;
                }
                Deed::End(serial) => {
                    let Some(at) = rows.iter().position(at(serial)) else {
                        return Err("a job ended twice");
                    };
                    rows[at] = None;
                }
            }
        }
        rows.sort_by_key(|row| row.map_or(u8::MAX, |row| row.serial));
        Ok(())
    }
}

/// One step of the world, by its rules.
#[derive(Debug)]
pub struct Rules<'a> {
    pub desk: &'a mut Desk,
    pub bug: Option<Bug>,
    pub depends: bool,
}

impl Rules<'_> {
    /// Everything that can happen next.
    pub fn possible(&self, world: &World, out: &mut Vec<Action>) {
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
            out.push(Action::Arrive);
        }
        if world.pending.is_some() {
            out.extend([Action::Flush, Action::Restart]);
        }
    }

    fn claims(&self, world: &World, worker: u8, out: &mut Vec<Action>) {
        for ticket in 0..2_u8 {
            let built = world.builders[usize::from(ticket)] & (1 << worker) != 0;
            for row in world.rows[usize::from(ticket)].iter().flatten() {
                let own = row.kind.judges() && built && self.bug != Some(Bug::ApprovalByBuilder);
                // The third worker only judges and serves, so that somebody always can.
                let cannot = row.kind == Kind::Build && worker + 1 == WORKERS;
                if row.leased || own || cannot {
                    continue;
                }
                let serial = row.serial;
                out.push(Action::Take {
                    worker,
                    ticket,
                    serial,
                });
                if world.fate.pauses > 0 {
                    out.push(Action::TakeAndSleep {
                        worker,
                        ticket,
                        serial,
                    });
                }
                // Whoever crashes leaves nothing behind, so it may be any of them.
                if world.fate.crashes > 0 && worker == 0 {
                    out.push(Action::TakeAndCrash { ticket, serial });
                }
            }
        }
    }

    fn ticket_actions(&self, world: &World, ticket: u8, out: &mut Vec<Action>) {
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
                out.push(Action::Expire { ticket, serial });
            }
        }
        if facts.stage.is_terminal() {
            return;
        }
        let approved = matches!(facts.stage, Approved | Merging);
        if approved && world.pushed[at] {
            out.push(Action::Notice { ticket });
        }
        if facts.stage == Blocked && !facts.by_dependency {
            out.push(Action::Resubmit { ticket });
        }
        if world.fate.overrides > 0 {
            out.push(Action::Cancel { ticket });
            if approved && !world.pushed[at] {
                out.push(Action::Push { ticket });
            }
            if facts.stage == Escalated {
                out.extend([
                    Action::Continue { ticket },
                    Action::Accept { ticket },
                    Action::TakeOver { ticket },
                ]);
            }
        }
    }

    /// The world after an action; an error is a violation of what must always hold.
    pub fn after(&mut self, world: &World, action: Action) -> Result<World, Violation> {
        let mut next = *world;
        match action {
            Action::Take {
                worker,
                ticket,
                serial,
            } => {
                self.claim(&mut next, worker, ticket, serial)?;
                self.start(&mut next, worker)?;
            }
            Action::TakeAndCrash { ticket, serial } => {
                next.fate.crashes -= 1;
                self.claim(&mut next, 0, ticket, serial)?;
                next.workers[0] = None;
            }
            Action::TakeAndSleep {
                worker,
                ticket,
                serial,
            } => {
                self.claim(&mut next, worker, ticket, serial)?;
                self.expire(&mut next, ticket, serial)?;
            }
            Action::Start { worker } => self.start(&mut next, worker)?,
            Action::Merge { worker } => self.merge(&mut next, worker)?,
            Action::Report {
                worker,
                outcome,
                answer,
            } => self.report(&mut next, worker, outcome, answer)?,
            Action::Repeat { worker } => self.repeat(&mut next, worker)?,
            Action::Crash {
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
            Action::Arrive => {
                let stray = next.stray.take().expect("a stray report");
                let accepted = self.deliver(&mut next, stray.run)?;
                if accepted && stray.taken {
                    return Err("a report was applied twice");
                }
            }
            Action::Expire { ticket, serial } => self.expire(&mut next, ticket, serial)?,
            Action::Cancel { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::Cancelled)?;
            }
            Action::Push { ticket } => {
                next.fate.overrides -= 1;
                next.pushed[usize::from(ticket)] = true;
                next.commits[usize::from(ticket)] += 1;
            }
            Action::Notice { ticket } => {
                next.pushed[usize::from(ticket)] = false;
                let commit = next.commits[usize::from(ticket)];
                self.person(&mut next, ticket, Happening::WentStale(commit))?;
            }
            Action::Continue { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::Continued)?;
            }
            Action::Accept { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::Accepted)?;
            }
            Action::TakeOver { ticket } => {
                next.fate.overrides -= 1;
                self.person(&mut next, ticket, Happening::TakenOver)?;
            }
            Action::Resubmit { ticket } => {
                next.commits[usize::from(ticket)] += 1;
                let commit = next.commits[usize::from(ticket)];
                self.person(&mut next, ticket, Happening::Resubmitted(commit))?;
            }
            Action::Flush => self.flush(&mut next)?,
            Action::Restart => {
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

    /// One transaction: the ticket, its event and the jobs that follow. Says whether it was taken.
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

    /// Changes the branch, whoever holds the lease: by compare-and-swap, after a look at it, so
    /// that what is there is not merged again.
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

    /// What the worker has to report. News are brought before that is said.
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

    /// The worker asks again under the same key: what was taken is answered, not done again.
    fn repeat(&mut self, world: &mut World, worker: u8) -> Result<(), Violation> {
        let run = world.workers[usize::from(worker)].take().expect("a run");
        match run.at {
            At::Unanswered(true) => {
                // The key is in the store. Asked without it, `flow` itself must refuse.
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

    /// A report comes to the store.
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

    /// A lease runs out: its holder has crashed, or sleeps and does not know.
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

/// Who really did it is known here, whatever name was given.
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

fn run_actions(world: &World, worker: u8, run: Run, out: &mut Vec<Action>) {
    let fate = world.fate;
    let kind = run.report.kind;
    let can_report = match run.at {
        At::Claimed => {
            out.push(Action::Start { worker });
            false
        }
        At::Unanswered(_) => {
            out.push(Action::Repeat { worker });
            false
        }
        At::Working if kind == Kind::Merge => {
            out.push(Action::Merge { worker });
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
            out.push(Action::Crash {
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

fn reports(world: &World, worker: u8, outcome: Outcome, out: &mut Vec<Action>) {
    let mut report = |answer| {
        out.push(Action::Report {
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
