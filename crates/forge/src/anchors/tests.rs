use super::*;
use proptest::prelude::*;

fn anchor(path: &str, start_line: Option<u32>, line: u32) -> LineAnchor {
    LineAnchor {
        path: path.to_owned(),
        side: DiffSide::Right,
        start_line,
        line,
    }
}

const DIFF: &str = "diff --git a/a.rs b/a.rs
--- a/a.rs
+++ b/a.rs
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
@@ -20,2 +20,3 @@
 x
+y
 z
\\ No newline at end of file
diff --git a/old name.rs b/new name.rs
similarity index 90%
rename from old name.rs
rename to new name.rs
--- a/old name.rs\t
+++ b/new name.rs\t
@@ -5 +5 @@
-a\r
+b\r
diff --git a/gone.rs b/gone.rs
deleted file mode 100644
--- a/gone.rs
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git \"a/\\303\\244.rs\" \"b/\\303\\244.rs\"
--- \"a/\\303\\244.rs\"
+++ \"b/\\303\\244.rs\"
@@ -0,0 +1 @@
+--- a/fake.rs
diff --git \"a/\\377.rs\" \"b/\\377.rs\"
--- \"a/\\377.rs\"
+++ \"b/\\377.rs\"
@@ -0,0 +1 @@
+x
diff --git a/sub b/sub
--- a/sub
+++ b/sub
@@ -1 +1 @@
-Subproject commit aaaa
+Subproject commit bbbb
";

#[test]
fn lines_of_every_kind_of_file_are_known() {
    let lines = CommentableLines::parse(DIFF, DiffLimits::NONE);
    let right = |path: &str, line| lines.has_line(path, DiffSide::Right, line);
    let left = |path: &str, line| lines.has_line(path, DiffSide::Left, line);
    assert!(right("a.rs", 1) && right("a.rs", 2) && right("a.rs", 22) && !right("a.rs", 4));
    assert!(left("a.rs", 2) && left("a.rs", 21) && !left("a.rs", 22));
    assert!(right("new name.rs", 5) && !lines.has_file("old name.rs"));
    assert!(left("gone.rs", 1) && !right("gone.rs", 1));
    assert!(lines.has_file("run.sh") && !right("run.sh", 1));
    assert!(right("\u{e4}.rs", 1) && !lines.has_file("fake.rs") && right("sub", 1));
    assert_eq!(lines.files.len(), 6);
    let position = lines.position("new name.rs", DiffSide::Right, 5).unwrap();
    assert_eq!(
        (position.old_path.as_str(), position.old_line),
        ("old name.rs", None)
    );
    let kept = lines.position("a.rs", DiffSide::Right, 22).unwrap();
    assert_eq!((kept.old_line, kept.new_line), (Some(21), Some(22)));
}

#[test]
fn a_range_stays_within_one_hunk() {
    let lines = CommentableLines::parse(DIFF, DiffLimits::NONE);
    let place = |start, line| lines.place(&anchor("a.rs", start, line));
    assert_eq!(
        place(Some(1), 3),
        Placement::Line(anchor("a.rs", Some(1), 3))
    );
    assert_eq!(place(Some(3), 3), Placement::Line(anchor("a.rs", None, 3)));
    assert_eq!(place(Some(9), 3), Placement::Line(anchor("a.rs", None, 3)));
    assert_eq!(
        place(Some(3), 20),
        Placement::Line(anchor("a.rs", None, 20))
    );
    assert_eq!(place(Some(3), 10), Placement::Line(anchor("a.rs", None, 3)));
    assert_eq!(place(None, 10), Placement::File("a.rs".to_owned()));
    assert_eq!(
        lines.place(&anchor("run.sh", None, 1)),
        Placement::File("run.sh".to_owned())
    );
    assert_eq!(lines.place(&anchor("other.rs", None, 1)), Placement::Body);
}

#[test]
fn beyond_the_forge_s_limits_no_line_is_commentable() {
    let small = DiffLimits {
        lines: 5,
        ..DiffLimits::NONE
    };
    let lines = CommentableLines::parse(DIFF, small);
    assert!(lines.has_line("a.rs", DiffSide::Right, 3));
    assert!(
        !lines.has_line("a.rs", DiffSide::Right, 22) && !lines.has_line("sub", DiffSide::Right, 1)
    );
    let files = CommentableLines::parse(
        DIFF,
        DiffLimits {
            files: 1,
            ..DiffLimits::NONE
        },
    );
    assert_eq!(files.files.len(), 1);
    let large = CommentableLines::parse(
        DIFF,
        DiffLimits {
            file_lines: 3,
            ..DiffLimits::NONE
        },
    );
    assert!(!large.has_line("a.rs", DiffSide::Right, 1) && large.has_file("a.rs"));
    assert!(large.has_line("sub", DiffSide::Right, 1));
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader_and_places_are_commentable(
        text in "(diff --git a/x b/x\n|--- a/x\n|\\+\\+\\+ b/x\n|@@ -1,3 \\+1,4 @@\n| a\n|-b\n|\\+c\n|\\\\ No\n|\"|é|\t|\n){0,30}",
        start in prop::option::of(0_u32..8), line in 0_u32..8,
    ) {
        let lines = CommentableLines::parse(&text, DiffLimits::GITHUB);
        if let Placement::Line(placed) = lines.place(&anchor("x", start, line)) {
            prop_assert!(lines.has_line("x", DiffSide::Right, placed.line));
            if let Some(start) = placed.start_line {
                prop_assert!(start < placed.line && lines.has_line("x", DiffSide::Right, start));
            }
        }
    }
}
