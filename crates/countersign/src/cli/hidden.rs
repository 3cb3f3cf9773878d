//! Verbs that Countersign starts itself with: what stands in front of every child, and the player
//! of scripted agents.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::failure::{Exit, Failure};
use crate::settings;

#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct PlayArgs {
    script: PathBuf,
}

/// Ties the program that follows to our life, and becomes it.
pub fn hold(args: &HoldArgs) -> Result<Exit, Failure> {
    match engine::process::hold(&args.words) {
        Err(error) => Err(Failure::error(format!(
            "the program could not be started: {error}"
        ))),
        Ok(never) => match never {},
    }
}

/// Locks the program that follows in, and watches over it or becomes it.
pub fn confine(args: &HoldArgs) -> Result<Exit, Failure> {
    ended(engine::sandbox::confine(&args.words))
}

/// The half of [`confine`] that is inside.
pub fn confined(args: &HoldArgs) -> Result<Exit, Failure> {
    ended(engine::sandbox::confined(&args.words))
}

fn ended(done: std::io::Result<u8>) -> Result<Exit, Failure> {
    match done {
        Ok(code) => Ok(Exit::Played(code)),
        Err(error) => Err(Failure {
            exit: Exit::Played(engine::sandbox::NOT_CONFINED),
            ..Failure::error(error)
        }),
    }
}

/// Plays the part that the environment names.
pub fn play(args: &PlayArgs) -> Result<Exit, Failure> {
    let here = std::env::current_dir().map_err(Failure::error)?;
    let part = settings::agent_variables();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::error)?;
    let mut out = std::io::stdout();
    let code = runtime
        .block_on(engine::agent::scripted::play(
            &args.script,
            &part,
            &here,
            &mut out,
        ))
        .map_err(Failure::error)?;
    Ok(Exit::Played(code))
}
