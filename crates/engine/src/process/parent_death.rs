//! The hidden verb `hold`, which runs in the child between our fork and the program. It ties the
//! child's life to ours, then becomes the program.
//!
//! A shell trap or a supervisor process could be killed before it acts. The kernel's parent-death
//! signal cannot: it also works if we get SIGKILL. It survives `exec`, but not a set-user-id
//! program.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;

use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
};

/// Becomes the program in `args` (`<parent pid> -- program args…`); returns only on failure.
///
/// The program dies when Countersign does, and adopts the orphans of its own tree, so that a
/// descendant can be found as long as the program lives. If Countersign ended before the death
/// signal was set, nothing is started.
#[expect(
    clippy::disallowed_methods,
    reason = "becomes the program, in the module that spawns"
)]
pub fn exec_tied_to_parent(args: &[OsString]) -> io::Result<Infallible> {
    let usage = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "use: hold PARENT-PID -- PROGRAM ARGS…",
        )
    };
    let [parent, dashes, program, args @ ..] = args else {
        return Err(usage());
    };
    if dashes != "--" {
        return Err(usage());
    }
    tie_to_parent(parent, usage)?;
    Err(std::process::Command::new(program).args(args).exec())
}

/// Makes this process die with the parent of that pid, and adopt the orphans of its own tree.
/// Fails if the parent has already ended, or if the pid is not a number.
pub(crate) fn tie_to_parent(parent: &OsStr, usage: impl Fn() -> io::Error) -> io::Result<()> {
    let parent = parent
        .to_str()
        .and_then(|pid| Pid::from_raw(pid.parse().ok()?))
        .ok_or_else(usage)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A subreaper gets the orphans of its tree instead of the machine's init process.
    set_child_subreaper(Some(getpid()))?;
    // The parent may have ended before the signal was set; then the signal never comes.
    if getppid() != Some(parent) {
        return Err(io::Error::other("Countersign ended before its child began"));
    }
    Ok(())
}

/// Makes this process the parent of all orphans of its runs, so that a process that left its
/// group, its session and its environment is still found. Call it once, in `main`, and only if
/// every run goes through [`exec_tied_to_parent`].
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}
