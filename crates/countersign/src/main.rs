//! Talks: the command line and what it wires up.

fn main() {}
