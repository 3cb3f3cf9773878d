use super::*;
use crate::severity::Rating;

fn finding(title: &str, file: &str, line: u32) -> Finding {
    Finding {
        file: (!file.is_empty()).then(|| file.to_owned()),
        line: (line > 0).then_some(line),
        ..Finding::new(title, Rating::of(Some("high"), false))
    }
}

fn links(known: &[Finding], new: &[Finding], diff: &str) -> Vec<(String, usize, LinkReason)> {
    let ids: Vec<String> = (1..=known.len())
        .map(|number| format!("F{number}"))
        .collect();
    let known: Vec<KnownFinding<'_>> = known
        .iter()
        .zip(&ids)
        .map(|(finding, id)| KnownFinding { id, finding })
        .collect();
    track(&known, new, &LineMap::parse(diff))
        .into_iter()
        .map(|link| (link.id, link.new, link.how))
        .collect()
}

const MOVED: &str = "diff --git a/src/old.rs b/src/new.rs\nsimilarity index 90%\nrename from src/old.rs\nrename to src/new.rs\n--- a/src/old.rs\n+++ b/src/new.rs\n@@ -3,0 +4,10 @@\n+x\n@@ -20,2 +30 @@\n-a\n-b\n+c\n";

#[test]
fn lines_are_mapped_through_hunks_and_renames() {
    let map = LineMap::parse(MOVED);
    let at = |line| map.map("src/old.rs", Some(line));
    assert_eq!(
        at(3),
        MappedLine {
            file: Some("src/new.rs".into()),
            line: Some(3),
            touched: false
        }
    );
    assert_eq!(at(4).line, Some(14));
    assert_eq!(
        at(20),
        MappedLine {
            file: Some("src/new.rs".into()),
            line: Some(30),
            touched: true
        }
    );
    assert_eq!(
        at(21),
        MappedLine {
            file: Some("src/new.rs".into()),
            line: Some(30),
            touched: true
        }
    );
    assert_eq!(at(22).line, Some(31));
    assert_eq!(
        map.map("other.rs", Some(7)),
        MappedLine {
            file: Some("other.rs".into()),
            line: Some(7),
            touched: false
        }
    );
}

#[test]
fn a_deleted_file_maps_to_nothing() {
    let map = LineMap::parse(
        "diff --git a/x.c b/x.c\ndeleted file mode 100644\n--- a/x.c\n+++ /dev/null\n@@ -1,4 +0,0 @@\n-a\n",
    );
    assert_eq!(map.map("x.c", Some(2)).file, None);
}

#[test]
fn the_same_finding_is_known_again_on_its_moved_line() {
    let known = [finding(
        "Queue is drained without the lock",
        "src/old.rs",
        12,
    )];
    let new = [finding(
        "Queue is drained without the lock",
        "src/new.rs",
        22,
    )];
    assert_eq!(
        links(&known, &new, MOVED),
        [("F1".to_owned(), 0, LinkReason::Line)]
    );
}

#[test]
fn a_reworded_finding_near_its_place_is_known_again() {
    let known = [finding(
        "`drain_queue` reads the queue without holding `state_lock`",
        "src/a.rs",
        12,
    )];
    let new = [
        finding(
            "The retry delay overflows for large attempts",
            "src/a.rs",
            80,
        ),
        finding(
            "Missing lock: state_lock is not taken in drain_queue",
            "src/a.rs",
            14,
        ),
    ];
    assert_eq!(
        links(&known, &new, ""),
        [("F1".to_owned(), 1, LinkReason::Line)]
    );
}

#[test]
fn another_finding_in_the_same_file_is_not_the_same() {
    let known = [finding("Totals are summed as floats", "shop/cart.py", 40)];
    let new = [finding(
        "Coupon codes are compared case-sensitively",
        "shop/cart.py",
        44,
    )];
    assert_eq!(links(&known, &new, ""), []);
}

#[test]
fn a_quoted_line_of_code_links_whatever_is_said_of_it() {
    let anchor = |finding: Finding| Finding {
        anchor: Some("let  x = parse(input)?;".into()),
        ..finding
    };
    let known = [anchor(finding("Error is swallowed", "a.rs", 3))];
    let new = [anchor(finding("Input of any size is accepted", "a.rs", 90))];
    assert_eq!(
        links(&known, &new, ""),
        [("F1".to_owned(), 0, LinkReason::Anchor)]
    );
}

#[test]
fn one_new_finding_answers_for_one_known_finding() {
    let known = [
        finding("Token is logged", "a.rs", 3),
        finding("Token is logged", "a.rs", 30),
    ];
    let new = [finding("Token is logged", "a.rs", 30)];
    assert_eq!(
        links(&known, &new, ""),
        [("F2".to_owned(), 0, LinkReason::Line)]
    );
}

#[test]
fn a_summary_of_remaining_findings_names_them_by_number() {
    let known = [
        finding("A thing", "a.rs", 1),
        finding("Stray debug output", "b.rs", 2),
        finding("Dead import", "c.rs", 3),
    ];
    let new = [finding(
        "Remaining minor items from the previous round (2, 3) stay as they are",
        "",
        0,
    )];
    assert_eq!(
        links(&known, &new, ""),
        [
            ("F2".to_owned(), 0, LinkReason::Mention),
            ("F3".to_owned(), 0, LinkReason::Mention)
        ]
    );
}

#[test]
fn two_rules_of_a_linter_on_one_line_are_two_findings() {
    let rule = |finding: Finding, rule: &str| Finding {
        rule: Some(rule.into()),
        ..finding
    };
    let known = [rule(finding("unused variable x", "a.py", 3), "F841")];
    let new = [rule(finding("unused import x", "a.py", 3), "F401")];
    assert_eq!(links(&known, &new, ""), []);
}
