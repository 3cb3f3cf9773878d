//! Landing: a branch moves from one commit to another, and with it the index and the files of every
//! work tree that has the branch checked out. All of it happens, or nothing.
//!
//! One landing at a time in a repository, whoever does it. The order is: new files lie ready and are
//! on disk; a journal says what is to come; git's lock on the index; files; index; last the branch,
//! by compare and swap. So at no instant are a person's index or files behind the branch, where
//! their next commit would undo what has landed. Whatever stops us before the branch has moved is
//! undone, here or by the next landing that finds the journal; after it, only our own files are left
//! to remove.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lock::RepositoryLock;
use super::places::Tree;
use super::remove::remove_tree;
use super::state::sync;
use super::{Error, Oid, Repository, WorkTreeDirs};

mod changes;
mod files;
mod index;
mod journal;

use crate::log::LogErr;
use changes::TreeChange;
use files::{FileStep, FileStepError, StagedWorkTree};
use index::IndexFiles;
use journal::LandingJournal;

pub(super) use journal::write_durably;

/// A directory of ours in a git directory.
const STAGE: &str = "countersign-landing";
/// The same in a work tree, where the git directory is on another file system.
const STAGE_BESIDE: &str = ".countersign-landing";

/// How long we wait for others.
#[derive(Clone, Copy, Debug)]
pub(super) struct LandingTimeouts {
    /// For another landing.
    landing: Duration,
    /// For whoever has the index locked: an editor with a commit message may be open.
    index: Duration,
    /// For a work tree that is in the way: a person's commit or switch may be half way.
    held: Duration,
}

impl LandingTimeouts {
    const USUAL: Self = Self {
        landing: Duration::from_secs(600),
        index: Duration::from_secs(180),
        held: Duration::from_secs(3),
    };
}

const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often the branch is tried while somebody else has its lock.
const SWAPS_MAX: u32 = 50;

/// The outcome of landing a commit on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingOutcome {
    /// The branch is there; `forwarded` are the work trees that went with it.
    Done { forwarded: Vec<PathBuf> },
    /// The branch is no longer where the combination was made; make it again.
    Moved { to: Option<Oid> },
    /// A work tree on the branch has changes in the way, or an operation waits in it; nothing was
    /// changed.
    Held { work_tree: PathBuf, why: String },
}

/// What a landing does in one work tree.
#[derive(Debug)]
struct WorkTreePlan {
    place: WorkTreeDirs,
    stage: PathBuf,
    steps: Vec<FileStep>,
    outside: Vec<PathBuf>,
    submodules: Vec<PathBuf>,
}

impl WorkTreePlan {
    fn site(&self) -> StagedWorkTree<'_> {
        StagedWorkTree {
            root: &self.place.path,
            stage: &self.stage,
        }
    }

    fn index_files(&self) -> IndexFiles {
        IndexFiles::of(&self.place.git_dir)
    }

    fn held(&self, why: impl Into<String>) -> LandingOutcome {
        LandingOutcome::Held {
            work_tree: self.place.path.clone(),
            why: why.into(),
        }
    }

    fn apply(&self) -> Result<Option<LandingOutcome>, Error> {
        for (number, step) in self.steps.iter().enumerate() {
            match step.apply(self.site(), number) {
                Ok(()) => {}
                Err(FileStepError::Disturbed) => {
                    let path = step.path.display();
                    return Ok(Some(self.held(format!("{path} there is being changed"))));
                }
                Err(FileStepError::Failed(error)) => {
                    return Err(Error::file(&self.place.path.join(&step.path))(error));
                }
            }
        }
        for path in &self.submodules {
            // Git makes a place for a submodule, and goes on where it cannot.
            let made = fs::create_dir_all(self.place.path.join(path));
            made.log_err("make the directory of a submodule");
        }
        Ok(None)
    }

    fn undo(&self) -> Result<(), Error> {
        self.index_files().restore()?;
        for (number, step) in self.steps.iter().enumerate().rev() {
            let full = self.place.path.join(&step.path);
            step.undo(self.site(), number).map_err(Error::file(&full))?;
        }
        Ok(())
    }

    fn clean_up(&self) -> Result<(), Error> {
        self.index_files().clean_up()?;
        remove_tree(&self.stage).map_err(Error::file(&self.stage))
    }
}

impl Repository {
    /// Moves a branch from `old` to `new`, if it still is at `old`, with every work tree on it.
    ///
    /// What a person has changed in other files stays as it is; a change of theirs in the same
    /// files, or a new file where the commit has one, keeps the branch where it is.
    pub async fn land(&self, branch: &str, new: &Oid, old: &Oid) -> Result<LandingOutcome, Error> {
        self.land_within(branch, new, old, LandingTimeouts::USUAL)
            .await
    }

    pub(super) async fn land_within(
        &self,
        branch: &str,
        new: &Oid,
        old: &Oid,
        patience: LandingTimeouts,
    ) -> Result<LandingOutcome, Error> {
        let branch = &self.real_branch(branch).await?;
        let _lock = self.landing_lock(patience).await?;
        self.recover(patience).await?;
        let until = Instant::now() + patience.held;
        loop {
            match self.try_to_land(branch, new, old, patience).await? {
                LandingOutcome::Held { .. } if Instant::now() < until => sleep(LOOK_AGAIN).await,
                landed => return Ok(landed),
            }
        }
    }

    /// Finishes or undoes a landing that was killed. Waits for one that is under way.
    pub async fn recover_landing(&self) -> Result<(), Error> {
        if !self.has_journal() {
            return Ok(());
        }
        let _lock = self.landing_lock(LandingTimeouts::USUAL).await?;
        self.recover(LandingTimeouts::USUAL).await
    }

    /// What differs from HEAD in the person's own work tree, seen while nobody lands.
    pub async fn dirty_at_rest(&self) -> Result<Vec<String>, Error> {
        self.recover_landing().await?;
        let dirty = self.dirty().await?;
        if dirty.is_empty() {
            return Ok(dirty);
        }
        let _lock = self.landing_lock(LandingTimeouts::USUAL).await?;
        self.recover(LandingTimeouts::USUAL).await?;
        self.dirty().await
    }

    async fn landing_lock(&self, patience: LandingTimeouts) -> Result<RepositoryLock, Error> {
        let path = self.common.join("countersign-landing.lock");
        RepositoryLock::take_within(&path, patience.landing).await
    }

    async fn try_to_land(
        &self,
        branch: &str,
        new: &Oid,
        old: &Oid,
        patience: LandingTimeouts,
    ) -> Result<LandingOutcome, Error> {
        let tip = self.branch(branch).await?;
        let places = match self.places_on(branch).await? {
            Ok(places) => places,
            Err((work_tree, why)) => return Ok(LandingOutcome::Held { work_tree, why }),
        };
        if tip.as_ref() == Some(new) {
            let forwarded = places.into_iter().map(|place| place.path).collect();
            return Ok(LandingOutcome::Done { forwarded });
        }
        if tip.as_ref() != Some(old) {
            return Ok(LandingOutcome::Moved { to: tip });
        }
        if let Some(held) = self.is_being_rebased(branch).await? {
            return Ok(held);
        }
        let plans = match self.plan(places, old, new).await? {
            Ok(plans) => plans,
            Err(held) => return Ok(held),
        };
        let journal = LandingJournal::new(branch, old, new, &plans);
        if !plans.is_empty() {
            self.write_journal(&journal)?;
        }
        let outcome = self.carry_out(&journal, &plans, patience).await;
        if self.settle(&journal, &plans).await? {
            let forwarded = plans.into_iter().map(|plan| plan.place.path).collect();
            return Ok(LandingOutcome::Done { forwarded });
        }
        outcome
    }

    /// Looks at every work tree and lays the new files ready, without a lock; all of it is on disk
    /// when this returns.
    async fn plan(
        &self,
        places: Vec<WorkTreeDirs>,
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<Vec<WorkTreePlan>, LandingOutcome>, Error> {
        let mut plans = Vec::new();
        if !places.is_empty() {
            let changes = self.tree_changes(old, new).await?;
            for place in places {
                match self.plan_for(place, &changes, old, new).await? {
                    Ok(plan) => plans.push(plan),
                    Err(held) => {
                        for plan in &plans {
                            plan.clean_up()?;
                        }
                        return Ok(Err(held));
                    }
                }
            }
        }
        let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
        let mut synced = vec![device(&self.common)];
        sync(&self.common).await?;
        for plan in &plans {
            let on = device(&plan.stage);
            if !synced.contains(&on) {
                sync(&plan.stage).await?;
                synced.push(on);
            }
        }
        Ok(Ok(plans))
    }

    async fn plan_for(
        &self,
        place: WorkTreeDirs,
        changes: &[TreeChange],
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<WorkTreePlan, LandingOutcome>, Error> {
        if let Some(what) = super::state::unfinished_in(&place.git_dir) {
            return Ok(Err(LandingOutcome::Held {
                work_tree: place.path,
                why: format!("a {what} waits to be finished there"),
            }));
        }
        self.refuse_commands(Some(&place)).await?;
        let mut plan = WorkTreePlan {
            stage: make_stage(&place)?,
            place,
            steps: Vec::new(),
            outside: Vec::new(),
            submodules: changes
                .iter()
                .filter(|change| change.is_new_submodule())
                .map(|change| change.path.clone())
                .collect(),
        };
        match self.lay_ready(&mut plan, changes, old, new).await {
            Ok(Ok(())) => Ok(Ok(plan)),
            Ok(Err(why)) => {
                plan.clean_up()?;
                Ok(Err(plan.held(why)))
            }
            Err(error) => {
                plan.clean_up()?;
                Err(error)
            }
        }
    }

    /// Lays the new files into the stage, as git writes them for this work tree, and finds out what
    /// there is to do; the inner error says what is in the way.
    async fn lay_ready(
        &self,
        plan: &mut WorkTreePlan,
        changes: &[TreeChange],
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<(), String>, Error> {
        plan.index_files().start_empty()?;
        let next = plan.stage.join("index");
        // In an empty work tree nothing is in git's way, and what it writes is what has changed:
        // with line ends, modes and a sparse checkout as the person has them.
        let empty = WorkTreeDirs {
            git_dir: plan.place.git_dir.clone(),
            path: plan.stage.join("new"),
        };
        if let Err(why) = self
            .two_way(plan, &next, (&empty, "-u"), [old, new])
            .await?
        {
            return Ok(Err(why));
        }
        let survey = match self.survey(&plan.place, changes, &next).await? {
            Ok(survey) => survey,
            Err(why) => return Ok(Err(why)),
        };
        (plan.steps, plan.outside) = (survey.steps, survey.outside);
        let site = StagedWorkTree {
            root: &plan.place.path,
            stage: &plan.stage,
        };
        for step in plan.steps.iter_mut().filter(|step| step.puts()) {
            if !step.is_ready(site) {
                let path = step.path.display();
                return Ok(Err(format!("{path} there is staged and not committed")));
            }
        }
        Ok(Ok(()))
    }

    /// Everything that can be seen from outside. Whatever it returns, the branch says what became
    /// of it.
    async fn carry_out(
        &self,
        journal: &LandingJournal,
        plans: &[WorkTreePlan],
        patience: LandingTimeouts,
    ) -> Result<LandingOutcome, Error> {
        let (branch, old, new) = (&journal.branch, &journal.old, &journal.new);
        for plan in plans {
            plan.index_files().lock(patience.index).await?;
            if !self.is_on(&plan.place, branch, old).await? {
                return Ok(plan.held(format!("it left {branch} while a change was landing")));
            }
            if let Err(why) = self.next_index(plan, old, new).await? {
                return Ok(plan.held(why));
            }
        }
        for plan in plans {
            if let Some(held) = plan.apply()? {
                return Ok(held);
            }
            self.refresh(plan).await?;
        }
        for plan in plans {
            // A switch sets HEAD after it has let go of the index.
            if !self.is_on(&plan.place, branch, old).await? {
                return Ok(plan.held(format!("it left {branch} while a change was landing")));
            }
            plan.index_files().replace()?;
        }
        self.swap_branch(branch, new, old).await
    }

    /// The compare and swap. A lock on the branch that somebody has for an instant is waited for.
    async fn swap_branch(
        &self,
        branch: &str,
        new: &Oid,
        old: &Oid,
    ) -> Result<LandingOutcome, Error> {
        let name = format!("refs/heads/{branch}");
        for _ in 0..SWAPS_MAX {
            self.unlock_shared_branch(branch).await?;
            let args = ["update-ref", "-m", "countersign: land", &name];
            let run = self.git().args(args).args([new.as_str(), old.as_str()]);
            if run.answers(&[1, 128]).said().await?.code == 0 {
                return Ok(LandingOutcome::Done {
                    forwarded: Vec::new(),
                });
            }
            let to = self.branch(branch).await?;
            if to.as_ref() != Some(old) {
                return Ok(LandingOutcome::Moved { to });
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(LandingOutcome::Moved {
            to: self.branch(branch).await?,
        })
    }

    async fn recover(&self, patience: LandingTimeouts) -> Result<(), Error> {
        match self.read_journal() {
            Some(journal) => {
                let (branch, old, new) = (
                    journal.branch.clone(),
                    journal.old.clone(),
                    journal.new.clone(),
                );
                let mut plans = journal.into_plans();
                plans.retain(|plan| plan.place.git_dir.is_dir() && plan.place.path.is_dir());
                for plan in &plans {
                    // Somebody may have taken our lock away and have one of their own.
                    plan.index_files().lock(patience.index).await?;
                }
                let journal = LandingJournal::new(&branch, &old, &new, &plans);
                self.settle(&journal, &plans).await.map(drop)
            }
            None => self.remove_journal(),
        }
    }

    /// Where the branch has arrived, the rest is done already; else all is put back. Returns whether
    /// it has.
    async fn settle(
        &self,
        journal: &LandingJournal,
        plans: &[WorkTreePlan],
    ) -> Result<bool, Error> {
        let arrived = self.has_arrived(&journal.branch, &journal.new).await?;
        if !arrived {
            for plan in plans {
                plan.undo()?;
            }
        }
        for plan in plans {
            plan.clean_up()?;
        }
        self.remove_journal()?;
        Ok(arrived)
    }

    async fn has_arrived(&self, branch: &str, new: &Oid) -> Result<bool, Error> {
        match self.branch(branch).await? {
            Some(tip) if tip == *new => Ok(true),
            Some(tip) => Ok(self.has_commit(new).await? && self.is_ancestor(new, &tip).await?),
            None => Ok(false),
        }
    }

    /// A rebase takes the branch off HEAD, and moves it at its end from where it was.
    async fn is_being_rebased(&self, branch: &str) -> Result<Option<LandingOutcome>, Error> {
        let name = format!("refs/heads/{branch}");
        let busy = self.git_dirs().into_iter().find(|dir| {
            ["rebase-merge/head-name", "rebase-apply/head-name"]
                .iter()
                .any(|file| {
                    fs::read_to_string(dir.join(file)).is_ok_and(|text| text.trim() == name)
                })
        });
        let Some(git_dir) = busy else { return Ok(None) };
        let work_tree = match self.work_tree_of(&git_dir, None).await? {
            Tree::At(path) => path,
            Tree::None | Tree::Unclear(_) => git_dir,
        };
        Ok(Some(LandingOutcome::Held {
            work_tree,
            why: format!("a rebase of {branch} waits to be finished there"),
        }))
    }
}

/// An empty directory on the file system of the work tree, so that a rename is enough.
fn make_stage(place: &WorkTreeDirs) -> Result<PathBuf, Error> {
    let device = |path: &Path| {
        let meta = fs::metadata(path).map_err(Error::file(path))?;
        Ok::<u64, Error>(meta.dev())
    };
    let near = device(&place.git_dir)? == device(&place.path)?;
    let stage = if near {
        place.git_dir.join(STAGE).join("stage")
    } else {
        place.path.join(STAGE_BESIDE)
    };
    remove_tree(&stage).map_err(Error::file(&stage))?;
    for dir in ["old", "new"] {
        let dir = stage.join(dir);
        fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    }
    if !near {
        let ignore = stage.join(".gitignore");
        fs::write(&ignore, "*\n").map_err(Error::file(&ignore))?;
    }
    Ok(stage)
}

/// Each ends with a NUL, as git takes them.
fn names<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<u8> {
    let mut names = Vec::new();
    for path in paths {
        names.extend_from_slice(path.as_os_str().as_bytes());
        names.push(0);
    }
    names
}

#[cfg(test)]
mod tests;
