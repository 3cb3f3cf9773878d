//! The first contact: what is found, what is written, and that nothing is overwritten.

use expect_test::expect;

use crate::support::World;

fn bare() -> World {
    let world = World::without_commits();
    world.write("README.md", "# x\n");
    world.commit("First");
    // Only these are found, whatever the machine has.
    world.install("claude", "#!/bin/sh\n");
    world.install("codex", "#!/bin/sh\n");
    world
}

#[test]
fn a_python_project_gets_its_own_checks_and_two_agents() {
    let world = bare();
    world.install("python3", "#!/bin/sh\n");
    world.write("pyproject.toml", "[tool.pytest.ini_options]\n[tool.ruff]\n");
    let ran = world.call(&["init", "--yes", "--no-prove"]).ends_with(0);
    let known: Vec<&str> = ran
        .out
        .lines()
        // The machine may have more of them.
        .filter(|line| !line.starts_with("agent") || line.contains("/bin/c"))
        .collect();
    expect![[r#"
        base branch  main
        language     Python (pyproject.toml)
        check        test: .venv/bin/python -m pytest
        check        lint: .venv/bin/python -m ruff check .
        setup        test -d .venv || python3 -m venv .venv; .venv/bin/python -m pip install -q pytest ruff
        caches       .venv, ~/.cache/pip
        note         put .venv/ into .gitignore: otherwise the builder's environment becomes part of the change
        agent        claude at ROOT/bin/claude (no login found)
        agent        codex at ROOT/bin/codex (no login found)

        wrote ROOT/repository/countersign.toml
        next: read it, then commit it to main: git add countersign.toml && git commit -m "Add countersign.toml" countersign.toml
        then: countersign run "…"   or: countersign review
    "#]]
    .assert_eq(&world.masked(&known.join("\n")));
    world.call(&["config", "check"]).ends_with(0);
    let settings = world.call(&["config", "show"]).ends_with(0);
    assert!(
        settings.out.contains("-m ruff check .\""),
        "{}",
        settings.out
    );
}

/// A project that is tested with a `make` of its own: `make test` is green, `make lint` is red.
fn made() -> World {
    let world = bare();
    let make =
        "#!/bin/sh\necho \"made $1\"; [ \"$1\" = test ] || { echo 'x.c:1: unused'; exit 2; }\n";
    world.install("make", make);
    world.write("Makefile", "test:\n\ttrue\nlint:\n\tfalse\n");
    world.commit("Recipes");
    world
}

#[test]
fn what_works_on_the_base_is_written_and_what_does_not_is_a_comment() {
    let world = made();
    let ran = world.call(&["init", "--yes"]).ends_with(0);
    let ran = ran
        .says("ok  test")
        .says("!!  lint")
        .says("| x.c:1: unused");
    let ran = ran.says("red commands are comments in countersign.toml");
    assert!(!ran.out.contains("no command worked"), "{}", ran.out);
    let text = std::fs::read_to_string(world.repository.join("countersign.toml")).unwrap();
    assert!(text.contains("\ntest = \"make test\"\n"), "{text}");
    assert!(text.contains("# Red on main when init ran it."), "{text}");
    assert!(text.contains("\n# lint = \"make lint\"\n"), "{text}");
    world.call(&["config", "check"]).ends_with(0);
    // Nothing of the trial is left behind.
    let tickets = world.root().join("data/tickets");
    let left = std::fs::read_dir(tickets).map_or(0, Iterator::count);
    assert_eq!(left, 0);
    // The first ticket starts at once: its checks were green when init ran them.
    world.commit("Configured");
    let agent = world.crew(&crate::support::crew::smooth());
    let words = [
        "run",
        "Greet by name",
        "--builder",
        &agent,
        "--reviewer",
        &agent,
    ];
    let progress = world.call(&[&words[..], &["--progress", "json"]].concat());
    let lines: Vec<serde_json::Value> = progress
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let began = |role: &str| {
        let is_one =
            |line: &serde_json::Value| line["progress"] == "run_began" && line["role"] == role;
        lines.iter().position(is_one)
    };
    let (built, checked) = (began("build").unwrap(), began("check").unwrap());
    assert!(built < checked, "{}", progress.out);
}

#[test]
fn the_trial_can_be_left_out_and_made_later() {
    let world = made();
    let answer = world.json(&["init", "--yes", "--no-prove"]);
    assert!(answer["proposal"]["proof"].is_null());
    let text = answer["proposal"]["text"].as_str().unwrap();
    assert!(text.contains("\nlint = \"make lint\"\n"), "{text}");
    world.commit("Configured");
    world
        .call(&["doctor", "--project"])
        .ends_with(1)
        .says("ok  test")
        .says("| x.c:1: unused");
    let report = world.call(&["doctor", "--project", "--json"]).json();
    assert_eq!(report["project"]["checks"][0]["name"], "lint");
}

#[test]
fn a_member_of_a_repository_is_set_up_from_its_own_directory() {
    let world = made();
    world.write("services/api/Makefile", "test:\n\ttrue\n");
    world.commit("A service");
    let ran = world
        .call(&["-C", "services/api", "init", "--yes"])
        .ends_with(0);
    ran.says("test: cd services/api && make test")
        .says("ok  test");
    assert!(world.repository.join("countersign.toml").exists());
}

#[test]
fn a_broken_first_setup_gives_way_to_the_packages_that_are_there() {
    let world = bare();
    // The lock file does not fit: the installation fails, and the scripts work.
    let npm = "#!/bin/sh\n[ \"$1\" != ci ] || { echo 'lock file out of sync'; exit 1; }\ntest -e node_modules/tool\n";
    world.install("npm", npm);
    let manifest = r#"{"scripts": {"test": "tool"}, "devDependencies": {"tool": "1"}}"#;
    world.write("package.json", manifest);
    world.write("package-lock.json", "{}");
    world.write(".gitignore", "node_modules/\n");
    world.commit("A script");
    world.write("node_modules/tool", "x");
    world.call(&["init", "--yes"]).ends_with(0).says("ok  test");
    let text = std::fs::read_to_string(world.repository.join("countersign.toml")).unwrap();
    assert!(
        text.contains("\n[setup]\ncaches = [\"node_modules\"]\n"),
        "{text}"
    );
    assert!(!text.contains("npm ci --prefer"), "{text}");
}

#[test]
fn a_lock_file_that_does_not_fit_is_named_with_the_command_that_mends_it() {
    let world = bare();
    // Output of npm 10, with its help at the end.
    let npm = "#!/bin/sh\necho 'npm error code EUSAGE'\necho 'npm error `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync. Please update your lock file with `npm install` before continuing.'\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo 'npm error'; done\nexit 1\n";
    world.install("npm", npm);
    let manifest = r#"{"scripts": {"test": "tool"}, "devDependencies": {"tool": "1"}}"#;
    world.write("package.json", manifest);
    world.write("package-lock.json", "{}");
    world.write(".gitignore", "node_modules/\n");
    world.commit("A script");
    world
        .call(&["init", "--yes"])
        .ends_with(0)
        .says("!!  setup")
        .says("likely fix: package-lock.json does not fit the project: run `npm install`")
        .says("no command worked, so nothing will be checked");
}

#[test]
fn what_is_not_installed_is_named_and_not_proposed() {
    let world = bare();
    let manifest = r#"{"scripts": {"test": "tool"}}"#;
    world.write("package.json", manifest);
    world.write("pnpm-lock.yaml", "lockfileVersion: '9.0'\n");
    world.commit("A script");
    // A PATH with git and a shell, and nothing that could install packages.
    let git = world.root().join("bin/git");
    std::os::unix::fs::symlink("/usr/bin/git", git).unwrap();
    std::os::unix::fs::symlink("/bin/sh", world.root().join("bin/sh")).unwrap();
    let path = format!("PATH={}", world.root().join("bin").display());
    let words = ["init", "--yes", "--no-prove"];
    let ran = world.call_behind(&["env", &path], &words).ends_with(0);
    let told = format!("{}{}", ran.out, ran.err);
    assert!(told.contains("pnpm is not installed"), "{told}");
    assert!(!told.contains("\nrun = \"pnpm"), "{told}");
    assert!(!told.contains("\ntest = \"pnpm"), "{told}");
}

#[test]
fn without_commits_it_says_what_to_do() {
    let world = World::without_commits();
    world.call(&["init", "--yes"]).ends_with(2).says("commit");
}

#[test]
fn what_is_there_is_left_as_it_is() {
    let world = bare();
    world.write("countersign.toml", "# mine\n");
    let ran = world.call(&["init", "--yes"]);
    expect![[r#"
        exit 6
        error: ROOT/repository/countersign.toml already exists and is left as it is
          hint: look at it with `countersign config show` and `countersign config check`
    "#]]
    .assert_eq(&ran.complaint(&world));
    world.commit("Mine");
    std::fs::remove_file(world.repository.join("countersign.toml")).unwrap();
    world
        .call(&["init", "--yes"])
        .ends_with(6)
        .says("countersign.toml on main already exists");
}

#[test]
fn without_a_person_nothing_is_written_unasked() {
    let world = bare();
    world
        .call(&["init"])
        .ends_with(2)
        .says("pass --yes to write");
    let answer = world.json(&["init", "--print"]);
    assert_eq!(answer["written"], false);
    assert!(!world.repository.join("countersign.toml").exists());
    let answer = world.json(&["init", "--yes"]);
    assert_eq!(answer["written"], true);
    assert_eq!(answer["proposal"]["base"], "main");
    let written = std::fs::read_to_string(world.repository.join("countersign.toml")).unwrap();
    assert_eq!(answer["proposal"]["text"], written);
}

#[test]
fn outside_of_a_repository_it_says_where_to_go() {
    let ran = World::empty();
    ran.call(&["init", "--yes"])
        .ends_with(2)
        .says("make one with `git init`");
}
