//! The parts that all fakes of servers share.

use std::sync::Mutex;

use async_trait::async_trait;
use forge::{ForgeTransport, WireFailure, WireRequest, WireResponse};
use serde_json::{Value, json};

use crate::contract::{Contract, Exchange};

pub const TOKEN: &str = "token_never_shown";

/// Everything that a story left behind, in the same terms for every forge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub changes: usize,
    pub merged: bool,
    pub reviews: usize,
    pub threads: usize,
    pub replies: usize,
    /// `None` where threads cannot be resolved.
    pub resolved: Option<usize>,
    pub comments: Vec<String>,
    pub labels: Vec<String>,
    pub issue_closed: bool,
    pub gate: Option<String>,
    pub writes: usize,
    pub refused: Vec<String>,
}

/// A real repository behind a fake, so that heads and lines are those that were pushed.
pub trait FakeRepository: Send + std::fmt::Debug {
    /// Commit of a branch.
    fn head(&self, branch: &str) -> String;
    /// Number of lines of the only file that a change adds.
    fn lines(&self, commit: &str) -> u64;
    /// Moves the base branch to a commit.
    fn merge(&self, commit: &str);
}

/// A server that remembers.
pub trait Fake: Send + std::fmt::Debug {
    /// Path of its API, and the official specifications of that.
    fn contracts(&self) -> (&'static str, Vec<&'static Contract>) {
        ("", Vec::new())
    }

    fn answer(&mut self, request: &WireRequest) -> WireResponse;
    fn totals(&self) -> Totals;
}

/// A fake behind a transport.
#[derive(Debug)]
pub struct Served<F>(pub Mutex<F>);

impl<F: Fake> Served<F> {
    /// Answers a request, and checks both against the official specifications.
    pub fn answer(&self, request: &WireRequest) -> WireResponse {
        let mut fake = self.0.lock().unwrap();
        let response = fake.answer(request);
        let (api, contracts) = fake.contracts();
        contracts.into_iter().fold(response, |response, contract| {
            checked(contract, api, request, response)
        })
    }
}

#[async_trait]
impl<F: Fake> ForgeTransport for Served<F> {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        Ok(self.answer(request))
    }
}

/// Checks a request and its answer against a specification, and completes the answer.
pub fn checked(
    contract: &Contract,
    api: &str,
    request: &WireRequest,
    response: WireResponse,
) -> WireResponse {
    let (path, query, body) = split(request, api);
    let answer = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
    let exchange = Exchange {
        method: request.method,
        path: &path,
        query: &query,
        request: &body,
        status: response.status,
        answer,
    };
    let answer = contract
        .check(exchange)
        .unwrap_or_else(|why| panic!("{why}"));
    let body = reply(response.status, &answer).body;
    WireResponse { body, ..response }
}

/// Splits a request into path, query and body. The path is below the API.
pub fn split(request: &WireRequest, api: &str) -> (String, String, Value) {
    let rest = request.url.split_once(api).map_or("", |(_, rest)| rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    (path.to_owned(), query.to_owned(), body)
}

pub fn number(query: &str, name: &str, default: usize) -> usize {
    let found = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
    found.and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub fn page(entries: &[Value], query: &str) -> (u16, Value) {
    let size = number(query, "limit", number(query, "per_page", 20));
    let first = (number(query, "page", 1) - 1) * size;
    let entries: Vec<&Value> = entries.iter().skip(first).take(size).collect();
    (200, json!(entries))
}

pub fn reply(status: u16, value: &Value) -> WireResponse {
    WireResponse {
        status,
        headers: Vec::new(),
        body: if value.is_null() {
            Vec::new()
        } else {
            value.to_string().into_bytes()
        },
    }
}
