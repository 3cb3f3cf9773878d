//! Describes a known agent CLI, and adapts it.
//!
//! Each known CLI is a constant: its names, its requirements, a function for its arguments and one
//! that parses its output. So a CLI needs no adapter type of its own.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::configured::hosts_in_environment;
use super::declared::{
    ErrorTexts, InvocationSummary, McpSupport, ProxySupport, SessionSupport, UsageReports,
};
use super::{
    Adapter, AgentAccess, AgentAssignment, AgentEvent, AgentRole, Invocation, error_class,
};
use crate::process::ProcessExit;
use crate::sandbox::{Destination, hosts};

/// Prompt for CLIs that take it only as an argument. It points to the brief, because every user of
/// the machine can read arguments.
pub(super) const READ_THE_BRIEF: &str = "Your task is in the file named in the environment variable COUNTERSIGN_BRIEF_FILE. Read it and do what it says.";

/// Facts about one CLI. Each adapter declares all of them.
#[derive(Clone, Copy, Debug)]
pub struct AgentCli {
    /// Name on our command line.
    pub name: &'static str,
    /// Name that its makers use.
    pub title: &'static str,
    pub program: &'static str,
    pub install: &'static str,
    pub log_in: &'static str,
    /// Flags that its help must contain; checked before anything starts.
    pub probes: &'static [HelpProbe],
    /// Flag for the maximum cost of a run in dollars, if some versions have one.
    pub budget_flag: Option<&'static str>,
    /// Files below the person's home directory that it needs in its own.
    pub files: &'static [&'static str],
    /// Environment variables that are passed to it, if they are set.
    pub variables: &'static [&'static str],
    /// Hosts of its providers and of its login.
    pub hosts: &'static [&'static str],
    pub proxy: ProxySupport,
    /// Names of files in a repository that it reads by itself: settings, instructions, ignore files.
    /// A name, or the beginning of one (`x*`), in lower case. Without them a change could configure
    /// its reviewer.
    pub tool_files: &'static [&'static str],
    pub errors: ErrorTexts,
    /// Exit code that means a missing login.
    pub action_required_exit: Option<i32>,
    pub session: SessionSupport,
    /// Whether its token counts are sums over the session. The earlier part is then subtracted.
    pub sums_over_session: bool,
    pub mcp: McpSupport,
    pub summary: InvocationSummary,
    pub reports: UsageReports,
    /// Known limits, for the table in `docs/agents.md`; empty if there are none.
    pub known_limits: &'static str,
    pub invocation: fn(&CliAgent, &AgentAssignment) -> Invocation,
    /// Parses its usage file, if its output does not contain the usage.
    pub parse_usage_file: Option<fn(&str) -> Option<AgentEvent>>,
    /// Names of files that it leaves in its working directory and that are not part of the work.
    pub leftover_names: &'static [&'static str],
    pub events: fn(&str) -> Option<Vec<AgentEvent>>,
}

/// Flags that a help text must contain.
#[derive(Clone, Copy, Debug)]
pub struct HelpProbe {
    pub args: &'static [&'static str],
    pub flags: &'static [&'static str],
}

/// A known CLI as it is installed and configured here.
#[derive(Clone)]
pub struct CliAgent {
    /// Name that the person gave it, or the CLI's name.
    pub name: String,
    pub cli: &'static AgentCli,
    pub program: PathBuf,
    /// Arguments before our own: a sub-command, or a script for an interpreter.
    pub before: Vec<OsString>,
    /// Arguments after our own.
    pub extra: Vec<OsString>,
    /// Environment variables that are passed to it.
    pub env: Vec<(OsString, OsString)>,
    pub credentials: Vec<(PathBuf, PathBuf)>,
    /// Paths of the program's own files.
    pub reads: Vec<PathBuf>,
    /// Hosts that the person configured, instead of the CLI's known ones.
    pub hosts: Option<Vec<Destination>>,
    /// Whether its help has the flag for the maximum cost of a run.
    pub has_budget_flag: bool,
}

/// Leaves out the environment, which may contain secrets.
impl fmt::Debug for CliAgent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CliAgent")
            .field("name", &self.name)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl CliAgent {
    /// Returns the arguments that limit the cost. If the person's own arguments set the flag, they
    /// take precedence.
    fn budget_args(&self, assignment: &AgentAssignment) -> Vec<OsString> {
        let Some(flag) = self.cli.budget_flag.filter(|_| self.has_budget_flag) else {
            return Vec::new();
        };
        let already_set = self.extra.iter().any(|word| word == flag);
        let most = assignment.usd_micros_max.filter(|_| !already_set);
        most.map_or_else(Vec::new, |micros| {
            let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            vec![flag.into(), dollars.into()]
        })
    }

    pub(super) fn has_variable(&self, variable: &str) -> bool {
        self.env.iter().any(|(name, _)| name == variable)
    }

    pub(super) fn variable(&self, variable: &str) -> Option<&OsString> {
        let pair = self.env.iter().find(|(name, _)| name == variable);
        pair.map(|(_, value)| value)
    }
}

impl Adapter for CliAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn format(&self) -> &'static str {
        self.cli.name
    }

    fn invocation(&self, assignment: &AgentAssignment) -> Invocation {
        let own = (self.cli.invocation)(self, assignment);
        let money = self.budget_args(assignment);
        let args = [self.before.clone(), money, own.args, self.extra.clone()].concat();
        let mut env: Vec<(OsString, OsString)> = QUIET
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        env.extend(own.env);
        env.extend(self.env.clone());
        Invocation {
            program: self.program.clone().into(),
            args,
            env,
            ..own
        }
    }

    fn parse_line(&self, line: &str) -> Option<Vec<AgentEvent>> {
        (self.cli.events)(line)
    }

    /// Errors that a CLI reports outside of its format are on stderr.
    fn event_on_exit(&self, exit: ProcessExit, complaint: &str) -> Option<AgentEvent> {
        let message = complaint.trim();
        let code = match exit {
            ProcessExit::Code(code) if code != 0 => code,
            // Without quota, some CLIs retry forever and print that.
            ProcessExit::IdleLimit => {
                let event = error_class::classify_error(message);
                return matches!(event, AgentEvent::OutOfQuota { .. }).then_some(event);
            }
            ProcessExit::Code(_)
            | ProcessExit::Signal(_)
            | ProcessExit::WallLimit
            | ProcessExit::DiskLimit { .. }
            | ProcessExit::Cancelled
            | ProcessExit::Dismissed => {
                return None;
            }
        };
        if self.cli.action_required_exit == Some(code) {
            return Some(AgentEvent::ActionRequired {
                message: message.to_owned(),
            });
        }
        (!message.is_empty()).then(|| error_class::classify_error(message))
    }

    fn parse_usage_file(&self, text: &str) -> Option<AgentEvent> {
        (self.cli.parse_usage_file?)(text)
    }

    fn leftover_names(&self) -> &'static [&'static str] {
        self.cli.leftover_names
    }

    fn can_resume(&self) -> bool {
        self.cli.session != SessionSupport::None
    }

    fn reports_session_totals(&self) -> bool {
        self.cli.sums_over_session
    }

    fn login_hint(&self) -> String {
        self.cli.log_in.to_owned()
    }

    fn access(&self) -> AgentAccess {
        AgentAccess {
            readable_paths: self.reads.clone(),
            hosts: Some(self.needed_hosts()),
            credentials: self.credentials.clone(),
        }
    }
}

impl CliAgent {
    /// Returns the hosts of the CLI or of the person's configuration, plus those of base URLs that
    /// the person set.
    fn needed_hosts(&self) -> Vec<Destination> {
        let cli_hosts = || {
            let parsed = self.cli.hosts.iter().filter_map(|host| host.parse().ok());
            let regional = self.variable("GOOGLE_CLOUD_LOCATION");
            let regional = regional.and_then(|location| {
                let host = format!("{}-aiplatform.googleapis.com", location.to_str()?);
                host.parse().ok()
            });
            parsed.chain(regional).collect()
        };
        let mut all: Vec<Destination> = self.hosts.clone().unwrap_or_else(cli_hosts);
        all.extend(hosts_in_environment(&self.env));
        let words = self.before.iter().chain(&self.extra);
        let words = words.filter_map(|word| word.to_str());
        all.extend(words.flat_map(hosts::hosts_in_text));
        all.sort();
        all.dedup();
        all
    }
}

/// Variables that reduce telemetry of any CLI. With UTC, a time of day in a quota message can be
/// parsed.
const QUIET: &[(&str, &str)] = &[
    ("TZ", "UTC"),
    ("NO_COLOR", "1"),
    ("DO_NOT_TRACK", "1"),
    ("DISABLE_TELEMETRY", "1"),
];

/// Returns whether the run is in our sandbox. The CLI's own sandbox then must be off, and may
/// safely be.
pub(super) fn is_sandboxed(assignment: &AgentAssignment) -> bool {
    assignment.sandbox.is_some()
}

pub(super) fn is_judge(assignment: &AgentAssignment) -> bool {
    assignment.role != AgentRole::Build
}

/// Builds a list of arguments.
#[derive(Default)]
pub(super) struct ArgsBuilder(Vec<OsString>);

impl ArgsBuilder {
    pub fn new(words: &[&str]) -> Self {
        Self(words.iter().map(OsString::from).collect())
    }

    pub fn args(mut self, words: &[&str]) -> Self {
        self.0.extend(words.iter().map(OsString::from));
        self
    }

    pub fn args_if(self, holds: bool, words: &[&str]) -> Self {
        if holds { self.args(words) } else { self }
    }

    /// Adds a flag with its value, if there is a value.
    pub fn flag(mut self, flag: &str, value: Option<impl Into<OsString>>) -> Self {
        if let Some(value) = value {
            self.0.push(flag.into());
            self.0.push(value.into());
        }
        self
    }

    pub fn build(self) -> Vec<OsString> {
        self.0
    }
}

/// Converts pairs to environment variables.
pub(super) fn to_environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let own = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    pairs.iter().map(own).collect()
}
