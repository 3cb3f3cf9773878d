//! The landing queue on a real repository: what lands, what goes back, and who has the turn.

#[path = "../../examples/landing/fixture.rs"]
mod fixture;

use fixture::{GitFixture, Kind};
use flow::Stage;
use flow::landing::LandingStyle;
use flow::ticket::ReworkReason;

impl GitFixture {
    /// Runs git in the repository.
    fn git(&self, args: &[&str]) -> String {
        self.git_with_index(".git/index", args)
    }

    /// Runs git with an index of its own.
    fn git_with_index(&self, index: &str, args: &[&str]) -> String {
        #[expect(clippy::disallowed_methods, reason = "the fixture runs real programs")]
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(args)
            .env("GIT_INDEX_FILE", self.repository.join(index))
            .current_dir(&self.repository)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {error}");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }
}

#[tokio::test]
async fn a_batch_lands_but_for_the_conflict_and_the_red_pair() {
    let ground = GitFixture::new(8, "true").await;
    let kinds = [
        Kind::Plain,
        Kind::Conflicts,
        Kind::Plain,
        Kind::Plain,
        Kind::RedTogether,
        Kind::Plain,
    ];
    let ids = ground.approve(&kinds).await;
    ground.land(&ids).await;
    let mut stages = Vec::new();
    for id in &ids {
        stages.push(ground.ticket(id).await.stage);
    }
    let (done, back) = (Stage::Done, Stage::Rework);
    assert_eq!(stages, [done, back, done, done, back, done]);
    let conflict = ground.ticket(&ids[1]).await.rework_reason;
    assert!(
        matches!(conflict, Some(ReworkReason::Conflict { .. })),
        "{conflict:?}"
    );
    let red = ground.ticket(&ids[4]).await.rework_reason;
    let Some(ReworkReason::RedCombination { results }) = &red else {
        panic!("{red:?}");
    };
    assert_eq!(results[0].name, "test", "with the evidence");
    assert_eq!(ground.rework(&ids).await, 2);
    ground.land(&ids).await;
    for id in &ids {
        assert_eq!(ground.ticket(id).await.stage, Stage::Done, "{id}");
    }
    assert_eq!(ground.merges(), ids.len());
    assert!(ground.is_green());
}

#[tokio::test]
async fn two_queues_on_one_branch_do_not_fight() {
    let ground = GitFixture::new(2, "true").await;
    let ids = ground.approve(&[Kind::Plain; 6]).await;
    tokio::join!(ground.land(&ids), ground.land(&ids));
    for id in &ids {
        let ticket = ground.ticket(id).await;
        assert_eq!(ticket.stage, Stage::Done, "{id}");
    }
    assert_eq!(ground.merges(), ids.len(), "each landed once");
}

#[tokio::test]
async fn a_queue_of_three_lands_in_every_style_with_who_countersigned() {
    for style in [
        LandingStyle::Merge,
        LandingStyle::Squash,
        LandingStyle::Rebase,
    ] {
        let ground = GitFixture::with_style(8, "true", style).await;
        let ids = ground.approve(&[Kind::Plain; 3]).await;
        ground.land(&ids).await;
        for id in &ids {
            let ticket = ground.ticket(id).await;
            assert_eq!(ticket.stage, Stage::Done, "{style:?} {id}");
            let (landed, approval) = (ticket.landed.unwrap(), ticket.approval.unwrap());
            // A merge has the approved commit itself; the others have one with its diff.
            let is_itself = landed.commit == approval.commit;
            assert_eq!(is_itself, style == LandingStyle::Merge, "{style:?}");
            let on_main = ["merge-base", "--is-ancestor", &landed.commit, "main"];
            ground.git(&on_main);
        }
        let merges = if style == LandingStyle::Merge { 3 } else { 0 };
        assert_eq!(ground.merges(), merges, "{style:?}");
        let format =
            "--format=%(trailers:key=Countersigned-by,valueonly)%(trailers:key=Ticket,valueonly)";
        let log = ground.git(&["log", "--first-parent", "-3", "--reverse", format, "main"]);
        let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
        let by = "reviewer <reviewer@countersign.invalid>";
        assert_eq!(lines, [by, "T-000", by, "T-001", by, "T-002"], "{style:?}");
        assert!(ground.is_green());
    }
}

#[tokio::test]
async fn conflicts_and_red_pairs_go_back_in_every_style_and_land_after_rework() {
    for style in [LandingStyle::Squash, LandingStyle::Rebase] {
        let ground = GitFixture::with_style(8, "true", style).await;
        let kinds = [Kind::Plain, Kind::Conflicts, Kind::Plain, Kind::RedTogether];
        let ids = ground.approve(&kinds).await;
        ground.land(&ids).await;
        assert_eq!(ground.rework(&ids).await, 2, "{style:?}");
        ground.land(&ids).await;
        for id in &ids {
            assert_eq!(ground.ticket(id).await.stage, Stage::Done, "{style:?} {id}");
        }
        assert_eq!(ground.merges(), 0);
        assert!(ground.is_green());
    }
}

#[tokio::test]
async fn a_landing_that_was_killed_before_its_report_is_recognised() {
    for style in [LandingStyle::Squash, LandingStyle::Rebase] {
        let ground = GitFixture::with_style(8, "true", style).await;
        let ids = ground.approve(&[Kind::Plain]).await;
        let first = ground.git(&["rev-parse", "main"]);
        ground.land(&ids).await;
        let tip = ground.git(&["rev-parse", "main"]);
        // The same again, as if the store had never heard of it: its refs are there.
        let again = GitFixture::with_style(8, "true", style).await;
        let ids = again.approve(&[Kind::Plain]).await;
        let approved = again.ticket(&ids[0]).await.approval.unwrap().commit;
        let squashed = again.git(&[
            "commit-tree",
            &format!("{approved}^{{tree}}"),
            "-p",
            "main",
            "-m",
            "landed",
        ]);
        again.git(&[
            "update-ref",
            &format!("refs/countersign/{}/landing-base", ids[0]),
            "main",
        ]);
        again.git(&[
            "update-ref",
            &format!("refs/countersign/{}/landing", ids[0]),
            &squashed,
        ]);
        again.git(&["update-ref", "refs/heads/main", &squashed]);
        again.land(&ids).await;
        let ticket = again.ticket(&ids[0]).await;
        assert_eq!(ticket.stage, Stage::Done, "{style:?}");
        assert_eq!(ticket.landed.unwrap().commit, squashed, "landed once");
        assert_eq!(again.git(&["rev-parse", "main"]), squashed);
        assert_ne!(first, tip);
    }
}

#[tokio::test]
async fn a_change_that_the_base_has_already_goes_to_a_person() {
    for style in [LandingStyle::Squash, LandingStyle::Rebase] {
        let ground = GitFixture::with_style(8, "true", style).await;
        let ids = ground.approve(&[Kind::Plain]).await;
        let approved = ground.ticket(&ids[0]).await.approval.unwrap().commit;
        let by_hand = ground.git(&[
            "commit-tree",
            &format!("{approved}^{{tree}}"),
            "-p",
            "main",
            "-m",
            "by hand",
        ]);
        ground.git(&["update-ref", "refs/heads/main", &by_hand]);
        ground.land(&ids).await;
        let ticket = ground.ticket(&ids[0]).await;
        assert_eq!(ticket.stage, Stage::Escalated, "{style:?}");
        let evidence = ticket.escalation.unwrap().evidence;
        assert!(evidence.contains("already has everything"), "{evidence}");
        assert_eq!(ground.git(&["rev-parse", "main"]), by_hand);
    }
}

#[tokio::test]
async fn a_squash_that_is_another_diff_than_the_approved_one_does_not_land() {
    for style in [LandingStyle::Squash, LandingStyle::Rebase] {
        let ground = GitFixture::with_style(8, "true", style).await;
        let ids = ground.approve(&[Kind::Plain]).await;
        let approved = ground.ticket(&ids[0]).await.approval.unwrap().commit;
        // Someone lands one file of the change by hand.
        let blob = ground.git(&["rev-parse", &format!("{approved}:own-0")]);
        ground.git(&["read-tree", "--index-output=.git/part", "main"]);
        let part = ground.git_with_index(
            ".git/part",
            &[
                "update-index",
                "--add",
                "--cacheinfo",
                &format!("100644,{blob},own-0"),
            ],
        );
        assert_eq!(part, "");
        let tree = ground.git_with_index(".git/part", &["write-tree"]);
        let by_hand = ground.git(&["commit-tree", &tree, "-p", "main", "-m", "by hand"]);
        ground.git(&["update-ref", "refs/heads/main", &by_hand]);
        ground.land(&ids).await;
        let ticket = ground.ticket(&ids[0]).await;
        assert_eq!(ticket.stage, Stage::Rework, "{style:?}");
        let Some(ReworkReason::Conflict { evidence, .. }) = ticket.rework_reason else {
            panic!("{:?}", ticket.rework_reason)
        };
        assert!(
            evidence.contains("no longer the diff that was approved"),
            "{evidence}"
        );
        assert_eq!(ground.git(&["rev-parse", "main"]), by_hand);
    }
}
