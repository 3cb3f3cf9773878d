//! The hidden verb `confine`: what runs between our fork and the program.
//!
//! On the native rung there are two of us: one outside, who waits, watches the disk and dies with
//! Countersign; and one inside, its fork and the first process of the new PID namespace, who
//! builds the root, locks itself in, proves it and starts the program. When either is gone, the
//! kernel ends everything inside. On the other rungs the one inside is started ([`confined`]).

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
use super::{SandboxLevel, SandboxNetwork, SandboxSpec, bubblewrap, handover, native, proof, shed};
use crate::process::{
    Cgroup, CgroupLimits, ForkSide, ProgramExit, ResourceLimits, Supervision, become_program,
    tie_to, watch_over, watch_over_ourselves,
};

/// Our own program, whatever has become of its file.
const OURSELVES: &str = "/proc/self/exe";

/// Confines what follows and becomes it, or watches over it: `<parent pid> <specification> --
/// program args…`. An error means that nothing was started.
pub fn confine(args: &[OsString]) -> io::Result<u8> {
    let [parent, file, dashes, program, args @ ..] = args else {
        return Err(usage());
    };
    if dashes != "--" {
        return Err(usage());
    }
    tie_to(parent, usage)?;
    shed::inherited_files()?;
    let confinement = SandboxSpec::read(Path::new(file))?;
    let mut notebook = ProofLog::open(&confinement, Path::new(file))?;
    let done = outside(&confinement, file, &mut notebook, program, args);
    noted(done, &mut notebook)
}

/// What went wrong is in the notes as well: whoever waits may not see our last words.
fn noted(done: io::Result<u8>, notebook: &mut ProofLog) -> io::Result<u8> {
    if let Err(error) = &done {
        notebook.failed(error)?;
    }
    done
}

/// The part that runs inside where it is not a fork: `<pid of the one outside> <specification> --
/// program args…`.
pub fn confined(args: &[OsString]) -> io::Result<u8> {
    let [outside, file, dashes, program, args @ ..] = args else {
        return Err(usage());
    };
    if dashes != "--" {
        return Err(usage());
    }
    let confinement = SandboxSpec::read(Path::new(file))?;
    let mut notebook = ProofLog::open(&confinement, Path::new(file))?;
    let done = match confinement.rung {
        SandboxLevel::Native => Err(usage()),
        SandboxLevel::Bubblewrap => network_of(&confinement, Path::new(file))
            .and_then(|()| become_confined(&confinement, &mut notebook, program, args)),
        SandboxLevel::Landlock => tied_to(outside)
            .and_then(|()| become_confined(&confinement, &mut notebook, program, args)),
    };
    noted(done, &mut notebook)
}

/// Hands the sockets of a proxy out of the namespace that bubblewrap has made.
fn network_of(confinement: &SandboxSpec, file: &Path) -> io::Result<()> {
    match &confinement.network {
        SandboxNetwork::Proxy(proxied) => handover::hand_over(proxied, notes_of(file)),
        SandboxNetwork::On | SandboxNetwork::Off => Ok(()),
    }
}

/// The directory of the specification.
fn notes_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// The first process of the new PID namespace.
fn inside(
    confinement: &SandboxSpec,
    outside: &OsStr,
    notebook: &mut ProofLog,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<u8> {
    tied_to(outside)?;
    let here = std::env::current_dir()?;
    let built = native::build(confinement)?;
    std::env::set_current_dir(&here)?;
    let confinement = &SandboxSpec {
        // A name of a socket must not lead to anybody outside.
        unix_sockets: confinement.unix_sockets && built.apart,
        ..confinement.clone()
    };
    lock_in(confinement, notebook)?;
    let started = watch_over(Path::new(program), args, Supervision::EverybodyHere);
    let ending = started.map_err(|error| not_started(program, &error))?;
    notebook.ended(ending)?;
    Ok(ending.code())
}

fn become_confined(
    confinement: &SandboxSpec,
    notebook: &mut ProofLog,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<u8> {
    lock_in(confinement, notebook)?;
    let started = become_program(Path::new(program), args);
    match started.map_err(|error| not_started(program, &error))? {}
}

/// Names the file that is not mounted, where that is why.
fn not_started(program: &OsStr, error: &io::Error) -> io::Error {
    let program = Path::new(program);
    let why = super::program::unreachable(program).unwrap_or_else(|| error.to_string());
    io::Error::other(format!(
        "could not start {} in the sandbox: {why}; `countersign doctor` tries every agent, and [sandbox] show in your own configuration adds what is missing",
        program.display()
    ))
}

/// We die with the one outside, who may have gone before that was asked for. It may be in another
/// PID namespace, so that only the old `/proc` can tell.
fn tied_to(outside: &OsStr) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let status = fs::read_to_string("/proc/self/status")?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    if parent.is_some_and(|pid| OsStr::new(pid.trim()) == outside) {
        Ok(())
    } else {
        Err(io::Error::other("the one who watches has ended"))
    }
}

fn usage() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "use: confine PARENT-PID SPECIFICATION -- PROGRAM ARGS…",
    )
}

/// Makes the namespaces, starts the one inside and waits for its end. On the native rung the one
/// inside comes back from here as well, with the program's end.
fn outside(
    confinement: &SandboxSpec,
    file: &OsStr,
    notebook: &mut ProofLog,
    program: &OsStr,
    args: &[OsString],
) -> io::Result<u8> {
    let own = confinement.write.first();
    let dir = own.cloned().unwrap_or_else(|| "/".into());
    let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let allowance = ResourceLimits {
        opened: open(&dir, by_name, Mode::empty())?,
        dir,
        floor_bytes: confinement.bounds.disk_floor_bytes,
        // The kernel's limit on processes is none for the machine's root, nor is there one for a
        // run that has no namespace of its own.
        processes: (getuid().is_root() || confinement.rung == SandboxLevel::Landlock)
            .then_some(confinement.bounds.processes),
        memory_bytes: confinement.bounds.memory_bytes,
        memory_floor_bytes: confinement.bounds.memory_floor_bytes,
        own_mounts: confinement.rung != SandboxLevel::Landlock,
        hunts: confinement.rung == SandboxLevel::Landlock,
        // Before the namespaces are made: inside them our own group is the root of all.
        group: Cgroup::enter(CgroupLimits {
            memory_bytes: confinement.bounds.memory_bytes,
            processes: confinement.bounds.processes,
        }),
    };
    let us: OsString = std::process::id().to_string().into();
    let ending = match confinement.rung {
        SandboxLevel::Native => {
            native::separate(&confinement.network, notes_of(Path::new(file)))?;
            match watch_over_ourselves(allowance)? {
                ForkSide::Outside(ending) => ending,
                ForkSide::Inside => return inside(confinement, &us, notebook, program, args),
            }
        }
        SandboxLevel::Bubblewrap => {
            let file = bubblewrap::seen_inside(file)?;
            let words = words(us, file, program, args);
            let (front, words) = bubblewrap::command(confinement, words)?;
            watch_over(&front, &words, Supervision::Outside(&allowance))?
        }
        SandboxLevel::Landlock => {
            let words = words(us, file.to_owned(), program, args);
            watch_over(
                Path::new(OURSELVES),
                &words,
                Supervision::Outside(&allowance),
            )?
        }
    };
    let told = proof::ending(&confinement.proof).unwrap_or(ending);
    if let ProgramExit::Signal(number) = told {
        die_of(number)?;
    }
    Ok(told.code())
}

/// How the one inside is started where it is not a fork.
fn words(us: OsString, file: OsString, program: &OsStr, args: &[OsString]) -> Vec<OsString> {
    let mut words = vec!["confined".into(), us, file, "--".into(), program.to_owned()];
    words.extend_from_slice(args);
    words
}

/// Ends as the program inside ended, so that whoever waits for us sees it.
fn die_of(number: i32) -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    match Signal::from_named_raw(number) {
        Some(signal) => Ok(kill_process(getpid(), signal)?),
        None => Ok(()),
    }
}

/// Gives up everything that can be given up, in the order in which that is possible, and proves it.
fn lock_in(confinement: &SandboxSpec, notebook: &mut ProofLog) -> io::Result<()> {
    // Where memory runs out, the kernel ends this run before anything of the person's.
    drop(fs::write("/proc/self/oom_score_adj", "500"));
    shed::bounds(
        &confinement.bounds,
        confinement.rung != SandboxLevel::Landlock,
    )?;
    shed::capabilities()?;
    let abi = super::landlock::restrict(confinement)?;
    super::seccomp::restrict(confinement)?;
    let proof = proof::prove(confinement, abi)?;
    notebook.proven(proof)?;
    Ok(())
}
