//! Acts: git, processes, agents, checks, the loop.

pub mod activity;
pub mod agent;
pub mod carrier;
pub mod check;
pub mod clock;
pub mod coordinator;
pub mod git;
pub mod hash;
pub mod linter;
pub mod log;
pub mod manifest;
pub mod own_home;
pub mod perform;
pub mod private;
pub mod process;
pub mod rate;
pub mod redact;
pub mod runs;
pub mod sandbox;
pub mod secret;
pub mod session;
pub mod supplies;
pub mod worker;
pub mod workshop;
