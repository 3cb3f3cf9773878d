//! Keeps the documents true: schemas, reference, and every command in them.
//! `UPDATE_EXPECT=1 cargo test -p countersign --test it docs` writes the generated parts again.

mod console;
mod gates;
mod json;
mod monitoring;
mod reference;
mod schema;
mod tables;

use std::path::{Path, PathBuf};

/// The project's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_owned()
}
