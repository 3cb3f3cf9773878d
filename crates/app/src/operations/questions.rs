//! Requests that work on the local store and against a server. A question is a plain value: it
//! knows its REST path and computes its own answer from an `App`. The command line does not know
//! which of the two happens; the REST API is a table of the same questions.

pub mod decisions;
pub mod messages;
pub mod people;
pub mod pull_requests;
pub mod tickets;
pub mod work;

use async_trait::async_trait;
use flow::{Stage, Ticket, TicketId};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{App, Cursor, Page};
use crate::failure::Failure;

/// Maximum number of items on a page.
const PAGE_MAX: u32 = 1000;
const PAGE_DEFAULT: u32 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Delete,
}

/// A request with its REST route and its answer. The answer is a boxed future, so that its body is
/// compiled here and not again in every crate that asks.
#[async_trait]
pub trait Question: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The `OpenAPI` document describes the answer by the schema of this type.
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send;
    const METHOD: Method;
    /// Path of the route. A field in braces is part of the path; the other fields travel in the
    /// query of a `Get` and in the body of the other methods.
    const PATH: &'static str;
    /// True if the request creates something.
    const CREATES: bool = false;

    /// Returns the tickets that the request is about. Access is checked against them.
    fn tickets(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns the ticket's version if the answer describes one ticket.
    fn version(_: &Self::Answer) -> Option<u64> {
        None
    }

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure>;
}

/// Lists the fields that are part of a path.
pub fn path_fields(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A list without pages.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Items")]
pub struct Items<T> {
    pub items: Vec<T>,
}

/// State of a ticket after a change; the answer to every request that changes one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TicketSummary {
    pub id: TicketId,
    pub stage: Stage,
    pub version: u64,
    pub title: String,
    /// True if nothing continues until a person decides.
    pub needs_person: bool,
}

impl TicketSummary {
    pub fn from_ticket(ticket: &Ticket) -> Self {
        Self {
            id: ticket.id.clone(),
            stage: ticket.stage,
            version: ticket.version,
            title: ticket.spec.title.clone(),
            needs_person: ticket.needs_person(),
        }
    }
}

/// Builds the page of a list from its optional parameters, with the default and maximum size.
fn page(after: Option<i64>, limit: Option<u32>) -> Page {
    Page {
        after,
        most: limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX),
    }
}

/// Parses a log position like `12.345`. It also reads `12-345`, the form that event streams had
/// before, because a reader may still hold one as its last event.
pub fn parse_cursor(text: &str) -> Result<Cursor, String> {
    let parse = |part: &str| part.parse::<u64>().map_err(|error| error.to_string());
    let (transaction, sequence) = text
        .split_once(['.', '-'])
        .ok_or("a cursor looks like 12.345")?;
    Ok(Cursor {
        transaction: parse(transaction)?,
        sequence: parse(sequence)?,
    })
}

/// Formats a log position like `12.345`.
pub fn format_cursor(cursor: Cursor) -> String {
    format!("{}.{}", cursor.transaction, cursor.sequence)
}
