//! Git bundles for remote workers, and from them. A worker may download from the repositories that
//! tickets name, and upload the commits that it builds. It may never upload a base branch, because
//! other workers take the project's rules from it.
//!
//! Checks, policy and protected paths come from the base branch. A worker that could replace it
//! could approve anything.

use std::time::Duration;

use engine::coordinator::wire::Bundle;
use engine::git::Oid;
use engine::repo_sync::{is_ticket_repository, parse_bundle_key};
use store::{BUNDLE_BYTES_MAX, JobQuery, JobState, StoredBundle};

use super::leases::all_leased;
use super::{CallRefusal, Caller, is_plain, short};
use crate::operations::service;

/// Maximum number of open bundle requests.
/// Each request makes a worker or the server pack a repository.
const REQUESTS_MAX: u32 = 1000;

/// Maximum time that a call waits for a bundle to be made.
/// Shorter than the client's timeout: the worker asks again, and then the bundle is there.
const BUNDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Parsed key of a bundle: a commit or a base branch, and its repository.
struct BundleKey<'a> {
    commit: Option<Oid>,
    repository: &'a str,
}

fn parse_key(key: &str) -> Result<BundleKey<'_>, CallRefusal> {
    let invalid = || CallRefusal::barred(format!("{:?} is not the name of a bundle", short(key)));
    let (kind, word, repository) = parse_bundle_key(key).ok_or_else(invalid)?;
    let commit = match kind {
        // Only a full id: a short one could mean another commit.
        "commit" => Some(Oid::parse(word).ok_or_else(invalid)?),
        "base" => None,
        _ => return Err(invalid()),
    };
    if repository.is_empty() || !is_plain(key) {
        return Err(invalid());
    }
    Ok(BundleKey { commit, repository })
}

impl Caller<'_> {
    /// Returns the bundle of a key, or nothing if no ticket names its repository. A commit is
    /// bundled once, a base branch again each time it has moved.
    pub async fn download(&self, key: &str) -> Result<Option<Bundle>, CallRefusal> {
        let BundleKey { commit, repository } = parse_key(key)?;
        // Nothing, as for a bundle that does not exist.
        if !self.is_named_by_ticket(repository).await? {
            return Ok(None);
        }
        let store = &self.app.coordinator.store;
        let mut bundle = None;
        // A commit never changes, so its bundle is reused. A base branch moves.
        if commit.is_some() {
            bundle = store.bundle(key).await?;
        }
        if bundle.as_ref().is_none_or(|bundle| bundle.bytes.is_none()) {
            self.pack(key).await?;
            bundle = store.bundle(key).await?;
        }
        Ok(bundle.map(Bundle::from))
    }

    /// Makes the bundle if its repository is on this machine and it does not take long; else
    /// records a request for it.
    async fn pack(&self, key: &str) -> Result<(), CallRefusal> {
        let store = &self.app.coordinator.store;
        // Counted before the work, so that a flood of keys costs one query each.
        let requested = store.wanted_bundles(REQUESTS_MAX).await?;
        let is_full = requested.len() >= usize::try_from(REQUESTS_MAX).unwrap_or_default();
        if is_full && !requested.iter().any(|requested_key| requested_key == key) {
            return Err(CallRefusal::barred(
                "too many bundles are requested; try again later",
            ));
        }
        match tokio::time::timeout(
            BUNDLE_TIMEOUT,
            service::answer_bundle_request(self.app, key),
        )
        .await
        {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(store::Error::Other(failure.message).into()),
            // A large one is made by the next round of maintenance.
            Err(_) => Ok(store.want_bundle(key).await?),
        }
    }

    async fn is_named_by_ticket(&self, repository: &str) -> Result<bool, CallRefusal> {
        let coordinator = &self.app.coordinator;
        Ok(is_ticket_repository(coordinator, repository).await?)
    }

    /// Stores a commit of a build that this worker holds. A bundle that exists is not replaced.
    pub async fn upload(&self, bundle: StoredBundle) -> Result<(), CallRefusal> {
        let BundleKey { commit, repository } = parse_key(&bundle.key)?;
        let commit =
            commit.ok_or_else(|| CallRefusal::barred("a worker may not upload a base branch"))?;
        // The name and the content have to agree. Else a worker could put its commit under the id
        // of another.
        if Oid::parse(&bundle.tip).as_ref() != Some(&commit) {
            return Err(CallRefusal::barred(
                "the bundle is not of the commit in its name",
            ));
        }
        let bytes = bundle.bytes.as_ref().map_or(0, Vec::len);
        if bytes == 0 || bytes > BUNDLE_BYTES_MAX {
            let most = BUNDLE_BYTES_MAX >> 20;
            return Err(CallRefusal::barred(format!(
                "a bundle must not be empty or larger than {most} MiB"
            )));
        }
        // Only a builder has new commits to bring.
        if !self.builds_in(repository).await? {
            return Err(CallRefusal::barred(
                "you hold no build job in that repository",
            ));
        }
        let store = &self.app.coordinator.store;
        let stored = store.bundle(&bundle.key).await?;
        if stored.is_some_and(|stored| stored.bytes.is_some()) {
            return Ok(());
        }
        let bundle = StoredBundle {
            why: None,
            ..bundle
        };
        Ok(store.put_bundle(bundle).await?)
    }

    async fn builds_in(&self, repository: &str) -> Result<bool, CallRefusal> {
        let query = JobQuery {
            queue: Some(flow::Queue::Build),
            state: Some(JobState::Leased),
            ..JobQuery::default()
        };
        let jobs = self
            .app
            .coordinator
            .store
            .jobs(&query, &all_leased())
            .await?
            .items;
        let own_jobs = jobs
            .into_iter()
            .filter(|job| self.holds(job.holder.as_deref()));
        for id in own_jobs.filter_map(|job| job.ticket) {
            let context = self.load_ticket(&id).await?.ticket.spec.context;
            if context.repository.as_deref() == Some(repository) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
