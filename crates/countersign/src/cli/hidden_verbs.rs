//! Hidden verbs that Countersign runs itself: the wrappers around every child process, and the
//! player of scripted agents.

use std::ffi::OsString;
use std::path::Path;

use app::failure::{ExitKind, Failure};
use app::settings;

/// Runs a hidden verb; returns `None` if the arguments name another one. These verbs wrap every
/// agent and check, so they skip the clap parser, which takes longer than they do.
pub fn perform(arguments: &[OsString]) -> Option<Result<ExitKind, Failure>> {
    let [_, verb, arguments @ ..] = arguments else {
        return None;
    };
    match verb.to_str()? {
        "hold" => Some(run_init(arguments)),
        "confine" => Some(exit_kind(engine::sandbox::run_confined(arguments))),
        // The part of `confine` that runs inside the sandbox.
        "confined" => Some(exit_kind(engine::sandbox::run_inside(arguments))),
        "play" => Some(play_script(arguments)),
        _ => None,
    }
}

/// Replaces this process with the given program, after tying its life to ours.
fn run_init(arguments: &[OsString]) -> Result<ExitKind, Failure> {
    match engine::process::exec_tied_to_parent(arguments) {
        Err(error) => Err(Failure::error(format!(
            "could not start the program: {error}"
        ))),
        Ok(never) => match never {},
    }
}

fn exit_kind(result: std::io::Result<u8>) -> Result<ExitKind, Failure> {
    match result {
        Ok(code) => Ok(ExitKind::Child(code)),
        Err(error) => Err(Failure {
            exit: ExitKind::Child(engine::sandbox::NOT_CONFINED),
            ..Failure::error(error)
        }),
    }
}

/// Plays the script in the role that the environment names.
fn play_script(arguments: &[OsString]) -> Result<ExitKind, Failure> {
    let [script] = arguments else {
        return Err(Failure::error("usage: play SCRIPT"));
    };
    let directory = std::env::current_dir().map_err(Failure::error)?;
    let variables = settings::agent_variables();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::error)?;
    let mut out = std::io::stdout();
    let code = runtime
        .block_on(engine::agent::scripted::play_script(
            Path::new(script),
            &variables,
            &directory,
            &mut out,
        ))
        .map_err(Failure::error)?;
    Ok(ExitKind::Child(code))
}
