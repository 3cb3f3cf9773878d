//! Runs any command as an agent, by contract version 2 (docs/agents.md).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::event::ContractUsage;
use super::quota::QuotaReset;
use super::{Adapter, AgentAccess, AgentAssignment, AgentEvent, Invocation};

/// A program that implements the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandAgent {
    pub program: OsString,
    pub args: Vec<OsString>,
}

impl CommandAgent {
    /// Parses a command line with words, quotes and backslashes, and without any other shell
    /// feature.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut words = split_words(line)?.into_iter().map(OsString::from);
        let program = words.next().ok_or("the command of an agent is empty")?;
        Ok(Self {
            program,
            args: words.collect(),
        })
    }
}

impl Adapter for CommandAgent {
    fn name(&self) -> &str {
        // People know it by its file name; the directory is for the log.
        let file = Path::new(&self.program).file_name();
        file.and_then(OsStr::to_str).unwrap_or("command")
    }

    fn invocation(&self, assignment: &AgentAssignment) -> Invocation {
        Invocation {
            program: self.program.clone(),
            args: self.args.clone(),
            stdin: assignment.brief.clone().into_bytes(),
            ..Invocation::default()
        }
    }

    fn parse_line(&self, line: &str) -> Option<Vec<AgentEvent>> {
        parse_event(line).map(|event| vec![event])
    }

    fn access(&self) -> AgentAccess {
        // A script among the arguments is as much part of the agent as its interpreter.
        let words = self.args.iter().map(PathBuf::from);
        AgentAccess {
            readable_paths: words.filter(|path| path.is_absolute()).collect(),
            ..AgentAccess::default()
        }
    }
}

/// An event line on stdout: an object with the key `event`.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum ContractEvent {
    Start {
        session: Option<String>,
        model: Option<String>,
    },
    Say {
        text: String,
    },
    Tool {
        name: String,
        #[serde(default)]
        detail: String,
    },
    Usage(ContractUsage),
    Quota {
        until: Option<String>,
    },
    Fail {
        message: String,
    },
}

/// Parses an event line. Any other line is text and may be part of the result.
pub(super) fn parse_event(line: &str) -> Option<AgentEvent> {
    if !line.starts_with('{') {
        return None;
    }
    Some(match serde_json::from_str(line).ok()? {
        ContractEvent::Start { session, model } => AgentEvent::Started { session, model },
        ContractEvent::Say { text } => AgentEvent::Said { text },
        ContractEvent::Tool { name, detail } => AgentEvent::ToolUsed { tool: name, detail },
        ContractEvent::Usage(reported) => {
            let (usage, model) = reported.into_usage();
            AgentEvent::Spent { usage, model }
        }
        ContractEvent::Quota { until } => AgentEvent::OutOfQuota {
            until: until.as_deref().and_then(QuotaReset::find),
        },
        ContractEvent::Fail { message } => AgentEvent::Failed { message },
    })
}

fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => {
                let next = letters.next().ok_or("the command ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (letter, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!(
            "the command has a {open} that is not closed: {line}"
        ));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::super::AgentUsage;
    use super::*;

    #[test]
    fn a_line_is_split_as_a_person_means_it() {
        let command =
            CommandAgent::parse(r#"my-agent --say 'two words' "a \"b\"" c\ d ''"#).unwrap();
        assert_eq!(command.program, "my-agent");
        assert_eq!(command.args, ["--say", "two words", "a \"b\"", "c d", ""]);
        assert!(CommandAgent::parse("  ").is_err());
        assert!(
            CommandAgent::parse("agent 'open")
                .unwrap_err()
                .contains("not closed")
        );
    }

    #[test]
    fn only_objects_with_an_event_are_events() {
        let said = parse_event(r#"{"event":"say","text":"hello"}"#);
        assert_eq!(
            said,
            Some(AgentEvent::Said {
                text: "hello".into()
            })
        );
        let spent = parse_event(r#"{"event":"usage","usd":0.5,"tokens_in":10}"#);
        let usage = AgentUsage {
            usd_micros: Some(500_000),
            tokens_in: Some(10),
            ..AgentUsage::default()
        };
        assert_eq!(spent, Some(AgentEvent::Spent { usage, model: None }));
        for text in [
            r#"{"summary":"x"}"#,
            "{",
            "plain",
            r#"{"event":"unheard-of"}"#,
            "",
        ] {
            assert_eq!(parse_event(text), None, "{text}");
        }
    }
}
