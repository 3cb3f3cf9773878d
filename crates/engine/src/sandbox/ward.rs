//! What runs on this machine may see at all: the system, the tools, and nothing of the person's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Bounds, Confinement, Layered, Lent, Network, Rung};

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

/// Tools that people keep in their home, with the variable that says where, if they need one.
const TOOLS: &[(&str, &str)] = &[
    (".cargo", ""),
    (".rustup", "RUSTUP_HOME"),
    (".pyenv", "PYENV_ROOT"),
    (".nvm", "NVM_DIR"),
    (".volta", "VOLTA_HOME"),
    (".asdf", "ASDF_DATA_DIR"),
    (".rbenv", "RBENV_ROOT"),
    (".sdkman", "SDKMAN_DIR"),
    (".bun", ""),
    (".deno", ""),
    (".ghcup", ""),
    (".dotnet", "DOTNET_ROOT"),
    (".npm-global", ""),
    (".local/bin", ""),
    (".local/lib", ""),
    (".local/pipx", ""),
    (".local/share/mise", "MISE_DATA_DIR"),
    (".local/share/uv", ""),
    (".local/share/pnpm", ""),
    (".local/share/fnm", ""),
    (".local/share/claude", ""),
    ("go", ""),
];

/// A tool's directory in the person's home, shown read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub dir: PathBuf,
    pub variable: Option<&'static str>,
}

/// How runs are confined on this machine.
#[derive(Clone, Debug)]
pub struct Ward {
    pub rung: Rung,
    /// The machine, the tools, and what the person has named.
    pub read: Vec<PathBuf>,
    pub secrets: Vec<PathBuf>,
    pub tools: Vec<Toolchain>,
    pub bounds: Bounds,
}

/// What one run is given beside what all are.
#[derive(Clone, Debug)]
pub struct Room {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub shut: Vec<PathBuf>,
    pub layered: Vec<Layered>,
    pub lent: Vec<Lent>,
    pub network: Network,
    pub metadata: bool,
    pub proof: PathBuf,
}

impl Ward {
    /// `home` is the person's; `private` is our own data, of which a run sees only what it is given.
    pub fn new(rung: Rung, home: Option<&Path>, path: &OsString, private: &[PathBuf]) -> Self {
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        // Often a link into a directory that nobody is shown.
        read.extend(fs::canonicalize("/etc/resolv.conf"));
        let homes = home.filter(|home| *home != Path::new("/"));
        let tools: Vec<Toolchain> = homes.map(tools).unwrap_or_default();
        read.extend(tools.iter().map(|tool| tool.dir.clone()));
        for dir in std::env::split_paths(path).filter(|dir| dir.is_absolute() && dir.is_dir()) {
            let install = dir.parent().filter(|_| dir.ends_with("bin"));
            let install = install.filter(|install| is_of_one_tool(install, home, private));
            read.push(install.unwrap_or(&dir).to_owned());
        }
        let mut secrets: Vec<PathBuf> = SYSTEM_SECRETS.iter().map(PathBuf::from).collect();
        if let Some(home) = homes {
            secrets.extend(SECRETS.iter().map(|name| home.join(name)));
        }
        secrets.extend_from_slice(private);
        Self {
            rung,
            read,
            secrets,
            tools,
            bounds: Bounds::default(),
        }
    }

    /// What tools need to be told, since a run's home is not the one that they are in.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let told = self.tools.iter().filter_map(|tool| {
            let variable = tool.variable?;
            Some((variable.into(), tool.dir.clone().into()))
        });
        told.collect()
    }

    pub fn confine(&self, room: Room) -> Confinement {
        let mut read = self.read.clone();
        read.extend(room.read.clone());
        read.sort();
        read.dedup();
        let layered = |path: &PathBuf| room.layered.iter().any(|layer| layer.dir == *path);
        let closed = room.read.iter().filter(|path| !layered(path));
        let closed = closed.chain(&room.shut).filter(|path| path.is_dir());
        let mut refused: Vec<PathBuf> = closed.cloned().collect();
        refused.extend(["/", "/usr", "/etc", "/proc/sys/kernel"].map(PathBuf::from));
        Confinement {
            rung: self.rung,
            read,
            write: room.write,
            shut: room.shut,
            masked: self.secrets.clone(),
            lent: room.lent,
            layered: room.layered,
            refused,
            hidden: self.hidden(),
            network: room.network,
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

fn tools(home: &Path) -> Vec<Toolchain> {
    let found = TOOLS.iter().map(|(name, variable)| Toolchain {
        dir: home.join(name),
        variable: Some(*variable).filter(|variable| !variable.is_empty()),
    });
    found.filter(|tool| tool.dir.is_dir()).collect()
}

/// Whether all that lies beside a `bin` belongs to one tool, and not to a home or to us.
fn is_of_one_tool(install: &Path, home: Option<&Path>, private: &[PathBuf]) -> bool {
    let holds = |path: &Path| path.starts_with(install);
    let local = home.is_some_and(|home| holds(home) || holds(&home.join(".local/bin")));
    !local && install != Path::new("/") && !private.iter().any(|path| holds(path))
}
