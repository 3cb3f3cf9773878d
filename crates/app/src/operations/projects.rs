//! The workshops of a worker: one for each repository and base branch, furnished when a ticket of it
//! comes up, and anew when its base may have moved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::carrier::{RepoSync, SyncMethod, follow};
use engine::coordinator::{Offer, WorkItem};
use engine::git::{CommitIdentity, GitProgram, Remote, remove_tree};
use engine::worker::Projects;
use engine::workshop::{Project, TicketFiles};
use flow::Ticket;
use flow::ticket::TicketContext;
use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::project::{ProjectLoader, ProjectOptions, furnish_for, git_tool};
use crate::failure::Failure;

/// For so long a base branch's rules are taken as read.
const FRESH: Duration = Duration::from_secs(5);
/// For so long a base branch that came through the database is the newest.
const PACKED_FRESH: Duration = Duration::from_secs(60);
/// More repositories than this are furnished again each time.
const SHOPS_MAX: usize = 1000;

/// The base branch of a repository that we made.
const OWN_BASE: &str = "main";

type Key = (String, Option<String>);

/// How a worker gets at repositories that are not on its machine.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// By repository, as this machine's own person names them.
    pub remotes: BTreeMap<String, Remote>,
    /// Landed commits are pushed to the remote's base branch.
    pub lands: bool,
    /// Repositories of this machine are not used; those that tickets name are elsewhere.
    pub elsewhere: bool,
}

#[derive(Debug)]
pub struct LoadedProjects {
    /// The name on leases of the worker that it loads for.
    name: String,
    loader: ProjectLoader,
    asked: ProjectOptions,
    reach: Reach,
    /// Hears why a ticket cannot be worked on here.
    complaints: Option<Sender<String>>,
    shops: Mutex<BTreeMap<Key, (Instant, Arc<Project>)>>,
    told: Mutex<BTreeMap<Key, String>>,
    followed: Mutex<BTreeMap<PathBuf, Instant>>,
}

impl LoadedProjects {
    pub fn new(name: &str, loader: ProjectLoader, asked: ProjectOptions) -> Self {
        Self {
            name: name.to_owned(),
            loader,
            asked,
            reach: Reach::default(),
            complaints: None,
            shops: Mutex::default(),
            told: Mutex::default(),
            followed: Mutex::default(),
        }
    }

    #[must_use]
    pub fn reaching(mut self, reach: Reach, complaints: Sender<String>) -> Self {
        self.reach = reach;
        self.complaints = Some(complaints);
        self
    }

    /// The workshop of the ticket's repository, with all in it that its next job rests on.
    async fn ready_for(&self, key: &Key, offer: &Offer) -> Result<Arc<Project>, Failure> {
        let shop = self.furnished(key, offer).await?;
        if let Some(carrier) = &shop.carrier {
            let coordinator = &*shop.coordinator;
            carrier.bring(coordinator, &shop.git, &offer.ticket).await?;
        }
        Ok(shop)
    }

    async fn furnished(&self, key: &Key, offer: &Offer) -> Result<Arc<Project>, Failure> {
        let mut shops = self.shops.lock().await;
        if let Some((since, shop)) = shops.get(key)
            && since.elapsed() < FRESH
        {
            return Ok(Arc::clone(shop));
        }
        let shop = self.furnish(key, offer).await?;
        if shops.len() >= SHOPS_MAX {
            shops.clear();
        }
        shops.insert(key.clone(), (Instant::now(), Arc::clone(&shop)));
        Ok(shop)
    }

    async fn furnish(&self, key: &Key, offer: &Offer) -> Result<Arc<Project>, Failure> {
        let asked = ProjectOptions {
            base: key.1.clone(),
            ..self.asked.clone()
        };
        let (place, carrier) = self.place(key, &offer.ticket.spec.context).await?;
        let with = (carrier, offer.rules.clone());
        let furnished = furnish_for(&self.loader, &place, &asked, with).await?;
        Ok(furnished.shop)
    }

    /// The repository itself where it is here; else a copy of it, brought up to date.
    async fn place(
        &self,
        (repository, base): &Key,
        context: &TicketContext,
    ) -> Result<(PathBuf, Option<RepoSync>), Failure> {
        let named = self.reach.remotes.get(repository).cloned();
        let told = context.remote.as_deref().map(Remote::parse).transpose();
        let told = told.map_err(Failure::usage)?;
        let here = Path::new(repository);
        let carrier = |remote: Option<Remote>, is_copy: bool| RepoSync {
            lands: is_copy && self.reach.lands && remote.is_some(),
            way: remote.map_or(SyncMethod::Parcels, SyncMethod::Remote),
            repository: repository.clone(),
            is_copy,
        };
        if named.is_none() && here.is_dir() && !self.reach.elsewhere {
            return Ok((here.to_owned(), Some(carrier(told, false))));
        }
        let base = base.as_deref().ok_or_else(|| {
            Failure::usage("it is not on this machine, and its ticket names no base branch")
        })?;
        let surroundings = &self.loader.surroundings;
        let name = engine::hash::short(repository.as_bytes());
        let copy = surroundings.data_dir.join("repositories").join(name);
        let tool = git_tool(surroundings, &surroundings.data_dir)?;
        let remote = named.or(told);
        match &remote {
            Some(remote) => tool
                .follow(remote, base, &copy)
                .await
                .map_err(Failure::error)?,
            None => self.follow(&tool, (repository, base), &copy).await?,
        }
        Ok((copy, Some(carrier(remote, true))))
    }

    /// A repository of its own for a task that belongs to none: an empty directory with a history.
    async fn own(&self, task: &Ticket) -> Result<Arc<Project>, Failure> {
        let surroundings = &self.loader.surroundings;
        let place = TicketFiles::of(&surroundings.data_dir, &task.id).repository();
        if !place.is_dir() {
            self.make(&place).await?;
        }
        let with = (None, Vec::new());
        let furnished = furnish_for(&self.loader, &place, &self.asked, with).await?;
        Ok(furnished.shop)
    }

    /// Whole or not at all; others may be making the same.
    async fn make(&self, place: &Path) -> Result<(), Failure> {
        let ours = engine::hash::short(self.name.as_bytes());
        let aside = place.with_extension(format!("{ours}.part"));
        remove_tree(&aside).map_err(Failure::error)?;
        engine::private::make_dir(&aside).map_err(Failure::error)?;
        let tool = git_tool(&self.loader.surroundings, &aside)?;
        let (identity, message) = (
            CommitIdentity::countersign(),
            "An empty directory for a task",
        );
        let made = tool.create(&aside, OWN_BASE, &identity, message).await;
        made.map_err(Failure::error)?;
        match std::fs::rename(&aside, place) {
            Err(_) if place.is_dir() => remove_tree(&aside).map_err(Failure::error),
            renamed => renamed.map_err(Failure::error),
        }
    }

    /// Through the database: somebody packs the whole of it each time that we ask.
    async fn follow(
        &self,
        tool: &GitProgram,
        of: (&str, &str),
        copy: &Path,
    ) -> Result<(), Failure> {
        let mut followed = self.followed.lock().await;
        let recent = |since: &Instant| since.elapsed() < PACKED_FRESH;
        if !followed.get(copy).is_some_and(recent) {
            follow(&*self.loader.coordinator, tool, of, copy).await?;
            followed.insert(copy.to_owned(), Instant::now());
        }
        Ok(())
    }

    /// Once for each repository and reason.
    async fn complain(&self, key: Key, failure: &Failure) {
        let Some(complaints) = &self.complaints else {
            return;
        };
        let said = format!("{} is not worked on here: {failure}", key.0);
        let mut told = self.told.lock().await;
        if told.get(&key) != Some(&said) && told.len() < SHOPS_MAX {
            // Nobody may be listening any more.
            let _ = complaints.try_send(said.clone());
            told.insert(key, said);
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
            (None, WorkItem::Task(_)) => ((id.to_string(), None), self.own(&offer.ticket).await),
            (None, WorkItem::Ticket(_)) => {
                let nowhere = Failure::usage("it belongs to no repository; add it in one");
                ((id.to_string(), None), Err(nowhere))
            }
        };
        match loaded {
            Ok(shop) => Some(shop),
            Err(failure) => {
                self.complain(key, &failure).await;
                None
            }
        }
    }
}
