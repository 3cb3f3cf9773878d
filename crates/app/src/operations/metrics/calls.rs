//! Counts requests and calls to this server. The labels have few values: routes, methods and names
//! come from our own tables and never from a caller.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::quality::DurationHistogram;

use super::families::{HTTP_REQUESTS, HTTP_SECONDS, MetricFamily, RPC_CALLS, TOOL_CALLS};
use super::{Metric, histogram};

/// Upper bounds of the buckets of requests.
const REQUEST_BUCKETS_MS: &[u64] = &[1, 5, 25, 100, 500, 2_500, 10_000, 60_000];
/// Label of requests to no route, and of methods that no route has.
const OTHER: &str = "other";
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];

/// Counters since the start of the server.
#[derive(Debug, Default)]
pub struct CallMetrics {
    counts: Mutex<CallCounts>,
}

#[derive(Debug, Default)]
struct CallCounts {
    requests: BTreeMap<(&'static str, String, u16), u64>,
    seconds: BTreeMap<String, DurationHistogram>,
    rpc: BTreeMap<(String, bool), u64>,
    tools: BTreeMap<(String, bool), u64>,
}

impl CallMetrics {
    /// Counts an answered request. `route` is the pattern of its route, if it has one.
    pub fn count_request(&self, method: &str, route: Option<&str>, status: u16, took: Duration) {
        let method = METHODS.into_iter().find(|known| *known == method);
        let route = route.unwrap_or(OTHER).to_owned();
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let mut counts = self.lock();
        let key = (method.unwrap_or(OTHER), route.clone(), status);
        *counts.requests.entry(key).or_default() += 1;
        let seconds = counts.seconds.entry(route).or_default();
        seconds.count(took_ms, REQUEST_BUCKETS_MS);
    }

    /// Counts a call of a worker by its name in the protocol.
    pub fn count_rpc(&self, name: &str, succeeded: bool) {
        let mut counts = self.lock();
        *counts.rpc.entry((name.to_owned(), succeeded)).or_default() += 1;
    }

    /// Counts a call of an MCP tool that exists.
    pub fn count_tool(&self, name: &str, succeeded: bool) {
        let mut counts = self.lock();
        let key = (name.to_owned(), succeeded);
        *counts.tools.entry(key).or_default() += 1;
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let counts = self.lock();
        let mut metrics = Vec::new();
        for ((method, route, status), count) in &counts.requests {
            let metric = Metric::new(&HTTP_REQUESTS, *count).label("method", method);
            metrics.push(metric.label("route", route).label("status", status));
        }
        for (route, seconds) in &counts.seconds {
            let pattern = Metric::new(&HTTP_SECONDS, 0).label("route", route);
            metrics.extend(histogram(&pattern, seconds, REQUEST_BUCKETS_MS));
        }
        let calls =
            |family: &'static MetricFamily, label, counts: &BTreeMap<(String, bool), u64>| {
                let metric = |((name, succeeded), count): (&(String, bool), &u64)| {
                    let result = if *succeeded { "ok" } else { "error" };
                    let metric = Metric::new(family, *count).label(label, name);
                    metric.label("result", result)
                };
                counts.iter().map(metric).collect::<Vec<_>>()
            };
        metrics.extend(calls(&RPC_CALLS, "call", &counts.rpc));
        metrics.extend(calls(&TOOL_CALLS, "tool", &counts.tools));
        metrics
    }

    fn lock(&self) -> MutexGuard<'_, CallCounts> {
        // Counts are whole after every step, so a panic elsewhere does not spoil them.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
