//! Acts: git, processes, agents, checks, jobs and the worker loop. It has no SQL, prints nothing
//! and reads no environment variables.

pub mod activity;
pub mod agent;
pub mod agent_home;
pub mod caches;
pub mod certificates;
pub mod check;
pub mod cleanup;
pub mod clock;
pub mod coordinator;
pub mod git;
pub mod hash;
pub mod jobs;
pub mod layers;
pub mod likely_fix;
pub mod linkless_files;
pub mod linter;
pub mod log;
pub mod manifest;
pub mod private_files;
pub mod process;
pub mod project;
pub mod rate_limit;
pub mod redact;
pub mod repo_sync;
pub mod run_records;
pub mod sandbox;
pub mod secret;
pub mod session;
pub mod worker;
