//! Decides what happens next, and cannot act.
//!
//! [`advance()`] is the core: a ticket, an event and a policy give the next ticket and its effects,
//! or a refusal that a person understands. There is no I/O here, no clock (the time is in the
//! event) and no randomness, so replaying a ticket's events gives the ticket.

pub mod access;
pub mod adhoc_review;
pub mod advance;
pub mod attempt;
pub mod brief;
pub mod dialect;
pub mod epic;
pub mod event;
pub mod export;
pub mod forecast;
pub mod graph;
pub mod insight;
pub mod intake;
pub mod job;
mod label;
pub mod landing;
pub mod ledger;
pub mod merge_train;
pub mod narrate;
pub mod policy;
pub mod prices;
pub mod pull_request;
pub mod quality;
pub mod rejection;
pub mod remote_access;
pub mod retention;
pub mod review_validity;
mod sanitize;
pub mod task;
pub mod ticket;
pub mod time;
pub mod truncate;
pub mod usage;
pub mod verdict;

pub use advance::{
    Refused, Step, advance, available_choices, exceeded_daily_budget, fallback_agent, open_ticket,
    remaining_budget, replay, role_to_reassign,
};
pub use event::{Actor, Event, EventKind, Role};
pub use job::{Effect, NewJob, Queue, Task};
pub use policy::Policy;
pub use ticket::{Stage, Ticket, TicketId, Time};
pub use usage::Usage;
