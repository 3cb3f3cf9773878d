//! The parts of a person's home that runs are shown: tools, by an allow-list of names.
//!
//! A list of what to hide is never complete, a list of what to show can be. Files inside of these
//! parts that look like credentials are hidden all the same, as a second line.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::paths;

/// A tool that people keep in their home.
struct HomeTool {
    dir: &'static str,
    /// What of the directory is shown; nothing else is.
    parts: &'static [&'static str],
    /// The variable that says where it is, where it needs one.
    variable: &'static str,
}

const fn tool(
    dir: &'static str,
    variable: &'static str,
    parts: &'static [&'static str],
) -> HomeTool {
    HomeTool {
        dir,
        parts,
        variable,
    }
}

const CONDA: &[&str] = &[
    "bin", "condabin", "lib", "libexec", "envs", "include", "share", "ssl",
];

const TOOLS: &[HomeTool] = &[
    // Its configuration has tokens of registries, and is not shown at all.
    tool(".cargo", "", &["bin", "registry", "git"]),
    tool(".rustup", "RUSTUP_HOME", &["toolchains", "settings.toml"]),
    tool(
        ".pyenv",
        "PYENV_ROOT",
        &[
            "bin", "libexec", "plugins", "pyenv.d", "shims", "version", "versions",
        ],
    ),
    tool(
        ".rbenv",
        "RBENV_ROOT",
        &[
            "bin", "libexec", "plugins", "rbenv.d", "shims", "version", "versions",
        ],
    ),
    tool(
        ".nvm",
        "NVM_DIR",
        &["alias", "nvm-exec", "nvm.sh", "versions"],
    ),
    tool(".volta", "VOLTA_HOME", &["bin", "tools"]),
    tool(
        ".asdf",
        "ASDF_DATA_DIR",
        &[
            "asdf.sh", "bin", "defaults", "installs", "lib", "libexec", "plugins", "shims",
        ],
    ),
    tool(
        ".sdkman",
        "SDKMAN_DIR",
        &["bin", "candidates", "libexec", "src"],
    ),
    tool(".bun", "", &["bin", "install"]),
    tool(".deno", "", &["bin"]),
    tool(".ghcup", "", &["bin", "ghc", "hls"]),
    tool(
        ".elan",
        "ELAN_HOME",
        &["bin", "settings.toml", "toolchains"],
    ),
    tool(".foundry", "", &["bin"]),
    tool(".opencode", "", &["bin"]),
    tool(
        ".dotnet",
        "DOTNET_ROOT",
        &[
            "dotnet",
            "host",
            "packs",
            "sdk",
            "sdk-manifests",
            "shared",
            "templates",
            "tools",
        ],
    ),
    tool(".npm-global", "", &["bin", "lib/node_modules"]),
    tool(".npm-packages", "", &["bin", "lib/node_modules"]),
    tool(
        ".claude/local",
        "",
        &["claude", "node_modules", "package.json"],
    ),
    tool(
        ".local",
        "",
        &["bin", "lib/node_modules", "pipx/venvs", "pipx/shared"],
    ),
    tool(".local/share/claude", "", &["versions"]),
    tool(".local/share/cursor-agent", "", &["versions"]),
    tool(".local/share/fnm", "", &["aliases", "node-versions"]),
    tool(
        ".local/share/mise",
        "MISE_DATA_DIR",
        &["installs", "plugins", "shims"],
    ),
    tool(".local/share/pipx", "", &["shared", "venvs"]),
    tool(".local/share/pnpm", "", &["bin", "global", "nodejs"]),
    tool(".local/share/pypoetry", "", &["venv"]),
    tool(".local/share/uv", "", &["python", "tools"]),
    tool("go", "", &["bin", "pkg/mod"]),
    tool("anaconda3", "", CONDA),
    tool("miniconda3", "", CONDA),
    tool("miniforge3", "", CONDA),
];

/// Names of directories that hold programs and little else.
const PROGRAM_DIRS: &[&str] = &["bin", "sbin", "shims", "libexec", ".bin"];
/// Single programs that are shown of directories with any other name, and links that are followed.
const PROGRAMS_MAX: usize = 512;

/// A tool that is there, for the variable that says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub dir: PathBuf,
    pub variable: Option<&'static str>,
}

/// The tools that this home has.
pub fn toolchains(home: &Path) -> Vec<Toolchain> {
    let found = TOOLS.iter().map(|tool| Toolchain {
        dir: home.join(tool.dir),
        variable: Some(tool.variable).filter(|variable| !variable.is_empty()),
    });
    found.filter(|tool| tool.dir.is_dir()).collect()
}

/// What is shown of the tools in this home.
pub fn parts(home: &Path) -> Vec<PathBuf> {
    let named = TOOLS.iter().flat_map(|tool| {
        let dir = home.join(tool.dir);
        tool.parts.iter().map(move |part| dir.join(part))
    });
    let mut found: Vec<PathBuf> = named.filter(|path| path.exists()).collect();
    found.extend(linked_programs(&home.join(".local/bin")));
    found
}

/// The shown parts of the tool that a file or directory is in a shown part of, whoever's home that
/// is: a shim is nothing without the rest.
pub fn of_one_tool(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in path.ancestors() {
        let tools = TOOLS.iter().filter(|tool| dir.ends_with(tool.dir));
        for tool in tools {
            let parts = tool.parts.iter().map(|part| dir.join(part));
            let parts: Vec<PathBuf> = parts.filter(|part| part.exists()).collect();
            if parts.iter().any(|part| path.starts_with(part)) {
                found.extend(parts);
            }
        }
    }
    found
}

/// What is shown of a directory on `PATH` that is not the system's: the directory, never what lies
/// beside it; and where it is not one for programs, only the programs in it.
pub fn path_dir(dir: &Path) -> Vec<PathBuf> {
    let named = dir.file_name().and_then(OsStr::to_str);
    if named.is_some_and(|name| PROGRAM_DIRS.contains(&name)) {
        let mut shown = vec![dir.to_owned()];
        shown.extend(linked_programs(dir));
        shown.extend(of_one_tool(dir));
        return shown;
    }
    let mut programs = entries(dir);
    programs.retain(|path| is_program(path));
    programs
}

/// Programs behind links: the files themselves, wherever they are.
fn linked_programs(dir: &Path) -> Vec<PathBuf> {
    let mut found = entries(dir);
    found.retain(|path| path.is_symlink() && is_program(path));
    found
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(dir).into_iter().flatten().flatten();
    read.take(PROGRAMS_MAX).map(|entry| entry.path()).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Files that hold tokens and passwords, whoever put them there; and locks of shared caches, which
/// would hold up the person where a level shows the files themselves.
const HIDDEN_NAMES: &[&str] = &[
    ".boto",
    ".condarc",
    ".credentials.json",
    ".dockercfg",
    ".env",
    ".envrc",
    ".git-credentials",
    ".htpasswd",
    ".lock",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".package-cache",
    ".package-cache-mutate",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".yarnrc",
    ".yarnrc.yml",
    "_netrc",
    "application_default_credentials.json",
    "auth.json",
    "credentials",
    "credentials.db",
    "credentials.ini",
    "credentials.json",
    "credentials.toml",
    "credentials.tfrc.json",
    "credentials.xml",
    "credentials.yaml",
    "credentials.yml",
    "gradle.properties",
    "hosts.yml",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "npmrc",
    "pip.conf",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "token",
    "token.json",
    "tokens.json",
];
const HIDDEN_ENDINGS: &[&str] = &[".kdbx", ".keystore", ".p12", ".pfx"];
/// Hidden only if there is a private key in it: certificates of authorities have the same endings.
const KEY_ENDINGS: &[&str] = &[".asc", ".key", ".pem"];
/// Downloaded sources, of which only the top is looked at.
const SOURCES: &[&str] = &[
    "checkouts",
    "db",
    "index",
    "mod",
    "site-packages",
    "dist-packages",
    "src",
];
const DEPTH_MAX: usize = 6;
/// Below `node_modules` the packages themselves, and nothing deeper.
const PACKAGE_DEPTH_MAX: usize = 3;
const ENTRIES_MAX: usize = 60_000;
const KEY_BYTES_MAX: u64 = 4096;

/// What inside of the shown parts looks like a credential, and sockets and pipes. It looks so deep and at so many files,
/// and no further: this is the second line.
pub fn credentials(parts: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = ENTRIES_MAX;
    for part in parts {
        let Some(real) = paths::real(part) else {
            continue;
        };
        if real.is_dir() {
            look(&real, DEPTH_MAX, &mut left, &mut found);
        } else if is_hidden(&real) {
            found.push(real);
        }
    }
    found
}

fn look(dir: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type();
        let is_dir = kind.as_ref().is_ok_and(fs::FileType::is_dir);
        // Without an overlay these lead to whoever is at their other end.
        let leads_out = kind.is_ok_and(|kind| kind.is_socket() || kind.is_fifo());
        let secrets = is_dir && name == "credentials" && depth + 2 >= DEPTH_MAX;
        if leads_out || secrets {
            found.push(path);
        } else if is_dir && depth > 0 {
            let depth = match name.to_str() {
                Some(name) if SOURCES.contains(&name) => 0,
                Some("node_modules") => (depth - 1).min(PACKAGE_DEPTH_MAX),
                _ => depth - 1,
            };
            look(&path, depth, left, found);
        } else if !is_dir && is_hidden(&path) {
            found.push(path);
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else {
        return false;
    };
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    // The go tool's lock of its module cache.
    let cache_lock = name == "lock" && path.parent().is_some_and(|dir| dir.ends_with("cache"));
    HIDDEN_NAMES.contains(&name)
        || name.starts_with(".env.")
        || ends(HIDDEN_ENDINGS)
        || cache_lock
        || (ends(KEY_ENDINGS) && has_private_key(path))
}

fn has_private_key(path: &Path) -> bool {
    // A pipe with such a name would keep us waiting.
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = fs::File::open(path).map(|file| file.take(KEY_BYTES_MAX).read_to_end(&mut start));
    // Whatever cannot be read is nothing to show.
    !matches!(read, Ok(Ok(_)))
        || start
            .windows(b"PRIVATE KEY".len())
            .any(|text| text == b"PRIVATE KEY")
}

/// A longer file says more than which versions are wanted.
const VERSIONS_MAX: u64 = 64 << 10;

/// Files by which shims know the versions that the person uses, for the home of a run: where below
/// it, and what is in it. Of mise's configuration only the tools: it may hold secrets as well.
pub fn version_files(home: &Path) -> Vec<(PathBuf, String)> {
    let read = |name: &str| {
        let path = home.join(name);
        let short =
            fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= VERSIONS_MAX);
        let text = short.then(|| fs::read_to_string(&path).ok()).flatten()?;
        Some((PathBuf::from(name), text))
    };
    let mise = read(".config/mise/config.toml").map(|(name, text)| (name, only_tools(&text)));
    read(".tool-versions").into_iter().chain(mise).collect()
}

fn only_tools(config: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for line in config.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') && trimmed.ends_with(']') && !trimmed.contains('=') {
            let name = trimmed.trim_matches(['[', ']']).trim();
            inside = name == "tools" || name.starts_with("tools.");
        }
        if inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn of_a_tool_s_directory_only_the_named_parts_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        for name in [
            ".cargo/bin/cargo",
            ".cargo/config.toml",
            ".cargo/credentials.toml",
            ".nvm/versions/node/v1/bin/node",
            ".nvm/.npmrc",
            ".local/share/uv/tools/x/bin/x",
            ".local/share/uv/credentials/credentials.toml",
            "work/app/.env",
        ] {
            put(&home.join(name), "x", 0o755);
        }
        let shown = parts(home);
        let wanted = [".cargo/bin", ".nvm/versions", ".local/share/uv/tools"];
        assert_eq!(shown, wanted.map(|name| home.join(name)));
    }

    #[test]
    fn a_path_directory_shows_nothing_beside_it_and_another_only_its_programs() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        put(&at("app/bin/run"), "x", 0o755);
        put(&at("app/.env"), "x", 0o644);
        put(&at("elsewhere/tool"), "x", 0o755);
        std::os::unix::fs::symlink("../../elsewhere/tool", at("app/bin/tool")).unwrap();
        assert_eq!(
            path_dir(&at("app/bin")),
            [at("app/bin"), at("app/bin/tool")]
        );
        put(&at("app/run"), "x", 0o755);
        assert_eq!(path_dir(&at("app")), [at("app/run")]);
    }

    #[test]
    fn a_tool_on_path_comes_with_its_parts_whoever_s_home_it_is_in() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join("other").join(name);
        for name in [".pyenv/shims/x", ".pyenv/libexec/pyenv", ".pyenv/.pypirc"] {
            put(&at(name), "x", 0o755);
        }
        let shown = path_dir(&at(".pyenv/shims"));
        assert!(shown.contains(&at(".pyenv/libexec")), "{shown:?}");
        assert!(!shown.contains(&at(".pyenv/.pypirc")) && !shown.contains(&at(".pyenv")));
    }

    #[test]
    fn what_looks_like_a_credential_is_found_and_certificates_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let hidden = [
            "versions/node/v1/etc/npmrc",
            "versions/node/v1/.npmrc",
            "versions/node/v1/lib/node_modules/x/.npmrc",
            "versions/3.1/pip.conf",
            "key.pem",
            "tools/credentials/all.db",
            "tools/.env.local",
        ];
        for name in hidden {
            put(&top.join(name), "-----BEGIN PRIVATE KEY-----", 0o600);
        }
        put(
            &top.join("cacert.pem"),
            "-----BEGIN CERTIFICATE-----",
            0o644,
        );
        put(
            &top.join("lib/site-packages/botocore/credentials.py"),
            "x",
            0o644,
        );
        let mut found = credentials(std::slice::from_ref(&top));
        found.sort();
        let mut wanted: Vec<PathBuf> = hidden.iter().map(|name| top.join(name)).collect();
        wanted[5].pop();
        wanted.sort();
        assert_eq!(found, wanted);
    }

    #[test]
    fn of_mise_s_configuration_only_the_tools_are_kept() {
        let text = "[env]\nTOKEN = \"secret\"\n[tools]\nnode = [\n  \"20\",\n]\n[tools.python]\nversion = \"3\"\n[settings]\nx = 1\n";
        assert_eq!(
            only_tools(text),
            "[tools]\nnode = [\n  \"20\",\n]\n[tools.python]\nversion = \"3\"\n"
        );
    }
}
