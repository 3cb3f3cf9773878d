//! A program that a person uses at this very terminal: an editor. It has our terminal and our
//! environment, and no limit, because the person is the one who ends it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// Starts it on a file and waits for its end; whether it ended well.
#[expect(
    clippy::disallowed_methods,
    reason = "starts the person's editor, in the room that spawns"
)]
pub fn attend(program: &OsStr, args: &[OsString], file: &Path) -> io::Result<bool> {
    let mut command = std::process::Command::new(program);
    Ok(command.args(args).arg(file).status()?.success())
}
