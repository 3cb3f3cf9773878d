//! The hidden verb `confine`, which runs between our fork and the program.
//!
//! The native level has two processes of ours. The outer one waits, watches the disk and dies with
//! Countersign. The inner one, its fork and the first process of the new PID namespace, builds the
//! root, restricts itself, proves it and starts the program. When either ends, the kernel ends
//! everything inside. On the other levels the inner process is spawned ([`confined`]).
//!
//! It refuses to start the program after any error. Everything that it opens or reads before it is
//! restricted comes from the specification, which lies outside of all that a run may touch.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getuid, kill_process, set_parent_process_death_signal,
    setrlimit,
};

use super::proof::ProofLog;
use super::{
    SandboxLevel, SandboxNetwork, SandboxSpec, bubblewrap, handover, native, privileges, proof,
};
use crate::process::{
    Cgroup, CgroupLimits, ForkSide, ProgramExit, ResourceLimits, Supervision, become_program,
    fork_supervised, run_supervised, tie_to_parent,
};

/// Our own program, even if its file has been replaced or deleted.
const OURSELVES: &str = "/proc/self/exe";

/// Runs a program in a sandbox: `<parent pid> <specification> -- program args…`. An error means
/// that nothing was started.
pub fn run_confined(args: &[OsString]) -> io::Result<u8> {
    let [parent, file, dashes, program, args @ ..] = args else {
        return Err(usage_error());
    };
    if dashes != "--" {
        return Err(usage_error());
    }
    // The parent may have died before this line, so the pid on the command line is compared.
    tie_to_parent(parent, usage_error)?;
    // This comes before anything is opened here, because it closes all but the standard streams.
    privileges::close_inherited_files()?;
    let confinement = SandboxSpec::read(Path::new(file))?;
    // The log is opened now because later neither its path nor the right to write is left.
    let mut proof_log = ProofLog::open(&confinement, Path::new(file))?;
    let result = supervise_from_outside(&confinement, file, &mut proof_log, program, args);
    log_failure(result, &mut proof_log)
}

/// Writes an error to the proof file as well, because the waiting process may not see our stderr.
fn log_failure(result: io::Result<u8>, proof_log: &mut ProofLog) -> io::Result<u8> {
    if let Err(error) = &result {
        proof_log.log_failure(error)?;
    }
    result
}

/// Runs the inner process on levels where it is not a fork: `<pid of the outer process>
/// <specification> -- program args…`.
pub fn run_inside(args: &[OsString]) -> io::Result<u8> {
    let [outside, file, dashes, program, args @ ..] = args else {
        return Err(usage_error());
    };
    if dashes != "--" {
        return Err(usage_error());
    }
    let confinement = SandboxSpec::read(Path::new(file))?;
    let mut proof_log = ProofLog::open(&confinement, Path::new(file))?;
    let result = match confinement.level {
        SandboxLevel::Native => Err(usage_error()),
        SandboxLevel::Bubblewrap => hand_over_network(&confinement, Path::new(file))
            .and_then(|()| lock_in_and_exec(&confinement, &mut proof_log, program, args)),
        // Only this level ties itself: bubblewrap has `--die-with-parent`, and its PID namespace
        // hides the outer process from us.
        SandboxLevel::Landlock => tie_to_outside(outside)
            .and_then(|()| lock_in_and_exec(&confinement, &mut proof_log, program, args)),
    };
    log_failure(result, &mut proof_log)
}

/// Passes the sockets of the proxy out of the namespace that bubblewrap created.
fn hand_over_network(confinement: &SandboxSpec, file: &Path) -> io::Result<()> {
    match &confinement.network {
        SandboxNetwork::Proxy(rules) => handover::send_listeners(rules, notes_dir(file)),
        SandboxNetwork::On | SandboxNetwork::Off => Ok(()),
    }
}

/// Returns the directory of the specification.
fn notes_dir(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Runs as the first process of the new PID namespace.
fn run_as_namespace_init(
    confinement: &SandboxSpec,
    outside: &OsStr,
    proof_log: &mut ProofLog,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<u8> {
    tie_to_outside(outside)?;
    // The working directory is a path of the machine; the same path exists in the new root.
    let here = std::env::current_dir()?;
    let built = native::build_root(confinement)?;
    // By name, because the old directory handle would lead out of the new root.
    std::env::set_current_dir(&here)?;
    let confinement = &SandboxSpec {
        // A socket's path must not lead to a process outside.
        unix_sockets: confinement.unix_sockets && built.apart,
        ..confinement.clone()
    };
    restrict(confinement, proof_log)?;
    // The first process of a PID namespace must reap orphans: nothing else does, and zombies would
    // use up the process limit.
    let started = run_supervised(Path::new(program), args, Supervision::ReapAll);
    let ending = started.map_err(|error| start_error(program, &error))?;
    // Exit codes above 128 are ambiguous. The note tells a signal from a program that returned such
    // a code.
    proof_log.log_exit(ending)?;
    Ok(ending.code())
}

fn lock_in_and_exec(
    confinement: &SandboxSpec,
    proof_log: &mut ProofLog,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<u8> {
    restrict(confinement, proof_log)?;
    let started = become_program(Path::new(program), args);
    match started.map_err(|error| start_error(program, &error))? {}
}

/// Returns an error that names the file that is not mounted, if that is the cause.
fn start_error(program: &OsStr, error: &io::Error) -> io::Error {
    let program = Path::new(program);
    let why = super::program::why_unreachable(program).unwrap_or_else(|| error.to_string());
    io::Error::other(format!(
        "could not start {} in the sandbox: {why}; run `countersign doctor` to test every agent, and add missing paths with [sandbox] show in your own configuration",
        program.display()
    ))
}

/// Makes us die with the outer process, and fails if it ended before that. It may be in another
/// PID namespace, so only the old `/proc` shows its pid.
fn tie_to_outside(outside: &OsStr) -> io::Result<()> {
    // The signal is set first and the parent checked afterwards. In the other order the parent
    // could die in between, and no signal would ever arrive.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let status = fs::read_to_string("/proc/self/status")?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    if parent.is_some_and(|pid| OsStr::new(pid.trim()) == outside) {
        Ok(())
    } else {
        Err(io::Error::other(
            "the outer process of the sandbox has ended",
        ))
    }
}

fn usage_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "use: confine PARENT-PID SPECIFICATION -- PROGRAM ARGS…",
    )
}

/// Creates the namespaces, starts the inner process and waits for its end. On the native level the
/// inner process returns from here too, with the program's exit code.
fn supervise_from_outside(
    confinement: &SandboxSpec,
    file: &OsStr,
    proof_log: &mut ProofLog,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<u8> {
    // The first writable directory is the worktree or the run's own directory: its disk is the one
    // that a run can fill.
    let own = confinement.write.first();
    let dir = own.cloned().unwrap_or_else(|| "/".into());
    let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let limits = ResourceLimits {
        // An open handle still reaches the disk after the mounts have changed.
        opened: open(&dir, by_name, Mode::empty())?,
        dir,
        floor_bytes: confinement.bounds.disk_floor_bytes,
        // The kernel's process limit does not apply to the machine's root, nor to a run without
        // its own namespace.
        processes: (getuid().is_root() || confinement.level == SandboxLevel::Landlock)
            .then_some(confinement.bounds.processes),
        memory_bytes: confinement.bounds.memory_bytes,
        memory_floor_bytes: confinement.bounds.memory_floor_bytes,
        own_mounts: confinement.level != SandboxLevel::Landlock,
        kills_descendants: confinement.level == SandboxLevel::Landlock,
        // This comes before the namespaces: inside them our own group looks like the root of all
        // groups.
        group: Cgroup::enter(CgroupLimits {
            memory_bytes: confinement.bounds.memory_bytes,
            processes: confinement.bounds.processes,
        }),
    };
    // Our pid as the machine's `/proc` shows it; `getpid` inside would be a different number.
    let us: OsString = std::process::id().to_string().into();
    let ending = match confinement.level {
        // The namespaces are created by a process with a single thread: `unshare` of a user
        // namespace fails otherwise.
        SandboxLevel::Native => {
            native::unshare_namespaces(&confinement.network, notes_dir(Path::new(file)))?;
            match fork_supervised(limits)? {
                ForkSide::Outside(ending) => ending,
                ForkSide::Inside => {
                    return run_as_namespace_init(confinement, &us, proof_log, program, args);
                }
            }
        }
        SandboxLevel::Bubblewrap => {
            let file = bubblewrap::path_inside(file)?;
            let inner = inner_args(us, file, program, args);
            let (bwrap, args) = bubblewrap::bwrap_command(confinement, inner)?;
            run_supervised(&bwrap, &args, Supervision::Outside(&limits))?
        }
        SandboxLevel::Landlock => {
            let args = inner_args(us, file.to_owned(), program, args);
            // `/proc/self/exe` still works if an update replaced our file since the start.
            run_supervised(Path::new(OURSELVES), &args, Supervision::Outside(&limits))?
        }
    };
    // The inner process knows the program's own exit; the outer one sees only that of the inner.
    let exit = proof::read_program_exit(&confinement.proof).unwrap_or(ending);
    if let ProgramExit::Signal(number) = exit {
        die_of_signal(number)?;
    }
    Ok(exit.code())
}

/// Returns the arguments of the inner process on levels where it is not a fork.
fn inner_args(us: OsString, file: OsString, program: &OsStr, args: &[OsString]) -> Vec<OsString> {
    let mut words = vec!["confined".into(), us, file, "--".into(), program.to_owned()];
    words.extend_from_slice(args);
    words
}

/// Ends this process with the signal that ended the program, so that the waiting process sees it.
fn die_of_signal(number: i32) -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // Our own death must not leave a core dump.
    setrlimit(Resource::Core, none)?;
    match Signal::from_named_raw(number) {
        Some(signal) => Ok(kill_process(getpid(), signal)?),
        None => Ok(()),
    }
}

/// Gives up all rights, in the only possible order, and proves it. Capabilities go before Landlock
/// and seccomp, which need `no_new_privs` and nothing else. seccomp is last, because it refuses
/// calls that the earlier steps make. The proof runs under all of them.
fn restrict(confinement: &SandboxSpec, proof_log: &mut ProofLog) -> io::Result<()> {
    // If memory runs out, the kernel kills this run before the person's processes.
    drop(fs::write("/proc/self/oom_score_adj", "500"));
    privileges::set_resource_limits(
        &confinement.bounds,
        confinement.level != SandboxLevel::Landlock,
    )?;
    privileges::drop_capabilities()?;
    let abi = super::landlock::restrict_with_landlock(confinement)?;
    super::seccomp::restrict_with_seccomp(confinement)?;
    let proof = proof::prove(confinement, abi)?;
    proof_log.log_proof(proof)?;
    Ok(())
}
