//! Projects whose checkouts are of no use before something has been fetched or built.

use serde_json::json;

use super::{greet, merges, on};
use crate::support::crew::{GOOD, always, approves, built_by, crew, runs, verifies, writes};
use crate::support::{DEADLINE, SETTINGS, World};

/// The setup counts itself: a cache that was copied in is not made again.
const SETUP: &str = "\
[setup]
run = \"mkdir -p vendor ~/.store; [ -e vendor/tool ] || echo made > vendor/tool; echo fetched >> ~/.store/log\"
caches = [\"vendor\", \"~/.store\"]
";

fn world(setup: &str, check: &str) -> World {
    let world = World::without_commits();
    let settings = SETTINGS.replace("sh test.sh", check);
    world.write("README.md", "# greetings\n");
    world.write(".gitignore", "vendor/\n");
    world.write("countersign.toml", &format!("{setup}{settings}"));
    world.commit("A project with a setup");
    world
}

#[test]
fn everybody_finds_the_caches_and_none_of_them_lands() {
    let world = world(
        SETUP,
        "[ $(cat vendor/tool) = made ] && [ $(wc -l < ~/.store/log) = 2 ] && rm -r vendor",
    );
    let build = vec![
        runs("[ $(cat vendor/tool) = made ] && [ $(wc -l < ~/.store/log) = 2 ]"),
        // A builder's changes in a cache reach no other run.
        runs("echo poison > vendor/tool; echo poison >> ~/.store/log"),
        writes("greet.sh", GOOD),
        json!({"result": {"summary": "Done."}}),
    ];
    let mut review = vec![runs(
        "cd \"$COUNTERSIGN_COPY\" && [ $(cat vendor/tool) = made ] && echo mine > vendor/tool && sh greet.sh Ada",
    )];
    review.extend(approves());
    greet(
        &world,
        &crew(&always(build), &always(review), &always(verifies(&[]))),
    )
    .ends_with(0);
    assert_eq!(merges(&world), 1);
    assert_eq!(on(&world, "main", "greet.sh"), GOOD.trim_end());
    let landed = world.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!landed.contains("vendor"), "{landed}");
}

#[test]
fn a_setup_that_is_red_on_the_base_too_asks_a_person() {
    let world = world("[setup]\nrun = \"echo no such registry; exit 3\"\n", "true");
    let build = vec![writes("greet.sh", GOOD)];
    greet(&world, &built_by(&always(build)))
        .ends_with(4)
        .says("setup");
    assert_eq!(merges(&world), 0);
}

#[test]
fn a_cache_outside_of_the_checkout_is_refused_before_anything_starts() {
    let world = world(
        "[setup]\nrun = \"true\"\ncaches = [\"../secrets\"]\n",
        "true",
    );
    let build = vec![writes("greet.sh", GOOD)];
    greet(&world, &built_by(&always(build)))
        .ends_with(2)
        .says("is not a valid cache");
}

#[test]
fn two_tickets_at_once_share_one_cache() {
    let setup = "[setup]\nrun = \"mkdir -p vendor; [ -e vendor/tool ] || head -c 16 /dev/urandom | od -An -tx1 > vendor/tool\"\ncaches = [\"vendor\"]\n";
    let world = world(setup, "test -e vendor/tool");
    let build = vec![
        runs("cp vendor/tool made.txt; echo mine >> vendor/tool"),
        json!({"result": {"summary": "Done."}}),
    ];
    let agents = crew(&always(build), &always(approves()), &always(verifies(&[])));
    let agent = world.crew(&agents);
    let runs: Vec<_> = ["one", "two"]
        .iter()
        .map(|id| {
            let ticket = world.put(&format!("{id}.md"), format!("---\nid: {id}\n---\n# Copy\n"));
            let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
            world.start(&[&words[..], &["--land", "branch"]].concat())
        })
        .collect();
    for run in runs {
        run.wait(DEADLINE).ends_with(0);
    }
    let [one, two] = ["one", "two"].map(|id| on(&world, &format!("countersign/{id}"), "made.txt"));
    assert_eq!(one, two);
    assert!(!one.contains("mine"), "{one}");
}
