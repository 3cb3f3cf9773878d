//! One suite of facts, run on each database.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod postgres;
mod skip;
mod sqlite;
mod support;
mod upgrade;
