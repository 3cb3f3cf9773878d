//! Verbs that Countersign starts itself with: what stands in front of every child, and the player
//! of scripted agents.

use std::ffi::OsString;
use std::path::Path;

use app::failure::{ExitKind, Failure};
use app::settings;

/// Does what such a verb says, or nothing if these words begin with another one. They stand in
/// front of every agent and check, so they do without the parser, which takes longer than they do.
pub fn perform(words: &[OsString]) -> Option<Result<ExitKind, Failure>> {
    let [_, verb, words @ ..] = words else {
        return None;
    };
    match verb.to_str()? {
        "hold" => Some(hold(words)),
        "confine" => Some(ended(engine::sandbox::confine(words))),
        // The half of `confine` that is inside.
        "confined" => Some(ended(engine::sandbox::confined(words))),
        "play" => Some(play(words)),
        _ => None,
    }
}

/// Ties the program that follows to our life, and becomes it.
fn hold(words: &[OsString]) -> Result<ExitKind, Failure> {
    match engine::process::hold(words) {
        Err(error) => Err(Failure::error(format!(
            "the program could not be started: {error}"
        ))),
        Ok(never) => match never {},
    }
}

fn ended(done: std::io::Result<u8>) -> Result<ExitKind, Failure> {
    match done {
        Ok(code) => Ok(ExitKind::Played(code)),
        Err(error) => Err(Failure {
            exit: ExitKind::Played(engine::sandbox::NOT_CONFINED),
            ..Failure::error(error)
        }),
    }
}

/// Plays the part that the environment names.
fn play(words: &[OsString]) -> Result<ExitKind, Failure> {
    let [script] = words else {
        return Err(Failure::error("use: play SCRIPT"));
    };
    let here = std::env::current_dir().map_err(Failure::error)?;
    let part = settings::agent_variables();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::error)?;
    let mut out = std::io::stdout();
    let code = runtime
        .block_on(engine::agent::scripted::play(
            Path::new(script),
            &part,
            &here,
            &mut out,
        ))
        .map_err(Failure::error)?;
    Ok(ExitKind::Played(code))
}
