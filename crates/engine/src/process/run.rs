//! Supervises one run, from the record before its start to the end of its last process.
//!
//! The order is fixed by crashes. The record is written before the fork, the leader is added right
//! after it, and the record goes only when no process is left. So at any moment at which we may be
//! killed, the next Countersign can find what was started. It refuses to start a program in a
//! missing directory or without the sandbox that was asked for.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{Instrument, Span, field, info_span};

use super::disk::{DiskMonitor, DiskUsage};
use super::lines::{LinePiece, Splitter, TranscriptFile, to_text};
use super::record::LiveRunRecord;
use super::spawn::{KnownChild, SpawnRecipe, find_program, spawn};
use super::stdin::StdinWriter;
use super::tree::{ProcessIdentity, ProcessTree};
use super::{
    Error, Launcher, LineReaction, OutputLine, OutputStream, ProcessEnd, ProcessExit, ProcessHost,
    ProcessLimits, ProcessSpec, RUN_MARK, StopSignal,
};
use crate::sandbox::{self, NOT_CONFINED, Proof, Proxy, SandboxSpec};

const CHUNK: usize = 64 << 10;
/// A line that may end in the beginning of a wrapped secret waits this long for the next one. A
/// program that stays silent is not in the middle of printing a secret, and people watch its output.
/// Shorter than the scan for strays, which starts a read again.
const HELD_LINE_MAX: Duration = Duration::from_millis(500);
/// Interval of the search for stray processes, if no PID namespace holds the run together.
const STRAY_SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for a killed leader. If SIGKILL does not end it, it hangs in the kernel, and we
/// must not hang with it.
const REAP_MAX: Duration = Duration::from_secs(5);

impl ProcessHost {
    /// Runs a program to its end and passes every line to `on_line` as it arrives. Dropping the
    /// future kills the process tree at once.
    pub async fn run<R: Into<LineReaction>>(
        &self,
        spec: ProcessSpec,
        on_line: impl FnMut(OutputLine) -> R + Send,
        stop: StopSignal,
    ) -> Result<ProcessEnd, Error> {
        let program = spec.program.display();
        // The arguments are not logged: they may contain a brief and an agent's credentials.
        let span = info_span!("process", %program, pid = field::Empty, exit = field::Empty);
        let ended = Box::pin(self.run_watched(spec, on_line, stop));
        let ended = ended.instrument(span.clone()).await;
        span.in_scope(|| log_end(&ended));
        ended
    }

    async fn run_watched<R: Into<LineReaction>>(
        &self,
        spec: ProcessSpec,
        mut on_line: impl FnMut(OutputLine) -> R + Send,
        mut stop: StopSignal,
    ) -> Result<ProcessEnd, Error> {
        let started = Instant::now();
        let program_name = spec.program.to_string_lossy().into_owned();
        // A missing directory and a missing program give the same ENOENT from the kernel.
        if !spec.cwd.is_dir() {
            return Err(Error::NoDirectory {
                program: program_name,
                dir: spec.cwd,
            });
        }
        let path = search_path(&spec);
        let program = find_program(&spec.program, &path, &spec.cwd)?;
        let mut confinement = spec.sandbox;
        // The proxy comes before the specification is written: it chooses ports, which are part of
        // it.
        let mut proxy = open_proxy(confinement.as_mut())?;
        if let Some(confinement) = &mut confinement {
            // An interpreter or library outside of the usual directories must be mounted as well,
            // or the program fails with a bare "not found".
            let needed = sandbox::program::files_needed_by(&program, &path);
            confinement.read.extend(needed.read);
        }
        let launcher = self.launcher_for(confinement.as_ref(), &program_name)?;
        let path = spec.transcript.clone();
        let transcript = TranscriptFile::create(&spec.transcript, spec.limits.output_bytes)
            .map_err(|source| Error::File { path, source })?;

        // The state before the run must be measured before the first process can write.
        let monitor = match spec.disk_quota {
            Some(quota) => Some(DiskMonitor::start(quota).await),
            None => None,
        };
        let mut guard = LiveRunGuard::start(self, &spec.run_id)?;
        guard.may_scatter = confinement
            .as_ref()
            .is_none_or(SandboxSpec::is_without_namespaces);
        let mut env = spec.env;
        if let Some(proxy) = &mut proxy {
            proxy.set_proxy_variables(&mut env);
        }
        // The mark is pushed last, so that no variable of the caller's can replace it.
        env.push((RUN_MARK.into(), guard.record.mark().into()));
        let recipe = SpawnRecipe {
            program: &program,
            args: &spec.args,
            env: &env,
            cwd: &spec.cwd,
            launcher: launcher.as_ref(),
        };
        // The proxy must already accept: the child hands over its sockets before it starts the
        // program, and waits for an answer.
        let proxy = proxy.map(Proxy::start);
        let spawned = spawn(recipe.command()).await;
        let mut spawned = spawned.map_err(|source| Error::Spawn {
            program: program_name,
            source,
        })?;
        // If we are killed before this line, the child is found by its mark, which is already
        // recorded.
        guard.started(spawned.pid)?;
        Span::current().record("pid", spawned.pid);

        let stdin_writer = StdinWriter::new(&mut spawned, spec.stdin, spec.keeps_stdin_open);
        let on_line = |line| on_line(line).into();
        let splitters = Splitter::pair(spec.limits.line_bytes, &env);
        let mut pipes =
            OutputPipes::new(&mut spawned, splitters, transcript, stdin_writer, on_line);
        let exit = watch_child(
            &mut spawned,
            &mut pipes,
            &mut guard,
            &spec.limits,
            monitor.as_ref(),
            &mut stop,
            started,
        )
        .await;
        let until = Instant::now() + spec.limits.drain_grace;
        // The leader has ended, but its last output may still be in the pipes. A descendant can
        // hold them open, so the end of the pipes is not waited for without a limit.
        while Instant::now() < until && timeout_at(until, pipes.read_next()).await == Ok(true) {}
        pipes.stdin_writer.close();
        pipes.flush(|_| true);
        let exit = guard
            .settle(
                confinement.as_ref(),
                monitor.as_ref(),
                spec.limits.term_grace,
                exit,
            )
            .await;
        let proof = read_proof(confinement.as_ref(), exit)?;
        Ok(ProcessEnd {
            exit,
            wall: started.elapsed(),
            stdout_bytes: pipes.out_bytes,
            stderr_bytes: pipes.err_bytes,
            lines: pipes.lines,
            cut: pipes.transcript.cut,
            transcript_error: pipes.transcript.error.take(),
            swept: guard.swept,
            survivors: guard.left,
            proof,
            refused_hosts: proxy.map(|proxy| proxy.refused()).unwrap_or_default(),
        })
    }
}

/// The PATH that the program runs with.
fn search_path(spec: &ProcessSpec) -> OsString {
    let mut variables = spec.env.iter();
    let path = variables.find(|(name, _)| name == "PATH");
    path.map(|(_, path)| path.clone()).unwrap_or_default()
}

impl ProcessHost {
    /// Chooses the launcher that starts the program.
    fn launcher_for(
        &self,
        confinement: Option<&SandboxSpec>,
        program_name: &str,
    ) -> Result<Option<Launcher>, Error> {
        match (&self.launcher, confinement) {
            (Some(launcher), Some(confinement)) => {
                Ok(Some(launcher.with_sandbox(&confinement.write()?)))
            }
            (None, Some(_)) => Err(Error::NoLauncher(program_name.to_owned())),
            (launcher, None) => Ok(launcher.clone()),
        }
    }
}

fn log_end(ended: &Result<ProcessEnd, Error>) {
    match ended {
        Ok(ended) => {
            let exit = ended.exit.to_string();
            Span::current().record("exit", &exit);
            let wall_ms = u64::try_from(ended.wall.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(exit, wall_ms, swept = ended.swept, "process ended");
        }
        // The caller propagates the error; it is logged where it stops.
        Err(error) => tracing::debug!(%error, "process not run"),
    }
}

/// Opens the proxy of a run whose network is limited to a list of hosts.
fn open_proxy(confinement: Option<&mut SandboxSpec>) -> Result<Option<Proxy>, Error> {
    let Some(confinement) = confinement else {
        return Ok(None);
    };
    let path = confinement.proof.clone();
    Proxy::open(confinement).map_err(|source| Error::File { path, source })
}

fn read_proof(
    confinement: Option<&SandboxSpec>,
    exit: ProcessExit,
) -> Result<Option<Proof>, Error> {
    match confinement.map(SandboxSpec::read_proof) {
        // It was stopped before it could begin.
        // There is nothing to prove: no program was started, or its result is not wanted.
        Some(Err(_)) if exit == ProcessExit::Cancelled => Ok(None),
        // This code means that it could not confine itself. With any other exit it ended before it
        // could prove anything, and may be retried.
        Some(Err(_)) if exit != ProcessExit::Code(NOT_CONFINED.into()) => {
            let exit = exit.to_string();
            Err(sandbox::Error::Killed { exit }.into())
        }
        result => Ok(result.transpose()?),
    }
}

/// Reads output until the leader has ended by itself, or ends it at a limit or stop.
async fn watch_child(
    spawned: &mut KnownChild,
    pipes: &mut OutputPipes<impl FnMut(OutputLine) -> LineReaction + Send>,
    guard: &mut LiveRunGuard,
    limits: &ProcessLimits,
    monitor: Option<&DiskMonitor>,
    stop: &mut StopSignal,
    started: Instant,
) -> ProcessExit {
    let wall = saturating_deadline(started, limits.wall);
    let mut idle = saturating_deadline(started, limits.idle);
    // The wall deadline stands in until there is one; the branch below is off meanwhile.
    let mut dismissed = None;
    let mut census = saturating_deadline(started, STRAY_SCAN_INTERVAL);
    let overrun = async {
        match monitor {
            Some(monitor) => monitor.wait_for_excess().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(overrun);
    let cause = loop {
        if pipes.stdin_writer.over && dismissed.is_none() {
            dismissed = Some(saturating_deadline(Instant::now(), limits.exit_grace));
        }
        tokio::select! {
            // In this order, so that endless output cannot delay a stop or the wall limit.
            biased;
            () = stop.requested() => break ProcessExit::Cancelled,
            () = sleep_until(wall) => break ProcessExit::WallLimit,
            // A failed wait cannot tell the exit; it counts as a failure and never as success.
            status = spawned.child.wait() => return status.map_or(ProcessExit::Code(-1), exit_of),
            () = sleep_until(dismissed.unwrap_or(wall)), if dismissed.is_some() => break ProcessExit::Dismissed,
            // Any byte counts as a sign of life, also on stderr: many agents report progress there.
            _ = pipes.read_next(), if pipes.is_open() => idle = saturating_deadline(Instant::now(), limits.idle),
            () = sleep_until(idle) => break ProcessExit::IdleLimit,
            added = &mut overrun => break disk_limit_exit(added),
            () = sleep_until(census), if guard.may_scatter => {
                guard.record_strays().await;
                census = saturating_deadline(Instant::now(), STRAY_SCAN_INTERVAL);
            }
        }
    };
    // A program that can be asked politely saves its session; the signal follows in any case.
    if pipes.stdin_writer.write_farewell_and_close() {
        let until = saturating_deadline(Instant::now(), limits.term_grace);
        loop {
            tokio::select! {
                _ = spawned.child.wait() => break,
                () = sleep_until(until) => break,
                _ = pipes.read_next(), if pipes.is_open() => {}
            }
        }
    }
    // Keep reading the pipes while the tree is ended: a program that writes its last output into a
    // full pipe would otherwise never exit.
    {
        let ending = guard.end(limits.term_grace);
        tokio::pin!(ending);
        loop {
            tokio::select! {
                () = &mut ending => break,
                _ = pipes.read_next(), if pipes.is_open() => {}
            }
        }
    }
    let reaped = timeout_at(Instant::now() + REAP_MAX, spawned.child.wait()).await;
    // A process in an uninterruptible wait, for example on a dead network disk, ignores SIGKILL.
    if reaped.is_err() {
        tracing::warn!("a process did not end after SIGKILL; it hangs in the kernel");
    }
    cause
}

fn disk_limit_exit(added: DiskUsage) -> ProcessExit {
    ProcessExit::DiskLimit {
        bytes: added.bytes,
        files: added.files,
    }
}

/// Adds the durations; the cap keeps an unlimited duration from overflowing `Instant`.
fn saturating_deadline(from: Instant, by: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    from + by.min(CENTURY)
}

pub(super) fn exit_of(status: ExitStatus) -> ProcessExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, Some(signal)) => ProcessExit::Signal(signal),
        (None, None) => ProcessExit::Code(-1),
    }
}

/// The record and the process tree of a run. Dropping it, with a cancelled future for example,
/// kills the tree and removes the record.
struct LiveRunGuard {
    record: LiveRunRecord,
    tree: ProcessTree,
    /// Whether no PID namespace holds the processes together.
    may_scatter: bool,
    swept: usize,
    left: usize,
    over: bool,
}

impl LiveRunGuard {
    /// Ends what is left of the run. Returns its exit, which is another one if it turns out that
    /// the run exceeded its disk quota.
    async fn settle(
        &mut self,
        confinement: Option<&SandboxSpec>,
        monitor: Option<&DiskMonitor>,
        grace: Duration,
        exit: ProcessExit,
    ) -> ProcessExit {
        // The code 125 may come from a launcher that failed before there was a namespace.
        let had_namespace = matches!(exit, ProcessExit::Code(code) if code != i32::from(NOT_CONFINED))
            && confinement.is_some_and(SandboxSpec::ends_with_its_namespace);
        if had_namespace {
            self.mark_over();
        } else {
            self.end(grace).await;
        }
        // A program can exceed its quota and end between two measurements. A run that we stopped
        // ourselves keeps its cause.
        let ended_by_itself = matches!(
            exit,
            ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Dismissed
        );
        match monitor {
            Some(monitor) if ended_by_itself => match monitor.excess().await {
                Some(added) => disk_limit_exit(added),
                None => exit,
            },
            Some(_) | None => exit,
        }
    }

    fn start(host: &ProcessHost, run_id: &super::RunId) -> Result<Self, Error> {
        let record = LiveRunRecord::create(&host.data_dir, run_id)?;
        let mut family = ProcessTree::of(record.mark(), None);
        family.with_orphans = host.adopts_orphans;
        // The leader does not exist yet; `started` adds it.
        Ok(Self {
            record,
            tree: family,
            may_scatter: false,
            swept: 0,
            left: 0,
            over: false,
        })
    }

    fn started(&mut self, pid: i32) -> Result<(), Error> {
        self.tree.leader = ProcessIdentity::of(pid);
        self.record.set_leader(self.tree.leader)
    }

    /// Records the processes that could not be found after the leader's end.
    async fn record_strays(&mut self) {
        let strays = self.tree.find_strays().await;
        self.tree.strays.clone_from(&strays);
        // A failed write matters only if we are killed too, so it does not fail the run.
        drop(self.record.set_strays(strays));
    }

    /// Marks the run as ended without a search. In a PID namespace the kernel ends all other
    /// processes before the leader's exit is visible.
    fn mark_over(&mut self) {
        self.record.remove();
        self.over = true;
    }

    async fn end(&mut self, term_grace: Duration) {
        let summary = self.tree.terminate(term_grace).await;
        self.swept += summary.ended;
        self.left = summary.left;
        // A record with survivors stays, so that the next sweep tries again.
        if summary.left == 0 {
            self.record.remove();
        }
        self.over = true;
    }
}

impl Drop for LiveRunGuard {
    fn drop(&mut self) {
        // A failed kill leaves the record for the next start.
        if !self.over && self.tree.kill() {
            self.record.remove();
        }
    }
}

/// Reads both output pipes of a child into the transcript and to the caller.
struct OutputPipes<F> {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Splitter,
    err: Splitter,
    out_chunk: Vec<u8>,
    err_chunk: Vec<u8>,
    transcript: TranscriptFile,
    stdin_writer: StdinWriter,
    on_line: F,
    out_bytes: u64,
    err_bytes: u64,
    lines: u64,
}

impl<F: FnMut(OutputLine) -> LineReaction + Send> OutputPipes<F> {
    fn new(
        spawned: &mut KnownChild,
        [out, err]: [Splitter; 2],
        transcript: TranscriptFile,
        stdin_writer: StdinWriter,
        on_line: F,
    ) -> Self {
        Self {
            // The pipes are taken out of the child, so that waiting for it does not close them.
            stdout: spawned.child.stdout.take(),
            stderr: spawned.child.stderr.take(),
            out,
            err,
            // One buffer per pipe, because both reads are pending at the same time.
            out_chunk: vec![0; CHUNK],
            err_chunk: vec![0; CHUNK],
            transcript,
            stdin_writer,
            on_line,
            out_bytes: 0,
            err_bytes: 0,
            lines: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads one chunk from either pipe and returns false when both are at their end. Cancel-safe:
    /// what is read is handled before the next await.
    async fn read_next(&mut self) -> bool {
        let (stream, count) = tokio::select! {
            count = read_pipe(self.stdout.as_mut(), &mut self.out_chunk), if self.stdout.is_some() => (OutputStream::Out, count),
            count = read_pipe(self.stderr.as_mut(), &mut self.err_chunk), if self.stderr.is_some() => (OutputStream::Err, count),
            // Not a sign of life, but it happens once for a line, so it delays no limit for long.
            () = tokio::time::sleep(HELD_LINE_MAX), if self.is_open() && self.holds_line() => {
                self.flush(Splitter::holds_line);
                return true;
            }
            else => return false,
        };
        if count == 0 {
            match stream {
                OutputStream::Out => self.stdout = None,
                OutputStream::Err => self.stderr = None,
            }
            // The last line may have no newline; `finish` emits it.
            return self.is_open();
        }
        self.handle_chunk(stream, count);
        // One chunk can hold thousands of lines, and a program that floods its output always has the
        // next one ready. Without this, timers and the end of the program are looked at only once in
        // 128 chunks: on a busy machine, after the wall limit.
        tokio::task::yield_now().await;
        true
    }

    fn handle_chunk(&mut self, stream: OutputStream, count: usize) {
        let (splitter, chunk, bytes) = match stream {
            OutputStream::Out => (&mut self.out, &self.out_chunk, &mut self.out_bytes),
            OutputStream::Err => (&mut self.err, &self.err_chunk, &mut self.err_bytes),
        };
        *bytes += count as u64;
        let (spool, on_line, voice) = (
            &mut self.transcript,
            &mut self.on_line,
            &mut self.stdin_writer,
        );
        splitter.push(&chunk[..count], |piece| {
            self.lines += 1;
            voice.apply_reaction(deliver_piece(stream, &piece, spool, on_line));
        });
    }

    fn holds_line(&self) -> bool {
        self.out.holds_line() || self.err.holds_line()
    }

    /// Delivers what the splitters keep.
    fn flush(&mut self, wanted: impl Fn(&Splitter) -> bool) {
        // Closures cannot borrow `self` as a whole while the splitters are borrowed.
        let (spool, on_line, voice, lines) = (
            &mut self.transcript,
            &mut self.on_line,
            &mut self.stdin_writer,
            &mut self.lines,
        );
        let mut deliver = |stream, piece: LinePiece<'_>| {
            *lines += 1;
            voice.apply_reaction(deliver_piece(stream, &piece, spool, on_line));
        };
        if wanted(&self.out) {
            self.out.finish(|piece| deliver(OutputStream::Out, piece));
        }
        if wanted(&self.err) {
            self.err.finish(|piece| deliver(OutputStream::Err, piece));
        }
    }
}

async fn read_pipe(pipe: Option<&mut (impl AsyncRead + Unpin)>, chunk: &mut [u8]) -> usize {
    match pipe {
        // An error on a pipe is treated as its end: there is nothing left to read either way.
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => 0,
    }
}

fn deliver_piece(
    stream: OutputStream,
    piece: &LinePiece<'_>,
    spool: &mut TranscriptFile,
    on_line: &mut impl FnMut(OutputLine) -> LineReaction,
) -> LineReaction {
    // The transcript is written first, so that it has the line on which a caller's reaction is
    // based.
    spool.write(piece.raw);
    on_line(OutputLine {
        stream,
        text: to_text(piece.raw),
        whole: piece.whole,
    })
}
