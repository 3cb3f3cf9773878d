//! Decides what happens next, and cannot act.
