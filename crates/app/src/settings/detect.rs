//! Detects a project's languages, its test and lint commands, and the setup of a fresh checkout
//! from the files in its top directory. It only reads; it runs nothing.

use std::path::Path;

use serde::Serialize;

/// Maximum size of a manifest that is read.
const BYTES_MAX: usize = 1024 * 1024;

/// Facts that were detected about a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DetectedProject {
    /// Each language, and the file that shows it.
    pub languages: Vec<(String, String)>,
    /// Name and command of each check.
    pub checks: Vec<(String, String)>,
    /// Command that prepares a fresh checkout.
    pub setup: Option<String>,
    /// Directories to keep between runs.
    pub caches: Vec<String>,
}

/// Detects the project in a directory.
pub fn detect(root: &Path) -> DetectedProject {
    let mut project = DetectedProject::default();
    let top = ProjectRoot(root);
    for detector in [rust, node, python, go, other_languages, recipe_checks] {
        detector(&top, &mut project);
    }
    project
}

struct ProjectRoot<'a>(&'a Path);

impl ProjectRoot<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        let found = names.iter().find(|name| self.has(name));
        found.map(|name| (*name).to_owned())
    }

    /// Returns the text of a file; empty if there is none.
    fn text(&self, name: &str) -> String {
        let bytes = super::read_bounded(&self.0.join(name), "the manifest", BYTES_MAX);
        bytes.map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }
}

impl DetectedProject {
    fn language(&mut self, name: &str, file: &str) {
        self.languages.push((name.to_owned(), file.to_owned()));
    }

    /// Adds a check. The first command for a name stays, so a language's own command wins over a
    /// recipe.
    fn check(&mut self, name: &str, command: impl Into<String>) {
        if !self.checks.iter().any(|(known, _)| known == name) {
            self.checks.push((name.to_owned(), command.into()));
        }
    }

    fn setup(&mut self, command: &str, cache: &str) {
        if self.setup.is_none() {
            self.setup = Some(command.to_owned());
            self.caches.push(cache.to_owned());
        }
    }
}

fn rust(top: &ProjectRoot<'_>, found: &mut DetectedProject) {
    if !top.has("Cargo.toml") {
        return;
    }
    found.language("Rust", "Cargo.toml");
    found.check("test", "cargo test");
    found.check("lint", "cargo clippy --all-targets -- -D warnings");
    found.check("format", "cargo fmt --all --check");
    found.caches.push("target".to_owned());
}

fn node(top: &ProjectRoot<'_>, found: &mut DetectedProject) {
    if !top.has("package.json") {
        return;
    }
    let typed = top.has("tsconfig.json");
    let language = if typed { "TypeScript" } else { "JavaScript" };
    found.language(language, "package.json");
    let (runner, install) = if top.has("pnpm-lock.yaml") {
        ("pnpm", Some("pnpm install --frozen-lockfile"))
    } else if top.has("yarn.lock") {
        ("yarn", Some("yarn install --immutable"))
    } else if top.has("bun.lockb") || top.has("bun.lock") {
        ("bun", Some("bun install --frozen-lockfile"))
    } else {
        ("npm", top.has("package-lock.json").then_some("npm ci"))
    };
    let manifest: serde_json::Value =
        serde_json::from_str(&top.text("package.json")).unwrap_or_default();
    let script = |name: &str| manifest["scripts"][name].as_str();
    // `npm init` writes a test that always fails.
    if script("test").is_some_and(|test| !test.contains("no test specified")) {
        found.check("test", format!("{runner} test"));
    }
    for (name, scripts) in [
        ("lint", &["lint"][..]),
        ("types", &["typecheck", "type-check", "types"]),
    ] {
        if let Some(script) = scripts.iter().find(|name| script(name).is_some()) {
            found.check(name, format!("{runner} run {script}"));
        }
    }
    if let Some(install) = install {
        found.setup(install, "node_modules");
    }
}

fn python(top: &ProjectRoot<'_>, found: &mut DetectedProject) {
    let manifests = [
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "requirements.txt",
    ];
    let Some(file) = top.first(&manifests) else {
        return;
    };
    found.language("Python", &file);
    let manifest = top.text("pyproject.toml");
    let (before, install) = if top.has("uv.lock") {
        ("uv run ", Some(("uv sync", ".venv")))
    } else if top.has("poetry.lock") {
        ("poetry run ", Some(("poetry install", ".venv")))
    } else {
        ("", None)
    };
    let words = format!(
        "{manifest}{}{}",
        top.text("setup.cfg"),
        top.text("requirements.txt")
    );
    let pytest = words.contains("pytest") || top.has("pytest.ini") || top.has("conftest.py");
    if pytest {
        found.check("test", format!("{before}pytest"));
    } else {
        found.check("test", format!("{before}python3 -m unittest discover"));
    }
    if words.contains("ruff") || top.has("ruff.toml") || top.has(".ruff.toml") {
        found.check("lint", format!("{before}ruff check ."));
    } else if words.contains("flake8") || top.has(".flake8") {
        found.check("lint", format!("{before}flake8"));
    }
    if words.contains("[tool.mypy]") || top.has("mypy.ini") {
        found.check("types", format!("{before}mypy ."));
    }
    if let Some((command, cache)) = install {
        found.setup(command, cache);
    }
}

fn go(top: &ProjectRoot<'_>, found: &mut DetectedProject) {
    if !top.has("go.mod") {
        return;
    }
    found.language("Go", "go.mod");
    found.check("test", "go test ./...");
    if top.has(".golangci.yml") || top.has(".golangci.yaml") {
        found.check("lint", "golangci-lint run");
    } else {
        found.check("lint", "go vet ./...");
    }
}

/// Other languages: name, alternative files (one must exist), and test command.
const OTHERS: &[(&str, &[&str], &str)] = &[
    ("Deno", &["deno.json", "deno.jsonc"], "deno test"),
    ("Java or Kotlin", &["gradlew"], "./gradlew test"),
    ("Java", &["pom.xml"], "mvn --quiet test"),
    ("Ruby", &["Rakefile"], "bundle exec rake"),
    ("Ruby", &[".rspec"], "bundle exec rspec"),
    ("Elixir", &["mix.exs"], "mix test"),
    (
        "PHP",
        &["phpunit.xml", "phpunit.xml.dist"],
        "vendor/bin/phpunit",
    ),
    ("Swift", &["Package.swift"], "swift test"),
    ("Zig", &["build.zig"], "zig build test"),
    ("Dart", &["pubspec.yaml"], "dart test"),
    ("Haskell", &["stack.yaml"], "stack test"),
    ("Scala", &["build.sbt"], "sbt test"),
];

fn other_languages(top: &ProjectRoot<'_>, found: &mut DetectedProject) {
    for (language, files, test) in OTHERS {
        if let Some(file) = top.first(files) {
            found.language(language, &file);
            found.check("test", *test);
        }
    }
}

/// Adds recipes of a Makefile or a justfile for checks that no language has added.
fn recipe_checks(top: &ProjectRoot<'_>, found: &mut DetectedProject) {
    for (file, runner) in [
        ("Makefile", "make"),
        ("justfile", "just"),
        ("Justfile", "just"),
    ] {
        let text = top.text(file);
        for name in ["test", "lint"] {
            let mut lines = text.lines();
            let target = |line: &str| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.trim_start().starts_with(':'))
            };
            if lines.any(target) {
                found.check(name, format!("{runner} {name}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> DetectedProject {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(root.path().join(name), text).unwrap();
        }
        detect(root.path())
    }

    fn checks(files: &[(&str, &str)]) -> Vec<String> {
        let checks = of(files).checks.into_iter();
        checks
            .map(|(name, command)| format!("{name}: {command}"))
            .collect()
    }

    #[test]
    fn each_language_says_how_it_is_tested() {
        assert_eq!(checks(&[("Cargo.toml", "")])[0], "test: cargo test");
        assert_eq!(
            checks(&[
                ("pyproject.toml", "[tool.pytest]\n[tool.ruff]\n"),
                ("uv.lock", "")
            ]),
            ["test: uv run pytest", "lint: uv run ruff check ."]
        );
        let scripts = r#"{"scripts": {"test": "vitest", "lint": "eslint .", "typecheck": "tsc"}}"#;
        assert_eq!(
            checks(&[("package.json", scripts), ("pnpm-lock.yaml", "")]),
            [
                "test: pnpm test",
                "lint: pnpm run lint",
                "types: pnpm run typecheck"
            ]
        );
        assert_eq!(
            checks(&[("go.mod", "")]),
            ["test: go test ./...", "lint: go vet ./..."]
        );
        assert_eq!(
            checks(&[("Makefile", "test: all\n\ttrue\n")]),
            ["test: make test"]
        );
    }

    #[test]
    fn the_test_that_always_fails_is_none() {
        let scripts = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(checks(&[("package.json", scripts)]), [""; 0]);
    }

    #[test]
    fn nothing_is_made_up_for_what_is_not_known() {
        assert_eq!(of(&[("notes.txt", "")]), DetectedProject::default());
    }

    #[test]
    fn a_manifest_that_is_broken_is_still_a_language() {
        let found = of(&[("package.json", "{")]);
        assert_eq!(found.languages[0].0, "JavaScript");
    }
}
