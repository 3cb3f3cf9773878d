//! Common queries, each built on one method of the traits.

use flow::{Queue, TicketId, Time};

use crate::Result;
use crate::bundle::{BundleUpdate, StoredBundle};
use crate::forge_state::ForgeState;
use crate::job::{HeldJobsFilter, Job, JobQuery};
use crate::record::{EventQuery, Page, Pause, PauseScope, Restriction, StoredEvent, TicketQuery};
use crate::token::{Token, TokenKind, TokenQuery};
use crate::verbs::Store;

/// Rows per page when a list is read to its end.
const PAGE: u32 = 1000;
/// Maximum number of jobs listed for one holder.
const HELD_MAX: u32 = 1000;

impl dyn Store + '_ {
    /// Returns the state of this name; a new one, with an empty body, if there is none.
    pub async fn forge_state(&self, name: &str) -> Result<ForgeState> {
        let states = self.forge_states(name, 1).await?;
        let found = states.into_iter().find(|state| state.name == name);
        Ok(found.unwrap_or_else(|| ForgeState {
            name: name.to_owned(),
            version: 0,
            at: Time(0),
            body: serde_json::Value::Null,
        }))
    }

    /// Lists the tickets that depend on this one.
    pub async fn dependents(&self, id: &TicketId) -> Result<Vec<TicketId>> {
        let query = TicketQuery {
            depends_on: Some(id.clone()),
            ..TicketQuery::default()
        };
        let mut page = Page {
            after: None,
            most: PAGE,
        };
        let mut ids = Vec::new();
        loop {
            let tickets = self.tickets(&query, &page).await?;
            ids.extend(tickets.items.into_iter().map(|row| row.id));
            if tickets.next.is_none() {
                break;
            }
            page.after = tickets.next;
        }
        ids.sort();
        Ok(ids)
    }

    /// Lists the jobs of these queues that this worker holds, the oldest first.
    pub async fn held_jobs(&self, worker: &str, queues: &[Queue]) -> Result<Vec<Job>> {
        let query = JobQuery {
            held: Some(HeldJobsFilter {
                worker: worker.to_owned(),
                queues: queues.to_vec(),
            }),
            ..JobQuery::default()
        };
        let page = Page {
            after: None,
            most: HELD_MAX,
        };
        Ok(self.jobs(&query, &page).await?.items)
    }

    /// Finds the job that was put into a queue under this key.
    pub async fn job_by_key(&self, key: &str) -> Result<Option<Job>> {
        let query = JobQuery {
            key: Some(key.to_owned()),
            ..JobQuery::default()
        };
        Ok(self.jobs(&query, &Page::default()).await?.items.pop())
    }

    /// Lists the newest events, of one ticket or of all, in the order in which they happened.
    pub async fn newest_events(
        &self,
        ticket: Option<&TicketId>,
        most: u32,
    ) -> Result<Vec<StoredEvent>> {
        let query = EventQuery {
            ticket: ticket.cloned(),
            newest: true,
            most,
            ..EventQuery::default()
        };
        self.events(&query).await
    }

    /// Returns the time by the database's clock.
    pub async fn now(&self) -> Result<Time> {
        Ok(self.database().await?.now)
    }

    pub async fn pause(&self, pause: Pause) -> Result<()> {
        self.restrict(Restriction::Pause(pause)).await.map(drop)
    }

    /// Ends a pause; false if there was none.
    pub async fn resume(&self, scope: &PauseScope) -> Result<bool> {
        self.restrict(Restriction::Resume(scope.clone())).await
    }

    /// Limits how many jobs of a provider all workers together may hold at once.
    pub async fn limit_provider(&self, provider: &str, most: Option<u32>) -> Result<()> {
        let provider = provider.to_owned();
        let limit = Restriction::ProviderLimit { provider, most };
        self.restrict(limit).await.map(drop)
    }

    pub async fn pauses(&self) -> Result<Vec<Pause>> {
        Ok(self.restrictions().await?.pauses)
    }

    /// Finds the token whose secret has this hash.
    pub async fn token(&self, hash: &str) -> Result<Option<Token>> {
        let query = TokenQuery {
            kind: TokenKind::default(),
            hash: Some(hash.to_owned()),
            most: 1,
        };
        Ok(self.tokens(&query).await?.pop())
    }

    pub async fn put_bundle(&self, bundle: StoredBundle) -> Result<()> {
        self.update_bundle(BundleUpdate::Put(bundle)).await
    }

    /// Requests a bundle, or a newer one.
    pub async fn want_bundle(&self, key: &str) -> Result<()> {
        let key = key.to_owned();
        self.update_bundle(BundleUpdate::Want(key)).await
    }
}
