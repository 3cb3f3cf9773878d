//! The one error of this crate.

/// Reason why a forge did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    #[error("{forge} has no {what}")]
    Unsupported {
        forge: &'static str,
        what: &'static str,
    },
    #[error("{what}: not found, or the token may not see it")]
    NotFound { what: String },
    #[error("{host} does not accept the token (401); it may have expired")]
    Unauthorized { host: String },
    #[error("{what}: the token may not do this (403): {detail}")]
    Forbidden { what: String, detail: String },
    #[error("{what}: refused ({status}): {detail}")]
    Refused {
        what: String,
        status: u16,
        detail: String,
    },
    #[error("the rate limit of {host} is reached; it ends in {seconds} s")]
    Limited { host: String, seconds: u64 },
    /// The request may have been carried out. Look before you repeat it.
    #[error("{what}: no answer: {detail}")]
    Lost { what: String, detail: String },
    #[error("{what}: moved to {to}; update the address of the repository")]
    Moved { what: String, to: String },
    #[error("{what}: the answer is not understood: {detail}")]
    Unreadable { what: String, detail: String },
    #[error("{0}")]
    Address(String),
}

impl ForgeError {
    /// Returns whether the request may have been carried out although no answer arrived.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns whether the forge's own words have this one.
    pub(crate) fn says(&self, word: &str) -> bool {
        matches!(self, Self::Refused { detail, .. } if detail.contains(word))
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns the status of a refusal that is about the content of the request.
    pub(crate) fn refused_with(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}
