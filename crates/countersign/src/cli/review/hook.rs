//! `countersign review --hook …`: answers a hook of an agent CLI. It always ends with exit code 0 and
//! one JSON object, because several CLIs take exit code 2 for "do not stop". If there is no review,
//! the session goes on and the person reads why.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use engine::process::StopSignal;

use super::{Args, review_options};
use crate::cli::Context;
use crate::cli::out::{escaped_json, print_raw};
use crate::cli::signals::StopRequests;
use app::failure::{ExitKind, Failure};
use app::operations::session_hook::{
    self, HookCall, HookInput, HookReply, SessionCli, SessionEvent,
};
use app::settings;

/// Time limit of a review, in seconds. It is shorter than the timeout in the CLI's settings.
const TIME_LIMIT_SECS: u64 = 540;
/// Time in which the CLI has to send its input.
const INPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of characters of an error message.
const MESSAGE_CHARS_MAX: usize = 600;

pub async fn perform(args: Args, cli: SessionCli, context: &Context) -> ExitKind {
    // An agent that Countersign started is reviewed by Countersign already.
    let reply = if settings::is_inside_run() {
        HookReply::default()
    } else {
        answer(args, cli, context)
            .await
            .unwrap_or_else(|failure| HookReply::message(failure_text(&failure)))
    };
    print_raw(&format!("{}\n", escaped_json(&reply.to_json(cli))));
    ExitKind::Done
}

async fn answer(args: Args, cli: SessionCli, context: &Context) -> Result<HookReply, Failure> {
    let bytes = read_input().await?;
    let input = HookInput::parse(cli, &bytes)
        .map_err(|reason| Failure::usage(format!("the hook's input cannot be used: {reason}")))?;
    match answer_input(args, cli, &input, context).await {
        // A prompt is not reviewed. What is wrong is said at the end of the turn.
        Err(_) if matches!(input.event, SessionEvent::Prompt(_)) => Ok(HookReply::default()),
        answered => answered,
    }
}

async fn answer_input(
    args: Args,
    cli: SessionCli,
    input: &HookInput,
    context: &Context,
) -> Result<HookReply, Failure> {
    let app = context.open_app().await?;
    let time_limit = Duration::from_secs(args.time_limit.unwrap_or(TIME_LIMIT_SECS));
    let directory: PathBuf = match &input.directory {
        Some(directory) => directory.clone(),
        None => context.directory.clone(),
    };
    let options = review_options(args);
    let call = HookCall {
        cli,
        input,
        directory: &directory,
        options: &options,
        time_limit,
    };
    let (stopper, stop) = StopSignal::pair();
    let mut work = Box::pin(session_hook::answer(&app, &call, stop));
    let mut signals = StopRequests::listen()?;
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = signals.received() => stopper.stop(),
        }
    }
}

/// Reads the standard input, which a CLI may forget to close.
async fn read_input() -> Result<Vec<u8>, Failure> {
    if std::io::stdin().is_terminal() {
        return Err(
            Failure::usage("--hook reads the input of an agent CLI, not of a terminal")
                .hint("run `countersign agent install --help`"),
        );
    }
    let limit = session_hook::INPUT_BYTES_MAX;
    let reading = tokio::task::spawn_blocking(move || settings::read_stdin(limit));
    let bytes = tokio::time::timeout(INPUT_TIMEOUT, reading)
        .await
        .map_err(|_| Failure::usage("the hook's input did not end within 10 s"))?
        .map_err(Failure::error)??;
    if bytes.len() > limit {
        return Err(Failure::usage("the hook's input is larger than 4 MiB"));
    }
    Ok(bytes)
}

fn failure_text(failure: &Failure) -> String {
    let mut text = format!(
        "Countersign did not review this change, so nothing is approved: {}",
        findings::one_line(&failure.message)
    );
    for hint in &failure.hints {
        text.push_str("; ");
        text.push_str(&findings::one_line(hint));
    }
    findings::shorten(&text, MESSAGE_CHARS_MAX)
}
