//! The sentence about findings that a reviewer's approval called fixed. No verifier looked at them,
//! and the log says so.

use super::{Sentence, plain};
use crate::event::{Event, EventKind};
use crate::ledger::FindingStatus;
use crate::ticket::Ticket;

/// Names the open findings that became fixed by an approval alone.
pub fn describe_stated_fixed(
    before: Option<&Ticket>,
    event: &Event,
    after: &Ticket,
) -> Option<Sentence> {
    if matches!(event.what, EventKind::Verified { .. }) {
        return None;
    }
    let open = before?.ledger.entries.iter();
    let open = open.filter(|entry| entry.status.is_open());
    let closed = open.filter_map(|entry| after.ledger.get(&entry.id));
    let closed = closed.filter(|entry| entry.status == FindingStatus::Fixed);
    let entries: Vec<_> = closed.collect();
    let by = findings::one_line(&entries.first()?.note.as_ref()?.by);
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let noun = if ids.len() == 1 {
        "finding"
    } else {
        "findings"
    };
    let ids = ids.join(", ");
    Some(plain(
        "stated_fixed",
        format!("{by}'s approval is taken as: {noun} {ids} fixed; no verifier looked"),
    ))
}
