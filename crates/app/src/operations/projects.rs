//! The projects of a worker: one for each repository and base branch. A project is loaded when a
//! ticket of it is offered, and again when its base branch may have moved.
//!
//! Rules, checks and policy are read from the base branch, so an old copy of it would be an old
//! policy. Hence the short time for which a project is kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::coordinator::{Offer, WorkItem};
use engine::git::{CommitIdentity, GitProgram, Remote, remove_tree};
use engine::project::{Project, TicketFiles};
use engine::repo_sync::{RepoSync, SyncMethod, fetch_base_bundle};
use engine::worker::Projects;
use flow::Ticket;
use flow::ticket::TicketContext;
use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::project::{ProjectLoader, ProjectOptions, git_tool, load_project_for};
use crate::failure::Failure;

/// Time for which the rules of a base branch are not read again.
/// Long enough for a burst of offers, short enough that a pushed rule counts for the next job.
const RULES_TTL: Duration = Duration::from_secs(5);
/// Time for which a base branch that came through the database counts as current. Longer than
/// `FRESH`, because each request makes the other side bundle the whole branch.
const COPY_TTL: Duration = Duration::from_secs(60);
/// Maximum number of cached projects; the cache is cleared when it is full.
const PROJECTS_MAX: usize = 1000;

/// Base branch of a repository that Countersign creates for a task.
const TASK_BASE_BRANCH: &str = "main";

type Key = (String, Option<String>);

/// Access of a worker to repositories that are not on its machine.
#[derive(Clone, Debug, Default)]
pub struct RepositoryAccess {
    /// Remotes by repository, as configured on this machine. They win over the ticket's own remote.
    pub remotes: BTreeMap<String, Remote>,
    /// Pushes landed commits to the remote's base branch.
    pub lands: bool,
    /// True if the tickets name repositories of another machine, so that equal paths here are
    /// ignored.
    pub elsewhere: bool,
}

/// Cache of the projects that a worker has loaded.
#[derive(Debug)]
pub struct LoadedProjects {
    /// Name on the leases of the worker.
    name: String,
    loader: ProjectLoader,
    options: ProjectOptions,
    access: RepositoryAccess,
    /// Receives the reason why a ticket cannot be worked on here.
    complaints: Option<Sender<String>>,
    projects: Mutex<BTreeMap<Key, (Instant, Arc<Project>)>>,
    reported: Mutex<BTreeMap<Key, String>>,
    followed: Mutex<BTreeMap<PathBuf, Instant>>,
}

impl LoadedProjects {
    pub fn new(name: &str, loader: ProjectLoader, options: ProjectOptions) -> Self {
        Self {
            name: name.to_owned(),
            loader,
            options,
            access: RepositoryAccess::default(),
            complaints: None,
            projects: Mutex::default(),
            reported: Mutex::default(),
            followed: Mutex::default(),
        }
    }

    /// Sets the access to remote repositories and the receiver of complaints.
    #[must_use]
    pub fn with_access(mut self, reach: RepositoryAccess, complaints: Sender<String>) -> Self {
        self.access = reach;
        self.complaints = Some(complaints);
        self
    }

    /// Loads the project of the ticket's repository and brings the commits that its next job needs.
    async fn ready_for(&self, key: &Key, offer: &Offer) -> Result<Arc<Project>, Failure> {
        let project = self.cached_project(key, offer).await?;
        // The commits are brought before the claim is worked on, so that the lease does not run
        // while they travel.
        if let Some(sync) = &project.repo_sync {
            let coordinator = &*project.coordinator;
            sync.fetch_for_job(coordinator, &project.git, &offer.ticket)
                .await?;
        }
        Ok(project)
    }

    async fn cached_project(&self, key: &Key, offer: &Offer) -> Result<Arc<Project>, Failure> {
        // Held during the load: a second offer of the same repository would load it twice.
        let mut cached = self.projects.lock().await;
        if let Some((since, project)) = cached.get(key)
            && since.elapsed() < RULES_TTL
        {
            return Ok(Arc::clone(project));
        }
        let project = self.load_uncached(key, offer).await?;
        // Cleared as a whole: an entry costs one load, and no order has to be kept.
        if cached.len() >= PROJECTS_MAX {
            cached.clear();
        }
        cached.insert(key.clone(), (Instant::now(), Arc::clone(&project)));
        Ok(project)
    }

    async fn load_uncached(&self, key: &Key, offer: &Offer) -> Result<Arc<Project>, Failure> {
        let options = ProjectOptions {
            base: key.1.clone(),
            ..self.options.clone()
        };
        let (path, sync) = self
            .locate_repository(key, &offer.ticket.spec.context)
            .await?;
        let with = (sync, offer.rules.clone());
        let loaded = load_project_for(&self.loader, &path, &options, with).await?;
        Ok(loaded.project)
    }

    /// Returns the repository itself if it is on this machine, else an updated copy of it.
    async fn locate_repository(
        &self,
        (repository, base): &Key,
        context: &TicketContext,
    ) -> Result<(PathBuf, Option<RepoSync>), Failure> {
        let configured = self.access.remotes.get(repository).cloned();
        let from_ticket = context.remote.as_deref().map(Remote::parse).transpose();
        let from_ticket = from_ticket.map_err(Failure::usage)?;
        let path = Path::new(repository);
        let sync_with = |remote: Option<Remote>, is_copy: bool| RepoSync {
            pushes_base_branch: is_copy && self.access.lands && remote.is_some(),
            method: remote.map_or(SyncMethod::Bundles, SyncMethod::Remote),
            repository: repository.clone(),
            is_copy,
        };
        // With `elsewhere` an equal path on this machine may be another repository.
        if configured.is_none() && path.is_dir() && !self.access.elsewhere {
            return Ok((path.to_owned(), Some(sync_with(from_ticket, false))));
        }
        let base = base.as_deref().ok_or_else(|| {
            Failure::usage("it is not on this machine, and its ticket has no base branch")
        })?;
        let environment = &self.loader.environment;
        // A hash, because the name is a path or an address.
        let name = engine::hash::short_sha256(repository.as_bytes());
        let copy = environment.data_dir.join("repositories").join(name);
        let git = git_tool(environment, &environment.data_dir)?;
        let remote = configured.or(from_ticket);
        match &remote {
            Some(remote) => git
                .fetch_into_bare(remote, base, &copy)
                .await
                .map_err(Failure::error)?,
            None => self.update_copy(&git, (repository, base), &copy).await?,
        }
        Ok((copy, Some(sync_with(remote, true))))
    }

    /// Loads a repository of its own for a task that belongs to none: an empty directory with one
    /// commit.
    async fn load_task_repository(&self, task: &Ticket) -> Result<Arc<Project>, Failure> {
        let environment = &self.loader.environment;
        let path = TicketFiles::new(&environment.data_dir, &task.id).repository_dir();
        if !path.is_dir() {
            self.create_repository(&path).await?;
        }
        let with = (None, Vec::new());
        let loaded = load_project_for(&self.loader, &path, &self.options, with).await?;
        Ok(loaded.project)
    }

    /// Creates the repository under a temporary name and renames it, because other replicas may
    /// create the same one.
    async fn create_repository(&self, path: &Path) -> Result<(), Failure> {
        let suffix = engine::hash::short_sha256(self.name.as_bytes());
        let part = path.with_extension(format!("{suffix}.part"));
        remove_tree(&part).map_err(Failure::error)?;
        engine::private_files::make_dir(&part).map_err(Failure::error)?;
        let git = git_tool(&self.loader.environment, &part)?;
        let (identity, message) = (
            CommitIdentity::countersign(),
            "An empty directory for a task",
        );
        let created = git
            .create_repository(&part, TASK_BASE_BRANCH, &identity, message)
            .await;
        created.map_err(Failure::error)?;
        // The loser of the race removes its part. Both repositories are equal.
        match std::fs::rename(&part, path) {
            Err(_) if path.is_dir() => remove_tree(&part).map_err(Failure::error),
            renamed => renamed.map_err(Failure::error),
        }
    }

    /// Updates a copy through the database. Another process bundles the whole branch for each
    /// request, so recent copies are not updated again.
    async fn update_copy(
        &self,
        git: &GitProgram,
        branch: (&str, &str),
        copy: &Path,
    ) -> Result<(), Failure> {
        let mut followed = self.followed.lock().await;
        let recent = |since: &Instant| since.elapsed() < COPY_TTL;
        if !followed.get(copy).is_some_and(recent) {
            fetch_base_bundle(&*self.loader.coordinator, git, branch, copy).await?;
            followed.insert(copy.to_owned(), Instant::now());
        }
        Ok(())
    }

    /// Reports a failure once for each repository and reason.
    async fn report_failure(&self, key: Key, failure: &Failure) {
        let Some(complaints) = &self.complaints else {
            return;
        };
        let message = format!("{} is skipped by this worker: {failure}", key.0);
        let mut reported = self.reported.lock().await;
        if reported.get(&key) != Some(&message) && reported.len() < PROJECTS_MAX {
            // The receiver may be gone.
            // A full channel or a closed one loses a message, and not the work.
            let _ = complaints.try_send(message.clone());
            reported.insert(key, message);
        }
    }
}

#[async_trait]
impl Projects for LoadedProjects {
    async fn load(&self, offer: &Offer) -> Option<Arc<Project>> {
        let (id, context) = (&offer.ticket.id, &offer.ticket.spec.context);
        let (key, loaded) = match (&context.repository, &offer.of) {
            (Some(repository), _) => {
                let key = (repository.clone(), context.base_branch.clone());
                let loaded = self.ready_for(&key, offer).await;
                (key, loaded)
            }
            (None, WorkItem::Task(_)) => (
                (id.to_string(), None),
                self.load_task_repository(&offer.ticket).await,
            ),
            (None, WorkItem::Ticket(_)) => {
                let nowhere =
                    Failure::usage("the ticket belongs to no repository; add it from inside one");
                ((id.to_string(), None), Err(nowhere))
            }
        };
        match loaded {
            Ok(project) => Some(project),
            Err(failure) => {
                self.report_failure(key, &failure).await;
                None
            }
        }
    }
}
