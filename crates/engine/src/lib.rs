//! Acts: git, processes, agents, checks, the loop.

pub mod clock;
pub mod desk;
pub mod hash;
