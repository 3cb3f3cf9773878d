//! Tests what only `PostgreSQL` has: a server that can be away, and connections that break.

use std::time::Duration;

use serde_json::json;
use store::{Error, Remembered, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    LONG, TestStore, ask, blank, claim_one, creation, drop_schema, empty_schema, id, number,
    on_server, open, server_with_tls,
};

async fn refusal(place: &str) -> Error {
    let hasty = Settings {
        connect_timeout: Duration::from_secs(5),
        ..Settings::default()
    };
    store::open_with(place, hasty).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_is_away_is_named_as_such() {
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let refused = refusal(&format!("postgres://nobody@127.0.0.1:{port}/none")).await;
    assert!(matches!(refused, Error::Unreachable(_)), "{refused}");
    assert!(refused.is_transient());
}

#[tokio::test]
async fn what_is_no_address_is_said() {
    let refused = refusal("postgres://nobody@127.0.0.1/none?sslmode=loose").await;
    assert!(refused.to_string().contains("sslmode"), "{refused}");
    let refused = refusal("postgres://nobody@127.0.0.1:port/none").await;
    assert!(refused.to_string().contains("URL"), "{refused}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(house) = TestStore::postgres().await else {
        return;
    };
    on_server(&house.place, "UPDATE schema_version SET version = 99").await;
    let refused = refusal(&house.place).await;
    assert!(
        matches!(refused, Error::NewerSchema { found: 99, .. }),
        "{refused}"
    );
    drop_schema(&house.schema().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_together_on_an_empty_schema_is_safe() {
    let Some(house) = TestStore::postgres().await else {
        return;
    };
    let schema = house.schema().unwrap();
    drop(house.store);
    on_server(
        &house.place,
        &format!("DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}"),
    )
    .await;
    let mut openers = tokio::task::JoinSet::new();
    for n in 0..8 {
        let place = house.place.clone();
        openers.spawn(async move {
            let store = open(&place).await;
            store
                .commit(creation(blank(&format!("T-{n}"))))
                .await
                .unwrap();
        });
    }
    openers.join_all().await;
    drop_schema(&schema).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_is_woken_after_its_connections_broke() {
    let Some(house) = TestStore::postgres().await else {
        return;
    };
    let schema = house.schema().unwrap();
    let store = house.store.clone();
    let waiter = tokio::spawn(async move {
        loop {
            match store.claim(&ask("work")).await {
                Ok(claimed) if !claimed.is_empty() => return,
                Ok(_) => store.wait(&ask("work"), LONG).await,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
    });
    // The listener is there before the waiter sleeps.
    let listening = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE query = 'LISTEN \"countersign_{schema}\"'"
    );
    while ended(&house.place, &listening).await == 0 {
        tokio::task::yield_now().await;
    }
    number(&*house.another().await, "work", 1).await;
    let woken = tokio::time::timeout(Duration::from_secs(30), waiter);
    woken.await.unwrap().unwrap();
    drop_schema(&schema).await;
}

async fn ended(place: &str, sql: &str) -> usize {
    let (client, connection) = tokio_postgres::connect(place, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client.query(sql, &[]).await.unwrap().len()
}

/// The server commits and its answer is lost on the way: nobody knows, so nobody claims to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_unknown_and_can_be_looked_up() {
    let Some(house) = TestStore::postgres().await else {
        return;
    };
    let (before, after) = house.place.rsplit_once('@').unwrap();
    let (server, rest) = after.split_once('/').unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port();
    tokio::spawn(lose_answers(proxy, server.to_owned()));
    let store = open(&format!("{before}@127.0.0.1:{port}/{rest}")).await;
    let mut change = creation(blank("T-1"));
    change.remember = Some(Remembered {
        key: "key".to_owned(),
        payload_hash: "hash".to_owned(),
        answer: json!("done"),
    });
    let lost = store.commit(change).await;
    assert!(matches!(lost, Err(Error::OutcomeUnknown(_))), "{lost:?}");
    let recalled = house.store.recall("key").await.unwrap().unwrap();
    assert_eq!(recalled.answer, json!("done"));
    assert!(house.store.ticket(&id("T-1")).await.unwrap().is_some());
    drop_schema(&house.schema().unwrap()).await;
}

/// Passes everything on until a store's own COMMIT: that reaches the server, its answer nobody.
async fn lose_answers(proxy: TcpListener, server: String) {
    while let Ok((client, _)) = proxy.accept().await {
        let server = TcpStream::connect(&server).await.unwrap();
        tokio::spawn(pass_on(client, server));
    }
}

async fn pass_on(mut client: TcpStream, mut server: TcpStream) {
    let (mut said, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let commit = |text: &[u8]| text.windows(7).any(|w| w == b"COMMIT\0");
    let mut prepared = false;
    loop {
        tokio::select! {
            read = client.read(&mut said) => {
                let Ok(bytes @ 1..) = read else { return };
                let text = &said[..bytes];
                // The store prepares its COMMIT; what the migration sends is plain text.
                prepared |= text.first() == Some(&b'P') && commit(text);
                server.write_all(text).await.unwrap();
            }
            read = server.read(&mut answered) => {
                let Ok(bytes @ 1..) = read else { return };
                // It is done, and nobody hears of it.
                if prepared && commit(&answered[..bytes]) {
                    return;
                }
                if client.write_all(&answered[..bytes]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_leaves_no_transaction_behind() {
    let Some(house) = TestStore::postgres().await else {
        return;
    };
    let one = Settings {
        connections_max: 1,
        ..crate::support::settings()
    };
    let store = store::open_with(&house.place, one).await.unwrap();
    for n in 0..50_u64 {
        let change = creation(blank(&format!("T-{n}")));
        // Given up at another instant each time; the next call finds the connection usable.
        let patience = Duration::from_micros(n * 40);
        let _ = tokio::time::timeout(patience, store.commit(change)).await;
        let name = format!("U-{n}");
        store.commit(creation(blank(&name))).await.unwrap();
        assert!(house.store.ticket(&id(&name)).await.unwrap().is_some());
    }
    number(&*store, "work", 1).await;
    claim_one(&*store, &ask("work")).await;
    drop_schema(&house.schema().unwrap()).await;
}

#[tokio::test]
async fn tls_proves_as_much_as_its_mode_says() {
    let Some((server, authority)) = server_with_tls() else {
        return;
    };
    let stranger = tempfile::tempdir().unwrap();
    let stranger = stranger.path().join("ca.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    std::fs::write(&stranger, parameters.self_signed(&key).unwrap().pem()).unwrap();
    let stranger = stranger.to_str().unwrap();
    // The certificate is for the address and not for the name.
    let named = server.replace("127.0.0.1", "localhost");
    let schema = empty_schema().await.unwrap();
    let options = schema.split("options=").nth(1).unwrap();
    for (server, query, works) in [
        (&server, "sslmode=disable".to_owned(), true),
        (&server, "sslmode=prefer".to_owned(), true),
        (&server, "sslmode=require".to_owned(), true),
        (&named, "sslmode=require".to_owned(), true),
        (
            &server,
            format!("sslmode=verify-full&sslrootcert={authority}"),
            true,
        ),
        (
            &named,
            format!("sslmode=verify-full&sslrootcert={authority}"),
            false,
        ),
        (
            &named,
            format!("sslmode=verify-ca&sslrootcert={authority}"),
            true,
        ),
        (
            &server,
            format!("sslmode=require&sslrootcert={stranger}"),
            false,
        ),
        (
            &server,
            format!("sslmode=verify-ca&sslrootcert={stranger}"),
            false,
        ),
        (
            &server,
            format!("sslmode=verify-full&sslrootcert={stranger}"),
            false,
        ),
        // The machine's own authorities do not know a certificate of a test.
        (&server, "sslmode=verify-full".to_owned(), false),
        (
            &server,
            "sslmode=verify-full&sslrootcert=/nowhere.pem".to_owned(),
            false,
        ),
        (&server, "sslmode=loose".to_owned(), false),
    ] {
        let opened = store::open(&format!("{server}?{query}&options={options}")).await;
        assert_eq!(opened.is_ok(), works, "{query} to {server}: {opened:?}");
        if let Ok(store) = opened {
            store.now().await.unwrap();
        }
    }
}
