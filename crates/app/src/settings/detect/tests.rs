//! Layouts of each ecosystem, with and without the programs they need.

use std::path::Path;

use super::*;

const ALL: &[&str] = &[
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "uv",
    "poetry",
    "python3",
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "go",
    "mvn",
    "gradle",
    "java",
    "bundle",
    "composer",
    "dotnet",
    "make",
    "just",
];

fn inspect(files: &[(&str, &str)], below: &str, programs: &[&str]) -> DetectedProject {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    detect(root.path(), Path::new(below), &|name| {
        programs.contains(&name)
    })
}

fn of(files: &[(&str, &str)]) -> DetectedProject {
    inspect(files, "", ALL)
}

fn checks(files: &[(&str, &str)]) -> Vec<String> {
    lines(&of(files))
}

fn lines(found: &DetectedProject) -> Vec<String> {
    let checks = found.checks.iter();
    checks
        .map(|(name, command)| format!("{name}: {command}"))
        .collect()
}

const SCRIPTS: &str = r#"{"scripts": {"test": "vitest", "lint": "eslint .", "typecheck": "tsc"}, "devDependencies": {"vitest": "1"}}"#;

#[test]
fn each_language_says_how_it_is_tested() {
    assert_eq!(checks(&[("Cargo.toml", "")])[0], "test: cargo test");
    assert_eq!(
        checks(&[
            ("pyproject.toml", "[tool.pytest]\n[tool.ruff]\n"),
            ("uv.lock", "")
        ]),
        [
            "test: uv run --frozen python -m pytest",
            "lint: uv run --frozen python -m ruff check ."
        ]
    );
    assert_eq!(
        checks(&[("package.json", SCRIPTS), ("pnpm-lock.yaml", "")]),
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
    for (file, text, test) in [
        ("pom.xml", "", "mvn --batch-mode --quiet test"),
        (
            "build.gradle",
            "",
            "gradle --no-daemon --console=plain test",
        ),
        ("gradlew", "", "./gradlew --no-daemon --console=plain test"),
        ("app.csproj", "", "dotnet test --no-restore"),
        (
            "composer.json",
            r#"{"scripts": {"test": "x"}}"#,
            "composer test",
        ),
    ] {
        assert_eq!(
            checks(&[(file, text)])[0],
            format!("test: {test}"),
            "{file}"
        );
    }
    let ruby = of(&[("Gemfile", ""), ("Gemfile.lock", ""), (".rspec", "")]);
    assert_eq!(
        ruby.checks[0].1,
        "BUNDLE_PATH=vendor/bundle bundle exec rspec"
    );
    assert_eq!(ruby.caches, ["vendor/bundle"]);
}

#[test]
fn a_lock_file_names_the_manager_and_its_setup() {
    for (lock, text, run) in [
        ("package-lock.json", "", "npm ci"),
        ("pnpm-lock.yaml", "", "pnpm install --frozen-lockfile"),
        (
            "yarn.lock",
            "# yarn lockfile v1\n",
            "yarn install --frozen-lockfile",
        ),
        ("yarn.lock", "__metadata:\n", "--immutable"),
        ("bun.lock", "", "bun install --frozen-lockfile"),
    ] {
        let found = of(&[("package.json", SCRIPTS), (lock, text)]);
        let setup = found.setup.unwrap_or_default();
        assert!(setup.contains(run), "{lock}: {setup}");
        assert!(found.caches.contains(&"node_modules".to_owned()), "{lock}");
    }
    // Without a lock file, the manifest names uv and poetry, if they are installed.
    for (manifest, run, check) in [
        (
            "[tool.uv.workspace]\n",
            "uv sync --all-packages",
            "uv run python -m",
        ),
        (
            "[tool.poetry]\n",
            "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
            "POETRY_VIRTUALENVS_IN_PROJECT=true poetry run python -m",
        ),
    ] {
        let files = [("pyproject.toml", manifest)];
        let found = of(&files);
        assert_eq!(found.setup.as_deref(), Some(run));
        assert!(found.checks[0].1.starts_with(check), "{:?}", found.checks);
        let without = inspect(&files, "", &["python3"]);
        assert_eq!(without.checks[0].1, "python3 -m unittest discover");
    }
    // Without a lock file, the user's own packages come first.
    let own = of(&[("package.json", SCRIPTS), ("node_modules/x/a.js", "")]);
    assert_eq!(
        (own.setup, own.caches),
        (None, vec!["node_modules".to_owned()])
    );
    let none = of(&[("package.json", SCRIPTS)]);
    assert!(none.setup.unwrap().starts_with("npm install"));
}

#[test]
fn nothing_that_is_not_installed_is_proposed() {
    for files in [
        &[("Cargo.toml", "")][..],
        &[("package.json", SCRIPTS), ("pnpm-lock.yaml", "")],
        &[("pyproject.toml", "[tool.pytest]\n"), ("uv.lock", "")],
        &[("pyproject.toml", ""), ("poetry.lock", "")],
        &[("requirements.txt", "pytest\n")],
        &[("go.mod", "")],
        &[("pom.xml", "")],
        &[("gradlew", "")],
        &[("Gemfile", ""), ("Rakefile", "")],
        &[("composer.json", "{}"), ("phpunit.xml", "")],
        &[("app.sln", "")],
        &[("Makefile", "test:\n")],
    ] {
        let found = inspect(files, "", &[]);
        assert_eq!(lines(&found), [""; 0], "{files:?}");
        assert_eq!(found.setup, None, "{files:?}");
        assert!(!found.not_installed.is_empty(), "{files:?}");
    }
}

#[test]
fn another_installed_program_takes_the_place_of_a_missing_one() {
    // The layout of a library whose uv.lock is there and whose uv is not.
    let manifest =
        "[project]\nname = \"x\"\n[dependency-groups]\ntests = [\"freezegun\", \"pytest\"]\n";
    let files = [
        ("pyproject.toml", manifest),
        ("uv.lock", ""),
        ("src/x/__init__.py", ""),
    ];
    let found = inspect(&files, "", &["python3"]);
    assert_eq!(
        found.setup.as_deref(),
        Some(
            "test -d .venv || python3 -m venv .venv; .venv/bin/python -m pip install -q pytest freezegun -e ."
        )
    );
    assert_eq!(found.caches, [".venv", "~/.cache/pip"]);
    assert_eq!(lines(&found), ["test: .venv/bin/python -m pytest"]);
    assert_eq!(
        found.not_installed,
        ["uv is not installed; uv.lock is made for it"]
    );
    // The scripts of a pnpm project run with npm, on the packages that are there.
    let files = [
        ("package.json", SCRIPTS),
        ("pnpm-lock.yaml", ""),
        ("node_modules/x/a.js", ""),
    ];
    let found = inspect(&files, "", &["npm"]);
    assert_eq!(found.checks[0].1, "npm test");
    assert_eq!(
        (found.setup, found.caches),
        (None, vec!["node_modules".to_owned()])
    );
}

#[test]
fn workspaces_are_set_up_at_their_root_and_tested_as_a_whole() {
    let root = r#"{"workspaces": ["packages/*"]}"#;
    let files = [
        ("package.json", root),
        ("package-lock.json", ""),
        ("packages/web/package.json", SCRIPTS),
    ];
    let whole = of(&files);
    assert_eq!(whole.checks[0].1, "npm test --workspaces --if-present");
    assert!(whole.setup.unwrap().starts_with("npm ci"));
    // A member uses the lock file of the root.
    let member = inspect(&files, "packages/web", ALL);
    assert_eq!(member.checks[0].1, "cd packages/web && npm test");
    assert!(member.setup.unwrap().starts_with("npm ci"));
    let pnpm = of(&[
        ("package.json", "{\"devDependencies\": {\"x\": \"1\"}}"),
        ("pnpm-lock.yaml", ""),
        ("pnpm-workspace.yaml", "packages:\n  - 'packages/*'\n"),
        ("packages/web/package.json", SCRIPTS),
    ]);
    assert_eq!(pnpm.checks[0].1, "pnpm --recursive --if-present run test");
    let cache = "packages/web/node_modules".to_owned();
    assert!(pnpm.caches.contains(&cache), "{:?}", pnpm.caches);
    // Neither dependencies at the root nor a lock file.
    let bare = [
        ("package.json", "{\"private\": true}"),
        ("pnpm-workspace.yaml", "packages:\n  - 'packages/*'\n"),
        ("packages/web/package.json", SCRIPTS),
    ];
    let unlocked = of(&bare);
    assert_eq!(
        unlocked.checks[0].1,
        "pnpm --recursive --if-present run test"
    );
    let locked = of(&[&bare[..], &[("pnpm-lock.yaml", "")]].concat());
    assert!(locked.setup.unwrap().starts_with("pnpm install"));
    let cargo = checks(&[("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n")]);
    assert_eq!(cargo[0], "test: cargo test --workspace");
    let go = checks(&[("go.work", "go 1.22\n\nuse (\n\t./api\n\t./web // x\n)\n")]);
    assert_eq!(go[0], "test: go test ./api/... ./web/...");
    let uv = of(&[("pyproject.toml", "[tool.uv.workspace]\n"), ("uv.lock", "")]);
    assert_eq!(uv.setup.as_deref(), Some("uv sync --frozen --all-packages"));
}

#[test]
fn members_of_a_root_without_a_manifest_are_found() {
    let found = of(&[
        ("README.md", ""),
        ("backend/go.mod", ""),
        ("apps/my web/package.json", SCRIPTS),
        ("apps/my web/package-lock.json", ""),
        ("node_modules/x/package.json", SCRIPTS),
    ]);
    assert_eq!(
        lines(&found)[..2],
        [
            "apps-my-web-test: cd 'apps/my web' && npm test",
            "apps-my-web-lint: cd 'apps/my web' && npm run lint",
        ]
    );
    assert!(lines(&found).contains(&"backend-test: cd backend && go test ./...".to_owned()));
    let setup = found.setup.unwrap();
    assert!(setup.starts_with("( cd 'apps/my web' && npm ci"), "{setup}");
    assert!(
        setup.ends_with("&& ( cd backend && go mod download )"),
        "{setup}"
    );
    let cache = "apps/my web/node_modules".to_owned();
    assert!(found.caches.contains(&cache));
}

#[test]
fn each_language_of_one_directory_keeps_its_tests() {
    let front = r#"{"scripts": {"test": "vitest"}}"#;
    let files = [
        ("package.json", front),
        ("pyproject.toml", "[tool.pytest]\n"),
        ("uv.lock", ""),
        ("Makefile", "test:\n\ttrue\nlint:\n\ttrue\n"),
    ];
    assert_eq!(
        checks(&files),
        [
            "test: npm test",
            "python-test: uv run --frozen python -m pytest",
            "lint: make lint",
        ]
    );
    let two = of(&[("Gemfile", ""), ("Rakefile", ""), ("mix.exs", "")]);
    assert_eq!(two.checks[0].0, "test");
    assert!(
        inspect(&[("go.mod", ""), ("mix.exs", "")], "", &["go", "mix"])
            .checks
            .contains(&("elixir-test".to_owned(), "mix test".to_owned()))
    );
}

#[test]
fn a_package_below_in_another_language_is_named() {
    let found = of(&[
        ("package.json", r#"{"scripts": {"test": "vitest"}}"#),
        ("apps/web/package.json", SCRIPTS),
        ("backend/pyproject.toml", ""),
        ("docs/requirements.txt", ""),
    ]);
    assert_eq!(lines(&found), ["test: npm test"]);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    let note = &found.notes[0];
    assert!(
        note.starts_with("backend/pyproject.toml (Python)"),
        "{note}"
    );
}

#[test]
fn an_example_of_an_environment_file_is_copied_only_where_git_ignores_it() {
    let files = [
        ("go.mod", ""),
        (".env.example", "A=1\n"),
        (".gitignore", ".env\n"),
    ];
    let setup = of(&files).setup.unwrap();
    assert!(setup.contains("cp .env.example .env"), "{setup}");
    let found = of(&files[..2]);
    assert!(!found.setup.unwrap().contains(".env"));
    assert!(found.notes[0].contains(".env.example"), "{:?}", found.notes);
}

#[test]
fn mypy_gets_no_path_where_its_configuration_names_the_files() {
    let types = |config: &str| {
        let found = checks(&[("setup.py", ""), ("mypy.ini", config)]);
        found.into_iter().any(|check| check.contains("mypy ."))
    };
    assert!(types("[mypy]\nstrict = true\n"));
    assert!(!types("[mypy]\nfiles = src\n"));
    assert!(!types("[mypy]\npackages=greet\n"));
    assert!(types("[mypy]\n[mypy-greet]\nfiles = src\n"));
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
    for (file, language) in [
        ("package.json", "JavaScript"),
        ("pyproject.toml", "Python"),
        ("Cargo.toml", "Rust"),
    ] {
        assert_eq!(of(&[(file, "{")]).languages[0].0, language);
    }
    let notes = of(&[("package.json", "{")]).notes;
    assert!(
        notes[0].starts_with("package.json cannot be read: EOF"),
        "{notes:?}"
    );
}
