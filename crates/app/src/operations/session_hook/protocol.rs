//! The hook protocols of the agent CLIs: JSON on standard input, JSON on standard output. All four
//! are alike; the differences are in this file.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Maximum number of characters of a prompt that is kept for the reviewer.
const PROMPT_CHARS_MAX: usize = 2_000;
/// Maximum length of a session's id.
const ID_BYTES_MAX: usize = 256;

/// A CLI whose sessions Countersign can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionCli {
    Claude,
    Codex,
    Gemini,
    OpenCode,
}

impl SessionCli {
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::OpenCode];

    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    /// Returns the CLI's names for the end of a turn and for a new prompt.
    pub fn events(self) -> [&'static str; 2] {
        match self {
            Self::Claude | Self::Codex => ["Stop", "UserPromptSubmit"],
            Self::Gemini => ["AfterAgent", "BeforeAgent"],
            Self::OpenCode => ["session.idle", "chat.message"],
        }
    }
}

/// Moment at which a CLI calls the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The agent wants to end its turn.
    Stop,
    /// The person sends a prompt.
    Prompt(String),
}

/// Input of a hook, as far as we read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookInput {
    pub session: String,
    /// Directory of the session; the CLI's own directory if it names none.
    pub directory: Option<PathBuf>,
    pub event: SessionEvent,
}

impl HookInput {
    /// Reads the input of a CLI. Unknown fields are ignored: every version adds some.
    pub fn parse(cli: SessionCli, bytes: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let session = text("session_id").ok_or("it has no session_id")?;
        if session.is_empty() || session.len() > ID_BYTES_MAX {
            return Err("its session_id is empty or too long".to_owned());
        }
        let [stop, prompt] = cli.events();
        let event = match text("hook_event_name") {
            Some(name) if name == stop => SessionEvent::Stop,
            Some(name) if name == prompt => {
                let words = text("prompt").unwrap_or_default();
                SessionEvent::Prompt(findings::shorten(words, PROMPT_CHARS_MAX))
            }
            Some(other) => {
                let other = findings::shorten(&findings::one_line(other), 60);
                return Err(format!(
                    "the event {other:?} is not one of {stop} and {prompt}"
                ));
            }
            None => return Err("it has no hook_event_name".to_owned()),
        };
        Ok(Self {
            session: session.to_owned(),
            directory: text("cwd")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute()),
            event,
        })
    }
}

/// Answer to a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// Text that the agent gets instead of the end of its turn.
    pub send_back: Option<String>,
    /// Text that is added to the person's prompt.
    pub context: Option<String>,
    /// Text for the person.
    pub message: Option<String>,
}

impl HookReply {
    pub fn message(text: impl Into<String>) -> Self {
        Self {
            message: Some(text.into()),
            ..Self::default()
        }
    }

    /// Returns the answer in the CLI's words. An empty object lets the session go on as it would.
    pub fn to_json(&self, cli: SessionCli) -> Value {
        let mut answer = json!({});
        if let Some(reason) = &self.send_back {
            let word = match cli {
                SessionCli::Gemini => "deny",
                SessionCli::Claude | SessionCli::Codex | SessionCli::OpenCode => "block",
            };
            answer["decision"] = json!(word);
            answer["reason"] = json!(reason);
        }
        if let Some(context) = &self.context {
            let [_, event] = cli.events();
            answer["hookSpecificOutput"] =
                json!({"hookEventName": event, "additionalContext": context});
        }
        if let Some(message) = &self.message {
            answer["systemMessage"] = json!(message);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs that the CLIs and our plugin sent, with their folders replaced.
    fn recorded(cli: SessionCli) -> Vec<&'static str> {
        let text = match cli {
            SessionCli::Claude => {
                include_str!("../../../tests/fixtures/hooks/claude-2.1.325.jsonl")
            }
            SessionCli::Codex => include_str!("../../../tests/fixtures/hooks/codex-0.166.0.jsonl"),
            SessionCli::Gemini => include_str!("../../../tests/fixtures/hooks/gemini-0.61.0.jsonl"),
            SessionCli::OpenCode => {
                include_str!("../../../tests/fixtures/hooks/opencode-plugin.jsonl")
            }
        };
        text.lines().collect()
    }

    #[test]
    fn recorded_inputs_are_read() {
        for cli in SessionCli::ALL {
            let inputs: Vec<HookInput> = recorded(cli)
                .into_iter()
                .map(|line| HookInput::parse(cli, line.as_bytes()).unwrap())
                .collect();
            let events: Vec<&SessionEvent> = inputs.iter().map(|input| &input.event).collect();
            assert_eq!(
                events[0],
                &SessionEvent::Prompt("say something".to_owned()),
                "{cli:?}"
            );
            assert!(events[1..].contains(&&SessionEvent::Stop), "{cli:?}");
            for input in &inputs {
                assert_eq!(input.session, inputs[0].session);
                let directory = input.directory.as_ref().unwrap();
                assert_eq!(directory.to_str(), Some("/home/user/project"));
            }
        }
    }

    #[test]
    fn broken_inputs_are_refused_with_the_reason() {
        let parse = |text: &str| HookInput::parse(SessionCli::Claude, text.as_bytes());
        for (text, reason) in [
            ("", "not JSON"),
            ("{", "not JSON"),
            ("[]", "no session_id"),
            ("{\"session_id\": 7}", "no session_id"),
            ("{\"session_id\": \"\"}", "empty or too long"),
            ("{\"session_id\": \"a\"}", "no hook_event_name"),
            (
                "{\"session_id\": \"a\", \"hook_event_name\": \"AfterAgent\"}",
                "not one of Stop",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let relative = r#"{"session_id":"a","hook_event_name":"Stop","cwd":"../x"}"#;
        assert_eq!(parse(relative).unwrap().directory, None);
        let long = "x".repeat(PROMPT_CHARS_MAX * 3);
        let prompt =
            json!({"session_id": "a", "hook_event_name": "UserPromptSubmit", "prompt": long});
        let SessionEvent::Prompt(kept) = parse(&prompt.to_string()).unwrap().event else {
            panic!("a prompt");
        };
        assert!(kept.chars().count() <= PROMPT_CHARS_MAX + 1);
    }

    #[test]
    fn each_cli_gets_its_own_words() {
        let back = HookReply {
            send_back: Some("fix F1".to_owned()),
            ..HookReply::default()
        };
        let told = HookReply {
            context: Some("one waits".to_owned()),
            ..HookReply::message("one waits for you")
        };
        for cli in SessionCli::ALL {
            let word = if cli == SessionCli::Gemini {
                "deny"
            } else {
                "block"
            };
            assert_eq!(
                back.to_json(cli),
                json!({"decision": word, "reason": "fix F1"})
            );
            let [_, event] = cli.events();
            assert_eq!(
                told.to_json(cli),
                json!({
                    "hookSpecificOutput": {"hookEventName": event, "additionalContext": "one waits"},
                    "systemMessage": "one waits for you",
                })
            );
            assert_eq!(HookReply::default().to_json(cli), json!({}));
        }
    }
}
