//! A command line agent that we know: its facts, and the adapter made of them.
//!
//! Each known CLI is a constant: what it is called, what it needs, how it is started for a role,
//! and how its output is read. Both are plain functions, so an adapter has no code of its own.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::equipped::in_environment;
use super::{Adapter, AgentAssignment, AgentEvent, AgentRole, Invocation, trouble};
use crate::process::ProcessExit;
use crate::sandbox::{Destination, hosts};

/// For CLIs that take no prompt but in their arguments, which anybody on the machine can read.
pub(super) const READ_THE_BRIEF: &str = "Your task is in the file named in the environment variable COUNTERSIGN_BRIEF_FILE. Read it and do what it says.";
/// What is known about one CLI.
#[derive(Clone, Copy, Debug)]
pub struct AgentCli {
    /// As it is named on our command line.
    pub name: &'static str,
    /// As its makers call it.
    pub title: &'static str,
    pub program: &'static str,
    pub install: &'static str,
    pub log_in: &'static str,
    /// What it must still have; found out before anything starts.
    pub probes: &'static [HelpProbe],
    /// The flag that takes what a run may cost in dollars, where there may be one.
    pub money_flag: Option<&'static str>,
    /// Files below the person's home that it needs in its own.
    pub files: &'static [&'static str],
    /// Variables that it is passed, where they are set.
    pub variables: &'static [&'static str],
    /// Hosts that it works with: its providers, and where it renews its login.
    pub hosts: &'static [&'static str],
    /// The exit code by which it says that nobody is logged in.
    pub barred_exit: Option<i32>,
    pub resumes: bool,
    pub sums_over_session: bool,
    pub invocation: fn(&CliAgent, &AgentAssignment) -> Invocation,
    /// Reads what it spent from a file that it leaves, where its output does not say so.
    pub accounts: Option<fn(&str) -> Option<AgentEvent>>,
    /// What it leaves for itself where it works, and that is no part of the work.
    pub litter: &'static [&'static str],
    pub events: fn(&str) -> Option<Vec<AgentEvent>>,
}

/// Words that a help text must have.
#[derive(Clone, Copy, Debug)]
pub struct HelpProbe {
    pub args: &'static [&'static str],
    pub flags: &'static [&'static str],
}

/// A known CLI as it is installed and wanted here.
#[derive(Clone)]
pub struct CliAgent {
    /// The person's own name for it, or the CLI's.
    pub name: String,
    pub cli: &'static AgentCli,
    pub program: PathBuf,
    /// Put before our own arguments: a sub-command, or a script for an interpreter.
    pub before: Vec<OsString>,
    /// Put after them.
    pub extra: Vec<OsString>,
    /// What is passed on to it.
    pub env: Vec<(OsString, OsString)>,
    pub credentials: Vec<(PathBuf, PathBuf)>,
    /// Where the program's own files are.
    pub reads: Vec<PathBuf>,
    /// Where it may connect to, as the person says; instead of what is known of the CLI.
    pub hosts: Option<Vec<Destination>>,
    /// Whether its help has the flag for what a run may cost.
    pub minds_money: bool,
}

/// What it is passed may be secret.
impl fmt::Debug for CliAgent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Native")
            .field("name", &self.name)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl CliAgent {
    /// The words that keep it to what it may cost. What a person says about it themselves stands.
    fn money(&self, assignment: &AgentAssignment) -> Vec<OsString> {
        let Some(flag) = self.cli.money_flag.filter(|_| self.minds_money) else {
            return Vec::new();
        };
        let said = self.extra.iter().any(|word| word == flag);
        let most = assignment.usd_micros_max.filter(|_| !said);
        most.map_or_else(Vec::new, |micros| {
            let dollars = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            vec![flag.into(), dollars.into()]
        })
    }

    pub(super) fn is_given(&self, variable: &str) -> bool {
        self.env.iter().any(|(name, _)| name == variable)
    }

    pub(super) fn given(&self, variable: &str) -> Option<&OsString> {
        let found = self.env.iter().find(|(name, _)| name == variable);
        found.map(|(_, value)| value)
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
        let money = self.money(assignment);
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

    fn events(&self, line: &str) -> Option<Vec<AgentEvent>> {
        (self.cli.events)(line)
    }

    /// Errors that a CLI gives outside of its format end up on stderr.
    fn ended(&self, exit: ProcessExit, complaint: &str) -> Option<AgentEvent> {
        let message = complaint.trim();
        let code = match exit {
            ProcessExit::Code(code) if code != 0 => code,
            // Some try again without end where there is no quota, and say so.
            ProcessExit::IdleLimit => {
                let found = trouble::of(message);
                return matches!(found, AgentEvent::OutOfQuota { .. }).then_some(found);
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
        if self.cli.barred_exit == Some(code) {
            return Some(AgentEvent::Barred {
                message: message.to_owned(),
            });
        }
        (!message.is_empty()).then(|| trouble::of(message))
    }

    fn accounts(&self, text: &str) -> Option<AgentEvent> {
        (self.cli.accounts?)(text)
    }

    fn litter(&self) -> &'static [&'static str] {
        self.cli.litter
    }

    fn resumes(&self) -> bool {
        self.cli.resumes
    }

    fn sums_over_session(&self) -> bool {
        self.cli.sums_over_session
    }

    fn cure(&self) -> String {
        self.cli.log_in.to_owned()
    }

    fn reads(&self) -> Vec<PathBuf> {
        self.reads.clone()
    }

    /// The CLI's own or the person's, and those of base URLs that the person has set.
    fn hosts(&self) -> Option<Vec<Destination>> {
        let known = || {
            let parsed = self.cli.hosts.iter().filter_map(|host| host.parse().ok());
            let regional = self.given("GOOGLE_CLOUD_LOCATION");
            let regional = regional.and_then(|location| {
                let host = format!("{}-aiplatform.googleapis.com", location.to_str()?);
                host.parse().ok()
            });
            parsed.chain(regional).collect()
        };
        let mut all: Vec<Destination> = self.hosts.clone().unwrap_or_else(known);
        all.extend(in_environment(&self.env));
        let words = self.before.iter().chain(&self.extra);
        let words = words.filter_map(|word| word.to_str());
        all.extend(words.flat_map(hosts::in_text));
        all.sort();
        all.dedup();
        Some(all)
    }

    fn credentials(&self) -> Vec<(PathBuf, PathBuf)> {
        self.credentials.clone()
    }
}

/// What makes any of them talk less to the outside; and times of day are told in UTC, so that they
/// can be read.
const QUIET: &[(&str, &str)] = &[
    ("TZ", "UTC"),
    ("NO_COLOR", "1"),
    ("DO_NOT_TRACK", "1"),
    ("DISABLE_TELEMETRY", "1"),
];

/// Whether our own sandbox holds this run, so that the CLI's own must be off, and may.
pub(super) fn confined(assignment: &AgentAssignment) -> bool {
    assignment.confinement.is_some()
}

pub(super) fn judges(assignment: &AgentAssignment) -> bool {
    assignment.role != AgentRole::Build
}

/// Arguments as they come together.
#[derive(Default)]
pub(super) struct ArgsBuilder(Vec<OsString>);

impl ArgsBuilder {
    pub fn of(words: &[&str]) -> Self {
        Self(words.iter().map(OsString::from).collect())
    }

    pub fn and(mut self, words: &[&str]) -> Self {
        self.0.extend(words.iter().map(OsString::from));
        self
    }

    pub fn when(self, holds: bool, words: &[&str]) -> Self {
        if holds { self.and(words) } else { self }
    }

    /// A flag with its value, where there is one.
    pub fn with(mut self, flag: &str, value: Option<impl Into<OsString>>) -> Self {
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

/// Variables as they come together.
pub(super) fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let own = |(name, value): &(&str, &str)| (OsString::from(name), OsString::from(value));
    pairs.iter().map(own).collect()
}
