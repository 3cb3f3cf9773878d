//! Entries of other systems' files. An export writes them back with all their fields.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One entry of an imported file, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImportedEntry {
    pub format: ImportedFormat,
    /// All fields, known or not.
    pub fields: Map<String, Value>,
    /// Dependencies that were already completed in the other system. The ticket does not wait for
    /// them, and exports name them again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub completed_dependencies: BTreeSet<String>,
}

/// Format of the file that an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportedFormat {
    Task,
    EpicState,
}

impl ImportedEntry {
    /// Returns the first of these fields that the entry has.
    pub fn field(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.fields.get(*name))
    }

    /// Returns a count; a missing or strange one is 0.
    pub fn count(&self, name: &str) -> u64 {
        let value = self.fields.get(name).and_then(Value::as_u64);
        value.unwrap_or_default()
    }
}
