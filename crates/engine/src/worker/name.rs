//! Names on leases. A name identifies a process on one boot of one machine, so that others can tell
//! when it is certainly dead and need not wait for its lease to run out.

use crate::process::{ProcessIdentity, place};

/// The name of this process: the boot of this machine, and the process on it.
pub fn process_name() -> String {
    let me = ProcessIdentity::ourselves();
    let (pid, start) = me.map_or((0, 0), |me| (me.pid, me.start));
    format!("{}:{pid}:{start}", here())
}

/// The name of one of several workers of this process.
pub fn replica_name(name: &str) -> String {
    format!("{}:{name}", process_name())
}

/// The replica's own name in a name on a lease; none where no worker holds it.
pub fn replica_of(holder: &str) -> Option<&str> {
    holder.splitn(4, ':').nth(3)
}

/// Unlike a host name, it tells apart two machines that share a database, two boots of one, and two
/// containers of one boot, in which the same number is another process.
fn here() -> String {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words = place().replace(" pid:", ".");
    words.chars().filter(|c| sound(*c) || *c == '.').collect()
}

/// True only where it is certain: the name is of this boot, and no such process is left.
pub fn is_dead(name: &str) -> bool {
    let mut parts = name.split(':');
    let (where_, pid, start) = (parts.next(), parts.next(), parts.next());
    let known = where_.is_some_and(|where_| !where_.is_empty() && where_ == here());
    let identity = pid.zip(start).and_then(|(pid, start)| {
        Some(ProcessIdentity {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    });
    known && identity.is_some_and(|identity| !identity.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_s_name_tells_as_much_as_its_program_s() {
        let name = replica_name("qa-1");
        assert_eq!(replica_of(&name), Some("qa-1"));
        assert_eq!(replica_of("guest:qa-1"), None);
        assert!(!is_dead(&name));
        let own: Vec<&str> = name.split(':').collect();
        assert!(is_dead(&format!("{}:{}:0:qa-1", own[0], own[1])));
        assert!(!is_dead("elsewhere.1:1:0:qa-1"));
    }
}
