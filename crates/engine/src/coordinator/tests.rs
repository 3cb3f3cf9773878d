use serde_json::json;
use store::{FreeJob, JobQuery, JobState, Page};

use super::*;

async fn coordinator() -> (tempfile::TempDir, LocalCoordinator) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    let coordinator = LocalCoordinator {
        store: store::open(path.to_str().unwrap()).await.unwrap(),
        clock: crate::clock::now,
        listener: None,
        refusals: std::sync::Arc::default(),
    };
    (dir, coordinator)
}

fn task(id: &str, depends_on: &[&str]) -> FreeJob {
    FreeJob {
        queue: "qa".into(),
        kind: "review".to_owned(),
        body: json!({"id": id, "title": id, "depends_on": depends_on}),
        priority: 50,
        not_before: None,
        agent: None,
        key: Some(format!("task/{id}")),
        queue_max: None,
        needs: BTreeSet::new(),
        depends_on: depends_on.iter().map(|id| format!("task/{id}")).collect(),
    }
}

fn request() -> JobRequest {
    JobRequest {
        name: "qa-1".to_owned(),
        worker: "session:qa-1".to_owned(),
        tasks: vec!["qa".into()],
        most: 8,
        ..JobRequest::default()
    }
}

#[tokio::test]
async fn a_task_whose_agent_fell_silent_goes_back_and_the_log_says_whose_it_was() {
    let (_dir, coordinator) = coordinator().await;
    coordinator
        .store
        .enqueue(vec![task("t-1", &[])])
        .await
        .unwrap();
    assert_eq!(coordinator.claim(&request()).await.unwrap().len(), 1);
    assert_eq!(coordinator.take_back_lapsed().await.unwrap(), 1);
    assert_eq!(coordinator.take_back_lapsed().await.unwrap(), 0);
    let ready = JobQuery {
        state: Some(JobState::Ready),
        ..JobQuery::default()
    };
    let jobs = coordinator
        .store
        .jobs(&ready, &Page::default())
        .await
        .unwrap();
    assert_eq!(jobs.items.len(), 1);
    let events = coordinator.store.newest_events(None, 10).await.unwrap();
    let lost = events.iter().find(|event| event.name == "job_lease_lost");
    assert_eq!(lost.unwrap().by, "session:qa-1");
}

#[tokio::test]
async fn what_waits_for_others_or_is_skipped_is_neither_offered_nor_claimed() {
    let (_dir, coordinator) = coordinator().await;
    let jobs = vec![task("first", &[]), task("second", &["first"])];
    let jobs = coordinator.store.enqueue(jobs).await.unwrap();
    let offers = coordinator.wait(&request(), Duration::ZERO).await.unwrap();
    let offered: Vec<WorkItem> = offers.into_iter().map(|offer| offer.of).collect();
    assert_eq!(offered, [WorkItem::Task(jobs[0])]);
    let skipping = JobRequest {
        skip: offered,
        ..request()
    };
    let offers = coordinator.wait(&skipping, Duration::ZERO).await.unwrap();
    assert!(offers.is_empty());
    let second = JobRequest {
        only: Some(WorkItem::Task(jobs[1])),
        ..request()
    };
    assert!(coordinator.claim(&second).await.unwrap().is_empty());
    let any = coordinator.claim(&request()).await.unwrap();
    assert_eq!(any[0].id, jobs[0]);
}

#[tokio::test]
async fn a_lease_is_looked_at_and_prolonged_by_its_holder_alone() {
    let (_dir, coordinator) = coordinator().await;
    coordinator
        .store
        .enqueue(vec![task("t-1", &[])])
        .await
        .unwrap();
    let claims = coordinator.claim(&request()).await.unwrap();
    let (job, fence) = (claims[0].id, claims[0].fence);
    assert!(coordinator.renew(job, fence, None).await.is_ok());
    assert!(coordinator.renew(job, fence, Some(POLL)).await.is_ok());
    for extend in [None, Some(POLL)] {
        let late = coordinator.renew(job, fence + 1, extend).await;
        assert!(late.is_err_and(|error| error.is_stale()));
    }
    assert!(coordinator.store.cancel(job, "ada", "no").await.unwrap());
    let dropped = coordinator.renew(job, fence, None).await;
    assert!(dropped.is_err_and(|error| error.is_stale()));
}
