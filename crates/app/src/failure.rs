//! The one error type of all operations, which each surface renders in its own form, and the exit
//! codes.

use std::fmt;
use std::process::ExitCode;

use engine::coordinator;

/// Result of the program, as its exit code reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// Approved, done, or shown as requested.
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
    /// The decision was refused: wrong stage, missing permission, or the ticket has changed since.
    Refused,
    /// The database is locked, unreachable, read-only, full or newer than this program.
    Store,
    /// Something has to happen first: another ticket, a person who took over, or the end of a limit.
    Waiting,
    /// Stopped by the person (Ctrl-C); the next `run` goes on.
    Interrupted,
    /// Exit code of the program that a hidden command runs.
    Child(u8),
}

impl ExitKind {
    /// Every kind with a code of its own, for the table in `docs/json.md`.
    pub const ALL: [Self; 10] = [
        Self::Done,
        Self::Error,
        Self::Usage,
        Self::ChangesRequested,
        Self::Escalated,
        Self::Failed,
        Self::Refused,
        Self::Store,
        Self::Waiting,
        Self::Interrupted,
    ];

    /// Explains the code to a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "approved, done, or shown as requested",
            Self::Error => "something went wrong; the message says what to do",
            Self::Usage => "the command line, a file or the configuration is not understood",
            Self::ChangesRequested => "changes are requested: the round ended without an approval",
            Self::Escalated => "a person has to decide",
            Self::Failed => "the ticket failed, was rejected or cancelled",
            Self::Refused => {
                "the decision was refused: wrong stage, missing permission, or the ticket has changed since"
            }
            Self::Store => {
                "the database is locked, unreachable, read-only, full or newer than this program"
            }
            Self::Waiting => {
                "something has to happen first: another ticket, a person who took over, or the end of a limit of a provider or forge"
            }
            Self::Interrupted => "stopped by the person (Ctrl-C); the next `run` continues",
            Self::Child(_) => "exit code of the program that a hidden command runs",
        }
    }

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
            Self::Child(code) => code,
        }
    }
}

impl ExitKind {
    /// Returns the kind with this code, if a call to a server can end with it.
    pub fn from_code(code: u8) -> Option<Self> {
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

/// Error of an operation: a message that says what happened to what, and hints what to do next.
#[derive(Debug)]
pub struct Failure {
    pub exit: ExitKind,
    pub message: String,
    pub hints: Vec<String>,
    /// True if the requested thing does not exist.
    pub not_found: bool,
    /// True if the event log has the refusal already.
    pub is_recorded: bool,
    /// Set if the database is unreachable and may come back.
    pub store_error: Option<store::Error>,
}

impl Failure {
    pub fn new(exit: ExitKind, message: impl fmt::Display) -> Self {
        Self {
            exit,
            // The message may quote untrusted text.
            message: findings::clean(&message.to_string()),
            hints: Vec::new(),
            not_found: false,
            is_recorded: false,
            store_error: None,
        }
    }

    /// Builds the error for a thing that does not exist.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self {
            not_found: true,
            ..Self::usage(message)
        }
    }

    /// Builds the error for invalid input: command line, file or configuration.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(ExitKind::Usage, message)
    }

    /// Builds the error for a failed operation.
    pub fn error(message: impl fmt::Display) -> Self {
        Self::new(ExitKind::Error, message)
    }

    fn recorded(self) -> Self {
        Self {
            is_recorded: true,
            ..self
        }
    }

    /// Adds a hint what to do next.
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
                Some("start the database server or correct --database; then run again")
            }
            store::Error::OutcomeUnknown(_) => {
                Some("run again: it continues from what was written")
            }
            _ => None,
        };
        Self {
            hints: hint.map(str::to_owned).into_iter().collect(),
            store_error: error.is_transient().then(|| error.clone()),
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
                    .recorded()
            }
            coordinator::Error::Refused(refused @ flow::Refused::NoReason) => {
                Self::new(ExitKind::Refused, refused)
                    .hint("--why \"…\" on the command line")
                    .recorded()
            }
            coordinator::Error::Refused(refused) => {
                Self::new(ExitKind::Refused, refused).recorded()
            }
            coordinator::Error::Store(error @ store::Error::StaleFence { .. }) => {
                Self::from(error).recorded()
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
            coordinator::Error::NoSuchTicket(_) => Self::not_found(error),
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
