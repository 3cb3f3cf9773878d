//! Files that travel with a report: the record of its run, the transcript, and the artefacts that the
//! report names. A file that is missing, or is no plain file, is left out.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flow::event::Lease;
use flow::{EventKind, TicketId};
use store::Artefact;

use super::wire::{Base64Bytes, FILE_BYTES_MAX};
use crate::runs;
use crate::workshop::TicketFiles;

/// The lease of a report that has something to show.
pub fn of_report(what: &EventKind) -> Option<Lease> {
    let is_an_end = !matches!(
        what,
        EventKind::Started { .. } | EventKind::LeaseLost { .. }
    );
    what.lease().filter(|_| is_an_end)
}

/// Below the data directory, each once.
pub fn paths(ticket: &TicketId, lease: Lease, artefacts: &[Artefact]) -> BTreeSet<String> {
    let files = TicketFiles::of(Path::new(""), ticket);
    let run = files.run(lease.serial, lease.fence);
    let own = [runs::RECORD, runs::TRANSCRIPT].map(|name| files.relative(&run.join(name)));
    let named = artefacts.iter().map(|artefact| artefact.path.clone());
    own.into_iter().chain(named).collect()
}

/// The beginning of a long one.
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
