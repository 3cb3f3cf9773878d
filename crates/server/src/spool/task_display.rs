//! Writes task status back to the spool: the status in each task's file, a lock while it runs, and
//! `completed/` when it is done. Tasks queued in other ways are written too. The store is the
//! source of truth; the files only mirror it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use flow::Time;

use super::directory::SpoolDir;
use super::intake::SpoolFileState;
use super::logs;
use super::task::{self, TaskTimes};
use super::{Spool, io_error};
use app::failure::Failure;
use app::operations::tasks::listing::{self, TaskCard, TaskMark, TaskStatus};

/// Status of a task as its files show it.
#[derive(Clone, Debug)]
pub struct ShownTask {
    queue: String,
    pub file: OsString,
    /// `None` if the file must be written in any case.
    status: Option<TaskStatus>,
    agent: Option<String>,
    started: Option<Time>,
}

impl ShownTask {
    pub fn new(
        queue: &str,
        file: &OsStr,
        status: Option<TaskStatus>,
        agent: Option<String>,
    ) -> Self {
        Self {
            queue: queue.to_owned(),
            file: file.to_owned(),
            status,
            agent,
            started: None,
        }
    }

    pub fn is_open(&self) -> bool {
        self.status.is_none_or(TaskStatus::is_open)
    }

    /// Whether the task belongs to another file that still exists.
    pub fn is_in_another_file(&self, name: &OsStr, is_there: impl Fn(&OsStr) -> bool) -> bool {
        self.file != name && is_there(&self.file)
    }

    fn matches(&self, card: &TaskCard) -> bool {
        let same_agent = card.status != TaskStatus::InProgress || self.agent == card.agent;
        self.status == Some(card.status) && same_agent
    }
}

impl Spool {
    pub(super) async fn show_queue(&mut self, queue: &str) -> Result<(), Failure> {
        let Ok(directory) = self.parts.queues.open_dir(queue) else {
            return Ok(());
        };
        for card in self.load_cards(queue).await? {
            // An id that is not a valid file name has no file.
            if !task::is_file_name(&card.id) {
                continue;
            }
            if let Err(error) = self.show_one(&directory, &card) {
                // Kept as not shown, so that the next scan tries again also if it has ended.
                let unshown =
                    || ShownTask::new(queue, format!("{}.json", card.id).as_ref(), None, None);
                self.tasks.entry(card.id.clone()).or_insert_with(unshown);
                self.note_once(&format!("task {}", card.id), &error.to_string())
                    .await;
            }
        }
        Ok(())
    }

    /// Removes stale locks of a killed process.
    pub(super) async fn sweep_locks(&self) -> Result<(), Failure> {
        for name in self.parts.locks.names().map_err(io_error)? {
            let id = name.to_str().and_then(|name| name.strip_suffix(".lock"));
            let Some(id) = id.filter(|id| task::is_file_name(id)) else {
                continue;
            };
            let card = listing::find(&self.app, id).await?;
            if card.is_some_and(|card| card.status != TaskStatus::InProgress) {
                self.parts.locks.remove(&name).map_err(io_error)?;
            }
        }
        Ok(())
    }

    /// Loads the queue's open tasks, ended tasks that are still shown as open, and all that were queued
    /// since the last look: some may have ended already.
    async fn load_cards(&mut self, queue: &str) -> Result<Vec<TaskCard>, Failure> {
        let mark = self.marks.get(queue).copied();
        let mark = mark.unwrap_or_else(|| TaskMark::at(self.opened));
        let (new, next) = listing::new_tasks(&self.app, queue, mark).await?;
        let open = listing::open_tasks(&self.app, queue).await?;
        let mut cards: BTreeMap<String, TaskCard> = new
            .into_iter()
            .chain(open)
            .map(|card| (card.id.clone(), card))
            .collect();
        for (id, shown) in &self.tasks {
            if shown.queue == queue && shown.is_open() && !cards.contains_key(id) {
                let ended = listing::find(&self.app, id).await?;
                cards.extend(ended.map(|card| (id.clone(), card)));
            }
        }
        self.marks.insert(queue.to_owned(), next);
        Ok(cards.into_values().collect())
    }

    fn show_one(&mut self, directory: &SpoolDir, card: &TaskCard) -> std::io::Result<()> {
        let default_name = format!("{}.json", card.id);
        let known = self.tasks.get(&card.id).cloned();
        let is_new = known.is_none();
        let mut shown =
            known.unwrap_or_else(|| ShownTask::new(&card.queue, default_name.as_ref(), None, None));
        let exists = directory.has(&shown.file);
        if shown.matches(card) && exists {
            return Ok(());
        }
        if exists && !self.is_unchanged(directory, card, &shown) {
            // Somebody has changed the file; the next scan reads it first.
            return Ok(());
        }
        let now = self.app.now();
        if card.status == TaskStatus::InProgress && shown.started.is_none() {
            shown.started = Some(now);
        }
        self.write_task_file(directory, card, &shown, now)?;
        if is_new {
            // Queued by a call and not by a file. Scripts look for the same lines.
            self.log_found(&card.queue, &card.id);
        }
        if !card.status.is_open() && shown.started.is_none() && is_worked_on(card) {
            // It was begun and ended between two looks, so nobody saw how long it took.
            self.log_start(card, &shown);
        }
        self.log_change(card, &shown, now);
        self.unlock(card)?;
        if card.status == TaskStatus::Completed {
            self.tasks.remove(&card.id);
            return Ok(());
        }
        shown.status = Some(card.status);
        shown.agent.clone_from(&card.agent);
        self.tasks.insert(card.id.clone(), shown);
        Ok(())
    }

    /// Whether the file is unchanged since it was read.
    fn is_unchanged(&self, directory: &SpoolDir, card: &TaskCard, shown: &ShownTask) -> bool {
        let key = (card.queue.clone(), shown.file.clone());
        match self.files.get(&key) {
            Some(SpoolFileState::Task(print)) => directory.fingerprint(&shown.file) == Some(*print),
            _ => false,
        }
    }

    /// Writes the task's file. The lock is written first, so that it exists when the file says
    /// `in_progress`.
    fn write_task_file(
        &mut self,
        directory: &SpoolDir,
        card: &TaskCard,
        shown: &ShownTask,
        now: Time,
    ) -> std::io::Result<()> {
        let ended = !card.status.is_open();
        let times = TaskTimes {
            started_at: shown.started.map(Time::to_iso),
            completed_at: ended.then(|| now.to_iso()),
        };
        if card.status == TaskStatus::InProgress {
            let lock = task::render_lock(card);
            self.parts.locks.write(lock_of(card).as_ref(), &lock)?;
        }
        let text = task::render(card, &times);
        if card.status == TaskStatus::Completed {
            let done = self.parts.completed.open_dir(&card.queue)?;
            done.write(&shown.file, &text)?;
            directory.remove(&shown.file)?;
        } else {
            directory.write(&shown.file, &text)?;
            let print = directory.fingerprint(&shown.file);
            let key = (card.queue.clone(), shown.file.clone());
            self.files
                .extend(print.map(|print| (key, SpoolFileState::Task(print))));
        }
        Ok(())
    }

    /// Removes the lock last: a script that waits for it finds the file moved and the log written.
    fn unlock(&self, card: &TaskCard) -> std::io::Result<()> {
        if card.status == TaskStatus::InProgress {
            return Ok(());
        }
        self.parts.locks.remove(lock_of(card).as_ref())
    }

    fn log_start(&self, card: &TaskCard, shown: &ShownTask) {
        let text = logs::starting_line(&card.body);
        self.log_task(
            &card.queue,
            "INFO",
            agent_of(card, shown),
            &card.body,
            &text,
        );
    }

    fn log_change(&self, card: &TaskCard, shown: &ShownTask, now: Time) {
        let agent = agent_of(card, shown);
        let took = shown.started.map(|began| now.0 - began.0);
        let (level, text) = match card.status {
            TaskStatus::InProgress => return self.log_start(card, shown),
            TaskStatus::Completed => ("INFO", logs::ended_line(&card.body, "completed", took)),
            TaskStatus::Failed => {
                let why = card.error.as_deref().unwrap_or("the task was given up");
                (
                    "ERROR",
                    logs::ended_line(&card.body, &format!("failed: {why}"), None),
                )
            }
            TaskStatus::Cancelled => ("WARNING", logs::ended_line(&card.body, "cancelled", None)),
            TaskStatus::Pending => return,
        };
        self.log_task(&card.queue, level, agent, &card.body, &text);
    }
}

fn agent_of<'a>(card: &'a TaskCard, shown: &'a ShownTask) -> &'a str {
    let agent = card.agent.as_deref().or(shown.agent.as_deref());
    agent.unwrap_or(&card.queue)
}

/// Whether an agent has worked on an ended task; others were cancelled before.
fn is_worked_on(card: &TaskCard) -> bool {
    matches!(card.status, TaskStatus::Completed | TaskStatus::Failed)
}

fn lock_of(card: &TaskCard) -> String {
    format!("{}.lock", card.id)
}
