//! Tests on real repositories, some of them prepared as traps.

mod bundles;
mod checkouts;
mod forms;
mod gate;
mod landing;
mod scans;
mod styles;
mod submodules;
mod traps;
mod worktrees;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

pub(super) struct GitFixture {
    dir: TempDir,
    pub(super) repository: Repository,
}

impl GitFixture {
    /// Creates a repository on `main` with two commits.
    pub(super) async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        write(&repo.join("README"), "one\n");
        write(
            &repo.join("src/lib.rs"),
            "fn a() {}\nfn b() {}\nfn c() {}\n",
        );
        write(&repo.join(".gitignore"), "ignored/\n");
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-q", "-m", "first"]);
        write(&repo.join("README"), "two\n");
        git(&repo, &["commit", "-q", "-am", "second"]);
        let repository = Repository::open(tool(), &repo).await.unwrap();
        Self { dir, repository }
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        git(&self.repo(), args)
    }

    pub(super) async fn main(&self) -> Oid {
        self.repository.resolve("main").await.unwrap()
    }

    async fn worktree(&self, name: &str) -> Worktree {
        let path = self.dir.path().join("trees").join(name);
        let branch = format!("countersign/{name}");
        self.repository
            .ensure_worktree(&branch, &self.main().await, &path)
            .await
            .unwrap()
    }

    /// Creates a branch with one commit that writes one file.
    pub(super) async fn change(&self, name: &str, path: &str, text: &str) -> Oid {
        let tree = self.worktree(name).await;
        write(&tree.path.join(path), text);
        let committed = self
            .repository
            .commit_all(&tree, &builder(), name)
            .await
            .unwrap();
        committed.commit.unwrap()
    }

    /// Returns the file that planted commands create if they ever run.
    fn evidence(&self) -> PathBuf {
        self.dir.path().join("evidence")
    }

    /// Creates a program that leaves a mark.
    fn evil(&self) -> String {
        let script = self.dir.path().join("evil");
        write(
            &script,
            &format!(
                "#!/bin/sh\necho ran >> {}\ncat\n",
                self.evidence().display()
            ),
        );
        make_executable(&script);
        script.display().to_string()
    }
}

fn tool() -> GitProgram {
    let program = process::find_program("git".as_ref(), "/usr/bin:/bin".as_ref(), "/".as_ref());
    GitProgram {
        program: program.unwrap(),
        launcher: None,
        network_env: Vec::new(),
    }
}

pub(super) fn builder() -> CommitIdentity {
    CommitIdentity {
        name: "Builder".to_owned(),
        email: "builder@example.org".to_owned(),
    }
}

pub(super) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(super) fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs git as a user or a builder does, including discovery.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = attempt(dir, args);
    let said = String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

fn attempt(dir: &Path, args: &[&str]) -> std::process::Output {
    attempt_with(dir, args, &[])
}

#[expect(
    clippy::disallowed_methods,
    reason = "the repository's owner is not us"
)]
fn attempt_with(dir: &Path, args: &[&str], env: &[(&str, &Path)]) -> std::process::Output {
    let mut command = std::process::Command::new("git");
    command
        .current_dir(dir)
        .args(args)
        .env_remove("GIT_DIR")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Person");
        command.env(format!("GIT_{role}_EMAIL"), "person@example.org");
    }
    command.envs(env.iter().copied());
    command.output().unwrap()
}

#[tokio::test]
async fn a_repository_is_opened_from_anywhere_inside_it() {
    let ground = GitFixture::new().await;
    let inside = Repository::open(tool(), &ground.repo().join("src"))
        .await
        .unwrap();
    assert_eq!(inside.common_dir(), ground.repository.common_dir());
    let tree = ground.worktree("t1").await;
    let linked = Repository::open(tool(), &tree.path).await.unwrap();
    assert_eq!(linked.common_dir(), ground.repository.common_dir());
    assert_eq!(inside.default_base().await.unwrap(), "main");
}

#[tokio::test]
async fn a_bare_repository_is_fine() {
    let ground = GitFixture::new().await;
    let bare = ground.dir.path().join("bare");
    ground.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let repository = Repository::open(tool(), &bare).await.unwrap();
    assert!(repository.is_bare());
    assert_eq!(
        repository.resolve("main").await.unwrap(),
        ground.main().await
    );
    let path = ground.dir.path().join("from-bare");
    let tree = repository
        .ensure_worktree("w", &ground.main().await, &path)
        .await
        .unwrap();
    assert!(tree.path.join("README").exists());
}

#[tokio::test]
async fn no_repository_and_no_commits_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let error = Repository::open(tool(), dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::NotARepository(_)), "{error}");
    git(dir.path(), &["init", "-q"]);
    let error = Repository::open(tool(), dir.path()).await.unwrap_err();
    assert!(matches!(error, Error::NoCommits(_)), "{error}");
}

#[tokio::test]
async fn a_name_that_is_an_option_or_nothing_names_no_commit() {
    let ground = GitFixture::new().await;
    for rev in ["nowhere", "--all", "", "HEAD:README"] {
        let error = ground.repository.resolve(rev).await.unwrap_err();
        assert!(
            matches!(error, Error::UnknownRevision { .. }),
            "{rev}: {error}"
        );
    }
}

#[tokio::test]
async fn the_dirty_list_has_changed_and_new_files() {
    let ground = GitFixture::new().await;
    assert_eq!(
        ground.repository.dirty().await.unwrap(),
        Vec::<String>::new()
    );
    write(&ground.repo().join("README"), "three\n");
    write(&ground.repo().join("new dir/nöw"), "x");
    write(&ground.repo().join("ignored/x"), "x");
    assert_eq!(
        ground.repository.dirty().await.unwrap(),
        ["README", "new dir/nöw"]
    );
}

#[tokio::test]
async fn an_unfinished_merge_is_seen() {
    let ground = GitFixture::new().await;
    assert_eq!(ground.repository.unfinished_operation(), None);
    write(&ground.repo().join(".git/MERGE_HEAD"), "x");
    assert_eq!(ground.repository.unfinished_operation(), Some("merge"));
}

#[tokio::test]
async fn files_changed_tells_renames_counts_and_binaries() {
    let ground = GitFixture::new().await;
    let before = ground.main().await;
    ground.git(&["mv", "src/lib.rs", "src/moved.rs"]);
    write(&ground.repo().join("README"), "three\nfour\n");
    fs::write(ground.repo().join("blob"), [0, 159, 1]).unwrap();
    ground.git(&["add", "-A"]);
    ground.git(&["commit", "-q", "-m", "third"]);
    let changes = ground
        .repository
        .files_changed(&before, &ground.main().await)
        .await
        .unwrap();
    let short: Vec<_> = changes
        .iter()
        .map(|c| (c.path.as_str(), c.status, c.added, c.removed))
        .collect();
    let wanted = [
        ("README", 'M', Some(2), Some(1)),
        ("blob", 'A', None, None),
        ("src/moved.rs", 'R', Some(0), Some(0)),
    ];
    assert_eq!(short, wanted);
    assert_eq!(changes[2].old_path.as_deref(), Some("src/lib.rs"));
}

/// A change keeps its id on another base, and nothing that a reader could see is left out of it.
#[tokio::test]
async fn the_id_of_a_change_covers_place_bytes_and_binary_content() {
    let ground = GitFixture::new().await;
    let repo = ground.repo();
    let function =
        |name: &str, body: &str| format!("fn {name}() {{\n    a();\n{body}    b();\n}}\n");
    // More lines than the context has, so that it is the same wherever the file begins.
    let top = "// top\n".repeat(5);
    let both = |first: &str, second: &str| {
        top.clone() + &function("one", first) + &function("two", second)
    };
    let commit = |name: &str, content: &[u8]| {
        fs::write(repo.join(name), content).unwrap();
        ground.git(&["add", "-A"]);
        ground.git(&["commit", "-q", "-m", name]);
        ground.git(&["rev-parse", "HEAD"])
    };
    let oid = |text: &str| Oid::parse(text.trim()).unwrap();
    let git = &ground.repository;
    let line = "    ok = true;\n";
    // The same line in another function, with other lines around it.
    let base = commit("code.rs", both("", "").as_bytes());
    let one = commit("code.rs", both(line, "").as_bytes());
    commit("code.rs", both("", "").as_bytes());
    let two = commit("code.rs", both("", line).as_bytes());
    let id = git.change_id(&oid(&base), &oid(&one)).await.unwrap();
    let moved = git.change_id(&oid(&base), &oid(&two)).await.unwrap();
    assert_ne!(id, moved);
    // The base grew far above the change: the same id.
    let far = "// header\n".repeat(20);
    let base = commit("code.rs", (far.clone() + &both("", "")).as_bytes());
    let again = commit("code.rs", (far + &both(line, "")).as_bytes());
    let same = git.change_id(&oid(&base), &oid(&again)).await.unwrap();
    assert_eq!(id, same);
    // Binary content and bytes that are no UTF-8.
    let contents: [&[u8]; 4] = [b"a\0good", b"a\0evil", b"text \xff\n", b"text \xfe\n"];
    let mut ids = Vec::new();
    for content in contents {
        let base = commit("file.bin", b"before\n");
        let head = commit("file.bin", content);
        ids.push(git.change_id(&oid(&base), &oid(&head)).await.unwrap());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), contents.len());
}

#[tokio::test]
async fn a_diff_can_have_no_context_and_a_log_has_messages_and_people() {
    let ground = GitFixture::new().await;
    let base = ground.main().await;
    let head = ground
        .change("t1", "src/lib.rs", "fn a() {}\nfn x() {}\nfn c() {}\n")
        .await;
    let diff = ground
        .repository
        .diff(&base, &head, DiffContext::None)
        .await
        .unwrap();
    assert!(diff.text.contains("@@ -2 +2 @@"), "{}", diff.text);
    assert!(
        ground
            .repository
            .diff(&base, &head, DiffContext::Usual)
            .await
            .unwrap()
            .text
            .contains(" fn a() {}")
    );
    let log = ground.repository.log(&base, &head, 10).await.unwrap();
    assert_eq!((log.len(), log[0].message.as_str()), (1, "t1"));
    let people = ground
        .repository
        .authors_and_committers(&base, &head)
        .await
        .unwrap();
    assert_eq!(
        people,
        [CommitPerson {
            name: "Builder".into(),
            email: "builder@example.org".into()
        }]
    );
}

#[tokio::test]
async fn rewriting_below_the_base_shows() {
    let ground = GitFixture::new().await;
    let (base, head) = (ground.main().await, ground.change("t1", "x", "x").await);
    assert!(ground.repository.is_ancestor(&base, &head).await.unwrap());
    ground.git(&["checkout", "-q", "--orphan", "fresh"]);
    ground.git(&["commit", "-q", "-m", "another history"]);
    let other = ground.repository.resolve("fresh").await.unwrap();
    assert!(!ground.repository.is_ancestor(&base, &other).await.unwrap());
    let error = ground
        .repository
        .merge_base(&base, &other)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unrelated { .. }));
}

#[tokio::test]
async fn a_ref_is_kept_once_and_by_compare_and_swap() {
    let ground = GitFixture::new().await;
    let (one, two) = (ground.main().await, ground.change("t1", "x", "x").await);
    let name = "refs/countersign/t1/1";
    let keep = |new: Oid, old: Option<Oid>| {
        let repository = ground.repository.clone();
        async move { repository.keep_ref(name, &new, old.as_ref()).await.unwrap() }
    };
    assert!(keep(one.clone(), None).await);
    assert!(keep(one.clone(), None).await, "the same again is fine");
    assert!(!keep(two.clone(), None).await, "it is there already");
    assert!(keep(two.clone(), Some(one)).await);
    assert_eq!(ground.repository.read_ref(name).await.unwrap(), Some(two));
    ground.repository.sync().await.unwrap();
}
