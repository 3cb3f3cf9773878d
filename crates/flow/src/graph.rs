//! Orders tickets by their dependencies, or finds the cycle that makes that impossible.
//!
//! A cycle would leave all its tickets pending for ever, with nothing that fails and nothing to
//! show. So it is refused when the tickets are created, with the names of the whole ring.

use std::collections::{BTreeMap, BTreeSet};

use crate::ticket::TicketId;

/// Tickets that wait for each other in a cycle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these tickets wait for each other: {}; take one of the dependencies out", format_cycle(.0))]
pub struct DependencyCycle(pub Vec<TicketId>);

fn format_cycle(ids: &[TicketId]) -> String {
    let mut names: Vec<&str> = ids.iter().map(TicketId::as_str).collect();
    names.extend(ids.first().map(TicketId::as_str));
    names.join(" → ")
}

/// Sorts tickets so that each comes after its dependencies. A dependency that is not a key of the
/// graph counts as met.
pub fn topological_order(
    graph: &BTreeMap<TicketId, BTreeSet<TicketId>>,
) -> Result<Vec<TicketId>, DependencyCycle> {
    let mut done: BTreeSet<&TicketId> = BTreeSet::new();
    let mut sorted = Vec::with_capacity(graph.len());
    // Each pass takes at least one ticket or ends, so the loop is bounded by their number.
    while sorted.len() < graph.len() {
        let ready = |needs: &BTreeSet<TicketId>| {
            needs
                .iter()
                .all(|need| done.contains(need) || !graph.contains_key(need))
        };
        let next: Vec<&TicketId> = graph
            .iter()
            .filter(|(id, needs)| !done.contains(id) && ready(needs))
            .map(|(id, _)| id)
            .collect();
        // Nothing is ready and something is left: the rest contains a cycle.
        if next.is_empty() {
            return Err(find_cycle(graph, &done));
        }
        sorted.extend(next.iter().map(|id| (*id).clone()));
        done.extend(next);
    }
    Ok(sorted)
}

/// Walks from one unfinished ticket to the next until it meets one for the second time.
fn find_cycle(
    graph: &BTreeMap<TicketId, BTreeSet<TicketId>>,
    done: &BTreeSet<&TicketId>,
) -> DependencyCycle {
    let mut walk: Vec<TicketId> = Vec::new();
    let mut at = graph.keys().find(|id| !done.contains(id));
    while let Some(id) = at {
        if let Some(start) = walk.iter().position(|visited| visited == id) {
            // The walk may begin outside of the ring. Only the ring is shown.
            return DependencyCycle(walk.split_off(start));
        }
        walk.push(id.clone());
        let needs = graph.get(id);
        at = needs.and_then(|needs| {
            needs
                .iter()
                .find(|need| graph.contains_key(need) && !done.contains(need))
        });
    }
    DependencyCycle(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &[&str])]) -> BTreeMap<TicketId, BTreeSet<TicketId>> {
        let id = |name: &&str| TicketId::new(name).unwrap();
        edges
            .iter()
            .map(|(name, needs)| (id(name), needs.iter().map(id).collect()))
            .collect()
    }

    #[test]
    fn every_ticket_comes_after_what_it_needs() {
        let sorted = topological_order(&graph(&[
            ("a", &["b", "c"]),
            ("b", &["c"]),
            ("c", &["elsewhere"]),
        ]))
        .unwrap();
        let names: Vec<&str> = sorted.iter().map(TicketId::as_str).collect();
        assert_eq!(names, ["c", "b", "a"]);
    }

    #[test]
    fn a_ring_is_named_from_end_to_end() {
        let cycle =
            topological_order(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])).unwrap_err();
        assert_eq!(
            cycle.to_string(),
            "these tickets wait for each other: b → c → b; take one of the dependencies out"
        );
    }

    #[test]
    fn a_ticket_that_needs_itself_is_a_ring_of_one() {
        let cycle = topological_order(&graph(&[("a", &["a"])])).unwrap_err();
        assert!(cycle.to_string().contains("a → a"));
    }
}
