//! Our idea of a commentable line against diffs whose lines are known, because they are made here.

use std::collections::HashSet;
use std::fmt::Write;

use forge::Forge;
use forge::anchors::{CommentableLines, DiffLimits, DiffSide, LineAnchor, Placement};

use crate::conformance::{JumpingClock, connect, fake, finding, review};

struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(end)).unwrap()
    }
}

type Known = HashSet<(String, String, u64)>;

/// A diff of one file with random hunks, and the lines that it shows.
fn random_diff(random: &mut Random) -> (String, Known) {
    let mut diff = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n".to_owned();
    let (mut known, mut old, mut new) = (Known::new(), 1, 1);
    for _ in 0..=random.below(4) {
        let gap = random.below(30);
        (old, new) = (old + gap, new + gap);
        let (from, mut rows) = ((old, new), String::new());
        for _ in 0..=random.below(20) {
            let kind = random.below(3);
            let _ = writeln!(
                rows,
                "{}{}",
                [" ", "-", "+"][kind as usize],
                ["x", "-- a/b", "++ b/c", ""][random.below(4) as usize]
            );
            if kind != 2 {
                known.insert(("a.rs".to_owned(), "LEFT".to_owned(), u64::from(old)));
                old += 1;
            }
            if kind != 1 {
                known.insert(("a.rs".to_owned(), "RIGHT".to_owned(), u64::from(new)));
                new += 1;
            }
        }
        let _ = write!(
            diff,
            "@@ -{},{} +{},{} @@\n{rows}",
            from.0,
            old - from.0,
            from.1,
            new - from.1
        );
    }
    (diff, known)
}

#[tokio::test]
async fn commentable_lines_are_those_of_the_forge_and_no_review_is_rejected() {
    let mut random = Random(7);
    for number in 0..40 {
        let (diff, known) = random_diff(&mut random);
        let lines = CommentableLines::parse(&diff, DiffLimits::GITHUB);
        let mut findings = Vec::new();
        for at in 0..500 {
            let line = random.below(160);
            let side = if random.below(2) == 0 {
                DiffSide::Left
            } else {
                DiffSide::Right
            };
            let word = if side == DiffSide::Left {
                "LEFT"
            } else {
                "RIGHT"
            };
            let truth = known.contains(&("a.rs".to_owned(), word.to_owned(), u64::from(line)));
            assert_eq!(
                lines.has_line("a.rs", side, line),
                truth,
                "{word} {line}\n{diff}"
            );
            let mut one = finding(&format!("F{at}"), "a.rs", line);
            one.anchor = Some(LineAnchor {
                path: "a.rs".to_owned(),
                side,
                start_line: Some(line.saturating_sub(random.below(9))),
                line,
            });
            let placed = lines.place(one.anchor.as_ref().unwrap());
            assert!(matches!(placed, Placement::Line(_)) || !truth);
            findings.push(one);
        }
        let fake = fake();
        fake.0.lock().unwrap().lines = known;
        let clock = std::sync::Arc::new(JumpingClock::default());
        let forge = connect(fake.clone(), clock, "https://ghes.example/api/v3");
        let draft = forge::ChangeDraft {
            head_branch: "b".to_owned(),
            base_branch: "main".to_owned(),
            title: "t".to_owned(),
            body: String::new(),
            draft: false,
        };
        forge.ensure_change(&draft).await.unwrap();
        let mut draft = review(1, findings);
        draft.lines = lines;
        forge.ensure_review(&draft).await.unwrap();
        assert!(fake.0.lock().unwrap().refused.is_empty(), "diff {number}");
    }
}
