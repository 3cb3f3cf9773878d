//! Remotes that are reached over HTTPS and ssh: with what their owner gives the worker, without a
//! question to anybody, and with no password in anything that is kept or said.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::remote_machine::Machine;
use super::{add, shared, until_stage};
use crate::server::tls::Certificate;
use crate::support::crew::two_rounds;
use crate::support::forge::Forge;
use crate::support::server::Server;
use crate::support::{SETTINGS, World, reached};

const SECRET: &str = "s3cr3t-w0rd";
/// Time within which a remote is refused: no prompt, no waiting.
const PROMPT: Duration = Duration::from_secs(20);

/// A project whose workers get it from where it came from; the path of what they share.
fn project() -> (World, String) {
    let world = World::without_commits();
    world.write("README.md", "# greetings\n");
    world.write("test.sh", "true\n");
    let settings = format!("{SETTINGS}\n[worker]\nremote = \"origin\"\n");
    world.write("countersign.toml", &settings);
    world.commit("A small shell project");
    world.crew(&two_rounds());
    let shared = shared(&world);
    (world, shared)
}

/// Adds a ticket, and lets the repository vanish from where it was.
fn only_abroad<'a>(world: &'a World, origin: &str) -> Server<'a> {
    world.git(&["remote", "add", "origin", origin]);
    add(world, "greet", "");
    fs::rename(&world.repository, world.root().join("gone")).unwrap();
    fs::create_dir(&world.repository).unwrap();
    Server::start(world)
}

#[track_caller]
fn must_land(world: &World, shared: &str) {
    until_stage(world, "greet", "done");
    let shown = world.git(&["--git-dir", shared, "show", "main:greet.sh"]);
    assert!(shown.contains("exit 2"), "{shown}");
    assert_eq!(world.count_of("refused"), 0);
}

/// Everything below a directory that has these words in it.
fn with_words(dir: &Path, words: &str, found: &mut Vec<String>) {
    for file in fs::read_dir(dir).into_iter().flatten() {
        let path = file.unwrap().path();
        let kind = path.symlink_metadata().map(|data| data.file_type());
        match kind {
            Ok(kind) if kind.is_dir() => with_words(&path, words, found),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                if bytes
                    .windows(words.len())
                    .any(|some| some == words.as_bytes())
                {
                    found.push(path.display().to_string());
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// The password is where its owner wrote it and nowhere else: not in the server's data, not in the
/// worker's, not in what any program said.
#[track_caller]
fn must_be_kept_apart(world: &World, own: &[&str]) {
    let mut found = Vec::new();
    with_words(&world.root(), SECRET, &mut found);
    found.sort();
    let own: Vec<String> = own
        .iter()
        .map(|name| world.root().join(name).display().to_string())
        .collect();
    assert_eq!(found, own);
    let log = world
        .call(&["log", "--json", "--limit", "10000"])
        .ends_with(0);
    assert!(!log.out.contains(SECRET));
}

/// Returns the output of all programs of this world.
fn said(world: &World) -> String {
    let files = fs::read_dir(world.root()).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let said = files.filter(|path| path.is_file());
    said.filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

#[test]
fn over_https_a_worker_shows_what_its_netrc_says() {
    let (world, shared) = project();
    let certificate = Certificate::new(&world);
    let forge = Forge::start(&certificate, &world.root(), Some(&format!("ada:{SECRET}")));
    let origin = format!("https://ada:{SECRET}@{}/shared.git", forge.address);
    let server = only_abroad(&world, &origin);
    let kept = world.ticket("greet")["spec"]["context"]["remote"].clone();
    assert_eq!(kept, format!("https://{}/shared.git", forge.address));
    let east = Machine::new(&world, &server, "east");
    let east = east.with("GIT_SSL_CAINFO", certificate.file.display());
    let netrc = world.root().join("east-home/.netrc");
    let line = format!("machine 127.0.0.1 login ada password {SECRET}\n");
    fs::write(&netrc, line).unwrap();
    fs::set_permissions(&netrc, fs::Permissions::from_mode(0o600)).unwrap();
    let _worker = east.worker(&["--push-base"]);
    must_land(&world, &shared);
    must_be_kept_apart(&world, &["east-home/.netrc", "gone/.git/config"]);
}

/// Every git that is started notes its arguments, as others on the machine may see them.
fn note_arguments(world: &World) {
    let file = world.root().join("arguments").display().to_string();
    let script = format!("#!/bin/sh\necho \"$@\" >> {file}\nexec /usr/bin/git \"$@\"\n");
    world.install("git", &script);
}

#[test]
fn a_password_in_an_address_goes_to_its_host_and_nowhere_else() {
    let (world, shared) = project();
    note_arguments(&world);
    let certificate = Certificate::new(&world);
    let forge = Forge::start(&certificate, &world.root(), Some(&format!("ada:{SECRET}")));
    let bare = format!("https://{}/shared.git", forge.address);
    let server = only_abroad(&world, &bare);
    let east = Machine::new(&world, &server, "east");
    let east = east.with("GIT_SSL_CAINFO", certificate.file.display());
    let repository = world.repository.join(".git").display().to_string();
    let named = |password: &str| {
        let address = format!("https://ada:{password}@{}/shared.git", forge.address);
        format!("{repository}={address}")
    };
    let mistaken = east.worker(&["--remote", &named(&format!("not-{SECRET}"))]);
    assert!(reached(PROMPT, || said(&world).contains("~/.netrc")));
    drop(mistaken);
    assert_eq!(world.stage("greet"), "queued");
    let _worker = east.worker(&["--push-base", "--remote", &named(SECRET)]);
    must_land(&world, &shared);
    must_be_kept_apart(&world, &[]);
    let arguments = fs::read_to_string(world.root().join("arguments")).unwrap();
    assert!(arguments.contains(&bare), "{arguments}");
}

#[test]
fn a_remote_that_wants_a_password_is_left_and_nobody_is_asked() {
    let (world, _) = project();
    let certificate = Certificate::new(&world);
    let forge = Forge::start(&certificate, &world.root(), Some(&format!("ada:{SECRET}")));
    let server = only_abroad(&world, &format!("https://{}/shared.git", forge.address));
    let east = Machine::new(&world, &server, "east");
    let strange = east.worker(&[]);
    assert!(reached(PROMPT, || said(&world)
        .contains("is skipped by this worker")));
    drop(strange);
    let said_of_it = said(&world);
    assert!(said_of_it.contains("certificate"), "{said_of_it}");
    let east = east.with("GIT_SSL_CAINFO", certificate.file.display());
    let _worker = east.worker(&[]);
    assert!(reached(PROMPT, || said(&world).contains("git cannot prompt here")));
    assert_eq!(world.stage("greet"), "queued");
}

/// A program that is called as ssh is: it notes how, and runs what is asked for on this machine.
fn stand_in(world: &World, then: &str) -> String {
    let calls = world.root().join("calls").display().to_string();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {calls}\nfor word; do [ \"$word\" = -G ] && exit 0; done\n{then}\n"
    );
    world.install("by-ssh", &script);
    world.root().join("bin/by-ssh").display().to_string()
}

#[test]
fn over_ssh_a_worker_fetches_and_pushes_and_never_asks() {
    let (world, shared) = project();
    let ssh = stand_in(&world, "exec sh -c \"$word\"");
    let server = only_abroad(&world, &format!("ssh://git@build.example{shared}"));
    let east = Machine::new(&world, &server, "east").with("GIT_SSH_COMMAND", ssh);
    let _worker = east.worker(&["--push-base"]);
    must_land(&world, &shared);
    let calls = fs::read_to_string(world.root().join("calls")).unwrap();
    assert!(
        calls.lines().all(|call| call.contains("BatchMode=yes")),
        "{calls}"
    );
    assert!(
        calls.contains("git@build.example git-receive-pack"),
        "{calls}"
    );
}

#[test]
fn over_ssh_who_is_not_let_in_hears_so() {
    let (world, shared) = project();
    let refuses = "echo 'git@build.example: Permission denied (publickey,password).' >&2; exit 255";
    let ssh = stand_in(&world, refuses);
    let server = only_abroad(&world, &format!("git@build.example:{shared}"));
    let east = Machine::new(&world, &server, "east").with("GIT_SSH_COMMAND", ssh);
    let _worker = east.worker(&[]);
    assert!(reached(PROMPT, || said(&world)
        .contains("provide a key that ssh finds")));
    // The machine's own ssh, and nobody who listens.
    let west = Machine::new(&world, &server, "west");
    let repository = world.repository.join(".git").display().to_string();
    let nowhere = format!("{repository}=ssh://git@127.0.0.1:1/x.git");
    let _other = west.worker(&["--remote", &nowhere]);
    assert!(reached(PROMPT, || said(&world).contains("Connection refused")));
    assert_eq!(world.stage("greet"), "queued");
}
