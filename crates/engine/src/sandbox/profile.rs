//! The sandbox profile of this machine: runs see the system and the tools, and no other files of
//! the person's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::home_tools::{self, Toolchain};
use super::{
    CredentialMount, OverlayDir, SandboxLevel, SandboxLimits, SandboxNetwork, SandboxSpec, paths,
};
use crate::agent_home;

/// Directories of programs and their libraries. Missing ones are left out.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix",
    "/gnu",
    "/snap",
    "/sys/devices/system",
];

/// Secrets of the machine. If Countersign runs as root, they are readable even without
/// capabilities.
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/private",
    "/etc/letsencrypt",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/NetworkManager/system-connections",
    "/etc/krb5.keytab",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/security/opasswd",
];

/// Secrets in a home directory, hidden wherever a part of it is mounted.
const SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/countersign",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".bash_history",
    ".zsh_history",
];

/// Directories of package managers that serve the whole machine but are not part of the system.
const SHARED_TOOLS: &[&str] = &[
    "/home/linuxbrew/.linuxbrew/bin",
    "/home/linuxbrew/.linuxbrew/Cellar",
    "/home/linuxbrew/.linuxbrew/lib",
    "/home/linuxbrew/.linuxbrew/opt",
    "/home/linuxbrew/.linuxbrew/sbin",
    "/home/linuxbrew/.linuxbrew/share",
];

/// Sandbox settings that all runs on this machine share.
#[derive(Clone, Debug)]
pub struct SandboxProfile {
    pub level: SandboxLevel,
    /// Paths of the system, the tools, and those that the person listed.
    pub read: Vec<PathBuf>,
    pub secrets: Vec<PathBuf>,
    pub tools: Vec<Toolchain>,
    /// Files in a home directory from which shims read the wanted versions.
    pub version_files: Vec<(PathBuf, String)>,
    pub limits: SandboxLimits,
}

/// Mounts of one run, in addition to those of all runs.
#[derive(Clone, Debug)]
pub struct RunMounts {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    pub overlays: Vec<OverlayDir>,
    pub credentials: Vec<CredentialMount>,
    pub network: SandboxNetwork,
    pub metadata: bool,
    pub proof: PathBuf,
}

impl SandboxProfile {
    /// Creates the profile. `home` is the person's home directory; `private` is our own data, of
    /// which a run sees only its own mounts; `show` lists paths that the person added.
    pub fn new(
        level: SandboxLevel,
        home: Option<&Path>,
        path: &OsString,
        private: &[PathBuf],
        show: &[PathBuf],
    ) -> Self {
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        // This is often a link into a directory that is not mounted.
        read.extend(fs::canonicalize("/etc/resolv.conf"));
        let homes = home.filter(|home| *home != Path::new("/"));
        let mut own: Vec<PathBuf> = homes.map(home_tools::shown_parts).unwrap_or_default();
        own.extend(SHARED_TOOLS.iter().map(PathBuf::from));
        for dir in std::env::split_paths(path).filter(|dir| dir.is_absolute() && dir.is_dir()) {
            if may_be_shown(&dir, homes, private) {
                own.extend(home_tools::shown_of_path_dir(&dir));
            }
        }
        own.extend_from_slice(show);
        let mut secrets: Vec<PathBuf> = SYSTEM_SECRETS.iter().map(PathBuf::from).collect();
        if let Some(home) = homes {
            secrets.extend(SECRETS.iter().map(|name| home.join(name)));
        }
        secrets.extend(home_tools::find_credentials(&own));
        secrets.extend_from_slice(private);
        read.extend(own);
        Self {
            level,
            read,
            secrets,
            tools: homes.map(home_tools::toolchains).unwrap_or_default(),
            version_files: homes.map(home_tools::version_files).unwrap_or_default(),
            limits: SandboxLimits::default(),
        }
    }

    /// Writes the version files of shims into the home directory of a run. Existing files stay.
    pub fn prepare_home(&self, home: &Path) -> std::io::Result<()> {
        for (name, text) in &self.version_files {
            let file = home.join(name);
            if fs::symlink_metadata(&file).is_err() {
                agent_home::write(home, &file, text)?;
            }
        }
        Ok(())
    }

    /// Returns the variables that tell tools where they are, because a run's home directory is a
    /// different one.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let variables = self.tools.iter().filter_map(|tool| {
            let variable = tool.variable?;
            Some((variable.into(), tool.dir.clone().into()))
        });
        variables.collect()
    }

    pub fn sandbox_for(&self, mounts: RunMounts) -> SandboxSpec {
        let mut read = self.read.clone();
        read.extend(mounts.read.clone());
        read.sort();
        read.dedup();
        let layered = |path: &PathBuf| mounts.overlays.iter().any(|layer| layer.dir == *path);
        let closed = mounts.read.iter().filter(|path| !layered(path));
        let closed = closed.chain(&mounts.read_only).filter(|path| path.is_dir());
        let mut refused: Vec<PathBuf> = closed.cloned().collect();
        refused.extend(["/", "/usr", "/etc", "/proc/sys/kernel"].map(PathBuf::from));
        SandboxSpec {
            level: self.level,
            read,
            write: mounts.write,
            shut: mounts.read_only,
            masked: self.secrets.clone(),
            credentials: mounts.credentials,
            layered: mounts.overlays,
            links: Vec::new(),
            refused,
            hidden: self.hidden_paths(),
            network: mounts.network,
            unix_sockets: self.level == SandboxLevel::Native,
            metadata: mounts.metadata,
            bounds: self.limits,
            proof: mounts.proof,
        }
    }

    /// Returns the paths that the proof must find unreadable. Our own directories also contain a
    /// run's mounts, so only the files directly in them are checked.
    fn hidden_paths(&self) -> Vec<PathBuf> {
        let mut hidden = Vec::new();
        for path in &self.secrets {
            match fs::read_dir(path) {
                Ok(entries) => hidden.extend(entries.filter_map(|entry| {
                    let entry = entry.ok()?;
                    entry.file_type().ok()?.is_file().then(|| entry.path())
                })),
                Err(_) if path.is_file() => hidden.push(path.clone()),
                Err(_) => {}
            }
        }
        hidden.truncate(64);
        hidden
    }
}

/// Returns whether a directory on `PATH` may be mounted in addition to the system: it must be
/// neither a home directory, nor contain one, nor be ours.
fn may_be_shown(dir: &Path, home: Option<&Path>, private: &[PathBuf]) -> bool {
    let Some(real) = paths::real_path(dir) else {
        return false;
    };
    let around = |path: &Path| paths::real_path(path).is_some_and(|path| path.starts_with(&real));
    let inside = |path: &Path| paths::real_path(path).is_some_and(|path| real.starts_with(path));
    let ours = private.iter().any(|path| around(path) || inside(path));
    let in_system = SYSTEM.iter().any(|dir| inside(Path::new(dir)));
    !in_system && real != Path::new("/") && !home.is_some_and(around) && !ours
}
