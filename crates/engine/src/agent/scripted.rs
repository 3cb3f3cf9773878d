//! An agent that plays a script, for the demo, the tests and the benchmarks. It uses the same
//! processes and the same contract as a real agent.

use std::path::{Path, PathBuf};

use super::{Adapter, AgentAccess, AgentAssignment, AgentEvent, Invocation, command};

mod play;
mod script;

pub use play::play_script;
pub use script::{Error, Script};

/// The adapter, which runs our own binary with its hidden verb `play`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedAgent {
    pub exe: PathBuf,
    pub script: PathBuf,
}

impl ScriptedAgent {
    /// Reads the script, so that an invalid one is reported before anything starts.
    pub fn new(exe: &Path, script: &Path) -> Result<Self, Error> {
        Script::read(script)?;
        Ok(Self {
            exe: exe.to_owned(),
            script: script.to_owned(),
        })
    }
}

impl Adapter for ScriptedAgent {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn invocation(&self, assignment: &AgentAssignment) -> Invocation {
        Invocation {
            program: self.exe.clone().into(),
            args: vec!["play".into(), self.script.clone().into()],
            stdin: assignment.brief.clone().into_bytes(),
            ..Invocation::default()
        }
    }

    fn parse_line(&self, line: &str) -> Option<Vec<AgentEvent>> {
        command::parse_event(line).map(|event| vec![event])
    }

    fn access(&self) -> AgentAccess {
        AgentAccess {
            readable_paths: vec![self.script.clone()],
            // It needs no network, which is not the same as unknown hosts.
            hosts: Some(Vec::new()),
            credentials: Vec::new(),
        }
    }
}
