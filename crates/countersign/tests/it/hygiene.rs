//! Tests that the person's data stays whole, private and readable: a database that is lost under a
//! run, modes of files, invisible characters, secrets that are printed, path patterns.

mod characters;
mod lost_database;
mod modes;
mod patterns;
mod secrets;
