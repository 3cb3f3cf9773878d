//! Runs our own short commands: writes their input, reads their output up to a cap, and waits for
//! their end.
//!
//! It is for programs that we trust, such as git. They get a process group but no mark and no
//! record: they end with their group, and do not start daemons.

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
use crate::private_files;

/// One short command.
#[derive(Clone, Debug)]
pub struct ShortCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub stdin: Vec<u8>,
    pub wall: Duration,
    /// Maximum bytes of stdout and of stderr, each; the rest is read and dropped.
    pub output_bytes: usize,
    /// File that gets all of stdout; `CommandOutput::stdout` is then empty.
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

/// Kills the process group if the future is dropped or the time limit is reached.
struct KillGroupOnDrop(Option<Pid>);

impl Drop for KillGroupOnDrop {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // The group may have ended in this instant.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs the command to its end or its time limit. The whole process group is killed at the limit,
/// or if the returned future is dropped.
pub async fn run_short_command(call: &ShortCommand) -> Result<CommandOutput, Error> {
    let program = call.program.display();
    // Debug level: a ticket runs hundreds of git commands.
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
        // A file gets the output directly from the kernel, so a large blob is never held in memory.
        let file = private_files::create(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        command.stdout(file);
    }
    let mut spawned = spawn(command).await.map_err(|source| Error::Spawn {
        program: program(),
        source,
    })?;
    Span::current().record("pid", spawned.pid);
    let mut group = KillGroupOnDrop(Pid::from_raw(spawned.pid));
    let finished = tokio::time::timeout(call.wall, feed_and_read(&mut spawned, call)).await;
    let (exit, stdout, stderr) = match finished {
        Ok(Ok((status, stdout, stderr))) => {
            // From here on the group id may be reused, so it must not be signalled any more.
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
            // Dropping the guard sends the signal; a killed child must still be reaped, or it stays
            // a zombie.
            drop(group);
            let reaped = spawned.child.wait().await;
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

async fn feed_and_read(
    spawned: &mut KnownChild,
    call: &ShortCommand,
) -> std::io::Result<(ExitStatus, CappedBytes, CappedBytes)> {
    let (stdin, stdout, stderr) = (
        spawned.child.stdin.take(),
        spawned.child.stdout.take(),
        spawned.child.stderr.take(),
    );
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command may close its input without reading it; that is no error.
            // Dropping stdin afterwards is the end of the input for the command.
            let _ = stdin.write_all(&call.stdin).await;
        }
    };
    let cap = call.output_bytes;
    // All three at once: a command that blocks on a full pipe would otherwise never end.
    let ((), stdout, stderr) =
        tokio::join!(feed, read_capped(stdout, cap), read_capped(stderr, cap));
    Ok((spawned.child.wait().await?, stdout?, stderr?))
}

#[derive(Default)]
struct CappedBytes {
    bytes: Vec<u8>,
    cut: bool,
}

async fn read_capped(
    source: Option<impl AsyncRead + Unpin>,
    cap: usize,
) -> std::io::Result<CappedBytes> {
    let mut capped = CappedBytes::default();
    let Some(mut source) = source else {
        return Ok(capped);
    };
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = source.read(&mut chunk).await?;
        if count == 0 {
            return Ok(capped);
        }
        // The rest is read and dropped, because a command with a full pipe would never end.
        let fits = count.min(cap - capped.bytes.len());
        capped.bytes.extend_from_slice(&chunk[..fits]);
        capped.cut |= fits < count;
    }
}
