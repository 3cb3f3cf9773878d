//! The conformance suite of the adapters, on stateful fakes that refuse what the forges refuse.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its ground is missing"
)]

mod app;
mod conformance;
mod contract;
mod fake_forgejo;
mod fake_github;
mod fake_gitlab;
mod fake_jira;
mod fakes;
mod jira;
mod lines;
mod others;
mod traps;
mod wire;
