//! The state of the model: two tickets, three workers, a store, a network and a branch, and the
//! faults that can happen between them.

use super::decision_cache::{DecisionCache, Deed, Happening, Kind, Outcome, Report};

pub const WORKERS: u8 = 3;
pub const TICKETS: usize = 2;
/// Most open jobs of one ticket in the model, dependency updates included.
const ROWS: usize = 5;

/// A bug in the code around `flow`, switched on to test that the search finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    NoFence,
    AckBeforeCommit,
    EffectOutsideTransaction,
    ApprovalByBuilder,
    MergeOfAnotherCommit,
}

/// Most occurrences of each fault in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fate {
    pub crashes: u8,
    pub pauses: u8,
    pub lost_answers: u8,
    pub duplicates: u8,
    pub overrides: u8,
    /// Jobs with a bad result: a red check, a rejection, a conflict.
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

/// Progress of a worker with its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// It has the job, but has not reported the start.
    Claimed,
    Working,
    /// The branch is changed, and the report is not sent yet.
    Merged,
    /// The report is sent, without an answer so far. The flag says whether the store accepted it.
    Unanswered(bool),
}

/// A copy of a report that is still in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stray {
    pub run: Run,
    /// The store already accepted this report.
    pub taken: bool,
}

/// State of a process that is only in memory. Only a bug leaves anything here.
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
    /// A commit was pushed that the coordinator has not noticed.
    pub pushed: [bool; TICKETS],
    /// Workers that really built, whatever name they gave.
    pub builders: [u8; TICKETS],
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelAction {
    /// A claim and the report of its start.
    Take {
        worker: u8,
        ticket: u8,
        serial: u8,
    },
    /// A claim whose holder crashes before it reports the start.
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
    /// The sleeper wakes and reports the start.
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

impl ModelAction {
    /// Whether the action is ordinary work, not a fault.
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

/// Fate of the store's answer to a report in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Heard,
    Lost,
    /// The answer arrives, and the network keeps a copy of the report.
    HeardAndCopied,
}

/// A violation: a state that must never occur.
pub type Violation = &'static str;

pub fn begin(desk: &mut DecisionCache, depends: bool, fate: Fate) -> World {
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

    pub fn row_mut(&mut self, ticket: u8, serial: u8) -> Option<&mut Row> {
        let mut rows = self.rows[usize::from(ticket)].iter_mut().flatten();
        rows.find(|row| row.serial == serial)
    }

    /// Writes a decision's effects into the queue.
    pub fn write(&mut self, ticket: usize, deeds: &[Deed], told: bool) -> Result<(), Violation> {
        let rows = &mut self.rows[ticket];
        for deed in deeds {
            let at = |serial: u8| move |row: &Option<Row>| row.is_some_and(|r| r.serial == serial);
            match *deed {
                Deed::Add(serial, kind) => {
                    if rows.iter().any(at(serial)) {
                        return Err("a job was ordered twice");
                    }
                    // No ticket depends on the second, nor on the first if both are independent.
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
