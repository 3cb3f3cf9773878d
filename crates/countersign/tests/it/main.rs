//! Stories told through the binary.

mod sandbox;
mod tidy;
