//! The conversation as a state machine: initialize, open a session, send the brief, answer
//! requests, and finish when the turn ends.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{AcpPermissions, update};
use crate::agent::stream_json::{list, number, text};
use crate::agent::{AgentEvent, AgentUsage, Dialogue, DialogueReply, error_class};
use crate::process::LineReaction;

/// The protocol's error code for a missing login.
const AUTHENTICATION_REQUIRED: i64 = -32_000;
const METHOD_NOT_FOUND: i64 = -32_601;

/// Our pending request; its number is the request's id.
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
    /// Our MCP server, for agents that support servers over HTTP.
    server: Option<Value>,
    asked: AcpRequest,
    session: String,
    /// Usage so far. Every update has the total, so the last one counts.
    spent: AgentUsage,
}

impl Dialogue for AcpConversation {
    fn first_input(&mut self) -> Vec<u8> {
        let nothing = json!({"readTextFile": false, "writeTextFile": false});
        self.send_request(
            AcpRequest::Introduction,
            "initialize",
            json!({
                "protocolVersion": 1,
                "clientCapabilities": {"fs": nothing, "terminal": false},
                "clientInfo": {"name": "countersign", "version": env!("CARGO_PKG_VERSION")},
            }),
        )
    }

    fn on_line(&mut self, line: &str) -> DialogueReply {
        let message = serde_json::from_str::<Value>(line).ok();
        let Some(message) = message.filter(|message| message.get("jsonrpc").is_some()) else {
            return DialogueReply::default();
        };
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.answer_request(method, id, &message["params"]),
            (Some("session/update"), None) => self.on_notification(&message["params"]["update"]),
            (Some(_), None) => reply(Vec::new(), Vec::new()),
            (None, _) => self.on_response(&message),
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

    fn send_request(&mut self, request: AcpRequest, method: &str, params: Value) -> Vec<u8> {
        self.asked = request;
        json_line(
            &json!({"jsonrpc": "2.0", "id": request as u64, "method": method, "params": params}),
        )
    }

    /// Answers a request of the agent. Only permission requests are supported; files and terminals
    /// are not.
    fn answer_request(&mut self, method: &str, id: &Value, params: &Value) -> DialogueReply {
        if method != "session/request_permission" {
            let error = json!({"code": METHOD_NOT_FOUND, "message": "not offered"});
            let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return reply(json_line(&refusal), Vec::new());
        }
        let allowed = self.allows(&params["toolCall"]);
        let kinds = if allowed {
            ["allow_once", "allow_always"]
        } else {
            ["reject_once", "reject_always"]
        };
        let option = kinds
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
        reply(json_line(&result), events)
    }

    /// Returns whether a tool call is allowed. A call without a known kind counts as a command.
    fn allows(&self, call: &Value) -> bool {
        match call["kind"].as_str() {
            Some("read" | "search" | "think" | "fetch") => true,
            Some("edit" | "delete" | "move") => self.rights.edits,
            _ => self.rights.runs,
        }
    }

    /// Handles a progress notification. Usage is kept until the end, because each report is a sum.
    fn on_notification(&mut self, update: &Value) -> DialogueReply {
        let mut events = update::events(update);
        events.retain(|event| match event {
            AgentEvent::Spent { usage, .. } => {
                self.spent = *usage;
                false
            }
            _ => true,
        });
        reply(Vec::new(), events)
    }

    /// Handles the response to our request.
    fn on_response(&mut self, message: &Value) -> DialogueReply {
        if message["id"].as_u64() != Some(self.asked as u64) {
            return reply(Vec::new(), Vec::new());
        }
        if let Some(error) = message.get("error") {
            return final_reply(vec![error_event(error)]);
        }
        let result = &message["result"];
        match self.asked {
            AcpRequest::Introduction => self.open_session(result),
            AcpRequest::Session => self.send_brief(result),
            AcpRequest::Work => self.finish_turn(result),
        }
    }

    fn open_session(&mut self, response: &Value) -> DialogueReply {
        let http = &response["agentCapabilities"]["mcpCapabilities"]["http"];
        let (servers, refused) = match self.server.take() {
            Some(server) if *http == true => (json!([server]), None),
            Some(_) => (json!([]), Some(http_not_supported())),
            None => (json!([]), None),
        };
        let params = json!({"cwd": self.dir, "mcpServers": servers});
        let request = self.send_request(AcpRequest::Session, "session/new", params);
        reply(request, refused.into_iter().collect())
    }

    fn send_brief(&mut self, result: &Value) -> DialogueReply {
        self.session = text(result, "/sessionId").unwrap_or_default();
        let prompt = json!([{"type": "text", "text": self.brief}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        let cancel = json!({
            "jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session},
        });
        let started = AgentEvent::Started {
            session: Some(self.session.clone()),
            model: session_model(result),
        };
        let mut reply = reply(
            self.send_request(AcpRequest::Work, "session/prompt", params),
            vec![started],
        );
        reply.reaction.farewell = Some(json_line(&cancel));
        reply
    }

    fn finish_turn(&self, result: &Value) -> DialogueReply {
        let count = |name: &str| number(result, &format!("/usage/{name}"));
        let reported = AgentUsage {
            usd_micros: None,
            tokens_in: count("inputTokens"),
            tokens_out: count("outputTokens"),
            tokens_cached: count("cachedReadTokens"),
        };
        let usage = reported.fill_missing(self.spent);
        let mut events = vec![AgentEvent::Spent { usage, model: None }];
        match result["stopReason"].as_str() {
            Some("end_turn") => {}
            other => events.push(AgentEvent::Failed {
                message: format!("the agent stopped: {}", other.unwrap_or("no reason given")),
            }),
        }
        final_reply(events)
    }
}

fn http_not_supported() -> AgentEvent {
    AgentEvent::McpUnavailable {
        why: "the agent does not support MCP servers over HTTP".to_owned(),
    }
}

/// Returns the model, which agents report in one of two places.
fn session_model(result: &Value) -> Option<String> {
    let current = text(result, "/models/currentModelId");
    current.or_else(|| {
        let mut options = list(result, "/configOptions");
        let option = options.find(|option| option["id"] == "model")?;
        text(option, "/currentValue")
    })
}

fn error_event(error: &Value) -> AgentEvent {
    let message = text(error, "/message").unwrap_or_default();
    let detail = error.get("data").filter(|data| !data.is_null());
    let message = match detail {
        Some(Value::String(detail)) => format!("{message}: {detail}"),
        Some(other) => format!("{message}: {other}"),
        None => message,
    };
    if error["code"].as_i64() == Some(AUTHENTICATION_REQUIRED) {
        AgentEvent::ActionRequired { message }
    } else {
        error_class::classify_error(&message)
    }
}

fn json_line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

fn reply(say: Vec<u8>, events: Vec<AgentEvent>) -> DialogueReply {
    DialogueReply {
        reaction: LineReaction {
            say,
            ..LineReaction::default()
        },
        events: Some(events),
    }
}

fn final_reply(events: Vec<AgentEvent>) -> DialogueReply {
    let mut last = reply(Vec::new(), events);
    last.reaction.over = true;
    last
}

#[cfg(test)]
mod tests;
