//! Acts: git, processes, agents, checks, the loop.

pub mod activity;
pub mod agent;
pub mod carrier;
pub mod check;
pub mod clock;
pub mod desk;
pub mod git;
pub mod guest;
pub mod hash;
pub mod manifest;
pub mod news;
pub mod own_home;
pub mod perform;
pub mod post;
pub mod private;
pub mod process;
pub mod redact;
pub mod runs;
pub mod sandbox;
pub mod secret;
pub mod shift;
pub mod supplies;
pub mod watchdog;
pub mod work;
pub mod workshop;
