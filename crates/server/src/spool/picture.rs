//! What is shown: the status in each task's file, a lock while it is in hand, `completed/` when it is
//! done. Tasks that came another way are shown too. The store is the truth; a file is its picture.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use flow::Time;

use super::intake::SpoolFileState;
use super::logs;
use super::place::SpoolDir;
use super::task::{self, TaskTimes};
use super::{Spool, trouble};
use app::failure::Failure;
use app::operations::tasks::board::{self, TaskCard, TaskStatus};

/// What the files say of a task.
#[derive(Clone, Debug)]
pub struct ShownTask {
    queue: String,
    pub file: OsString,
    /// `None` where the file has to be written whatever it says.
    standing: Option<TaskStatus>,
    agent: Option<String>,
    started: Option<Time>,
}

impl ShownTask {
    pub fn new(
        queue: &str,
        file: &OsStr,
        standing: Option<TaskStatus>,
        agent: Option<String>,
    ) -> Self {
        Self {
            queue: queue.to_owned(),
            file: file.to_owned(),
            standing,
            agent,
            started: None,
        }
    }

    pub fn is_open(&self) -> bool {
        self.standing.is_none_or(TaskStatus::is_open)
    }

    /// Whether the task is another file's that is still there.
    pub fn is_in_another_file(&self, name: &OsStr, is_there: impl Fn(&OsStr) -> bool) -> bool {
        self.file != name && is_there(&self.file)
    }

    fn says(&self, card: &TaskCard) -> bool {
        let same_hands = card.standing != TaskStatus::InProgress || self.agent == card.agent;
        self.standing == Some(card.standing) && same_hands
    }
}

impl Spool {
    pub(super) async fn show(&mut self, queue: &str) -> Result<(), Failure> {
        let Ok(place) = self.parts.queues.enter(queue) else {
            return Ok(());
        };
        for card in self.cards(queue).await? {
            // What cannot name a file has none.
            if !task::names_a_file(&card.id) {
                continue;
            }
            if let Err(error) = self.show_one(&place, &card) {
                self.complain(&format!("task {}", card.id), &error.to_string())
                    .await;
            }
        }
        Ok(())
    }

    /// Takes away the locks that one of us left who was killed.
    pub(super) async fn sweep_locks(&self) -> Result<(), Failure> {
        for name in self.parts.locks.names().map_err(trouble)? {
            let id = name.to_str().and_then(|name| name.strip_suffix(".lock"));
            let Some(id) = id.filter(|id| task::names_a_file(id)) else {
                continue;
            };
            let card = board::find(&self.office, id).await?;
            if card.is_some_and(|card| card.standing != TaskStatus::InProgress) {
                self.parts.locks.remove(&name).map_err(trouble)?;
            }
        }
        Ok(())
    }

    /// The queue's open tasks, and those shown as open that have ended.
    async fn cards(&self, queue: &str) -> Result<Vec<TaskCard>, Failure> {
        let open = board::open(&self.office, queue).await?;
        let mut cards: BTreeMap<String, TaskCard> = open
            .into_iter()
            .map(|card| (card.id.clone(), card))
            .collect();
        for (id, shown) in &self.tasks {
            if shown.queue == queue && shown.is_open() && !cards.contains_key(id) {
                let ended = board::find(&self.office, id).await?;
                cards.extend(ended.map(|card| (id.clone(), card)));
            }
        }
        Ok(cards.into_values().collect())
    }

    fn show_one(&mut self, place: &SpoolDir, card: &TaskCard) -> std::io::Result<()> {
        let own = format!("{}.json", card.id);
        let shown = self.tasks.get(&card.id).cloned();
        let mut shown =
            shown.unwrap_or_else(|| ShownTask::new(&card.queue, own.as_ref(), None, None));
        let lies_there = place.has(&shown.file);
        if shown.says(card) && lies_there {
            return Ok(());
        }
        if lies_there && !self.is_as_seen(place, card, &shown) {
            // Somebody has written to it; it is looked at first.
            return Ok(());
        }
        let now = self.office.now();
        if card.standing == TaskStatus::InProgress && shown.started.is_none() {
            shown.started = Some(now);
        }
        self.draw(place, card, &shown, now)?;
        self.tell(card, &shown, now);
        self.unlock(card)?;
        if card.standing == TaskStatus::Completed {
            self.tasks.remove(&card.id);
            return Ok(());
        }
        shown.standing = Some(card.standing);
        shown.agent.clone_from(&card.agent);
        self.tasks.insert(card.id.clone(), shown);
        Ok(())
    }

    /// Nothing has changed in the file since it was looked at.
    fn is_as_seen(&self, place: &SpoolDir, card: &TaskCard, shown: &ShownTask) -> bool {
        let at = (card.queue.clone(), shown.file.clone());
        match self.files.get(&at) {
            Some(SpoolFileState::Task(print)) => place.print(&shown.file) == Some(*print),
            _ => false,
        }
    }

    /// A lock is there before the file says so.
    fn draw(
        &mut self,
        place: &SpoolDir,
        card: &TaskCard,
        shown: &ShownTask,
        now: Time,
    ) -> std::io::Result<()> {
        let ended = !card.standing.is_open();
        let times = TaskTimes {
            started_at: shown.started.map(Time::iso),
            completed_at: ended.then(|| now.iso()),
        };
        if card.standing == TaskStatus::InProgress {
            let lock = task::lock(card);
            self.parts.locks.write(lock_of(card).as_ref(), &lock)?;
        }
        let text = task::written(card, &times);
        if card.standing == TaskStatus::Completed {
            let done = self.parts.completed.enter(&card.queue)?;
            done.write(&shown.file, &text)?;
            place.remove(&shown.file)?;
        } else {
            place.write(&shown.file, &text)?;
            let print = place.print(&shown.file);
            let at = (card.queue.clone(), shown.file.clone());
            self.files
                .extend(print.map(|print| (at, SpoolFileState::Task(print))));
        }
        Ok(())
    }

    /// The lock goes last: whoever waits for that finds the file moved and the log written.
    fn unlock(&self, card: &TaskCard) -> std::io::Result<()> {
        if card.standing == TaskStatus::InProgress {
            return Ok(());
        }
        self.parts.locks.remove(lock_of(card).as_ref())
    }

    fn tell(&self, card: &TaskCard, shown: &ShownTask, now: Time) {
        let agent = card.agent.as_deref().or(shown.agent.as_deref());
        let agent = agent.unwrap_or(&card.queue);
        let took = shown.started.map(|began| now.0 - began.0);
        let (level, text) = match card.standing {
            TaskStatus::InProgress => ("INFO", logs::starting(&card.body)),
            TaskStatus::Completed => ("INFO", logs::ended(&card.body, "completed", took)),
            TaskStatus::Failed => {
                let why = card.error.as_deref().unwrap_or("it was given up");
                (
                    "ERROR",
                    logs::ended(&card.body, &format!("failed: {why}"), None),
                )
            }
            TaskStatus::Cancelled => ("WARNING", logs::ended(&card.body, "cancelled", None)),
            TaskStatus::Pending => return,
        };
        self.log_task(&card.queue, level, agent, &card.body, &text);
    }
}

fn lock_of(card: &TaskCard) -> String {
    format!("{}.lock", card.id)
}
