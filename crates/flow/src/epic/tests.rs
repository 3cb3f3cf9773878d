use super::*;
use crate::event::{Actor, Event, EventKind, Role};
use crate::policy::Policy;
use crate::ticket::{Spec, Time};

fn ticket(name: &str, stage: Stage, critical: bool) -> Ticket {
    let what = EventKind::Created {
        spec: Box::new(Spec {
            title: name.to_owned(),
            critical,
            ..Spec::default()
        }),
        met: std::collections::BTreeSet::new(),
        failed: Vec::new(),
    };
    let event = Event {
        at: Time(0),
        by: Actor::new("p", Role::Human),
        expects: None,
        what,
    };
    let id = TicketId::new(name).unwrap();
    let mut ticket = crate::open_ticket(&id, &event, &Policy::default())
        .unwrap()
        .ticket;
    ticket.stage = stage;
    ticket
}

#[test]
fn an_epic_stands_as_its_tickets_do() {
    use Stage::{Blocked, Cancelled, Done, Escalated, Failed, Pending, Queued};
    type Row = (&'static [(Stage, bool)], EpicSignoff, &'static str);
    let rows: [Row; 8] = [
        (
            &[(Done, false), (Queued, false)],
            EpicSignoff::Waiting,
            "goes",
        ),
        (
            &[(Escalated, false), (Queued, false)],
            EpicSignoff::Waiting,
            "goes",
        ),
        (
            &[(Failed, true), (Queued, false)],
            EpicSignoff::Waiting,
            "stopped",
        ),
        (
            &[(Escalated, true), (Pending, false)],
            EpicSignoff::Waiting,
            "waits",
        ),
        (
            &[(Failed, false), (Blocked, false)],
            EpicSignoff::Waiting,
            "waits",
        ),
        (
            &[(Done, false), (Cancelled, false)],
            EpicSignoff::Waiting,
            "incomplete",
        ),
        (
            &[(Done, true), (Done, false)],
            EpicSignoff::Waiting,
            "at_the_gate",
        ),
        (
            &[(Done, true), (Done, false)],
            EpicSignoff::Signed,
            "complete",
        ),
    ];
    for (stages, gate, word) in rows {
        let tickets: Vec<Ticket> = stages
            .iter()
            .enumerate()
            .map(|(n, (stage, critical))| ticket(&format!("t{n}"), *stage, *critical))
            .collect();
        let said = serde_json::to_value(epic_status(&tickets, gate)).unwrap();
        assert_eq!(said["standing"], word, "{stages:?}");
    }
}

#[test]
fn a_rehearsal_names_every_agent_in_the_words_of_the_loop_with_documents() {
    let id = TicketId::new("1.2").unwrap();
    assert_eq!(
        dry_run_plan(&id, 2, &["reviewer".to_owned()]),
        [
            "[DRY-RUN] Would spawn epic-builder for Story 1.2",
            "[DRY-RUN] Would spawn epic-reviewer for Story 1.2 round 1",
            "[DRY-RUN] Would spawn epic-fixer for Story 1.2 round 1",
            "[DRY-RUN] Would spawn epic-reviewer for Story 1.2 round 2",
        ]
    );
}
