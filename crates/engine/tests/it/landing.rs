//! The landing queue on a real repository: what lands, what goes back, and who has the turn.

#[path = "../../examples/landing/ground.rs"]
mod ground;

use flow::Stage;
use flow::ticket::ReworkReason;
use ground::{Ground, Kind};

#[tokio::test]
async fn a_batch_lands_but_for_the_conflict_and_the_red_pair() {
    let ground = Ground::new(8, "true").await;
    let kinds = [
        Kind::Plain,
        Kind::Conflicts,
        Kind::Plain,
        Kind::Plain,
        Kind::RedTogether,
        Kind::Plain,
    ];
    let ids = ground.approve(&kinds).await;
    ground.land(&ids).await;
    let mut stages = Vec::new();
    for id in &ids {
        stages.push(ground.ticket(id).await.stage);
    }
    let (done, back) = (Stage::Done, Stage::Rework);
    assert_eq!(stages, [done, back, done, done, back, done]);
    let conflict = ground.ticket(&ids[1]).await.setback;
    assert!(
        matches!(conflict, Some(ReworkReason::Conflict { .. })),
        "{conflict:?}"
    );
    let red = ground.ticket(&ids[4]).await.setback;
    let Some(ReworkReason::RedCombination { results }) = &red else {
        panic!("{red:?}");
    };
    assert_eq!(results[0].name, "test", "with the evidence");
    assert_eq!(ground.rework(&ids).await, 2);
    ground.land(&ids).await;
    for id in &ids {
        assert_eq!(ground.ticket(id).await.stage, Stage::Done, "{id}");
    }
    assert_eq!(ground.merges(), ids.len());
    assert!(ground.is_green());
}

#[tokio::test]
async fn two_queues_on_one_branch_do_not_fight() {
    let ground = Ground::new(2, "true").await;
    let ids = ground.approve(&[Kind::Plain; 6]).await;
    tokio::join!(ground.land(&ids), ground.land(&ids));
    for id in &ids {
        let ticket = ground.ticket(id).await;
        assert_eq!(ticket.stage, Stage::Done, "{id}");
    }
    assert_eq!(ground.merges(), ids.len(), "each landed once");
}
