//! What can be asked of Countersign from afar as well as here. A question is a plain value: it says
//! where a server takes it, and answers itself at a desk. The command line asks without knowing
//! which of the two happens; REST is a table of the same questions.

pub mod decisions;
pub mod people;
pub mod tickets;
pub mod work;

use flow::{Stage, Ticket, TicketId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{App, Cursor, Page};
use crate::failure::Failure;

/// A page has at most so many items.
const PAGE_MAX: u32 = 1000;
const PAGE_DEFAULT: u32 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Delete,
}

pub trait Question: Serialize + DeserializeOwned + Send + Sync + 'static {
    type Answer: Serialize + DeserializeOwned + Send;
    const METHOD: Method;
    /// A field that is named in braces stands there; of the rest, `Get` makes a query and others a body.
    const PATH: &'static str;
    /// Something new comes of it.
    const MAKES: bool = false;

    /// The tickets that it speaks of.
    fn tickets(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Of a ticket, where the answer is how one stands.
    fn version(_: &Self::Answer) -> Option<u64> {
        None
    }

    fn answer(self, office: &App) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;
}

/// The fields that are part of a path.
pub fn in_path(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A list without pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct Items<T> {
    pub items: Vec<T>,
}

/// How a ticket stands after a change: the answer to every change of one.
#[derive(Debug, Serialize, Deserialize)]
pub struct TicketSummary {
    pub id: TicketId,
    pub stage: Stage,
    pub version: u64,
    pub title: String,
    /// Nothing goes on until a person has decided.
    pub needs_person: bool,
}

impl TicketSummary {
    pub fn of(ticket: &Ticket) -> Self {
        Self {
            id: ticket.id.clone(),
            stage: ticket.stage,
            version: ticket.version,
            title: ticket.spec.title.clone(),
            needs_person: ticket.needs_person(),
        }
    }
}

/// Which part of a list; a query has no numbers but those that are named.
fn page(after: Option<i64>, limit: Option<u32>) -> Page {
    Page {
        after,
        most: limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX),
    }
}

/// `12.345`, as it is written on the command line and in a query.
pub fn cursor(text: &str) -> Result<Cursor, String> {
    let parse = |part: &str| part.parse::<u64>().map_err(|error| error.to_string());
    let (transaction, sequence) = text.split_once('.').ok_or("a cursor looks like 12.345")?;
    Ok(Cursor {
        transaction: parse(transaction)?,
        sequence: parse(sequence)?,
    })
}

pub fn cursor_text(cursor: Cursor) -> String {
    format!("{}.{}", cursor.transaction, cursor.sequence)
}
