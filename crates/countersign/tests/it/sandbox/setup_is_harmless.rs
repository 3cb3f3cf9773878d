//! Nothing of the person's is changed by the set-up of a sandbox, however the agent is named.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::support::crew::{GOOD, smooth};
use crate::support::{TICKET, World};

fn script(path: &Path) -> String {
    let text = format!("#!/bin/sh\ncat > greet.sh <<'END'\n{GOOD}END\n");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, &text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    text
}

/// How a person may name the agent, and the file that it means below the world's root.
const NAMES: &[(&str, &str)] = &[
    ("../probe/F.sh", "probe/F.sh"),
    (".././probe//F.sh", "probe/F.sh"),
    ("../probe/../probe/F.sh", "probe/F.sh"),
    ("../link/F.sh", "probe/F.sh"),
    ("../probe/link.sh", "probe/F.sh"),
    ("../link/../probe/deeper/../link.sh", "probe/F.sh"),
    ("./agent.sh", "repository/agent.sh"),
    ("../F.sh", "F.sh"),
    ("../home/F.sh", "home/F.sh"),
    ("'../a b/ü\n/F.sh'", "a b/ü\n/F.sh"),
    ("ABSOLUTE/repository/../probe/F.sh", "probe/F.sh"),
];

#[test]
fn an_agent_is_left_as_it_is_however_it_is_named() {
    for (number, (name, file)) in NAMES.iter().enumerate() {
        let world = World::new();
        let at = |name: &str| world.root().join(name);
        fs::create_dir_all(at("probe/deeper")).unwrap();
        let text = script(&at(file));
        if number == 6 {
            world.commit("An agent of its own");
        }
        symlink("probe", at("link")).unwrap();
        symlink("F.sh", at("probe/link.sh")).unwrap();
        let name = name.replace("ABSOLUTE", world.root().to_str().unwrap());
        let (ticket, crew) = (world.put("greet.md", TICKET), world.crew(&smooth()));
        let builder = format!("command:{name}");
        // Fails if anything else changes outside.
        world
            .call(&["run", &ticket, "--builder", &builder, "--reviewer", &crew])
            .ends_with(0);
        assert_eq!(fs::read_to_string(at(file)).unwrap(), text, "{name}");
    }
}

#[test]
fn a_script_of_a_scripted_agent_is_left_as_it_is() {
    for name in ["../crew.json", "../home/../crew.json", "../link/crew.json"] {
        let world = World::new();
        world.crew(&smooth());
        symlink(".", world.root().join("link")).unwrap();
        let (ticket, crew) = (world.put("greet.md", TICKET), format!("scripted:{name}"));
        world
            .call(&["run", &ticket, "--builder", &crew, "--reviewer", &crew])
            .ends_with(0);
        let kept = fs::read_to_string(world.root().join("crew.json")).unwrap();
        assert_eq!(kept, smooth().to_string());
    }
}

#[test]
fn an_agent_that_is_not_there_is_refused_and_nothing_is_made() {
    let world = World::new();
    let at = |name: &str| world.root().join(name);
    script(&at("probe/F.sh"));
    symlink("gone", at("probe/dangling")).unwrap();
    symlink("round", at("probe/round")).unwrap();
    let (ticket, crew) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    for name in [
        "../probe/dangling",
        "../probe/F.sh/",
        "../probe/F.sh/x",
        "../probe",
        "../probe/round",
    ] {
        let builder = format!("command:{name}");
        let ran = world.call(&["run", &ticket, "--builder", &builder, "--reviewer", &crew]);
        assert_ne!(ran.code, 0, "{name}: {}{}", ran.out, ran.err);
    }
}

/// A directory that only root could remove would stay for good.
#[test]
fn nothing_is_left_that_its_owner_cannot_remove() {
    let world = World::new();
    let (ticket, crew) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    world
        .call(&["run", &ticket, "--builder", &crew, "--reviewer", &crew])
        .ends_with(0);
    let mut dirs = vec![world.data.clone()];
    while let Some(dir) = dirs.pop() {
        let mode = fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o700, 0o700, "{}", dir.display());
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
}

const SECRET: &str = "TOP-SECRET";

/// Whatever a builder reads of the git directory has none of the person's secrets, and its git works.
#[test]
fn a_builder_s_git_works_and_has_no_secret_of_the_person_s() {
    for lacks in [None, Some("namespaces")] {
        let world = World::new();
        let git = world.repository.join(".git");
        let set = |key: &str, value: &str| drop(world.git(&["config", key, value]));
        set("sendemail.smtpPass", SECRET);
        set("imap.pass", SECRET);
        set(
            "remote.origin.url",
            &format!("https://ada:{SECRET}@forge.example/a.git?t={SECRET}"),
        );
        set(
            &format!("url.https://x:{SECRET}@forge.example/.insteadOf"),
            "forge:",
        );
        set("http.https://forge.example/.extraheader", SECRET);
        set("include.path", "../included");
        set(
            "submodule.lib.url",
            &format!("https://{SECRET}@forge.example/lib"),
        );
        let text = fs::read_to_string(git.join("config")).unwrap();
        let odd = format!(
            "{text}[http \"x\"]\n\textraheader = Authorization: \\\n   basic {SECRET} ; \"not closed\\\"\"\n[alias] x = \"!echo {SECRET}\" # {SECRET}\n"
        );
        fs::write(git.join("config"), odd).unwrap();
        fs::write(world.repository.join("included"), "[user]\n\tname = x\n").unwrap();
        for name in ["modules/lib/config", "credentials", "cookies"] {
            fs::create_dir_all(git.join(name).parent().unwrap()).unwrap();
            fs::write(git.join(name), format!("{SECRET}\n")).unwrap();
        }
        world.git(&["status"]);
        let agent = world.root().join("agent.sh");
        script(&agent);
        let builds = fs::read_to_string(&agent).unwrap();
        let looks = format!(
            "{builds}git status >/dev/null && git log --oneline | grep -q shell && echo git works >> notes.txt\ndir=$(git rev-parse --git-common-dir)\ngrep -rsl {SECRET} \"$dir\" \"{}\" >> notes.txt\ngit config --list | grep {SECRET} >> notes.txt\ntrue\n",
            git.display()
        );
        fs::write(&agent, looks).unwrap();
        let (ticket, crew) = (world.put("greet.md", TICKET), world.crew(&smooth()));
        let builder = format!("command:{}", agent.display());
        let words = ["run", &ticket, "--builder", &builder, "--reviewer", &crew];
        let without = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/without.py");
        let ran = match lacks {
            None => world.call(&words),
            Some(lacks) => world.call_behind(&["python3", "-I", without, lacks, "--"], &words),
        };
        ran.ends_with(0);
        let notes = world.git(&["show", "main:notes.txt"]);
        assert_eq!(notes, "git works", "{lacks:?}");
    }
}

/// A repository must not widen what its own agents see; the person may.
#[test]
fn only_the_person_s_own_file_shows_more_of_their_files() {
    let world = World::new();
    world.put_home("sdk/file", "from the sdk\n");
    let agent = world.root().join("agent.sh");
    let builds = script(&agent);
    let sdk = world.root().join("home/sdk/file");
    fs::write(
        &agent,
        format!("{builds}cat {} > notes.txt || true\n", sdk.display()),
    )
    .unwrap();
    let builder = format!("command:{}", agent.display());
    let (ticket, crew) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let words = ["run", &ticket, "--builder", &builder, "--reviewer", &crew];
    let own = |show: &str| {
        world.put_home(
            ".config/countersign/config.toml",
            &format!("[sandbox]\nshow = [{show:?}]\n"),
        );
    };
    for wrong in ["~/", "/", "~/absent", "sdk", "~/../data"] {
        own(wrong);
        world.call(&words).ends_with(2).says("[sandbox] show");
    }
    own("~/sdk");
    world.call(&words).ends_with(0);
    assert_eq!(world.git(&["show", "main:notes.txt"]), "from the sdk");
    fs::remove_file(world.root().join("home/.config/countersign/config.toml")).unwrap();
    let settings = fs::read_to_string(world.repository.join("countersign.toml")).unwrap();
    world.write(
        "countersign.toml",
        &format!("{settings}\n[sandbox]\nshow = [\"~/sdk\"]\n"),
    );
    world.commit("Show me more");
    world
        .call(&words)
        .ends_with(2)
        .says("[sandbox] is not allowed in a project's file");
}
