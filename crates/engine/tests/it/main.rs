//! What needs a program of its own in front: the hidden verbs, through a real binary.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its ground is missing"
)]

mod hold;
mod landing;
mod scripted;
mod support;
