//! Tests changes that `git status` does not show, and read commands that change nothing.
#![expect(clippy::disallowed_methods, reason = "git as a reviewer runs it")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;

fn git(dir: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=P", "-c", "user.email=p@example.org"];
    let output = Command::new("git")
        .current_dir(dir)
        .args(identity)
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{args:?} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn checkout() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    git(root, &["init", "-q", "-b", "main"]);
    write(root, ".gitignore", "ignored/\n");
    write(root, "src/lib.rs", "fn a() {}\n");
    write(root, "tool.sh", "#!/bin/sh\n");
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "one"]);
    write(root, "ignored/cache", "cache");
    std::os::unix::fs::symlink("cache", root.join("ignored/link")).unwrap();
    write(root, "vendor/inner/x", "x");
    git(&root.join("vendor/inner"), &["init", "-q"]);
    git(&root.join("vendor/inner"), &["add", "-A"]);
    git(&root.join("vendor/inner"), &["commit", "-q", "-m", "inner"]);
    dir
}

fn old_time(path: &Path) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[test]
fn eight_tamperings_that_git_status_does_not_show() {
    let dir = checkout();
    let root = dir.path();
    let tamperings: &[(&str, &dyn Fn())] = &[
        ("ignored/cache", &|| write(root, "ignored/cache", "other")),
        ("ignored/new", &|| write(root, "ignored/new", "x")),
        ("src/lib.rs", &|| {
            git(root, &["update-index", "--assume-unchanged", "src/lib.rs"]);
            write(root, "src/lib.rs", "fn evil() {}\n");
        }),
        ("tool.sh", &|| {
            git(root, &["update-index", "--skip-worktree", "tool.sh"]);
            fs::set_permissions(root.join("tool.sh"), fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("vendor/inner/.git/hooks/pre-commit", &|| {
            write(root, "vendor/inner/.git/hooks/pre-commit", "evil");
        }),
        (".git/hooks/post-checkout", &|| {
            write(root, ".git/hooks/post-checkout", "evil");
        }),
        (".git/config", &|| {
            git(root, &["config", "alias.x", "!evil"]);
        }),
        (".git/refs/heads/other", &|| {
            git(root, &["branch", "other"]);
        }),
        ("empty", &|| fs::create_dir(root.join("empty")).unwrap()),
        ("ignored/link", &|| {
            fs::remove_file(root.join("ignored/link")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", root.join("ignored/link")).unwrap();
        }),
    ];
    let status = || git(root, &["status", "--porcelain", "--ignore-submodules=none"]);
    let clean = status();
    for (path, tamper) in tamperings {
        let before = take_manifest(root).unwrap();
        tamper();
        let changes = diff(&before, &take_manifest(root).unwrap());
        assert!(
            changes.iter().any(|change| change.path == Path::new(path)),
            "{path}: {changes:?}"
        );
        assert_eq!(status(), clean, "git status sees {path} by itself");
    }
}

#[test]
fn the_same_size_and_time_do_not_hide_other_content() {
    let dir = checkout();
    let file = dir.path().join("src/lib.rs");
    old_time(&file);
    let before = take_manifest(dir.path()).unwrap();
    write(dir.path(), "src/lib.rs", "fn b() {}\n");
    old_time(&file);
    let changes = diff(&before, &take_manifest(dir.path()).unwrap());
    assert_eq!(
        changes,
        [ManifestChange {
            path: "src/lib.rs".into(),
            what: ManifestChangeKind::Content
        }]
    );
}

#[test]
fn every_kind_of_change_has_its_word() {
    let dir = checkout();
    let root = dir.path();
    let before = take_manifest(root).unwrap();
    fs::remove_file(root.join(".gitignore")).unwrap();
    fs::set_permissions(root.join("tool.sh"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(root.join("src/lib.rs")).unwrap();
    fs::create_dir(root.join("src/lib.rs")).unwrap();
    write(root, "zz", "new");
    let changes = diff(&before, &take_manifest(root).unwrap());
    let words: Vec<_> = changes
        .iter()
        .map(|c| (c.path.to_str().unwrap(), c.what))
        .collect();
    let wanted = [
        (".gitignore", ManifestChangeKind::Vanished),
        ("src/lib.rs", ManifestChangeKind::BecameAnotherType),
        ("tool.sh", ManifestChangeKind::Mode),
        ("zz", ManifestChangeKind::Appeared),
    ];
    assert_eq!(words, wanted);
}

#[test]
fn honest_reading_changes_nothing() {
    let dir = checkout();
    let before = take_manifest(dir.path()).unwrap();
    for args in [
        &["status"][..],
        &["log"],
        &["diff", "HEAD"],
        &["blame", "src/lib.rs"],
    ] {
        git(dir.path(), args);
    }
    let after = take_manifest(dir.path()).unwrap();
    assert_eq!(diff(&before, &after), []);
    assert_eq!(before.digest(), after.digest());
}

#[test]
fn ten_thousand_files_are_taken() {
    let dir = TempDir::new().unwrap();
    for number in 0..10_000 {
        let path = dir.path().join(format!("d{}/f{number}", number % 100));
        if number < 100 {
            fs::create_dir(path.parent().unwrap()).unwrap();
        }
        fs::write(path, number.to_string()).unwrap();
    }
    let manifest = take_manifest(dir.path()).unwrap();
    assert_eq!(manifest.len(), 10_100);
}
