//! Tests of worktrees that are requested twice, concurrently, and after a kill.

use super::*;

#[tokio::test]
async fn the_same_worktree_can_be_asked_for_twice() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    assert_eq!(tree.origin, WorktreeOrigin::Fresh);
    assert_eq!(
        git(&tree.path, &["rev-parse", "--abbrev-ref", "HEAD"]),
        "countersign/t1"
    );
    write(&tree.path.join("work"), "x");
    let again = ground.worktree("t1").await;
    assert_eq!(again.origin, WorktreeOrigin::Found);
    assert!(again.path.join("work").exists());
}

#[tokio::test]
async fn forty_at_once_all_succeed() {
    let ground = GitFixture::new().await;
    let start = ground.main().await;
    let mut adds = tokio::task::JoinSet::new();
    for number in 0..40 {
        let (repository, start) = (ground.repository.clone(), start.clone());
        let path = ground.dir.path().join(format!("trees/p{number}"));
        adds.spawn(async move {
            repository
                .ensure_worktree(&format!("b/{number}"), &start, &path)
                .await
        });
    }
    while let Some(added) = adds.join_next().await {
        assert!(added.unwrap().unwrap().path.join("README").exists());
    }
}

/// Tests every state that a killed add leaves, made by removing what it creates last.
#[tokio::test]
async fn every_half_made_state_is_made_anew() {
    let damages: &[(&str, &[&str])] = &[
        ("no note", &["NOTE"]),
        ("no index", &["NOTE", "ADMIN/index"]),
        (
            "no pointer",
            &[
                "NOTE",
                "TREE/.git",
                "TREE/README",
                "TREE/src",
                "TREE/.gitignore",
            ],
        ),
        ("no commondir", &["NOTE", "ADMIN/commondir"]),
        ("no gitdir", &["NOTE", "ADMIN/gitdir", "ADMIN/HEAD"]),
        ("no files", &["NOTE", "TREE"]),
        ("no records", &["NOTE", "ADMIN"]),
    ];
    for (what, gone) in damages {
        let ground = GitFixture::new().await;
        let tree = ground.worktree("t1").await;
        for part in *gone {
            let admin = tree.git_dir.display().to_string();
            let part = part
                .replace("ADMIN", &admin)
                .replace("TREE", &tree.path.display().to_string())
                .replace(
                    "NOTE",
                    &tree.path.with_extension("ready").display().to_string(),
                );
            remove_tree(Path::new(&part)).unwrap();
        }
        if tree.git_dir.exists() {
            write(&tree.git_dir.join("index.lock"), "");
            write(&tree.git_dir.join("locked"), "initializing");
        }
        let again = ground.worktree("t1").await;
        assert!(again.path.join("src/lib.rs").exists(), "{what}");
        let dirty = ground.repository.dirty_in(&again).await.unwrap();
        assert_eq!(dirty, Vec::<String>::new(), "{what}");
        assert_eq!(git(&again.path, &["status", "--porcelain"]), "", "{what}");
    }
}

/// Kills git at increasing times after its start.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a git that is killed half-way")]
async fn an_add_that_was_killed_does_not_trip_the_next() {
    let ground = GitFixture::new().await;
    for step in 0..12 {
        let name = format!("k{step}");
        let path = ground.dir.path().join("trees").join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut command = tokio::process::Command::new("git");
        command
            .current_dir(ground.repo())
            .args(["worktree", "add", "-q", "-b"]);
        command
            .arg(format!("countersign/{name}"))
            .arg(&path)
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut spins = 0;
        while spins < step * 40 && child.try_wait().unwrap().is_none() {
            spins += 1;
            tokio::task::yield_now().await;
        }
        child.kill().await.unwrap();
        let tree = ground.worktree(&name).await;
        assert_eq!(
            ground.repository.dirty_in(&tree).await.unwrap(),
            Vec::<String>::new()
        );
    }
}

#[tokio::test]
async fn work_survives_the_loss_of_the_records_and_of_the_pointer() {
    for gone in ["records", "pointer"] {
        let ground = GitFixture::new().await;
        let tree = ground.worktree("t1").await;
        write(&tree.path.join("work"), "hours of it");
        match gone {
            "records" => fs::remove_dir_all(&tree.git_dir).unwrap(),
            _ => fs::remove_file(tree.path.join(".git")).unwrap(),
        }
        let again = ground.worktree("t1").await;
        assert_eq!(again.origin, WorktreeOrigin::Recovered, "{gone}");
        assert_eq!(
            ground.repository.dirty_in(&again).await.unwrap(),
            ["work"],
            "{gone}"
        );
    }
}

#[tokio::test]
async fn a_worktree_whose_files_are_gone_gets_its_branch_back() {
    let ground = GitFixture::new().await;
    ground.change("t1", "committed", "x").await;
    let path = ground.dir.path().join("trees/t1");
    fs::remove_dir_all(&path).unwrap();
    let again = ground.worktree("t1").await;
    assert!(again.path.join("committed").exists());
}

#[tokio::test]
async fn a_directory_of_somebody_elses_is_left_alone() {
    let ground = GitFixture::new().await;
    let path = ground.dir.path().join("theirs");
    write(&path.join("thesis"), "years of it");
    let error = ground
        .repository
        .ensure_worktree("b", &ground.main().await, &path)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Occupied(_)), "{error}");
    assert!(path.join("thesis").exists());
}

#[tokio::test]
async fn removing_saves_what_is_not_committed() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    write(&tree.path.join("README"), "changed\n");
    write(&tree.path.join("new"), "new\n");
    write(&tree.path.join("ignored/x"), "x");
    let keep = "refs/countersign/t1/leftovers";
    let saved = ground
        .repository
        .remove_worktree(&tree, keep)
        .await
        .unwrap()
        .unwrap();
    assert!(!tree.path.exists() && !tree.git_dir.exists());
    assert_eq!(
        ground.repository.read_ref(keep).await.unwrap(),
        Some(saved.clone())
    );
    assert_eq!(
        ground
            .repository
            .file_at(&saved, "new")
            .await
            .unwrap()
            .unwrap(),
        b"new\n"
    );
    assert_eq!(
        ground
            .repository
            .file_at(&saved, "ignored/x")
            .await
            .unwrap(),
        None
    );
    assert!(
        ground
            .repository
            .branch_tip("countersign/t1")
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(
        ground
            .repository
            .remove_worktree(&tree, keep)
            .await
            .unwrap(),
        None,
        "twice is once"
    );
}

#[tokio::test]
async fn commit_all_takes_changed_new_deleted_and_hidden_files() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    // The mark makes git skip the file.
    git(
        &tree.path,
        &["update-index", "--assume-unchanged", "src/lib.rs"],
    );
    write(&tree.path.join("src/lib.rs"), "fn hidden() {}\n");
    fs::remove_file(tree.path.join("README")).unwrap();
    write(&tree.path.join("README/now a directory"), "x");
    write(&tree.path.join("-option"), "x");
    std::os::unix::fs::symlink("/etc/passwd", tree.path.join("link")).unwrap();
    write(&tree.git_dir.join("index.lock"), "left by a killed git");
    let committed = ground
        .repository
        .commit_all(&tree, &builder(), "all of it")
        .await
        .unwrap();
    let head = committed.commit.unwrap();
    let files = ground.git(&["ls-tree", "-r", "--name-only", head.as_str()]);
    assert_eq!(
        files,
        "-option\n.gitignore\nREADME/now a directory\nlink\nsrc/lib.rs"
    );
    let hidden = ground
        .repository
        .file_at(&head, "src/lib.rs")
        .await
        .unwrap();
    assert_eq!(hidden.unwrap(), b"fn hidden() {}\n");
    assert_eq!(git(&tree.path, &["status", "--porcelain"]), "");
    let again = ground
        .repository
        .commit_all(&tree, &builder(), "nothing")
        .await
        .unwrap();
    assert_eq!(again.commit, None);
}

#[tokio::test]
async fn a_commit_never_goes_to_a_branch_that_is_not_the_worktrees() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    git(&tree.path, &["switch", "-q", "-c", "elsewhere"]);
    write(&tree.path.join("x"), "x");
    let error = ground
        .repository
        .commit_all(&tree, &builder(), "work")
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::WrongBranch { found, .. } if found == "elsewhere"),
        "{error}"
    );
}

#[tokio::test]
async fn a_directory_that_became_a_link_is_committed_as_one() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    fs::rename(tree.path.join("src"), tree.path.join("source")).unwrap();
    std::os::unix::fs::symlink("source", tree.path.join("src")).unwrap();
    let committed = ground
        .repository
        .commit_all(&tree, &builder(), "w")
        .await
        .unwrap();
    let files = ground.git(&[
        "ls-tree",
        "-r",
        "--name-only",
        committed.commit.unwrap().as_str(),
    ]);
    assert_eq!(files, ".gitignore\nREADME\nsource/lib.rs\nsrc");
}

#[tokio::test]
async fn a_lock_that_a_killed_git_left_at_a_ref_of_ours_is_in_nobodys_way() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let git_dir = ground.repo().join(".git");
    write(&git_dir.join("refs/heads/countersign/t1.lock"), "");
    let again = ground.worktree("t1").await;
    assert_eq!(again.path, tree.path);
    git(&again.path, &["commit", "--allow-empty", "-qm", "on it"]);
    let name = "refs/countersign/t1/round-1";
    fs::create_dir_all(git_dir.join("refs/countersign/t1")).unwrap();
    write(&git_dir.join(format!("{name}.lock")), "");
    let head = ground.main().await;
    assert!(ground.repository.keep_ref(name, &head, None).await.unwrap());
}

/// Git uses the time of an index to decide which files it must read again.
#[test]
fn a_copied_index_is_as_old_as_the_first() {
    let dir = TempDir::new().unwrap();
    let (from, to) = (dir.path().join("index"), dir.path().join("copy"));
    write(&from, "DIRC");
    let old =
        std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_700_000_000_123);
    let opened = fs::File::options().write(true).open(&from).unwrap();
    opened.set_modified(old).unwrap();
    commit::copy_index(&from, &to).unwrap();
    assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), old);
}
