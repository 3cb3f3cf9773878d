//! Names of tickets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of a ticket, chosen by the user or generated. It is always valid as part of a git ref.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct TicketId(String);

impl TicketId {
    pub const LENGTH_MAX: usize = 64;

    pub fn new(text: &str) -> Result<Self, InvalidTicketId> {
        let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = !text.is_empty()
            && text.len() <= Self::LENGTH_MAX
            && text.chars().all(sound)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !text.ends_with('.')
            && !text.contains("..")
            && !text.to_ascii_lowercase().ends_with(".lock");
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidTicketId(text.to_owned()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for TicketId {
    type Error = InvalidTicketId;

    fn try_from(text: String) -> Result<Self, InvalidTicketId> {
        Self::new(&text)
    }
}

impl From<TicketId> for String {
    fn from(id: TicketId) -> Self {
        id.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot name a ticket: use up to 64 letters, digits, '-', '_' and '.', starting with a letter or digit"
)]
pub struct InvalidTicketId(pub String);
