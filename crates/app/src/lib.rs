//! Everything that people and programs can do, written once for every surface: the command line,
//! REST, MCP and the pages only translate. This crate reads settings, asks `flow` for every
//! decision about a ticket, and neither prints nor listens.

pub mod failure;
pub mod fields;
pub mod operations;
pub mod remote;
pub mod settings;
