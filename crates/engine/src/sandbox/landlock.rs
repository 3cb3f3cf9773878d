//! Landlock: the list of what may be read and what may be written, held by the kernel for the
//! process and all that come of it. Required; a kernel without it has no rung.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::{SandboxLevel, SandboxNetwork, SandboxSpec};

/// Truncating is known from here on; before, a file could be emptied without a right to write.
const LEAST: ABI = ABI::V3;
/// Signals and abstract sockets are known from here on.
const SCOPED: ABI = ABI::V6;
/// What we know of the newest kernels.
const MOST: ABI = ABI::V7;

/// Restricts this process, and says which version of the interface does it.
pub fn restrict(confinement: &SandboxSpec) -> io::Result<u32> {
    let abi = kernel_abi();
    let least = least(confinement);
    if abi < least {
        return Err(io::Error::other(format!(
            "the kernel offers Landlock {}, and {} is needed: Linux {}, with `landlock` among its security modules (lsm=)",
            abi as i32,
            least as i32,
            if least == LEAST { "6.2" } else { "6.12" }
        )));
    }
    let handled = AccessFs::from_all(abi.min(MOST));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .map_err(io::Error::other)?;
    if abi >= SCOPED {
        ruleset = ruleset
            .scope(Scope::AbstractUnixSocket | Scope::Signal)
            .map_err(io::Error::other)?;
    }
    if confinement.rung == SandboxLevel::Landlock && confinement.network.is_apart() {
        let tcp = AccessNet::BindTcp | AccessNet::ConnectTcp;
        ruleset = ruleset.handle_access(tcp).map_err(io::Error::other)?;
    }
    let mut created = ruleset.create().map_err(io::Error::other)?;
    created = match confinement.rung {
        SandboxLevel::Native | SandboxLevel::Bubblewrap => {
            inside_a_root(created, confinement, handled)?
        }
        SandboxLevel::Landlock => {
            ports(alone(created, confinement, handled)?, &confinement.network)?
        }
    };
    let status = created.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
        Ok(abi as u32)
    } else {
        Err(io::Error::other("Landlock is not fully enforced"))
    }
}

/// Whether the kernel keeps signals and abstract sockets inside.
pub fn is_scoped() -> bool {
    kernel_abi() >= SCOPED
}

fn least(confinement: &SandboxSpec) -> ABI {
    match confinement.rung {
        SandboxLevel::Native | SandboxLevel::Bubblewrap => LEAST,
        SandboxLevel::Landlock => SCOPED,
    }
}

/// The newest version that the kernel and we both know.
fn kernel_abi() -> ABI {
    const KNOWN: [ABI; 7] = [
        ABI::V7,
        ABI::V6,
        ABI::V5,
        ABI::V4,
        ABI::V3,
        ABI::V2,
        ABI::V1,
    ];
    let known = |abi: &ABI| {
        // From the seventh on only logging differs, which cannot be asked for in this way.
        let asked = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(*abi))
            .and_then(|ruleset| match *abi {
                ABI::V6 | ABI::V7 => ruleset.scope(Scope::from_all(*abi)),
                _ => Ok(ruleset),
            })
            .and_then(Ruleset::create);
        asked.is_ok()
    };
    KNOWN.into_iter().find(known).unwrap_or(ABI::Unsupported)
}

/// The mounts decide what is there; this decides once more what may be written.
fn inside_a_root(
    mut ruleset: RulesetCreated,
    confinement: &SandboxSpec,
    handled: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    ruleset = allow(ruleset, Path::new("/"), reading())?;
    let shared = ["/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/pts"].map(PathBuf::from);
    let layers = confinement.layered.iter().map(|layer| &layer.dir);
    for dir in shared.iter().chain(&confinement.write).chain(layers) {
        if dir.exists() {
            ruleset = allow(ruleset, dir, handled)?;
        }
    }
    devices(ruleset, handled)
}

/// Nothing but this decides what is there, so that the list is longer.
fn alone(
    mut ruleset: RulesetCreated,
    confinement: &SandboxSpec,
    handled: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    for path in &confinement.read {
        for path in around(path, &confinement.masked) {
            ruleset = allow(ruleset, &path, reading())?;
        }
    }
    for path in [Path::new("/proc"), Path::new("/sys/devices/system")] {
        ruleset = allow(ruleset, path, reading())?;
    }
    // A rule cannot take away from another: what is shut in a directory in which new files can be
    // made is not shut here. It is a worktree's pointer, which nobody follows and which is put back.
    for path in &confinement.write {
        ruleset = allow(ruleset, path, handled)?;
    }
    devices(ruleset, handled)
}

/// The ports that may be connected to where a proxy is the way out. Landlock sees the port and not
/// the address.
fn ports(mut ruleset: RulesetCreated, network: &SandboxNetwork) -> io::Result<RulesetCreated> {
    if let SandboxNetwork::Proxy(proxied) = network {
        for port in proxied.ports() {
            let rule = NetPort::new(port, AccessNet::ConnectTcp);
            ruleset = ruleset.add_rule(rule).map_err(io::Error::other)?;
        }
    }
    Ok(ruleset)
}

/// The path itself, or, where something below it is left out, all that lies around that. What
/// contains the path leaves it in: it was named.
fn around(path: &Path, left_out: &[PathBuf]) -> Vec<PathBuf> {
    let inner = left_out
        .iter()
        .any(|out| out.starts_with(path) && out != path);
    if !inner {
        return vec![path.to_owned()];
    }
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let children = entries.filter_map(|entry| Some(entry.ok()?.path()));
    children
        .filter(|child| !left_out.contains(child))
        .flat_map(|child| around(&child, left_out))
        .collect()
}

fn devices(mut ruleset: RulesetCreated, handled: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    for name in super::root::DEVICES {
        let path = Path::new("/dev").join(name);
        if path.exists() {
            ruleset = allow(ruleset, &path, handled & !AccessFs::Execute)?;
        }
    }
    Ok(ruleset)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(ABI::V1)
}

/// A path that is not there, or may not even be named, needs no permission.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let Ok(handle) = PathFd::new(path) else {
        return Ok(ruleset);
    };
    let access = match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => access,
        _ => access & AccessFs::from_file(MOST),
    };
    ruleset
        .add_rule(PathBeneath::new(handle, access))
        .map_err(io::Error::other)
}
