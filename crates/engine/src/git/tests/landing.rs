//! Merges, races, and the person's own work tree.

use super::*;

impl Ground {
    async fn combine(&self, head: &Oid, how: How) -> Combined {
        let base = self.main().await;
        self.repository
            .combine(&base, head, how, &builder(), "land it")
            .await
            .unwrap()
    }

    async fn clean(&self, head: &Oid, how: How) -> Oid {
        match self.combine(head, how).await {
            Combined::Clean { commit, .. } => commit,
            Combined::Conflicts { .. } => panic!("conflicts"),
        }
    }

    /// Takes the person's work tree off the branch.
    fn step_aside(&self) {
        self.git(&["checkout", "-q", "--detach"]);
    }
}

#[tokio::test]
async fn the_approved_commit_itself_lands_where_the_base_has_not_moved() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "x", "x").await;
    assert_eq!(ground.clean(&head, How::FastForward).await, head);
    let merge = ground.clean(&head, How::Merge).await;
    assert_eq!(
        ground
            .git(&["rev-list", "--parents", "-1", merge.as_str()])
            .split(' ')
            .count(),
        3
    );
    let squash = ground.clean(&head, How::Squash).await;
    assert_eq!(
        ground
            .git(&["rev-list", "--parents", "-1", squash.as_str()])
            .split(' ')
            .count(),
        2
    );
}

#[tokio::test]
async fn conflicts_come_back_with_files_and_messages_and_move_nothing() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "README", "theirs\n").await;
    write(&ground.repo().join("README"), "ours\n");
    ground.git(&["commit", "-q", "-am", "third"]);
    let before = ground.main().await;
    let Combined::Conflicts { files, messages } = ground.combine(&head, How::Merge).await else {
        panic!("it should conflict")
    };
    assert_eq!(files, ["README"]);
    assert!(messages.contains("CONFLICT (content)"), "{messages}");
    assert_eq!(ground.main().await, before);
}

#[tokio::test]
async fn twelve_who_land_at_once_all_land_by_trying_again() {
    let ground = Ground::new().await;
    let mut heads = Vec::new();
    for number in 0..12 {
        heads.push(
            ground
                .change(&format!("t{number}"), &format!("f{number}"), "x")
                .await,
        );
    }
    ground.step_aside();
    let mut landing = tokio::task::JoinSet::new();
    for head in heads {
        let repository = ground.repository.clone();
        landing.spawn(async move {
            for _ in 0..100 {
                let base = repository.branch("main").await.unwrap().unwrap();
                let combined = repository
                    .combine(&base, &head, How::Merge, &builder(), "m")
                    .await;
                let Combined::Clean { commit, .. } = combined.unwrap() else {
                    panic!("conflict")
                };
                match repository.land("main", &commit, &base).await.unwrap() {
                    Landed::Done { .. } => return true,
                    Landed::Moved { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            false
        });
    }
    while let Some(landed) = landing.join_next().await {
        assert!(landed.unwrap());
    }
    let files = ground.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(
        files.lines().filter(|name| name.starts_with('f')).count(),
        12
    );
}

#[tokio::test]
async fn a_clean_work_tree_on_the_branch_comes_along() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "src/lib.rs", "fn new() {}\n").await;
    let base = ground.main().await;
    let landed = ground.repository.land("main", &head, &base).await.unwrap();
    let work_tree = fs::canonicalize(ground.repo()).unwrap();
    assert_eq!(
        landed,
        Landed::Done {
            forwarded: vec![work_tree]
        }
    );
    assert_eq!(
        fs::read_to_string(ground.repo().join("src/lib.rs")).unwrap(),
        "fn new() {}\n"
    );
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
    let again = ground.repository.land("main", &head, &base).await.unwrap();
    assert_eq!(again, landed, "landing twice is landing once");
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_kill_between_the_branch_and_the_work_tree_is_made_good() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "src/lib.rs", "fn new() {}\n").await;
    let base = ground.main().await;
    ground.git(&["update-ref", "refs/heads/main", head.as_str()]);
    assert_ne!(ground.git(&["status", "--porcelain"]), "");
    let landed = ground.repository.land("main", &head, &base).await.unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn the_branch_is_not_moved_under_a_dirty_work_tree() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "x", "x").await;
    let base = ground.main().await;
    for (path, text) in [("README", "unsaved"), ("x", "in the way")] {
        write(&ground.repo().join(path), text);
        let landed = ground.repository.land("main", &head, &base).await.unwrap();
        assert!(matches!(landed, Landed::Held { .. }), "{landed:?}");
        assert_eq!(ground.main().await, base);
        assert_eq!(fs::read_to_string(ground.repo().join(path)).unwrap(), text);
        ground.git(&["stash", "-q", "-u"]);
    }
}

#[tokio::test]
async fn somebody_who_has_the_index_for_an_instant_is_waited_for_and_nobodys_fault() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "x", "x").await;
    let base = ground.main().await;
    let lock = ground.repo().join(".git/index.lock");
    write(&lock, "");
    let refused = ground
        .repository
        .land("main", &head, &base)
        .await
        .unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert_eq!(ground.main().await, base);
    fs::remove_file(&lock).unwrap();
    let landed = ground.repository.land("main", &head, &base).await.unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
}

#[tokio::test]
async fn an_ignored_file_in_the_way_is_not_overwritten() {
    let ground = Ground::new().await;
    let tree = ground.worktree("t1").await;
    write(&tree.path.join(".gitignore"), "");
    write(&tree.path.join("ignored/secret"), "theirs");
    let head = ground
        .repository
        .commit_all(&tree, &builder(), "w")
        .await
        .unwrap()
        .commit
        .unwrap();
    write(&ground.repo().join("ignored/secret"), "the person's own");
    let base = ground.main().await;
    let landed = ground.repository.land("main", &head, &base).await.unwrap();
    assert!(matches!(landed, Landed::Held { .. }), "{landed:?}");
    let kept = fs::read_to_string(ground.repo().join("ignored/secret")).unwrap();
    assert_eq!(kept, "the person's own");
}

#[tokio::test]
async fn a_branch_that_moved_is_not_overwritten() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "x", "x").await;
    let old = ground.main().await;
    write(&ground.repo().join("README"), "three\n");
    ground.git(&["commit", "-q", "-am", "third"]);
    let now = ground.main().await;
    ground.step_aside();
    let landed = ground.repository.land("main", &head, &old).await.unwrap();
    assert_eq!(
        landed,
        Landed::Moved {
            to: Some(now.clone())
        }
    );
    assert_eq!(ground.main().await, now);
}

#[tokio::test]
async fn a_landing_that_was_killed_before_the_work_tree_followed_is_finished() {
    for half in [false, true] {
        let ground = Ground::new().await;
        let head = ground.change("t1", "x", "x\n").await;
        let old = ground.main().await;
        let new = ground.clean(&head, How::Merge).await;
        ground.repository.note_landing("main", &old, &new).unwrap();
        ground.git(&["update-ref", "refs/heads/main", new.as_str()]);
        if half {
            write(&ground.repo().join("x"), "x\n");
            write(&ground.repo().join(".git/index.lock"), "");
        }
        assert!(!ground.repository.dirty().await.unwrap().is_empty());
        ground.repository.catch_up("main").await.unwrap();
        assert_eq!(
            ground.repository.dirty().await.unwrap(),
            Vec::<String>::new()
        );
        assert_eq!(fs::read_to_string(ground.repo().join("x")).unwrap(), "x\n");
    }
}

#[tokio::test]
async fn a_work_tree_with_a_persons_own_work_is_left_as_it_is() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "x", "x\n").await;
    let old = ground.main().await;
    let new = ground.clean(&head, How::Merge).await;
    ground.repository.note_landing("main", &old, &new).unwrap();
    ground.git(&["update-ref", "refs/heads/main", new.as_str()]);
    write(&ground.repo().join("README"), "mine\n");
    ground.repository.catch_up("main").await.unwrap();
    let readme = fs::read_to_string(ground.repo().join("README")).unwrap();
    assert_eq!(readme, "mine\n");
    assert!(!ground.repo().join("x").exists());
    // Without a note nothing is touched, whatever it looks like.
    ground.git(&["checkout", "-q", "README"]);
    ground.repository.catch_up("main").await.unwrap();
    assert!(!ground.repo().join("x").exists());
}

#[tokio::test]
async fn a_persons_new_files_beside_the_change_hold_nothing_up() {
    for killed in [false, true] {
        let ground = Ground::new().await;
        let head = ground.change("t1", "x", "x\n").await;
        let old = ground.main().await;
        let new = ground.clean(&head, How::Merge).await;
        write(&ground.repo().join("notes.txt"), "mine\n");
        if killed {
            ground.repository.note_landing("main", &old, &new).unwrap();
            ground.git(&["update-ref", "refs/heads/main", new.as_str()]);
            ground.repository.catch_up("main").await.unwrap();
        } else {
            let landed = ground.repository.land("main", &new, &old).await.unwrap();
            assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
        }
        let text = |name: &str| fs::read_to_string(ground.repo().join(name)).unwrap();
        assert_eq!(
            (text("x").as_str(), text("notes.txt").as_str()),
            ("x\n", "mine\n")
        );
        assert_eq!(ground.git(&["status", "--porcelain"]), "?? notes.txt");
    }
}

#[tokio::test]
async fn a_new_file_where_a_killed_landing_wants_a_directory_is_kept() {
    let ground = Ground::new().await;
    let head = ground.change("t1", "d/x", "x\n").await;
    let old = ground.main().await;
    let new = ground.clean(&head, How::Merge).await;
    ground.repository.note_landing("main", &old, &new).unwrap();
    ground.git(&["update-ref", "refs/heads/main", new.as_str()]);
    write(&ground.repo().join("d"), "mine\n");
    ground.repository.catch_up("main").await.unwrap();
    let kept = fs::read_to_string(ground.repo().join("d")).unwrap();
    assert_eq!(kept, "mine\n");
}

#[tokio::test]
async fn a_landing_waits_out_a_lock_and_takes_away_one_that_stays() {
    for left in ["refs/heads/main.lock", "HEAD.lock"] {
        let ground = Ground::new().await;
        let head = ground.change("t1", "x", "x\n").await;
        let old = ground.main().await;
        let new = ground.clean(&head, How::Merge).await;
        let lock = ground.repo().join(".git").join(left);
        write(&lock, "left by a killed git");
        let landed = ground.repository.land("main", &new, &old).await.unwrap();
        assert!(matches!(landed, Landed::Done { .. }), "{left}: {landed:?}");
        assert!(!lock.exists());
    }
}
