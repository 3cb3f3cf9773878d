//! Tests that no object enters the repository if git's own strict check refuses it.

use std::os::unix::fs::symlink;

use super::*;

/// Files that `git fsck` refuses, with a part of its message.
fn refused() -> Vec<(String, String, &'static str)> {
    let modules = |line: &str| format!("[submodule \"x\"]\n\tpath = x\n\t{line}\n");
    let texts = [
        (modules("url = -u./payload"), "gitmodulesUrl"),
        (modules("url = \"https://x/%0ahost\""), "gitmodulesUrl"),
        (
            modules("url = ./x\n\tupdate = !touch pwned"),
            "gitmodulesUpdate",
        ),
        (modules("url = ./x\n\tpath = -rf"), "gitmodulesPath"),
        (
            "[submodule \"../../evil\"]\n\turl = ./x\n".to_owned(),
            "gitmodulesName",
        ),
    ];
    let names = [
        ".gitmodules",
        "sub/.gitmodules",
        "a/b/.GITMODULES",
        ".gitmodules ",
    ];
    let mut all = Vec::new();
    for name in names {
        for (text, word) in &texts {
            all.push((name.to_owned(), text.clone(), *word));
        }
    }
    let long = format!("{} -text\n", "x".repeat(4_000));
    for name in [".gitattributes", "sub/.gitattributes"] {
        all.push((name.to_owned(), long.clone(), "gitattributesLineLength"));
    }
    let inside = ".gitattributes/x".to_owned();
    all.push((inside, "x\n".to_owned(), "gitattributesBlob"));
    let large = "#\n".repeat(60 << 20);
    all.push((".gitattributes".to_owned(), large, "gitattributesLarge"));
    all
}

impl GitFixture {
    /// Returns whether the content is in the repository, under any name.
    fn has_content(&self, file: &Path) -> bool {
        let oid = self.git(&["hash-object", "--no-filters", file.to_str().unwrap()]);
        attempt(&self.repo(), &["cat-file", "-e", &oid])
            .status
            .success()
    }

    fn must_be_whole(&self) {
        self.git(&["fsck", "--strict", "--no-dangling"]);
        let trees = self.repo().join(".git/worktrees");
        let left = fs::read_dir(trees).into_iter().flatten().flatten();
        for tree in left {
            assert!(!tree.path().join("countersign-apart/objects/pack").exists());
        }
    }
}

#[track_caller]
fn unsound(error: &Error, name: &str, word: &str) {
    let said = error.to_string();
    assert!(matches!(error, Error::Unsound { .. }), "{said}");
    assert!(
        said.contains(name.trim_end_matches("/x").trim()) && said.contains(word),
        "{name} {word}: {said}"
    );
    assert!(!error.is_transient());
}

#[tokio::test]
async fn what_fsck_refuses_is_not_committed_for_a_builder_and_is_named() {
    let ground = GitFixture::new().await;
    for (number, (name, text, word)) in refused().into_iter().enumerate() {
        let tree = ground.worktree(&format!("t{number}")).await;
        let before = ground.git(&["rev-parse", &tree.branch]);
        write(&tree.path.join(&name), &text);
        write(&tree.path.join("good"), &format!("good {number}\n"));
        let committed = ground.repository.commit_all(&tree, &builder(), "x").await;
        unsound(&committed.unwrap_err(), &name, word);
        assert_eq!(ground.git(&["rev-parse", &tree.branch]), before);
        for file in [&name[..], "good"] {
            assert!(!ground.has_content(&tree.path.join(file)), "{file}");
        }
        // The rest of the leftovers is saved, and the omitted files are listed.
        let kept = "refs/countersign/t/leftovers";
        let saved = ground.repository.save_leftovers(&tree, kept).await.unwrap();
        let saved = saved.unwrap();
        assert!(ground.has_content(&tree.path.join("good")));
        assert!(!ground.has_content(&tree.path.join(&name)), "{name} {word}");
        let message = ground.git(&["log", "-1", "--format=%B", saved.as_str()]);
        assert!(message.contains("git fsck"), "{message}");
        ground.must_be_whole();
    }
}

#[tokio::test]
async fn what_fsck_refuses_does_not_come_with_a_builder_s_own_commits() {
    let ground = GitFixture::new().await;
    let (name, text, word) = refused().remove(0);
    let tree = ground.worktree("t1").await;
    // A clone by the builder takes the place of its layer.
    let layer = ground.dir.path().join("layer");
    let from = ground.repo();
    ground.git(&[
        "clone",
        "-q",
        "--bare",
        from.to_str().unwrap(),
        layer.to_str().unwrap(),
    ]);
    let work = ground.dir.path().join("work");
    let (from, to) = (layer.to_str().unwrap(), work.to_str().unwrap());
    git(&layer, &["clone", "-q", from, to]);
    git(&work, &["checkout", "-q", "-b", &tree.branch]);
    write(&work.join(&name), &text);
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "one"]);
    // A later commit removes it again, but it would be in the history.
    git(&work, &["rm", "-q", &name]);
    git(&work, &["commit", "-q", "-m", "two"]);
    write(&work.join("good"), "good\n");
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "three"]);
    git(&work, &["push", "-q", "origin", &tree.branch]);
    let taken = ground.repository.import_from_overlay(&tree, &layer).await;
    unsound(&taken.unwrap_err(), &name, word);
    write(&tree.path.join("probe"), &text);
    assert!(!ground.has_content(&tree.path.join("probe")));
    ground.must_be_whole();
}

#[tokio::test]
async fn commits_that_are_there_already_are_checked_before_they_land() {
    let ground = GitFixture::new().await;
    let base = ground.main().await;
    let scratch = ground.dir.path().join("scratch");
    for (name, text, word) in refused().into_iter().take(6) {
        write(&ground.repo().join(&name), &text);
        ground.git(&["add", "-A"]);
        ground.git(&["commit", "-q", "-m", "by hand"]);
        let head = ground.main().await;
        let checked = ground
            .repository
            .must_be_sound(&base, &head, &scratch)
            .await;
        unsound(&checked.unwrap_err(), &name, word);
        ground.git(&["reset", "-q", "--hard", base.as_str()]);
    }
    write(
        &ground.repo().join(".gitmodules"),
        "[submodule \"a\"]\n\tpath = a\n\turl = ../a\n",
    );
    ground.git(&["add", "-A"]);
    ground.git(&["commit", "-q", "-m", "a plain submodule"]);
    let head = ground.main().await;
    ground
        .repository
        .must_be_sound(&base, &head, &scratch)
        .await
        .unwrap();
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

#[tokio::test]
async fn files_under_names_that_git_does_not_store_are_told() {
    let ground = GitFixture::new().await;
    let tree = ground.worktree("t1").await;
    let names = [
        ".GIT/config",
        "git~1/x",
        "sub/.Git/hooks/pre-commit",
        ".git\u{200c}/x",
    ];
    for name in names {
        write(&tree.path.join(name), "x\n");
    }
    symlink("elsewhere", tree.path.join(".gitmodules")).unwrap();
    write(&tree.path.join("good"), "good\n");
    let committed = ground.repository.commit_all(&tree, &builder(), "x").await;
    let committed = committed.unwrap();
    let mut told = committed.unstorable;
    told.sort();
    let mut wanted: Vec<String> = names.iter().map(ToString::to_string).collect();
    wanted.push(".gitmodules".to_owned());
    wanted.sort();
    assert_eq!(told, wanted);
    let commit = committed.commit.unwrap();
    let files = ground.git(&[
        "diff-tree",
        "--name-only",
        "--no-commit-id",
        "-r",
        commit.as_str(),
    ]);
    assert_eq!(files, "good");
    ground.must_be_whole();
}
