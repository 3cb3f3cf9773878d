//! Acts: git, processes, agents, checks, the loop.

pub mod agent;
pub mod check;
pub mod git;
pub mod manifest;
pub mod process;
