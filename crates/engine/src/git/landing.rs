//! Lands a commit: moves a branch from one commit to another, together with index and files in
//! every work tree that has the branch checked out. All of it happens, or nothing.
//!
//! A repository has one landing at a time, across all processes. The order is: stage the new files
//! and sync them to disk; write a journal of the coming steps; take git's lock on the index;
//! exchange files; exchange the index; move the branch last, by compare and swap. So a user's index
//! and files are never behind the branch, where their next commit would undo the landed change. If
//! we are stopped before the branch has moved, everything is undone, here or by the next landing
//! that finds the journal. After that, only our own files remain to be removed.

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

/// Directory of ours in a git directory.
const STAGE: &str = "countersign-landing";
/// Directory of ours in a work tree, if the git directory is on another file system.
const STAGE_BESIDE: &str = ".countersign-landing";

/// Time limits for waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct LandingTimeouts {
    /// Maximum wait for another landing.
    landing: Duration,
    /// Maximum wait for a lock on the index: an editor with a commit message may be open.
    index: Duration,
    /// Maximum wait for a work tree that blocks the landing: a commit or switch of the user may be
    /// half done.
    blocked: Duration,
}

impl LandingTimeouts {
    const USUAL: Self = Self {
        // A landing of another process may itself wait for a user's index, so this is the longest
        // wait.
        landing: Duration::from_secs(600),
        index: Duration::from_secs(180),
        // A script of the user's, such as a commit hook, is often done within seconds.
        blocked: Duration::from_secs(3),
    };
}

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of attempts to move the branch while another process locks it. Git holds a ref's
/// lock for milliseconds; fifty attempts are five seconds.
const SWAPS_MAX: u32 = 50;

/// The outcome of landing a commit on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingOutcome {
    /// The branch has moved; `forwarded` lists the work trees that moved with it.
    Done { forwarded: Vec<PathBuf> },
    /// The branch has moved since the combination was made; make it again.
    Moved { to: Option<Oid> },
    /// A work tree on the branch has conflicting changes or an unfinished operation; nothing was
    /// changed.
    Blocked { work_tree: PathBuf, why: String },
}

/// Steps of a landing in one work tree.
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
        IndexFiles::in_git_dir(&self.place.git_dir)
    }

    fn held_outcome(&self, why: impl Into<String>) -> LandingOutcome {
        LandingOutcome::Blocked {
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
                    return Ok(Some(
                        self.held_outcome(format!("{path} there is being changed")),
                    ));
                }
                Err(FileStepError::Failed(error)) => {
                    return Err(Error::file(&self.place.path.join(&step.path))(error));
                }
            }
        }
        for path in &self.submodules {
            // Git creates a directory for a submodule, and continues if it cannot.
            let created = fs::create_dir_all(self.place.path.join(path));
            created.log_err("make the directory of a submodule");
        }
        Ok(None)
    }

    fn undo(&self) -> Result<(), Error> {
        // The index goes back first: its old entries describe the old files.
        self.index_files().restore()?;
        // In reverse order, because a later step may need a directory that an earlier one made.
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
    /// Moves a branch from `old` to `new`, if it is still at `old`, with every work tree on it.
    ///
    /// Changes of the user in other files stay as they are. A change in the same files, or a new
    /// file where the commit has one, blocks the landing.
    pub async fn land(&self, branch: &str, new: &Oid, old: &Oid) -> Result<LandingOutcome, Error> {
        self.land_within(branch, new, old, LandingTimeouts::USUAL)
            .await
    }

    pub(super) async fn land_within(
        &self,
        branch: &str,
        new: &Oid,
        old: &Oid,
        timeouts: LandingTimeouts,
    ) -> Result<LandingOutcome, Error> {
        // A symbolic ref must be resolved first, or the work trees on the real branch are not
        // found.
        let branch = &self.real_branch(branch).await?;
        let _lock = self.landing_lock(timeouts).await?;
        // A killed landing is cleared up before the new one looks at the files, which may be half
        // exchanged.
        self.recover(timeouts).await?;
        let until = Instant::now() + timeouts.blocked;
        loop {
            match self.try_to_land(branch, new, old, timeouts).await? {
                LandingOutcome::Blocked { .. } if Instant::now() < until => {
                    sleep(POLL_INTERVAL).await;
                }
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

    /// Returns the paths that differ from HEAD in the user's own work tree, at a moment without a
    /// landing.
    pub async fn dirty_between_landings(&self) -> Result<Vec<String>, Error> {
        // Without a landing in progress the first look is enough, and costs no lock.
        self.recover_landing().await?;
        let dirty = self.dirty().await?;
        if dirty.is_empty() {
            return Ok(dirty);
        }
        // A landing may have been under way during the first look, so its files looked changed.
        let _lock = self.landing_lock(LandingTimeouts::USUAL).await?;
        self.recover(LandingTimeouts::USUAL).await?;
        self.dirty().await
    }

    async fn landing_lock(&self, timeouts: LandingTimeouts) -> Result<RepositoryLock, Error> {
        let path = self.common.join("countersign-landing.lock");
        RepositoryLock::take_within(&path, timeouts.landing).await
    }

    /// Makes one attempt at a landing. If it fails half-way, everything is undone.
    async fn try_to_land(
        &self,
        branch: &str,
        new: &Oid,
        old: &Oid,
        timeouts: LandingTimeouts,
    ) -> Result<LandingOutcome, Error> {
        let tip = self.branch_tip(branch).await?;
        // The tip is read before the work trees: a tip that moves in between is caught by the swap.
        let places = match self.places_on(branch).await? {
            Ok(places) => places,
            Err((work_tree, why)) => return Ok(LandingOutcome::Blocked { work_tree, why }),
        };
        // We were killed after the branch had moved; the same call again is a success.
        if tip.as_ref() == Some(new) {
            let forwarded = places.into_iter().map(|place| place.path).collect();
            return Ok(LandingOutcome::Done { forwarded });
        }
        if tip.as_ref() != Some(old) {
            return Ok(LandingOutcome::Moved { to: tip });
        }
        if let Some(blocked) = self.rebase_in_progress(branch).await? {
            return Ok(blocked);
        }
        let plans = match self.plan_landing(places, old, new).await? {
            Ok(plans) => plans,
            Err(blocked) => return Ok(blocked),
        };
        let journal = LandingJournal::new(branch, old, new, &plans);
        // Without a work tree on the branch only the ref moves, which needs no undo.
        if !plans.is_empty() {
            self.write_journal(&journal)?;
        }
        let outcome = self.execute(&journal, &plans, timeouts).await;
        // The branch decides and not the error: a command may fail after it has done its work.
        if self.finish_or_undo(&journal, &plans).await? {
            let forwarded = plans.into_iter().map(|plan| plan.place.path).collect();
            return Ok(LandingOutcome::Done { forwarded });
        }
        outcome
    }

    /// Inspects every work tree and stages the new files, without a lock. Everything is on disk
    /// when this returns.
    async fn plan_landing(
        &self,
        places: Vec<WorkTreeDirs>,
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<Vec<WorkTreePlan>, LandingOutcome>, Error> {
        let mut plans = Vec::new();
        if !places.is_empty() {
            let changes = self.tree_changes(old, new).await?;
            for place in places {
                match self.plan_work_tree(place, &changes, old, new).await? {
                    Ok(plan) => plans.push(plan),
                    Err(blocked) => {
                        for plan in &plans {
                            plan.clean_up()?;
                        }
                        return Ok(Err(blocked));
                    }
                }
            }
        }
        // One sync per file system, because `syncfs` writes everything on it.
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

    /// Plans the landing in one work tree; the inner error says why it is blocked.
    async fn plan_work_tree(
        &self,
        place: WorkTreeDirs,
        changes: &[TreeChange],
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<WorkTreePlan, LandingOutcome>, Error> {
        // A merge or rebase of the user's keeps state that a moved branch would contradict.
        if let Some(what) = super::state::unfinished_in(&place.git_dir) {
            return Ok(Err(LandingOutcome::Blocked {
                work_tree: place.path,
                why: format!("a {what} is unfinished there"),
            }));
        }
        // The user's configuration may name filters or drivers that would run as programs here.
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
        match self.stage_files(&mut plan, changes, old, new).await {
            Ok(Ok(())) => Ok(Ok(plan)),
            Ok(Err(why)) => {
                // The staged files are ours, so a refusal must not leave them in the user's git
                // directory.
                plan.clean_up()?;
                Ok(Err(plan.held_outcome(why)))
            }
            Err(error) => {
                plan.clean_up()?;
                Err(error)
            }
        }
    }

    /// Stages the new files, as git writes them for this work tree, and computes the steps. The
    /// inner error says what is in the way.
    async fn stage_files(
        &self,
        plan: &mut WorkTreePlan,
        changes: &[TreeChange],
        old: &Oid,
        new: &Oid,
    ) -> Result<Result<(), String>, Error> {
        plan.index_files().start_empty()?;
        let next = plan.stage.join("index");
        // In an empty work tree nothing is in the way of git, and it writes exactly the changed
        // files: with line endings, modes and a sparse checkout as the user has them.
        let empty = WorkTreeDirs {
            git_dir: plan.place.git_dir.clone(),
            path: plan.stage.join("new"),
        };
        if let Err(why) = self
            .merge_index(plan, &next, (&empty, "-u"), [old, new])
            .await?
        {
            return Ok(Err(why));
        }
        let survey = match self.plan_file_steps(&plan.place, changes, &next).await? {
            Ok(survey) => survey,
            Err(why) => return Ok(Err(why)),
        };
        (plan.steps, plan.outside) = (survey.steps, survey.outside);
        let site = StagedWorkTree {
            root: &plan.place.path,
            stage: &plan.stage,
        };
        for step in plan.steps.iter_mut().filter(|step| step.has_new_version()) {
            if !step.record_staged(site) {
                let path = step.path.display();
                return Ok(Err(format!("{path} there is staged and not committed")));
            }
        }
        Ok(Ok(()))
    }

    /// Does everything that is visible from outside. Whatever it returns, the branch shows the
    /// outcome.
    async fn execute(
        &self,
        journal: &LandingJournal,
        plans: &[WorkTreePlan],
        timeouts: LandingTimeouts,
    ) -> Result<LandingOutcome, Error> {
        let (branch, old, new) = (&journal.branch, &journal.old, &journal.new);
        for plan in plans {
            // All index locks are taken before the first file is touched. Until they are released,
            // `git add` and `git commit` of the user's fail.
            plan.index_files().lock(timeouts.index).await?;
            if !self.is_on(&plan.place, branch, old).await? {
                return Ok(
                    plan.held_outcome(format!("it left {branch} while a change was landing"))
                );
            }
            // The final index is made under the lock, from the index as it is now.
            if let Err(why) = self.make_next_index(plan, old, new).await? {
                return Ok(plan.held_outcome(why));
            }
        }
        // Files before the index: if we are killed here, the journal restores them.
        for plan in plans {
            if let Some(blocked) = plan.apply()? {
                return Ok(blocked);
            }
            self.refresh_index(plan).await?;
        }
        for plan in plans {
            // `git switch` sets HEAD after it has released the index.
            if !self.is_on(&plan.place, branch, old).await? {
                return Ok(
                    plan.held_outcome(format!("it left {branch} while a change was landing"))
                );
            }
            plan.index_files().replace()?;
        }
        // The branch last. Before it nothing has landed, after it nothing is left to do.
        self.swap_branch(branch, new, old).await
    }

    /// Moves the branch by compare and swap. Retries while another process locks the branch for a
    /// moment.
    async fn swap_branch(
        &self,
        branch: &str,
        new: &Oid,
        old: &Oid,
    ) -> Result<LandingOutcome, Error> {
        let name = format!("refs/heads/{branch}");
        for _ in 0..SWAPS_MAX {
            // A killed git leaves its lock for ever, and every attempt would fail.
            self.unlock_shared_branch(branch).await?;
            let args = ["update-ref", "-m", "countersign: land", &name];
            let run = self.git().args(args).args([new.as_str(), old.as_str()]);
            if run.accept_codes(&[1, 128]).output().await?.code == 0 {
                return Ok(LandingOutcome::Done {
                    forwarded: Vec::new(),
                });
            }
            let to = self.branch_tip(branch).await?;
            // A failure with the branch unchanged was a lock; any other value means that we lost
            // the race.
            if to.as_ref() != Some(old) {
                return Ok(LandingOutcome::Moved { to });
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(LandingOutcome::Moved {
            to: self.branch_tip(branch).await?,
        })
    }

    async fn recover(&self, timeouts: LandingTimeouts) -> Result<(), Error> {
        match self.read_journal() {
            Some(journal) => {
                let (branch, old, new) = (
                    journal.branch.clone(),
                    journal.old.clone(),
                    journal.new.clone(),
                );
                let mut plans = journal.into_plans();
                // A work tree that the user has deleted since needs no repair.
                plans.retain(|plan| plan.place.git_dir.is_dir() && plan.place.path.is_dir());
                for plan in &plans {
                    // Someone may have removed our lock and taken their own.
                    plan.index_files().lock(timeouts.index).await?;
                }
                let journal = LandingJournal::new(&branch, &old, &new, &plans);
                self.finish_or_undo(&journal, &plans).await.map(drop)
            }
            // A journal that cannot be parsed was not written completely, so nothing had begun.
            None => self.remove_journal(),
        }
    }

    /// Finishes a landing: if the branch has moved, the rest is done already; otherwise everything
    /// is undone. Returns whether it has moved.
    async fn finish_or_undo(
        &self,
        journal: &LandingJournal,
        plans: &[WorkTreePlan],
    ) -> Result<bool, Error> {
        // An ancestor counts too: others may have committed on top before we could finish.
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

    /// Returns whether the branch contains the new commit.
    async fn has_arrived(&self, branch: &str, new: &Oid) -> Result<bool, Error> {
        match self.branch_tip(branch).await? {
            Some(tip) if tip == *new => Ok(true),
            Some(tip) => Ok(self.has_commit(new).await? && self.is_ancestor(new, &tip).await?),
            None => Ok(false),
        }
    }

    /// Returns `Held` if the branch is being rebased. A rebase detaches HEAD from the branch, and
    /// at its end moves the branch from its old commit.
    async fn rebase_in_progress(&self, branch: &str) -> Result<Option<LandingOutcome>, Error> {
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
        Ok(Some(LandingOutcome::Blocked {
            work_tree,
            why: format!("a rebase of {branch} is unfinished there"),
        }))
    }
}

/// Creates an empty directory on the file system of the work tree, so that a rename is enough.
fn make_stage(place: &WorkTreeDirs) -> Result<PathBuf, Error> {
    let device = |path: &Path| {
        let meta = fs::metadata(path).map_err(Error::file(path))?;
        Ok::<u64, Error>(meta.dev())
    };
    let same_device = device(&place.git_dir)? == device(&place.path)?;
    let stage = if same_device {
        place.git_dir.join(STAGE).join("stage")
    } else {
        place.path.join(STAGE_BESIDE)
    };
    // A stage left by a killed landing has another change's files in it.
    remove_tree(&stage).map_err(Error::file(&stage))?;
    for dir in ["old", "new"] {
        let dir = stage.join(dir);
        fs::create_dir_all(&dir).map_err(Error::file(&dir))?;
    }
    if !same_device {
        // Our directory must not appear as an untracked one in the user's `git status`.
        let ignore = stage.join(".gitignore");
        fs::write(&ignore, "*\n").map_err(Error::file(&ignore))?;
    }
    Ok(stage)
}

/// Joins paths, each with a NUL at its end, as git reads them.
fn nul_separated<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<u8> {
    let mut names = Vec::new();
    for path in paths {
        names.extend_from_slice(path.as_os_str().as_bytes());
        names.push(0);
    }
    names
}

#[cfg(test)]
mod tests;
