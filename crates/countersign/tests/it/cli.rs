//! Tests the output of the program: its help, each verb on a small world, and messages on bad input.
//! `UPDATE_EXPECT=1 cargo test -p countersign --test it cli` writes the snapshots again.
#![expect(
    clippy::needless_raw_string_hashes,
    clippy::too_many_lines,
    reason = "snapshots are as long as what they show, and are written by expect-test"
)]

mod agent;
mod bad_input;
mod bad_place;
mod bad_store;
mod config;
mod convert;
mod hook;
mod import;
mod init;
mod new_ticket;
mod short_ids;
mod terminals;
mod verbs;
