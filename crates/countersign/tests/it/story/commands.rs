//! Any command as an agent: small shell scripts that speak the contract.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{merges, on};
use crate::support::{TICKET, World};

const BUILDER: &str = r#"#!/bin/sh
set -eu
[ "$COUNTERSIGN_CONTRACT" = 1 ] && [ "$COUNTERSIGN_ROLE" = build ]
brief=$(cat)
[ "$brief" = "$(cat "$COUNTERSIGN_BRIEF_FILE")" ]
echo '{"event":"start","session":"s-1","model":"shell"}'
case $COUNTERSIGN_ROUND in
  1) printf 'printf "Hello, %%s\\n" "$1"\n' > greet.sh ;;
  *) printf '[ -n "$1" ] || exit 2\nprintf "Hello, %%s\\n" "$1"\n' > greet.sh ;;
esac
echo '{"event":"usage","usd":0.25,"tokens_in":10,"tokens_out":5}'
echo '{"summary":"Wrote greet.sh."}' > "$COUNTERSIGN_RESULT_FILE"
"#;

const REVIEWER: &str = r#"#!/bin/sh
set -eu
cat > /dev/null
[ "$PWD/change" = "$COUNTERSIGN_CHANGE" ] && cd change
case $COUNTERSIGN_ROLE in
  review)
    if grep -q 'exit 2' greet.sh; then
      echo 'I have read greet.sh.' >&2
      echo '{"verdict":"approve","commit":"'"$COUNTERSIGN_COMMIT"'","complete":true,"findings":[]}'
    else
      echo '{"verdict":"request_changes","findings":[{"severity":"high","file":"greet.sh","line":1,"title":"An empty name is accepted","problem":"It should fail."}]}'
    fi ;;
  verify) echo '{"answers":[{"finding":"F1","outcome":"fixed","evidence":"greet.sh:1"}]}' ;;
esac
"#;

fn script(world: &World, name: &str, text: &str) -> String {
    let path = world.put(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("command:{path}")
}

#[test]
fn two_shell_scripts_build_and_review_by_the_contract() {
    let world = World::new();
    let (builder, reviewer) = (
        script(&world, "builder", BUILDER),
        script(&world, "reviewer", REVIEWER),
    );
    let ticket = world.put("greet.md", TICKET);
    world
        .call(&[
            "run",
            &ticket,
            "--builder",
            &builder,
            "--reviewer",
            &reviewer,
        ])
        .ends_with(0);
    assert_eq!(merges(&world), 1);
    assert!(on(&world, "main", "greet.sh").contains("exit 2"));
    let ticket = world.ticket("greet");
    assert_eq!(ticket["rounds"].as_array().unwrap().len(), 2);
    assert_eq!(ticket["spent"]["ticket"]["usd_micros"], 500_000);
    world.must_be_sound();
}

#[test]
fn an_agent_sees_nothing_of_the_persons_environment_and_home() {
    let world = World::unconfined();
    let seen = world.root().join("seen");
    let spy = format!("{}env > {}\n", BUILDER, seen.display());
    let (builder, reviewer) = (
        script(&world, "builder", &spy),
        script(&world, "reviewer", REVIEWER),
    );
    let ticket = world.put("greet.md", TICKET);
    world
        .call(&[
            "run",
            &ticket,
            "--builder",
            &builder,
            "--reviewer",
            &reviewer,
        ])
        .ends_with(0);
    let seen = fs::read_to_string(seen).unwrap();
    let home = format!("HOME={}\n", world.root().join("home").display());
    assert!(
        !seen.contains(&home) && !seen.contains("USER=ada"),
        "{seen}"
    );
}

#[test]
fn an_agent_that_leaves_children_behind_leaves_none() {
    let world = World::new();
    let text = format!("{BUILDER}(setsid sleep 4321 &) >/dev/null 2>&1\nsleep 4321 &\n");
    let (builder, reviewer) = (
        script(&world, "builder", &text),
        script(&world, "reviewer", REVIEWER),
    );
    let ticket = world.put("greet.md", TICKET);
    world
        .call(&[
            "run",
            &ticket,
            "--builder",
            &builder,
            "--reviewer",
            &reviewer,
        ])
        .ends_with(0);
    assert_eq!(
        crate::support::processes::marked(&world.data),
        Vec::<String>::new()
    );
}
