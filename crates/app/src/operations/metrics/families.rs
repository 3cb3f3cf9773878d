//! Names, kinds and meanings of all metrics. Dashboards and alert rules may name only these.

/// How a value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, until the server starts again.
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric with its meaning; its values differ by their labels.
#[derive(Debug)]
pub struct MetricFamily {
    pub name: &'static str,
    pub kind: MetricKind,
    pub help: &'static str,
}

const fn family(name: &'static str, kind: MetricKind, help: &'static str) -> MetricFamily {
    MetricFamily { name, kind, help }
}

use MetricKind::{Counter, Gauge, Histogram};

pub static BUILD_INFO: MetricFamily = family(
    "countersign_build_info",
    Gauge,
    "Version of the running server; the value is always 1.",
);
pub static TICKETS: MetricFamily = family("countersign_tickets", Gauge, "Tickets by stage.");
pub static JOBS_READY: MetricFamily = family(
    "countersign_jobs_ready",
    Gauge,
    "Jobs that wait for a worker, by queue.",
);
pub static JOBS_LEASED: MetricFamily = family(
    "countersign_jobs_leased",
    Gauge,
    "Jobs that a worker or agent holds, by queue.",
);
pub static JOBS_DEAD: MetricFamily = family(
    "countersign_jobs_dead",
    Gauge,
    "Jobs that failed for good, by queue.",
);
pub static SPENT_TODAY: MetricFamily = family(
    "countersign_spent_today_usd_micros",
    Gauge,
    "Millionths of a dollar that agents have cost today (UTC).",
);
pub static PAUSES: MetricFamily = family(
    "countersign_pauses",
    Gauge,
    "Agents, queues and providers that are paused.",
);
pub static LEASES_LAPSED: MetricFamily = family(
    "countersign_leases_lapsed",
    Gauge,
    "Jobs whose lease has expired and that are not taken back yet.",
);
pub static AGENTS_SILENT: MetricFamily = family(
    "countersign_agents_silent",
    Gauge,
    "Agents that make no calls although work waits for them.",
);
pub static COST_PER_TICKET: MetricFamily = family(
    "countersign_usd_micros_per_ticket",
    Gauge,
    "Millionths of a dollar that each ticket has cost, of those that cost anything.",
);
pub static COST_PER_LANDED: MetricFamily = family(
    "countersign_usd_micros_per_landed",
    Gauge,
    "Millionths of a dollar for each change that landed, all others' cost included.",
);
pub static APPROVALS: MetricFamily = family(
    "countersign_approvals_total",
    Counter,
    "Approved tickets by the round of their approval.",
);
pub static ROUNDS: MetricFamily = family(
    "countersign_rounds_total",
    Counter,
    "Rounds by builder of any part and by verdict.",
);
pub static REVIEWS: MetricFamily = family(
    "countersign_reviews_total",
    Counter,
    "Reviews by reviewer and verdict.",
);
pub static FINDINGS: MetricFamily = family(
    "countersign_findings",
    Gauge,
    "Findings by severity and outcome.",
);
pub static ROUND_SECONDS: MetricFamily = family(
    "countersign_round_seconds",
    Histogram,
    "Seconds from the start of a review to its verdict.",
);
pub static CLAIM_SECONDS: MetricFamily = family(
    "countersign_claim_seconds",
    Histogram,
    "Seconds that ready jobs waited, since the first request to this server.",
);
pub static HTTP_REQUESTS: MetricFamily = family(
    "countersign_http_requests_total",
    Counter,
    "Answered requests by method, route and status, since this server started.",
);
pub static HTTP_SECONDS: MetricFamily = family(
    "countersign_http_request_seconds",
    Histogram,
    "Seconds until an answer begins, by route; long polls included.",
);
pub static RPC_CALLS: MetricFamily = family(
    "countersign_rpc_calls_total",
    Counter,
    "Calls of workers by name and result.",
);
pub static TOOL_CALLS: MetricFamily = family(
    "countersign_mcp_calls_total",
    Counter,
    "Calls of MCP tools by name and result.",
);

/// All families, also those that have no value yet.
pub static FAMILIES: [&MetricFamily; 21] = [
    &BUILD_INFO,
    &TICKETS,
    &JOBS_READY,
    &JOBS_LEASED,
    &JOBS_DEAD,
    &SPENT_TODAY,
    &PAUSES,
    &LEASES_LAPSED,
    &AGENTS_SILENT,
    &COST_PER_TICKET,
    &COST_PER_LANDED,
    &APPROVALS,
    &ROUNDS,
    &REVIEWS,
    &FINDINGS,
    &ROUND_SECONDS,
    &CLAIM_SECONDS,
    &HTTP_REQUESTS,
    &HTTP_SECONDS,
    &RPC_CALLS,
    &TOOL_CALLS,
];
