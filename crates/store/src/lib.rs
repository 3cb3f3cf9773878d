//! Remembers, and cannot decide.
