//! The conversation as a state machine: introduce ourselves, open a session, give the brief, answer
//! what is asked, and end when the turn does.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{AcpPermissions, update};
use crate::agent::stream_json::{list, number, text};
use crate::agent::{AgentEvent, AgentUsage, Dialogue, DialogueReply, trouble};
use crate::process::LineReaction;

/// The protocol's own word for "log in first".
const AUTHENTICATION_REQUIRED: i64 = -32_000;
const METHOD_NOT_FOUND: i64 = -32_601;

/// What we have asked and wait for; its number is the request's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcpRequest {
    Introduction = 1,
    Session = 2,
    Work = 3,
}

pub struct AcpConversation {
    dir: PathBuf,
    brief: String,
    rights: AcpPermissions,
    /// Our own tools, for those who take a server over HTTP.
    server: Option<Value>,
    asked: AcpRequest,
    session: String,
    /// It tells the sum so far each time; the last one counts.
    spent: AgentUsage,
}

impl Dialogue for AcpConversation {
    fn open(&mut self) -> Vec<u8> {
        let nothing = json!({"readTextFile": false, "writeTextFile": false});
        self.ask(
            AcpRequest::Introduction,
            "initialize",
            json!({
                "protocolVersion": 1,
                "clientCapabilities": {"fs": nothing, "terminal": false},
                "clientInfo": {"name": "countersign", "version": env!("CARGO_PKG_VERSION")},
            }),
        )
    }

    fn hear(&mut self, line: &str) -> DialogueReply {
        let message = serde_json::from_str::<Value>(line).ok();
        let Some(message) = message.filter(|message| message.get("jsonrpc").is_some()) else {
            return DialogueReply::default();
        };
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.answer(method, id, &message["params"]),
            (Some("session/update"), None) => self.told(&message["params"]["update"]),
            (Some(_), None) => heeded(Vec::new(), Vec::new()),
            (None, _) => self.answered(&message),
        }
    }
}

impl AcpConversation {
    pub fn new(dir: PathBuf, brief: String, rights: AcpPermissions, server: Option<Value>) -> Self {
        Self {
            dir,
            brief,
            rights,
            server,
            asked: AcpRequest::Introduction,
            session: String::new(),
            spent: AgentUsage::default(),
        }
    }

    fn ask(&mut self, asked: AcpRequest, method: &str, params: Value) -> Vec<u8> {
        self.asked = asked;
        line(&json!({"jsonrpc": "2.0", "id": asked as u64, "method": method, "params": params}))
    }

    /// The agent wants something of us. Files and terminals are its own matter.
    fn answer(&mut self, method: &str, id: &Value, params: &Value) -> DialogueReply {
        if method != "session/request_permission" {
            let error = json!({"code": METHOD_NOT_FOUND, "message": "not offered"});
            let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return heeded(line(&refusal), Vec::new());
        }
        let allowed = self.allows(&params["toolCall"]);
        let wanted = if allowed {
            ["allow_once", "allow_always"]
        } else {
            ["reject_once", "reject_always"]
        };
        let option = wanted
            .iter()
            .find_map(|kind| list(params, "/options").find(|option| option["kind"] == **kind));
        let outcome = match option {
            Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        };
        let denied = AgentEvent::Denied {
            tool: text(params, "/toolCall/title").unwrap_or_default(),
        };
        let events = if allowed { Vec::new() } else { vec![denied] };
        let result = json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}});
        heeded(line(&result), events)
    }

    /// What does not say what it is may be anything, so it counts as a command.
    fn allows(&self, call: &Value) -> bool {
        match call["kind"].as_str() {
            Some("read" | "search" | "think" | "fetch") => true,
            Some("edit" | "delete" | "move") => self.rights.edits,
            _ => self.rights.runs,
        }
    }

    fn told(&mut self, told: &Value) -> DialogueReply {
        let mut events = update::events(told);
        events.retain(|event| match event {
            AgentEvent::Spent { usage, .. } => {
                self.spent = *usage;
                false
            }
            _ => true,
        });
        heeded(Vec::new(), events)
    }

    /// What we asked for has come.
    fn answered(&mut self, message: &Value) -> DialogueReply {
        if message["id"].as_u64() != Some(self.asked as u64) {
            return heeded(Vec::new(), Vec::new());
        }
        if let Some(error) = message.get("error") {
            return over(vec![refused(error)]);
        }
        let result = &message["result"];
        match self.asked {
            AcpRequest::Introduction => self.settle(result),
            AcpRequest::Session => self.begin(result),
            AcpRequest::Work => self.end(result),
        }
    }

    fn settle(&mut self, introduced: &Value) -> DialogueReply {
        let http = &introduced["agentCapabilities"]["mcpCapabilities"]["http"];
        let (servers, refused) = match self.server.take() {
            Some(server) if *http == true => (json!([server]), None),
            Some(_) => (json!([]), Some(no_http())),
            None => (json!([]), None),
        };
        let params = json!({"cwd": self.dir, "mcpServers": servers});
        let asked = self.ask(AcpRequest::Session, "session/new", params);
        heeded(asked, refused.into_iter().collect())
    }

    fn begin(&mut self, result: &Value) -> DialogueReply {
        self.session = text(result, "/sessionId").unwrap_or_default();
        let prompt = json!([{"type": "text", "text": self.brief}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        let cancel = json!({
            "jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session},
        });
        let started = AgentEvent::Started {
            session: Some(self.session.clone()),
            model: model(result),
        };
        let mut begun = heeded(
            self.ask(AcpRequest::Work, "session/prompt", params),
            vec![started],
        );
        begun.reaction.farewell = Some(line(&cancel));
        begun
    }

    fn end(&self, result: &Value) -> DialogueReply {
        let count = |name: &str| number(result, &format!("/usage/{name}"));
        let told = AgentUsage {
            usd_micros: None,
            tokens_in: count("inputTokens"),
            tokens_out: count("outputTokens"),
            tokens_cached: count("cachedReadTokens"),
        };
        let usage = told.or(self.spent);
        let mut events = vec![AgentEvent::Spent { usage, model: None }];
        match result["stopReason"].as_str() {
            Some("end_turn") => {}
            other => events.push(AgentEvent::Failed {
                message: format!(
                    "the agent stopped: {}",
                    other.unwrap_or("it does not say why")
                ),
            }),
        }
        over(events)
    }
}

fn no_http() -> AgentEvent {
    AgentEvent::Unconnected {
        why: "the agent takes no MCP server over HTTP".to_owned(),
    }
}

/// Agents tell it in one of two places.
fn model(result: &Value) -> Option<String> {
    let told = text(result, "/models/currentModelId");
    told.or_else(|| {
        let mut options = list(result, "/configOptions");
        let option = options.find(|option| option["id"] == "model")?;
        text(option, "/currentValue")
    })
}

fn refused(error: &Value) -> AgentEvent {
    let message = text(error, "/message").unwrap_or_default();
    let detail = error.get("data").filter(|data| !data.is_null());
    let message = match detail {
        Some(Value::String(detail)) => format!("{message}: {detail}"),
        Some(other) => format!("{message}: {other}"),
        None => message,
    };
    if error["code"].as_i64() == Some(AUTHENTICATION_REQUIRED) {
        AgentEvent::Barred { message }
    } else {
        trouble::of(&message)
    }
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

fn heeded(say: Vec<u8>, events: Vec<AgentEvent>) -> DialogueReply {
    DialogueReply {
        reaction: LineReaction {
            say,
            ..LineReaction::default()
        },
        events: Some(events),
    }
}

fn over(events: Vec<AgentEvent>) -> DialogueReply {
    let mut last = heeded(Vec::new(), events);
    last.reaction.over = true;
    last
}

#[cfg(test)]
mod tests;
