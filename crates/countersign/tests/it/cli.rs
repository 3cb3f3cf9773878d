//! What the program says: its help, each verb on a small world, and a clear word for bad input.
//! `UPDATE_EXPECT=1 cargo test -p countersign --test it cli` writes the snapshots anew.

mod bad_input;
mod bad_store;
mod verbs;
