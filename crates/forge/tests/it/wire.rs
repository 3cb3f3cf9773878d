//! Over real connections: redirects, tokens, limits on answers, and connections that break.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use forge::{ForgeError, HyperTransport, IssueGoal, Tracker, WireRequest, WriteObstacle};
use hyper::server::conn::http1;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;

use crate::conformance::{JumpingClock, connect, fake};
use crate::fake_github::{FakeGithub, TOKEN};

/// Serves the fake on a port of this machine; returns its address.
async fn serve(fake: Arc<FakeGithub>) -> String {
    let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let method = ["GET", "POST", "PATCH", "PUT", "DELETE"]
            .into_iter()
            .find(|name| *name == method.as_str())
            .unwrap();
        let authorization = headers
            .get("authorization")
            .map(|value| ("authorization", value.to_str().unwrap().to_owned()));
        let request = WireRequest {
            method,
            url: uri.to_string(),
            headers: authorization.into_iter().collect(),
            body: body.to_vec(),
            is_write: false,
        };
        let reply = fake.0.lock().unwrap().answer(&request);
        let mut map = HeaderMap::new();
        if let Some(location) = reply.header("location") {
            map.insert("location", location.parse().unwrap());
        }
        (StatusCode::from_u16(reply.status).unwrap(), map, reply.body)
    };
    listen(Router::new().fallback(answer)).await
}

async fn listen(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(router.clone());
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    format!("http://{address}")
}

fn github(api: &str) -> forge::Github {
    let transport = HyperTransport(Client::builder(TokioExecutor::new()).build_http());
    connect(Arc::new(transport), Arc::new(JumpingClock::default()), api)
}

#[tokio::test]
async fn a_renamed_repository_is_followed_for_reading_only() {
    let fake = fake();
    fake.0.lock().unwrap().renamed = true;
    let forge = github(&format!("{}/api/v3", serve(Arc::clone(&fake)).await));
    assert_eq!(forge.issue("7").await.unwrap().unwrap().title, "t");
    let me = forge.whoami().await.unwrap();
    assert_eq!(
        me.obstacle,
        Some(WriteObstacle::Renamed("o/new".to_owned()))
    );
    let error = forge
        .ensure_issue_state("7", &IssueGoal::Done)
        .await
        .unwrap_err();
    assert!(matches!(&error, ForgeError::Moved { .. }), "{error}");
    assert_eq!(fake.0.lock().unwrap().writes, 0);
}

#[tokio::test]
async fn a_token_is_never_carried_to_another_host_nor_shown() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let elsewhere = listen(
        Router::new().fallback(move |headers: HeaderMap| async move {
            record.lock().unwrap().push(headers);
            "{}"
        }),
    )
    .await;
    let target = format!("{elsewhere}/steal");
    let redirect = listen(Router::new().fallback(move || async move {
        (StatusCode::MOVED_PERMANENTLY, [("location", target)]).into_response()
    }))
    .await;
    let forge = github(&redirect);
    forge.issue("7").await.unwrap();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    for headers in seen.iter() {
        assert!(headers.get("authorization").is_none() && !format!("{headers:?}").contains(TOKEN));
    }
    assert!(!format!("{forge:?}").contains(TOKEN));
}

#[tokio::test]
async fn an_answer_that_repeats_the_token_is_redacted() {
    let echo = listen(Router::new().fallback(|headers: HeaderMap| async move {
        let token = headers["authorization"].to_str().unwrap().to_owned();
        (StatusCode::UNPROCESSABLE_ENTITY, token)
    }))
    .await;
    let error = github(&echo).whoami().await.unwrap_err();
    assert!(
        error.to_string().contains("[token]") && !format!("{error:?}").contains(TOKEN),
        "{error}"
    );
}

#[tokio::test]
async fn the_beginning_of_a_token_is_not_shown_where_a_long_answer_is_cut() {
    for before in [0, 250, 260, 270, 280, 290, 299] {
        let echo = move |headers: HeaderMap| async move {
            let token = headers["authorization"].to_str().unwrap().to_owned();
            let token = token.strip_prefix("Bearer ").unwrap();
            let text = format!("{}{token}", "-".repeat(before));
            (StatusCode::UNPROCESSABLE_ENTITY, text)
        };
        let forge = github(&listen(Router::new().fallback(echo)).await);
        let error = forge.whoami().await.unwrap_err().to_string();
        assert!(!error.contains(&TOKEN[..4]), "{before}: {error}");
    }
}

#[tokio::test]
async fn an_endless_answer_and_a_closed_port_are_errors() {
    let huge = listen(Router::new().fallback(|| async { vec![b' '; 17 * 1024 * 1024] })).await;
    assert!(github(&huge).whoami().await.unwrap_err().is_lost());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert!(github(&address).whoami().await.unwrap_err().is_lost());
}

#[test]
fn a_token_is_not_sent_in_the_clear() {
    let transport = HyperTransport(Client::builder(TokioExecutor::new()).build_http());
    let connection = forge::ForgeConnection {
        transport: Arc::new(transport),
        clock: Arc::new(JumpingClock::default()),
        api: "http://git.example/api/v3".to_owned(),
        token: forge::ForgeToken::new(TOKEN).unwrap().into(),
    };
    assert!(forge::Github::new(connection, "o/r").is_err());
}
