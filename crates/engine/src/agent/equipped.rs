//! An agent with what a person gives it: a name, variables, and files of their home.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::{Adapter, AgentAssignment, AgentEvent, Dialogue, Invocation};
use crate::process::ProcessExit;
use crate::sandbox::{Destination, hosts};

/// Everything that is not given here is the inner agent's own.
pub struct ConfiguredAgent<A> {
    pub name: String,
    pub agent: A,
    pub env: Vec<(OsString, OsString)>,
    /// From where, to where below its own home.
    pub credentials: Vec<(PathBuf, PathBuf)>,
    /// Where it may connect to, as the person says; instead of what the inner agent names.
    pub hosts: Option<Vec<Destination>>,
}

/// What it is given may be secret.
impl<A> fmt::Debug for ConfiguredAgent<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Equipped")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<A: Adapter> Adapter for ConfiguredAgent<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn format(&self) -> &'static str {
        self.agent.format()
    }

    fn invocation(&self, assignment: &AgentAssignment) -> Invocation {
        let mut own = self.agent.invocation(assignment);
        own.env.extend(self.env.clone());
        own
    }

    fn events(&self, line: &str) -> Option<Vec<AgentEvent>> {
        self.agent.events(line)
    }

    fn dialogue(&self, assignment: &AgentAssignment) -> Option<Box<dyn Dialogue>> {
        self.agent.dialogue(assignment)
    }

    fn ended(&self, exit: ProcessExit, complaint: &str) -> Option<AgentEvent> {
        self.agent.ended(exit, complaint)
    }

    fn accounts(&self, text: &str) -> Option<AgentEvent> {
        self.agent.accounts(text)
    }

    fn litter(&self) -> &'static [&'static str] {
        self.agent.litter()
    }

    fn resumes(&self) -> bool {
        self.agent.resumes()
    }

    fn sums_over_session(&self) -> bool {
        self.agent.sums_over_session()
    }

    fn cure(&self) -> String {
        self.agent.cure()
    }

    fn reads(&self) -> Vec<PathBuf> {
        self.agent.reads()
    }

    fn hosts(&self) -> Option<Vec<Destination>> {
        let mut all = self.hosts.clone().or_else(|| self.agent.hosts())?;
        all.extend(in_environment(&self.env));
        Some(all)
    }

    fn credentials(&self) -> Vec<(PathBuf, PathBuf)> {
        let mut all = self.agent.credentials();
        all.extend(self.credentials.clone());
        all
    }
}

/// The hosts of base URLs that the person has set.
pub(super) fn in_environment(env: &[(OsString, OsString)]) -> Vec<Destination> {
    let text = |word: &OsString| word.to_str().map(str::to_owned);
    let pairs = env
        .iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    pairs
        .flat_map(|(name, value)| hosts::in_variable(&name, &value))
        .collect()
}
