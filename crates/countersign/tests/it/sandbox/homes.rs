//! A person's home in which a test lays out tools, and programs started in a sandbox from there, on
//! every level and as everybody that this machine has.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use engine::sandbox::{
    RunMounts, SandboxLevel, SandboxLimits, SandboxNetwork, SandboxProfile, program,
};
use tempfile::TempDir;

use super::attack_setup::{BINARY, Who, as_who, bubblewrap_is_here, give_away, people};

const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin";

const BUSY_MAX: usize = 20;

pub fn levels() -> Vec<(SandboxLevel, Who)> {
    let mut all = Vec::new();
    for who in people() {
        let levels = SandboxLevel::ALL.into_iter();
        let here =
            |level: &SandboxLevel| *level != SandboxLevel::Bubblewrap || bubblewrap_is_here();
        all.extend(levels.filter(here).map(|level| (level, who)));
    }
    all
}

/// A home with `work` in it, our data, and our program.
pub struct Home {
    dir: TempDir,
    pub show: Vec<PathBuf>,
    /// Directories before the system's on `PATH`.
    pub path: Vec<PathBuf>,
}

impl Home {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = Self {
            dir,
            show: Vec::new(),
            path: Vec::new(),
        };
        for name in [
            "home/work",
            "data/run/home",
            "data/run/tmp",
            "data/run/proof",
            "tools",
        ] {
            fs::create_dir_all(home.root().join(name)).unwrap();
        }
        fs::copy(BINARY, home.root().join("tools/countersign")).unwrap();
        home
    }

    pub fn root(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.root().join("home").join(name)
    }

    /// A file in the home; `HOME` in its text is where that is.
    pub fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text.replace(
            "%HOME%/",
            &format!("{}/", self.at("").display()).replace("//", "/"),
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub fn link(&self, name: &str, to: impl AsRef<Path>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, &path).unwrap();
        path
    }

    pub fn on_path(&mut self, name: &str) {
        let dir = self.at(name);
        fs::create_dir_all(&dir).unwrap();
        self.path.push(dir);
    }

    fn search_path(&self) -> std::ffi::OsString {
        let system = std::env::split_paths(SYSTEM);
        std::env::join_paths(self.path.iter().cloned().chain(system)).unwrap()
    }

    /// The program in a sandbox of this level, with pipes to it.
    pub fn start(&self, (level, who): (SandboxLevel, Who), program: &Path, args: &[&str]) -> Child {
        self.command((level, who), program, args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// How it ended and what it said. A file that was just written may be busy for as long as
    /// another test's child, forked meanwhile, has not become its program yet.
    pub fn run(
        &self,
        level: (SandboxLevel, Who),
        program: &Path,
        args: &[&str],
    ) -> (Option<i32>, String) {
        let mut ended = (None, String::new());
        for _ in 0..BUSY_MAX {
            ended = match self.command(level, program, args).output() {
                Ok(output) => {
                    let said = [output.stdout, output.stderr].concat();
                    let said = String::from_utf8_lossy(&said).into_owned();
                    (output.status.code(), said)
                }
                Err(error) => (None, error.to_string()),
            };
            if !ended.1.contains("Text file busy") {
                break;
            }
        }
        ended
    }

    fn command(&self, (level, who): (SandboxLevel, Who), program: &Path, args: &[&str]) -> Command {
        let (path, run) = (self.search_path(), self.root().join("data/run"));
        let private = [self.root().join("data")];
        let home = self.at("");
        let home = home.parent().unwrap().join("home");
        let mut ward = SandboxProfile::new(level, Some(&home), &path, &private, &self.show);
        ward.read.push(self.root().join("tools"));
        ward.limits = SandboxLimits {
            disk_floor_bytes: 0,
            ..SandboxLimits::default()
        };
        for dir in ["home", "tmp", "proof"] {
            fs::create_dir_all(run.join(dir)).unwrap();
        }
        ward.prepare_home(&run.join("home")).unwrap();
        let confinement = ward.sandbox_for(RunMounts {
            read: program::files_needed_by(program, &path).read,
            write: vec![run.join("home"), run.join("tmp")],
            read_only: Vec::new(),
            overlays: Vec::new(),
            credentials: Vec::new(),
            network: SandboxNetwork::Off,
            metadata: true,
            proof: run.join("proof/proof.json"),
        });
        let file = confinement.write().unwrap();
        if who == Who::Nobody {
            give_away(self.dir.path());
        }
        let us = std::process::id().to_string();
        let binary = self.root().join("tools/countersign");
        let mut words = vec![
            binary.to_str().unwrap(),
            "confine",
            &us,
            file.to_str().unwrap(),
            "--",
            program.to_str().unwrap(),
        ];
        words.extend(args);
        let mut command = as_who(who, &words);
        command
            .env("PATH", &path)
            .env("HOME", run.join("home"))
            .env("TMPDIR", run.join("tmp"))
            .envs(ward.environment())
            .current_dir(run.join("tmp"));
        command
    }
}

/// A layout: its name, and what makes it and says which program is the agent.
type Layout = (&'static str, fn(&mut Home) -> PathBuf);

const SAYS: &str = "#!/bin/sh\necho agent 1.0\n";
/// Stands for an interpreter: reads a file next to the real script first.
const NODE: &str = "#!/bin/sh
real=$(readlink -f \"$1\")
. \"${real%/*}/../dep/index.js\"
. \"$real\"
";

fn node_package(home: &mut Home, prefix: &str) {
    home.put(
        &format!("{prefix}/lib/node_modules/agent/cli.js"),
        "#!/usr/bin/env node\n$say agent 1.0\n",
    );
    home.put(
        &format!("{prefix}/lib/node_modules/dep/index.js"),
        "say=echo\n",
    );
    home.link(
        &format!("{prefix}/bin/agent"),
        "../lib/node_modules/agent/cli.js",
    );
}

const LAYOUTS: &[Layout] = &[
    ("native installer", |home| {
        home.put(".local/share/claude/versions/1.0", SAYS);
        home.on_path(".local/bin");
        home.link(".local/bin/claude", "../share/claude/versions/1.0")
    }),
    (
        "a version directory with files beside the program",
        |home| {
            home.put(
                ".local/share/x/versions/1/agent",
                "#!/bin/sh\n. \"$(dirname \"$(readlink -f \"$0\")\")/lib.sh\"\n",
            );
            home.put(".local/share/x/versions/1/lib.sh", "echo agent 1.0\n");
            home.link("bin/agent", home.at(".local/share/x/versions/1/agent"))
        },
    ),
    ("links to links, relative and absolute", |home| {
        home.put("apps/deep/er/agent.sh", SAYS);
        home.link("apps/two", "deep/er/agent.sh");
        home.link("apps/one", home.at("apps/two"));
        home.link("agent", "apps/../apps/one")
    }),
    ("a link to a directory on the way", |home| {
        home.put("apps/v1/bin/agent", SAYS);
        home.link("apps/current", "v1");
        home.at("apps/current/bin/agent")
    }),
    ("npm -g with node of nvm", |home| {
        node_package(home, ".npm-global");
        home.put(".nvm/versions/node/v1/bin/node", NODE);
        home.on_path(".npm-global/bin");
        home.on_path(".nvm/versions/node/v1/bin");
        home.at(".npm-global/bin/agent")
    }),
    ("npm -g with a prefix of the person's own", |home| {
        node_package(home, "apps/prefix");
        home.put("apps/node/bin/node", NODE);
        home.on_path("apps/node/bin");
        home.at("apps/prefix/bin/agent")
    }),
    ("nvm", |home| {
        node_package(home, ".nvm/versions/node/v1");
        home.put(".nvm/versions/node/v1/bin/node", NODE);
        home.on_path(".nvm/versions/node/v1/bin");
        home.at(".nvm/versions/node/v1/bin/agent")
    }),
    ("pnpm", |home| {
        home.put(".local/share/pnpm/global/5/cli.js", SAYS);
        home.on_path(".local/share/pnpm");
        home.put(
            ".local/share/pnpm/agent",
            "#!/bin/sh\nbasedir=$(dirname \"$0\")\nexec sh \"$basedir/global/5/cli.js\" \"$@\"\n",
        )
    }),
    ("pipx with python of pyenv", |home| {
        home.put(
            ".pyenv/versions/3/bin/python3",
            "#!/bin/sh\n. %HOME%/.local/share/pipx/venvs/agent/lib/x.py\n",
        );
        home.put(".local/share/pipx/venvs/agent/pyvenv.cfg", "");
        home.put(".local/share/pipx/venvs/agent/lib/x.py", "echo agent 1.0\n");
        home.link(
            ".local/share/pipx/venvs/agent/bin/python",
            home.at(".pyenv/versions/3/bin/python3"),
        );
        home.put(
            ".local/share/pipx/venvs/agent/bin/agent",
            "#!%HOME%/.local/share/pipx/venvs/agent/bin/python\n",
        );
        home.link(
            ".local/bin/agent",
            home.at(".local/share/pipx/venvs/agent/bin/agent"),
        )
    }),
    ("a virtual environment anywhere", |home| {
        home.put(
            "apps/py/bin/python3",
            "#!/bin/sh\n. %HOME%/apps/py/lib/python3.1/os.py\n",
        );
        home.put("apps/py/lib/python3.1/os.py", "echo agent 1.0\n");
        home.put("apps/venv/pyvenv.cfg", "");
        home.link("apps/venv/bin/python", "../../py/bin/python3");
        home.put("apps/venv/bin/agent", "#!%HOME%/apps/venv/bin/python\n")
    }),
    ("uv tool", |home| {
        home.put(
            ".local/share/uv/python/cpython-3/bin/python3",
            "#!/bin/sh\necho agent 1.0\n",
        );
        home.link(
            ".local/share/uv/tools/agent/bin/python",
            home.at(".local/share/uv/python/cpython-3/bin/python3"),
        );
        home.put(
            ".local/share/uv/tools/agent/bin/agent",
            "#!%HOME%/.local/share/uv/tools/agent/bin/python\n",
        );
        home.link(
            ".local/bin/agent",
            home.at(".local/share/uv/tools/agent/bin/agent"),
        )
    }),
    ("mise shim", |home| {
        home.put(".local/bin/mise", "#!/bin/sh\nname=${0##*/}\nversion=$(sed -n \"s/^$name = \\\"\\(.*\\)\\\"/\\1/p\" \"$HOME/.config/mise/config.toml\")\nexec \"$MISE_DATA_DIR/installs/$name/$version/bin/$name\" \"$@\"\n");
        home.put(
            ".config/mise/config.toml",
            "[env]\nTOKEN = \"TOP-SECRET\"\n[tools]\nagent = \"1.0\"\n",
        );
        home.put(".local/share/mise/installs/agent/1.0/bin/agent", SAYS);
        home.on_path(".local/share/mise/shims");
        home.link(".local/share/mise/shims/agent", home.at(".local/bin/mise"))
    }),
    ("asdf shim", |home| {
        home.put(".tool-versions", "agent 1.0\n");
        home.put(".asdf/bin/asdf", "#!/bin/sh\nversion=$(sed -n \"s/^$2 //p\" \"$HOME/.tool-versions\")\nexec \"$ASDF_DATA_DIR/installs/$2/$version/bin/$2\"\n");
        home.put(".asdf/installs/agent/1.0/bin/agent", SAYS);
        home.on_path(".asdf/shims");
        home.put(".asdf/shims/agent", "#!/usr/bin/env bash\n# asdf-plugin: agent 1.0\nexec %HOME%/.asdf/bin/asdf exec \"agent\" \"$@\"\n")
    }),
    ("pyenv shim", |home| {
        home.put(".pyenv/version", "3\n");
        home.put(
            ".pyenv/libexec/pyenv",
            "#!/bin/sh\nexec \"$PYENV_ROOT/versions/$(cat \"$PYENV_ROOT/version\")/bin/$2\"\n",
        );
        home.put(".pyenv/versions/3/bin/agent", SAYS);
        home.on_path(".pyenv/shims");
        home.put(".pyenv/shims/agent", "#!/usr/bin/env bash\nset -e\nprogram=\"${0##*/}\"\nexec \"%HOME%/.pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n")
    }),
    ("volta", |home| {
        home.put(".volta/tools/image/agent", SAYS);
        home.put(
            ".volta/bin/volta-shim",
            "#!/bin/sh\nexec \"$VOLTA_HOME/tools/image/${0##*/}\"\n",
        );
        home.on_path(".volta/bin");
        home.link(".volta/bin/agent", "volta-shim")
    }),
    ("a script anywhere", |home| home.put("apps/agent.sh", SAYS)),
    ("a script beside everything", |home| {
        let path = home.root().join("agent.sh");
        fs::write(&path, SAYS).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }),
    ("an interpreter in the home", |home| {
        home.put("opt/interpreter", "#!/bin/sh\n. \"$1\"\n");
        home.put("apps/agent", "#!%HOME%/opt/interpreter\necho agent 1.0\n")
    }),
    ("env -S with options", |home| {
        home.put("apps/bin/reader", "#!/bin/sh\nshift\n. \"$1\"\n");
        home.on_path("apps/bin");
        home.put(
            "agent",
            "#!/usr/bin/env -S reader --quiet\necho agent 1.0\n",
        )
    }),
    ("names with blanks, lines and signs", |home| {
        home.put("apps/a b/c,d:e\\f/g\nh/é=~/agent", SAYS)
    }),
];

#[test]
fn agents_of_every_layout_start_on_every_level() {
    let mut failed = Vec::new();
    for level in levels() {
        for (name, lay_out) in LAYOUTS {
            let mut home = Home::new();
            let agent = lay_out(&mut home);
            let (code, said) = home.run(level, &agent, &["--version"]);
            if code != Some(0) || !said.contains("agent 1.0") {
                failed.push(format!(
                    "{name} on {} as {}: {code:?} {said}",
                    level.0, level.1
                ));
            }
            if said.contains("TOP-SECRET") {
                failed.push(format!("{name}: a secret was told"));
            }
        }
    }
    println!("{} layouts on {} levels", LAYOUTS.len(), levels().len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_program_whose_target_is_missing_says_which() {
    let home = Home::new();
    let agent = home.put("apps/agent", "#!/bin/sh\nexec %HOME%/hidden/target\n");
    home.put("hidden/other", SAYS);
    let (code, said) = home.run(levels()[0], &agent, &[]);
    assert_ne!(code, Some(0), "{said}");
    let agent = home.link("apps/dangling", "../gone/agent");
    for level in levels() {
        let (code, said) = home.run(level, &agent, &[]);
        assert_eq!(code, Some(125), "{said}");
        assert!(
            said.contains("could not start") && said.contains("dangling"),
            "{said}"
        );
    }
}
