//! Python: uv, poetry, and pip with a virtual environment.

use super::{ProjectSite, SetupPlan, SiteFindings, quote};

const MANIFESTS: [&str; 4] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
];
/// Groups and extras with the packages that tests need.
const TEST_GROUPS: [&str; 4] = ["dev", "test", "tests", "testing"];
const REQUIREMENT_FILES: [&str; 7] = [
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-test.txt",
    "dev-requirements.txt",
    "test-requirements.txt",
    "requirements/dev.txt",
    "requirements/tests.txt",
];
/// Maximum number of packages of a group that are named on a command line.
const PACKAGES_MAX: usize = 40;

pub fn detect(site: &ProjectSite<'_>, found: &mut SiteFindings) {
    let Some(file) = site.first(&MANIFESTS) else {
        return;
    };
    found.language("Python", &file);
    let tools = wanted_tools(site);
    let uv_dir = site.nearest(&["uv.lock"]);
    if let Some(dir) = &uv_dir
        && site.needs("uv", "uv.lock is made for it", found)
    {
        let plan = SetupPlan::run(
            format!("uv sync --frozen{}", uv_packages(site)),
            &["~/.cache/uv"],
        );
        found.setup(dir, vec![plan]);
        return checks(found, "uv run --frozen python -m ", &tools);
    }
    // Without a lock file, uv and poetry still know the groups, sources and members that pip does
    // not, so each is used if it is installed.
    let is_for_uv = uv_dir.is_none() && site.text("pyproject.toml").contains("[tool.uv");
    if is_for_uv && (site.installed)("uv") {
        let plan = SetupPlan::run(format!("uv sync{}", uv_packages(site)), &["~/.cache/uv"]);
        found.setup(&site.below, vec![plan]);
        return checks(found, "uv run python -m ", &tools);
    }
    let is_for_poetry = site.text("pyproject.toml").contains("[tool.poetry");
    let has_poetry = if site.has("poetry.lock") {
        site.needs("poetry", "poetry.lock is made for it", found)
    } else {
        is_for_poetry && (site.installed)("poetry")
    };
    if has_poetry {
        let within = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry";
        let plan = SetupPlan::run(
            format!("{within} install --no-interaction"),
            &["~/.cache/pypoetry"],
        );
        found.setup(&site.below, vec![plan]);
        return checks(found, &format!("{within} run python -m "), &tools);
    }
    if !site.needs("python3", &format!("{file} needs it"), found) {
        return;
    }
    match install_arguments(site, &tools) {
        // Only the standard library is needed.
        arguments if arguments.is_empty() => checks(found, "python3 -m ", &tools),
        arguments => {
            // A virtual environment has absolute paths. The installation of the project itself is
            // done again in each checkout, so that it points there.
            let plan = SetupPlan::run(
                format!(
                    "test -d .venv || python3 -m venv .venv; .venv/bin/python -m pip install -q {}",
                    arguments.join(" ")
                ),
                &[".venv", "~/.cache/pip"],
            );
            found.setup(&site.below, vec![plan]);
            if !ignores_venv(site) {
                found.notes.push(
                    "put .venv/ into .gitignore: otherwise the builder's environment becomes part of the change"
                        .to_owned(),
                );
            }
            checks(found, ".venv/bin/python -m ", &tools);
        }
    }
}

/// Returns the argument that installs all members of a workspace of uv.
fn uv_packages(site: &ProjectSite<'_>) -> &'static str {
    let is_workspace = site.text("pyproject.toml").contains("[tool.uv.workspace]");
    if is_workspace { " --all-packages" } else { "" }
}

/// Returns the tools that the project uses, by the names of their modules.
fn wanted_tools(site: &ProjectSite<'_>) -> Vec<&'static str> {
    let mut words = String::new();
    for file in ["pyproject.toml", "setup.cfg", "setup.py", "tox.ini"] {
        words.push_str(&site.text(file));
    }
    for file in REQUIREMENT_FILES {
        words.push_str(&site.text(file));
    }
    let mut tools = Vec::new();
    let uses = |name: &str, files: &[&str]| words.contains(name) || site.first(files).is_some();
    if uses(
        "pytest",
        &["pytest.ini", "conftest.py", "tests/conftest.py"],
    ) {
        tools.push("pytest");
    }
    if uses("ruff", &["ruff.toml", ".ruff.toml"]) {
        tools.push("ruff");
    } else if uses("flake8", &[".flake8"]) {
        tools.push("flake8");
    }
    if words.contains("[tool.mypy]") || site.has("mypy.ini") {
        // With files of its own in the configuration, an argument would replace them.
        tools.push(if sets_mypy_files(site) {
            "mypy-files"
        } else {
            "mypy"
        });
    }
    tools
}

/// Whether the configuration of mypy names what it checks.
fn sets_mypy_files(site: &ProjectSite<'_>) -> bool {
    const KEYS: [&str; 3] = ["files", "packages", "modules"];
    let manifest: toml::Table = site.text("pyproject.toml").parse().unwrap_or_default();
    let section = manifest.get("tool").and_then(|tool| tool.get("mypy"));
    if KEYS
        .iter()
        .any(|key| section.is_some_and(|one| one.get(key).is_some()))
    {
        return true;
    }
    let ini_files = ["mypy.ini", ".mypy.ini", "setup.cfg"];
    ini_files.iter().any(|file| {
        let text = site.text(file);
        let section = text
            .lines()
            .map(str::trim)
            .skip_while(|line| *line != "[mypy]");
        let mut lines = section.skip(1).take_while(|line| !line.starts_with('['));
        lines.any(|line| {
            let key = line.split(['=', ':']).next().unwrap_or_default().trim();
            KEYS.contains(&key)
        })
    })
}

fn checks(found: &mut SiteFindings, within: &str, tools: &[&str]) {
    if tools.contains(&"pytest") {
        found.check("test", format!("{within}pytest"));
    } else {
        found.check("test", format!("{within}unittest discover"));
    }
    for (tool, name, arguments) in [
        ("ruff", "lint", "ruff check ."),
        ("flake8", "lint", "flake8"),
        ("mypy", "types", "mypy ."),
        ("mypy-files", "types", "mypy"),
    ] {
        if tools.contains(&tool) {
            found.check(name, format!("{within}{arguments}"));
        }
    }
}

/// Returns the arguments of `pip install`: the tools, the packages of test groups, the requirement
/// files, and the project itself in a source or a flat layout.
fn install_arguments(site: &ProjectSite<'_>, tools: &[&str]) -> Vec<String> {
    let manifest: toml::Table = site.text("pyproject.toml").parse().unwrap_or_default();
    let names = tools.iter().map(|tool| tool.trim_end_matches("-files"));
    let mut packages: Vec<String> = names.map(str::to_owned).collect();
    for group in TEST_GROUPS {
        let listed = manifest
            .get("dependency-groups")
            .and_then(|all| all.get(group));
        let listed = listed.and_then(toml::Value::as_array).into_iter().flatten();
        for package in listed.filter_map(toml::Value::as_str).take(PACKAGES_MAX) {
            if !packages.iter().any(|known| known == package) {
                packages.push(package.to_owned());
            }
        }
    }
    let mut arguments: Vec<String> = packages.iter().map(|package| quote(package)).collect();
    for file in REQUIREMENT_FILES.iter().filter(|file| site.has(file)) {
        arguments.push(format!("-r {file}"));
    }
    // In a flat layout the tests find the code by themselves, and without packages there is nothing
    // to install.
    let project = manifest.get("project");
    let listed = project.and_then(|one| one.get("dependencies"));
    let depends = listed
        .and_then(toml::Value::as_array)
        .is_some_and(|all| !all.is_empty());
    let needs_install = depends || !arguments.is_empty() || site.has("src") || site.has("setup.py");
    if is_package(site, &manifest) && needs_install {
        let extras = project.and_then(|one| one.get("optional-dependencies"));
        let extras = extras.and_then(toml::Value::as_table);
        let has = |group: &&str| extras.is_some_and(|extras| extras.contains_key(*group));
        let wanted: Vec<&str> = TEST_GROUPS.into_iter().filter(has).collect();
        arguments.push(match wanted.as_slice() {
            [] => "-e .".to_owned(),
            wanted => format!("-e '.[{}]'", wanted.join(",")),
        });
    }
    arguments
}

fn is_package(site: &ProjectSite<'_>, manifest: &toml::Table) -> bool {
    let has_project = manifest.contains_key("project") || manifest.contains_key("build-system");
    has_project || site.has("setup.py")
}

fn ignores_venv(site: &ProjectSite<'_>) -> bool {
    let text = format!(
        "{}\n{}",
        site.text(".gitignore"),
        super::read_text(&site.root.join(".gitignore"))
    );
    let mut lines = text.lines().map(|line| line.trim().trim_matches('/'));
    lines.any(|line| matches!(line, ".venv" | ".venv*" | ".*" | "*venv*" | ".venv/*"))
}
