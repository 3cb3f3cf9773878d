//! Runs a project's own commands and says what came of them.
//!
//! A check is a shell command in a directory with a time limit. Its output is
//! kept whole in a file, up to the cap, and its end in the result, because the
//! end is what a builder needs. It decides nothing: what a red check means is
//! the policy's matter.

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

/// How much of the end of the output is in the result.
const TAIL_BYTES: usize = 8 << 10;
const TAIL_LINES: usize = 120;

/// A named command of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    /// For `sh -c`.
    pub command: String,
    pub time_limit: Duration,
    /// It may run beside others, in a checkout of its own.
    pub parallel: bool,
    /// The percentage of lines that its output must show as covered.
    pub coverage_min: Option<u8>,
}

/// Where and with what a check runs.
#[derive(Clone, Debug)]
pub struct CheckEnv<'a> {
    pub run_id: RunId,
    pub dir: &'a Path,
    /// The whole environment.
    pub env: &'a [(OsString, OsString)],
    /// Where the output is kept.
    pub output: &'a Path,
    /// How much of it is kept.
    pub output_bytes_max: u64,
    /// How much of the standard output alone is handed back; none for a mere check.
    pub stdout_bytes_max: usize,
    /// What it may put on the disk.
    pub allotment: Option<DiskQuota>,
    /// What it may see and touch; without one, all that we may.
    pub confinement: Option<SandboxSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckExit {
    Passed,
    Failed,
    TimedOut,
    /// It put too much on the disk.
    Overran,
    /// The shell did not find what it should run, or there is no shell.
    CouldNotStart,
    Cancelled,
}

#[derive(Clone, Debug)]
pub struct CheckReport {
    pub name: String,
    pub outcome: CheckExit,
    /// What the command ended with, or why it did not start.
    pub detail: String,
    pub duration: Duration,
    pub output: PathBuf,
    /// The file has less than the command wrote.
    pub cut: bool,
    pub tail: String,
    /// None where it did not start.
    pub exit: Option<ProcessExit>,
    /// The beginning of its standard output.
    pub stdout: String,
}

/// Runs one check to its end. An error is ours: a full disk, say.
pub async fn run(
    host: &ProcessHost,
    check: &Check,
    ground: CheckEnv<'_>,
    stop: StopSignal,
) -> Result<CheckReport, process::Error> {
    let spec = ProcessSpec {
        run_id: ground.run_id,
        program: "sh".into(),
        args: vec!["-c".into(), check.command.clone().into()],
        env: ground.env.to_vec(),
        cwd: ground.dir.to_owned(),
        stdin: Vec::new(),
        converses: false,
        transcript: ground.output.to_owned(),
        // A compiler may be silent for as long as it likes.
        limits: ProcessLimits {
            wall: check.time_limit,
            idle: check.time_limit,
            output_bytes: ground.output_bytes_max,
            ..ProcessLimits::default()
        },
        allotment: ground.allotment,
        confinement: ground.confinement,
    };
    let mut tail = OutputTail::default();
    let mut coverage = CoverageReader::default();
    let mut stdout = String::new();
    let mut hear = |line: OutputLine| {
        if check.coverage_min.is_some() {
            coverage.read(&line.text);
        }
        if line.stream == OutputStream::Out
            && stdout.len() + line.text.len() < ground.stdout_bytes_max
        {
            stdout.push_str(&line.text);
            if line.whole {
                stdout.push('\n');
            }
        }
        tail.push(line.text);
    };
    let ended = match host.run(spec, &mut hear, stop).await {
        Ok(ended) => ended,
        Err(error @ (process::Error::NotInstalled { .. } | process::Error::NoDirectory { .. })) => {
            return Ok(not_started(check, ground.output, &error));
        }
        Err(error) => return Err(error),
    };
    if !ended.refused_hosts.is_empty() {
        let hosts: Vec<String> = ended
            .refused_hosts
            .iter()
            .map(ToString::to_string)
            .collect();
        let hosts = hosts.join(", ");
        tail.push(format!(
            "network: refused by [policy.network] check: {hosts}"
        ));
    }
    let mut outcome = outcome(ended.exit);
    if let (CheckExit::Passed, Some(least)) = (outcome, check.coverage_min) {
        let (enough, said) = judge(coverage.share(), CoveragePercent::percent(least));
        tail.push(said);
        if !enough {
            outcome = CheckExit::Failed;
        }
    }
    Ok(CheckReport {
        name: check.name.clone(),
        outcome,
        detail: ended.exit.to_string(),
        duration: ended.wall,
        output: ground.output.to_owned(),
        cut: ended.cut,
        tail: tail.text(),
        exit: Some(ended.exit),
        stdout,
    })
}

/// Whether that is enough, and the words for whoever reads the end of the output.
fn judge(share: Option<CoveragePercent>, least: CoveragePercent) -> (bool, String) {
    match share {
        Some(share) if share >= least => (true, format!("coverage: {share}, {least} asked for")),
        Some(share) => {
            let said =
                format!("coverage: {share} is less than the {least} asked for (coverage_min)");
            (false, said)
        }
        None => {
            let said = format!(
                "coverage: the output names none, and {least} is asked for (coverage_min); \
                 let the command print a line such as \"Lines: 85.0%\""
            );
            (false, said)
        }
    }
}

/// 126 and 127 are the shell's words for "not runnable" and "not found".
fn outcome(exit: ProcessExit) -> CheckExit {
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

/// The last lines, within bounds.
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
            adopts: false,
        };
        let check = Check {
            name: "test".to_owned(),
            command: command.to_owned(),
            time_limit: Duration::from_millis(limit_ms),
            parallel: false,
            coverage_min,
        };
        let ground = CheckEnv {
            run_id: RunId::new("check").unwrap(),
            dir: dir.path(),
            env: &[("PATH".into(), "/usr/bin:/bin".into())],
            output: &dir.path().join("output"),
            output_bytes_max: 1 << 20,
            stdout_bytes_max: 0,
            allotment: None,
            confinement: None,
        };
        let checked = run(&host, &check, ground, StopSignal::never())
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
        assert!(silent.tail.contains("names none"), "{}", silent.tail);
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
