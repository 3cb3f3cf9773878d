//! One watched run, from the record before its start to the last of its tree.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{Instrument, Span, field, info_span};

use super::disk::{DiskMonitor, DiskUsage};
use super::lines::{LinePiece, Splitter, TranscriptFile, text};
use super::record::LiveRunRecord;
use super::spawn::{KnownChild, SpawnRecipe, find_program, spawn};
use super::tree::{ProcessIdentity, ProcessTree};
use super::voice::StdinWriter;
use super::{
    Error, Launcher, LineReaction, OutputLine, OutputStream, ProcessEnd, ProcessExit, ProcessHost,
    ProcessLimits, ProcessSpec, RUN_MARK, StopSignal,
};
use crate::sandbox::{self, NOT_CONFINED, Proof, Proxy, SandboxSpec};

const CHUNK: usize = 64 << 10;
/// How often we look who hides, where no namespace keeps a run together.
const CENSUS_EVERY: Duration = Duration::from_secs(1);
/// A leader that SIGKILL does not end hangs in the kernel; we do not hang with it.
const REAP_MAX: Duration = Duration::from_secs(5);

impl ProcessHost {
    /// Runs a program to its end, whatever that end is. Every line is handed to
    /// `on_line` as it comes. Dropping the future kills the tree at once.
    pub async fn run<R: Into<LineReaction>>(
        &self,
        spec: ProcessSpec,
        on_line: impl FnMut(OutputLine) -> R + Send,
        stop: StopSignal,
    ) -> Result<ProcessEnd, Error> {
        let program = spec.program.display();
        // Arguments are left out: they may hold a brief, and an agent's credentials.
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
        let named = spec.program.to_string_lossy().into_owned();
        if !spec.cwd.is_dir() {
            return Err(Error::NoDirectory {
                program: named,
                dir: spec.cwd,
            });
        }
        let path = spec
            .env
            .iter()
            .find(|(name, _)| name == "PATH")
            .map(|(_, path)| path.clone());
        let path = path.unwrap_or_default();
        let program = find_program(&spec.program, &path, &spec.cwd)?;
        let mut confinement = spec.confinement;
        let mut proxy = open_proxy(confinement.as_mut())?;
        if let Some(confinement) = &mut confinement {
            let needed = sandbox::program::needed(&program, &path);
            confinement.read.extend(needed.read);
        }
        let launcher = self.launcher_for(confinement.as_ref(), &named)?;
        let path = spec.transcript.clone();
        let spool = TranscriptFile::create(&spec.transcript, spec.limits.output_bytes)
            .map_err(|source| Error::File { path, source })?;

        let gauge = match spec.allotment {
            Some(allotment) => Some(DiskMonitor::begin(allotment).await),
            None => None,
        };
        let mut held = LiveRunGuard::begin(self, &spec.run_id)?;
        held.may_scatter = confinement
            .as_ref()
            .is_none_or(SandboxSpec::is_without_namespaces);
        let mut env = spec.env;
        if let Some(proxy) = &mut proxy {
            proxy.equip(&mut env);
        }
        env.push((RUN_MARK.into(), held.record.mark().into()));
        let recipe = SpawnRecipe {
            program: &program,
            args: &spec.args,
            env: &env,
            cwd: &spec.cwd,
            launcher: launcher.as_ref(),
        };
        let proxy = proxy.map(Proxy::start);
        let spawned = spawn(recipe.command()).await;
        let mut known = spawned.map_err(|source| Error::Spawn {
            program: named,
            source,
        })?;
        held.started(known.pid)?;
        Span::current().record("pid", known.pid);

        let voice = StdinWriter::new(&mut known, spec.stdin, spec.converses);
        let on_line = |line| on_line(line).into();
        let splitters = Splitter::pair(spec.limits.line_bytes, &env);
        let mut feeds = OutputPipes::new(&mut known, splitters, spool, voice, on_line);
        let mut exit = watch(
            &mut known,
            &mut feeds,
            &mut held,
            &spec.limits,
            gauge.as_ref(),
            &mut stop,
            started,
        )
        .await;
        let until = Instant::now() + spec.limits.drain_grace;
        while Instant::now() < until && timeout_at(until, feeds.next()).await == Ok(true) {}
        feeds.finish();
        feeds.voice.end();
        match (&confinement, exit) {
            (Some(confinement), ProcessExit::Code(code))
                if code != i32::from(NOT_CONFINED) && confinement.ends_as_a_whole() =>
            {
                held.is_over();
            }
            _ => held.end(spec.limits.term_grace).await,
        }
        if let (Some(gauge), ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Dismissed) =
            (&gauge, exit)
            && let Some(added) = gauge.over().await
        {
            exit = too_much(added);
        }
        let proof = proven(confinement.as_ref(), exit)?;
        Ok(ProcessEnd {
            exit,
            wall: started.elapsed(),
            stdout_bytes: feeds.out_bytes,
            stderr_bytes: feeds.err_bytes,
            lines: feeds.lines,
            cut: feeds.spool.cut,
            transcript_error: feeds.spool.error.take(),
            swept: held.swept,
            survivors: held.left,
            proof,
            refused_hosts: proxy.map(|proxy| proxy.refused()).unwrap_or_default(),
        })
    }
}

impl ProcessHost {
    /// Chooses the launcher that starts the program.
    fn launcher_for(
        &self,
        confinement: Option<&SandboxSpec>,
        named: &str,
    ) -> Result<Option<Launcher>, Error> {
        match (&self.launcher, confinement) {
            (Some(launcher), Some(confinement)) => {
                Ok(Some(launcher.confining(&confinement.write()?)))
            }
            (None, Some(_)) => Err(Error::NoLauncher(named.to_owned())),
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
        // The caller passes it on: it is logged where it stops.
        Err(error) => tracing::debug!(%error, "process not run"),
    }
}

/// The way out of a run whose network is held to hosts.
fn open_proxy(confinement: Option<&mut SandboxSpec>) -> Result<Option<Proxy>, Error> {
    let Some(confinement) = confinement else {
        return Ok(None);
    };
    let path = confinement.proof.clone();
    Proxy::open(confinement).map_err(|source| Error::File { path, source })
}

fn proven(confinement: Option<&SandboxSpec>, exit: ProcessExit) -> Result<Option<Proof>, Error> {
    match confinement.map(SandboxSpec::proven) {
        // Stopped before it could begin.
        Some(Err(_)) if exit == ProcessExit::Cancelled => Ok(None),
        // Where it could not confine itself it says so by this code; with any other it was ended
        // before it could prove anything, and may be tried again.
        Some(Err(_)) if exit != ProcessExit::Code(NOT_CONFINED.into()) => {
            let exit = exit.to_string();
            Err(sandbox::Error::Killed { exit }.into())
        }
        proven => Ok(proven.transpose()?),
    }
}

/// Reads and waits until the leader has ended, by itself or by us.
async fn watch(
    known: &mut KnownChild,
    feeds: &mut OutputPipes<impl FnMut(OutputLine) -> LineReaction + Send>,
    held: &mut LiveRunGuard,
    limits: &ProcessLimits,
    gauge: Option<&DiskMonitor>,
    stop: &mut StopSignal,
    started: Instant,
) -> ProcessExit {
    let wall = later(started, limits.wall);
    let mut idle = later(started, limits.idle);
    let mut dismissed = None;
    let mut census = later(started, CENSUS_EVERY);
    let overrun = async {
        match gauge {
            Some(gauge) => gauge.overrun().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(overrun);
    let cause = loop {
        if feeds.voice.over && dismissed.is_none() {
            dismissed = Some(later(Instant::now(), limits.exit_grace));
        }
        tokio::select! {
            biased;
            () = stop.asked() => break ProcessExit::Cancelled,
            () = sleep_until(wall) => break ProcessExit::WallLimit,
            status = known.child.wait() => return status.map_or(ProcessExit::Code(-1), exit_of),
            () = sleep_until(dismissed.unwrap_or(wall)), if dismissed.is_some() => break ProcessExit::Dismissed,
            _ = feeds.next(), if feeds.open() => idle = later(Instant::now(), limits.idle),
            () = sleep_until(idle) => break ProcessExit::IdleLimit,
            added = &mut overrun => break too_much(added),
            () = sleep_until(census), if held.may_scatter => {
                held.take_census().await;
                census = later(Instant::now(), CENSUS_EVERY);
            }
        }
    };
    if feeds.voice.say_farewell() {
        let until = later(Instant::now(), limits.term_grace);
        loop {
            tokio::select! {
                _ = known.child.wait() => break,
                () = sleep_until(until) => break,
                _ = feeds.next(), if feeds.open() => {}
            }
        }
    }
    // The pipes are read on while the tree is ended: a program that says goodbye
    // into a full pipe would otherwise never get to its end.
    {
        let ending = held.end(limits.term_grace);
        tokio::pin!(ending);
        loop {
            tokio::select! {
                () = &mut ending => break,
                _ = feeds.next(), if feeds.open() => {}
            }
        }
    }
    let reaped = timeout_at(Instant::now() + REAP_MAX, known.child.wait()).await;
    if reaped.is_err() {
        tracing::warn!("a killed process is still there: it hangs in the kernel");
    }
    cause
}

fn too_much(added: DiskUsage) -> ProcessExit {
    ProcessExit::DiskLimit {
        bytes: added.bytes,
        files: added.files,
    }
}

fn later(from: Instant, by: Duration) -> Instant {
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

/// The record and the family of a run, which are let go together: on a dropped
/// future too.
struct LiveRunGuard {
    record: LiveRunRecord,
    family: ProcessTree,
    /// No PID namespace keeps them together.
    may_scatter: bool,
    swept: usize,
    left: usize,
    over: bool,
}

impl LiveRunGuard {
    fn begin(host: &ProcessHost, run_id: &super::RunId) -> Result<Self, Error> {
        let record = LiveRunRecord::begin(&host.data_dir, run_id)?;
        let mut family = ProcessTree::of(record.mark(), None);
        family.with_orphans = host.adopts;
        Ok(Self {
            record,
            family,
            may_scatter: false,
            swept: 0,
            left: 0,
            over: false,
        })
    }

    fn started(&mut self, pid: i32) -> Result<(), Error> {
        self.family.leader = ProcessIdentity::of(pid);
        self.record.started(self.family.leader)
    }

    /// Puts on record who could not be found once the leader is gone.
    async fn take_census(&mut self) {
        let strays = self.family.look_for_strays().await;
        self.family.strays.clone_from(&strays);
        // What cannot be written is missed only where we are killed as well.
        drop(self.record.knows(strays));
    }

    /// The kernel has ended them all before it let the leader end by itself: nobody is looked for.
    fn is_over(&mut self) {
        self.record.remove();
        self.over = true;
    }

    async fn end(&mut self, term_grace: Duration) {
        let cleared = self.family.end(term_grace).await;
        self.swept += cleared.ended;
        self.left = cleared.left;
        if cleared.left == 0 {
            self.record.remove();
        }
        self.over = true;
    }
}

impl Drop for LiveRunGuard {
    fn drop(&mut self) {
        if !self.over && self.family.kill() {
            self.record.remove();
        }
    }
}

/// Both pipes of a child, on their way to the transcript and to the caller.
struct OutputPipes<F> {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Splitter,
    err: Splitter,
    out_chunk: Vec<u8>,
    err_chunk: Vec<u8>,
    spool: TranscriptFile,
    voice: StdinWriter,
    on_line: F,
    out_bytes: u64,
    err_bytes: u64,
    lines: u64,
}

impl<F: FnMut(OutputLine) -> LineReaction + Send> OutputPipes<F> {
    fn new(
        known: &mut KnownChild,
        [out, err]: [Splitter; 2],
        spool: TranscriptFile,
        voice: StdinWriter,
        on_line: F,
    ) -> Self {
        Self {
            stdout: known.child.stdout.take(),
            stderr: known.child.stderr.take(),
            out,
            err,
            out_chunk: vec![0; CHUNK],
            err_chunk: vec![0; CHUNK],
            spool,
            voice,
            on_line,
            out_bytes: 0,
            err_bytes: 0,
            lines: 0,
        }
    }

    fn open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Takes one chunk from either pipe; false when both are at their end.
    /// Safe to drop half-way: nothing is taken before it is handled.
    async fn next(&mut self) -> bool {
        let (stream, count) = tokio::select! {
            count = read(self.stdout.as_mut(), &mut self.out_chunk), if self.stdout.is_some() => (OutputStream::Out, count),
            count = read(self.stderr.as_mut(), &mut self.err_chunk), if self.stderr.is_some() => (OutputStream::Err, count),
            else => return false,
        };
        if count == 0 {
            match stream {
                OutputStream::Out => self.stdout = None,
                OutputStream::Err => self.stderr = None,
            }
            return self.open();
        }
        self.take(stream, count);
        true
    }

    fn take(&mut self, stream: OutputStream, count: usize) {
        let (splitter, chunk, bytes) = match stream {
            OutputStream::Out => (&mut self.out, &self.out_chunk, &mut self.out_bytes),
            OutputStream::Err => (&mut self.err, &self.err_chunk, &mut self.err_bytes),
        };
        *bytes += count as u64;
        let (spool, on_line, voice) = (&mut self.spool, &mut self.on_line, &mut self.voice);
        splitter.push(&chunk[..count], |piece| {
            self.lines += 1;
            voice.react(hand_on(stream, &piece, spool, on_line));
        });
    }

    fn finish(&mut self) {
        let (spool, on_line, lines) = (&mut self.spool, &mut self.on_line, &mut self.lines);
        // Nobody is left to answer.
        let mut last = |stream, piece: LinePiece<'_>| {
            *lines += 1;
            drop(hand_on(stream, &piece, spool, on_line));
        };
        self.out.finish(|piece| last(OutputStream::Out, piece));
        self.err.finish(|piece| last(OutputStream::Err, piece));
    }
}

async fn read(pipe: Option<&mut (impl AsyncRead + Unpin)>, chunk: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => 0,
    }
}

fn hand_on(
    stream: OutputStream,
    piece: &LinePiece<'_>,
    spool: &mut TranscriptFile,
    on_line: &mut impl FnMut(OutputLine) -> LineReaction,
) -> LineReaction {
    spool.write(piece.raw);
    on_line(OutputLine {
        stream,
        text: text(piece.raw),
        whole: piece.whole,
    })
}
