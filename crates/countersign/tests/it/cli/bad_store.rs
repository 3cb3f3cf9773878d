//! Databases that are newer, somebody else's, locked, read-only, unreachable or on a full disk.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use expect_test::{Expect, expect};

use crate::support::crew::smooth;
use crate::support::{Mount, TICKET, World, skip, until};

/// The run is refused, and the repository is as it was.
#[track_caller]
fn run_refused(world: &World, wanted: &Expect) {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let before = world.git(&["for-each-ref"]);
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    wanted.assert_eq(&world.call(&words).complaint(world));
    assert_eq!(world.git(&["for-each-ref"]), before);
    assert!(
        !world.data.join("tickets").exists(),
        "a ticket's files were made"
    );
}

/// A world with a complete, closed database and an empty journal.
fn settled() -> World {
    let world = World::new();
    let path = world.data.join("countersign.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    drop(
        runtime
            .block_on(store::open(path.to_str().unwrap()))
            .unwrap(),
    );
    let journal = world.data.join("countersign.db-wal");
    until("the database is closed", || !journal.exists());
    world
}

/// Offset of the schema version in a file of `SQLite`: four bytes, the highest first.
const VERSION_AT: usize = 60;

#[test]
fn a_database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let world = settled();
    let path = world.data.join("countersign.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[VERSION_AT..VERSION_AT + 4].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&path, &bytes).unwrap();
    run_refused(
        &world,
        &expect![[r#"
            exit 7
            error: the database was written by a newer Countersign (schema 99, this program knows 13); update the program
        "#]],
    );
    assert!(fs::read(&path).unwrap() == bytes, "it was written to");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let world = World::new();
    fs::create_dir_all(&world.data).unwrap();
    let path = world.data.join("countersign.db");
    fs::write(&path, "my own notes\n".repeat(100)).unwrap();
    run_refused(
        &world,
        &expect![[r#"
        exit 1
        error: ROOT/data/countersign.db: this is not a Countersign database (file is not a database); name another file, or move this one away
    "#]],
    );
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("my own notes")
    );
}

#[test]
fn a_database_that_another_process_holds_is_waited_for_and_then_refused() {
    let mut world = settled();
    // A copy, because a process loses its locks with the first handle that it closes.
    let data = world.root().join("held");
    fs::create_dir(&data).unwrap();
    fs::copy(
        world.data.join("countersign.db"),
        data.join("countersign.db"),
    )
    .unwrap();
    world.data = data;
    let file = File::options()
        .read(true)
        .write(true)
        .open(world.data.join("countersign.db"))
        .unwrap();
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    run_refused(
        &world,
        &expect![[r#"
        exit 7
        error: another process holds the database lock: ROOT/held/countersign.db: database is locked; try again, or end the program that holds it
    "#]],
    );
    drop(file);
    world.call(&["status"]).ends_with(0);
}

#[test]
fn a_database_that_cannot_be_written_is_refused() {
    let mut world = settled();
    let Some(mount) = Mount::tmpfs(&world.root().join("disk"), "64m") else {
        return;
    };
    fs::copy(
        world.data.join("countersign.db"),
        mount.path.join("countersign.db"),
    )
    .unwrap();
    mount.make_read_only();
    world.data.clone_from(&mount.path);
    run_refused(
        &world,
        &expect![[r#"
        exit 7
        error: the database cannot be written: ROOT/disk/countersign.db: the file is read-only; make it writable, or name another with --data-dir
    "#]],
    );
}

#[test]
fn a_file_without_the_right_to_write_is_refused_to_an_ordinary_user() {
    let world = settled();
    if rustix::process::geteuid().is_root() {
        skip::is_for_another_user("root may write everything");
        return;
    }
    let path = world.data.join("countersign.db");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let ran = world.call(&["ticket", "add", "Something to do"]);
    ran.ends_with(7).says("cannot be written");
}

/// A world whose data is on a small disk that is filled up to this many free bytes.
fn on_a_small_disk(free: usize) -> Option<(World, Mount)> {
    let mut world = World::new();
    let mount = Mount::tmpfs(&world.root().join("disk"), "24m")?;
    world.data = mount.path.join("data");
    world
        .call(&["ticket", "add", "Something to do"])
        .ends_with(0);
    let reserve = mount.path.join("reserve");
    fs::write(&reserve, vec![0xAB; free]).unwrap();
    fill(&mount.path.join("filler"));
    fs::remove_file(reserve).unwrap();
    Some((world, mount))
}

/// Writes until nothing more goes.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = File::create(path).unwrap();
    let chunk = vec![0xAB; 64 << 10];
    while file.write_all(&chunk).is_ok() {}
    let small = [0xAB; 512];
    while file.write_all(&small).is_ok() {}
}

/// The run that the disk has no room for; nothing was done, and with room it goes through.
#[track_caller]
fn refused_until_there_is_room(world: &World, mount: &Mount) -> (i32, String) {
    let (ticket, agent) = (world.put("greet.md", TICKET), world.crew(&smooth()));
    let before = world.git(&["for-each-ref"]);
    let words = ["run", &ticket, "--builder", &agent, "--reviewer", &agent];
    let ran = world.call(&words);
    assert_eq!(world.git(&["for-each-ref"]), before);
    fs::remove_file(mount.path.join("filler")).unwrap();
    world.call(&["doctor", "--verify-log"]).ends_with(0);
    world.call(&words).ends_with(0);
    world.must_be_sound();
    let sizes = regex::Regex::new(r"\d+ KiB").unwrap();
    let said = world.masked(&ran.err);
    (ran.code, sizes.replace_all(&said, "N KiB").into_owned())
}

#[test]
fn an_almost_full_disk_begins_no_new_work() {
    let Some((world, mount)) = on_a_small_disk(1 << 20) else {
        return;
    };
    let (code, said) = refused_until_there_is_room(&world, &mount);
    expect![[r#"
        exit 7
        error: the disk is full: only N KiB are free, new work needs at least N KiB; free some space, no partial write was kept
    "#]].assert_eq(&format!("exit {code}\n{said}"));
}

#[test]
fn a_full_disk_keeps_what_is_there() {
    let Some((world, mount)) = on_a_small_disk(0) else {
        return;
    };
    let (code, said) = refused_until_there_is_room(&world, &mount);
    assert!([1, 7].contains(&code), "exit {code}: {said}");
    assert!(said.contains("disk"), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let mut world = World::new();
    world.database = Some("postgres://nobody@127.0.0.1:1/nowhere".to_owned());
    run_refused(
        &world,
        &expect![[r#"
            exit 7
            error: the database cannot be reached: Connection refused (os error 111)
              hint: start the database server or correct --database; then run again
        "#]],
    );
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let mut world = World::new();
    world.put("file", "x");
    world.data = world.root().join("file/data");
    run_refused(
        &world,
        &expect![[r#"
        exit 1
        error: cannot create the data directory ROOT/file/data: Not a directory (os error 20)
          hint: choose another with --data-dir DIR
    "#]],
    );
}
