//! The issue that a ticket was made of.

use serde::{Deserialize, Serialize};

/// An issue of a forge or tracker, by the name of its connection and its key there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct IssueOrigin {
    pub connection: String,
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
}
