//! The `countersign` program: the command line. Countersign runs coding agents in a loop until an
//! independent reviewer countersigns the exact commit, or a person decides.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os().collect()).into()
}
