//! Tests on real work trees, with landings that are stopped after every step.

use std::os::unix::fs::symlink;

use super::super::tests::{GitFixture, make_executable, write};
use super::*;

const SHORT: LandingTimeouts = LandingTimeouts {
    landing: Duration::from_secs(60),
    index: Duration::from_millis(300),
    blocked: Duration::from_millis(50),
};

/// A change of every kind: a file that is replaced, added, removed or made executable; a link; a
/// file that becomes a directory, and the reverse.
struct Kinds {
    ground: GitFixture,
    old: Oid,
    new: Oid,
}

impl Kinds {
    async fn new() -> Self {
        let ground = GitFixture::new().await;
        let repo = ground.repo();
        for (name, text) in [
            ("replaced", "old\n"),
            ("removed/deep/x", "old\n"),
            ("script", "echo\n"),
            ("swells", "a file\n"),
            ("shrinks/one", "1\n"),
            ("shrinks/two/three", "3\n"),
        ] {
            write(&repo.join(name), text);
        }
        symlink("replaced", repo.join("link")).unwrap();
        let old = ground.commit_everything("before").await;
        write(&repo.join("replaced"), "new\n");
        write(&repo.join("na\nme/ü"), "added\n");
        make_executable(&repo.join("script"));
        for gone in ["removed", "swells", "shrinks", "link"] {
            remove_tree(&repo.join(gone)).unwrap();
        }
        write(&repo.join("swells/inside"), "a directory\n");
        write(&repo.join("shrinks"), "a file\n");
        symlink("script", repo.join("link")).unwrap();
        let new = ground.commit_everything("after").await;
        ground.git(&["reset", "-q", "--hard", old.as_str()]);
        Self { ground, old, new }
    }

    #[track_caller]
    fn must_be_at(&self, commit: &Oid) {
        let ground = &self.ground;
        assert_eq!(ground.git(&["rev-parse", "main"]), commit.as_str());
        assert_eq!(ground.git(&["status", "--porcelain"]), "");
        // Ignore what the index remembers of the files.
        ground.git(&["update-index", "--really-refresh"]);
        assert_eq!(ground.git(&["diff", "--stat", "HEAD"]), "");
        assert_eq!(ground.left_behind(), Vec::<PathBuf>::new());
    }
}

impl GitFixture {
    async fn commit_everything(&self, message: &str) -> Oid {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.main().await
    }

    /// Returns the change as a commit that the branch does not have yet.
    async fn next(&self, edit: impl FnOnce(&Path)) -> (Oid, Oid) {
        let old = self.main().await;
        edit(&self.repo());
        let new = self.commit_everything("next").await;
        self.git(&["reset", "-q", "--hard", old.as_str()]);
        (old, new)
    }

    async fn lands(&self, old: &Oid, new: &Oid) -> LandingOutcome {
        let landed = self.repository.land_within("main", new, old, SHORT).await;
        landed.unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.repo().join(name)).unwrap()
    }

    /// Returns files of ours that are no longer needed.
    fn left_behind(&self) -> Vec<PathBuf> {
        let git = self.repo().join(".git");
        let names = [
            "index.lock",
            "countersign-landing/journal.json",
            "countersign-landing/stage",
            "countersign-landing/index",
        ];
        let paths = names.iter().map(|name| git.join(name));
        paths.filter(|path| path.exists()).collect()
    }
}

#[track_caller]
fn why(landed: LandingOutcome) -> String {
    match landed {
        LandingOutcome::Blocked { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_kind_of_change_is_brought_into_a_clean_work_tree() {
    let kinds = Kinds::new().await;
    let landed = kinds.ground.lands(&kinds.old, &kinds.new).await;
    assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
    kinds.must_be_at(&kinds.new);
    let back = kinds.ground.lands(&kinds.new, &kinds.old).await;
    assert!(matches!(back, LandingOutcome::Done { .. }), "{back:?}");
    kinds.must_be_at(&kinds.old);
}

/// Stops after each of these steps: the journal, the lock, the new index, each file, the index, the
/// branch.
#[tokio::test]
async fn a_landing_that_is_killed_after_any_step_is_undone_or_finished() {
    let kinds = Kinds::new().await;
    let (repository, old, new) = (&kinds.ground.repository, &kinds.old, &kinds.new);
    let mut instant = 0_usize;
    loop {
        let places = repository.places_on("main").await.unwrap().unwrap();
        let plans = repository
            .plan_landing(places, old, new)
            .await
            .unwrap()
            .unwrap();
        let journal = LandingJournal::new("main", old, new, &plans);
        repository.write_journal(&journal).unwrap();
        let plan = &plans[0];
        let (last_file, mut done) = (2 + plan.steps.len(), false);
        if instant > 0 {
            plan.index_files().lock(Duration::ZERO).await.unwrap();
        }
        if instant > 1 {
            let made = repository.make_next_index(plan, old, new).await.unwrap();
            made.unwrap();
        }
        for (number, step) in plan
            .steps
            .iter()
            .enumerate()
            .take(instant.saturating_sub(2))
        {
            step.apply(plan.site(), number).unwrap();
        }
        if instant > last_file {
            repository.refresh_index(plan).await.unwrap();
            plan.index_files().replace().unwrap();
        }
        if instant > last_file + 1 {
            repository.swap_branch("main", new, old).await.unwrap();
            done = true;
        }
        if instant % 3 == 1 {
            // A user who does not know the lock removes it.
            fs::remove_file(kinds.ground.repo().join(".git/index.lock")).unwrap();
        }
        repository.recover_landing().await.unwrap();
        kinds.must_be_at(if done { new } else { old });
        if done {
            return;
        }
        instant += 1;
    }
}

#[tokio::test]
async fn a_file_that_is_written_to_in_the_last_instant_is_kept() {
    for name in ["replaced", "removed/deep/x", "na\nme/ü"] {
        let kinds = Kinds::new().await;
        let (repository, old, new) = (&kinds.ground.repository, &kinds.old, &kinds.new);
        let places = repository.places_on("main").await.unwrap().unwrap();
        let plans = repository
            .plan_landing(places, old, new)
            .await
            .unwrap()
            .unwrap();
        write(&kinds.ground.repo().join(name), "the person's\n");
        let journal = LandingJournal::new("main", old, new, &plans);
        repository.write_journal(&journal).unwrap();
        let outcome = repository.execute(&journal, &plans, SHORT).await;
        assert!(why(outcome.unwrap()).contains("is being changed"));
        assert!(!repository.finish_or_undo(&journal, &plans).await.unwrap());
        assert_eq!(kinds.ground.text(name), "the person's\n");
        let dirty = kinds.ground.git(&["status", "--porcelain"]);
        assert_eq!(dirty.lines().count(), 1, "{dirty}");
        assert_eq!(kinds.ground.main().await, *old);
        assert_eq!(kinds.ground.left_behind(), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn what_a_person_changed_in_other_files_stays_as_it_is() {
    let ground = GitFixture::new().await;
    let (old, new) = ground
        .next(|repo| write(&repo.join("src/lib.rs"), "fn new() {}\n"))
        .await;
    write(&ground.repo().join("README"), "staged\n");
    ground.git(&["add", "README"]);
    write(&ground.repo().join("README"), "and edited\n");
    write(&ground.repo().join(".gitignore"), "edited\n");
    write(&ground.repo().join("notes.txt"), "new\n");
    let before = ground.git(&["status", "--porcelain"]);
    let landed = ground.lands(&old, &new).await;
    assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
    assert_eq!(ground.git(&["status", "--porcelain"]), before);
    assert_eq!(ground.git(&["show", ":README"]), "staged");
    assert_eq!(ground.text("README"), "and edited\n");
    assert_eq!(ground.text("src/lib.rs"), "fn new() {}\n");
}

/// A path, and what a user does with it.
type Edit<'a> = (&'a str, Box<dyn Fn() + 'a>);

#[tokio::test]
async fn a_persons_change_to_the_same_file_holds_the_landing_and_is_named() {
    let ground = GitFixture::new().await;
    let (old, new) = ground
        .next(|repo| {
            write(&repo.join("README"), "thr\n");
            write(&repo.join("d/x"), "added\n");
            write(&repo.join("e"), "added\n");
        })
        .await;
    let readme = ground.repo().join("README");
    let stamp = fs::metadata(&readme).unwrap().modified().unwrap();
    let same_time = |text: &str| {
        fs::write(&readme, text).unwrap();
        let file = fs::File::options().write(true).open(&readme).unwrap();
        file.set_modified(stamp).unwrap();
    };
    let repo = ground.repo();
    let edits: [Edit<'_>; 7] = [
        ("README", Box::new(|| write(&readme, "edited\n"))),
        ("README", Box::new(|| same_time("own\n"))),
        ("README", Box::new(|| make_executable(&readme))),
        ("README", Box::new(|| fs::remove_file(&readme).unwrap())),
        ("d", Box::new(|| write(&repo.join("d"), "in the way\n"))),
        ("d", Box::new(|| symlink("/tmp", repo.join("d")).unwrap())),
        ("e", Box::new(|| write(&repo.join("e/f"), "in the way\n"))),
    ];
    for (name, edit) in edits {
        edit();
        let before = ground.git(&["status", "--porcelain"]);
        let why = why(ground.lands(&old, &new).await);
        assert!(why.contains(name), "{why}");
        assert_eq!(ground.git(&["status", "--porcelain"]), before);
        assert_eq!(ground.main().await, old);
        assert_eq!(ground.left_behind(), Vec::<PathBuf>::new());
        for made in ["d", "e"] {
            remove_tree(&repo.join(made)).unwrap();
        }
        ground.git(&["reset", "-q", "--hard"]);
    }
    // The change is staged and the file restored: only the index knows.
    write(&readme, "staged\n");
    ground.git(&["add", "README"]);
    write(&readme, "two\n");
    let why = why(ground.lands(&old, &new).await);
    assert!(why.contains("README"), "{why}");
    assert_eq!(ground.git(&["show", ":README"]), "staged");
}

#[tokio::test]
async fn all_work_trees_on_the_branch_go_with_it_or_none() {
    let ground = GitFixture::new().await;
    let second = ground.repo().with_file_name("second");
    let aside = ground.repo().with_file_name("aside");
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    ground.git(&["worktree", "add", "-q", "--force", &path(&second), "main"]);
    ground.git(&["worktree", "add", "-q", "--detach", &path(&aside), "main"]);
    let (old, new) = ground
        .next(|repo| write(&repo.join("README"), "three\n"))
        .await;
    let status = |dir: &Path| ground.git(&["-C", &path(dir), "status", "--porcelain"]);
    write(&second.join("README"), "edited\n");
    assert!(why(ground.lands(&old, &new).await).contains("README"));
    assert_eq!(ground.text("README"), "two\n");
    write(&second.join("README"), "two\n");
    let landed = ground.lands(&old, &new).await;
    let LandingOutcome::Done { forwarded } = landed else {
        panic!("{landed:?}")
    };
    assert_eq!(forwarded.len(), 2);
    for dir in [&ground.repo(), &second] {
        assert_eq!(fs::read_to_string(dir.join("README")).unwrap(), "three\n");
        assert_eq!(status(dir), "");
    }
    assert_eq!(fs::read_to_string(aside.join("README")).unwrap(), "two\n");
    assert_eq!(status(&aside), "");
    assert_eq!(ground.left_behind(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn settings_of_the_work_tree_are_kept() {
    for settings in [
        &["core.autocrlf=true"][..],
        &["core.splitIndex=true", "splitIndex.maxPercentChange=0"],
        &["core.untrackedCache=true", "index.version=4"],
        &["core.fileMode=false"],
        &["core.symlinks=false"],
        &["feature.manyFiles=true"],
    ] {
        let kinds = Kinds::new().await;
        let ground = &kinds.ground;
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap();
            ground.git(&["config", key, value]);
        }
        // Write the files again under these settings.
        for entry in fs::read_dir(ground.repo()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != ".git" {
                remove_tree(&entry.path()).unwrap();
            }
        }
        fs::remove_file(ground.repo().join(".git/index")).unwrap();
        ground.git(&["reset", "-q", "--hard"]);
        let landed = ground.lands(&kinds.old, &kinds.new).await;
        assert!(
            matches!(landed, LandingOutcome::Done { .. }),
            "{settings:?}: {landed:?}"
        );
        kinds.must_be_at(&kinds.new);
    }
}

#[tokio::test]
async fn a_sparse_checkout_stays_sparse() {
    for index in ["--no-sparse-index", "--sparse-index"] {
        let ground = GitFixture::new().await;
        write(&ground.repo().join("in/a"), "a\n");
        write(&ground.repo().join("out/b"), "b\n");
        ground.commit_everything("more").await;
        let (old, new) = ground
            .next(|repo| {
                write(&repo.join("in/a"), "aa\n");
                write(&repo.join("in/new"), "n\n");
                write(&repo.join("out/b"), "bb\n");
                write(&repo.join("out/new"), "n\n");
            })
            .await;
        ground.git(&["sparse-checkout", "set", "--cone", index, "in"]);
        assert!(!ground.repo().join("out").exists());
        let landed = ground.lands(&old, &new).await;
        assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
        assert_eq!(ground.git(&["status", "--porcelain"]), "");
        assert_eq!(ground.text("in/a"), "aa\n");
        assert_eq!(ground.text("in/new"), "n\n");
        let flags = ground.git(&["ls-files", "-t"]);
        assert!(!ground.repo().join("out").exists(), "{index}: {flags}");
    }
}

#[tokio::test]
async fn a_submodule_is_an_entry_of_the_index_and_a_place() {
    let ground = GitFixture::new().await;
    let old = ground.main().await;
    let entry = format!("160000,{old},sub");
    ground.git(&["update-index", "--add", "--cacheinfo", &entry]);
    ground.git(&["commit", "-q", "-m", "a submodule"]);
    let new = ground.main().await;
    ground.git(&["reset", "-q", "--hard", old.as_str()]);
    let landed = ground.lands(&old, &new).await;
    assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
    assert!(ground.repo().join("sub").is_dir());
}

#[tokio::test]
async fn whoever_has_the_index_for_a_while_is_waited_for() {
    let ground = GitFixture::new().await;
    let (old, new) = ground.next(|repo| write(&repo.join("x"), "x\n")).await;
    let lock = ground.repo().join(".git/index.lock");
    write(&lock, "");
    let refused = ground
        .repository
        .land_within("main", &new, &old, SHORT)
        .await
        .unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(lock.exists(), "it is not ours to remove");
    assert_eq!(ground.main().await, old);
    assert!(!ground.repo().join("x").exists());
    let landing = ground.repository.land("main", &new, &old);
    let release = async {
        let begun = ground.repo().join(".git/countersign-landing/journal.json");
        while !begun.exists() {
            tokio::task::yield_now().await;
        }
        fs::remove_file(&lock).unwrap();
    };
    let (landed, ()) = tokio::join!(landing, release);
    assert!(matches!(landed.unwrap(), LandingOutcome::Done { .. }));
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
    assert_eq!(ground.left_behind(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn an_operation_that_waits_to_be_finished_is_not_disturbed() {
    let ground = GitFixture::new().await;
    let (old, new) = ground.next(|repo| write(&repo.join("x"), "x\n")).await;
    let git = ground.repo().join(".git");
    write(&git.join("MERGE_HEAD"), old.as_str());
    assert!(why(ground.lands(&old, &new).await).contains("merge"));
    fs::remove_file(git.join("MERGE_HEAD")).unwrap();
    // During a rebase no work tree has the branch checked out.
    ground.git(&["checkout", "-q", "--detach"]);
    write(&git.join("rebase-merge/head-name"), "refs/heads/main\n");
    assert!(why(ground.lands(&old, &new).await).contains("rebase of main"));
    assert_eq!(ground.main().await, old);
}

/// Random trees of a few names, so that files, links and directories replace each other.
#[tokio::test]
async fn any_change_of_a_small_tree_lands_there_and_back() {
    const NAMES: [&str; 7] = ["a", "a/b", "a/b/c", "d", "D", "sp ace", "a/é"];
    let ground = GitFixture::new().await;
    let mut state = 20_u64;
    let mut number = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut before = ground.main().await;
    for _ in 0..10 {
        let old = before.clone();
        for name in NAMES {
            remove_tree(&ground.repo().join(name)).unwrap();
        }
        for name in NAMES {
            let full = ground.repo().join(name);
            let free = full
                .ancestors()
                .skip(1)
                .all(|dir| fs::symlink_metadata(dir).map_or(true, |meta| meta.is_dir()));
            if !free || full.exists() {
                continue;
            }
            match number(4) {
                0 => {}
                1 => {
                    fs::create_dir_all(full.parent().unwrap()).unwrap();
                    symlink("nowhere", &full).unwrap();
                }
                kind => {
                    write(&full, &format!("{}\n", number(3)));
                    if kind == 3 {
                        make_executable(&full);
                    }
                }
            }
        }
        ground.git(&["add", "-A"]);
        ground.git(&["commit", "-q", "--allow-empty", "-m", "a tree"]);
        let new = ground.main().await;
        ground.git(&["reset", "-q", "--hard", old.as_str()]);
        for (from, to) in [(&old, &new), (&new, &old), (&old, &new)] {
            let landed = ground.lands(from, to).await;
            assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
            assert_eq!(ground.git(&["status", "--porcelain"]), "");
            ground.git(&["update-index", "--really-refresh"]);
            assert_eq!(ground.git(&["diff", "--stat", "HEAD"]), "");
        }
        before = new;
    }
}

#[test]
fn every_path_comes_back_from_the_journal() {
    use std::ffi::OsStr;

    use journal::path_text::{decode, encode};
    for bytes in [&b"plain/x"[..], b"a%b\n", b"\xff\xfe/ok", b"\xc3\xa9"] {
        let path = PathBuf::from(OsStr::from_bytes(bytes));
        assert_eq!(decode(&encode(&path)), Some(path));
    }
    assert_eq!(decode("a%zz"), None);
    assert_eq!(decode("a%4"), None);
}
