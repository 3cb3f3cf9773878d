//! Landlock: the kernel enforces lists of readable and writable paths for the process and its
//! descendants. It is required; without it no sandbox level works.
//!
//! Landlock works by file identity, not by path: it also holds if a path is mounted elsewhere or
//! renamed. It refuses to run on kernels whose version leaves a gap that matters for the level.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::{SandboxLevel, SandboxNetwork, SandboxSpec};

/// Oldest accepted version. Earlier ones do not cover truncation, so a file could be emptied
/// without write permission.
const LEAST: ABI = ABI::V3;
/// First version that restricts signals and abstract sockets.
const SCOPED: ABI = ABI::V6;
/// Newest version that we know.
const MOST: ABI = ABI::V7;

/// Restricts this process and returns the version of the Landlock interface.
pub fn restrict_with_landlock(confinement: &SandboxSpec) -> io::Result<u32> {
    let abi = kernel_abi();
    let least = minimum_abi(confinement);
    if abi < least {
        return Err(io::Error::other(format!(
            "the kernel offers Landlock {}, and {} is needed: use Linux {} or newer, with `landlock` among its security modules (lsm=)",
            abi as i32,
            least as i32,
            if least == LEAST { "6.2" } else { "6.12" }
        )));
    }
    // Every known right is handled: a right that is not handled is not restricted at all.
    let handled = AccessFs::from_all(abi.min(MOST));
    let mut ruleset = Ruleset::default()
        // The library's default is best effort, which silently drops what the kernel lacks.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)
        .map_err(io::Error::other)?;
    // Older kernels cannot scope. Levels with namespaces then rely on the PID namespace for
    // signals, and seccomp refuses UNIX sockets if abstract ones would be shared.
    if abi >= SCOPED {
        ruleset = ruleset
            .scope(Scope::AbstractUnixSocket | Scope::Signal)
            .map_err(io::Error::other)?;
    }
    // With a network namespace there is only loopback, where test suites may bind and connect.
    if confinement.level == SandboxLevel::Landlock && confinement.network.is_isolated() {
        let tcp = AccessNet::BindTcp | AccessNet::ConnectTcp;
        ruleset = ruleset.handle_access(tcp).map_err(io::Error::other)?;
    }
    let mut created = ruleset.create().map_err(io::Error::other)?;
    created = match confinement.level {
        SandboxLevel::Native | SandboxLevel::Bubblewrap => {
            rules_with_mounts(created, confinement, handled)?
        }
        SandboxLevel::Landlock => allow_ports(
            rules_without_mounts(created, confinement, handled)?,
            &confinement.network,
        )?,
    };
    // `restrict_self` also sets `no_new_privs`, without which the kernel refuses the ruleset.
    let status = created.restrict_self().map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::FullyEnforced && status.no_new_privs {
        Ok(abi as u32)
    } else {
        Err(io::Error::other("Landlock is not fully enforced"))
    }
}

/// Returns whether the kernel keeps signals and abstract sockets inside the sandbox.
pub fn is_scoped() -> bool {
    kernel_abi() >= SCOPED
}

fn minimum_abi(confinement: &SandboxSpec) -> ABI {
    // Without namespaces only Landlock stops signals to the person's processes, hence version 6.
    match confinement.level {
        SandboxLevel::Native | SandboxLevel::Bubblewrap => LEAST,
        SandboxLevel::Landlock => SCOPED,
    }
}

/// Returns the newest version that both the kernel and we know.
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
    let is_supported = |abi: &ABI| {
        // From version 7 on, only logging differs, which cannot be probed in this way.
        // Creating a ruleset restricts nothing, so probing from the newest version down is safe.
        let result = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(*abi))
            .and_then(|ruleset| match *abi {
                ABI::V6 | ABI::V7 => ruleset.scope(Scope::from_all(*abi)),
                _ => Ok(ruleset),
            })
            .and_then(Ruleset::create);
        result.is_ok()
    };
    KNOWN
        .into_iter()
        .find(is_supported)
        .unwrap_or(ABI::Unsupported)
}

/// Adds the rules for levels with a root of their own: the mounts decide what is visible, and
/// Landlock limits writing once more.
fn rules_with_mounts(
    mut ruleset: RulesetCreated,
    confinement: &SandboxSpec,
    handled: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    ruleset = allow(ruleset, Path::new("/"), read_access())?;
    // These tmpfs mounts are private to the run, and the terminals are of its own devpts.
    let shared = ["/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/pts"].map(PathBuf::from);
    let layers = confinement.layered.iter().map(|layer| &layer.dir);
    for dir in shared.iter().chain(&confinement.write).chain(layers) {
        if dir.exists() {
            ruleset = allow(ruleset, dir, handled)?;
        }
    }
    allow_devices(ruleset, handled)
}

/// Adds the rules for the level without mounts, where Landlock alone decides what is readable.
fn rules_without_mounts(
    mut ruleset: RulesetCreated,
    confinement: &SandboxSpec,
    handled: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    for path in &confinement.read {
        for path in paths_around(path, &confinement.masked) {
            ruleset = allow(ruleset, &path, read_access())?;
        }
    }
    // Runtimes read their own `/proc/self` and count the processors. Other processes' entries stay
    // protected by the kernel's ptrace check, which Landlock tightens for a restricted process.
    for path in [Path::new("/proc"), Path::new("/sys/devices/system")] {
        ruleset = allow(ruleset, path, read_access())?;
    }
    // A rule cannot take permissions away from another one, so read-only paths inside writable
    // directories are writable here. This affects a worktree's pointer, which we do not follow and
    // which is restored after the run.
    for path in &confinement.write {
        ruleset = allow(ruleset, path, handled)?;
    }
    allow_devices(ruleset, handled)
}

/// Permits connections to the ports of the proxy. Landlock checks the port, not the address.
fn allow_ports(
    mut ruleset: RulesetCreated,
    network: &SandboxNetwork,
) -> io::Result<RulesetCreated> {
    if let SandboxNetwork::Proxy(rules) = network {
        for port in rules.ports() {
            let rule = NetPort::new(port, AccessNet::ConnectTcp);
            ruleset = ruleset.add_rule(rule).map_err(io::Error::other)?;
        }
    }
    Ok(ruleset)
}

/// Returns the path itself or, if something below it is left out, everything around that. An
/// excluded directory that contains the path has no effect, because the path was listed
/// explicitly.
fn paths_around(path: &Path, left_out: &[PathBuf]) -> Vec<PathBuf> {
    let inner = left_out
        .iter()
        .any(|out| out.starts_with(path) && out != path);
    if !inner {
        return vec![path.to_owned()];
    }
    // A directory that cannot be listed is left out as a whole, which errs on the safe side.
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    let children = entries.filter_map(|entry| Some(entry.ok()?.path()));
    children
        .filter(|child| !left_out.contains(child))
        // The walk descends only along masked paths; everything else is added as one rule.
        .flat_map(|child| paths_around(&child, left_out))
        .collect()
}

fn allow_devices(
    mut ruleset: RulesetCreated,
    handled: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    for name in super::root::DEVICES {
        let path = Path::new("/dev").join(name);
        if path.exists() {
            // Nothing in `/dev` is a program.
            ruleset = allow(ruleset, &path, handled & !AccessFs::Execute)?;
        }
    }
    Ok(ruleset)
}

fn read_access() -> BitFlags<AccessFs> {
    // Reading includes executing and listing directories; version 1 has all three.
    AccessFs::from_read(ABI::V1)
}

/// Adds a rule for the path. A path that does not exist or cannot be opened needs no rule.
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
        // The kernel refuses a rule with directory rights on a file.
        _ => access & AccessFs::from_file(MOST),
    };
    ruleset
        .add_rule(PathBeneath::new(handle, access))
        .map_err(io::Error::other)
}
