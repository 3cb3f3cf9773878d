//! Tests that need a real binary: the hidden verbs.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its ground is missing"
)]

mod hold;
mod landing;
mod scripted;
mod support;
