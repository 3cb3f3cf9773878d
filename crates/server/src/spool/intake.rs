//! Intake of task files: waits until a file is complete, queues it once, or rejects it with a
//! reason.
//!
//! Programs write task files without a temporary name, so a file that is not JSON may be half
//! written. It gets time; a file that is JSON but no task gets none.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::directory::{FileFingerprint, SpoolDir, SpoolEntry};
use super::task::{self, TaskFile, TaskFileError};
use super::task_display::ShownTask;
use super::{Spool, io_error};
use app::failure::Failure;
use app::operations::tasks::listing::{self, EnqueueError, TaskCard, TaskStatus};

/// Time without changes after which an unreadable file is rejected.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Total time after which an unreadable file is rejected, even if it still changes.
/// A log that somebody writes into the queue would change for ever.
const WAIT_MAX: Duration = Duration::from_secs(60);
const NAME_BYTES_MAX: usize = 200;
/// Names tried for a rejected file.
/// More rejected files of one name mean that a program is in a loop.
const NAMES_TRIED_MAX: u32 = 10_000;

/// State of a file, valid while the file does not change.
#[derive(Clone, Copy, Debug)]
pub enum SpoolFileState {
    /// The file belongs to a queued task.
    Task(FileFingerprint),
    /// The file depends on tasks that are not done.
    Depends,
    /// The file is not pending and not ours: another program works or has worked on it.
    Elsewhere(FileFingerprint),
    /// The file may be half written.
    Unsettled {
        fingerprint: FileFingerprint,
        first: Instant,
        changed: Instant,
    },
}

impl SpoolFileState {
    /// Whether the file must be checked again although it has not changed.
    pub fn needs_recheck(&self) -> bool {
        matches!(self, Self::Depends | Self::Unsettled { .. })
    }

    fn is_current(self, now: Option<FileFingerprint>) -> bool {
        match self {
            Self::Task(print) | Self::Elsewhere(print) => now == Some(print),
            Self::Depends | Self::Unsettled { .. } => false,
        }
    }
}

/// Result of inspecting a file.
enum IntakeOutcome {
    Seen(SpoolFileState),
    Bad(String),
}

impl Spool {
    /// Inspects all task files of a queue; `agent_exists` says whether the queue has one.
    pub(super) async fn scan_queue(
        &mut self,
        queue: &str,
        agent_exists: bool,
    ) -> Result<(), Failure> {
        let Ok(directory) = self.parts.queues.open_dir(queue) else {
            let why = "it is not a directory; links are not followed";
            self.note_once(&format!("queues/{}", findings::one_line(queue)), why)
                .await;
            return Ok(());
        };
        let names = directory.names().map_err(io_error)?;
        let names: BTreeSet<OsString> = names.into_iter().filter(|name| is_task(name)).collect();
        self.files
            // Forgotten files can come back under the same name and are then looked at again.
            .retain(|(of, name), _| of != queue || names.contains(name));
        for name in names {
            let key = (queue.to_owned(), name.clone());
            let previous = self.files.get(&key).copied();
            // An unchanged file is not read again: most files of a busy spool are unchanged.
            if previous.is_some_and(|state| state.is_current(directory.fingerprint(&name))) {
                continue;
            }
            let outcome = match path_problem(queue, &name, agent_exists) {
                Some(why) => IntakeOutcome::Bad(why),
                None => {
                    self.inspect_file(&directory, queue, &name, previous)
                        .await?
                }
            };
            match outcome {
                IntakeOutcome::Seen(state) => {
                    self.files.insert(key, state);
                }
                IntakeOutcome::Bad(why) => {
                    // A file that cannot be moved must not block the others.
                    // The others behind it must still be queued.
                    if let Err(failure) = self.reject_file(&directory, queue, &name, &why).await {
                        let about = format!("{queue}/{}", name.to_string_lossy());
                        self.note_once(&about, &failure.message).await;
                    }
                }
            }
        }
        Ok(())
    }

    async fn inspect_file(
        &mut self,
        directory: &SpoolDir,
        queue: &str,
        name: &OsStr,
        before: Option<SpoolFileState>,
    ) -> Result<IntakeOutcome, Failure> {
        let (print, bytes) = match directory.read(name, task::BYTES_MAX) {
            // The read and the fingerprint come from the same open file.
            Ok(SpoolEntry::File(print, bytes)) => (print, bytes),
            Ok(SpoolEntry::Large) => {
                let max = task::BYTES_MAX / 1024;
                return Ok(IntakeOutcome::Bad(format!("it is larger than {max} KiB")));
            }
            Ok(SpoolEntry::Other) => {
                return Ok(IntakeOutcome::Bad(
                    "it is a link or not a regular file; only regular files are accepted"
                        .to_owned(),
                ));
            }
            Err(error) => return Ok(IntakeOutcome::Bad(format!("it cannot be read: {error}"))),
        };
        match task::read(queue, &bytes) {
            Ok(file) => self.queue_file(queue, name, print, file).await,
            Err(TaskFileError::Unreadable(why)) => Ok(unsettled(print, before, why)),
            Err(TaskFileError::Unsound(why)) => Ok(IntakeOutcome::Bad(why)),
        }
    }

    /// Queues a new task, or matches the file with the existing task of the same id.
    async fn queue_file(
        &mut self,
        queue: &str,
        name: &OsStr,
        print: FileFingerprint,
        file: TaskFile,
    ) -> Result<IntakeOutcome, Failure> {
        // The store knows the task from an earlier start of the server, so a restart queues nothing
        // twice.
        if let Some(card) = listing::find(&self.app, &file.id).await? {
            let outcome = self.match_existing(queue, name, print, &file, &card);
            // A program cancels a task by writing the status into its file.
            let is_cancelled = file.status == Some(TaskStatus::Cancelled) && card.status.is_open();
            if is_cancelled && matches!(outcome, IntakeOutcome::Seen(_)) {
                let why = "cancelled in its task file";
                if let Err(failure) = listing::cancel(&self.app, &file.id, why).await {
                    let about = format!("task {}", file.id);
                    self.note_once(&about, &failure.message).await;
                }
            }
            return Ok(outcome);
        }
        // Another program works on that file. It is not ours to queue.
        if file.status != Some(TaskStatus::Pending) {
            return Ok(IntakeOutcome::Seen(SpoolFileState::Elsewhere(print)));
        }
        if !self.may_begin(&file).await? {
            return Ok(IntakeOutcome::Seen(SpoolFileState::Depends));
        }
        let (app, id) = (&self.app, &file.id);
        match listing::enqueue_task(app, queue, file.priority, file.body.clone(), id).await {
            Ok(()) => {}
            // A full queue is final for this file: the reason tells its author to try again.
            Err(EnqueueError::Full(why)) => return Ok(IntakeOutcome::Bad(why)),
            // A store that is away is no fault of the file; the next scan tries again.
            Err(EnqueueError::NotNow(error)) => return Err(error.into()),
        }
        let text = |key: &str| {
            file.body
                .get(key)
                .and_then(Value::as_str)
                .map(findings::one_line)
        };
        let body = json!({"task": id, "queue": queue, "kind": text("type"),
            "file": name.to_string_lossy(), "created_by": text("created_by")});
        self.note("task_taken_up", body).await;
        self.log_found(queue, id);
        let entry = ShownTask::new(queue, name, file.status, None);
        self.tasks.insert(file.id, entry);
        Ok(IntakeOutcome::Seen(SpoolFileState::Task(print)))
    }

    fn match_existing(
        &mut self,
        queue: &str,
        name: &OsStr,
        print: FileFingerprint,
        file: &TaskFile,
        card: &TaskCard,
    ) -> IntakeOutcome {
        // The same id with other content would hide one of two tasks.
        if card.queue != queue || !task::is_same(&file.body, &card.body) {
            return IntakeOutcome::Bad(format!(
                "another task already has the id {} with different content; use another id",
                file.id
            ));
        }
        let task = self.tasks.get(&file.id);
        // A copy of the file next to it would be shown and finished twice.
        if task.is_some_and(|task| task.is_in_another_file(name, |other| self.has(queue, other))) {
            return IntakeOutcome::Bad(format!(
                "another file in the queue already has the id {}",
                file.id
            ));
        }
        let new_entry = ShownTask::new(queue, name, file.status, file.agent.clone());
        let task = self.tasks.entry(file.id.clone()).or_insert(new_entry);
        name.clone_into(&mut task.file);
        IntakeOutcome::Seen(SpoolFileState::Task(print))
    }

    fn has(&self, queue: &str, name: &OsStr) -> bool {
        self.files
            .contains_key(&(queue.to_owned(), name.to_owned()))
    }

    /// Whether all tasks that it depends on are completed.
    async fn may_begin(&self, file: &TaskFile) -> Result<bool, Failure> {
        Ok(listing::all_completed(&self.app, &file.depends_on).await?)
    }

    /// Moves the file to `rejected/` and writes the reason next to it.
    async fn reject_file(
        &mut self,
        directory: &SpoolDir,
        queue: &str,
        name: &OsStr,
        why: &str,
    ) -> Result<(), Failure> {
        let (agent, plain) = (safe_name(queue.as_ref()), safe_name(name));
        let target = self.parts.rejected.open_dir(&agent).map_err(io_error)?;
        let mut new = plain.clone();
        let mut tried = 1;
        loop {
            match directory.move_to(name, &target, &new) {
                Ok(()) => break,
                // The file was removed in the meantime.
                // Its author took it back, which is no error.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists
                        && tried < NAMES_TRIED_MAX =>
                {
                    tried += 1;
                    new = format!("{plain}.{tried}");
                }
                Err(error) => return Err(io_error(error)),
            }
        }
        // Forgotten first, so that the same name can be used again at once.
        self.files.remove(&(queue.to_owned(), name.to_owned()));
        let reason = format!("{new} was rejected: {why}\n");
        let reason_file = format!("{new}.reason");
        target
            .write(reason_file.as_ref(), reason.as_bytes())
            .map_err(io_error)?;
        if task::is_file_name(queue) {
            self.log(queue, "WARNING", queue, &format!("Rejected {new}: {why}"));
        }
        let body = json!({"queue": agent, "file": new, "why": why});
        self.note("task_refused", body).await;
        Ok(())
    }
}

fn is_task(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".json")
}

/// Returns what is wrong with the queue or the file name, before the file is read.
fn path_problem(queue: &str, name: &OsStr, agent_exists: bool) -> Option<String> {
    if !agent_exists {
        let agent = findings::one_line(queue);
        return Some(format!(
            "unknown agent {agent:?}; create it with `countersign token create --agent NAME --role ROLE`, \
             then put the file back"
        ));
    }
    let fits = name.len() <= NAME_BYTES_MAX;
    let is_plain = |text: &str| fits && !text.chars().any(char::is_control);
    if name.to_str().is_some_and(is_plain) {
        return None;
    }
    Some("its name is too long or contains control characters".to_owned())
}

/// Replaces unsafe characters in a file name.
/// The name comes from outside and is used in paths, messages and logs.
fn safe_name(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let short = text.chars().take(NAME_BYTES_MAX / 2);
    let name: String = short.map(|c| if safe(c) { c } else { '_' }).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// Keeps waiting for an unreadable file while it changes, for a bounded time.
fn unsettled(print: FileFingerprint, before: Option<SpoolFileState>, why: String) -> IntakeOutcome {
    let now = Instant::now();
    let (first, changed) = match before {
        Some(SpoolFileState::Unsettled {
            fingerprint: previous,
            first,
            changed,
        }) => (first, if previous == print { changed } else { now }),
        _ => (now, now),
    };
    if now - changed >= SETTLE_TIME || now - first >= WAIT_MAX {
        return IntakeOutcome::Bad(why);
    }
    IntakeOutcome::Seen(SpoolFileState::Unsettled {
        fingerprint: print,
        first,
        changed,
    })
}
