//! Tests of every way to combine a change with its base, on real repositories.

use super::*;

const STYLES: [MergeStyle; 3] = [MergeStyle::Merge, MergeStyle::Squash, MergeStyle::Rebase];

fn person() -> CommitIdentity {
    CommitIdentity {
        name: "Ada".to_owned(),
        email: "ada@example.org".to_owned(),
    }
}

impl GitFixture {
    async fn combined(&self, head: &Oid, style: MergeStyle) -> MergeResult {
        let plan = CombinePlan {
            style,
            author: &builder(),
            committer: &person(),
            message: "whole change\n\nTicket: T-1\n",
            rewrite: |own, trailers| format!("{}\n\n{trailers}", own.trim()),
            trailers: "Ticket: T-1\n",
        };
        let base = self.main().await;
        self.repository.combine(&base, head, &plan).await.unwrap()
    }

    async fn combined_commit(&self, head: &Oid, style: MergeStyle) -> Oid {
        match self.combined(head, style).await {
            MergeResult::Clean { commit, tree } => {
                let own = self.repository.tree_of(&commit).await.unwrap();
                assert_eq!(own, tree, "{style:?}");
                commit
            }
            MergeResult::Conflicts { files, .. } => panic!("{style:?}: {files:?}"),
        }
    }

    /// Makes commits on a branch of its own, each with an author, a message, a path and a text.
    fn commits(&self, branch: &str, all: &[(&str, &str, &str, &str)]) -> Oid {
        self.git(&["checkout", "-q", "-b", branch, "main"]);
        for (author, message, path, text) in all {
            write(&self.repo().join(path), text);
            self.git(&["add", "-A"]);
            let author = format!("{author} <{author}@example.org>");
            let date = "2001-02-03T04:05:06+0100";
            let args = [
                "commit", "-q", "-m", message, "--author", &author, "--date", date,
            ];
            self.git(&args);
        }
        let head = self.git(&["rev-parse", "HEAD"]);
        self.git(&["checkout", "-q", "main"]);
        Oid::parse(&head).unwrap()
    }

    fn move_base(&self, path: &str, text: &str) {
        write(&self.repo().join(path), text);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "meanwhile"]);
    }

    fn log(&self, range: &str, format: &str) -> Vec<String> {
        let format = format!("--format={format}");
        let text = self.git(&["log", "--reverse", "--first-parent", &format, range]);
        text.lines().map(str::to_owned).collect()
    }
}

fn two_commits(ground: &GitFixture) -> Oid {
    ground.commits(
        "work",
        &[
            ("ann", "add one", "one", "1\n"),
            ("ben", "add two", "two", "2\n"),
        ],
    )
}

#[tokio::test]
async fn every_style_lands_the_same_tree_on_a_base_that_moved_or_not() {
    for moved in [false, true] {
        let ground = GitFixture::new().await;
        let head = two_commits(&ground);
        if moved {
            ground.move_base("elsewhere", "x\n");
        }
        let mut trees = Vec::new();
        for style in STYLES {
            let commit = ground.combined_commit(&head, style).await;
            trees.push(ground.repository.tree_of(&commit).await.unwrap());
            let new = format!("main..{commit}");
            let expected: &[&str] = match style {
                MergeStyle::Rebase => &["add one", "add two"],
                MergeStyle::Squash | MergeStyle::Merge | MergeStyle::FastForward => {
                    &["whole change"]
                }
            };
            assert_eq!(ground.log(&new, "%s"), expected, "{style:?} {moved}");
            let merges = ground.git(&["rev-list", "--merges", &new]);
            assert_eq!(merges.is_empty(), style != MergeStyle::Merge, "{style:?}");
            let base = ground.main().await;
            let is_on_top = ground.repository.is_ancestor(&base, &commit).await;
            assert!(is_on_top.unwrap(), "{style:?}");
        }
        assert!(trees.windows(2).all(|pair| pair[0] == pair[1]), "{trees:?}");
    }
}

#[tokio::test]
async fn a_replayed_commit_keeps_its_author_and_date_and_gets_the_trailers() {
    let ground = GitFixture::new().await;
    let head = two_commits(&ground);
    ground.move_base("elsewhere", "x\n");
    let top = ground.combined_commit(&head, MergeStyle::Rebase).await;
    let range = format!("main..{top}");
    assert_eq!(
        ground.log(&range, "%an %ae"),
        ["ann ann@example.org", "ben ben@example.org"]
    );
    let at = "2001-02-03T04:05:06+01:00";
    assert_eq!(ground.log(&range, "%aI"), [at, at]);
    assert_eq!(ground.log(&range, "%cn"), ["Ada", "Ada"]);
    assert_eq!(
        ground.log(&range, "%(trailers:key=Ticket,valueonly,separator=%x2c)"),
        ["T-1", "T-1"]
    );
    let squash = ground.combined_commit(&head, MergeStyle::Squash).await;
    assert_eq!(
        ground.log(&format!("main..{squash}"), "%an/%cn"),
        ["Builder/Ada"]
    );
}

#[tokio::test]
async fn a_conflict_is_a_conflict_in_every_style() {
    for style in STYLES {
        let ground = GitFixture::new().await;
        let head = ground.commits("work", &[("ann", "mine", "README", "mine\n")]);
        ground.move_base("README", "theirs\n");
        let before = ground.main().await;
        let result = ground.combined(&head, style).await;
        let MergeResult::Conflicts { files, .. } = result else {
            panic!("{style:?}: {result:?}")
        };
        assert_eq!(files, ["README"]);
        assert_eq!(ground.main().await, before);
    }
}

#[tokio::test]
async fn what_the_base_already_has_is_no_commit() {
    let ground = GitFixture::new().await;
    let head = two_commits(&ground);
    ground.move_base("one", "1\n");
    // Half of it is there: that commit is left out.
    let top = ground.combined_commit(&head, MergeStyle::Rebase).await;
    assert_eq!(ground.log(&format!("main..{top}"), "%s"), ["add two"]);
    ground.move_base("two", "2\n");
    for style in [MergeStyle::Squash, MergeStyle::Rebase] {
        let top = ground.combined_commit(&head, style).await;
        assert_eq!(top, ground.main().await, "{style:?}: nothing is left");
    }
}

#[tokio::test]
async fn a_merge_inside_the_change_is_replayed_as_its_result() {
    let ground = GitFixture::new().await;
    let first = ground.commits(
        "work",
        &[
            ("ann", "change the text", "README", "mine\n"),
            ("ann", "add one", "one", "1\n"),
        ],
    );
    ground.move_base("README", "theirs\n");
    // The builder resolves the conflict in a merge commit, then adds another commit.
    ground.git(&["checkout", "-q", "work"]);
    let merged = attempt(&ground.repo(), &["merge", "-q", "main"]);
    assert!(!merged.status.success(), "it should conflict");
    write(&ground.repo().join("README"), "both\n");
    ground.git(&["add", "-A"]);
    ground.git(&["commit", "-q", "-m", "Merge main"]);
    write(&ground.repo().join("two"), "2\n");
    ground.git(&["add", "-A"]);
    ground.git(&["commit", "-q", "-m", "add two"]);
    let head = Oid::parse(&ground.git(&["rev-parse", "HEAD"])).unwrap();
    ground.git(&["checkout", "-q", "main"]);
    ground.move_base("elsewhere", "x\n");
    assert_ne!(first, head);
    let top = ground.combined_commit(&head, MergeStyle::Rebase).await;
    let range = format!("main..{top}");
    assert_eq!(ground.git(&["rev-list", "--merges", &range]), "");
    // Both commits conflict with the base alone, so they are one commit with the resolution.
    assert_eq!(ground.log(&range, "%s"), ["add one", "add two"]);
    let body = ground.git(&["log", "-1", "--format=%B", &format!("{top}~1")]);
    assert!(body.contains("* change the text"), "{body}");
    let merge = ground.combined_commit(&head, MergeStyle::Merge).await;
    let diff = ground.git(&["diff", merge.as_str(), top.as_str()]);
    assert_eq!(diff, "", "the tree is the merge's");
}

#[tokio::test]
async fn every_style_moves_a_clean_work_tree_and_leaves_a_dirty_one() {
    for style in STYLES {
        for dirty in [false, true] {
            let ground = GitFixture::new().await;
            let head = two_commits(&ground);
            ground.move_base("elsewhere", "x\n");
            let (base, top) = (
                ground.main().await,
                ground.combined_commit(&head, style).await,
            );
            if dirty {
                write(&ground.repo().join("one"), "my own\n");
            }
            let landed = ground.repository.land("main", &top, &base).await.unwrap();
            if dirty {
                assert!(
                    matches!(landed, LandingOutcome::Blocked { .. }),
                    "{landed:?}"
                );
                assert_eq!(ground.main().await, base);
                let own = fs::read_to_string(ground.repo().join("one")).unwrap();
                assert_eq!(own, "my own\n");
            } else {
                assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
                assert_eq!(ground.main().await, top);
                assert_eq!(ground.git(&["status", "--porcelain"]), "", "{style:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_persons_name_comes_from_the_repository_or_their_own_files() {
    let ground = GitFixture::new().await;
    let home = ground.dir.path().join("home");
    let files = [home.join(".gitconfig"), home.join("git/config")];
    let nobody = ground.repository.person_identity(&home, &files).await;
    assert_eq!(nobody.unwrap(), None);
    write(
        &files[1],
        "[user]\n\tname = Weak\n\temail = weak@example.org\n",
    );
    write(&files[0], "[include]\n\tpath = ~/more\n");
    write(&home.join("more"), "[user]\n\tname = Ada\n");
    let known = ground
        .repository
        .person_identity(&home, &files)
        .await
        .unwrap();
    let known = known.unwrap();
    assert_eq!((&*known.name, &*known.email), ("Ada", "weak@example.org"));
    ground.git(&["config", "user.email", "here@example.org"]);
    let known = ground
        .repository
        .person_identity(&home, &files)
        .await
        .unwrap();
    assert_eq!(known.unwrap().email, "here@example.org");
}
