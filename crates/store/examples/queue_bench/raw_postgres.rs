//! Baseline for `PostgreSQL`: SKIP LOCKED and LISTEN/NOTIFY on minimal tables, with prepared
//! statements that are each a transaction.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::latency::{GAP, SAMPLES, report};

const TABLES: &str = "DROP SCHEMA IF EXISTS countersign_raw CASCADE;
    CREATE SCHEMA countersign_raw;
    SET search_path = countersign_raw;
    CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text, state text,
        priority integer, holder text, until bigint, body text);
    CREATE INDEX ready ON jobs (queue, priority DESC, id) WHERE state = 'ready';
    CREATE TABLE events (sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint,
        name text, body text);";

const PUT_IN: &str = "WITH added AS (INSERT INTO jobs (queue, state, priority, body)
        SELECT 'work', 'ready', 50, unnest($1::text[]) RETURNING id)
    INSERT INTO events (at, name, body)
    SELECT 1, 'enqueued', json_build_object('job', id)::text FROM added";

/// The same session settings as the store, for a fair comparison.
const SESSION: &str = "SET search_path = countersign_raw; SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET jit = off";

/// Completes the held jobs and claims the next ones, in one statement.
const TURN: &str = "WITH done AS (UPDATE jobs SET state = 'done' WHERE id = ANY ($1::bigint[])
        RETURNING id),
    picked AS MATERIALIZED (SELECT id FROM jobs WHERE state = 'ready' AND queue = 'work'
            AND (SELECT count(*) FROM done) >= 0
        ORDER BY priority DESC, id LIMIT $2 FOR UPDATE SKIP LOCKED),
    taken AS (UPDATE jobs SET state = 'leased', holder = 'raw', until = 1
        FROM picked WHERE jobs.id = picked.id RETURNING jobs.id, body),
    logged AS (INSERT INTO events (at, name, body)
        SELECT 1, 'done', json_build_object('job', id)::text FROM done
        UNION ALL SELECT 1, 'claimed', json_build_object('job', id)::text FROM taken)
    SELECT id, body FROM taken";

pub async fn execute(url: &str, sql: &str) {
    connect(url).await.batch_execute(sql).await.unwrap();
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn in_schema(url: &str) -> Client {
    let client = connect(url).await;
    client.batch_execute(SESSION).await.unwrap();
    client
}

pub async fn jobs_per_second(url: &str, jobs: u32, workers: u32, batch: u32) -> f64 {
    execute(url, TABLES).await;
    let mut clients = Vec::new();
    for _ in 0..workers {
        clients.push(in_schema(url).await);
    }
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for client in clients {
        tasks.spawn(work(client, jobs / workers / batch, batch));
    }
    let finished: u32 = tasks.join_all().await.into_iter().sum();
    assert_eq!(finished, jobs / workers / batch * batch * workers);
    let speed = f64::from(finished) / began.elapsed().as_secs_f64();
    execute(url, "DROP SCHEMA countersign_raw CASCADE").await;
    speed
}

async fn work(client: Client, rounds: u32, batch: u32) -> u32 {
    let put_in = client.prepare(PUT_IN).await.unwrap();
    let turn = client.prepare(TURN).await.unwrap();
    let bodies: Vec<&str> = (0..batch).map(|_| "{\"n\":1}").collect();
    let mut job_ids: Vec<i64> = Vec::new();
    let (mut finished, mut round) = (0, 0);
    while round < rounds || !job_ids.is_empty() {
        if round < rounds {
            client.execute(&put_in, &[&bodies]).await.unwrap();
        }
        round += 1;
        finished += u32::try_from(job_ids.len()).unwrap();
        let next = client
            .query(&turn, &[&job_ids, &i64::from(batch)])
            .await
            .unwrap();
        job_ids = next.iter().map(|row| row.get(0)).collect();
    }
    finished
}

/// Measures a NOTIFY with each insert; the listener claims.
pub async fn from_enqueue_to_start(url: &str) {
    execute(url, TABLES).await;
    let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let notified = Arc::new(Notify::new());
    let notify = Arc::clone(&notified);
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|c| connection.poll_message(c)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                notify.notify_one();
            }
        }
    });
    listener.batch_execute(SESSION).await.unwrap();
    listener.batch_execute("LISTEN raw").await.unwrap();
    let turn = listener.prepare(TURN).await.unwrap();
    let producer = in_schema(url).await;
    let sql = PUT_IN.replace(
        "\n    INSERT INTO events",
        ",\n    logged AS (INSERT INTO events",
    );
    let sql = format!("{sql}) SELECT pg_notify('raw', '') FROM added");
    let put_in = producer.prepare(&sql).await.unwrap();
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let _ = tokio::time::timeout(GAP, std::future::pending::<()>()).await;
        let began = Instant::now();
        let elapsed = async {
            notified.notified().await;
            let none: Vec<i64> = Vec::new();
            let claimed = listener.query(&turn, &[&none, &1_i64]).await.unwrap();
            assert_eq!(claimed.len(), 1);
            began.elapsed()
        };
        let bodies = vec!["{\"n\":1}"];
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&bodies];
        let (_, elapsed) = tokio::join!(producer.query(&put_in, &values), elapsed);
        samples.push(elapsed);
    }
    println!("\n| enqueue → start | p50 | p99 |\n|---|---:|---:|");
    report("raw LISTEN/NOTIFY", samples);
    execute(url, "DROP SCHEMA countersign_raw CASCADE").await;
}
