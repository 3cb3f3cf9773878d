//! Stores tickets, jobs, events and records; it decides nothing.
//!
//! Five traits over two databases. `flow` makes a decision, and it arrives here as a [`Change`].
//! One transaction writes all of it: the ticket, its event, the new jobs, the end of the reported
//! job, and the answer for a repeated call. The store checks versions, fences and keys, never
//! stages.

mod batched;
mod batcher;
mod bundle;
mod caller;
mod change;
mod error;
mod forge_state;
mod job;
mod listing;
mod notifier;
mod postgres;
mod queries;
mod record;
mod rows;
mod settings;
mod sqlite;
mod token;
mod verbs;

pub use bundle::{BUNDLE_BYTES_MAX, BundleUpdate, StoredBundle};
pub use caller::CallerRecord;
pub use change::{Artefact, Change, CommitOutcome, Remembered};
pub use error::Error;
pub use forge_state::ForgeState;
pub use job::{
    ClaimRequest, ClaimTarget, Expired, FinishedTask, FreeJob, HeldJobsFilter, Job, JobId,
    JobQuery, JobState, JobWork, Leased, ServedQueue, TaskOutcome,
};
pub use record::{
    Agent, ClaimStatement, Cursor, CursorMove, Database, Epic, EventBody, EventQuery, Message,
    NewMessage, Noted, Page, Paged, Pause, PauseScope, ProjectRule, Removed, Restriction,
    Restrictions, Retention, RuleUpdate, Spending, StatementKind, Stored, StoredEvent, TicketOrder,
    TicketQuery, TicketRow, TicketSort,
};

pub use settings::Settings;
pub use sqlite::{DatabaseCopy, backup, restore};
pub use token::{Token, TokenChange, TokenKind, TokenQuery};
pub use verbs::{Events, Expenses, ForgeStates, Jobs, Records, Store, Tickets};

use std::path::Path;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

/// Opens the store at a URL (`postgres://…`) or a file path, with the default settings.
pub async fn open(location: &str) -> Result<Arc<dyn Store>> {
    open_with(location, Settings::default()).await
}

pub async fn open_with(location: &str, settings: Settings) -> Result<Arc<dyn Store>> {
    if location.starts_with("postgres://") || location.starts_with("postgresql://") {
        return Ok(Arc::new(
            postgres::Postgres::open(location, settings).await?,
        ));
    }
    let path = Path::new(location);
    Ok(Arc::new(sqlite::Sqlite::open(path, settings).await?))
}
