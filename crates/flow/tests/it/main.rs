//! Tests of `flow` from outside: cases, the whole table, invariants over random event sequences,
//! and an exhaustive search of a small model.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "in a test a panic is the report, and figures are printed"
)]

mod fallback;
mod story;

mod attempts;
mod budget;
mod dependency;
mod follow_ups;
mod landing;
mod laws;
mod lease;
mod model;
mod notes;
mod open_answers;
mod panel;
mod person;
mod preset;
mod pull_request;
mod rejection;
mod rounds;
mod table;
mod verdict;
