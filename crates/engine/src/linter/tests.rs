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
    "{\"reason\":\"compiler-message\",\"message\":{\"level\":\"error\",\"message\":\"no linker\",\"spans\":[]}}\n{\"reason\":\"build-finished\",\"success\":true}\n",
    r#"{"results":[]}"#,
    r#"{"results":[],"errors":[],"paths":{"scanned":[],"skipped":[{"path":"a.py","reason":"too_big"}]}}"#,
    r#"{"results":[],"errors":[],"note":"stopped after 10 files"}"#,
    r#"{"results":[],"errors":[],"interrupted":true}"#,
    r#"{"issues":[]}"#,
    r#"{"issues":[],"errors":[],"rate_limited":1}"#,
    r#"{"findings":[],"files_scanned":0}"#,
    r#"{"diagnostics":[],"number_of_files":0}"#,
    r#"{"files":[],"summary":{"offense_count":0,"target_file_count":3,"inspected_file_count":1},"metadata":{}}"#,
    r#"{"a.py":[]}"#,
    r#"[{"file":"a.py","results":[]}]"#,
    r#"[{"filePath":"/w/a.js","messages":[]}]"#,
    r"[[]]",
    r#"<testsuite tests="3"><testcase name="a"><skipped/></testcase></testsuite>"#,
    r#"<testsuite tests="3"><testcase name="a"/><system-err>boom</system-err></testsuite>"#,
    r"<checkstyle>could not load the rules</checkstyle>",
    r#"<checkstyle><file name="a"></checkstyle>"#,
    r"<checkstyle></checkstyle><checkstyle></checkstyle>",
    r#"<BugCollection><Errors errors="2" missingClasses="0"></Errors></BugCollection>"#,
];

/// Text with exit code 0 that does not mean "nothing found", for linters whose 0 means so.
const TROUBLED: &[&str] = &[
    "warning: No Python files found under the given path(s)\n",
    "error: could not read the configuration\nAll checks passed!\n",
    "Skipped 3 files\n0 errors\n",
    "timed out after 60 s\n0 issues.\n",
    "parse error in a.py\nno issues found\n",
    "Interrupted\n",
    "0 files checked\n",
    "analysis incomplete\n0 problems\n",
];

#[test]
fn words_of_trouble_beside_a_clean_line_are_no_answer() {
    for text in TROUBLED {
        for (command, _) in LINTERS {
            assert_ne!(count(command, 0, text), Some(0), "{command}: {text}");
        }
    }
}

/// Removes each field of the top level, gives it another type, cuts the report and adds text.
fn mutations(text: &str) -> Vec<String> {
    let mut out: Vec<String> = (1..text.trim_end().len())
        .filter(|end| text.is_char_boundary(*end))
        .map(|end| text[..end].to_owned())
        .filter(|cut| !CLEAN.contains(&cut.as_str()) && cut.trim() != text.trim())
        .collect();
    out.push(format!("{text}\nfatal: out of disk"));
    out.push(format!("starting\n{text}\nKilled"));
    out.push(format!("{text}\n{{\"error\":\"x\"}}"));
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) else {
        return out;
    };
    let print = |object: serde_json::Map<String, Value>| Value::Object(object).to_string();
    for key in [
        "note", "unknown", "results2", "exit", "partial", "timeout", "x",
    ] {
        for value in [
            Value::from("x"),
            Value::from(1),
            Value::from(true),
            Value::from(vec![1]),
        ] {
            let mut more = object.clone();
            more.insert(key.to_owned(), value);
            out.push(print(more));
        }
    }
    for key in object.keys() {
        for value in [
            Value::from("text"),
            Value::from(3),
            Value::from(true),
            Value::from(vec!["x"]),
            serde_json::json!({"x": 1}),
        ] {
            let same = std::mem::discriminant(&object[key]) == std::mem::discriminant(&value);
            // Another name, version or time is no other shape, and facts may be any facts.
            if same && (value.is_string() || value.is_number())
                || value.is_object() && object[key].is_object()
            {
                continue;
            }
            let mut other = object.clone();
            other.insert(key.clone(), value);
            out.push(print(other));
        }
    }
    out
}

#[test]
fn no_mutation_of_a_clean_report_is_clean() {
    let mut tried = 0;
    for text in CLEAN.iter().filter(|text| **text != "[]") {
        for mutation in mutations(text) {
            tried += 1;
            assert_ne!(count("my-lint", 0, &mutation), Some(0), "{mutation}");
        }
        for code in (1..=255).filter(|code| *code != 0) {
            tried += 1;
            assert_ne!(count("my-lint", code, text), Some(0), "{code}: {text}");
        }
        for signal in 1..=31 {
            tried += 1;
            let killed = run("my-lint", ProcessExit::Signal(signal), text);
            assert!(read_linter_run(&killed).is_err(), "{signal}: {text}");
        }
    }
    println!(
        "{} shapes, {tried} mutations, 0 clean",
        UNCLEAR.len() + CLEAN.len()
    );
}

// The report of another linter is none of this one.
#[test]
fn a_known_linter_is_held_to_its_own_shape() {
    let semgrep = r#"{"results": [], "errors": []}"#;
    assert_eq!(count("semgrep scan --json", 0, semgrep), Some(0));
    assert_ne!(count("eslint -f json .", 0, semgrep), Some(0));
    assert_ne!(count("bandit -f json -r .", 0, semgrep), Some(0));
}

/// Reports of tools without findings.
const CLEAN: &[&str] = &[
    "[]",
    r#"{"results": [], "errors": []}"#,
    r#"{"issues":[],"errors":[]}"#,
    r#"{"comments":[]}"#,
    r#"{"source":{"name":"x","url":"u"},"severity":"WARNING","diagnostics":[]}"#,
    r#"{"messages":[],"statistics":{"messageTypeCount":{"fatal":0,"error":0,"warning":0,"refactor":0,"convention":0,"info":0},"modulesLinted":3,"score":10.0}}"#,
    r#"{"diagnostics":[],"number_of_files":3,"number_of_rules":90,"threads_count":2,"start_time":0.1}"#,
    r#"{"Golang errors":{},"Issues":[],"Stats":{"files":2,"lines":80,"nosec":0,"found":0},"GosecVersion":"2"}"#,
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
