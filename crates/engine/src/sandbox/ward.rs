//! What runs on this machine may see at all: the system, the tools, and nothing of the person's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::tools::{self, Toolchain};
use super::{
    CredentialMount, OverlayDir, SandboxLevel, SandboxLimits, SandboxNetwork, SandboxSpec, paths,
};
use crate::own_home;

/// Where programs and their libraries are. Whatever is not there is left out.
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

/// Secrets of the machine, which its root could read although it has no rights inside.
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

/// Secrets in a home, wherever something of it is shown.
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

/// Parts of package managers' directories that are for the whole machine but not the system's.
const SHARED_TOOLS: &[&str] = &[
    "/home/linuxbrew/.linuxbrew/bin",
    "/home/linuxbrew/.linuxbrew/Cellar",
    "/home/linuxbrew/.linuxbrew/lib",
    "/home/linuxbrew/.linuxbrew/opt",
    "/home/linuxbrew/.linuxbrew/sbin",
    "/home/linuxbrew/.linuxbrew/share",
];

/// How runs are confined on this machine.
#[derive(Clone, Debug)]
pub struct SandboxProfile {
    pub rung: SandboxLevel,
    /// The machine, the tools, and what the person has named.
    pub read: Vec<PathBuf>,
    pub secrets: Vec<PathBuf>,
    pub tools: Vec<Toolchain>,
    /// What shims read in a home to know the versions that are wanted.
    pub version_files: Vec<(PathBuf, String)>,
    pub bounds: SandboxLimits,
}

/// What one run is given beside what all are.
#[derive(Clone, Debug)]
pub struct RunMounts {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub shut: Vec<PathBuf>,
    pub layered: Vec<OverlayDir>,
    pub lent: Vec<CredentialMount>,
    pub network: SandboxNetwork,
    pub metadata: bool,
    pub proof: PathBuf,
}

impl SandboxProfile {
    /// `home` is the person's; `private` is our own data, of which a run sees only what it is given;
    /// `show` is what the person has named themselves.
    pub fn new(
        rung: SandboxLevel,
        home: Option<&Path>,
        path: &OsString,
        private: &[PathBuf],
        show: &[PathBuf],
    ) -> Self {
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        // Often a link into a directory that nobody is shown.
        read.extend(fs::canonicalize("/etc/resolv.conf"));
        let homes = home.filter(|home| *home != Path::new("/"));
        let mut own: Vec<PathBuf> = homes.map(tools::parts).unwrap_or_default();
        own.extend(SHARED_TOOLS.iter().map(PathBuf::from));
        for dir in std::env::split_paths(path).filter(|dir| dir.is_absolute() && dir.is_dir()) {
            if may_be_shown(&dir, homes, private) {
                own.extend(tools::path_dir(&dir));
            }
        }
        own.extend_from_slice(show);
        let mut secrets: Vec<PathBuf> = SYSTEM_SECRETS.iter().map(PathBuf::from).collect();
        if let Some(home) = homes {
            secrets.extend(SECRETS.iter().map(|name| home.join(name)));
        }
        secrets.extend(tools::credentials(&own));
        secrets.extend_from_slice(private);
        read.extend(own);
        Self {
            rung,
            read,
            secrets,
            tools: homes.map(tools::toolchains).unwrap_or_default(),
            version_files: homes.map(tools::version_files).unwrap_or_default(),
            bounds: SandboxLimits::default(),
        }
    }

    /// Puts the files by which shims know their versions into the home of a run; what is there
    /// already stays.
    pub fn prepare_home(&self, home: &Path) -> std::io::Result<()> {
        for (name, text) in &self.version_files {
            let file = home.join(name);
            if fs::symlink_metadata(&file).is_err() {
                own_home::write(home, &file, text)?;
            }
        }
        Ok(())
    }

    /// What tools need to be told, since a run's home is not the one that they are in.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let told = self.tools.iter().filter_map(|tool| {
            let variable = tool.variable?;
            Some((variable.into(), tool.dir.clone().into()))
        });
        told.collect()
    }

    pub fn confine(&self, room: RunMounts) -> SandboxSpec {
        let mut read = self.read.clone();
        read.extend(room.read.clone());
        read.sort();
        read.dedup();
        let layered = |path: &PathBuf| room.layered.iter().any(|layer| layer.dir == *path);
        let closed = room.read.iter().filter(|path| !layered(path));
        let closed = closed.chain(&room.shut).filter(|path| path.is_dir());
        let mut refused: Vec<PathBuf> = closed.cloned().collect();
        refused.extend(["/", "/usr", "/etc", "/proc/sys/kernel"].map(PathBuf::from));
        SandboxSpec {
            rung: self.rung,
            read,
            write: room.write,
            shut: room.shut,
            masked: self.secrets.clone(),
            lent: room.lent,
            layered: room.layered,
            links: Vec::new(),
            refused,
            hidden: self.hidden(),
            network: room.network,
            unix_sockets: self.rung == SandboxLevel::Native,
            metadata: room.metadata,
            bounds: self.bounds,
            proof: room.proof,
        }
    }

    /// Directories of our own hold what a run is given too; the files in them are looked for.
    fn hidden(&self) -> Vec<PathBuf> {
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

/// Whether a directory on `PATH` is to be shown beside the system: it is neither a home, nor around
/// one, nor ours.
fn may_be_shown(dir: &Path, home: Option<&Path>, private: &[PathBuf]) -> bool {
    let Some(real) = paths::real(dir) else {
        return false;
    };
    let around = |path: &Path| paths::real(path).is_some_and(|path| path.starts_with(&real));
    let inside = |path: &Path| paths::real(path).is_some_and(|path| real.starts_with(path));
    let ours = private.iter().any(|path| around(path) || inside(path));
    let of_the_system = SYSTEM.iter().any(|dir| inside(Path::new(dir)));
    !of_the_system && real != Path::new("/") && !home.is_some_and(around) && !ours
}
