//! Files that are sent with a report: the record of its run, the transcript, and the artefacts that
//! the report names. A file that is missing or not a regular file is left out.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flow::event::Lease;
use flow::{EventKind, TicketId};
use store::Artefact;

use super::wire::{Base64Bytes, FILE_BYTES_MAX};
use crate::project::TicketFiles;
use crate::run_records;

/// Returns the lease of a report that has files: every report of a job except its start and its
/// loss.
pub fn of_report(what: &EventKind) -> Option<Lease> {
    let is_an_end = !matches!(
        what,
        EventKind::Started { .. } | EventKind::LeaseLost { .. }
    );
    what.lease().filter(|_| is_an_end)
}

/// Returns the paths of the files below the data directory, without duplicates.
pub fn paths(ticket: &TicketId, lease: Lease, artefacts: &[Artefact]) -> BTreeSet<String> {
    let files = TicketFiles::new(Path::new(""), ticket);
    let run = files.run_dir(lease.serial, lease.fence);
    let own = [run_records::RECORD_FILE, run_records::TRANSCRIPT_FILE]
        .map(|name| files.relative_path(&run.join(name)));
    let named = artefacts.iter().map(|artefact| artefact.path.clone());
    own.into_iter().chain(named).collect()
}

/// Reads a file, up to the size that the server keeps.
pub async fn read(data_dir: &Path, path: &str) -> Option<Base64Bytes> {
    let path = data_dir.join(path);
    let read = tokio::task::spawn_blocking(move || {
        let mut options = OpenOptions::new();
        let nofollow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).ok()?;
        let options = options.read(true).custom_flags(nofollow);
        let file = options.open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        let most = u64::try_from(FILE_BYTES_MAX).unwrap_or_default();
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some(Base64Bytes(bytes))
    });
    read.await.ok().flatten()
}
