//! Path patterns: read as real git reads them, shown by `config check`, and told to the builder.

use std::fs;

use flow::policy::pattern::PathPatterns;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::support::crew::{GOOD, always, builds, built_by, runs, writes};
use crate::support::{SETTINGS, TICKET, World};

/// Lines of a `.gitignore`. `**` stands alone between slashes: elsewhere git's own reading depends on
/// how it splits off the literal beginning of a pattern.
fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        4 => "[ab]{1,2}",
        2 => "[ab]?\\*[ab]?",
        1 => "[ab]?\\?",
        1 => Just("*".to_owned()),
        1 => "\\[[!^]?[ab]{1,2}\\][ab]?",
        1 => "\\[a-b\\]",
        1 => "\\\\[ab]",
        1 => "\\{a,b\\}",
        1 => "[ab]\\.[ab]",
    ];
    let part = prop_oneof![6 => name, 2 => Just("**".to_owned())];
    let path = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    (
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.25),
        path,
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(negated, rooted, path, directory, space)| {
            format!(
                "{}{}{path}{}{}",
                if negated { "!" } else { "" },
                if rooted { "/" } else { "" },
                if directory { "/" } else { "" },
                if space { "  " } else { "" }
            )
        })
}

fn file() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "aa", "ab", "ba", "a.b", "{a,b}", "abab"]);
    prop::collection::vec(name, 1..5).prop_map(|parts| parts.join("/"))
}

#[test]
fn patterns_mean_what_git_means_by_them() {
    let world = World::new();
    let mut runner = TestRunner::new(Config::default());
    let mut compared = 0;
    for _ in 0..150 {
        let lines = prop::collection::vec(line(), 1..4)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let files = prop::collection::vec(file(), 40)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        fs::write(
            world.repository.join(".git/info/exclude"),
            lines.join("\n") + "\n",
        )
        .unwrap();
        let asked = world.put("asked", files.join("\n") + "\n");
        let said = world.shell(
            "sh",
            &format!("git check-ignore --no-index --stdin < {asked}; [ $? -le 1 ]"),
        );
        let ignored: Vec<&str> = said.out.lines().collect();
        let ours = PathPatterns::new(&lines);
        for file in &files {
            let (git, own) = (ignored.contains(&file.as_str()), ours.matches(file));
            assert_eq!(own, git, "{lines:?} on {file}");
            compared += 1;
        }
    }
    assert_eq!(compared, 6000);
}

#[test]
fn config_check_shows_what_each_pattern_matches_and_what_run_would_refuse() {
    let settings = format!(
        "{SETTINGS}\n[policy]\nprotected = [\"tests/\", \"*.lock\", \"nothing/\", \"src/*.rs\"]\n\n[[policy.reviewers]]\nname = \"all\"\n\n[[policy.reviewers]]\nname = \"db\"\npaths = [\"*.sql\"]\n"
    );
    let world = World::with_settings(&settings);
    for name in [
        "tests/a.py",
        "tests/x/b.py",
        "lib/tests/c.py",
        "e/tests/d.py",
        "Cargo.lock",
        "src/a.rs",
        "src/b/c.rs",
        "db/up.sql",
    ] {
        world.write(name, "x\n");
    }
    world.commit("Some files");
    let ran = world.call(&["config", "check"]).ends_with(0);
    let ran = ran
        .says("protected \"tests/\": 4 files (e/tests/d.py, lib/tests/c.py, tests/a.py, …)")
        .says("protected \"*.lock\": 1 file (Cargo.lock)")
        .says("warning: \"nothing/\": it matches no file of main")
        .says("warning: \"src/*.rs\": it does not match src/b/c.rs")
        .says("reviewers.db.paths \"*.sql\": 1 file (db/up.sql)");
    assert!(!ran.out.contains("warning: \"tests/\""), "{}", ran.out);
    let answer = world.json(&["config", "check"]);
    assert_eq!(answer["files"][0]["patterns"][0]["files"], json!(4));

    for (text, what) in [
        (
            "[[notify]]\nname = \"x\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\n",
            "[[notify]]",
        ),
        ("[spool]\ndirectory = \"/tmp/x\"\n", "[spool]"),
    ] {
        world.write("countersign.toml", &format!("{SETTINGS}\n{text}"));
        world
            .call(&["config", "check", "countersign.toml"])
            .ends_with(2)
            .says(&format!("{what} is not allowed in a project's file"));
        world.commit("What a project may not ask for");
        world
            .call(&["config", "check"])
            .ends_with(2)
            .says("`run` refuses it");
        world
            .call(&["run", "x", "--builder", "claude", "--reviewer", "codex"])
            .ends_with(2)
            .says(what);
    }
    for broken in ["[a", "#x", " "] {
        world.write(
            "countersign.toml",
            &format!("{SETTINGS}\n[policy]\nprotected = [{broken:?}]\n"),
        );
        world
            .call(&["config", "check", "countersign.toml"])
            .ends_with(2)
            .says("the path pattern");
    }
}

fn forbidding() -> World {
    let settings = SETTINGS.replace(
        "[policy.limits]",
        "[policy]\nprotected = [\"tests/\"]\nprotected_change = \"forbid\"\nsandbox = \"off\"\n\n[policy.limits]",
    );
    let world = World::with_settings(&settings);
    world.write("tests/x.py", "original\n");
    world.commit("A test");
    world
}

#[test]
fn a_forbidden_path_is_named_at_once_and_costs_one_rework() {
    let world = forbidding();
    let flag = world.root().join("weakened").display().to_string();
    let mut build = vec![runs(&format!(
        "if [ -e {flag} ]; then git checkout --quiet main -- tests/x.py; \
         else touch {flag}; echo weaker > tests/x.py; fi"
    ))];
    build.extend(builds("greet.sh", GOOD));
    let script = built_by(&always(build));
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&script));
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    let told = "the change touches tests/x.py, which this project or ticket forbids to change";
    world.call(&words).ends_with(0).says(told);
    assert_eq!(world.count("greet", "submitted"), 2);
    assert_eq!(
        world.count("greet", "checked"),
        1,
        "no check was paid for the first"
    );
    assert_eq!(
        world.ticket("greet")["rounds"].as_array().unwrap().len(),
        1,
        "and no round"
    );
    world.call(&["log", "greet"]).ends_with(0).says(told);
    world.must_be_sound();
}

#[test]
fn a_second_forbidden_change_asks_a_person_and_every_surface_says_why() {
    let world = forbidding();
    let mut build = builds("greet.sh", GOOD);
    build.insert(0, writes("tests/x.py", "weakened\n"));
    let kept = world.root().join("brief.md");
    build.insert(
        0,
        runs(&format!(
            "cp \"$COUNTERSIGN_BRIEF_FILE\" {}",
            kept.display()
        )),
    );
    let (ticket, agent) = (
        world.put("greet.md", TICKET),
        world.crew(&built_by(&always(build))),
    );
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.call(&words).ends_with(4).says("tests/x.py");
    assert_eq!(world.count("greet", "submitted"), 2, "one rework");
    assert_eq!(world.count("greet", "checked"), 0);
    let brief = fs::read_to_string(kept).unwrap();
    assert!(
        brief.contains("You changed paths that are forbidden to change"),
        "{brief}"
    );
    assert!(brief.contains("-- 'tests/x.py'"), "{brief}");
    for words in [
        &["ticket", "show", "greet"][..],
        &["escalation", "show", "greet"],
        &["log", "greet"],
    ] {
        world.call(words).ends_with(0).says("tests/x.py");
    }
    world.must_be_sound();
}

/// Whatever takes the place of a protected directory is a change of it: a submodule, a link, a file.
#[test]
fn nothing_takes_the_place_of_a_protected_directory() {
    let gitlink = "mkdir -p vendor/tests; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor/tests; git commit --quiet --message x";
    for (change, path) in [
        (gitlink, "vendor/tests"),
        ("rm -rf tests; ln -s src tests", "tests"),
        ("rm -rf tests; echo x > tests", "tests"),
        ("mkdir -p sub; ln -s ../src sub/tests", "sub/tests"),
    ] {
        let world = forbidding();
        let mut build = builds("greet.sh", GOOD);
        let end = build.len() - 1;
        build.insert(end, runs(change));
        let script = built_by(&always(build));
        let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&script));
        let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
        world.call(&words).ends_with(4).says(path);
    }
}
