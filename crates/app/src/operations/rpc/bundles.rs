//! Objects for workers elsewhere, and from them. They may have what belongs to the repositories that
//! tickets name, and bring the commits of what they build. A base branch is never theirs to bring:
//! others would take the rules of the house from it.

use std::time::Duration;

use engine::carrier::{is_named_by_a_ticket, parcel_key};
use engine::coordinator::wire::Bundle;
use engine::git::Oid;
use store::{JobQuery, JobState, PARCEL_BYTES_MAX, Parcel};

use super::leases::all_leased;
use super::{Caller, No, is_plain, short};
use crate::operations::service;

/// More is not wanted at once.
const WANTS_MAX: u32 = 1000;

/// The longest packing that a worker waits for.
const PACKED_WITHIN: Duration = Duration::from_secs(10);

/// The commit or base branch that a key names, and its repository.
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
    /// Nothing where no ticket names the repository. A base branch is packed again each time that it
    /// has moved, a commit once.
    pub async fn download(&self, key: &str) -> Result<Option<Bundle>, No> {
        let Named { commit, repository } = named(key)?;
        if !self.is_wanted_by_a_ticket(repository).await? {
            return Ok(None);
        }
        let store = &self.office.desk.store;
        let mut found = None;
        if commit.is_some() {
            found = store.parcel(key).await?;
        }
        if found.as_ref().is_none_or(|found| found.bytes.is_none()) {
            self.pack(key).await?;
            found = store.parcel(key).await?;
        }
        Ok(found.map(Bundle::from))
    }

    /// Packs it where its repository is here and it does not take long; else asks for it.
    async fn pack(&self, key: &str) -> Result<(), No> {
        let store = &self.office.desk.store;
        let wanted = store.wanted_parcels(WANTS_MAX).await?;
        let is_full = wanted.len() >= usize::try_from(WANTS_MAX).unwrap_or_default();
        if is_full && !wanted.iter().any(|one| one == key) {
            return Err(No::barred("too much is wanted already"));
        }
        match tokio::time::timeout(PACKED_WITHIN, service::answer_want(self.office, key)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(store::Error::Other(failure.message).into()),
            // A large one is packed in a round of its own.
            Err(_) => Ok(store.want_parcel(key).await?),
        }
    }

    async fn is_wanted_by_a_ticket(&self, repository: &str) -> Result<bool, No> {
        let desk = &self.office.desk;
        Ok(is_named_by_a_ticket(desk, repository).await?)
    }

    /// Takes what came of a build that is in this worker's hands. What is here already stays.
    pub async fn upload(&self, parcel: Parcel) -> Result<(), No> {
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
            .jobs(&query, &all_leased())
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
