use super::*;

fn first(input: &str) -> FindingDraft {
    drafts(input)
        .and_then(|drafts| drafts.into_iter().next())
        .unwrap_or_default()
}

fn facts(draft: &FindingDraft) -> (&str, u32, &str, &str, &str) {
    (
        draft.file.as_deref().unwrap_or(""),
        draft.line.unwrap_or(0),
        draft.severity.as_deref().unwrap_or(""),
        draft.rule.as_deref().unwrap_or(""),
        &draft.title,
    )
}

#[test]
fn one_finding_a_line_is_read_in_many_tools_spelling() {
    assert_eq!(
        facts(&first(
            "src/a.c:3:5: warning: unused variable 'x' [-Wunused]"
        ))
        .0,
        "src/a.c"
    );
    assert_eq!(
        facts(&first("run.sh:122:16: note: Use quotes. [SC2016]")),
        ("run.sh", 122, "note", "SC2016", "Use quotes.")
    );
    assert_eq!(
        facts(&first("pkg/m.py:12:4: B905 `zip()` without strict")),
        ("pkg/m.py", 12, "", "B905", "`zip()` without strict")
    );
    assert_eq!(
        facts(&first("pkg/m.py:12:4: F401 [*] `os` imported but unused")),
        ("pkg/m.py", 12, "", "F401", "`os` imported but unused")
    );
    assert_eq!(
        facts(&first(
            "pkg/m.py:9: error: Incompatible types  [assignment]"
        )),
        ("pkg/m.py", 9, "error", "assignment", "Incompatible types")
    );
    assert_eq!(
        facts(&first(
            "pkg/m.py:1:0: C0114: Missing docstring (missing-module-docstring)"
        )),
        ("pkg/m.py", 1, "", "C0114", "Missing docstring")
    );
    assert_eq!(
        facts(&first("Program.cs(10,5): error CS1002: ; expected")),
        ("Program.cs", 10, "error", "CS1002", "; expected")
    );
}

#[test]
fn workflow_commands_are_read_with_their_escapes() {
    let draft =
        first("::error file=app.js,line=10,endLine=12,title=Lint::Missing semi%0Asecond line");
    assert_eq!(facts(&draft), ("app.js", 10, "error", "", "Lint"));
    assert_eq!(
        (draft.end_line, draft.problem.as_deref()),
        (Some(12), Some("Missing semi\nsecond line"))
    );
}

#[test]
fn a_compilers_arrows_point_at_the_place() {
    let input = "warning: unused variable: `x`\n --> src/main.rs:2:9\n  |\n2 |     let x = 1;\n  |         ^\n\nerror[E0308]: mismatched types\n --> src/lib.rs:7:5\n";
    let drafts = drafts(input).unwrap_or_default();
    assert_eq!(
        facts(&drafts[0]),
        ("src/main.rs", 2, "warning", "", "unused variable: `x`")
    );
    assert_eq!(
        facts(&drafts[1]),
        ("src/lib.rs", 7, "error", "E0308", "mismatched types")
    );
}

#[test]
fn checkstyle_is_read() {
    let input = "<?xml version=\"1.0\"?>\n<checkstyle version=\"8\">\n<file name=\"src/A.java\">\n<error line=\"4\" column=\"1\" severity=\"warning\" message=\"Name &quot;x&quot; is short\" source=\"naming\"/>\n</file></checkstyle>";
    assert_eq!(
        facts(&first(input)),
        ("src/A.java", 4, "warning", "naming", "Name \"x\" is short")
    );
}

#[test]
fn blocks_of_labels_are_read() {
    let input = "Starting\n\n==========\nFile: web/page.tsx\nLine: 42 to 47\nType: potential_issue\n\nPrompt for AI Agent:\nThe title cannot be reached by keyboard.\n";
    let draft = first(input);
    assert_eq!(
        facts(&draft),
        (
            "web/page.tsx",
            42,
            "potential_issue",
            "",
            "The title cannot be reached by keyboard."
        )
    );
    assert_eq!(draft.end_line, Some(47));
}

#[test]
fn prose_that_quotes_a_line_of_a_tool_is_prose() {
    assert!(drafts("The build fails.\nIt prints\n\nsrc/a.c:3:5: error: x\n\nand stops there.\nPlease fix it.").is_none());
    assert!(drafts("Note: this is fine\nTODO: nothing").is_none());
}
