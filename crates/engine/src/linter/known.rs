//! The exit codes of known linters, from their own documentation.

use super::command::LinterCommand;

/// Meaning of an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCodeMeaning {
    /// The linter ran to its end. `is_certain` is set if the tool uses another code for any
    /// finding.
    Clean { is_certain: bool },
    /// The linter ran to its end and found something.
    Findings,
    /// The linter did not run, or not to its end.
    Broken,
}

/// Exit codes of some tools.
struct LinterExitCodes {
    tools: &'static [&'static str],
    /// Codes that mean findings.
    findings: &'static [i32],
    /// Whether code 0 means that there is no finding at all.
    zero_is_certain: bool,
}

const fn codes(
    tools: &'static [&'static str],
    findings: &'static [i32],
    zero_is_certain: bool,
) -> LinterExitCodes {
    LinterExitCodes {
        tools,
        findings,
        zero_is_certain,
    }
}

const TABLE: [LinterExitCodes; 19] = [
    // 2: bad options or configuration, or a crash.
    codes(
        &[
            "ruff",
            "mypy",
            "dmypy",
            "bandit",
            "rubocop",
            "standardrb",
            "actionlint",
            "sqlfluff",
        ],
        &[1],
        true,
    ),
    // 0 also with warnings.
    codes(
        &[
            "eslint",
            "eslint_d",
            "biome",
            "oxlint",
            "standard",
            "xo",
            "markdownlint",
            "markdownlint-cli2",
            "spectral",
            "vale",
            "htmlhint",
            "pyright",
            "basedpyright",
            "ty",
        ],
        &[1],
        false,
    ),
    codes(
        &[
            "flake8",
            "pycodestyle",
            "pydocstyle",
            "pyflakes",
            "phpstan",
            "psalm",
            "staticcheck",
            "ktlint",
            "revive",
            "errcheck",
            "ineffassign",
        ],
        &[1],
        true,
    ),
    // 3 failure, 4 timeout, 5 no files, 6 no configuration, 7 logged errors.
    codes(&["golangci-lint"], &[1], true),
    // 2 unreadable files, 3 bad syntax of the command line, 4 bad options.
    codes(&["shellcheck"], &[1], true),
    codes(&["hadolint"], &[1], false),
    // Findings need --error; 2 and above are failures.
    codes(&["semgrep", "opengrep"], &[1], false),
    // 1: diagnostics, nothing written; 2: diagnostics, output written.
    codes(&["tsc", "vue-tsc"], &[1, 2], true),
    // 1 fatal, 64 bad command line, 78 bad configuration.
    codes(&["stylelint"], &[2], false),
    // 1 unexpected, 3 bad configuration.
    codes(&["detekt"], &[2], false),
    // 101 is the code of both a panic and a failed compilation.
    codes(&["clippy", "clippy-driver", "rustc"], &[101, 1], false),
    // 1 according to the documentation, 2 from the driver.
    codes(&["go vet"], &[1, 2], true),
    // -l and -d exit with 0, newer versions with 1 if there is a difference; 2 is a syntax error.
    codes(&["gofmt", "gofumpt", "goimports"], &[1], false),
    // 2 is a failure of its own.
    codes(&["prettier"], &[1], true),
    // 1 is an error of the tool.
    codes(&["tflint"], &[2], false),
    // 2: serious violations, also by --strict.
    codes(&["swiftlint"], &[2], false),
    // 1 errors, 2 warnings with --strict.
    codes(&["yamllint"], &[1, 2], false),
    // 1 warnings, 2 errors, 3 fatal.
    codes(&["luacheck"], &[1, 2], true),
    // 2 violations, 3 bad configuration.
    codes(&["ansible-lint"], &[2], false),
];

/// Returns whether the exit codes of the command's tool are known.
pub fn is_known(command: &LinterCommand<'_>) -> bool {
    command
        .tool
        .is_some_and(|tool| matches!(tool, "pylint" | "checkstyle") || find_tool(tool).is_some())
}

fn find_tool(tool: &str) -> Option<&'static LinterExitCodes> {
    TABLE.iter().find(|row| row.tools.contains(&tool))
}

/// Returns the meaning of a command's exit code.
pub fn exit_code_meaning(command: &LinterCommand<'_>, code: i32) -> ExitCodeMeaning {
    let clean = |zero_is_certain: bool| ExitCodeMeaning::Clean {
        is_certain: zero_is_certain && command.is_alone && !changes_exit_codes(command),
    };
    match command.tool {
        // A bit field: 1 fatal, 2 error, 4 warning, 8 refactor, 16 convention, 32 bad command line.
        Some("pylint") => match code {
            0 => clean(true),
            1..=31 if code & 1 == 0 => ExitCodeMeaning::Findings,
            _ => ExitCodeMeaning::Broken,
        },
        // The number of errors; a bad command line is negative, which the shell shows as 254 or
        // 255.
        Some("checkstyle") => match code {
            0 => clean(false),
            1..=125 => ExitCodeMeaning::Findings,
            _ => ExitCodeMeaning::Broken,
        },
        tool => match (tool.and_then(find_tool), code) {
            (Some(row), 0) => clean(row.zero_is_certain),
            (Some(row), code) if row.findings.contains(&code) => ExitCodeMeaning::Findings,
            (None, 0) => clean(false),
            (None, 1) => ExitCodeMeaning::Findings,
            (Some(_) | None, _) => ExitCodeMeaning::Broken,
        },
    }
}

/// Returns whether an option changes the meaning of the tool's exit codes: `--exit-zero`,
/// `--fail-on`, `--issues-exit-code`, `--max-warnings`.
fn changes_exit_codes(command: &LinterCommand<'_>) -> bool {
    command.arguments.iter().any(|word| {
        word.starts_with('-')
            && ["exit", "fail", "max-warnings", "no-error", "quiet"]
                .iter()
                .any(|part| word.contains(part))
    })
}
