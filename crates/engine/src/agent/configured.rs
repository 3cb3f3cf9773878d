//! An agent with a person's configuration: a name, variables, and files of their home directory.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::{Adapter, AgentAccess, AgentAssignment, AgentEvent, Dialogue, Invocation};
use crate::process::ProcessExit;
use crate::sandbox::{Destination, hosts};

/// Wraps an agent and adds the person's configuration to it.
pub struct ConfiguredAgent<A> {
    pub name: String,
    pub agent: A,
    pub env: Vec<(OsString, OsString)>,
    /// Source, and path below its own home directory.
    pub credentials: Vec<(PathBuf, PathBuf)>,
    /// Hosts that the person configured, instead of the inner agent's.
    pub hosts: Option<Vec<Destination>>,
}

/// Leaves out the configuration, which may contain secrets.
impl<A> fmt::Debug for ConfiguredAgent<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ConfiguredAgent")
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

    fn parse_line(&self, line: &str) -> Option<Vec<AgentEvent>> {
        self.agent.parse_line(line)
    }

    fn dialogue(&self, assignment: &AgentAssignment) -> Option<Box<dyn Dialogue>> {
        self.agent.dialogue(assignment)
    }

    fn event_on_exit(&self, exit: ProcessExit, complaint: &str) -> Option<AgentEvent> {
        self.agent.event_on_exit(exit, complaint)
    }

    fn parse_usage_file(&self, text: &str) -> Option<AgentEvent> {
        self.agent.parse_usage_file(text)
    }

    fn leftover_names(&self) -> &'static [&'static str] {
        self.agent.leftover_names()
    }

    fn can_resume(&self) -> bool {
        self.agent.can_resume()
    }

    fn reports_session_totals(&self) -> bool {
        self.agent.reports_session_totals()
    }

    fn login_hint(&self) -> String {
        self.agent.login_hint()
    }

    fn access(&self) -> AgentAccess {
        let mut access = self.agent.access();
        access.hosts = self.hosts.clone().or(access.hosts);
        if let Some(hosts) = &mut access.hosts {
            hosts.extend(hosts_in_environment(&self.env));
        }
        access.credentials.extend(self.credentials.clone());
        access
    }
}

/// Returns the hosts of base URLs in the environment variables.
pub(super) fn hosts_in_environment(env: &[(OsString, OsString)]) -> Vec<Destination> {
    let text = |word: &OsString| word.to_str().map(str::to_owned);
    let pairs = env
        .iter()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)));
    pairs
        .flat_map(|(name, value)| hosts::hosts_in_variable(&name, &value))
        .collect()
}
