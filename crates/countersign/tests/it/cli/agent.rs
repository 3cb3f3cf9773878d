//! Agents that are here, and the files for theirs.

use expect_test::expect;

use crate::support::World;

#[test]
fn those_on_the_path_are_told_from_those_that_are_not() {
    let world = World::empty();
    world.install("claude", "#!/bin/sh\n");
    let answer = world.json(&["agent", "list"]);
    assert_eq!(answer["agents"][0]["name"], "claude");
    assert_eq!(answer["known"].as_array().unwrap().len(), 9);
    world
        .call(&["agent", "list"])
        .ends_with(0)
        .says("no login found");
}

#[test]
fn a_reviewer_and_a_fixer_are_written_and_nobody_s_file_is_touched() {
    let world = World::new();
    let ran = world.call(&["agent", "install"]).ends_with(0);
    expect![[r#"
        wrote ROOT/repository/.claude/agents/countersign-reviewer.md
        wrote ROOT/repository/.claude/agents/countersign-fixer.md
    "#]]
    .assert_eq(&world.masked(&ran.out));
    let reviewer = world
        .repository
        .join(".claude/agents/countersign-reviewer.md");
    let text = std::fs::read_to_string(&reviewer).unwrap();
    assert!(
        text.starts_with("---\nname: countersign-reviewer\n"),
        "{text}"
    );
    assert!(text.contains("requirement_adherence"), "{text}");
    world.call(&["agent", "install"]).ends_with(0);
    std::fs::write(&reviewer, "mine\n").unwrap();
    world
        .call(&["agent", "install"])
        .ends_with(6)
        .says("is left as it is");
    assert_eq!(std::fs::read_to_string(&reviewer).unwrap(), "mine\n");
    world.call(&["agent", "install", "--user"]).ends_with(0);
    let answer = world.json(&["agent", "install", "--print"]);
    assert_eq!(answer["written"], false);
}

/// A repository, or a home that a person linked elsewhere, cannot lead a write out of itself.
#[test]
fn no_file_is_written_through_a_link() {
    for (link, target) in [
        (".claude", "dir"),
        (".claude", "missing"),
        (".claude/agents", "dir"),
        (".claude/agents", "missing/deep"),
        (".claude/agents/countersign-reviewer.md", "file"),
        (".claude/agents/countersign-reviewer.md", "missing"),
        (".claude/agents/countersign-fixer.md", "file"),
        (".git/hooks", "dir"),
        (".git/hooks/pre-push", "file"),
        (".git/hooks/pre-push", "missing"),
    ] {
        let world = World::new();
        let outside = world.root().join("outside");
        std::fs::create_dir_all(outside.join("dir")).unwrap();
        // It carries both of our marks, so that only the link itself can be the reason.
        let ours = "<!-- Written by `countersign agent install`; it is renewed by it as long as this line stands. -->\n\
            # Installed by `countersign hook install`; `countersign hook uninstall` removes it.\n";
        std::fs::write(outside.join("file"), ours).unwrap();
        let place = world.repository.join(link);
        if place.is_dir() {
            std::fs::remove_dir_all(&place).unwrap();
        }
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(outside.join(target), &place).unwrap();
        let verb = if link.starts_with(".git") {
            "hook"
        } else {
            "agent"
        };
        world
            .call(&[verb, "install"])
            .ends_with(6)
            .says("is a symbolic link to");
        if verb == "hook" {
            assert_ne!(world.call(&["hook", "uninstall"]).code, 0, "{link}");
        }
        let mut left: Vec<_> = std::fs::read_dir(&outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["dir", "file"], "{link} -> {target}");
        assert_eq!(std::fs::read_dir(outside.join("dir")).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), ours);
        assert!(place.is_symlink(), "{link} -> {target}");
    }
}

const ALL: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// Names and texts of all files of the work tree, without git's own.
fn files(world: &World) -> std::collections::BTreeMap<String, String> {
    fn walk(dir: &std::path::Path, all: &mut std::collections::BTreeMap<String, String>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != ".git" {
                walk(&path, all);
            } else if path.is_file() {
                let text = std::fs::read_to_string(&path).unwrap();
                all.insert(path.to_str().unwrap().to_owned(), text);
            }
        }
    }
    let mut all = std::collections::BTreeMap::new();
    walk(&world.repository, &mut all);
    all
}

#[test]
fn hooks_are_added_to_settings_and_taken_out_again() {
    let world = World::new();
    let settings = "{\n  // mine\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [{ \"type\": \"command\", \"command\": \"say done\" }]\n      }\n    ]\n  }\n}\n";
    world.write(".claude/settings.json", settings);
    let before = files(&world);
    let shown = world.json(&["agent", "install", "claude", "--dry-run"]);
    assert_eq!(shown["written"], false);
    assert_eq!(files(&world), before, "a dry run writes nothing");
    let words = [&["agent", "install"], &ALL[..]].concat();
    let ran = world.call(&words).ends_with(0);
    expect![[r#"
        wrote ROOT/repository/.claude/agents/countersign-reviewer.md
        wrote ROOT/repository/.claude/agents/countersign-fixer.md
        wrote ROOT/repository/.claude/skills/countersign/SKILL.md
        changed ROOT/repository/.claude/settings.json
        wrote ROOT/repository/.agents/skills/countersign/SKILL.md
        wrote ROOT/repository/.codex/hooks.json
        wrote ROOT/repository/.gemini/commands/countersign.toml
        wrote ROOT/repository/.gemini/settings.json
        wrote ROOT/repository/.opencode/command/countersign.md
        wrote ROOT/repository/.opencode/plugin/countersign.js
        codex asks at its next start whether you trust the new hooks; until then, and in `codex exec`, it skips them without a message
        gemini runs a project's hooks only in folders that you trust
        opencode loads the plugin at its next start; `opencode run` ends before the review, so only its interactive sessions are sent back
    "#]].assert_eq(&world.masked(&ran.out));
    let text = std::fs::read_to_string(world.repository.join(".claude/settings.json")).unwrap();
    expect![[r#"
        {
          // mine
          "model": "opus",
          "hooks": {
            "Stop": [
              {
                "hooks": [{ "type": "command", "command": "say done" }]
              },
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "countersign review --hook claude",
                    "timeout": 600
                  }
                ]
              }
            ],
            "UserPromptSubmit": [
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "countersign review --hook claude",
                    "timeout": 600
                  }
                ]
              }
            ]
          }
        }
    "#]]
    .assert_eq(&text);
    let gemini = std::fs::read_to_string(world.repository.join(".gemini/settings.json")).unwrap();
    assert!(
        gemini.contains("600000") && gemini.contains("AfterAgent"),
        "{gemini}"
    );
    let once = files(&world);
    world.call(&words).ends_with(0).says("unchanged");
    assert_eq!(files(&world), once, "a second time changes nothing");
    let flags = ["agent", "install", "claude", "--", "--linters-only"];
    world.call(&flags).ends_with(0).says("changed");
    let text = std::fs::read_to_string(world.repository.join(".claude/settings.json")).unwrap();
    assert!(
        text.contains("\"countersign review --hook claude --linters-only\""),
        "{text}"
    );
    let answer = world.json(&["agent", "uninstall", "--dry-run"]);
    assert_eq!(answer["written"], false);
    world.call(&["agent", "uninstall"]).ends_with(0);
    assert_eq!(
        files(&world),
        before,
        "nothing of ours is left, and nothing else is gone"
    );
    world
        .call(&["agent", "uninstall"])
        .ends_with(0)
        .says("nothing of Countersign is installed here");
}

#[test]
fn a_person_s_settings_keep_their_mode_and_what_is_not_understood_is_left() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.put_home(".gemini/settings.json", "{\n\t\"key\": \"secret\"\n}\n");
    let path = world.root().join("home/.gemini/settings.json");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    world
        .call(&["agent", "install", "gemini", "--user"])
        .ends_with(0);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world
        .call(&["agent", "uninstall", "gemini", "--user"])
        .ends_with(0);
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\n\t\"key\": \"secret\"\n}\n"
    );
    for (file, cli, text) in [
        (".claude/settings.json", "claude", "{ broken"),
        (".claude/settings.json", "claude", "[]"),
        (".codex/hooks.json", "codex", "{\"hooks\": 7}"),
        (
            ".gemini/settings.json",
            "gemini",
            "{\"hooks\": {\"AfterAgent\": {}}}",
        ),
    ] {
        let world = World::new();
        world.write(file, text);
        let before = files(&world);
        world
            .call(&["agent", "install", cli])
            .ends_with(6)
            .says("cannot be understood")
            .says("it is left as it is");
        assert_eq!(files(&world), before, "all or nothing");
        world
            .call(&["agent", "install", cli, "--no-hooks"])
            .ends_with(0);
    }
    world
        .call(&["agent", "install", "emacs"])
        .ends_with(2)
        .says("possible values: claude, codex, gemini, opencode");
    world
        .call(&["agent", "install", "claude", "--", "--no-such-flag"])
        .ends_with(2)
        .says("does not accept these flags");
}

#[test]
fn no_settings_are_written_through_a_link() {
    for (cli, link) in [
        ("claude", ".claude/settings.json"),
        ("claude", ".claude/skills"),
        ("codex", ".codex"),
        ("codex", ".codex/hooks.json"),
        ("codex", ".agents/skills/countersign"),
        ("gemini", ".gemini/commands"),
        ("opencode", ".opencode/plugin/countersign.js"),
    ] {
        let world = World::new();
        let outside = world.root().join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("file"), "{}\n").unwrap();
        let place = world.repository.join(link);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let target = if link.contains(".js") { "file" } else { "" };
        std::os::unix::fs::symlink(outside.join(target), &place).unwrap();
        world
            .call(&["agent", "install", cli])
            .ends_with(6)
            .says("is a symbolic link to");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "{link}");
        let text = std::fs::read_to_string(outside.join("file")).unwrap();
        assert_eq!(text, "{}\n", "{link}");
    }
}
