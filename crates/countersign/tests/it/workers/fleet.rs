//! Three machines, as far as one can play them: three network namespaces with processes of their own,
//! one database, one repository that they share. One worker is killed, one stopped past its lease,
//! one cut off, again and again, and nothing is lost or done twice.
//!
//! A few jobs run with the other tests; `scripts/campaign workers 1000` is the same with more.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::database::Database;
use super::{PLAIN, shared};
use crate::support::crew::{always, answers, built_by, runs, writes};
use crate::support::processes::signal;
use crate::support::{Ran, Running, World, reached, say, skip, told};

/// Longer than the leases of [`PLAIN`].
const PAST_THE_LEASE: Duration = Duration::from_secs(5);
const BETWEEN_BLOWS: Duration = Duration::from_secs(4);
/// The first falls when they have only just begun.
const FIRST_BLOW: Duration = Duration::from_millis(1500);
/// How many tickets one command adds.
const AT_ONCE: usize = 100;

/// Three namespaces on one bridge, and a way from there to the database.
struct Net<'a> {
    world: &'a World,
    id: u32,
    /// The database, as the namespaces reach it.
    address: String,
}

impl<'a> Net<'a> {
    /// None, and said so, where this machine or its user cannot have such a thing.
    fn build(world: &'a World) -> Option<Self> {
        let id = std::process::id() % 10_000;
        let mut net = Self {
            world,
            id,
            address: String::new(),
        };
        let bridge = format!(
            "ip link add csb{id} type bridge && ip addr add {}/24 dev csb{id} && ip link set csb{id} up",
            net.host()
        );
        if net.shell(&bridge).code != 0 {
            skip::lacks("network namespaces need root and iproute2");
            return None;
        }
        for number in 1..=3 {
            net.join(number);
        }
        net.address = relay(&net.host(), world.database.as_ref().unwrap());
        Some(net)
    }

    fn host(&self) -> String {
        format!("10.213.{}.1", self.id % 250)
    }

    fn join(&self, number: u32) {
        let (id, net) = (self.id, self.id % 250);
        self.shell(&format!(
            "set -e; ip netns add cs{id}-{number}
            ip link add csv{id}-{number} type veth peer name eth0 netns cs{id}-{number}
            ip link set csv{id}-{number} master csb{id} up
            ip -n cs{id}-{number} addr add 10.213.{net}.{}/24 dev eth0
            ip -n cs{id}-{number} link set lo up
            ip -n cs{id}-{number} link set eth0 up",
            10 + number
        ))
        .ends_with(0);
    }

    fn link(&self, number: u32, state: &str) {
        let id = self.id;
        self.shell(&format!("ip link set csv{id}-{number} {state}"))
            .ends_with(0);
    }

    fn shell(&self, line: &str) -> Ran {
        self.world.shell("sh", line)
    }

    /// A worker on one of the machines: its processes, its data, its copy of the repository.
    fn worker(&self, number: u32) -> Running {
        let root = self.world.root().display().to_string();
        let space = format!("cs{}-{number}", self.id);
        let program = env!("CARGO_BIN_EXE_countersign");
        let front = [
            "netns",
            "exec",
            &space,
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            program,
        ];
        let (data, crew) = (
            format!("{root}/machine-{number}"),
            format!("scripted:{root}/crew.json"),
        );
        let reach = format!("{root}/repository/.git={root}/shared.git");
        let name = format!("m{number}");
        let words = [
            "--data-dir",
            &data,
            "--database",
            &self.address,
            "worker",
            "--name",
            &name,
            "--replicas",
            "2",
            "--builder",
            &crew,
            "--reviewer",
            &crew,
            "--remote",
            &reach,
        ];
        self.world
            .start_program("ip", &[front.as_slice(), &words].concat())
    }
}

impl Drop for Net<'_> {
    fn drop(&mut self) {
        let id = self.id;
        self.shell(&format!(
            "for n in 1 2 3; do ip netns del cs{id}-$n; ip link del csv{id}-$n; done; ip link del csb{id}"
        ));
    }
}

/// Passes connections on to the database, and says under which address it is reached here.
fn relay(host: &str, database: &str) -> String {
    let (front, rest) = database.split_once('@').unwrap();
    let (target, name) = rest.split_once('/').unwrap();
    let listener = TcpListener::bind((host, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = target.to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&target) else {
                continue;
            };
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || pass(near, far));
            std::thread::spawn(move || pass(back.0, back.1));
        }
    });
    format!("{front}@{host}:{port}/{name}")
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// The program inside of what made its namespaces.
fn inside(running: &Running) -> Option<i32> {
    let pid = running.pid();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

fn builder() -> serde_json::Value {
    let mut steps = vec![runs("sleep 0.2"), writes("file.txt", "text\n")];
    steps.extend(answers(json!({"summary": "Done."})));
    built_by(&always(steps))
}

/// Blows of each kind that fell.
#[derive(Debug, Default)]
struct Blows {
    killed: u32,
    stopped: u32,
    cut_off: u32,
}

/// The first time all three are struck at once, so that nobody is left; then one by one.
fn strike(net: &Net<'_>, workers: &mut [Running; 3], blows: &mut Blows, round: usize) {
    let struck = |number: usize| round == 0 || round % 3 == number % 3;
    let stopped = inside(&workers[1]).filter(|_| struck(2));
    if struck(1) {
        signal(workers[0].pid(), Signal::KILL);
        blows.killed += 1;
    }
    if let Some(pid) = stopped {
        signal(pid, Signal::STOP);
        blows.stopped += 1;
    }
    if struck(3) {
        net.link(3, "down");
        blows.cut_off += 1;
    }
    reached(PAST_THE_LEASE, || false);
    if struck(1) {
        workers[0] = net.worker(1);
    }
    if let Some(pid) = stopped {
        signal(pid, Signal::CONT);
    }
    if struck(3) {
        net.link(3, "up");
    }
}

fn done(world: &World) -> u64 {
    let status = world.json(&["status"]);
    status["tally"]["done"].as_u64().unwrap_or_default()
}

fn add_all(world: &World, ids: &[String]) {
    for some in ids.chunks(AT_ONCE) {
        let files: Vec<String> = some
            .iter()
            .map(|id| {
                world.put(
                    &format!("{id}.md"),
                    format!("---\nid: {id}\n---\n# Do {id}\n"),
                )
            })
            .collect();
        let mut words = vec!["ticket", "add"];
        words.extend(files.iter().map(String::as_str));
        world.call(&words).ends_with(0);
    }
}

/// Counts events: in all, and the most for one ticket.
fn counted(world: &World, ids: &[String]) -> BTreeMap<String, (usize, usize)> {
    let mut all: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for id in ids {
        let mut own: BTreeMap<String, usize> = BTreeMap::new();
        for event in world.events(id) {
            *own.entry(event).or_default() += 1;
        }
        for (event, count) in own {
            let entry = all.entry(event).or_default();
            *entry = (entry.0 + count, entry.1.max(count));
        }
    }
    all
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time that other processes really take"
)]
#[test]
fn three_machines_under_blows_do_every_job_once() {
    let jobs =
        told("COUNTERSIGN_JOBS").map_or(16, |text| text.into_string().unwrap().parse().unwrap());
    let mut world = World::with_settings(PLAIN);
    let Some(database) = Database::start(&mut world) else {
        return;
    };
    let world = database.world;
    let shared = shared(world);
    world.crew(&builder());
    let Some(net) = Net::build(world) else { return };
    // Each is a build and a check.
    let ids: Vec<String> = (1..=jobs / 2).map(|number| format!("t{number}")).collect();
    add_all(world, &ids);
    let wanted = ids.len() as u64;
    let began = Instant::now();
    let mut workers = [1, 2, 3].map(|number| net.worker(number));
    let mut blows = Blows::default();
    for round in 0.. {
        let pause = if round == 0 {
            FIRST_BLOW
        } else {
            BETWEEN_BLOWS
        };
        let finished = reached(pause, || done(world) == wanted);
        if finished {
            break;
        }
        assert!(
            round < 2 * jobs,
            "it does not end: {} of {wanted} are done",
            done(world)
        );
        strike(&net, &mut workers, &mut blows, round);
        if jobs > 100 {
            say(&format!(
                "workers: {} of {wanted} done after {} s, {blows:?}",
                done(world),
                began.elapsed().as_secs()
            ));
        }
    }
    let took = began.elapsed();
    drop(workers);
    let counted = counted(world, &ids);
    say(&format!(
        "workers: {jobs} jobs in {} s under {blows:?}: {counted:?}",
        took.as_secs()
    ));
    for event in ["created", "submitted", "checked"] {
        assert_eq!(counted[event], (ids.len(), 1), "{event}");
    }
    world.call(&["doctor", "--verify-log"]).ends_with(0);
    let kept = world.git(&[
        "--git-dir",
        &shared,
        "for-each-ref",
        "--format=%(refname)",
        "refs/heads/countersign",
    ]);
    assert_eq!(kept.lines().count(), ids.len(), "every result is there");
    world.git(&["--git-dir", &shared, "fsck", "--strict", "--no-dangling"]);
}
