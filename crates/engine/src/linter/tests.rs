use super::*;

const FINDING: &str = "src/a.py:3:1: error: a name is missing\n";

fn run<'a>(command: &'a str, exit: ProcessExit, stdout: &'a str) -> LinterRun<'a> {
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
    read_linter_run(&run(command, ProcessExit::Code(code), stdout))
        .ok()
        .map(|review| review.findings.len())
}

/// Every known linter with its exit codes for findings.
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
            // Without a readable finding, only code 0 is an answer.
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
    let exits = (1..=64).map(ProcessExit::Signal).chain([
        ProcessExit::WallLimit,
        ProcessExit::IdleLimit,
        ProcessExit::DiskLimit { bytes: 1, files: 1 },
        ProcessExit::Dismissed,
        ProcessExit::Cancelled,
    ]);
    for exit in exits {
        for stdout in ["", FINDING, "[]", "All checks passed!"] {
            let why = read_linter_run(&run("ruff check .", exit, stdout)).unwrap_err();
            assert!(
                why.contains("lint") && why.contains(&exit.to_string()),
                "{why}"
            );
        }
    }
    let not_started = LinterRun {
        exit: None,
        ..run("ruff", ProcessExit::Code(0), "")
    };
    assert!(read_linter_run(&not_started).is_err());
    let cut = LinterRun {
        cut: true,
        ..run("ruff", ProcessExit::Code(1), FINDING)
    };
    assert!(read_linter_run(&cut).is_err());
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
    // A failure behind a pipe or `|| true` leaves only stderr.
    let hidden = LinterRun {
        output: "error: cannot find the configuration\n",
        ..run("my-lint || true", ProcessExit::Code(0), "")
    };
    assert!(read_linter_run(&hidden).is_err());
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
            ProcessExit::Code(1),
            "[{\"filePath\":\"/w/a.js\",\"messages\":[{\"severity\":2,\"message\":\"Bad\",\"line\":3}]}]\n",
        )
    };
    let review = read_linter_run(&noisy).unwrap();
    assert_eq!(review.findings[0].file.as_deref(), Some("a.js"));
    // Compilers print their findings on stderr.
    let text = "warning: unused variable: `x`\n --> src/main.rs:2:9\n  |\n2 |     let x = 1;\n";
    let clippy = LinterRun {
        output: text,
        ..run("cargo clippy", ProcessExit::Code(0), "")
    };
    assert_eq!(read_linter_run(&clippy).unwrap().findings.len(), 1);
}

/// Machine-readable output with exit code 0 that does not mean "nothing found".
const UNCLEAR: &[&str] = &[
    r#"{"verdict":"request_changes"}"#,
    r#"{"verdict":"reject","summary":"data loss"}"#,
    r#"{"approved":false}"#,
    r#"{"status":"failed"}"#,
    r#"{"ok":false,"count":3}"#,
    r#"{"success":false}"#,
    r#"{"success":true}"#,
    r#"{"error":"license expired"}"#,
    r#"{"message":"rate limit exceeded"}"#,
    r#"{"issues":3}"#,
    r#"{"total":7,"critical":2}"#,
    r#"{"ran":0}"#,
    r#"{"exit":2}"#,
    r#"{"errors":["config broken"]}"#,
    r#"{"errors":[]}"#,
    r#"{"Report":{"Outcome":"Fail"}}"#,
    r#"{"results":null}"#,
    r#"{"results":[],"success":false}"#,
    r#"{"results":[],"status":"timed_out"}"#,
    r#"{"results":[],"truncated":true}"#,
    r#"{"results":[],"message":"rate limit exceeded"}"#,
    r#"{"diagnostics":[],"summary":{"errors":4}}"#,
    r#"{"files":[],"errorCount":2}"#,
    r#"{"violations":{"a.py":"leaks"}}"#,
    r#"{"vulnerabilities":{"lodash":{"via":["x"],"range":"<4"}}}"#,
    r#"{"metadata":{"vulnerabilities":{"critical":3}}}"#,
    r#"{"vulnerabilities":{},"metadata":{"vulnerabilities":{"critical":3}}}"#,
    r#"[{"filePath":"/w/a.js","messages":[],"errorCount":2,"warningCount":0}]"#,
    "{}",
    "null",
    "false",
    "true",
    "42",
    "\"crashed\"",
    "[1,2,3]",
    "[null]",
    "[{}]",
    "<html>502 Bad Gateway</html>",
    "<error>boom</error>",
    r#"<testsuites failures="4"/>"#,
    r#"<testsuite tests="3" errors="1"></testsuite>"#,
    r#"<testsuite tests="1"><testcase name="x"><rerunFailure/></testcase></testsuite>"#,
    r#"<pmd><error filename="a.py" msg="crash"/></pmd>"#,
    "<checkstyle><exception>boom</exception></checkstyle>",
    r#"<checkstyle><file name="a.py"><exception>boom</exception></file></checkstyle>"#,
    "<checkstyle>",
    r#"{"version":"2.1.0","runs":[]}"#,
    r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}}}]}"#,
    r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":null}]}"#,
    r#"{"version":"2.1.0","runs":[{"results":[],"invocations":[{"executionSuccessful":false}]}]}"#,
    r#"{"version":"2.1.0","runs":[{"results":[],"invocations":[{"executionSuccessful":true,"toolExecutionNotifications":[{"level":"error","message":{"text":"x"}}]}]}]}"#,
    "{\"reason\":\"compiler-artifact\"}\n{\"reason\":\"build-finished\",\"success\":false}\n",
];

/// Reports of tools without findings.
const CLEAN: &[&str] = &[
    "[]",
    r#"{"results": [], "errors": []}"#,
    r#"{"issues":[],"errors":[]}"#,
    r#"{"comments":[]}"#,
    r#"{"Issues":null,"Report":{"Linters":[{"Name":"errcheck","Enabled":true}]}}"#,
    r#"[{"filePath":"/w/a.js","messages":[],"suppressedMessages":[],"errorCount":0,"fatalErrorCount":0,"warningCount":0,"usedDeprecatedRules":[]}]"#,
    r#"[{"source":"/w/a.css","deprecations":[],"invalidOptionWarnings":[],"parseErrors":[],"errored":false,"warnings":[]}]"#,
    r#"{"errors":[],"generated_at":"2026-01-02T03:04:05Z","metrics":{"_totals":{"CONFIDENCE.HIGH":0,"SEVERITY.HIGH":0,"loc":120,"nosec":0,"skipped_tests":0}},"results":[]}"#,
    r#"{"version":"1.50.0","results":[],"errors":[],"paths":{"scanned":["a.py"]},"skipped_rules":[]}"#,
    r#"{"totals":{"errors":0,"file_errors":0},"files":[],"errors":[]}"#,
    r#"{"version":"1.1","time":"1700000000","generalDiagnostics":[],"summary":{"filesAnalyzed":12,"errorCount":0,"warningCount":0,"informationCount":0,"timeInSec":0.5}}"#,
    r#"{"metadata":{"rubocop_version":"1.60"},"files":[{"path":"a.rb","offenses":[]}],"summary":{"offense_count":0,"target_file_count":1,"inspected_file_count":1}}"#,
    r#"{"summary":{"changed":0,"unchanged":1,"errors":0,"warnings":0},"diagnostics":[],"command":"lint"}"#,
    r#"{"auditReportVersion":2,"vulnerabilities":{},"metadata":{"vulnerabilities":{"info":0,"low":0,"moderate":0,"high":0,"critical":0,"total":0},"dependencies":{"prod":12,"total":80}}}"#,
    r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":[],"invocations":[{"executionSuccessful":true}]}]}"#,
    r#"<?xml version="1.0"?><checkstyle version="8"><file name="a.java"></file></checkstyle>"#,
    r#"<testsuites tests="3" failures="0" errors="0"><testsuite tests="3"><testcase name="a"/></testsuite></testsuites>"#,
    r#"<pmd version="7"></pmd>"#,
    "{\"reason\":\"compiler-artifact\"}\n{\"reason\":\"build-finished\",\"success\":true}\n",
];

#[test]
fn only_a_known_report_that_states_nothing_found_is_clean() {
    for text in UNCLEAR {
        for command in ["my-lint", "eslint .", "ruff check ."] {
            assert_eq!(
                count(command, 0, text).unwrap_or(1).min(1),
                1,
                "{command}: {text}"
            );
        }
    }
    for text in CLEAN {
        assert_eq!(count("my-lint", 0, text), Some(0), "{text}");
    }
}

// A clean report with one more field that reports a failure or results is no longer clean.
#[test]
fn one_field_more_takes_a_clean_report_back() {
    let fields = [
        r#""success":false"#,
        r#""ok":false"#,
        r#""error":"x""#,
        r#""errorCount":1"#,
        r#""critical":2"#,
        r#""status":"failed""#,
        r#""exception":{"type":"x"}"#,
        r#""timedOut":true"#,
        r#""message":"not logged in""#,
        r#""totals":{"errors":3}"#,
        r#""exit_code":2"#,
    ];
    let mut tried = 0;
    for text in CLEAN
        .iter()
        .filter(|text| text.starts_with('{') && !text.contains("runs") && !text.contains('\n'))
    {
        for field in fields {
            let more = text.replacen('{', &format!("{{{field},"), 1);
            let is_json = serde_json::from_str::<Value>(&more).is_ok();
            assert!(!is_json || count("my-lint", 0, &more) != Some(0), "{more}");
            tried += 1;
        }
    }
    println!("{tried} reports with one field more, 0 clean");
}
