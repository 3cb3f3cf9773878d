//! Errors of a coordinator.

use flow::access::Denied;
use flow::{Queue, Refused, TicketId};

use super::local::ATTEMPTS_MAX;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("{0}")]
    Barred(#[from] Denied),
    #[error("there is no ticket {0}; `countersign ticket list` shows all tickets")]
    NoSuchTicket(TicketId),
    #[error("{ticket} depends on {dependency}, and there is no such ticket; add that one first")]
    NoSuchDependency {
        ticket: TicketId,
        dependency: TicketId,
    },
    #[error("{0} was changed by others {ATTEMPTS_MAX} times in a row; try again")]
    TooBusy(TicketId),
    #[error("the {task} of {ticket} is assigned to {agent:?}, but no agent has that name here")]
    ForSomebodyElse {
        ticket: TicketId,
        task: Queue,
        agent: String,
    },
    /// The submission cannot be accepted as it is; its author can fix it.
    #[error("{0}")]
    Unusable(String),
    /// A server denied the call, or decided differently.
    #[error("{why}")]
    Denied {
        why: String,
        /// The refusal concerns this reviewer only, so another reviewer may succeed.
        no_judge: bool,
    },
    #[error("a worker broke: {0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    /// Returns whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_transient())
    }

    /// Returns the reason of a refusal; `None` if nothing was decided at all.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Refused(refused) => Some(refused.to_string()),
            Self::Denied { why, .. } => Some(why.clone()),
            _ => None,
        }
    }

    /// Returns whether the refusal concerns the reviewer: another agent may succeed.
    pub fn is_about_the_judge(&self) -> bool {
        match self {
            Self::Refused(refused) => refused.is_reviewer_ineligible(),
            Self::Denied { no_judge, .. } => *no_judge,
            _ => false,
        }
    }

    /// Returns whether another worker has the lease now. Work done under the old lease does not
    /// count.
    pub fn is_stale(&self) -> bool {
        matches!(
            self,
            Self::Refused(
                Refused::StaleFence { .. } | Refused::NoSuchJob { .. } | Refused::NotHolder { .. }
            ) | Self::Store(store::Error::StaleFence { .. })
        )
    }
}
