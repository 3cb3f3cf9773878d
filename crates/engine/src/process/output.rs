//! Our own short commands: started, fed, read to a cap, and over.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tracing::{Instrument, Span, debug_span, field};

use super::run::exit_of;
use super::spawn::{KnownChild, SpawnRecipe, spawn};
use super::{Error, Launcher, ProcessExit};
use crate::log::LogErr;
use crate::private;

/// One short command.
#[derive(Clone, Debug)]
pub struct ShortCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub stdin: Vec<u8>,
    pub wall: Duration,
    /// Kept of stdout and of stderr, each; the rest is read and dropped.
    pub output_bytes: usize,
    /// Where stdout goes instead, whole; nothing of it is then kept in memory.
    pub stdout_file: Option<PathBuf>,
    pub launcher: Option<Launcher>,
}

#[derive(Clone, Debug)]
pub struct CommandOutput {
    pub exit: ProcessExit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub cut: bool,
}

/// Kills the group when the caller goes away or the time is up.
struct KillGroupOnDrop(Option<Pid>);

impl Drop for KillGroupOnDrop {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended in this instant.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs the command to its end or its limit. The whole group is killed if it
/// does not end, or if the returned future is dropped.
pub async fn output(call: &ShortCommand) -> Result<CommandOutput, Error> {
    let program = call.program.display();
    let span = debug_span!("process", %program, pid = field::Empty, exit = field::Empty);
    Box::pin(read_output(call)).instrument(span).await
}

async fn read_output(call: &ShortCommand) -> Result<CommandOutput, Error> {
    let program = || call.program.display().to_string();
    if !call.cwd.is_dir() {
        return Err(Error::NoDirectory {
            program: program(),
            dir: call.cwd.clone(),
        });
    }
    let recipe = SpawnRecipe {
        program: &call.program,
        args: &call.args,
        env: &call.env,
        cwd: &call.cwd,
        launcher: call.launcher.as_ref(),
    };
    let mut command = recipe.command();
    if let Some(path) = &call.stdout_file {
        let file = private::create(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        command.stdout(file);
    }
    let mut known = spawn(command).await.map_err(|source| Error::Spawn {
        program: program(),
        source,
    })?;
    Span::current().record("pid", known.pid);
    let mut group = KillGroupOnDrop(Pid::from_raw(known.pid));
    let finished = tokio::time::timeout(call.wall, converse(&mut known, call)).await;
    let (exit, stdout, stderr) = match finished {
        Ok(Ok((status, stdout, stderr))) => {
            group.0 = None;
            (exit_of(status), stdout, stderr)
        }
        Ok(Err(source)) => {
            return Err(Error::Spawn {
                program: program(),
                source,
            });
        }
        Err(_) => {
            drop(group);
            let reaped = known.child.wait().await;
            reaped.log_err("reap a command that was killed at its time limit");
            (
                ProcessExit::WallLimit,
                CappedBytes::default(),
                CappedBytes::default(),
            )
        }
    };
    Span::current().record("exit", field::display(exit));
    tracing::debug!("process ended");
    let cut = stdout.cut || stderr.cut;
    Ok(CommandOutput {
        exit,
        stdout: stdout.bytes,
        stderr: stderr.bytes,
        cut,
    })
}

async fn converse(
    known: &mut KnownChild,
    call: &ShortCommand,
) -> std::io::Result<(ExitStatus, CappedBytes, CappedBytes)> {
    let (stdin, stdout, stderr) = (
        known.child.stdin.take(),
        known.child.stdout.take(),
        known.child.stderr.take(),
    );
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that does not want its input says so by closing it.
            let _ = stdin.write_all(&call.stdin).await;
        }
    };
    let cap = call.output_bytes;
    let ((), stdout, stderr) = tokio::join!(feed, keep(stdout, cap), keep(stderr, cap));
    Ok((known.child.wait().await?, stdout?, stderr?))
}

#[derive(Default)]
struct CappedBytes {
    bytes: Vec<u8>,
    cut: bool,
}

async fn keep(source: Option<impl AsyncRead + Unpin>, cap: usize) -> std::io::Result<CappedBytes> {
    let mut kept = CappedBytes::default();
    let Some(mut source) = source else {
        return Ok(kept);
    };
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = source.read(&mut chunk).await?;
        if count == 0 {
            return Ok(kept);
        }
        let fits = count.min(cap - kept.bytes.len());
        kept.bytes.extend_from_slice(&chunk[..fits]);
        kept.cut |= fits < count;
    }
}
