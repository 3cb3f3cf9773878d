//! The one fork without an exec, and the one place with unsafe code. The two ends of a sandbox are
//! the same program; to load it a second time for the inner one took longer than all that is done
//! in there. It refuses to fork where there is another thread.

use std::fs;
use std::io;

use nix::unistd::ForkResult;
use rustix::process::Pid;

/// Two of us go on from here: the number of the other one for the parent, nothing for the child.
#[expect(
    unsafe_code,
    reason = "fork: of a process with one thread, the child may do whatever the parent might"
)]
pub(super) fn fork() -> io::Result<Option<Pid>> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!(
            "{threads} threads cannot be forked"
        )));
    }
    // SAFETY: this thread is the only one, so that no lock can be held by one that is not copied.
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
