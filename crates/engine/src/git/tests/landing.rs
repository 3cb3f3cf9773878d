//! Tests of merges, races, and the user's own work tree.

use super::*;

impl GitFixture {
    async fn combine(&self, head: &Oid, how: MergeStyle) -> MergeResult {
        let base = self.main().await;
        self.repository
            .combine(
                &base,
                head,
                &CombinePlan::simple(how, &builder(), "land it"),
            )
            .await
            .unwrap()
    }

    async fn clean(&self, head: &Oid, how: MergeStyle) -> Oid {
        match self.combine(head, how).await {
            MergeResult::Clean { commit, .. } => commit,
            MergeResult::Conflicts { .. } => panic!("conflicts"),
        }
    }

    /// Takes the user's work tree off the branch.
    fn step_aside(&self) {
        self.git(&["checkout", "-q", "--detach"]);
    }
}

#[tokio::test]
async fn the_approved_commit_itself_lands_where_the_base_has_not_moved() {
    let ground = GitFixture::new().await;
    let head = ground.change("t1", "x", "x").await;
    assert_eq!(ground.clean(&head, MergeStyle::FastForward).await, head);
    let merge = ground.clean(&head, MergeStyle::Merge).await;
    assert_eq!(
        ground
            .git(&["rev-list", "--parents", "-1", merge.as_str()])
            .split(' ')
            .count(),
        3
    );
    let squash = ground.clean(&head, MergeStyle::Squash).await;
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
    let ground = GitFixture::new().await;
    let head = ground.change("t1", "README", "theirs\n").await;
    write(&ground.repo().join("README"), "ours\n");
    ground.git(&["commit", "-q", "-am", "third"]);
    let before = ground.main().await;
    let MergeResult::Conflicts { files, messages } = ground.combine(&head, MergeStyle::Merge).await
    else {
        panic!("it should conflict")
    };
    assert_eq!(files, ["README"]);
    assert!(messages.contains("CONFLICT (content)"), "{messages}");
    assert_eq!(ground.main().await, before);
}

#[tokio::test]
async fn twelve_who_land_at_once_all_land_by_trying_again() {
    let ground = GitFixture::new().await;
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
                let base = repository.branch_tip("main").await.unwrap().unwrap();
                let who = builder();
                let plan = CombinePlan::simple(MergeStyle::Merge, &who, "m");
                let combined = repository.combine(&base, &head, &plan).await;
                let MergeResult::Clean { commit, .. } = combined.unwrap() else {
                    panic!("conflict")
                };
                match repository.land("main", &commit, &base).await.unwrap() {
                    LandingOutcome::Done { .. } => return true,
                    LandingOutcome::Moved { .. } => {}
                    held @ LandingOutcome::Blocked { .. } => panic!("{held:?}"),
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
    let ground = GitFixture::new().await;
    let head = ground.change("t1", "src/lib.rs", "fn new() {}\n").await;
    let base = ground.main().await;
    let landed = ground.repository.land("main", &head, &base).await.unwrap();
    let work_tree = fs::canonicalize(ground.repo()).unwrap();
    assert_eq!(
        landed,
        LandingOutcome::Done {
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
async fn an_ignored_file_in_the_way_is_not_overwritten() {
    let ground = GitFixture::new().await;
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
    assert!(
        matches!(landed, LandingOutcome::Blocked { .. }),
        "{landed:?}"
    );
    let kept = fs::read_to_string(ground.repo().join("ignored/secret")).unwrap();
    assert_eq!(kept, "the person's own");
}

#[tokio::test]
async fn a_branch_that_moved_is_not_overwritten() {
    let ground = GitFixture::new().await;
    let head = ground.change("t1", "x", "x").await;
    let old = ground.main().await;
    write(&ground.repo().join("README"), "three\n");
    ground.git(&["commit", "-q", "-am", "third"]);
    let now = ground.main().await;
    ground.step_aside();
    let landed = ground.repository.land("main", &head, &old).await.unwrap();
    assert_eq!(
        landed,
        LandingOutcome::Moved {
            to: Some(now.clone())
        }
    );
    assert_eq!(ground.main().await, now);
}

#[tokio::test]
async fn a_landing_waits_out_a_lock_and_takes_away_one_that_stays() {
    for left in ["refs/heads/main.lock", "HEAD.lock"] {
        let ground = GitFixture::new().await;
        let head = ground.change("t1", "x", "x\n").await;
        let old = ground.main().await;
        let new = ground.clean(&head, MergeStyle::Merge).await;
        let lock = ground.repo().join(".git").join(left);
        write(&lock, "left by a killed git");
        let landed = ground.repository.land("main", &new, &old).await.unwrap();
        assert!(
            matches!(landed, LandingOutcome::Done { .. }),
            "{left}: {landed:?}"
        );
        assert!(!lock.exists());
    }
}
