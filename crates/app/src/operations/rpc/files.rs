//! Files of runs on remote workers: transcripts, output of checks, the record of the run. They are
//! stored below the directory of their own job, as for a local run, and nowhere else. Files that
//! are read as instructions are refused: a result, for example, has to be reported.
//!
//! The path is chosen by the worker, so it is parsed and built again from its parts. It is never
//! joined as it came.

use std::path::Path;

use engine::coordinator::wire::{Attachment, FILE_BYTES_MAX};
use engine::project::TicketFiles;
use engine::{agent_home, run_records};
use flow::TicketId;
use flow::event::Lease;
use store::Artefact;

use super::{CallRefusal, Caller, short};

/// Maximum numbers of files of one report and of one run.
/// Checks of a large project write one file each.
const ARTEFACTS_MAX: usize = 500;
const FILES_MAX: usize = 500;
/// Maximum depth below a run's directory.
const PARTS_MAX: usize = 4;
const NAME_MAX: usize = 100;

/// Path below the directory of a job's run.
#[derive(Debug, PartialEq, Eq)]
struct ClaimedRunPath<'a> {
    run: u64,
    below: &'a str,
}

/// Parses a path. It must be below the directory of this job, in a run that is not later than the
/// lease.
fn parse_run_path<'a>(
    ticket: &TicketId,
    lease: Lease,
    path: &'a str,
) -> Option<ClaimedRunPath<'a>> {
    // Ticket and job come from the lease, so a path of another job does not even match.
    let job = format!("tickets/{ticket}/jobs/{}/run-", lease.serial);
    let (run, below) = path.strip_prefix(&job)?.split_once('/')?;
    let number: u64 = run.parse().ok()?;
    let parts: Vec<&str> = below.split('/').collect();
    let last = parts.last()?;
    // Logs and the record only: `ended.json` in that place would be read as the end of a run.
    let is_kept = *last == run_records::RECORD_FILE || Path::new(last).extension()? == "log";
    // `07` and `7` would be two names for one run.
    let fits = number.to_string() == run
        // A run after this lease belongs to another worker.
        && number <= lease.fence
        && parts.len() <= PARTS_MAX
        && parts.iter().all(|part| is_plain(part))
        && is_kept;
    fits.then_some(ClaimedRunPath { run: number, below })
}

fn is_plain(part: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty()
        && part.len() <= NAME_MAX
        // A dot at the start covers `..` and hidden files.
        && !part.starts_with('.')
        && part.chars().all(is_allowed)
}

/// Returns the files of a report if all their paths are permitted.
pub fn check_artefacts(
    ticket: &TicketId,
    lease: Option<Lease>,
    artefacts: Vec<Artefact>,
) -> Result<Vec<Artefact>, CallRefusal> {
    if artefacts.len() > ARTEFACTS_MAX {
        return Err(CallRefusal::barred(format!(
            "the report has more than {ARTEFACTS_MAX} files"
        )));
    }
    // Every path of a report is checked before any is stored.
    let check = |artefact: Artefact| {
        let is_own_ticket = artefact.ticket == *ticket;
        let path_found = lease.and_then(|lease| parse_run_path(ticket, lease, &artefact.path));
        if path_found.is_none() || !is_own_ticket {
            let why = format!(
                "{:?} is not a valid path for a file of this job",
                short(&artefact.path)
            );
            return Err(CallRefusal::barred(why));
        }
        Ok(Artefact {
            kind: short(&artefact.kind),
            name: short(&artefact.name),
            ..artefact
        })
    };
    artefacts.into_iter().map(check).collect()
}

impl Caller<'_> {
    /// Stores a file of a run under a lease of this worker.
    pub async fn attach(&self, attachment: Attachment) -> Result<(), CallRefusal> {
        let Attachment {
            ticket,
            lease,
            path,
            bytes,
        } = attachment;
        let Some(place) = parse_run_path(&ticket, lease, &path) else {
            let why = format!(
                "{:?} is not a valid path for a file of this job",
                short(&path)
            );
            return Err(CallRefusal::barred(why));
        };
        let bytes = check_file(place.below, bytes.0)?;
        // After the cheap checks: the lease needs a query.
        self.held_job(&ticket, lease).await?;
        let files = TicketFiles::new(&self.app.environment.data_dir, &ticket);
        let run = files.run_dir(lease.serial, place.run);
        let file = run.join(place.below);
        // Files of an earlier holder are evidence and are not overwritten.
        if place.run < lease.fence && file.symlink_metadata().is_ok() {
            return Ok(());
        }
        // Writing blocks, and the runtime's threads serve other calls.
        let result = tokio::task::spawn_blocking(move || write(&run, &file, &bytes)).await;
        let result = result.map_err(std::io::Error::other).flatten();
        let failed = |error| store::Error::Other(format!("the file cannot be stored: {error}"));
        Ok(result.map_err(failed)?)
    }
}

/// Checks the size of a file, and cleans the record of a run.
fn check_file(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, CallRefusal> {
    if bytes.len() > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX >> 20;
        return Err(CallRefusal::barred(format!(
            "files larger than {most} MiB are not stored"
        )));
    }
    if name.rsplit('/').next() != Some(run_records::RECORD_FILE) {
        return Ok(bytes);
    }
    // The record is read again by `log` and `insights`, so its fields are checked and its texts
    // cleaned.
    run_records::sanitize_record(&bytes)
        .ok_or_else(|| CallRefusal::barred("the file is not the record of a run"))
}

fn write(run: &Path, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if is_full(run) {
        return Err(std::io::Error::other("this run has too many files"));
    }
    agent_home::write(run, file, bytes)
}

fn is_full(run: &Path) -> bool {
    // A loop and no recursion: the tree was written from outside.
    let mut dirs = vec![run.to_owned()];
    let mut count = 0;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            count += 1;
            if count > FILES_MAX {
                return true;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Lease = Lease {
        serial: 3,
        fence: 7,
    };

    #[test]
    fn a_file_goes_below_the_directory_of_its_own_job() {
        let id = TicketId::new("greet").unwrap();
        let found = |path| parse_run_path(&id, LEASE, path);
        for good in [
            "tickets/greet/jobs/3/run-7/transcript.log",
            "tickets/greet/jobs/3/run-6/run.json",
            "tickets/greet/jobs/3/run-7/head/test-1.log",
        ] {
            assert!(found(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "tickets/greet/jobs/3/run-7/../../../../server.json",
            "tickets/greet/jobs/3/run-7/..",
            "tickets/greet/jobs/3/run-7/../x.log",
            "tickets/greet/jobs/3/run-7//x.log",
            "tickets/greet/jobs/3/run-7/.x.log",
            "tickets/greet/jobs/3/run-7/a\\b.log",
            "tickets/greet/jobs/3/run-7/x\0.log",
            "tickets/greet/jobs/3/run-7/a/b/c/d/e.log",
            "tickets/greet/jobs/3/run-8/x.log",
            "tickets/greet/jobs/3/run-07/x.log",
            "tickets/greet/jobs/4/run-7/x.log",
            "tickets/other/jobs/3/run-7/x.log",
            "tickets/greet/jobs/3/run-7/ended.json",
            "tickets/greet/jobs/3/run-7/x.sh",
            "runs/x.log",
            "server.json",
        ] {
            assert_eq!(found(bad), None, "{bad}");
        }
    }
}
