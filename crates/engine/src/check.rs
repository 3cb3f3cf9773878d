//! Runs a project's own commands and reports their results.
//!
//! A check is a shell command in a directory with a time limit. Its output goes to a file, up to a
//! cap, and the end of the output to the result, because a builder needs the end. The module
//! decides nothing: the policy defines the consequence of a failed check.

mod coverage;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::coverage::{CoveragePercent, CoverageReader};
use crate::process::{
    self, DiskQuota, OutputLine, OutputStream, ProcessExit, ProcessHost, ProcessLimits,
    ProcessSpec, RunId, StopSignal,
};
use crate::sandbox::SandboxSpec;

/// Maximum size of the output's end in the result.
const TAIL_BYTES: usize = 8 << 10;
const TAIL_LINES: usize = 120;

/// A named command of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    /// Command line for `sh -c`.
    pub command: String,
    pub time_limit: Duration,
    /// Whether it may run in parallel with others, in its own checkout.
    pub parallel: bool,
    /// Minimum percentage of covered lines that its output must show.
    pub coverage_min: Option<u8>,
}

/// Directory, environment and limits of a check.
#[derive(Clone, Debug)]
pub struct CheckEnv<'a> {
    pub run_id: RunId,
    pub dir: &'a Path,
    /// The complete environment.
    pub env: &'a [(OsString, OsString)],
    /// File for the output.
    pub output: &'a Path,
    /// Maximum size of that file.
    pub output_bytes_max: u64,
    /// Maximum size of stdout in the report; 0 for a plain check.
    pub stdout_bytes_max: usize,
    /// Limit on its disk use.
    pub disk_quota: Option<DiskQuota>,
    /// Sandbox of the check; without one it has our own permissions.
    pub sandbox: Option<SandboxSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckExit {
    Passed,
    Failed,
    TimedOut,
    /// The check exceeded its disk quota.
    Overran,
    /// The shell could not find or run the command, or there is no shell.
    CouldNotStart,
    Cancelled,
}

#[derive(Clone, Debug)]
pub struct CheckReport {
    pub name: String,
    pub outcome: CheckExit,
    /// Exit of the command, or the reason why it did not start.
    pub detail: String,
    pub duration: Duration,
    pub output: PathBuf,
    /// Whether the file has less than the command wrote.
    pub cut: bool,
    pub tail: String,
    /// Exit, or `None` if the command did not start.
    pub exit: Option<ProcessExit>,
    /// The beginning of its standard output.
    pub stdout: String,
}

/// Runs one check to its end. An error is a failure of Countersign, such as a full disk.
pub async fn run_check(
    host: &ProcessHost,
    check: &Check,
    check_env: CheckEnv<'_>,
    stop: StopSignal,
) -> Result<CheckReport, process::Error> {
    let spec = ProcessSpec {
        run_id: check_env.run_id,
        program: "sh".into(),
        args: vec!["-c".into(), check.command.clone().into()],
        env: check_env.env.to_vec(),
        cwd: check_env.dir.to_owned(),
        stdin: Vec::new(),
        keeps_stdin_open: false,
        transcript: check_env.output.to_owned(),
        // A compiler may be silent until the time limit.
        limits: ProcessLimits {
            wall: check.time_limit,
            idle: check.time_limit,
            output_bytes: check_env.output_bytes_max,
            ..ProcessLimits::default()
        },
        disk_quota: check_env.disk_quota,
        sandbox: check_env.sandbox,
    };
    let mut tail = OutputTail::default();
    let mut coverage = CoverageReader::default();
    let mut stdout = String::new();
    let mut on_line = |line: OutputLine| {
        if check.coverage_min.is_some() {
            coverage.read_line(&line.text);
        }
        if line.stream == OutputStream::Out
            && stdout.len() + line.text.len() < check_env.stdout_bytes_max
        {
            stdout.push_str(&line.text);
            if line.whole {
                stdout.push('\n');
            }
        }
        tail.push(line.text);
    };
    let end = match host.run(spec, &mut on_line, stop).await {
        Ok(end) => end,
        Err(error @ (process::Error::NotInstalled { .. } | process::Error::NoDirectory { .. })) => {
            return Ok(not_started(check, check_env.output, &error));
        }
        Err(error) => return Err(error),
    };
    if !end.refused_hosts.is_empty() {
        let hosts: Vec<String> = end.refused_hosts.iter().map(ToString::to_string).collect();
        let hosts = hosts.join(", ");
        tail.push(format!(
            "network: refused by [policy.network] check: {hosts}"
        ));
    }
    let mut outcome = check_exit(end.exit);
    if let (CheckExit::Passed, Some(least)) = (outcome, check.coverage_min) {
        let (enough, message) =
            judge_coverage(coverage.coverage(), CoveragePercent::percent(least));
        tail.push(message);
        if !enough {
            outcome = CheckExit::Failed;
        }
    }
    Ok(CheckReport {
        name: check.name.clone(),
        outcome,
        detail: end.exit.to_string(),
        duration: end.wall,
        output: check_env.output.to_owned(),
        cut: end.cut,
        tail: tail.text(),
        exit: Some(end.exit),
        stdout,
    })
}

/// Returns whether the coverage is sufficient, and a line for the end of the output.
fn judge_coverage(share: Option<CoveragePercent>, least: CoveragePercent) -> (bool, String) {
    match share {
        Some(share) if share >= least => (true, format!("coverage: {share} ({least} required)")),
        Some(share) => {
            let message =
                format!("coverage: {share} is less than the required {least} (coverage_min)");
            (false, message)
        }
        None => {
            let message = format!(
                "coverage: not found in the output, but {least} is required (coverage_min); \
                let the command print a line such as \"Lines: 85.0%\""
            );
            (false, message)
        }
    }
}

/// Converts the exit. The shell uses 126 for "not executable" and 127 for "not found".
fn check_exit(exit: ProcessExit) -> CheckExit {
    match exit {
        ProcessExit::Code(0) => CheckExit::Passed,
        ProcessExit::Code(126 | 127) => CheckExit::CouldNotStart,
        ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Dismissed => CheckExit::Failed,
        ProcessExit::DiskLimit { .. } => CheckExit::Overran,
        ProcessExit::WallLimit | ProcessExit::IdleLimit => CheckExit::TimedOut,
        ProcessExit::Cancelled => CheckExit::Cancelled,
    }
}

fn not_started(check: &Check, output: &Path, error: &process::Error) -> CheckReport {
    CheckReport {
        name: check.name.clone(),
        outcome: CheckExit::CouldNotStart,
        detail: error.to_string(),
        duration: Duration::ZERO,
        output: output.to_owned(),
        cut: false,
        tail: String::new(),
        exit: None,
        stdout: String::new(),
    }
}

/// The last lines of the output, within bounds.
#[derive(Default)]
struct OutputTail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl OutputTail {
    fn push(&mut self, mut line: String) {
        if line.len() > TAIL_BYTES {
            let mut start = line.len() - TAIL_BYTES;
            while !line.is_char_boundary(start) {
                start += 1;
            }
            line.drain(..start);
        }
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.bytes > TAIL_BYTES + 1 || self.lines.len() > TAIL_LINES {
            let gone = self.lines.pop_front().unwrap_or_default();
            self.bytes -= gone.len() + 1;
        }
    }

    fn text(self) -> String {
        Vec::from(self.lines).join("\n")
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    async fn check(command: &str, limit_ms: u64) -> CheckReport {
        check_with(command, limit_ms, None).await
    }

    async fn check_with(command: &str, limit_ms: u64, coverage_min: Option<u8>) -> CheckReport {
        let dir = TempDir::new().unwrap();
        let host = ProcessHost {
            data_dir: dir.path().join("data"),
            launcher: None,
            adopts_orphans: false,
        };
        let check = Check {
            name: "test".to_owned(),
            command: command.to_owned(),
            time_limit: Duration::from_millis(limit_ms),
            parallel: false,
            coverage_min,
        };
        let check_env = CheckEnv {
            run_id: RunId::new("check").unwrap(),
            dir: dir.path(),
            env: &[("PATH".into(), "/usr/bin:/bin".into())],
            output: &dir.path().join("output"),
            output_bytes_max: 1 << 20,
            stdout_bytes_max: 0,
            disk_quota: None,
            sandbox: None,
        };
        let checked = run_check(&host, &check, check_env, StopSignal::never())
            .await
            .unwrap();
        assert!(checked.output.exists());
        checked
    }

    #[tokio::test]
    async fn green_red_and_not_found_are_told_apart() {
        assert_eq!(check("true", 20_000).await.outcome, CheckExit::Passed);
        let red = check("echo '1 test failed' >&2; exit 101", 20_000).await;
        assert_eq!(
            (red.outcome, red.detail.as_str()),
            (CheckExit::Failed, "exit code 101")
        );
        assert_eq!(red.tail, "1 test failed");
        let missing = check("no-such-linter --all", 20_000).await;
        assert_eq!(missing.outcome, CheckExit::CouldNotStart);
        assert!(missing.tail.contains("no-such-linter"), "{}", missing.tail);
    }

    #[tokio::test]
    async fn a_green_check_with_too_little_coverage_is_red() {
        let said = "for i in $(seq 1000); do echo line; done; echo 'TOTAL 10 2 79.99%'";
        let red = check_with(said, 20_000, Some(80)).await;
        assert_eq!(red.outcome, CheckExit::Failed);
        assert!(red.tail.contains("79.99 % is less"), "{}", red.tail);
        let green = check_with(said, 20_000, Some(79)).await;
        assert_eq!(green.outcome, CheckExit::Passed);
        let silent = check_with("true", 20_000, Some(1)).await;
        assert_eq!(silent.outcome, CheckExit::Failed);
        assert!(silent.tail.contains("not found in"), "{}", silent.tail);
    }

    #[tokio::test]
    async fn a_check_that_hangs_times_out() {
        assert_eq!(check("sleep 600", 200).await.outcome, CheckExit::TimedOut);
    }

    #[tokio::test]
    async fn the_tail_is_the_end_and_is_bounded() {
        let long = check("seq 1 5000; echo the end", 20_000).await;
        assert!(long.tail.ends_with("5000\nthe end"));
        assert_eq!(long.tail.lines().count(), TAIL_LINES);
        let wide = check("head -c 100000 /dev/zero | tr '\\0' x", 20_000).await;
        assert_eq!(wide.tail.len(), TAIL_BYTES);
    }
}
