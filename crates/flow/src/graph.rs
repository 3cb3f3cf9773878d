//! The order in which tickets can be done, or the cycle that makes it impossible.

use std::collections::{BTreeMap, BTreeSet};

use crate::ticket::TicketId;

/// Tickets that wait for each other in a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these tickets wait for each other: {}; take one of the dependencies out", ring(.0))]
pub struct DependencyCycle(pub Vec<TicketId>);

fn ring(ids: &[TicketId]) -> String {
    let mut names: Vec<&str> = ids.iter().map(TicketId::as_str).collect();
    names.extend(ids.first().map(TicketId::as_str));
    names.join(" → ")
}

/// An order in which every ticket comes after all it depends on. Dependencies that are not among
/// the keys are taken to exist already.
pub fn order(
    graph: &BTreeMap<TicketId, BTreeSet<TicketId>>,
) -> Result<Vec<TicketId>, DependencyCycle> {
    let mut done: BTreeSet<&TicketId> = BTreeSet::new();
    let mut sorted = Vec::with_capacity(graph.len());
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
        if next.is_empty() {
            return Err(cycle(graph, &done));
        }
        sorted.extend(next.iter().map(|id| (*id).clone()));
        done.extend(next);
    }
    Ok(sorted)
}

/// Walks from one unfinished ticket to the next until it meets one again.
fn cycle(
    graph: &BTreeMap<TicketId, BTreeSet<TicketId>>,
    done: &BTreeSet<&TicketId>,
) -> DependencyCycle {
    let mut walk: Vec<TicketId> = Vec::new();
    let mut at = graph.keys().find(|id| !done.contains(id));
    while let Some(id) = at {
        if let Some(start) = walk.iter().position(|seen| seen == id) {
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
        let sorted = order(&graph(&[
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
        let cycle = order(&graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])])).unwrap_err();
        assert_eq!(
            cycle.to_string(),
            "these tickets wait for each other: b → c → b; take one of the dependencies out"
        );
    }

    #[test]
    fn a_ticket_that_needs_itself_is_a_ring_of_one() {
        let cycle = order(&graph(&[("a", &["a"])])).unwrap_err();
        assert!(cycle.to_string().contains("a → a"));
    }
}
