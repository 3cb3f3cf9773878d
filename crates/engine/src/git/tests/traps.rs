//! Tests of files that a builder can leave to make someone else run its code.

use super::*;

/// Does everything that we do in a worktree after its builder has ended.
async fn use_everything(ground: &GitFixture, tree: &Worktree) {
    let repository = &ground.repository;
    write(&tree.path.join("src/lib.rs"), "fn changed() {}\n");
    repository.dirty_in(tree).await.unwrap();
    repository
        .save_leftovers(tree, "refs/countersign/saved")
        .await
        .unwrap();
    let head = repository
        .commit_all(tree, &builder(), "work")
        .await
        .unwrap()
        .commit
        .unwrap();
    let base = ground.main().await;
    repository
        .diff(&base, &head, DiffContext::Usual)
        .await
        .unwrap();
    let how = MergeStyle::Merge;
    let combined = repository
        .combine(&base, &head, &CombinePlan::simple(how, &builder(), "merge"))
        .await
        .unwrap();
    let MergeResult::Clean { commit, .. } = combined else {
        panic!("{combined:?}")
    };
    let (mirror, dir) = (
        ground.dir.path().join("mirror"),
        ground.dir.path().join("checkout"),
    );
    repository
        .checkout(
            &head,
            &base,
            CheckoutPurpose::Review { ordinary: &[] },
            &mirror,
            &dir,
        )
        .await
        .unwrap();
    repository.land("main", &commit, &base).await.unwrap();
    repository
        .ensure_worktree(&tree.branch, &base, &tree.path)
        .await
        .unwrap();
    repository
        .remove_worktree(tree, "refs/countersign/left")
        .await
        .unwrap();
    assert!(!ground.evidence().exists(), "planted code ran");
}

impl GitFixture {
    /// Shows that the trap works: an ordinary git triggers it.
    fn bites(&self, dir: &Path, args: &[&str]) {
        attempt(dir, args);
        assert!(
            self.evidence().exists(),
            "git {args:?} did not spring the trap"
        );
        fs::remove_file(self.evidence()).unwrap();
    }
}

#[tokio::test]
async fn a_rewritten_pointer_file_runs_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let trap = ground.dir.path().join("trap");
    fs::create_dir(&trap).unwrap();
    git(&trap, &["init", "-q"]);
    git(&trap, &["config", "core.fsmonitor", &ground.evil()]);
    git(&trap, &["config", "filter.x.clean", &ground.evil()]);
    write(&tree.path.join(".gitattributes"), "* filter=x\n");
    write(
        &tree.path.join(".git"),
        &format!("gitdir: {}/.git\n", trap.display()),
    );
    use_everything(&ground, &tree).await;
}

#[tokio::test]
async fn a_pointer_that_became_a_whole_repository_runs_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    fs::remove_file(tree.path.join(".git")).unwrap();
    git(&tree.path, &["init", "-q"]);
    git(&tree.path, &["config", "core.fsmonitor", &ground.evil()]);
    ground.bites(&tree.path, &["status"]);
    use_everything(&ground, &tree).await;
}

#[tokio::test]
async fn a_rewritten_common_directory_runs_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let trap = ground.dir.path().join("trap");
    fs::create_dir(&trap).unwrap();
    git(&trap, &["init", "-q"]);
    git(&trap, &["config", "filter.x.clean", &ground.evil()]);
    write(&tree.path.join(".gitattributes"), "* filter=x\n");
    write(
        &tree.git_dir.join("commondir"),
        &format!("{}/.git\n", trap.display()),
    );
    ground.bites(&tree.path, &["add", "-A"]);
    use_everything(&ground, &tree).await;
}

#[tokio::test]
async fn hooks_and_a_hooks_path_in_the_tree_run_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let evil = ground.evil();
    for hook in [
        "pre-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "commit-msg",
    ] {
        for dir in [tree.path.join(".husky"), ground.repo().join(".git/hooks")] {
            fs::create_dir_all(&dir).unwrap();
            fs::copy(&evil, dir.join(hook)).unwrap();
        }
    }
    ground.git(&["config", "core.hooksPath", ".husky"]);
    ground.bites(&tree.path, &["commit", "--allow-empty", "-m", "x"]);
    git(
        &tree.path,
        &[
            "-c",
            "core.hooksPath=/dev/null",
            "reset",
            "-q",
            "--hard",
            "main",
        ],
    );
    use_everything(&ground, &tree).await;
}

#[tokio::test]
async fn a_file_system_monitor_and_other_programs_in_the_config_run_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let evil = ground.evil();
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "core.pager",
        "core.askPass",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "gpg.program",
        "credential.helper",
        "sequence.editor",
        "pager.diff",
    ] {
        ground.git(&["config", key, &evil]);
    }
    ground.git(&["config", "commit.gpgSign", "true"]);
    ground.git(&["config", "log.showSignature", "true"]);
    write(&tree.path.join(".gitattributes"), "* diff=x\n");
    ground.bites(&tree.path, &["status"]);
    use_everything(&ground, &tree).await;
}

#[tokio::test]
async fn filters_and_merge_drivers_in_the_config_are_refused_by_name() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let evil = ground.evil();
    write(&tree.path.join(".gitattributes"), "* filter=x merge=x\n");
    for key in ["filter.x.clean", "filter.x.process", "merge.x.driver"] {
        ground.git(&["config", key, &evil]);
        let error = ground
            .repository
            .commit_all(&tree, &builder(), "work")
            .await
            .unwrap_err();
        assert!(error.to_string().contains(key), "{error}");
        let error = Repository::open(tool(), &ground.repo()).await.unwrap_err();
        assert!(matches!(error, Error::CommandsInConfig { .. }), "{error}");
        ground.git(&["config", "--unset", key]);
    }
    assert!(!ground.evidence().exists());
}

#[tokio::test]
async fn filters_by_inclusion_or_for_one_worktree_are_refused_too() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let evil = ground.evil();
    write(
        &ground.repo().join("extra"),
        &format!("[filter \"x\"]\n\tsmudge = {evil}\n"),
    );
    ground.git(&["config", "include.path", "../extra"]);
    let error = ground.repository.dirty_in(&tree).await.unwrap_err();
    assert!(error.to_string().contains("filter.x.smudge"), "{error}");
    ground.git(&["config", "--unset", "include.path"]);

    ground.git(&["config", "extensions.worktreeConfig", "true"]);
    git(
        &tree.path,
        &["config", "--worktree", "filter.y.clean", &evil],
    );
    let error = ground.repository.dirty_in(&tree).await.unwrap_err();
    assert!(error.to_string().contains("filter.y.clean"), "{error}");
}

#[tokio::test]
async fn a_nested_repository_runs_nothing_and_loses_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let nested = tree.path.join("nested");
    write(&nested.join("deep/work.txt"), "hours of it\n");
    git(&nested, &["init", "-q"]);
    git(&nested, &["add", "-A"]);
    git(&nested, &["commit", "-q", "-m", "inside"]);
    git(&nested, &["config", "core.fsmonitor", &ground.evil()]);
    write(&nested.join("deep/work.txt"), "more of it\n");
    ground.bites(&nested, &["status"]);
    write(&tree.path.join("new"), "x");

    let committed = ground
        .repository
        .commit_all(&tree, &builder(), "work")
        .await
        .unwrap();
    assert_eq!(committed.nested, ["nested"]);
    let saved = ground
        .repository
        .remove_worktree(&tree, "refs/countersign/t1/left")
        .await
        .unwrap();
    let saved = ground
        .repository
        .file_at(&saved.unwrap(), "nested/deep/work.txt")
        .await
        .unwrap();
    assert_eq!(saved.unwrap(), b"more of it\n");
    assert!(!ground.evidence().exists());
}

#[tokio::test]
async fn a_submodule_with_a_monitor_runs_nothing() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let nested = tree.path.join("sub");
    write(&nested.join("x"), "x");
    git(&nested, &["init", "-q"]);
    git(&nested, &["add", "-A"]);
    git(&nested, &["commit", "-q", "-m", "inside"]);
    git(
        &tree.path,
        &["-c", "advice.addEmbeddedRepo=false", "add", "sub"],
    );
    git(&tree.path, &["commit", "-q", "-m", "a link"]);
    git(&nested, &["config", "core.fsmonitor", &ground.evil()]);
    write(&nested.join("x"), "y");
    ground.bites(&tree.path, &["status"]);
    use_everything(&ground, &tree).await;
}

#[tokio::test]
async fn a_replaced_commit_does_not_show_another_history() {
    let ground = GitFixture::new().await;
    let head = ground.change("t1", "x", "honest").await;
    let other = ground.change("t2", "x", "forged").await;
    ground.git(&["replace", head.as_str(), other.as_str()]);
    let seen = ground.repository.file_at(&head, "x").await.unwrap();
    assert_eq!(seen.unwrap(), b"honest");
}
