//! Remembers what was written to a pull request, so that a look that changes nothing writes nothing
//! and reads little. Without the file everything is looked up again on the forge and nothing is
//! written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flow::TicketId;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::settings::{Environment, read_bounded};

const MEMORY_BYTES_MAX: usize = 1 << 20;

/// Texts and states that were written to the pull request of a ticket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenReport {
    pub number: u64,
    /// Hash of title, body, draft and target.
    pub change: String,
    pub labels: bool,
    /// Commit and text of the last gate.
    pub gate: String,
    pub summary: String,
    /// Rounds with a review.
    pub rounds: BTreeSet<u32>,
    /// State of the thread of each finding.
    pub threads: BTreeMap<String, String>,
}

/// Path of the file of a ticket.
pub fn report_path(environment: &Environment, id: &TicketId) -> PathBuf {
    let dir = environment.data_dir.join("pull-requests").join("tickets");
    dir.join(format!("{id}.json"))
}

impl WrittenReport {
    /// Reads the file. A missing or damaged one, or one of another pull request, is an empty one.
    pub fn read(path: &Path, number: u64) -> Self {
        let bytes = read_bounded(path, "the written report", MEMORY_BYTES_MAX);
        let written: Self = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
        if written.number == number {
            written
        } else {
            Self {
                number,
                ..Self::default()
            }
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(Failure::error)?;
        let part = path.with_extension("part");
        let dir = path.parent().unwrap_or(path);
        engine::private_files::make_dir(dir)
            .and_then(|()| engine::private_files::write(&part, text))
            .and_then(|()| std::fs::rename(&part, path))
            .map_err(|error| Failure::error(format!("{}: {error}", path.display())))
    }
}
