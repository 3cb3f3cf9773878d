//! Selects the parts of a person's home directory that runs may see: tools, from an allow list of
//! names.
//!
//! A deny list is never complete, an allow list can be. Files in these parts that look like
//! credentials are hidden as well, as a second line of defence.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::paths;

/// A tool that people install in their home directory.
struct HomeTool {
    dir: &'static str,
    /// Parts of the directory that are mounted; nothing else is.
    parts: &'static [&'static str],
    /// Environment variable with its location, or empty if it needs none.
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
    // Its configuration may contain registry tokens, so it is not mounted.
    tool(".cargo", "", &["bin", "registry", "git"]),
    // rustup 1.28 and newer refuse to start without the last one.
    tool(
        ".rustup",
        "RUSTUP_HOME",
        &["toolchains", "settings.toml", "update-hashes"],
    ),
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

/// Names of directories that contain programs and little else.
const PROGRAM_DIRS: &[&str] = &["bin", "sbin", "shims", "libexec", ".bin"];
/// Maximum number of entries that are read of a directory on `PATH`.
const PROGRAMS_MAX: usize = 512;

/// An installed tool and the variable with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub dir: PathBuf,
    pub variable: Option<&'static str>,
}

/// Returns the tools in this home directory.
pub fn toolchains(home: &Path) -> Vec<Toolchain> {
    let tools = TOOLS.iter().map(|tool| Toolchain {
        dir: home.join(tool.dir),
        variable: Some(tool.variable).filter(|variable| !variable.is_empty()),
    });
    tools.filter(|tool| tool.dir.is_dir()).collect()
}

/// Returns the paths of the tools in this home directory that are mounted.
pub fn shown_parts(home: &Path) -> Vec<PathBuf> {
    let candidates = TOOLS.iter().flat_map(|tool| {
        let dir = home.join(tool.dir);
        tool.parts.iter().map(move |part| dir.join(part))
    });
    let mut existing: Vec<PathBuf> = candidates.filter(|path| path.exists()).collect();
    existing.extend(linked_programs(&home.join(".local/bin")));
    existing
}

/// Returns all mounted parts of the tool that the path belongs to, in any home directory: a shim
/// does not work without the rest.
pub fn tool_parts_around(path: &Path) -> Vec<PathBuf> {
    let mut mounted = Vec::new();
    for dir in path.ancestors() {
        let tools = TOOLS.iter().filter(|tool| dir.ends_with(tool.dir));
        for tool in tools {
            let parts = tool.parts.iter().map(|part| dir.join(part));
            let parts: Vec<PathBuf> = parts.filter(|part| part.exists()).collect();
            if parts.iter().any(|part| path.starts_with(part)) {
                mounted.extend(parts);
            }
        }
    }
    mounted
}

/// Returns the mounted paths for a directory on `PATH` outside of the system: the directory itself
/// and never its siblings. If its name is not usual for programs, only the programs in it.
pub fn shown_of_path_dir(dir: &Path) -> Vec<PathBuf> {
    let dir_name = dir.file_name().and_then(OsStr::to_str);
    if dir_name.is_some_and(|name| PROGRAM_DIRS.contains(&name)) {
        let mut mounted = vec![dir.to_owned()];
        mounted.extend(linked_programs(dir));
        mounted.extend(tool_parts_around(dir));
        return mounted;
    }
    let mut programs = entries(dir);
    programs.retain(|path| is_program(path));
    programs
}

/// Returns links to programs, so that their targets are mounted too.
fn linked_programs(dir: &Path) -> Vec<PathBuf> {
    let mut programs = entries(dir);
    programs.retain(|path| path.is_symlink() && is_program(path));
    programs
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(dir).into_iter().flatten().flatten();
    listing
        .take(PROGRAMS_MAX)
        .map(|entry| entry.path())
        .collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Names of files with tokens and passwords, and of locks of shared caches: a run that takes such
/// a lock would block the person's tools on a level without overlays.
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
/// Endings of files that are hidden only if they contain a private key: CA certificates have the
/// same endings.
const KEY_ENDINGS: &[&str] = &[".asc", ".key", ".pem"];
/// Directories of downloaded sources; only their top level is searched.
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
/// Search depth below `node_modules`: the packages themselves, and nothing deeper.
const PACKAGE_DEPTH_MAX: usize = 3;
const ENTRIES_MAX: usize = 60_000;
const KEY_BYTES_MAX: u64 = 4096;

/// Finds files in the mounted parts that look like credentials, and sockets and pipes. The search
/// is bounded in depth and number, because this is only the second line of defence.
pub fn find_credentials(parts: &[PathBuf]) -> Vec<PathBuf> {
    let mut hidden = Vec::new();
    let mut left = ENTRIES_MAX;
    for part in parts {
        let Some(real) = paths::real_path(part) else {
            continue;
        };
        if real.is_dir() {
            search_credentials(&real, DEPTH_MAX, &mut left, &mut hidden);
        } else if is_hidden(&real) {
            hidden.push(real);
        }
    }
    hidden
}

fn search_credentials(dir: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
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
        // Without an overlay these lead to processes outside.
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
            search_credentials(&path, depth, left, found);
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
    // This is the lock of Go's module cache.
    let cache_lock = name == "lock" && path.parent().is_some_and(|dir| dir.ends_with("cache"));
    HIDDEN_NAMES.contains(&name)
        || name.starts_with(".env.")
        || ends(HIDDEN_ENDINGS)
        || cache_lock
        || (ends(KEY_ENDINGS) && has_private_key(path))
}

fn has_private_key(path: &Path) -> bool {
    // Opening a pipe with such a name would block.
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = fs::File::open(path).map(|file| file.take(KEY_BYTES_MAX).read_to_end(&mut start));
    // A file that we cannot read is hidden.
    !matches!(read, Ok(Ok(_)))
        || start
            .windows(b"PRIVATE KEY".len())
            .any(|text| text == b"PRIVATE KEY")
}

/// Maximum size of a version file; a longer one has other content.
const VERSIONS_MAX: u64 = 64 << 10;

/// Returns the files from which shims read the person's tool versions, as relative path and
/// content, for the home directory of a run. Of mise's configuration only the tools are copied,
/// because the rest may contain secrets.
pub fn version_files(home: &Path) -> Vec<(PathBuf, String)> {
    let read = |name: &str| {
        let path = home.join(name);
        let short =
            fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= VERSIONS_MAX);
        let text = short.then(|| fs::read_to_string(&path).ok()).flatten()?;
        Some((PathBuf::from(name), text))
    };
    let mise = read(".config/mise/config.toml").map(|(name, text)| (name, keep_tools_table(&text)));
    read(".tool-versions").into_iter().chain(mise).collect()
}

fn keep_tools_table(config: &str) -> String {
    let mut tools = String::new();
    let mut inside = false;
    for line in config.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') && trimmed.ends_with(']') && !trimmed.contains('=') {
            let name = trimmed.trim_matches(['[', ']']).trim();
            inside = name == "tools" || name.starts_with("tools.");
        }
        if inside {
            tools.push_str(line);
            tools.push('\n');
        }
    }
    tools
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
        let shown = shown_parts(home);
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
            shown_of_path_dir(&at("app/bin")),
            [at("app/bin"), at("app/bin/tool")]
        );
        put(&at("app/run"), "x", 0o755);
        assert_eq!(shown_of_path_dir(&at("app")), [at("app/run")]);
    }

    #[test]
    fn a_tool_on_path_comes_with_its_parts_whoever_s_home_it_is_in() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join("other").join(name);
        for name in [".pyenv/shims/x", ".pyenv/libexec/pyenv", ".pyenv/.pypirc"] {
            put(&at(name), "x", 0o755);
        }
        let shown = shown_of_path_dir(&at(".pyenv/shims"));
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
        let mut found = find_credentials(std::slice::from_ref(&top));
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
            keep_tools_table(text),
            "[tools]\nnode = [\n  \"20\",\n]\n[tools.python]\nversion = \"3\"\n"
        );
    }
}
