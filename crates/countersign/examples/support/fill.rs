//! A store with many tickets in it, as measurements want it.

use engine::coordinator::LocalCoordinator;
use flow::ticket::Spec;
use flow::{Actor, Policy, Role, TicketId};
use tokio::task::JoinSet;

/// How many tickets are made at a time: they share the syncs of the disk.
const AT_ONCE: usize = 64;

/// Adds so many to the store at this place.
pub async fn fill(place: &str, tickets: usize) {
    let desk = LocalCoordinator {
        store: store::open(place).await.unwrap(),
        clock: engine::clock::now,
        listener: None,
        refusals: std::sync::Arc::default(),
    };
    let mut making = JoinSet::new();
    for number in 0..tickets {
        if making.len() >= AT_ONCE {
            making.join_next().await.unwrap().unwrap();
        }
        making.spawn(ticket(desk.clone(), number));
    }
    making.join_all().await;
}

async fn ticket(desk: LocalCoordinator, number: usize) {
    let id = TicketId::new(&format!("T-{number}")).unwrap();
    let spec = Spec {
        title: format!("Something that is wanted, number {number}"),
        ..Spec::default()
    };
    let by = Actor::new("ada", Role::Human);
    desk.open(&id, spec, &Policy::default(), (by, None))
        .await
        .unwrap();
}
