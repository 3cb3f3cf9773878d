//! Machines that cannot confine, or not as well: namespaces forbidden, a kernel without Landlock.
//! The kernel really refuses, by a filter in front of the program.

use crate::support::crew::smooth;
use crate::support::{Ran, TICKET, World, skip};

const WITHOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/without.py");

/// The words on a machine that lacks these things.
fn call(world: &World, lacks: &str, words: &[&str]) -> Ran {
    world.call_behind(&["python3", "-I", WITHOUT, lacks, "--"], words)
}

fn run(world: &World, lacks: &str) -> Ran {
    let (ticket, crew) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let words = ["run", &ticket, "--builder", &crew, "--reviewer", &crew];
    call(world, lacks, &words)
}

#[test]
fn where_namespaces_are_forbidden_the_last_rung_holds_and_is_on_record() {
    let world = World::new();
    call(&world, "namespaces", &["doctor"])
        .ends_with(0)
        .says("agents run at the sandbox level landlock")
        .says("namespaces are forbidden on this machine")
        .says("kernel.unprivileged_userns_clone");
    run(&world, "namespaces").ends_with(0);
    let ticket = world.ticket("greet").to_string();
    assert!(ticket.contains("landlock sandbox ("), "{ticket}");
}

#[test]
fn on_an_old_kernel_nothing_is_started_unless_the_policy_goes_without() {
    for lacks in ["landlock", "namespaces,landlock"] {
        let world = World::new();
        call(&world, lacks, &["doctor"])
            .ends_with(1)
            .says("no sandbox works")
            .says("the kernel offers Landlock 0, and 6 is needed: use Linux 6.12")
            .says("allow user namespaces, install bubblewrap, or use Linux 6.12 or newer");
        run(&world, lacks)
            .ends_with(1)
            .says("no sandbox works on this machine, so no agent is started")
            .says("allow user namespaces, install bubblewrap, or use Linux 6.12 or newer")
            .says("sandbox = \"off\"");
        assert_eq!(world.events("greet"), Vec::<String>::new());
        let without = World::unconfined();
        run(&without, lacks)
            .ends_with(0)
            .says("agents run with your own rights");
    }
}

/// A layer over the directory that bubblewrap is in, in which it is deleted.
const HIDES_BUBBLEWRAP: &str = "mkdir \"$0/upper\" \"$0/work\" && mknod \"$0/upper/bwrap\" c 0 0 &&
mount -t overlay -o lowerdir=/usr/bin,upperdir=\"$0/upper\",workdir=\"$0/work\" overlay /usr/bin && exec \"$@\"";

#[test]
fn without_bubblewrap_doctor_says_so() {
    let world = World::new();
    let layer = world.root().join("layer");
    std::fs::create_dir(&layer).unwrap();
    let front = ["unshare", "--mount", "sh", "-c", HIDES_BUBBLEWRAP];
    let front = [&front[..], &[layer.to_str().unwrap()]].concat();
    let ran = world.call_behind(&front, &["doctor"]);
    if ran.err.contains("denied") || ran.err.contains("not permitted") {
        skip::is_for_another_user("only root can hide bubblewrap");
        return;
    }
    ran.says("bubblewrap does not: bubblewrap is not installed");
}
