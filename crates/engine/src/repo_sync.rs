//! Synchronises a worker's repository with the one that all workers share: fetches the commits that
//! a ticket's job needs, and sends the resulting ones. Every commit has a ref named after its own
//! hash, below `refs/countersign/<ticket>/commits/`. The branch of the ticket is updated if that
//! needs no force, and a base branch only if the worker is configured to land there. Without a
//! remote, objects go through the store as bundles, and refs are created here from the ticket.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{EventKind, Ticket};
use store::{BUNDLE_BYTES_MAX, Page, StoredBundle, TicketQuery};
use tokio::sync::Semaphore;

use crate::coordinator::{Coordinator, Error as CoordinatorError, LocalCoordinator, Upload};
use crate::git::{Error, GitProgram, Oid, Remote, Repository};
use crate::jobs;
use crate::log::removed;

#[derive(Clone, Debug)]
pub struct RepoSync {
    pub method: SyncMethod,
    /// Name of the repository in tickets.
    pub repository: String,
    /// True if landed commits are pushed to the base branch of the remote.
    pub pushes_base_branch: bool,
    /// True if the repository is the worker's own copy, which follows the shared one.
    pub is_copy: bool,
}

#[derive(Clone, Debug)]
pub enum SyncMethod {
    Remote(Remote),
    /// Sends bundles through the store.
    Bundles,
}

/// Requests the base branch of a repository on another machine, and fetches the newest available
/// state.
pub async fn fetch_base_bundle(
    coordinator: &dyn Coordinator,
    tool: &GitProgram,
    (repository, base): (&str, &str),
    copy: &Path,
) -> Result<(), CoordinatorError> {
    let key = format!("base:{base}:{repository}");
    let bundle = coordinator.download(&key).await?;
    tool.ensure_empty_repository(base, copy)
        .await
        .map_err(git_error)?;
    let (git, name) = (tool.repository_at(copy), format!("refs/heads/{base}"));
    unpack_bundle(&git, bundle, &name).await
}

/// Packs the requested bundles of repositories on this machine, and returns their number.
pub async fn pack_requested_bundles(
    coordinator: &LocalCoordinator,
    tool: &GitProgram,
    data_dir: &Path,
) -> Result<usize, CoordinatorError> {
    let mut answered = 0;
    for key in coordinator.store.wanted_bundles(BUNDLES_PER_PASS).await? {
        if let Some(source) = find_requested_commit(coordinator, tool, &key).await? {
            pack_and_store(coordinator, source, data_dir, &key).await?;
            answered += 1;
        }
    }
    Ok(answered)
}

/// Requests one bundle, and packs it if its repository is here. An existing bundle that is still
/// the newest stays.
pub async fn pack_requested_bundle(
    coordinator: &LocalCoordinator,
    tool: &GitProgram,
    data_dir: &Path,
    key: &str,
) -> Result<(), CoordinatorError> {
    let Some(source) = find_requested_commit(coordinator, tool, key).await? else {
        return Ok(coordinator.store.want_bundle(key).await?);
    };
    // Many workers may request the same bundle; one packs it for all.
    let _permit = PACKERS.acquire().await;
    let existing = coordinator.store.bundle(key).await?;
    let is_newest =
        |existing: &StoredBundle| existing.tip == source.1.as_str() && existing.bytes.is_some();
    if existing.as_ref().is_some_and(is_newest) {
        return Ok(());
    }
    coordinator.store.want_bundle(key).await?;
    pack_and_store(coordinator, source, data_dir, key).await
}

/// Limits the bundles that are packed at the same time.
static PACKERS: Semaphore = Semaphore::const_new(1);

/// Returns the commit that a key names, if its repository is here and a ticket names it.
async fn find_requested_commit(
    coordinator: &LocalCoordinator,
    tool: &GitProgram,
    key: &str,
) -> Result<Option<(Repository, Oid)>, CoordinatorError> {
    let Some((kind, word, repository)) = parse_bundle_key(key) else {
        return Ok(None);
    };
    if !is_ticket_repository(coordinator, repository).await? {
        return Ok(None);
    }
    let Ok(git) = Repository::open(tool.clone(), Path::new(repository)).await else {
        return Ok(None);
    };
    let commit = match kind {
        "base" => git.base_tip(word).await.ok(),
        _ => Oid::parse(word),
    };
    match commit {
        Some(commit) if git.has_commit(&commit).await.map_err(git_error)? => {
            Ok(Some((git, commit)))
        }
        Some(_) | None => Ok(None),
    }
}

/// Packs a commit with its whole history and stores the bundle.
async fn pack_and_store(
    coordinator: &LocalCoordinator,
    (git, commit): (Repository, Oid),
    data_dir: &Path,
    key: &str,
) -> Result<(), CoordinatorError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = crate::hash::short_sha256(key.as_bytes());
    let file = TempBundleFile(data_dir.join(format!("bundle-{name}-{count}.part")));
    let bundle = pack_bundle(&git, key.to_owned(), &commit, None, &file.0).await;
    Ok(coordinator
        .store
        .put_bundle(bundle.map_err(git_error)?)
        .await?)
}

/// Temporary file of a bundle. Dropping it removes the file, also if the request is cancelled.
struct TempBundleFile(PathBuf);

impl Drop for TempBundleFile {
    fn drop(&mut self) {
        removed(&self.0, std::fs::remove_file(&self.0));
    }
}

/// Splits a bundle key into its kind (`commit` or `base`), its commit or branch, and its
/// repository.
pub fn parse_bundle_key(key: &str) -> Option<(&str, &str, &str)> {
    let mut words = key.splitn(3, ':');
    Some((words.next()?, words.next()?, words.next()?))
}

/// Returns whether a ticket names this repository. Others must not get anything else of this
/// machine.
pub async fn is_ticket_repository(
    coordinator: &LocalCoordinator,
    repository: &str,
) -> Result<bool, CoordinatorError> {
    let query = TicketQuery {
        repository: Some(repository.to_owned()),
        ..TicketQuery::default()
    };
    let page = Page {
        after: None,
        most: 1,
    };
    Ok(!coordinator
        .store
        .tickets(&query, &page)
        .await?
        .items
        .is_empty())
}

/// Maximum number of bundles packed per call.
const BUNDLES_PER_PASS: u32 = 16;

impl RepoSync {
    /// Fetches all commits that the ticket's next job needs.
    pub async fn fetch_for_job(
        &self,
        coordinator: &dyn Coordinator,
        git: &Repository,
        ticket: &Ticket,
    ) -> Result<(), CoordinatorError> {
        for id in &ticket.spec.depends_on {
            let below = coordinator.ticket(id).await?;
            let below = below.ok_or_else(|| CoordinatorError::NoSuchTicket(id.clone()))?;
            if below.landed.is_none() {
                self.fetch_submission(coordinator, git, &below).await?;
            }
        }
        self.fetch_submission(coordinator, git, ticket).await?;
        if self.is_copy {
            self.update_ticket_branch(git, ticket)
                .await
                .map_err(git_error)?;
        }
        Ok(())
    }

    async fn fetch_submission(
        &self,
        coordinator: &dyn Coordinator,
        git: &Repository,
        ticket: &Ticket,
    ) -> Result<(), CoordinatorError> {
        let Some(commit) = submitted_commit(ticket) else {
            return Ok(());
        };
        if git.has_commit(&commit).await.map_err(git_error)? {
            return Ok(());
        }
        let name = commit_ref(ticket, &commit);
        match &self.method {
            SyncMethod::Remote(remote) => {
                let fetched = git.fetch_commit(remote, &name, &commit).await;
                fetched.map_err(git_error)
            }
            SyncMethod::Bundles => {
                let key = commit_bundle_key(&commit, &self.repository);
                let bundle = coordinator.download(&key).await?;
                let bundle = bundle.map(|bundle| StoredBundle {
                    // Ignore the commit that the bundle claims to contain: only the requested one
                    // counts.
                    tip: commit.to_string(),
                    ..bundle
                });
                unpack_bundle(git, bundle, &name).await
            }
        }
    }

    /// Sets the ticket's branch in our copy to the submitted commit, or to newer commits that
    /// someone added on the remote. Commits of an earlier round of ours are replaced.
    async fn update_ticket_branch(&self, git: &Repository, ticket: &Ticket) -> Result<(), Error> {
        let Some(commit) = submitted_commit(ticket) else {
            return Ok(());
        };
        let branch = jobs::branch_name(ticket);
        let name = format!("refs/heads/{branch}");
        let mut head = commit.clone();
        if let SyncMethod::Remote(remote) = &self.method
            && let Some(theirs) = git.remote_branch(remote, &branch).await?
            && theirs != commit
        {
            let ref_name = format!("refs/countersign/{}/theirs", ticket.id);
            let fetched = git.fetch_branch(remote, &branch, &ref_name).await?;
            if git.is_ancestor(&commit, &fetched).await? {
                head = fetched;
            }
        }
        let now = git.read_ref(&name).await?;
        git.share_ref(&name, &head, now.as_ref()).await?;
        Ok(())
    }

    /// Sends the result of a job to the place where others find it.
    pub async fn publish_result(
        &self,
        coordinator: &dyn Coordinator,
        git: &Repository,
        (ticket, what, temp_file): (&Ticket, &EventKind, &Path),
    ) -> Result<(), CoordinatorError> {
        let EventKind::Submitted { submission, .. } = what else {
            return Ok(());
        };
        let Some(commit) = Oid::parse(&submission.commit) else {
            return Ok(());
        };
        match &self.method {
            SyncMethod::Remote(_) => {
                self.publish_commit(git, ticket, &commit, &submission.branch)
                    .await
            }
            // The process that has the repository itself packs requested bundles.
            SyncMethod::Bundles if !self.is_copy => Ok(()),
            SyncMethod::Bundles => {
                let key = commit_bundle_key(&commit, &self.repository);
                let base = Oid::parse(&submission.base);
                let bundle = pack_bundle(git, key, &commit, base.as_ref(), temp_file).await;
                let bundle = bundle.map_err(git_error)?;
                if let Some(why) = &bundle.why {
                    return Err(CoordinatorError::Unusable(why.clone()));
                }
                coordinator.upload(Upload::Bundle(bundle)).await
            }
        }
    }

    /// Pushes a commit to the remote, if there is one: under its own ref, and to its branch if that
    /// needs no force.
    pub async fn publish_commit(
        &self,
        git: &Repository,
        ticket: &Ticket,
        commit: &Oid,
        branch: &str,
    ) -> Result<(), CoordinatorError> {
        let SyncMethod::Remote(remote) = &self.method else {
            return Ok(());
        };
        let name = commit_ref(ticket, commit);
        let pushed = push_commit(git, remote, commit, &name, branch).await;
        pushed.map_err(git_error)
    }

    /// Pushes the commit to the base branch of the remote. Returns false if that branch has moved.
    pub async fn push_base_branch(
        &self,
        git: &Repository,
        branch: &str,
        tip: &Oid,
    ) -> Result<bool, Error> {
        let SyncMethod::Remote(remote) = &self.method else {
            return Ok(true);
        };
        let name = format!("refs/heads/{branch}");
        if git.push(remote, tip, &name).await? {
            return Ok(true);
        }
        let ours = git.read_ref(&name).await?;
        let theirs = git
            .fetch_branch(remote, branch, "refs/countersign/base")
            .await?;
        git.share_ref(&name, &theirs, ours.as_ref()).await?;
        Ok(false)
    }
}

async fn push_commit(
    git: &Repository,
    remote: &Remote,
    commit: &Oid,
    name: &str,
    branch: &str,
) -> Result<(), Error> {
    if !git.push(remote, commit, name).await? {
        return Err(Error::Failed {
            verb: "push".to_owned(),
            dir: git.common_dir().to_owned(),
            detail: format!("the remote refused {name}"),
        });
    }
    // Updating the branch to an amended commit would need force; the commit is found by its own
    // ref.
    git.push(remote, commit, &format!("refs/heads/{branch}"))
        .await
        .map(drop)
}

/// Packs a commit without the history below `have`. A bundle that is too large has a reason instead
/// of bytes.
async fn pack_bundle(
    git: &Repository,
    key: String,
    commit: &Oid,
    have: Option<&Oid>,
    temp_file: &Path,
) -> Result<StoredBundle, Error> {
    let bytes = git
        .pack_commit(commit, have, BUNDLE_BYTES_MAX, temp_file)
        .await?;
    let too_large = || {
        let most = BUNDLE_BYTES_MAX >> 20;
        format!(
            "the commits take more than {most} MiB, the limit for bundles in the database; set a remote ([worker] remote)"
        )
    };
    Ok(StoredBundle {
        key,
        tip: commit.to_string(),
        why: bytes.is_none().then(too_large),
        bytes,
    })
}

/// Unpacks a bundle. One that does not exist yet has been requested.
async fn unpack_bundle(
    git: &Repository,
    bundle: Option<StoredBundle>,
    name: &str,
) -> Result<(), CoordinatorError> {
    let not_yet = || {
        let message = "the commit is not on this machine yet; it has been requested from the machine that has it (or set a remote with --remote)";
        CoordinatorError::Unusable(message.to_owned())
    };
    let bundle = bundle.ok_or_else(not_yet)?;
    if let Some(why) = bundle.why {
        return Err(CoordinatorError::Unusable(why));
    }
    let (Some(bytes), Some(tip)) = (bundle.bytes, Oid::parse(&bundle.tip)) else {
        return Err(not_yet());
    };
    if git.read_ref(name).await.map_err(git_error)?.as_ref() == Some(&tip) {
        return Ok(());
    }
    git.unpack_commit(bytes, &tip, name)
        .await
        .map_err(git_error)
}

fn git_error(error: Error) -> CoordinatorError {
    CoordinatorError::Unusable(error.to_string())
}

fn submitted_commit(ticket: &Ticket) -> Option<Oid> {
    let submission = ticket.submission.as_ref()?;
    Oid::parse(&submission.commit)
}

fn commit_ref(ticket: &Ticket, commit: &Oid) -> String {
    format!("refs/countersign/{}/commits/{commit}", ticket.id)
}

fn commit_bundle_key(commit: &Oid, repository: &str) -> String {
    format!("commit:{commit}:{repository}")
}
