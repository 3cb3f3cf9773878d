use super::*;

const FINDING: &str = "src/a.py:3:1: error: a name is missing\n";

fn run<'a>(command: &'a str, exit: Exit, stdout: &'a str) -> LinterRun<'a> {
    LinterRun {
        name: "lint",
        command,
        exit: Some(exit),
        stdout,
        output: stdout,
        cut: false,
        tail: stdout,
        roots: &[],
    }
}

fn count(command: &str, code: i32, stdout: &str) -> Option<usize> {
    findings_of(&run(command, Exit::Code(code), stdout))
        .ok()
        .map(|review| review.findings.len())
}

/// Every known linter with the codes that stand for findings.
const LINTERS: [(&str, &[i32]); 24] = [
    ("eslint .", &[1]),
    ("ruff check .", &[1]),
    ("cargo clippy", &[1, 101]),
    ("mypy .", &[1]),
    ("golangci-lint run", &[1]),
    ("shellcheck a.sh", &[1]),
    ("semgrep scan", &[1]),
    ("rubocop", &[1]),
    ("phpstan analyse", &[1]),
    ("tsc --noEmit", &[1, 2]),
    ("biome ci .", &[1]),
    ("stylelint '**/*.css'", &[2]),
    ("flake8", &[1]),
    ("bandit -r .", &[1]),
    ("hadolint Dockerfile", &[1]),
    ("ktlint", &[1]),
    ("detekt", &[2]),
    ("staticcheck ./...", &[1]),
    ("gofmt -d .", &[1]),
    ("go vet ./...", &[1, 2]),
    ("prettier --check .", &[1]),
    ("tflint", &[2]),
    ("yamllint .", &[1, 2]),
    ("some-linter --all", &[1]),
];

#[test]
fn only_a_code_that_stands_for_findings_lets_them_count() {
    for (command, findings) in LINTERS {
        for code in 0..=255 {
            let counts = code == 0 || findings.contains(&code);
            let wanted = counts.then_some(1);
            assert_eq!(count(command, code, FINDING), wanted, "{command} {code}");
            // Without a readable finding, only 0 is an answer.
            let silent = (code == 0).then_some(0);
            assert_eq!(count(command, code, ""), silent, "{command} {code}");
            assert_eq!(count(command, code, "[]"), silent, "{command} {code}");
        }
    }
}

#[test]
fn the_bits_of_pylint_are_read() {
    for code in 0..=255 {
        let found = count("pylint src", code, FINDING);
        let counts = code == 0 || (code < 32 && code & 1 == 0);
        assert_eq!(found, counts.then_some(1), "{code}");
    }
}

#[test]
fn what_was_stopped_is_no_answer() {
    let exits = (1..=64).map(Exit::Signal).chain([
        Exit::WallLimit,
        Exit::IdleLimit,
        Exit::DiskLimit { bytes: 1, files: 1 },
        Exit::Dismissed,
        Exit::Cancelled,
    ]);
    for exit in exits {
        for stdout in ["", FINDING, "[]", "All checks passed!"] {
            let why = findings_of(&run("ruff check .", exit, stdout)).unwrap_err();
            assert!(
                why.contains("lint") && why.contains(&exit.to_string()),
                "{why}"
            );
        }
    }
    let not_started = LinterRun {
        exit: None,
        ..run("ruff", Exit::Code(0), "")
    };
    assert!(findings_of(&not_started).is_err());
    let cut = LinterRun {
        cut: true,
        ..run("ruff", Exit::Code(1), FINDING)
    };
    assert!(findings_of(&cut).is_err());
}

#[test]
fn a_crash_is_no_answer_whatever_the_code() {
    let crashes = [
        "Traceback (most recent call last):\n  File \"lint.py\", line 3, in main\n    run()\nValueError: bad\n",
        "thread 'main' panicked at src/main.rs:3:5:\nindex out of bounds\n",
        "src/a.py:3: error: half of it\nTraceback (most recent call last):\n",
        "Segmentation fault (core dumped)\n",
        "sh: 1: eslint: not found\n",
        "usage: lint [-h] files\nlint: error: unrecognized arguments\n",
        "internal failure: cannot read the configuration\n",
    ];
    for text in crashes {
        for code in 1..=255 {
            assert_eq!(count("my-lint", code, text), None, "{code} {text}");
            assert_eq!(count("eslint .", code, text), None, "{code} {text}");
        }
        assert_eq!(count("my-lint || true", 0, text), None, "{text}");
    }
}

#[test]
fn an_exit_code_of_zero_with_words_that_cannot_be_read_is_no_answer() {
    assert_eq!(count("my-lint", 0, "3 problems in 2 files\n"), None);
    assert_eq!(count("my-lint", 0, "I looked at everything.\n"), None);
    assert_eq!(count("my-lint", 0, "0 errors, 3 warnings\n"), None);
    assert_eq!(count("eslint .", 0, "  3:1  warning  no-console\n"), None);
    assert_eq!(
        count("my-lint", 0, "{\"error\": \"no configuration\"}"),
        None
    );
    let failed = r#"{"version":"2.1.0","runs":[{"invocations":[{"executionSuccessful":false}],"results":[]}]}"#;
    assert_eq!(count("my-lint", 0, failed), None);
    // A failure behind a pipe or `|| true` leaves only standard error.
    let hidden = LinterRun {
        output: "error: cannot find the configuration\n",
        ..run("my-lint || true", Exit::Code(0), "")
    };
    assert!(findings_of(&hidden).is_err());
}

#[test]
fn nothing_to_report_is_said_in_many_ways() {
    for (command, stdout) in [
        ("true", ""),
        ("my-lint", "[]\n"),
        ("my-lint", "{\"results\": [], \"errors\": []}"),
        (
            "my-lint",
            "{\"version\":\"2.1.0\",\"runs\":[{\"tool\":{},\"results\":[]}]}",
        ),
        ("my-lint", "<checkstyle version=\"8\"></checkstyle>"),
        ("my-lint", "No issues found.\n"),
        ("my-lint", "Checked 12 files\n0 errors, 0 warnings\n"),
        ("ruff check .", "All checks passed!\n"),
        ("mypy .", "Success: no issues found in 3 source files\n"),
        (
            "cargo clippy",
            "    Checking app v0.1.0\n    Finished `dev` profile in 0.3s\n",
        ),
        (
            "prettier --check .",
            "Checking formatting...\nAll matched files use Prettier code style!\n",
        ),
    ] {
        assert_eq!(count(command, 0, stdout), Some(0), "{command}: {stdout}");
    }
}

#[test]
fn notes_on_standard_error_do_not_hide_a_report() {
    let noisy = LinterRun {
        output: "npm warn deprecated\n[{\"filePath\":\"/w/a.js\",\"messages\":[{\"severity\":2,\"message\":\"Bad\",\"line\":3}]}]\n",
        roots: &["/w"],
        ..run(
            "eslint -f json .",
            Exit::Code(1),
            "[{\"filePath\":\"/w/a.js\",\"messages\":[{\"severity\":2,\"message\":\"Bad\",\"line\":3}]}]\n",
        )
    };
    let review = findings_of(&noisy).unwrap();
    assert_eq!(review.findings[0].file.as_deref(), Some("a.js"));
    // Compilers print their findings there.
    let text = "warning: unused variable: `x`\n --> src/main.rs:2:9\n  |\n2 |     let x = 1;\n";
    let clippy = LinterRun {
        output: text,
        ..run("cargo clippy", Exit::Code(0), "")
    };
    assert_eq!(findings_of(&clippy).unwrap().findings.len(), 1);
}
