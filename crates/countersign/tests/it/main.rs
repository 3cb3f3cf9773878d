//! Stories told through the binary, as a person and as an adversary would tell them.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its ground is missing"
)]

mod cli;
#[path = "../../../forge/tests/it/contract.rs"]
mod contract;
mod crash;
mod docs;
#[path = "../../../forge/tests/it/fake_forgejo.rs"]
mod fake_forgejo;
#[path = "../../../forge/tests/it/fake_gitlab.rs"]
mod fake_gitlab;
#[path = "../../../forge/tests/it/fake_jira.rs"]
mod fake_jira;
#[path = "../../../forge/tests/it/fakes.rs"]
mod fakes;
mod hygiene;
mod processes;
mod sandbox;
mod server;
mod story;
mod support;
mod workers;
