//! Runs a program that a person uses in this terminal: an editor. It has our terminal and our
//! environment, and no limit, because the person ends it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

/// Opens the file in the program, waits for its end, and returns whether it exited with code 0.
#[expect(
    clippy::disallowed_methods,
    reason = "starts the person's editor, in the module that spawns"
)]
pub fn run_at_terminal(program: &OsStr, args: &[OsString], file: &Path) -> io::Result<bool> {
    let mut command = std::process::Command::new(program);
    Ok(command.args(args).arg(file).status()?.success())
}
