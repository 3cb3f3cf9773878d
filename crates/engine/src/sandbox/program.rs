//! What a program needs around it to start: the links on the way to it, its interpreter, and the
//! package that it is part of. Exactly that is shown to a run, and nothing that lies beside it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::paths::{self, resolve};
use super::tools;
use crate::process::find_program;

/// Interpreters of interpreters, shims of shims.
const DEPTH_MAX: usize = 8;
/// A longer file is no script of a package manager.
const SCRIPT_MAX: u64 = 64 << 10;

/// What a program needs, and what of it is missing on the machine itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFiles {
    pub read: Vec<PathBuf>,
    pub missing: Vec<String>,
}

/// Follows a program, or a script, through links, interpreters and shims.
pub fn needed(program: &Path, path: &OsStr) -> ProgramFiles {
    let mut needed = ProgramFiles::default();
    follow(program, path, DEPTH_MAX, &mut needed);
    needed
}

fn follow(program: &Path, path: &OsStr, depth: usize, needed: &mut ProgramFiles) {
    if depth == 0 || needed.read.iter().any(|known| known == program) {
        return;
    }
    let found = match resolve(program) {
        Ok(found) => found,
        Err(error) => {
            needed.missing.push(missing(program, &error));
            return;
        }
    };
    needed.read.push(program.to_owned());
    needed.read.extend(package_of(&found.real));
    needed.read.extend(tools::of_one_tool(&found.real));
    let Some(script) = script(&found.real) else {
        return;
    };
    for next in interpreters(&script, &found.real) {
        match next {
            NextProgram::At(program) => follow(&program, path, depth - 1, needed),
            NextProgram::OnPath(name) => match find_program(&name, path, Path::new("/")) {
                Ok(program) => follow(&program, path, depth - 1, needed),
                Err(_) => needed.missing.push(format!(
                    "{} needs {}, which is not on PATH",
                    program.display(),
                    name.display()
                )),
            },
        }
    }
}

/// Says which link leads nowhere, where it is one.
fn missing(program: &Path, error: &std::io::Error) -> String {
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

/// The beginning of a script; `None` for any other program.
fn script(file: &Path) -> Option<String> {
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

/// The programs that a script is read by, and those that it becomes by a plain `exec`.
fn interpreters(script: &str, file: &Path) -> Vec<NextProgram> {
    let mut lines = script.lines();
    let first = lines.next().unwrap_or_default().trim_start_matches("#!");
    let mut words = first.split_ascii_whitespace();
    let mut found = Vec::new();
    if let Some(program) = words.next() {
        found.push(named(program));
        if Path::new(program).file_name() == Some(OsStr::new("env")) {
            let options = |word: &&str| word.starts_with('-') || word.contains('=');
            found.extend(words.find(|word| !options(word)).map(named));
        }
    }
    let dir = file.parent().unwrap_or(file);
    for line in lines {
        if let Some(command) = line.trim_start().strip_prefix("exec ") {
            found.extend(executed(command, dir));
        }
    }
    found
}

fn named(word: &str) -> NextProgram {
    if word.starts_with('/') {
        NextProgram::At(word.into())
    } else {
        NextProgram::OnPath(word.into())
    }
}

/// The files that a line names: in full, or beside the script as package managers write it.
fn executed(command: &str, dir: &Path) -> Vec<NextProgram> {
    let words = command.split_ascii_whitespace().take(8);
    let plain = words.map(|word| word.trim_matches(['"', '\'']));
    let files = plain.filter_map(|word| {
        let beside = ["$basedir/", "${basedir}/", "$(dirname \"$0\")/"];
        let beside = beside.iter().find_map(|start| word.strip_prefix(start));
        match beside {
            Some(rest) => Some(dir.join(rest)),
            None => word.starts_with('/').then(|| PathBuf::from(word)),
        }
    });
    let there = files.filter(|file| file.is_file());
    there.map(NextProgram::At).collect()
}

/// The rest of the package that a file is part of, by the layouts of the managers that we know.
fn package_of(file: &Path) -> Vec<PathBuf> {
    let mut shown = Vec::new();
    let around = |name: &str| file.ancestors().filter(|dir| dir.ends_with(name)).last();
    shown.extend(around("node_modules").map(Path::to_owned));
    shown.extend(around(".pnpm").map(Path::to_owned));
    if let Some(venv) = file
        .ancestors()
        .find(|dir| dir.join("pyvenv.cfg").is_file())
    {
        let parts = ["bin", "include", "lib", "lib64", "pyvenv.cfg", "share"];
        shown.extend(parts.iter().map(|part| venv.join(part)));
    }
    shown.extend(version_dir(file));
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let prefix = file.parent().filter(|dir| dir.ends_with("bin"));
    if let Some(lib) = prefix
        .and_then(Path::parent)
        .map(|prefix| prefix.join("lib"))
    {
        shown.extend(libraries(name, &lib));
    }
    shown.retain(|path| path.exists());
    shown
}

/// What an interpreter keeps in the `lib` beside its `bin`.
fn libraries(program: &str, lib: &Path) -> Vec<PathBuf> {
    let prefixes: &[&str] = match program {
        "node" | "npm" | "npx" => &["node_modules"],
        name if name.starts_with("python") => &["python3", "libpython3"],
        name if name.starts_with("ruby") => &["ruby", "libruby"],
        name if name.starts_with("perl") => &["perl5"],
        _ => return Vec::new(),
    };
    let entries = fs::read_dir(lib).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    });
    wanted.take(16).map(|entry| entry.path()).collect()
}

/// `…/.local/share/TOOL/versions/VERSION` and `…/.TOOL/versions/VERSION`: an installer's directory
/// for one version of its tool.
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

/// Why a program cannot be started from here, where "here" is inside of a sandbox: the first file
/// on the way that is not mounted.
pub fn unreachable(program: &Path) -> Option<String> {
    let missing = needed(program, OsStr::new("")).missing;
    let first = missing.into_iter().find(|why| !why.ends_with("PATH"))?;
    Some(first.replace("which does not exist", "which is not mounted"))
}

/// Paths below `home` that a text names, that are there on the machine and not among what is shown.
pub fn named_but_not_shown(text: &str, home: &Path, shown: &[PathBuf]) -> Vec<PathBuf> {
    let ends = |c: char| c.is_whitespace() || "\"'`:;,()[]<>".contains(c);
    let words = text.split(ends).filter(|word| word.starts_with('/'));
    let real: Vec<PathBuf> = shown.iter().filter_map(|path| paths::real(path)).collect();
    let mut found: Vec<PathBuf> = words
        .map(PathBuf::from)
        .filter(|path| path.starts_with(home))
        .filter_map(|path| paths::real(&path))
        .filter(|path| !real.iter().any(|dir| path.starts_with(dir)))
        .collect();
    found.sort();
    found.dedup();
    found
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
        let found = needed(&agent, home.at("node/bin").as_os_str());
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
        let found = needed(&npm, OsStr::new("/bin"));
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
        let found = needed(&agent, OsStr::new("/bin"));
        for part in ["venv/bin", "venv/pyvenv.cfg", "py/lib/python3.9"] {
            assert!(found.read.contains(&home.at(part)), "{part}: {found:?}");
        }

        let agent = home.put(".local/share/tool/versions/1/agent", "ELF");
        let found = needed(&agent, OsStr::new("/bin"));
        assert!(
            found
                .read
                .contains(&home.at(".local/share/tool/versions/1"))
        );
        let agent = home.put("work/versions/1/agent", "ELF");
        assert_eq!(needed(&agent, OsStr::new("/bin")).read, [agent]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_told_with_both_ends() {
        let home = home();
        let agent = home.link("bin/agent", "../gone/agent");
        let found = needed(&agent, OsStr::new("/bin"));
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
        assert!(needed(&shim, OsStr::new("/bin")).read.contains(&manager));
        let target = home.put("pnpm/global/cli.js", "#!/bin/sh\n");
        let shim = home.put(
            "pnpm/agent",
            "#!/bin/sh\nexec sh  \"$basedir/global/cli.js\" \"$@\"\n",
        );
        assert!(needed(&shim, OsStr::new("/bin")).read.contains(&target));
    }
}
