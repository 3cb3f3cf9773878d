//! Stories told through the binary.
