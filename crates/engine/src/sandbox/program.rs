//! Finds the files that a program needs to start: the links on the way to it, its interpreter, and
//! the package that it is part of. A run gets exactly these, and nothing next to them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::home_tools;
use super::paths::{self, resolve};
use crate::process::find_program;

/// Maximum depth of interpreters of interpreters, and of shims of shims.
const DEPTH_MAX: usize = 8;
/// Number of bytes that are read of a script; scripts of package managers are shorter.
const SCRIPT_MAX: u64 = 64 << 10;

/// Files that a program needs, and descriptions of those that the machine lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFiles {
    pub read: Vec<PathBuf>,
    pub missing: Vec<String>,
}

/// Follows a program, or a script, through links, interpreters and shims.
pub fn files_needed_by(program: &Path, path: &OsStr) -> ProgramFiles {
    let mut needed = ProgramFiles::default();
    follow_program(program, path, DEPTH_MAX, &mut needed);
    needed
}

fn follow_program(program: &Path, path: &OsStr, depth: usize, needed: &mut ProgramFiles) {
    if depth == 0 || needed.read.iter().any(|path| path == program) {
        return;
    }
    let resolved = match resolve(program) {
        Ok(resolved) => resolved,
        Err(error) => {
            needed.missing.push(describe_missing(program, &error));
            return;
        }
    };
    needed.read.push(program.to_owned());
    needed.read.extend(package_of(&resolved.real));
    needed
        .read
        .extend(home_tools::tool_parts_around(&resolved.real));
    let Some(script) = read_script(&resolved.real) else {
        return;
    };
    for next in interpreters(&script, &resolved.real) {
        match next {
            NextProgram::At(program) => follow_program(&program, path, depth - 1, needed),
            NextProgram::OnPath(name) => match find_program(&name, path, Path::new("/")) {
                Ok(program) => follow_program(&program, path, depth - 1, needed),
                Err(_) => needed.missing.push(format!(
                    "{} needs {}, which is not on PATH",
                    program.display(),
                    name.display()
                )),
            },
        }
    }
}

/// Describes a missing program, and names the dangling link if that is the cause.
fn describe_missing(program: &Path, error: &std::io::Error) -> String {
    let mut at = program.to_owned();
    for _ in 0..DEPTH_MAX {
        let Ok(to) = fs::read_link(&at) else {
            break;
        };
        let to = at.parent().unwrap_or(&at).join(to);
        if !to.exists() && !to.is_symlink() {
            return format!(
                "{} points to {}, which does not exist",
                at.display(),
                to.display()
            );
        }
        at = to;
    }
    format!("{}: {error}", program.display())
}

/// Returns the beginning of a script, or `None` for any other program.
fn read_script(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    let opened = fs::File::open(file).ok()?;
    opened.take(SCRIPT_MAX).read_to_end(&mut text).ok()?;
    text.starts_with(b"#!")
        .then(|| String::from_utf8_lossy(&text).into_owned())
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NextProgram {
    At(PathBuf),
    OnPath(OsString),
}

/// Returns the interpreters of a script and the programs that it becomes through a plain `exec`.
fn interpreters(script: &str, file: &Path) -> Vec<NextProgram> {
    let mut lines = script.lines();
    let first = lines.next().unwrap_or_default().trim_start_matches("#!");
    let mut words = first.split_ascii_whitespace();
    let mut programs = Vec::new();
    if let Some(program) = words.next() {
        programs.push(to_next_program(program));
        if Path::new(program).file_name() == Some(OsStr::new("env")) {
            let options = |word: &&str| word.starts_with('-') || word.contains('=');
            programs.extend(words.find(|word| !options(word)).map(to_next_program));
        }
    }
    let dir = file.parent().unwrap_or(file);
    for line in lines {
        if let Some(command) = line.trim_start().strip_prefix("exec ") {
            programs.extend(executed_programs(command, dir));
        }
    }
    programs
}

fn to_next_program(word: &str) -> NextProgram {
    if word.starts_with('/') {
        NextProgram::At(word.into())
    } else {
        NextProgram::OnPath(word.into())
    }
}

/// Returns the files that a command line names: absolute, or relative to the script in the
/// notation of package managers.
fn executed_programs(command: &str, dir: &Path) -> Vec<NextProgram> {
    let words = command.split_ascii_whitespace().take(8);
    let plain = words.map(|word| word.trim_matches(['"', '\'']));
    let files = plain.filter_map(|word| {
        let relative = ["$basedir/", "${basedir}/", "$(dirname \"$0\")/"];
        let relative = relative.iter().find_map(|start| word.strip_prefix(start));
        match relative {
            Some(rest) => Some(dir.join(rest)),
            None => word.starts_with('/').then(|| PathBuf::from(word)),
        }
    });
    let existing = files.filter(|file| file.is_file());
    existing.map(NextProgram::At).collect()
}

/// Returns the rest of the package that a file is part of, for the layouts of known package
/// managers.
fn package_of(file: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let around = |name: &str| file.ancestors().filter(|dir| dir.ends_with(name)).last();
    files.extend(around("node_modules").map(Path::to_owned));
    files.extend(around(".pnpm").map(Path::to_owned));
    if let Some(venv) = file
        .ancestors()
        .find(|dir| dir.join("pyvenv.cfg").is_file())
    {
        let parts = ["bin", "include", "lib", "lib64", "pyvenv.cfg", "share"];
        files.extend(parts.iter().map(|part| venv.join(part)));
    }
    files.extend(version_dir(file));
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let prefix = file.parent().filter(|dir| dir.ends_with("bin"));
    if let Some(lib) = prefix
        .and_then(Path::parent)
        .map(|prefix| prefix.join("lib"))
    {
        files.extend(libraries(name, &lib));
    }
    files.retain(|path| path.exists());
    files
}

/// Returns the libraries of an interpreter in the `lib` next to its `bin`.
fn libraries(program: &str, lib: &Path) -> Vec<PathBuf> {
    let prefixes: &[&str] = match program {
        "node" | "npm" | "npx" => &["node_modules"],
        name if name.starts_with("python") => &["python3", "libpython3"],
        name if name.starts_with("ruby") => &["ruby", "libruby"],
        name if name.starts_with("perl") => &["perl5"],
        _ => return Vec::new(),
    };
    let entries = fs::read_dir(lib).into_iter().flatten().flatten();
    let matching = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    });
    matching.take(16).map(|entry| entry.path()).collect()
}

/// Returns an installer's directory for one version of its tool:
/// `…/.local/share/TOOL/versions/VERSION` or `…/.TOOL/versions/VERSION`.
fn version_dir(file: &Path) -> Option<PathBuf> {
    let dir = file.ancestors().skip(1).find(|dir| {
        let versions = dir.parent().filter(|dir| dir.ends_with("versions"));
        let tool = versions.and_then(Path::parent);
        tool.is_some_and(|tool| {
            let hidden = tool.file_name().and_then(OsStr::to_str);
            let shared = tool
                .parent()
                .is_some_and(|dir| dir.ends_with(".local/share"));
            shared || hidden.is_some_and(|name| name.starts_with('.'))
        })
    });
    dir.map(Path::to_owned)
}

/// Explains why a program cannot be started from inside a sandbox: names the first file on the way
/// that is not mounted.
pub fn why_unreachable(program: &Path) -> Option<String> {
    let missing = files_needed_by(program, OsStr::new("")).missing;
    let first = missing.into_iter().find(|why| !why.ends_with("PATH"))?;
    Some(first.replace("which does not exist", "which is not mounted"))
}

/// Returns the paths below `home` that a text mentions and that exist on the machine, but are not
/// mounted.
pub fn named_but_not_shown(text: &str, home: &Path, mounted: &[PathBuf]) -> Vec<PathBuf> {
    let ends = |c: char| c.is_whitespace() || "\"'`:;,()[]<>".contains(c);
    let words = text.split(ends).filter(|word| word.starts_with('/'));
    let real: Vec<PathBuf> = mounted
        .iter()
        .filter_map(|path| paths::real_path(path))
        .collect();
    let mut missing: Vec<PathBuf> = words
        .map(PathBuf::from)
        .filter(|path| path.starts_with(home))
        .filter_map(|path| paths::real_path(&path))
        .filter(|path| !real.iter().any(|dir| path.starts_with(dir)))
        .collect();
    missing.sort();
    missing.dedup();
    missing
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn at(&self, name: &str) -> PathBuf {
            fs::canonicalize(self.0.path()).unwrap().join(name)
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn link(&self, name: &str, to: &str) -> PathBuf {
            let path = self.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(to, &path).unwrap();
            path
        }
    }

    fn home() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_script_needs_its_interpreter_and_nothing_beside_it() {
        let home = home();
        let node = home.put("node/bin/node", "ELF");
        home.put("node/lib/node_modules/npm/x.js", "");
        home.put("node/etc/npmrc", "secret");
        let agent = home.put("work/agent.js", "#!/usr/bin/env -S node --flag\n");
        home.put("work/.env", "secret");
        let found = files_needed_by(&agent, home.at("node/bin").as_os_str());
        assert_eq!(found.missing, Vec::<String>::new());
        assert!(found.read.contains(&agent) && found.read.contains(&node));
        assert!(found.read.contains(&home.at("node/lib/node_modules")));
        for hidden in ["work/.env", "node/etc/npmrc"] {
            let hidden = home.at(hidden);
            assert!(
                !found.read.iter().any(|dir| hidden.starts_with(dir)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn packages_virtual_environments_and_versions_come_whole() {
        let home = home();
        home.put("g/lib/node_modules/pkg/cli.js", "#!/bin/sh\n");
        let npm = home.link("g/bin/agent", "../lib/node_modules/pkg/cli.js");
        let found = files_needed_by(&npm, OsStr::new("/bin"));
        assert!(
            found.read.contains(&home.at("g/lib/node_modules")),
            "{found:?}"
        );

        home.put("venv/pyvenv.cfg", "");
        home.put("py/lib/python3.9/os.py", "");
        home.put("py/bin/python3.9", "ELF");
        home.link(
            "venv/bin/python",
            &home.at("py/bin/python3.9").display().to_string(),
        );
        let shebang = format!("#!{}\n", home.at("venv/bin/python").display());
        let agent = home.put("venv/bin/agent", &shebang);
        let found = files_needed_by(&agent, OsStr::new("/bin"));
        for part in ["venv/bin", "venv/pyvenv.cfg", "py/lib/python3.9"] {
            assert!(found.read.contains(&home.at(part)), "{part}: {found:?}");
        }

        let agent = home.put(".local/share/tool/versions/1/agent", "ELF");
        let found = files_needed_by(&agent, OsStr::new("/bin"));
        assert!(
            found
                .read
                .contains(&home.at(".local/share/tool/versions/1"))
        );
        let agent = home.put("work/versions/1/agent", "ELF");
        assert_eq!(files_needed_by(&agent, OsStr::new("/bin")).read, [agent]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_told_with_both_ends() {
        let home = home();
        let agent = home.link("bin/agent", "../gone/agent");
        let found = files_needed_by(&agent, OsStr::new("/bin"));
        let told = &found.missing[0];
        assert!(told.contains("bin/agent points to"), "{told}");
        assert!(told.contains("gone/agent, which does not exist"), "{told}");
    }

    #[test]
    fn a_shim_needs_what_it_becomes() {
        let home = home();
        let manager = home.put(".asdf/bin/asdf", "#!/bin/sh\n");
        let shim = home.put(
            ".asdf/shims/agent",
            &format!(
                "#!/bin/sh\nexec \"{}\" exec agent \"$@\"\n",
                manager.display()
            ),
        );
        assert!(
            files_needed_by(&shim, OsStr::new("/bin"))
                .read
                .contains(&manager)
        );
        let target = home.put("pnpm/global/cli.js", "#!/bin/sh\n");
        let shim = home.put(
            "pnpm/agent",
            "#!/bin/sh\nexec sh  \"$basedir/global/cli.js\" \"$@\"\n",
        );
        assert!(
            files_needed_by(&shim, OsStr::new("/bin"))
                .read
                .contains(&target)
        );
    }
}
