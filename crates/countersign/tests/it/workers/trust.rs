//! Tests the limits of a worker's token: calls as a hostile program would make them, each refused,
//! with nothing changed and an event.

use serde_json::{Value, json};

use super::{PLAIN, add};
use crate::support::World;
use crate::support::server::{Reply, Server};

/// A world with leases that are long enough for the test.
fn ground() -> World {
    World::with_settings(&PLAIN.replace("lease_secs = 3", "lease_secs = 60"))
}

struct Worker<'a> {
    server: &'a Server<'a>,
    token: String,
}

impl<'a> Worker<'a> {
    fn new(server: &'a Server<'a>, name: &str, role: &str) -> Self {
        let token = server.token(name, role, &[]);
        Self { server, token }
    }

    fn call(&self, call: &Value) -> Reply {
        let path = "/api/v1/worker";
        let text = call.to_string();
        self.server.rest_as(&self.token, "POST", path, &text)
    }

    /// Claims what is ready of the ticket; the fence of it.
    #[track_caller]
    fn claims(&self, ticket: &str) -> u64 {
        let claimed = self.call(&claim(ticket, "build")).is(200).json();
        claimed[0]["fence"].as_u64().unwrap()
    }
}

fn request(ticket: &str, queue: &str) -> Value {
    let only = (!ticket.is_empty()).then(|| json!({"ticket": ticket}));
    json!({"name": "x", "worker": "h:1:1:x", "queues": [queue], "only": only,
        "agents": [{"queue": queue, "name": "bea", "names": ["bea"]}],
        "lease": {"secs": 100_000, "nanos": 0}, "most": 9})
}

fn claim(ticket: &str, queue: &str) -> Value {
    json!({"claim": {"request": request(ticket, queue)}})
}

fn wait(request: &Value) -> Value {
    json!({"wait": {"request": request, "most": {"secs": 0, "nanos": 0}}})
}

/// A request of any ticket, with one field as it should not be.
fn with(field: &str, value: Value) -> Value {
    let mut request = request("", "build");
    request[field] = value;
    request
}

fn agent(name: &str) -> Value {
    json!({"queue": "build", "name": name, "names": [name]})
}

fn by(agent: &str, role: &str) -> Value {
    json!({"agent": agent, "principal": agent, "role": role})
}

fn report(by: &Value, what: &Value) -> Value {
    with_files(by, what, &json!([]))
}

fn with_files(by: &Value, what: &Value, artefacts: &Value) -> Value {
    json!({"report": {"ticket": "one", "by": by, "what": what, "artefacts": artefacts}})
}

fn lease(fence: u64) -> Value {
    json!({"serial": 1, "fence": fence})
}

fn started(fence: u64) -> Value {
    json!({"event": "started", "lease": lease(fence)})
}

fn failed(fence: u64) -> Value {
    json!({"event": "job_failed", "lease": lease(fence), "failure": {"failure": "permanent"}, "message": "no",
        "usage": usage()})
}

fn usage() -> Value {
    json!({"usd_micros": 0, "tokens": 0, "wall_ms": 0})
}

fn approval(fence: u64) -> Value {
    json!({"event": "reviewed", "lease": lease(fence), "commit": "c", "sandbox": "enforced",
        "review": review(), "usage": usage()})
}

fn review() -> Value {
    json!({"findings": [], "claim": "approved", "way": "json", "sureness": 100})
}

/// A file that is not where a job's own are.
fn artefact(path: &str) -> Value {
    json!([{"ticket": "one", "round": 1, "kind": "check", "name": "test", "path": path, "bytes": 1}])
}

fn version(server: &Server<'_>) -> u64 {
    let shown = server.rest("GET", "/api/v1/tickets/one", &Value::Null);
    shown.is(200).json()["ticket"]["version"].as_u64().unwrap()
}

/// The call is refused so, nothing of the ticket has changed, and the log says that it was tried.
#[track_caller]
fn must_refuse(world: &World, server: &Server<'_>, status: u16, reply: impl FnOnce() -> Reply) {
    let (before, noted) = (version(server), world.count_of("refused"));
    let reply = reply();
    assert_eq!(reply.status, status, "{}\n{}", reply.head, reply.body);
    assert!(
        reply.head.contains("application/problem+json"),
        "{}",
        reply.head
    );
    assert_eq!(version(server), before, "{}", reply.body);
    assert!(world.count_of("refused") > noted, "{}", reply.body);
}

#[test]
fn only_a_worker_is_heard() {
    let world = ground();
    add(&world, "one", "");
    let server = Server::start(&world);
    for role in ["builder", "reviewer", "verifier", "human"] {
        let stranger = Worker::new(&server, role, role);
        let call = claim("one", "build");
        must_refuse(&world, &server, 403, || stranger.call(&call));
    }
    let token = server.token("small", "service", &["--ticket", "one"]);
    let bound = Worker {
        server: &server,
        token,
    };
    must_refuse(&world, &server, 403, || bound.call(&claim("one", "build")));
    let token = "cs_nobody".to_owned();
    let unknown = Worker {
        server: &server,
        token,
    };
    must_refuse(&world, &server, 401, || {
        unknown.call(&claim("one", "build"))
    });
    let east = Worker::new(&server, "east", "service");
    for bad in [
        "",
        "{",
        "[]",
        "{}",
        "\"now\"",
        "{\"no_such\": {}}",
        "{\"ticket\": {\"id\": \"../x\"}}",
    ] {
        let reply = server
            .rest_as(&east.token, "POST", "/api/v1/worker", bad)
            .is(422);
        assert!(
            reply.head.contains("application/problem+json"),
            "{}",
            reply.head
        );
    }
    let large = json!({"upload": {"bytes": "A".repeat(46 << 20)}});
    let reply = east.call(&large);
    assert!([413, 0].contains(&reply.status), "{}", reply.head);
    server
        .rest_as(&east.token, "GET", "/api/v1/worker", "")
        .is(405);
    east.call(&json!({"now": {}})).is(200);
}

#[test]
fn what_another_holds_is_not_a_worker_s_to_touch() {
    let world = ground();
    add(&world, "one", "");
    let server = Server::start(&world);
    let (east, west) = (
        Worker::new(&server, "east", "service"),
        Worker::new(&server, "west", "service"),
    );
    let claimed = east.call(&claim("one", "build")).is(200).json();
    let claimed = claimed[0].clone();
    assert_eq!(claimed["holder"], "h:1:1:x");
    let (job, fence) = (claimed["id"].clone(), claimed["fence"].as_u64().unwrap());
    let offers = west.call(&wait(&request("", "build"))).is(200).json();
    assert_eq!(offers, json!([]), "what another holds is not offered");
    let (builder, house) = (by("bea", "builder"), by("countersign", "service"));
    let renew = json!({"renew": {"job": job, "fence": fence, "extend": {"secs": 0, "nanos": 0}}});
    let look = json!({"renew": {"job": job, "fence": fence, "extend": null}});
    let finish = |usage: Value| {
        json!({"finish": {"job": job, "fence": fence, "run": fence, "usage": usage, "by": "x",
        "outcome": {"done": {"result": 1}}}})
    };
    let done = finish(usage());
    let pass = |role: &str| {
        json!({"issue_token": {"id": "0".repeat(8), "hash": "0".repeat(64), "by": by("bea", role),
            "ticket": "one", "lease": lease(fence), "lasts_ms": 1_000_000_000_000_u64}})
    };
    let file = json!({"attach": {"ticket": "one", "lease": lease(fence), "bytes": "YQ==",
        "path": format!("tickets/one/jobs/1/run-{fence}/transcript.log")}});
    let spend = finish(json!({"usd_micros": 5, "tokens": 5, "wall_ms": 5}));
    let note = json!({"note": {"ticket": "one", "lease": lease(fence), "name": "network_refused", "body": {}}});
    for call in [
        renew.clone(),
        look.clone(),
        note.clone(),
        done.clone(),
        spend.clone(),
        report(&builder, &started(fence)),
        report(&house, &failed(fence)),
        report(&by("rita", "reviewer"), &approval(fence)),
        pass("builder"),
        file.clone(),
    ] {
        must_refuse(&world, &server, 409, || west.call(&call));
    }
    // The holder itself may, for as long as the policy says.
    let now = east.call(&json!({"now": {}})).is(200).json();
    let long = claimed["until"].as_i64().unwrap() - now.as_i64().unwrap();
    assert!(long <= 60_000, "{long} ms");
    east.call(&report(&builder, &started(fence))).is(200);
    east.call(&file).is(200);
    east.call(&look).is(200);
    east.call(&note).is(200);
    must_refuse(&world, &server, 403, || east.call(&done));
    must_refuse(&world, &server, 403, || east.call(&spend));
    for role in ["reviewer", "verifier", "human", "admin", "service"] {
        must_refuse(&world, &server, 403, || east.call(&pass(role)));
    }
    east.call(&pass("builder")).is(200);
    let tokens = server
        .rest("GET", "/api/v1/tokens", &Value::Null)
        .is(200)
        .json();
    let made = tokens["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["id"] == "00000000");
    let made = made.unwrap().clone();
    let lasts = made["expires_at"].as_i64().unwrap() - made["created_at"].as_i64().unwrap();
    assert_eq!(
        (lasts, made["ticket"].as_str()),
        (24 * 3_600_000, Some("one"))
    );
    let withdraw = json!({"revoke_token": {"token": "00000000"}});
    must_refuse(&world, &server, 403, || west.call(&withdraw));
    assert_eq!(east.call(&withdraw).is(200).json(), true);
}

/// Two processes with one token: the first has given its job back, the second has it now.
#[test]
fn a_worker_s_report_counts_under_the_lease_that_it_holds_and_no_other() {
    let world = ground();
    add(&world, "one", "");
    let server = Server::start(&world);
    let east = Worker::new(&server, "east", "service");
    let (builder, house) = (by("bea", "builder"), by("countersign", "service"));
    let old = east.claims("one");
    let start = report(&builder, &started(old));
    east.call(&start).is(200);
    let mut given_back = failed(old);
    given_back["failure"] = json!({"failure": "interrupted"});
    let given_back = report(&house, &given_back);
    east.call(&given_back).is(200);
    let held = east.claims("one");
    assert!(held > old);
    east.call(&report(&builder, &started(held))).is(200);
    for fence in [old, 0, held + 1, 99, u64::MAX] {
        for what in [started(fence), failed(fence), approval(fence)] {
            must_refuse(&world, &server, 409, || east.call(&report(&builder, &what)));
        }
    }
    // A report that names no lease cannot be compared with one.
    let submission = json!({"commit": "c", "tree": "t"});
    let stale = json!({"event": "went_stale", "submission": submission, "why": "x"});
    must_refuse(&world, &server, 403, || east.call(&report(&house, &stale)));
    east.call(&report(&house, &failed(held))).is(200);
}

#[test]
fn a_worker_decides_nothing() {
    let world = ground();
    add(&world, "one", "");
    let server = Server::start(&world);
    let east = Worker::new(&server, "east", "service");
    let fence = east.claims("one");
    let (builder, house) = (by("bea", "builder"), by("countersign", "service"));
    east.call(&report(&builder, &started(fence))).is(200);
    let was = version(&server);
    let why = "it is fine";
    for what in [
        json!({"event": "settled", "choice": {"choice": "accept"}, "why": why}),
        json!({"event": "waived", "finding": "F1", "why": why}),
        json!({"event": "cancelled", "why": why}),
        json!({"event": "help_requested", "why": why}),
        json!({"event": "dependency_met", "ticket": "two"}),
        json!({"event": "budget_reached", "limit": "the day"}),
        json!({"event": "agent_out", "serial": 1, "why": why}),
        json!({"event": "lease_lost", "lease": lease(fence)}),
    ] {
        for by in [&house, &builder] {
            must_refuse(&world, &server, 403, || east.call(&report(by, &what)));
        }
    }
    for role in ["human", "admin"] {
        let person = by("ada", role);
        must_refuse(&world, &server, 403, || {
            east.call(&report(&person, &failed(fence)))
        });
    }
    let mut dear = failed(fence);
    dear["usage"]["usd_micros"] = json!(u64::MAX);
    must_refuse(&world, &server, 403, || east.call(&report(&builder, &dear)));
    let borrowed = json!({"agent": "bea", "principal": "rita", "role": "builder"});
    must_refuse(&world, &server, 403, || {
        east.call(&report(&borrowed, &failed(fence)))
    });
    // Under its own lease, and still not so: flow decides, and the desk says why.
    let judge = by("rita", "reviewer");
    must_refuse(&world, &server, 409, || {
        east.call(&report(&judge, &approval(fence)))
    });
    assert_eq!(version(&server), was);
    for path in [
        "../../server.json",
        "/etc/passwd",
        "tickets/one/jobs/1/run-1/../../../../server.json",
        "tickets/other/jobs/1/run-1/x.log",
        "tickets/one/jobs/1/run-1/ended.json",
    ] {
        let call = with_files(&builder, &failed(fence), &artefact(path));
        must_refuse(&world, &server, 403, || east.call(&call));
        let keep = json!({"attach": {"ticket": "one", "lease": lease(fence), "path": path, "bytes": "YQ=="}});
        must_refuse(&world, &server, 403, || east.call(&keep));
    }
    assert!(world.data.join("server.json").metadata().unwrap().len() > 1);
    world.must_be_sound();
}

#[test]
fn what_is_no_worker_s_business_is_refused() {
    let world = ground();
    add(&world, "one", "");
    let server = Server::start(&world);
    let east = Worker::new(&server, "east", "service");
    let repository = world.repository.join(".git").display().to_string();
    let tokens = server
        .rest("GET", "/api/v1/tokens", &Value::Null)
        .is(200)
        .json();
    let tokens = tokens["items"].as_array().unwrap().clone();
    let admin = tokens
        .iter()
        .find(|token| token["role"] == "admin")
        .unwrap()["id"]
        .clone();
    let oid = "1".repeat(40);
    let bundle = |key: String, tip: &str| json!({"upload": {"key": key, "tip": tip, "why": null, "bytes": "YQ=="}});
    let pause = |scope: &str, until: Value| json!({"pause_provider": {"pause": {"scope": {"scope": scope, "name": "x"}, "until": until, "why": "w", "by": "b"}}});
    for call in [
        claim("one", "tell"),
        claim("", "build"),
        claim("one", "a\u{0}b"),
        wait(&request("", "tell")),
        wait(&request("", "a\u{0}b")),
        wait(&with("queues", json!(vec!["q"; 65]))),
        wait(&with("tasks", json!(["tell"]))),
        wait(&with("name", json!("two\nlines"))),
        wait(&with("skip", json!(vec![json!({"task": 1}); 1001]))),
        wait(&with("labels", json!(["a\u{0}b"]))),
        wait(&with("agents", json!(vec![agent("bea"); 65]))),
        wait(&with("agents", json!([agent("a\u{0}b")]))),
        json!({"revoke_token": {"token": admin}}),
        json!({"heartbeat": {"agent": {"name": "a\u{0}b", "role": "worker", "seen_at": 0, "body": {}}}}),
        json!({"note": {"ticket": "one", "lease": lease(1), "name": "landed", "body": {}}}),
        json!({"download": {"key": "/etc/passwd"}}),
        json!({"download": {"key": "x:y:z"}}),
        bundle(format!("base:main:{repository}"), &oid),
        bundle(format!("commit:{oid}:{repository}"), &oid),
        bundle(format!("commit:{oid}:{repository}"), &"2".repeat(40)),
        pause("agent", json!(9_000_000_000_000_u64)),
        pause("queue", json!(9_000_000_000_000_u64)),
        pause("provider", Value::Null),
    ] {
        must_refuse(&world, &server, 403, || east.call(&call));
    }
    let nothing = json!({"download": {"key": "base:main:/etc"}});
    assert_eq!(east.call(&nothing).is(200).json(), Value::Null);
}

#[test]
fn who_built_a_change_does_not_judge_it_whatever_the_worker_says() {
    let settings = "[checks]\ntest = \"true\"\n\n[policy]\nland = \"branch\"\n";
    let world = World::with_settings(settings);
    add(&world, "one", "");
    let server = Server::start(&world);
    let east = Worker::new(&server, "east", "service");
    let (bea, house) = (by("bea", "builder"), by("countersign", "service"));
    let under = |call: &Value| {
        let claimed = east.call(call).is(200).json();
        let job = &claimed[0];
        json!({"serial": job["serial"], "fence": job["fence"]})
    };
    let tells = |by: &Value, what: &Value| east.call(&report(by, what)).is(200);
    let lease = under(&claim("one", "build"));
    tells(&bea, &json!({"event": "started", "lease": lease}));
    // Only the worker has the commit, and the commit names no author.
    let submission = json!({"commit": "1".repeat(40), "tree": "2".repeat(40), "diff_id": "d",
        "branch": "countersign/one", "files": ["x"], "lines_changed": 1});
    tells(
        &bea,
        &json!({"event": "submitted", "lease": lease, "submission": submission, "reports": [],
            "session": null, "usage": usage()}),
    );
    let lease = under(&claim("one", "check"));
    tells(&house, &json!({"event": "started", "lease": lease}));
    tells(
        &house,
        &json!({"event": "checked", "lease": lease, "commit": "1".repeat(40), "usage": usage(),
            "results": [{"name": "test", "outcome": "passed"}]}),
    );
    assert_eq!(server.stage("one"), "reviewing");
    let lease = under(&claim("one", "review"));
    let started = json!({"event": "started", "lease": lease});
    let judge = by("bea", "reviewer");
    must_refuse(&world, &server, 409, || {
        east.call(&report(&judge, &started))
    });
    tells(&by("rita", "reviewer"), &started);
    // Nor does a worker that holds the review report it in another's name.
    let approval = json!({"event": "reviewed", "lease": lease, "commit": "1".repeat(40),
        "sandbox": "enforced", "review": review(), "usage": usage()});
    must_refuse(&world, &server, 409, || {
        east.call(&report(&judge, &approval))
    });
    assert_eq!(server.stage("one"), "reviewing");
}
