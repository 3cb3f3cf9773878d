//! Names on leases. A name identifies a process on one boot of one machine, so that other processes
//! can detect that it is certainly dead and need not wait for its lease to expire.

use crate::process::{ProcessIdentity, boot_and_pid_namespace};

/// Returns the name of this process: the boot of this machine, and the process on it.
pub fn process_name() -> String {
    let me = ProcessIdentity::ourselves();
    let (pid, start) = me.map_or((0, 0), |me| (me.pid, me.start));
    format!("{}:{pid}:{start}", here())
}

/// Returns the name of one of several workers of this process.
pub fn replica_name(name: &str) -> String {
    format!("{}:{name}", process_name())
}

/// Returns the replica's own name from a name on a lease; `None` if no replica holds it.
pub fn replica_of(holder: &str) -> Option<&str> {
    holder.splitn(4, ':').nth(3)
}

/// Identifies this boot and PID namespace. Unlike a host name, it differs for two machines that
/// share a database, two boots of one machine, and two containers of one boot, where the same
/// number is another process.
fn here() -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let text = boot_and_pid_namespace().replace(" pid:", ".");
    text.chars()
        .filter(|c| is_allowed(*c) || *c == '.')
        .collect()
}

/// Returns true only if it is certain: the name is of this boot, and the process is gone.
pub fn is_dead(name: &str) -> bool {
    let mut parts = name.split(':');
    let (boot, pid, start) = (parts.next(), parts.next(), parts.next());
    let is_here = boot.is_some_and(|boot| !boot.is_empty() && boot == here());
    let identity = pid.zip(start).and_then(|(pid, start)| {
        Some(ProcessIdentity {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    });
    is_here && identity.is_some_and(|identity| !identity.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_s_name_tells_as_much_as_its_program_s() {
        let name = replica_name("qa-1");
        assert_eq!(replica_of(&name), Some("qa-1"));
        assert_eq!(replica_of("session:qa-1"), None);
        assert!(!is_dead(&name));
        let own: Vec<&str> = name.split(':').collect();
        assert!(is_dead(&format!("{}:{}:0:qa-1", own[0], own[1])));
        assert!(!is_dead("elsewhere.1:1:0:qa-1"));
    }
}
