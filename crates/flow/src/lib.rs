//! Decides what happens next, and cannot act.
//!
//! [`advance()`] is the whole of it: a ticket, an event and a policy give the next ticket and the
//! effects that follow, or a refusal that a person understands. There is no I/O here, no clock
//! (the time is in the event) and no randomness, so replaying a ticket's events gives the ticket.

pub mod advance;
pub mod answer;
pub mod attempt;
pub mod bound;
pub mod brief;
mod cleaned;
pub mod dialect;
pub mod epic;
pub mod event;
pub mod export;
pub mod forecast;
pub mod free;
pub mod graph;
pub mod insight;
pub mod job;
mod label;
pub mod ledger;
pub mod narrate;
pub mod opinion;
pub mod policy;
pub mod quality;
pub mod queue;
pub mod remote_access;
pub mod standing;
pub mod ticket;
pub mod time;
pub mod usage;
pub mod verdict;

pub use advance::{Refused, Step, advance, choices, left, open, over_day, replay, stand_in};
pub use event::{Actor, Event, EventKind, Role};
pub use job::{Effect, NewJob, Queue, Task};
pub use policy::Policy;
pub use ticket::{Stage, Ticket, TicketId, Time};
pub use usage::Usage;
