//! Remembers, and cannot decide.
//!
//! Four traits, two databases. A decision made by `flow` arrives as a [`Change`] and is written
//! whole or not at all: the ticket, its event, the jobs that follow, the end of the job that was
//! reported, and the answer to be given again when the call is repeated. The store looks at
//! versions, fences and keys, never at stages.

mod batched;
mod batcher;
mod caller;
mod change;
mod error;
mod job;
mod listing;
mod notifier;
mod parcel;
mod postgres;
mod queries;
mod record;
mod rows;
mod settings;
mod sqlite;
mod token;
mod verbs;

pub use caller::CallerRecord;
pub use change::{Artefact, Change, CommitOutcome, Remembered};
pub use error::Error;
pub use job::{
    ClaimRequest, ClaimTarget, Expired, FinishedTask, FreeJob, Held, Job, JobId, JobQuery,
    JobState, JobWork, Leased, ServedQueue, TaskOutcome,
};
pub use parcel::{PARCEL_BYTES_MAX, Parcel, ParcelUpdate};
pub use record::{
    Agent, ClaimStatement, Cursor, CursorMove, Database, Epic, EventBody, EventQuery, Message,
    NewMessage, Noted, Page, Paged, Pause, PauseScope, ProjectRule, Removed, Restriction,
    Restrictions, Retention, RuleUpdate, StatementKind, Stored, StoredEvent, TicketQuery,
    TicketRow,
};

pub use settings::Settings;
pub use token::{Token, TokenQuery};
pub use verbs::{Events, Jobs, Records, Store, Tickets};

use std::path::Path;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

/// Opens the store that a URL (`postgres://…`) or a path names, with the default settings.
pub async fn open(place: &str) -> Result<Arc<dyn Store>> {
    open_with(place, Settings::default()).await
}

pub async fn open_with(place: &str, settings: Settings) -> Result<Arc<dyn Store>> {
    if place.starts_with("postgres://") || place.starts_with("postgresql://") {
        return Ok(Arc::new(postgres::Postgres::open(place, settings).await?));
    }
    let path = Path::new(place);
    Ok(Arc::new(sqlite::Sqlite::open(path, settings).await?))
}
