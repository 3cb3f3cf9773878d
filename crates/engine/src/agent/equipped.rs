//! An agent with what a person gives it: a name, variables, and files of their home.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::{Adapter, AgentEvent, Assignment, Dialogue, Invocation};
use crate::process::Exit;

/// Everything that is not given here is the inner agent's own.
pub struct Equipped<A> {
    pub name: String,
    pub agent: A,
    pub env: Vec<(OsString, OsString)>,
    /// From where, to where below its own home.
    pub credentials: Vec<(PathBuf, PathBuf)>,
}

/// What it is given may be secret.
impl<A> fmt::Debug for Equipped<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Equipped")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<A: Adapter> Adapter for Equipped<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn format(&self) -> &'static str {
        self.agent.format()
    }

    fn invocation(&self, assignment: &Assignment) -> Invocation {
        let mut own = self.agent.invocation(assignment);
        own.env.extend(self.env.clone());
        own
    }

    fn events(&self, line: &str) -> Option<Vec<AgentEvent>> {
        self.agent.events(line)
    }

    fn dialogue(&self, assignment: &Assignment) -> Option<Box<dyn Dialogue>> {
        self.agent.dialogue(assignment)
    }

    fn ended(&self, exit: Exit, complaint: &str) -> Option<AgentEvent> {
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

    fn credentials(&self) -> Vec<(PathBuf, PathBuf)> {
        let mut all = self.agent.credentials();
        all.extend(self.credentials.clone());
        all
    }
}
