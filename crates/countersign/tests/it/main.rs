//! Stories told through the binary.

mod tidy;
