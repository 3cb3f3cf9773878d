//! Authentication as an App: a statement buys a token, which is renewed in time and shown nowhere.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forge::app_auth::{AppCredential, AppKey};
use forge::*;
use serde_json::{Value, json};

use crate::conformance::{HEAD, JumpingClock};
use crate::contract::{Contract, GITHUB};
use crate::fakes::{Fake, Served, Totals, reply, split};

/// A key that was made for this test and opens nothing.
const KEY: &str = include_str!("app_key.pem");

/// A moment, in seconds and as a server writes it.
const DATE: (i64, &str) = (1_795_128_855, "Thu, 19 Nov 2026 22:54:15 GMT");

/// A GitHub that knows one App.
#[derive(Debug, Default)]
struct AppGithub {
    statements: Vec<Value>,
    bought: usize,
    runs: Vec<Value>,
    /// Time of its clock in seconds, if it looks at the times of statements.
    now: Option<i64>,
}

impl Fake for AppGithub {
    fn contracts(&self) -> (&'static str, Vec<&'static Contract>) {
        ("/api/v3", vec![&GITHUB])
    }

    fn answer(&mut self, request: &WireRequest) -> WireResponse {
        let (path, _, body) = split(request, "/api/v3");
        let header = request
            .headers
            .iter()
            .find(|(key, _)| *key == "authorization");
        let bearer = header
            .unwrap()
            .1
            .strip_prefix("Bearer ")
            .unwrap()
            .to_owned();
        let mut is_statement = bearer.matches('.').count() == 2;
        if is_statement {
            let part = |at: usize| {
                let bytes = URL_SAFE_NO_PAD
                    .decode(bearer.split('.').nth(at).unwrap())
                    .unwrap();
                serde_json::from_slice::<Value>(&bytes).unwrap()
            };
            assert_eq!(part(0)["alg"], "RS256");
            let claims = part(1);
            if let Some(now) = self.now {
                let (from, to) = (claims["iat"].as_i64(), claims["exp"].as_i64());
                is_statement = from.unwrap() <= now && (now..=now + 600).contains(&to.unwrap());
            }
            self.statements.push(claims);
        }
        let (status, value) = match (request.method, path.as_str()) {
            ("GET", "/repos/o/r/installation") if is_statement => (200, json!({"id": 9})),
            ("POST", "/app/installations/9/access_tokens") if is_statement => {
                assert_eq!(body["repositories"], json!(["r"]));
                self.bought += 1;
                (201, json!({"token": format!("ghs_{}", self.bought)}))
            }
            ("GET", "/app") if is_statement => (200, json!({"slug": "countersign"})),
            _ if bearer != format!("ghs_{}", self.bought) => (401, json!({})),
            ("GET", "/repos/o/r") => (200, json!({"permissions": {"push": true}})),
            ("GET", path) if path.ends_with("/check-runs") => {
                (200, json!({"check_runs": self.runs}))
            }
            ("POST", "/repos/o/r/check-runs") => {
                // A run that is completed needs a conclusion, and one that is not has none.
                assert_eq!(body["status"] == "completed", !body["conclusion"].is_null());
                // GitHub counts bytes here, and characters in comments.
                assert!(body["output"]["summary"].as_str().unwrap().len() <= 65_535);
                let mut run = body;
                run["id"] = json!(self.runs.len() + 1);
                self.runs.insert(0, run.clone());
                (201, run)
            }
            ("PATCH", path) if path.starts_with("/repos/o/r/check-runs/") => {
                for field in ["status", "conclusion", "output"] {
                    self.runs[0][field] = body[field].clone();
                }
                (200, self.runs[0].clone())
            }
            _ => (422, json!({"message": format!("leaked {bearer}")})),
        };
        let mut answer = reply(status, &value);
        if self.now.is_some() {
            let date = ("date".to_owned(), DATE.1.to_owned());
            answer.headers.push(date);
        }
        answer
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}

#[tokio::test]
async fn an_app_buys_a_token_renews_it_in_time_and_writes_check_runs() {
    let fake = Arc::new(Served(Mutex::new(AppGithub::default())));
    let clock = Arc::new(JumpingClock::default());
    let key = AppKey::new("Iv1.test", KEY, None).unwrap();
    let app = AppCredential::new(key, "o/r");
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::clone(&clock) as _,
        api: "https://ghes.example/api/v3".to_owned(),
        token: ForgeCredential::App(app),
    };
    let forge = Github::new(connection, "o/r").unwrap();
    let me = forge.whoami().await.unwrap();
    assert_eq!(me.login, "countersign[bot]");
    assert!(me.capabilities.has_check_runs);
    let gate = |state| ForgeGate {
        commit: HEAD.to_owned(),
        name: "countersign".to_owned(),
        state,
        description: "\u{1f980}".repeat(30_000),
        url: None,
    };
    for state in [
        GateState::Pending,
        GateState::Pending,
        GateState::Success,
        GateState::Pending,
    ] {
        forge.ensure_gate(&gate(state)).await.unwrap();
    }
    {
        let state = fake.0.lock().unwrap();
        // The third gate completed the first run; work that began again got a second.
        assert_eq!((state.bought, state.runs.len()), (1, 2));
        let claims = &state.statements[0];
        let (from, to) = (
            claims["iat"].as_i64().unwrap(),
            claims["exp"].as_i64().unwrap(),
        );
        assert!(from < 0 && to - from <= 600, "{claims}");
    }
    clock.wait(Duration::from_secs(51 * 60)).await;
    forge.whoami().await.unwrap();
    assert_eq!(fake.0.lock().unwrap().bought, 2);
    let error = forge.issue("7").await.unwrap_err();
    assert!(
        !format!("{error:?} {forge:?}").contains("ghs_"),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_app_whose_clock_is_wrong_signs_with_the_time_of_the_forge() {
    let fake = AppGithub {
        now: Some(DATE.0),
        ..AppGithub::default()
    };
    let fake = Arc::new(Served(Mutex::new(fake)));
    let key = AppKey::new("Iv1.test", KEY, None).unwrap();
    let connection = ForgeConnection {
        transport: Arc::clone(&fake) as _,
        clock: Arc::new(JumpingClock::default()),
        api: "https://ghes.example/api/v3".to_owned(),
        token: ForgeCredential::App(AppCredential::new(key, "o/r")),
    };
    let forge = Github::new(connection, "o/r").unwrap();
    assert_eq!(forge.whoami().await.unwrap().login, "countersign[bot]");
    assert_eq!(fake.0.lock().unwrap().bought, 1);
}

#[test]
fn a_key_that_is_none_is_refused() {
    for (issuer, key) in [
        ("1", ""),
        ("1", "-----BEGIN RSA PRIVATE KEY-----\nAAAA"),
        ("", KEY),
        ("a b", KEY),
    ] {
        assert!(AppKey::new(issuer, key, None).is_err());
    }
}
