//! Only the owner may read the data of Countersign. Files that land in the person's work tree follow
//! their umask.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::crew::smooth;
use crate::support::{TICKET, World};

/// Directories of the agents' or git's own; they lie in one that is closed.
const WHOLE: [&str; 10] = [
    "change",
    "checkout",
    "git",
    "home",
    "homes",
    "mirrors",
    "repository",
    "scratch",
    "supplies",
    "worktree",
];

fn open_to_others(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let seen = fs::symlink_metadata(&path).unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_lock = path.extension().is_some_and(|kind| kind == "lock");
        let is_whole = WHOLE.contains(&name.as_str());
        if !seen.is_symlink() && !is_lock && !is_whole && seen.mode() & 0o077 != 0 {
            found.push(path.clone());
        }
        if seen.is_dir() && !is_whole {
            open_to_others(&path, found);
        }
    }
}

fn greet(world: &World, umask: &str) {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let front = ["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"];
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    world.call_behind(&front, &words).ends_with(0);
}

#[test]
fn what_is_kept_is_closed_and_what_lands_follows_the_umask() {
    for (umask, landed) in [
        ("022", 0o644),
        ("002", 0o664),
        ("000", 0o666),
        ("077", 0o600),
    ] {
        let world = World::new();
        greet(&world, umask);
        assert_eq!(fs::metadata(&world.data).unwrap().mode() & 0o777, 0o700);
        let mut found = Vec::new();
        open_to_others(&world.data, &mut found);
        assert!(found.is_empty(), "umask {umask}: {found:?}");
        let file = world.repository.join("greet.sh");
        let mode = fs::metadata(&file).unwrap().mode() & 0o777;
        assert_eq!(mode, landed, "umask {umask}: {mode:o}");
    }
}

#[test]
fn a_directory_of_before_is_closed_with_one_note() {
    let world = World::new();
    greet(&world, "022");
    let top = [
        0o755, 0o775, 0o777, 0o750, 0o711, 0o705, 0o700, 0o770, 0o701, 0o740,
    ];
    for mode in top {
        let run = world.data.join("tickets/greet/jobs/1/run-1");
        for (path, mode) in [
            (world.data.clone(), mode),
            (world.data.join("countersign.db"), 0o644),
            (world.data.join("tickets"), 0o755),
            (run.clone(), 0o755),
            (run.join("transcript.log"), 0o664),
        ] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let ran = world.call(&["ticket", "list"]).ends_with(0);
        assert!(
            ran.err.contains("it is now closed to them"),
            "{mode:o}: {}",
            ran.err
        );
        let mut found = Vec::new();
        open_to_others(&world.data, &mut found);
        assert!(found.is_empty(), "{mode:o}: {found:?}");
        let again = world.call(&["ticket", "list"]).ends_with(0);
        assert_eq!(again.err, "", "told once");
    }
}

#[test]
fn a_linked_directory_is_closed_where_it_leads_and_no_link_in_it_is_followed() {
    let world = World::new();
    let real = world.root().join("real");
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, Permissions::from_mode(0o755)).unwrap();
    let outside = world.put("outside", "the person's");
    fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
    symlink(&outside, real.join("link")).unwrap();
    symlink(&real, &world.data).unwrap();
    world
        .call(&["ticket", "add", "Something to do"])
        .ends_with(0);
    assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let world = World::new();
    if rustix::process::geteuid().is_root() {
        fs::create_dir(&world.data).unwrap();
        std::os::unix::fs::chown(&world.data, Some(12345), Some(12345)).unwrap();
        world
            .call(&["ticket", "list"])
            .ends_with(2)
            .says("belongs to another user (uid 12345")
            .says("--data-dir");
        assert!(fs::read_dir(&world.data).unwrap().next().is_none());
    } else {
        let ran = world.without_data(&["--data-dir", "/", "ticket", "list"]);
        ran.ends_with(2).says("belongs to another user (uid 0");
    }
}
