//! Objects for workers elsewhere, and from them. They may have what belongs to the repositories that
//! tickets name, and bring the commits of what they build. A base branch is never theirs to bring:
//! others would take the rules of the house from it.

use std::time::Duration;

use engine::carrier::{is_named_by_a_ticket, parcel_key};
use engine::git::Oid;
use store::{JobQuery, JobState, PARCEL_BYTES_MAX, Parcel};

use super::call::Packed;
use super::leases::all_in_hand;
use super::reports::no;
use super::{Caller, No, is_plain, short};
use crate::operations::service;

/// More is not wanted at once.
const WANTS_MAX: u32 = 1000;

/// What takes no longer is packed while the worker waits.
const PACKED_WITHIN: Duration = Duration::from_secs(10);

/// What a key names: a commit or a base branch, and the repository that it is of.
struct Named<'a> {
    commit: Option<Oid>,
    repository: &'a str,
}

fn named(key: &str) -> Result<Named<'_>, No> {
    let strange = || No::barred(format!("{:?} is no name of a parcel", short(key)));
    let (kind, word, repository) = parcel_key(key).ok_or_else(strange)?;
    let commit = match kind {
        "commit" => Some(Oid::parse(word).ok_or_else(strange)?),
        "base" => None,
        _ => return Err(strange()),
    };
    if repository.is_empty() || !is_plain(key) {
        return Err(strange());
    }
    Ok(Named { commit, repository })
}

impl Caller<'_> {
    pub async fn parcel(&self, key: &str) -> Result<Option<Packed>, No> {
        if !self.is_wanted_by_a_ticket(named(key)?.repository).await? {
            return Ok(None);
        }
        let found = self.office.desk.store.parcel(key).await?;
        Ok(found.map(Packed::from))
    }

    /// Packs it, where its repository is here and it does not take long. What is of no ticket's
    /// repository nobody would pack.
    pub async fn want_parcel(&self, key: &str) -> Result<(), No> {
        if !self.is_wanted_by_a_ticket(named(key)?.repository).await? {
            return Ok(());
        }
        let store = &self.office.desk.store;
        let wanted = store.wanted_parcels(WANTS_MAX).await?;
        let is_full = wanted.len() >= usize::try_from(WANTS_MAX).unwrap_or_default();
        if is_full && !wanted.iter().any(|one| one == key) {
            return Err(No::barred("too much is wanted already"));
        }
        match tokio::time::timeout(PACKED_WITHIN, service::answer_want(self.office, key)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(No::Store(store::Error::Other(failure.message))),
            // A large one is packed in a round of its own.
            Err(_) => Ok(store.want_parcel(key).await?),
        }
    }

    async fn is_wanted_by_a_ticket(&self, repository: &str) -> Result<bool, No> {
        let desk = &self.office.desk;
        is_named_by_a_ticket(desk, repository).await.map_err(no)
    }

    /// Takes what came of a build that is in this worker's hands. What is here already stays.
    pub async fn put_parcel(&self, parcel: Parcel) -> Result<(), No> {
        let Named { commit, repository } = named(&parcel.key)?;
        let commit = commit.ok_or_else(|| No::barred("a worker brings no base branch"))?;
        if Oid::parse(&parcel.tip).as_ref() != Some(&commit) {
            return Err(No::barred(
                "the parcel is not of the commit that it is named for",
            ));
        }
        let bytes = parcel.bytes.as_ref().map_or(0, Vec::len);
        if bytes == 0 || bytes > PARCEL_BYTES_MAX {
            let most = PARCEL_BYTES_MAX >> 20;
            return Err(No::barred(format!(
                "a parcel has something in it, and at most {most} MiB"
            )));
        }
        if !self.builds_in(repository).await? {
            return Err(No::barred("you build nothing in that repository now"));
        }
        let store = &self.office.desk.store;
        let known = store.parcel(&parcel.key).await?;
        if known.is_some_and(|known| known.bytes.is_some()) {
            return Ok(());
        }
        let parcel = Parcel {
            why: None,
            ..parcel
        };
        Ok(store.put_parcel(parcel).await?)
    }

    async fn builds_in(&self, repository: &str) -> Result<bool, No> {
        let query = JobQuery {
            queue: Some(flow::Queue::Build),
            state: Some(JobState::Leased),
            ..JobQuery::default()
        };
        let jobs = self
            .office
            .desk
            .store
            .jobs(&query, &all_in_hand())
            .await?
            .items;
        let own = jobs
            .into_iter()
            .filter(|job| self.holds(job.holder.as_deref()));
        for id in own.filter_map(|job| job.ticket) {
            let context = self.stored(&id).await?.ticket.spec.context;
            if context.repository.as_deref() == Some(repository) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
