//! Short names of tickets, the repository that lists are about, and the command without a verb.

use crate::support::World;

#[test]
fn the_beginning_of_an_id_or_last_names_a_ticket() {
    let world = World::new();
    world
        .call(&["ticket", "new", "Greet the user politely", "--no-edit"])
        .ends_with(0);
    let list = world.call(&["ticket", "list"]).ends_with(0).out;
    let id = list.split_whitespace().next().unwrap().to_owned();
    let short: String = id.chars().take(id.len() - 2).collect();
    for name in [short.as_str(), "@last", id.as_str()] {
        world.call(&["ticket", "show", name]).ends_with(0).says(&id);
    }
    world
        .call(&[
            "ticket",
            "new",
            "Greet the user politely again",
            "--no-edit",
        ])
        .ends_with(0);
    let common: String = id.chars().take(8).collect();
    let ran = world.call(&["ticket", "show", &common]).ends_with(2);
    assert!(
        ran.err.contains("is the beginning of 2 ticket ids"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains(&id), "{}", ran.err);
    world
        .call(&["ticket", "show", "nothing-like-it"])
        .ends_with(2);
}

/// An unset shell variable must not act on the only ticket, nor a short name on that of another
/// repository.
#[test]
fn a_short_name_means_this_repository_and_an_empty_one_nothing() {
    let world = World::new();
    let new = ["ticket", "new", "Pay the bill", "--no-edit"];
    world.call(&new).ends_with(0);
    let list = world.call(&["ticket", "list"]).ends_with(0).out;
    let id = list.split_whitespace().next().unwrap().to_owned();
    let short: String = id.chars().take(5).collect();
    let other = world.repository.parent().unwrap().join("other");
    let path = other.to_string_lossy().into_owned();
    world.git(&["clone", "--quiet", ".", &path]);
    for name in ["", " ", short.as_str()] {
        for verb in ["cancel", "show"] {
            let mut words = vec!["-C", path.as_str(), "ticket", verb, name];
            words.extend(["--why", "oops"].iter().filter(|_| verb == "cancel"));
            world.call(&words).ends_with(2);
        }
    }
    let whole = ["-C", path.as_str(), "ticket", "show", id.as_str()];
    world.call(&whole).ends_with(0).says("queued");
}

#[test]
fn the_command_alone_says_what_to_do_next() {
    World::empty()
        .call(&[])
        .ends_with(0)
        .says("countersign demo");
    let world = World::without_commits();
    let ran = world.call(&[]).ends_with(0).says("has no commits yet");
    assert!(!ran.out.contains("cd into"), "{}", ran.out);
    world.write("README.md", "# greetings\n");
    world.commit("first");
    world.call(&[]).ends_with(0).says("next: countersign init");
    world.write(
        "countersign.toml",
        "builder = \"claude\"\nreviewer = \"codex\"\n",
    );
    world.commit("settings");
    world.call(&[]).ends_with(0).says("next: countersign run");
    world
        .call(&["ticket", "new", "Greet the user", "--no-edit"])
        .ends_with(0);
    world.call(&[]).ends_with(0).says("Greet the user");
}
