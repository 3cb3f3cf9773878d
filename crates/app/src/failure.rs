//! The one error of the binary, rendered by each surface in its own form, and the exit codes.

use std::fmt;
use std::process::ExitCode;

use engine::coordinator;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// Approved, done, or what was asked has been shown.
    Done,
    /// Something went wrong; the message says what to do.
    Error,
    /// The command line, a file or the configuration is not understood.
    Usage,
    /// Changes are requested: the round ended without an approval.
    ChangesRequested,
    /// A person has to decide.
    Escalated,
    /// The ticket failed, was rejected or cancelled.
    Failed,
    /// The decision was refused: not now, not by you, or not on what you saw.
    Refused,
    /// The database is locked, unreachable, read-only, full or newer than this program.
    Store,
    /// The ticket waits for another ticket.
    Waiting,
    /// Stopped by the person (Ctrl-C); the next `run` goes on.
    Interrupted,
    /// What the program that a hidden verb stands for says.
    Played(u8),
}

impl ExitKind {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::ChangesRequested => 3,
            Self::Escalated => 4,
            Self::Failed => 5,
            Self::Refused => 6,
            Self::Store => 7,
            Self::Waiting => 8,
            Self::Interrupted => 130,
            Self::Played(code) => code,
        }
    }
}

impl ExitKind {
    /// The end that has this code, of those that a call may come to.
    pub fn of(code: u8) -> Option<Self> {
        [
            Self::Error,
            Self::Usage,
            Self::ChangesRequested,
            Self::Escalated,
            Self::Failed,
            Self::Refused,
            Self::Store,
            Self::Waiting,
        ]
        .into_iter()
        .find(|exit| exit.code() == code)
    }
}

impl From<ExitKind> for ExitCode {
    fn from(exit: ExitKind) -> Self {
        Self::from(exit.code())
    }
}

/// What happened, to what, and what to do next.
#[derive(Debug)]
pub struct Failure {
    pub exit: ExitKind,
    pub message: String,
    pub hints: Vec<String>,
    /// It was asked for something that there is not.
    pub missing: bool,
    /// The log has it already.
    pub on_record: bool,
    /// The database is away, and may come back.
    pub away: Option<store::Error>,
}

impl Failure {
    pub fn new(exit: ExitKind, message: impl fmt::Display) -> Self {
        Self {
            exit,
            // It may quote what somebody sent.
            message: findings::clean(&message.to_string()),
            hints: Vec::new(),
            missing: false,
            on_record: false,
            away: None,
        }
    }

    /// There is no such thing.
    pub fn missing(message: impl fmt::Display) -> Self {
        Self {
            missing: true,
            ..Self::usage(message)
        }
    }

    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(ExitKind::Usage, message)
    }

    pub fn error(message: impl fmt::Display) -> Self {
        Self::new(ExitKind::Error, message)
    }

    fn on_record(self) -> Self {
        Self {
            on_record: true,
            ..self
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(findings::clean(&hint.to_string()));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let exit = match &error {
            store::Error::Exists(_)
            | store::Error::KeyReused { .. }
            | store::Error::Conflict { .. }
            | store::Error::StaleFence { .. }
            | store::Error::Paused { .. }
            | store::Error::QueueFull { .. } => ExitKind::Refused,
            store::Error::NewerSchema { .. }
            | store::Error::ReadOnly(_)
            | store::Error::Locked(_)
            | store::Error::DiskFull(_)
            | store::Error::Gone(_)
            | store::Error::Unreachable(_)
            | store::Error::OutcomeUnknown(_) => ExitKind::Store,
            store::Error::Other(_) => ExitKind::Error,
        };
        let hint = match &error {
            store::Error::Unreachable(_) => {
                Some("see that the server runs and that --database names it; then run again")
            }
            store::Error::OutcomeUnknown(_) => Some("run again: what was written is found there"),
            _ => None,
        };
        Self {
            hints: hint.map(str::to_owned).into_iter().collect(),
            away: error.is_transient().then(|| error.clone()),
            ..Self::new(exit, error)
        }
    }
}

impl From<coordinator::Error> for Failure {
    fn from(error: coordinator::Error) -> Self {
        match error {
            coordinator::Error::Refused(refused @ flow::Refused::RedChecks) => {
                Self::new(ExitKind::Refused, refused)
                    .hint("accept with --over-red-checks, and say --why")
                    .on_record()
            }
            coordinator::Error::Refused(refused) => {
                Self::new(ExitKind::Refused, refused).on_record()
            }
            coordinator::Error::Store(error @ store::Error::StaleFence { .. }) => {
                Self::from(error).on_record()
            }
            coordinator::Error::ForSomebodyElse {
                ref task,
                ref agent,
                ..
            } => {
                let role = if *task == flow::Queue::Build {
                    "builder"
                } else {
                    "reviewer"
                };
                let hint = format!("run it with --{role} {agent:?}, or cancel the ticket");
                Self::new(ExitKind::Refused, error).hint(hint)
            }
            coordinator::Error::Store(error) => error.into(),
            coordinator::Error::NoSuchTicket(_) => Self::missing(error),
            coordinator::Error::NoSuchDependency { .. } => Self::usage(error),
            coordinator::Error::Unusable(_) | coordinator::Error::Barred(_) => {
                Self::new(ExitKind::Refused, error)
            }
            coordinator::Error::Denied { .. } => Self::new(ExitKind::Refused, error),
            coordinator::Error::TooBusy(_) => Self::new(ExitKind::Store, error),
            coordinator::Error::Broken(_) => Self::error(error),
        }
    }
}
