//! Stories told through the binary, as a person and as an adversary would tell them.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its ground is missing"
)]

mod cli;
mod crash;
mod docs;
mod hygiene;
mod processes;
mod sandbox;
mod server;
mod story;
mod support;
mod workers;
