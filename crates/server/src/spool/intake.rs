//! What is taken in: a file is looked at until it is whole, queued once, or put aside with the reason.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::picture::ShownTask;
use super::place::{FileFingerprint, SpoolDir, SpoolEntry};
use super::task::{self, TaskFile, TaskFileError};
use super::{Spool, trouble};
use app::failure::Failure;
use app::operations::tasks::board::{self, EnqueueError, TaskCard, TaskStatus};

/// A file that cannot be read is waited for while it changes, and so long after.
const SETTLES: Duration = Duration::from_secs(5);
/// And no longer than this in all.
const WAIT_MOST: Duration = Duration::from_secs(60);
const NAME_BYTES_MAX: usize = 200;
/// Names that are tried for a file that is put aside.
const NAMES_TRIED_MAX: u32 = 10_000;

/// What is known of a file, for as long as it does not change.
#[derive(Clone, Copy, Debug)]
pub enum SpoolFileState {
    /// It shows a task.
    Task(FileFingerprint),
    /// It depends on tasks that are not done.
    Depends,
    /// It says that somebody else has it in hand, or had.
    Elsewhere(FileFingerprint),
    /// It may be half written.
    Unsettled {
        print: FileFingerprint,
        first: Instant,
        changed: Instant,
    },
}

impl SpoolFileState {
    /// Whether it has to be looked at again though it has not changed.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Depends | Self::Unsettled { .. })
    }

    fn holds_for(self, now: Option<FileFingerprint>) -> bool {
        match self {
            Self::Task(print) | Self::Elsewhere(print) => now == Some(print),
            Self::Depends | Self::Unsettled { .. } => false,
        }
    }
}

/// What a look at a file came to.
enum IntakeOutcome {
    Seen(SpoolFileState),
    Bad(String),
}

impl Spool {
    /// Looks at all task files of a queue; `known` says whether there is such an agent.
    pub(super) async fn take_in(&mut self, queue: &str, known: bool) -> Result<(), Failure> {
        let Ok(place) = self.parts.queues.enter(queue) else {
            let why = "it is no directory of its own; links are not followed";
            self.complain(&format!("queues/{}", findings::one_line(queue)), why)
                .await;
            return Ok(());
        };
        let names = place.names().map_err(trouble)?;
        let names: BTreeSet<OsString> = names.into_iter().filter(|name| is_task(name)).collect();
        self.files
            .retain(|(of, name), _| of != queue || names.contains(name));
        for name in names {
            let at = (queue.to_owned(), name.clone());
            let before = self.files.get(&at).copied();
            if before.is_some_and(|seen| seen.holds_for(place.print(&name))) {
                continue;
            }
            let found = match flaw_of_place(queue, &name, known) {
                Some(why) => IntakeOutcome::Bad(why),
                None => self.judge(&place, queue, &name, before).await?,
            };
            match found {
                IntakeOutcome::Seen(seen) => {
                    self.files.insert(at, seen);
                }
                IntakeOutcome::Bad(why) => {
                    // One that cannot be moved holds nobody else up.
                    if let Err(failure) = self.put_aside(&place, queue, &name, &why).await {
                        let about = format!("{queue}/{}", name.to_string_lossy());
                        self.complain(&about, &failure.message).await;
                    }
                }
            }
        }
        Ok(())
    }

    async fn judge(
        &mut self,
        place: &SpoolDir,
        queue: &str,
        name: &OsStr,
        before: Option<SpoolFileState>,
    ) -> Result<IntakeOutcome, Failure> {
        let (print, bytes) = match place.read(name, task::BYTES_MAX) {
            Ok(SpoolEntry::File(print, bytes)) => (print, bytes),
            Ok(SpoolEntry::Large) => {
                let most = task::BYTES_MAX / 1024;
                return Ok(IntakeOutcome::Bad(format!("it is larger than {most} KiB")));
            }
            Ok(SpoolEntry::Other) => {
                return Ok(IntakeOutcome::Bad(
                    "it is a link or no file; only files are taken".to_owned(),
                ));
            }
            Err(error) => return Ok(IntakeOutcome::Bad(format!("it cannot be read: {error}"))),
        };
        match task::read(queue, &bytes) {
            Ok(file) => self.enter(queue, name, print, file).await,
            Err(TaskFileError::Unreadable(why)) => Ok(unsettled(print, before, why)),
            Err(TaskFileError::Unsound(why)) => Ok(IntakeOutcome::Bad(why)),
        }
    }

    /// A task that is there already is the same task; a new one is queued.
    async fn enter(
        &mut self,
        queue: &str,
        name: &OsStr,
        print: FileFingerprint,
        file: TaskFile,
    ) -> Result<IntakeOutcome, Failure> {
        if let Some(card) = board::find(&self.office, &file.id).await? {
            let found = self.recognise(queue, name, print, &file, &card);
            let unwanted = file.standing == Some(TaskStatus::Cancelled) && card.standing.is_open();
            if unwanted && matches!(found, IntakeOutcome::Seen(_)) {
                let why = "its file says that it is cancelled";
                if let Err(failure) = board::cancel(&self.office, &file.id, why).await {
                    let about = format!("task {}", file.id);
                    self.complain(&about, &failure.message).await;
                }
            }
            return Ok(found);
        }
        if file.standing != Some(TaskStatus::Pending) {
            return Ok(IntakeOutcome::Seen(SpoolFileState::Elsewhere(print)));
        }
        if !self.may_begin(&file).await? {
            return Ok(IntakeOutcome::Seen(SpoolFileState::Depends));
        }
        let (office, id) = (&self.office, &file.id);
        match board::enter(office, queue, file.priority, file.body.clone(), id).await {
            Ok(()) => {}
            Err(EnqueueError::Full(why)) => return Ok(IntakeOutcome::Bad(why)),
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
        self.log(queue, "INFO", queue, &format!("Polling queue: {queue}"));
        self.log(queue, "INFO", queue, &format!("Found task: {id}"));
        let shown = ShownTask::new(queue, name, file.standing, None);
        self.tasks.insert(file.id, shown);
        Ok(IntakeOutcome::Seen(SpoolFileState::Task(print)))
    }

    fn recognise(
        &mut self,
        queue: &str,
        name: &OsStr,
        print: FileFingerprint,
        file: &TaskFile,
        card: &TaskCard,
    ) -> IntakeOutcome {
        if card.queue != queue || !task::is_same(&file.body, &card.body) {
            return IntakeOutcome::Bad(format!(
                "there is a task {} that says something else; give this one another id",
                file.id
            ));
        }
        let shown = self.tasks.get(&file.id);
        if shown.is_some_and(|shown| shown.is_in_another_file(name, |other| self.has(queue, other)))
        {
            return IntakeOutcome::Bad(format!("another file in the queue is task {}", file.id));
        }
        let fresh = ShownTask::new(queue, name, file.standing, file.agent.clone());
        let shown = self.tasks.entry(file.id.clone()).or_insert(fresh);
        name.clone_into(&mut shown.file);
        IntakeOutcome::Seen(SpoolFileState::Task(print))
    }

    fn has(&self, queue: &str, name: &OsStr) -> bool {
        self.files
            .contains_key(&(queue.to_owned(), name.to_owned()))
    }

    /// All that it depends on is completed.
    async fn may_begin(&self, file: &TaskFile) -> Result<bool, Failure> {
        Ok(board::are_done(&self.office, &file.depends_on).await?)
    }

    /// Moves the file to `rejected/`, with the reason beside it.
    async fn put_aside(
        &mut self,
        place: &SpoolDir,
        queue: &str,
        name: &OsStr,
        why: &str,
    ) -> Result<(), Failure> {
        let (agent, plain) = (plain(queue.as_ref()), plain(name));
        let to = self.parts.rejected.enter(&agent).map_err(trouble)?;
        let mut new = plain.clone();
        let mut tried = 1;
        loop {
            match place.carry(name, &to, &new) {
                Ok(()) => break,
                // Whoever put it there has taken it away.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists
                        && tried < NAMES_TRIED_MAX =>
                {
                    tried += 1;
                    new = format!("{plain}.{tried}");
                }
                Err(error) => return Err(trouble(error)),
            }
        }
        self.files.remove(&(queue.to_owned(), name.to_owned()));
        let reason = format!("{new} was not taken: {why}\n");
        let beside = format!("{new}.reason");
        to.write(beside.as_ref(), reason.as_bytes())
            .map_err(trouble)?;
        if task::names_a_file(queue) {
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

/// What is wrong before the file is looked at.
fn flaw_of_place(queue: &str, name: &OsStr, known: bool) -> Option<String> {
    if !known {
        let agent = findings::one_line(queue);
        return Some(format!(
            "there is no agent {agent:?}; `countersign token create --agent NAME --role ROLE` makes one, \
             then put the file back"
        ));
    }
    let fits = name.len() <= NAME_BYTES_MAX;
    let sound = |text: &str| fits && !text.chars().any(char::is_control);
    if name.to_str().is_some_and(sound) {
        return None;
    }
    Some("its name is not plain text, or too long".to_owned())
}

/// A name that is safe to write anywhere.
fn plain(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let short = text.chars().take(NAME_BYTES_MAX / 2);
    let name: String = short.map(|c| if safe(c) { c } else { '_' }).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// Waited for while it changes, for a bounded time.
fn unsettled(print: FileFingerprint, before: Option<SpoolFileState>, why: String) -> IntakeOutcome {
    let now = Instant::now();
    let (first, changed) = match before {
        Some(SpoolFileState::Unsettled {
            print: known,
            first,
            changed,
        }) => (first, if known == print { changed } else { now }),
        _ => (now, now),
    };
    if now - changed >= SETTLES || now - first >= WAIT_MOST {
        return IntakeOutcome::Bad(why);
    }
    IntakeOutcome::Seen(SpoolFileState::Unsettled {
        print,
        first,
        changed,
    })
}
