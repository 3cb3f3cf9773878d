//! Files of runs that were elsewhere: a transcript, what a check said, the record of the run. They
//! come to where they would be had the run been here, below the directory of their own job, and
//! nowhere else. Nothing that is read as an instruction is taken: a result, for one, is reported.

use std::path::Path;

use engine::coordinator::wire::{Attachment, FILE_BYTES_MAX};
use engine::workshop::TicketFiles;
use engine::{own_home, runs};
use flow::TicketId;
use flow::event::Lease;
use store::Artefact;

use super::{Caller, No, short};

/// The most files of one report or one run.
const ARTEFACTS_MAX: usize = 500;
const FILES_MAX: usize = 500;
/// Directories below a run's own.
const PARTS_MAX: usize = 4;
const NAME_MAX: usize = 100;

/// A place below the directory of a job's run.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    run: u64,
    below: &'a str,
}

/// The place of a path, if it is below the directory of this job, in a run that was not later.
fn place<'a>(ticket: &TicketId, lease: Lease, path: &'a str) -> Option<Place<'a>> {
    let job = format!("tickets/{ticket}/jobs/{}/run-", lease.serial);
    let (run, below) = path.strip_prefix(&job)?.split_once('/')?;
    let number: u64 = run.parse().ok()?;
    let parts: Vec<&str> = below.split('/').collect();
    let last = parts.last()?;
    let is_kept = *last == runs::RECORD || Path::new(last).extension()? == "log";
    let fits = number.to_string() == run
        && number <= lease.fence
        && parts.len() <= PARTS_MAX
        && parts.iter().all(|part| is_plain(part))
        && is_kept;
    fits.then_some(Place { run: number, below })
}

fn is_plain(part: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !part.is_empty() && part.len() <= NAME_MAX && !part.starts_with('.') && part.chars().all(sound)
}

/// The files of a report, if all of them are where they may be.
pub fn sound(
    ticket: &TicketId,
    lease: Option<Lease>,
    artefacts: Vec<Artefact>,
) -> Result<Vec<Artefact>, No> {
    if artefacts.len() > ARTEFACTS_MAX {
        return Err(No::barred(format!(
            "more than {ARTEFACTS_MAX} files of one job"
        )));
    }
    let one = |artefact: Artefact| {
        let own = artefact.ticket == *ticket;
        let found = lease.and_then(|lease| place(ticket, lease, &artefact.path));
        if found.is_none() || !own {
            let why = format!(
                "{:?} is no place for a file of this job",
                short(&artefact.path)
            );
            return Err(No::barred(why));
        }
        Ok(Artefact {
            kind: short(&artefact.kind),
            name: short(&artefact.name),
            ..artefact
        })
    };
    artefacts.into_iter().map(one).collect()
}

impl Caller<'_> {
    /// Keeps a file of a run under a lease of this worker's.
    pub async fn attach(&self, attachment: Attachment) -> Result<(), No> {
        let Attachment {
            ticket,
            lease,
            path,
            bytes,
        } = attachment;
        let Some(place) = place(&ticket, lease, &path) else {
            let why = format!("{:?} is no place for a file of this job", short(&path));
            return Err(No::barred(why));
        };
        let bytes = fit_to_keep(place.below, bytes.0)?;
        self.held(&ticket, lease).await?;
        let files = TicketFiles::of(&self.office.surroundings.data_dir, &ticket);
        let run = files.run(lease.serial, place.run);
        let file = run.join(place.below);
        // What an earlier holder has left is its own word.
        if place.run < lease.fence && file.symlink_metadata().is_ok() {
            return Ok(());
        }
        let written = tokio::task::spawn_blocking(move || write(&run, &file, &bytes)).await;
        let written = written.map_err(std::io::Error::other).flatten();
        let broken = |error| store::Error::Other(format!("the file cannot be kept: {error}"));
        Ok(written.map_err(broken)?)
    }
}

/// The bytes as they may lie here.
fn fit_to_keep(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, No> {
    if bytes.len() > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX >> 20;
        return Err(No::barred(format!(
            "a file of more than {most} MiB is not kept"
        )));
    }
    if name.rsplit('/').next() != Some(runs::RECORD) {
        return Ok(bytes);
    }
    runs::cleaned(&bytes).ok_or_else(|| No::barred("that is no record of a run"))
}

fn write(run: &Path, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if is_full(run) {
        return Err(std::io::Error::other(
            "there are too many files of this run",
        ));
    }
    own_home::write(run, file, bytes)
}

fn is_full(run: &Path) -> bool {
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
        let found = |path| place(&id, LEASE, path);
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
