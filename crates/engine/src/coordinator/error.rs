//! Why a coordinator did not do what was asked.

use flow::standing::Denied;
use flow::{Queue, Refused, TicketId};

use super::local::ATTEMPTS_MAX;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("{0}")]
    Barred(#[from] Denied),
    #[error("there is no ticket {0}; `countersign ticket list` shows those there are")]
    NoSuchTicket(TicketId),
    #[error("{ticket} depends on {dependency}, and there is no such ticket; add that one first")]
    NoSuchDependency {
        ticket: TicketId,
        dependency: TicketId,
    },
    #[error("{0} was changed by others {ATTEMPTS_MAX} times in a row; try again")]
    TooBusy(TicketId),
    #[error("the {task} of {ticket} is for {agent:?}, and nobody of that name works here")]
    ForSomebodyElse {
        ticket: TicketId,
        task: Queue,
        agent: String,
    },
    /// The submission cannot be taken as it is; its author can mend it.
    #[error("{0}")]
    Unusable(String),
    /// A server did not let the caller, or decided otherwise.
    #[error("{why}")]
    Denied {
        why: String,
        /// It is about who may judge, so another judge may.
        no_judge: bool,
    },
    #[error("a worker broke: {0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Worth trying again as it is.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }

    /// The reason of a refusal; none where nothing was decided at all.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Refused(refused) => Some(refused.to_string()),
            Self::Denied { why, .. } => Some(why.clone()),
            _ => None,
        }
    }

    /// Refused because of who would judge: another agent may.
    pub fn is_about_the_judge(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.is_about_the_judge(),
            Self::Denied { no_judge, .. } => *no_judge,
            _ => false,
        }
    }

    /// The lease has gone to somebody else: whatever was done under it does not count.
    pub fn is_stale(&self) -> bool {
        matches!(
            self,
            Self::Refused(
                Refused::StaleFence { .. } | Refused::NoSuchJob { .. } | Refused::NotHolder { .. }
            ) | Self::Store(store::Error::StaleFence { .. })
        )
    }
}
