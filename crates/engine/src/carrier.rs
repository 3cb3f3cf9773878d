//! The carrier between a worker's repository and the one that all workers share: brings what a ticket's
//! work rests on, and puts there what came of it. Everything is named by its own hash, below
//! `refs/countersign/<ticket>/commits/`; the ticket's branch goes along where that takes nothing
//! away, and a base branch only where the worker is told to land there. Where there is no remote,
//! objects go through the store as parcels, and refs are made here from what the ticket says.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{EventKind, Ticket};
use store::{PARCEL_BYTES_MAX, Page, Parcel, TicketQuery};
use tokio::sync::Semaphore;

use crate::coordinator::{Coordinator, Error as DeskError, LocalCoordinator, Upload};
use crate::git::{Error, GitProgram, Oid, Remote, Repository};
use crate::log::removed;
use crate::perform;

#[derive(Clone, Debug)]
pub struct RepoSync {
    pub way: SyncMethod,
    /// As tickets name it.
    pub repository: String,
    /// What landed is put on the remote's base branch.
    pub lands: bool,
    /// The repository is the worker's own copy, in which the other's word counts.
    pub is_copy: bool,
}

#[derive(Clone, Debug)]
pub enum SyncMethod {
    Remote(Remote),
    /// Through the store.
    Parcels,
}

/// Asks for the base branch of a repository that is elsewhere, and brings the newest that there is.
pub async fn follow(
    coordinator: &dyn Coordinator,
    tool: &GitProgram,
    (repository, base): (&str, &str),
    copy: &Path,
) -> Result<(), DeskError> {
    let key = format!("base:{base}:{repository}");
    let parcel = coordinator.download(&key).await?;
    tool.empty(base, copy).await.map_err(unusable)?;
    let (git, name) = (tool.at(copy), format!("refs/heads/{base}"));
    open(&git, parcel, &name).await
}

/// Packs what somebody elsewhere wants of the repositories that are here; says how much it was.
pub async fn answer_wants(
    desk: &LocalCoordinator,
    tool: &GitProgram,
    data_dir: &Path,
) -> Result<usize, DeskError> {
    let mut answered = 0;
    for key in desk.store.wanted_parcels(WANTS_AT_ONCE).await? {
        if let Some(wanted) = wanted(desk, tool, &key).await? {
            pack_for(desk, wanted, data_dir, &key).await?;
            answered += 1;
        }
    }
    Ok(answered)
}

/// Asks for one parcel, and packs it where its repository is here. What was packed before and is still
/// the newest stays.
pub async fn answer_want(
    desk: &LocalCoordinator,
    tool: &GitProgram,
    data_dir: &Path,
    key: &str,
) -> Result<(), DeskError> {
    let Some(wanted) = wanted(desk, tool, key).await? else {
        return Ok(desk.store.want_parcel(key).await?);
    };
    // Many may want the same, and one packs it for all.
    let _place = PACKERS.acquire().await;
    let known = desk.store.parcel(key).await?;
    let is_newest = |known: &Parcel| known.tip == wanted.1.as_str() && known.bytes.is_some();
    if known.as_ref().is_some_and(is_newest) {
        return Ok(());
    }
    desk.store.want_parcel(key).await?;
    pack_for(desk, wanted, data_dir, key).await
}

/// So many of those who ask are served at once.
static PACKERS: Semaphore = Semaphore::const_new(1);

/// The commit that a key names, if its repository is here and a ticket's.
async fn wanted(
    desk: &LocalCoordinator,
    tool: &GitProgram,
    key: &str,
) -> Result<Option<(Repository, Oid)>, DeskError> {
    let Some((kind, word, place)) = parcel_key(key) else {
        return Ok(None);
    };
    if !is_named_by_a_ticket(desk, place).await? {
        return Ok(None);
    }
    let Ok(git) = Repository::open(tool.clone(), Path::new(place)).await else {
        return Ok(None);
    };
    let commit = match kind {
        "base" => git.base(word).await.ok(),
        _ => Oid::parse(word),
    };
    match commit {
        Some(commit) if git.has_commit(&commit).await.map_err(unusable)? => Ok(Some((git, commit))),
        Some(_) | None => Ok(None),
    }
}

async fn pack_for(
    desk: &LocalCoordinator,
    (git, commit): (Repository, Oid),
    data_dir: &Path,
    key: &str,
) -> Result<(), DeskError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = crate::hash::short(key.as_bytes());
    let aside = TempBundleFile(data_dir.join(format!("parcel-{name}-{count}.part")));
    let parcel = packed(&git, key.to_owned(), &commit, None, &aside.0).await;
    Ok(desk.store.put_parcel(parcel.map_err(unusable)?).await?)
}

/// Where a parcel is packed; whoever is not waited for any more leaves nothing behind.
struct TempBundleFile(PathBuf);

impl Drop for TempBundleFile {
    fn drop(&mut self) {
        removed(&self.0, std::fs::remove_file(&self.0));
    }
}

/// What a parcel is called by: `commit` or `base`, which one, and of which repository.
pub fn parcel_key(key: &str) -> Option<(&str, &str, &str)> {
    let mut words = key.splitn(3, ':');
    Some((words.next()?, words.next()?, words.next()?))
}

/// Nothing else of this machine is anybody's business.
pub async fn is_named_by_a_ticket(desk: &LocalCoordinator, place: &str) -> Result<bool, DeskError> {
    let query = TicketQuery {
        repository: Some(place.to_owned()),
        ..TicketQuery::default()
    };
    let page = Page {
        after: None,
        most: 1,
    };
    Ok(!desk.store.tickets(&query, &page).await?.items.is_empty())
}

/// How many are packed in one go.
const WANTS_AT_ONCE: u32 = 16;

impl RepoSync {
    /// Sees that all is here that the ticket's next job rests on.
    pub async fn bring(
        &self,
        coordinator: &dyn Coordinator,
        git: &Repository,
        ticket: &Ticket,
    ) -> Result<(), DeskError> {
        for id in &ticket.spec.depends_on {
            let below = coordinator.ticket(id).await?;
            let below = below.ok_or_else(|| DeskError::NoSuchTicket(id.clone()))?;
            if below.landed.is_none() {
                self.bring_submission(coordinator, git, &below).await?;
            }
        }
        self.bring_submission(coordinator, git, ticket).await?;
        if self.is_copy {
            self.settle_branch(git, ticket).await.map_err(unusable)?;
        }
        Ok(())
    }

    async fn bring_submission(
        &self,
        coordinator: &dyn Coordinator,
        git: &Repository,
        ticket: &Ticket,
    ) -> Result<(), DeskError> {
        let Some(commit) = put_forward(ticket) else {
            return Ok(());
        };
        if git.has_commit(&commit).await.map_err(unusable)? {
            return Ok(());
        }
        let name = name_of(ticket, &commit);
        match &self.way {
            SyncMethod::Remote(remote) => {
                let fetched = git.fetch_commit(remote, &name, &commit).await;
                fetched.map_err(unusable)
            }
            SyncMethod::Parcels => {
                let key = key_of(&commit, &self.repository);
                let parcel = coordinator.download(&key).await?;
                let parcel = parcel.map(|parcel| Parcel {
                    // What it says that it is does not count: what we asked for does.
                    tip: commit.to_string(),
                    ..parcel
                });
                open(git, parcel, &name).await
            }
        }
    }

    /// The ticket's branch in our copy is where the ticket says, or where somebody has gone on from
    /// there; whatever an earlier round of ours left there is history.
    async fn settle_branch(&self, git: &Repository, ticket: &Ticket) -> Result<(), Error> {
        let Some(commit) = put_forward(ticket) else {
            return Ok(());
        };
        let branch = perform::branch(ticket);
        let name = format!("refs/heads/{branch}");
        let mut head = commit.clone();
        if let SyncMethod::Remote(remote) = &self.way
            && let Some(theirs) = git.remote_branch(remote, &branch).await?
            && theirs != commit
        {
            let ours = format!("refs/countersign/{}/theirs", ticket.id);
            let fetched = git.fetch_branch(remote, &branch, &ours).await?;
            if git.is_ancestor(&commit, &fetched).await? {
                head = fetched;
            }
        }
        let now = git.read_ref(&name).await?;
        git.share_ref(&name, &head, now.as_ref()).await?;
        Ok(())
    }

    /// Puts what came of a job where others find it.
    pub async fn send(
        &self,
        coordinator: &dyn Coordinator,
        git: &Repository,
        (ticket, what, aside): (&Ticket, &EventKind, &Path),
    ) -> Result<(), DeskError> {
        let EventKind::Submitted { submission, .. } = what else {
            return Ok(());
        };
        let Some(commit) = Oid::parse(&submission.commit) else {
            return Ok(());
        };
        match &self.way {
            SyncMethod::Remote(_) => self.publish(git, ticket, &commit, &submission.branch).await,
            // Whoever has the repository packs what is asked for.
            SyncMethod::Parcels if !self.is_copy => Ok(()),
            SyncMethod::Parcels => {
                let key = key_of(&commit, &self.repository);
                let base = Oid::parse(&submission.base);
                let parcel = packed(git, key, &commit, base.as_ref(), aside).await;
                let parcel = parcel.map_err(unusable)?;
                if let Some(why) = &parcel.why {
                    return Err(DeskError::Unusable(why.clone()));
                }
                coordinator.upload(Upload::Bundle(parcel)).await
            }
        }
    }

    /// Puts a commit where the remote has one: under a name of its own, and on its branch where that
    /// needs no force.
    pub async fn publish(
        &self,
        git: &Repository,
        ticket: &Ticket,
        commit: &Oid,
        branch: &str,
    ) -> Result<(), DeskError> {
        let SyncMethod::Remote(remote) = &self.way else {
            return Ok(());
        };
        let name = name_of(ticket, commit);
        let pushed = push(git, remote, commit, &name, branch).await;
        pushed.map_err(unusable)
    }

    /// Puts what is to land on the remote's base branch; false where that has moved.
    pub async fn land(&self, git: &Repository, branch: &str, tip: &Oid) -> Result<bool, Error> {
        let SyncMethod::Remote(remote) = &self.way else {
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

async fn push(
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
            detail: format!("the remote did not take {name}"),
        });
    }
    // An amended commit would have to be forced; it is found by its name.
    git.push(remote, commit, &format!("refs/heads/{branch}"))
        .await
        .map(drop)
}

async fn packed(
    git: &Repository,
    key: String,
    commit: &Oid,
    have: Option<&Oid>,
    aside: &Path,
) -> Result<Parcel, Error> {
    let bytes = git.pack(commit, have, PARCEL_BYTES_MAX, aside).await?;
    let too_large = || {
        let most = PARCEL_BYTES_MAX >> 20;
        format!(
            "it takes more than {most} MiB, which is the most that goes through the database; name a remote ([worker] remote)"
        )
    };
    Ok(Parcel {
        key,
        tip: commit.to_string(),
        why: bytes.is_none().then(too_large),
        bytes,
    })
}

/// Takes a parcel in. One that is not there yet has been asked for.
async fn open(git: &Repository, parcel: Option<Parcel>, name: &str) -> Result<(), DeskError> {
    let not_yet = || {
        let words = "it is not on this machine; whoever has it has been asked for it (or name a remote with --remote)";
        DeskError::Unusable(words.to_owned())
    };
    let parcel = parcel.ok_or_else(not_yet)?;
    if let Some(why) = parcel.why {
        return Err(DeskError::Unusable(why));
    }
    let (Some(bytes), Some(tip)) = (parcel.bytes, Oid::parse(&parcel.tip)) else {
        return Err(not_yet());
    };
    if git.read_ref(name).await.map_err(unusable)?.as_ref() == Some(&tip) {
        return Ok(());
    }
    git.unpack(bytes, &tip, name).await.map_err(unusable)
}

fn unusable(error: Error) -> DeskError {
    DeskError::Unusable(error.to_string())
}

fn put_forward(ticket: &Ticket) -> Option<Oid> {
    let put = ticket.submission.as_ref()?;
    Oid::parse(&put.commit)
}

fn name_of(ticket: &Ticket, commit: &Oid) -> String {
    format!("refs/countersign/{}/commits/{commit}", ticket.id)
}

fn key_of(commit: &Oid, repository: &str) -> String {
    format!("commit:{commit}:{repository}")
}
