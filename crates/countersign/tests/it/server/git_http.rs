//! Git over HTTP: real clones and pushes by agents that have the server's address and their
//! credential, and attempts at everything else.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{assignment, submit};
use crate::support::server::Server;
use crate::support::{Ran, World, until};

/// A directory of an agent on another machine: it knows no path of the server.
struct Elsewhere<'a> {
    world: &'a World,
    dir: PathBuf,
    header: String,
}

impl<'a> Elsewhere<'a> {
    /// Clones the repository of an assignment.
    fn clone(world: &'a World, assignment: &Value, name: &str) -> Self {
        let here = Self::new(world, assignment, name);
        let url = assignment["clone_url"].as_str().unwrap();
        let dir = here.dir.to_str().unwrap();
        here.git(&format!("clone --quiet {url} {dir}")).ends_with(0);
        here
    }

    fn new(world: &'a World, assignment: &Value, name: &str) -> Self {
        let credential = assignment["clone_credential"].as_str().unwrap();
        Self {
            world,
            dir: world.root().join(name),
            header: format!("Authorization: Bearer {credential}"),
        }
    }

    fn git(&self, line: &str) -> Ran {
        let dir = if self.dir.is_dir() {
            self.dir.clone()
        } else {
            self.world.root()
        };
        let git = "git -c user.name=Eve -c user.email=eve@localhost";
        let header = format!("-c http.extraHeader='{}'", self.header);
        let line = format!("cd {} && {git} {header} {line}", dir.display());
        self.world.shell("sh", &line)
    }

    /// The answer of a command that succeeds.
    #[track_caller]
    fn ask(&self, line: &str) -> String {
        let ran = self.git(line);
        assert_eq!(ran.code, 0, "git {line}: {}{}", ran.out, ran.err);
        ran.out.trim_end().to_owned()
    }

    fn commit(&self, name: &str, text: &str) {
        fs::write(self.dir.join(name), text).unwrap();
        self.ask("add --all");
        self.ask("commit --quiet --message work");
    }

    /// Fails, and nothing of the repository has moved.
    #[track_caller]
    fn is_refused(&self, line: &str, says: &str) {
        let refs = self.world.git(&["for-each-ref"]);
        let ran = self.git(line);
        assert_ne!(ran.code, 0, "git {line}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(says), "git {line}: {}", ran.err);
        assert_eq!(self.world.git(&["for-each-ref"]), refs, "git {line}");
    }
}

#[test]
fn a_change_is_built_and_reviewed_by_agents_that_only_know_the_address() {
    let world = World::new();
    let server = Server::start(&world);
    let (builder, reviewer) = (
        server.token("bea", "builder", &[]),
        server.token("rex", "reviewer", &[]),
    );
    server.add("greet");
    let build = assignment(&server, &builder, "build");
    let brief = build["brief"].as_str().unwrap();
    let url = build["clone_url"].as_str().unwrap();
    assert!(
        url.starts_with(&server.url) && brief.contains(url),
        "{brief}"
    );
    assert!(!brief.contains("COUNTERSIGN_"), "{brief}");
    let secret = build["clone_credential"].as_str().unwrap();
    assert!(!brief.contains(secret), "{brief}");

    let work = Elsewhere::clone(&world, &build, "work");
    assert_eq!(work.ask("branch --show-current"), "countersign/greet");
    let why = server.tool(&builder, "get_diff", &json!({})).unwrap_err();
    assert!(why.contains("no commits here yet"), "{why}");
    work.commit("draft.txt", "one\n");
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    work.ask("push --quiet");
    let diff = server.tool(&builder, "get_diff", &json!({})).unwrap();
    assert_eq!(
        diff["files"],
        json!(["A draft.txt +1 -0", "A greet.sh +1 -0"])
    );
    let one = json!({"file": "greet.sh"});
    let one = server.tool(&builder, "get_diff", &one).unwrap();
    let text = one["diff"].as_str().unwrap();
    assert!(text.contains("+echo") && !text.contains("+one"), "{text}");
    submit(&server, &builder, &build);
    // The claim has ended, and the credential with it.
    work.is_refused(
        "fetch",
        "the claim that this credential was made for is over",
    );

    let review = assignment(&server, &reviewer, "review");
    let brief = review["brief"].as_str().unwrap();
    assert!(brief.contains("get_diff"), "{brief}");
    assert!(!brief.contains("COUNTERSIGN_") && !brief.contains("checked out here"));
    let copy = Elsewhere::clone(&world, &review, "copy");
    assert_eq!(
        copy.ask("rev-parse HEAD"),
        review["commit"].as_str().unwrap()
    );
    assert_eq!(
        copy.ask("branch --remotes --list 'origin/*/*' origin/main")
            .lines()
            .count(),
        2
    );
    // The commit without its history, and the base to compare it with.
    assert_eq!(copy.ask("log --format=%s HEAD"), "work");
    let names = copy.ask("diff --name-only origin/main HEAD");
    assert_eq!(names, "draft.txt\ngreet.sh");
    let resource = json!({"uri": "countersign://tickets/greet/diff"});
    let read = server.mcp(&reviewer, "resources/read", &resource);
    assert!(read.to_string().contains("+echo"), "{read}");
    copy.commit("more.sh", "exit\n");
    copy.is_refused("push origin HEAD", "push nothing");

    let yes = json!({"attempt": review["attempt"], "approved": true});
    server
        .tool(&reviewer, "submit_review_result", &yes)
        .unwrap();
    until("it has landed", || server.stage("greet") == "done");
    let record = world.json(&["ticket", "show", "greet"]).to_string();
    assert!(
        record.contains("runs in a sandbox of its own, if any"),
        "{record}"
    );
    assert!(!record.contains("cannot write to ours"), "{record}");
    world.must_be_sound();
}

#[test]
fn a_builder_pushes_its_own_branch_and_nothing_else() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    server.add("greet");
    let build = assignment(&server, &builder, "build");
    world.git(&["branch", "secret", "main"]);
    let work = Elsewhere::clone(&world, &build, "work");
    assert!(!work.ask("ls-remote").contains("secret"));
    work.commit("greet.sh", "echo \"Hello, $1\"\n");
    for line in [
        "push origin HEAD:main",
        "push --force origin HEAD:main",
        "push origin HEAD:secret",
        "push origin HEAD:refs/countersign/greet/submitted-1",
        "push origin HEAD:refs/heads/countersign/other",
        "push origin HEAD:refs/tags/v1",
        "push origin HEAD HEAD:main",
        "push origin :countersign/greet",
        "push origin :main",
    ] {
        work.is_refused(line, "403");
    }
    work.ask("push --quiet origin HEAD");
    let pushed = world.git(&["rev-parse", "countersign/greet"]);
    assert_eq!(pushed, work.ask("rev-parse HEAD"));
    // Git sends more than a megabyte in chunks, after an empty request.
    let blob = work.dir.join("blob");
    let line = format!("head -c 3000000 /dev/urandom > {}", blob.display());
    world.shell("sh", &line).ends_with(0);
    work.commit("note.txt", "more\n");
    work.ask("push --quiet origin HEAD");
    let pushed = world.git(&["rev-parse", "countersign/greet"]);
    assert_eq!(pushed, work.ask("rev-parse HEAD"));
    let log = world.json(&["log", "--limit", "1000"]).to_string();
    assert!(
        log.contains("and no other ref, not refs/heads/main"),
        "{log}"
    );
    // It moves forward only.
    work.ask("reset --quiet --hard HEAD^");
    work.commit("greet.sh", "echo \"Hello, all\"\n");
    work.is_refused("push origin HEAD", "rejected");
    work.is_refused("push --force origin HEAD", "non-fast-forward");
    world.must_be_sound();
}

#[test]
fn objects_outside_the_view_are_not_served() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    server.add("greet");
    world.git(&["switch", "--quiet", "-c", "secret"]);
    world.write("key.txt", "a secret\n");
    world.commit("A secret");
    let hidden = world.git(&["rev-parse", "HEAD"]);
    world.git(&["switch", "--quiet", "main"]);
    let build = assignment(&server, &builder, "build");
    let work = Elsewhere::clone(&world, &build, "work");
    for version in ["0", "1", "2"] {
        let line = format!("-c protocol.version={version} fetch origin {hidden}");
        // Older versions ask by the list of refs, so the client itself gives up.
        let says = if version == "2" {
            "not our ref"
        } else {
            "unadvertised"
        };
        work.is_refused(&line, says);
    }
}

#[test]
fn only_the_credential_of_the_claim_opens_its_clone() {
    let world = World::new();
    let server = Server::start(&world);
    let bea = server.token("bea", "builder", &[]);
    let cat = server.token("cat", "builder", &[]);
    server.add("greet");
    server.add("other");
    let build = assignment(&server, &bea, "build");
    let foreign = assignment(&server, &cat, "build");
    let url = build["clone_url"].as_str().unwrap();
    let path = url.strip_prefix(&server.url).unwrap();
    let refs = format!("{path}/info/refs?service=git-upload-pack");
    let ask = |path: &str, credential: &str| {
        let bearer = format!("Bearer {credential}");
        server.send("GET", path, &[("Authorization", &bearer)], "")
    };
    let own = build["clone_credential"].as_str().unwrap();
    ask(&refs, own).is(200);
    let reply = server.send("GET", &refs, &[], "").is(401);
    let head = reply.head.to_ascii_lowercase();
    assert!(head.contains("www-authenticate: basic"), "{head}");
    for credential in [
        foreign["clone_credential"].as_str().unwrap(),
        // The agent's token itself is not a credential for git, and a changed one is none.
        &bea,
        &format!("{}0", &own[..own.len() - 1]),
        &server.token,
        "",
    ] {
        let status = ask(&refs, credential).status;
        assert!([401, 403].contains(&status), "{credential}: {status}");
    }
    // A credential for git opens nothing else.
    server.rest_as(own, "GET", "/api/v1/tickets", "").is(401);
    // Other claims, other files, other services and other paths.
    for (path, status) in [
        (refs.replace("/greet/", "/other/"), 403),
        (refs.replace("/greet/", "/..%2Fother/"), 401),
        (refs.replace("/greet/", "/greet%2F..%2Fother/"), 401),
        (format!("{path}/info/refs"), 403),
        (format!("{path}/info/refs?service=git-upload-archive"), 403),
        (format!("{path}/HEAD"), 404),
        (format!("{path}/objects/info/packs"), 404),
        (format!("{path}/../../../../etc/passwd"), 404),
        (format!("{path}/config"), 404),
    ] {
        ask(&path, own).is(status);
    }
    // A revoked token takes its credentials along.
    let id = world.json(&["token", "list"])["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["agent"] == "bea")
        .unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    world.call(&["token", "revoke", &id]).ends_with(0);
    ask(&refs, own).is(403);
}

#[test]
fn a_push_that_is_too_large_or_no_push_is_refused() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bea", "builder", &[]);
    server.add("greet");
    let build = assignment(&server, &builder, "build");
    let url = build["clone_url"].as_str().unwrap();
    let path = url.strip_prefix(&server.url).unwrap();
    let credential = build["clone_credential"].as_str().unwrap();
    let bearer = format!("Bearer {credential}");
    let refs = world.git(&["for-each-ref"]);
    let send = |body: &str, more: &[(&str, &str)]| {
        let headers = [&[("Authorization", bearer.as_str())], more].concat();
        server.send("POST", &format!("{path}/git-receive-pack"), &headers, body)
    };
    send(&"x".repeat((64 << 20) + 1), &[]).is(413);
    for body in ["", "zzzz", "ffff", "0008pack", "0000PACK"] {
        let status = send(body, &[]).status;
        assert!([200, 422].contains(&status), "{body}: {status}");
    }
    send("0000", &[("Content-Encoding", "gzip")]).is(415);
    let commit = world.git(&["rev-parse", "main"]);
    let command = format!(
        "{} {commit} refs/heads/main\0 report-status",
        "0".repeat(40)
    );
    let packet = format!("{:04x}{command}0000", command.len() + 4);
    send(&packet, &[]).is(403);
    assert_eq!(world.git(&["for-each-ref"]), refs);
}
