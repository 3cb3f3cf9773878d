//! What keeps the person's data whole, private and readable: a database that is lost under a run,
//! modes of files, characters that nobody sees, secrets that are printed, path patterns.

mod characters;
mod lost_database;
mod modes;
mod patterns;
mod secrets;
