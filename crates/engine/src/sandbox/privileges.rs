//! Gives up rights of a process for good: inherited files, capabilities, the right to gain any,
//! and unlimited resources.
//!
//! The steps cannot be undone by the process or by any program it starts. They are not enough by
//! themselves: `proof` reads back what the kernel says about the result.

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

/// Closes inherited files, because an open file works without permission checks.
pub fn close_inherited_files() -> io::Result<()> {
    // The list is complete before the first file is closed, because closing one while reading the
    // directory could skip another.
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        // The standard streams stay: they are the pipes to Countersign.
        .filter(|number| *number > 2)
        .collect();
    for number in open {
        // One of them was the descriptor of this directory, which is already closed.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Sets hard limits and raises none. The process limit counts a user's processes per user
/// namespace, so without our own namespace it would count the person's processes too.
pub fn set_resource_limits(bounds: &SandboxLimits, own_namespace: bool) -> io::Result<()> {
    let processes = if own_namespace {
        bounds.processes
    } else {
        u64::MAX
    };
    let most = [
        // A core dump would write the process's memory, with tokens in it, to a place that the
        // machine's `core_pattern` decides.
        (Resource::Core, 0),
        (Resource::Nproc, processes),
        (Resource::Nofile, bounds.open_files),
        (Resource::Fsize, bounds.file_bytes),
    ];
    for (resource, most) in most {
        // A hard limit can only be lowered without a capability, and the machine's may already be
        // lower.
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

/// Drops all capabilities, forbids gaining any from a program, and makes the process undumpable,
/// so that no other one can inspect it.
pub fn drop_capabilities() -> io::Result<()> {
    // Ambient capabilities come first: they would survive `execve` of an ordinary program.
    clear_ambient_capability_set()?;
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // This fails at the first number that the kernel does not know, or at once without the
        // right to drop capabilities. In that case there are none to drop, and the proof checks
        // the rest.
        if remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
    // The bounding set needs `CAP_SETPCAP`, so it is reduced before the capabilities are dropped.
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
    // `execve` of a readable program makes the process dumpable again; until then nothing can read
    // our memory, which still holds what the specification said.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
