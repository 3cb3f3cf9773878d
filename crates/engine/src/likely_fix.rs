//! Suggests the likely fix of a setup or a check that is red on the base: what a fresh checkout in
//! the sandbox lacks. It reads the end of the output and decides nothing.

use flow::policy::Network;

use crate::caches::{CacheDir, ProjectSetup};

/// A red setup or check.
#[derive(Clone, Copy, Debug)]
pub struct RedCheck<'a> {
    pub name: &'a str,
    pub command: &'a str,
    pub timed_out: bool,
    /// End of its output.
    pub tail: &'a str,
}

/// Facts about the project that a suggestion depends on.
#[derive(Clone, Copy, Debug)]
pub struct SetupFacts<'a> {
    /// Files of the base.
    pub files: &'a [String],
    pub setup: &'a ProjectSetup,
    /// Network of checks.
    pub network: &'a Network,
    pub missing_submodules: &'a [String],
}

impl SetupFacts<'_> {
    fn has_file(&self, name: &str) -> bool {
        let ends = format!("/{name}");
        let mut files = self.files.iter();
        files.any(|file| file == name || file.ends_with(&ends))
    }

    fn has_cache(&self, name: &str) -> bool {
        let mut caches = self.setup.caches.iter();
        caches.any(|cache| matches!(cache, CacheDir::Checkout(path) if path.ends_with(name)))
    }

    fn has_setup(&self) -> bool {
        self.setup.command.is_some()
    }
}

/// Texts of programs that could not reach the network.
const NO_NETWORK: &[&str] = &[
    "Could not resolve host",
    "Temporary failure in name resolution",
    "getaddrinfo",
    "EAI_AGAIN",
    "ENETUNREACH",
    "Network is unreachable",
    "network: refused by [policy.network]",
    "dns error",
    "Name or service not known",
    "Connection refused",
];

/// A package manager's words for a lock file that does not fit its manifest or cannot be read: the
/// text, the file, and the command that makes it again.
const STALE_LOCKS: &[(&str, &str, &str)] = &[
    (
        "`npm ci` can only install packages when your package.json",
        "package-lock.json",
        "npm install",
    ),
    (
        "`npm ci` command can only install with an existing",
        "package-lock.json",
        "npm install",
    ),
    (
        "ERR_PNPM_OUTDATED_LOCKFILE",
        "pnpm-lock.yaml",
        "pnpm install",
    ),
    ("ERR_PNPM_BROKEN_LOCKFILE", "pnpm-lock.yaml", "pnpm install"),
    (
        "Your lockfile needs to be updated",
        "yarn.lock",
        "yarn install",
    ),
    (
        "The lockfile would have been modified by this install",
        "yarn.lock",
        "yarn install",
    ),
    (
        "lockfile had changes, but lockfile is frozen",
        "bun.lock",
        "bun install",
    ),
    (
        "The lockfile at `uv.lock` needs to be updated",
        "uv.lock",
        "uv lock",
    ),
    ("Failed to parse `uv.lock`", "uv.lock", "uv lock"),
    (
        "pyproject.toml changed significantly since poetry.lock",
        "poetry.lock",
        "poetry lock",
    ),
    (
        "because --locked was passed to prevent this",
        "Cargo.lock",
        "cargo generate-lockfile",
    ),
    (
        "but --locked was passed to prevent this",
        "Cargo.lock",
        "cargo generate-lockfile",
    ),
    (
        "failed to parse lock file at",
        "Cargo.lock",
        "cargo generate-lockfile",
    ),
    (
        "lockfile can't be updated because frozen mode is set",
        "Gemfile.lock",
        "bundle install",
    ),
    (
        "Your lock file does not contain a compatible set of packages",
        "composer.lock",
        "composer update",
    ),
    ("missing go.sum entry", "go.sum", "go mod tidy"),
    (
        "error NU1004",
        "packages.lock.json",
        "dotnet restore --force-evaluate",
    ),
];

/// Programs that install a project's dependencies.
const PACKAGE_MANAGERS: &[&str] = &[
    "npm", "pnpm", "yarn", "bun", "npx", "uv", "poetry", "pip", "pip3", "cargo", "go", "mvn",
    "gradle", "bundle", "composer", "dotnet", "node", "python", "python3", "ruby", "php", "java",
];

/// Returns the likely fix in one or two sentences, or nothing if the output has no known cause.
pub fn likely_fix(red: &RedCheck<'_>, facts: &SetupFacts<'_>) -> Option<String> {
    if let Some(fix) = network_fix(red, facts) {
        return Some(fix);
    }
    if let Some(fix) = stale_lock_fix(red.tail) {
        return Some(fix);
    }
    if red.timed_out {
        return Some(format!(
            "`{}` did not end in its time: raise its timeout_secs, or find out whether it waits for input or a service",
            red.command
        ));
    }
    if red.tail.contains("No space left on device") || red.tail.contains("disk limit") {
        return Some(
            "it wrote more than its limit: raise limits.disk_bytes_max under [policy], or free disk space"
                .to_owned(),
        );
    }
    if let Some(program) = missing_program(red.tail) {
        return Some(missing_program_fix(program, red, facts));
    }
    if lacks_node_module(red.tail) && !facts.has_cache("node_modules") {
        return Some(node_fix(facts));
    }
    if let Some(module) = missing_python_module(red.tail) {
        return Some(python_fix(module, facts));
    }
    if !facts.missing_submodules.is_empty() {
        return Some(submodule_fix(facts.missing_submodules));
    }
    if red.tail.contains("Read-only file system") || red.tail.contains("Permission denied") {
        return Some(
            "the sandbox does not show or does not let it write that path: see [sandbox] show, and write only below the checkout, HOME and TMPDIR"
                .to_owned(),
        );
    }
    if red.tail.contains("rustup") && red.tail.contains("default toolchain") {
        return Some("rustup has no toolchain here: run `rustup default stable`".to_owned());
    }
    None
}

/// Says which submodules are missing and how to get them.
pub fn submodule_fix(missing: &[String]) -> String {
    format!(
        "the submodule {} is not on this machine: run `git submodule update --init --recursive` in your clone",
        missing.join(", ")
    )
}

fn stale_lock_fix(tail: &str) -> Option<String> {
    // Programs wrap their sentences to lines of their own width.
    let text = findings::one_line(tail);
    let (_, file, command) = STALE_LOCKS
        .iter()
        .find(|(words, ..)| text.contains(words))?;
    Some(format!(
        "{file} does not fit the project: run `{command}` in your clone and commit {file} to the base branch"
    ))
}

fn network_fix(red: &RedCheck<'_>, facts: &SetupFacts<'_>) -> Option<String> {
    if !NO_NETWORK.iter().any(|text| red.tail.contains(text)) {
        return None;
    }
    Some(match facts.network {
        Network::Off => {
            "it needs the network, and [policy.network] check is \"off\": list its hosts there, or fetch everything in advance"
                .to_owned()
        }
        Network::Hosts(hosts) => format!(
            "it needs a host that [policy.network] check does not list ({}): add the host",
            hosts.join(", ")
        ),
        Network::On | Network::Provider => {
            "it could not reach the network or a service: check the connection; a service on this machine must be started by the check itself"
                .to_owned()
        }
    })
}

/// Returns the program that a shell did not find: `sh: 1: xo: not found`, `xo: command not found`,
/// `env: 'xo': No such file or directory`.
fn missing_program(tail: &str) -> Option<&str> {
    tail.lines().rev().find_map(|line| {
        let line = line.trim_end();
        let before = line
            .strip_suffix(": not found")
            .or_else(|| line.strip_suffix(": command not found"))
            .or_else(|| {
                let rest = line.strip_prefix("env: ")?;
                rest.strip_suffix(": No such file or directory")
            })?;
        let program = before.rsplit(": ").next()?;
        let program = program.trim_matches(['\'', '"', '`', '‘', '’']);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.+/".contains(c);
        (!program.is_empty() && program.len() <= 60 && program.chars().all(is_name))
            .then_some(program)
    })
}

fn missing_program_fix(program: &str, red: &RedCheck<'_>, facts: &SetupFacts<'_>) -> String {
    if PACKAGE_MANAGERS.contains(&program) {
        return format!(
            "`{program}` is not installed, or not visible in the sandbox: install it, or change the command of {}",
            red.name
        );
    }
    if facts.has_file("package.json") && !facts.has_cache("node_modules") {
        return node_fix(facts);
    }
    if facts.has_file("pyproject.toml") || facts.has_file("requirements.txt") {
        return python_fix(program, facts);
    }
    format!(
        "`{program}` is not on the PATH of the sandbox: install it, or let `run` in [setup] install it below the checkout"
    )
}

fn lacks_node_module(tail: &str) -> bool {
    tail.contains("Cannot find module")
        || tail.contains("ERR_MODULE_NOT_FOUND")
        || tail.contains("Cannot find package")
}

fn node_fix(facts: &SetupFacts<'_>) -> String {
    let install = [
        ("package-lock.json", "npm ci"),
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("bun.lock", "bun install --frozen-lockfile"),
    ];
    let found = install.iter().find(|(file, _)| facts.has_file(file));
    match found {
        Some((_, run)) => format!(
            "a fresh checkout has no node_modules: add [setup] with run = \"{run}\" and caches = [\"node_modules\"]"
        ),
        None => "a fresh checkout has no node_modules, and there is no lock file: add [setup] with caches = [\"node_modules\"], which copies yours, or run = \"npm install\""
            .to_owned(),
    }
}

fn missing_python_module(tail: &str) -> Option<&str> {
    tail.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("No module named ")?;
        let name = rest.trim().trim_matches(['\'', '"', '.']);
        (!name.is_empty() && name.len() <= 60).then_some(name)
    })
}

fn python_fix(missing: &str, facts: &SetupFacts<'_>) -> String {
    if facts.has_setup() {
        return format!(
            "the setup does not install `{missing}`: add it to `run` in [setup], and `-e .` if it is the project itself"
        );
    }
    format!(
        "a fresh checkout has no `{missing}`: add [setup] with run = \"test -d .venv || python3 -m venv .venv; .venv/bin/python -m pip install -q {missing} -e .\" and caches = [\".venv\", \"~/.cache/pip\"], and start tools as .venv/bin/python -m …"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(tail: &str, files: &[&str], network: &Network) -> String {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let red = RedCheck {
            name: "test",
            command: "npm test",
            timed_out: false,
            tail,
        };
        let facts = SetupFacts {
            files: &files,
            setup: &ProjectSetup::default(),
            network,
            missing_submodules: &[],
        };
        likely_fix(&red, &facts).unwrap_or_default()
    }

    #[test]
    fn each_known_cause_has_its_own_fix() {
        let on = &Network::On;
        let node = fix(
            "> xo\nsh: 1: xo: not found\n(exit code 127)",
            &["package.json"],
            on,
        );
        assert!(node.contains("no node_modules"), "{node}");
        let locked = fix(
            "Cannot find module 'x'",
            &["package-lock.json", "package.json"],
            on,
        );
        assert!(locked.contains("run = \"npm ci\""), "{locked}");
        let uv = fix("sh: 1: uv: not found", &["pyproject.toml"], on);
        assert!(uv.starts_with("`uv` is not installed"), "{uv}");
        let module = fix(
            "ModuleNotFoundError: No module named 'pytest'",
            &["setup.py"],
            on,
        );
        assert!(module.contains("pip install -q pytest -e ."), "{module}");
        let offline = fix("curl: (6) Could not resolve host: x", &[], &Network::Off);
        assert!(offline.contains("check is \"off\""), "{offline}");
        let lock = fix(
            "npm error code EUSAGE\nnpm error `npm ci` can only install packages when your package.json and package-lock.json are in sync.",
            &["package.json"],
            on,
        );
        assert!(lock.contains("run `npm install` in your clone"), "{lock}");
        let cargo = fix(
            "error: the lock file /x/Cargo.lock needs to be updated but --locked was passed to prevent this",
            &["Cargo.toml"],
            on,
        );
        assert!(cargo.starts_with("Cargo.lock does not fit"), "{cargo}");
        assert_eq!(
            fix("1 test failed: greets nobody", &["package.json"], on),
            ""
        );
    }

    #[test]
    fn a_name_that_is_no_program_is_not_repeated() {
        for line in [
            "page: not found",
            "curl: (22) $(evil): not found",
            ": not found",
        ] {
            let fix = fix(line, &[], &Network::On);
            assert!(!fix.contains("evil") && !fix.contains("``"), "{fix}");
        }
    }
}
