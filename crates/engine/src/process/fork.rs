//! The only fork without an exec, and the only unsafe code. The outer and the inner process of a
//! sandbox are the same program; loading it a second time for the inner one took longer than all
//! its work. It refuses to fork if there is another thread.

use std::fs;
use std::io;

use nix::unistd::ForkResult;
use rustix::process::Pid;

/// Forks this process. The parent gets the child's pid, the child gets nothing.
#[expect(
    unsafe_code,
    reason = "fork: in a process with one thread, the child may do anything that the parent may"
)]
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // A lock of another thread, for example the allocator's, would stay locked in the child for
    // ever.
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!(
            "a process with {threads} threads cannot be forked"
        )));
    }
    // SAFETY: this thread is the only one, so no lock is held by a thread that the child lacks.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Pid::from_raw(child.as_raw()),
        ForkResult::Child => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_another_thread_nothing_is_forked() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || receiver.recv());
        let refused = fork().unwrap_err().to_string();
        assert!(refused.contains("cannot be forked"), "{refused}");
        drop(sender);
        assert!(other.join().unwrap().is_err());
    }
}
