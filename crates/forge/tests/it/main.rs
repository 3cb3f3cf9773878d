//! The conformance suite of the adapters, on stateful fakes that refuse what the forges refuse.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its ground is missing"
)]

mod conformance;
mod fake_github;
mod lines;
mod wire;
