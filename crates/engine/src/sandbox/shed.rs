//! What a process gives up for good: open files, capabilities, the right to gain any, and the
//! means to take all of the machine.

use std::fs;
use std::io;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::SandboxLimits;

/// Closes whatever was left open by those before us: a file that is open needs no permission.
pub fn inherited_files() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // One of them was the directory itself, and is closed by now.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Hard limits; none is raised. The one on processes counts what a user has in a user namespace,
/// so that without one of our own it would count the person's as well.
pub fn bounds(bounds: &SandboxLimits, own_namespace: bool) -> io::Result<()> {
    let processes = if own_namespace {
        bounds.processes
    } else {
        u64::MAX
    };
    let most = [
        (Resource::Core, 0),
        (Resource::Nproc, processes),
        (Resource::Nofile, bounds.open_files),
        (Resource::Fsize, bounds.file_bytes),
    ];
    for (resource, most) in most {
        let now = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Some(now.min(most)).filter(|limit| *limit != u64::MAX);
        setrlimit(
            resource,
            Rlimit {
                current: limit,
                maximum: limit,
            },
        )?;
    }
    Ok(())
}

/// No capability, none to be had from any program, and nobody may look into this process.
pub fn capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // The first number that the kernel does not know is the end; without the right to drop
        // them there is none to drop, and the proof looks at what is left.
        if remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
