//! What runs in the child, between our fork and the program: the hidden verb
//! `hold`. It ties the child's life to ours, then becomes the program.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;

use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
};

/// Becomes the program in `args` (`<parent pid> -- program args…`); returns only
/// on failure.
///
/// The program dies when Countersign does, and adopts the orphans of its own
/// tree, so that a descendant can be found for as long as the program lives. If
/// Countersign went before the death signal was set, nothing is started.
#[expect(
    clippy::disallowed_methods,
    reason = "becomes the program, in the room that spawns"
)]
pub fn hold(args: &[OsString]) -> io::Result<Infallible> {
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
    tie_to(parent, usage)?;
    Err(std::process::Command::new(program).args(args).exec())
}

/// From here on this process dies when the one of that number does, and adopts the orphans of its
/// own tree. An error if that one has gone already, or is no number.
pub(crate) fn tie_to(parent: &OsStr, usage: impl Fn() -> io::Error) -> io::Result<()> {
    let parent = parent
        .to_str()
        .and_then(|pid| Pid::from_raw(pid.parse().ok()?))
        .ok_or_else(usage)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_child_subreaper(Some(getpid()))?;
    if getppid() != Some(parent) {
        return Err(io::Error::other("Countersign ended before its child began"));
    }
    Ok(())
}

/// Makes this process the parent of whatever its runs leave behind, so that a
/// process that left its group, its session and its environment is still found.
/// For `main`, once, and only where every run goes through [`hold`].
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}
