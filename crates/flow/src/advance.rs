//! stub
use crate::{Effect, Event, Policy, Ticket};
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub ticket: Ticket,
    pub effects: Vec<Effect>,
}
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused")]
pub struct Refused;
pub fn advance(_: &Ticket, _: &Event, _: &Policy) -> Result<Step, Refused> {
    Err(Refused)
}
pub fn open(_: &crate::TicketId, _: &Event, _: &Policy) -> Result<Step, Refused> {
    Err(Refused)
}
pub fn replay() {}
pub fn choices() {}
