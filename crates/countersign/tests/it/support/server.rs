//! A server of a world, and callers of every kind.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::{Running, World, until};

pub struct Server<'a> {
    world: &'a World,
    running: Running,
    pub url: String,
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// The person's own, of an administrator.
    pub token: String,
    /// The `OpenAPI` document, read when the first answer is compared with it.
    document: OnceLock<Value>,
}

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// An answer of the server.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.body))
    }
}

impl<'a> Server<'a> {
    pub fn start(world: &'a World) -> Self {
        Self::start_with(world, &[])
    }

    pub fn start_with(world: &'a World, more: &[&str]) -> Self {
        Self::begun(world, world.start(&[&SERVE, more].concat()))
    }

    /// Behind another program, which becomes it.
    pub fn start_behind(world: &'a World, front: &[&str], more: &[&str]) -> Self {
        Self::begun(world, world.start_behind(front, &[&SERVE, more].concat()))
    }

    fn begun(world: &'a World, running: Running) -> Self {
        let path = world.data.join("server.json");
        let mut sign = Value::Null;
        until("the server has put up its sign", || {
            let text = fs::read(&path).unwrap_or_default();
            sign = serde_json::from_slice(&text).unwrap_or_default();
            sign["pid"] == running.pid()
        });
        let text = |name: &str| sign[name].as_str().unwrap().to_owned();
        Self {
            world,
            running,
            url: text("url"),
            address: text("url").split("://").nth(1).unwrap().to_owned(),
            token: text("token"),
            document: OnceLock::new(),
        }
    }

    /// The log until now.
    pub fn log(&self) -> String {
        self.running.log()
    }

    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// A new token's secret.
    pub fn token(&self, agent: &str, role: &str, more: &[&str]) -> String {
        let words = ["token", "create", "--agent", agent, "--role", role];
        let made = self.world.json(&[&words, more].concat());
        made["secret"].as_str().unwrap().to_owned()
    }

    /// Any request at all, on a connection of its own.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            let _ = write!(head, "Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "Content-Length: {}\r\n\r\n", body.len());
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // The server may close a refused connection before the request is complete.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body.as_bytes());
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        reply(&String::from_utf8_lossy(&text))
    }

    /// The REST interface, as an administrator.
    pub fn rest(&self, method: &str, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.rest_as(&self.token, method, path, &body)
    }

    pub fn rest_as(&self, token: &str, method: &str, path: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        let reply = self.send(method, path, &[("Authorization", &bearer)], body);
        self.assert_described(method, path, &reply);
        reply
    }

    /// Compares an answer with the document: its status, its media type and its schema.
    #[track_caller]
    fn assert_described(&self, method: &str, path: &str, reply: &Reply) {
        let document = self.document.get_or_init(|| {
            let read = self.send("GET", "/api/v1/openapi.json", &[], "");
            read.is(200).json()
        });
        let path = path.split('?').next().unwrap_or(path);
        let paths = document["paths"].as_object().unwrap();
        let Some((_, operations)) = paths.iter().find(|(pattern, _)| fits(pattern, path)) else {
            return;
        };
        let operation = &operations[method.to_lowercase()];
        if operation.is_null() {
            return;
        }
        let response = &operation["responses"][reply.status.to_string()];
        assert!(
            response.is_object(),
            "{method} {path}: {} is not described\n{}",
            reply.status,
            reply.body
        );
        let content = response["content"].as_object().unwrap();
        let head = reply.head.to_lowercase();
        let kind = content
            .keys()
            .find(|kind| head.contains(&format!("content-type: {kind}")));
        let kind = kind.unwrap_or_else(|| panic!("{method} {path}: {}", reply.head));
        if !kind.ends_with("json") {
            return;
        }
        let mut schema = content[kind]["schema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let answer = reply.json();
        let wrong: Vec<String> = validator
            .iter_errors(&answer)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(
            wrong.is_empty(),
            "{method} {path} answers otherwise than described:\n{}\n{}",
            wrong.join("\n"),
            reply.body
        );
    }

    /// Any MCP method, without a session.
    pub fn mcp(&self, token: &str, method: &str, params: &Value) -> Value {
        self.mcp_in(token, None, method, params).1
    }

    /// Begins a session as clients of the older protocols do; its label.
    pub fn session(&self, token: &str) -> String {
        let me = json!({"name": "a-test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me});
        let (head, _) = self.mcp_in(token, None, "initialize", &hello);
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let label = lines.find(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        label.unwrap().1.to_owned()
    }

    /// Any MCP method in a session; the head of the reply and the answer.
    pub fn mcp_in(
        &self,
        token: &str,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> (String, Value) {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let reply = self
            .send("POST", "/mcp", &headers, &body.to_string())
            .is(200);
        let text = reply
            .body
            .lines()
            .find_map(|line| line.strip_prefix("data: {"));
        match text {
            Some(rest) => {
                let answer = serde_json::from_str(&format!("{{{rest}")).unwrap();
                (reply.head, answer)
            }
            None => (reply.head.clone(), reply.json()),
        }
    }

    /// Calls a tool; its answer, or what it complains of.
    pub fn tool(&self, token: &str, name: &str, arguments: &Value) -> Result<Value, String> {
        self.tool_in(token, None, name, arguments)
    }

    /// The same in a session.
    pub fn tool_in(
        &self,
        token: &str,
        session: Option<&str>,
        name: &str,
        arguments: &Value,
    ) -> Result<Value, String> {
        let params = json!({"name": name, "arguments": arguments});
        told(&self.mcp_in(token, session, "tools/call", &params).1)
    }

    /// A ticket of the world's repository.
    pub fn add(&self, id: &str) {
        let repository = self.world.repository.to_str().unwrap();
        let ticket = json!({"id": id, "title": format!("Do {id}"), "repository": repository});
        self.rest("POST", "/api/v1/tickets", &ticket).is(201);
    }

    pub fn stage(&self, id: &str) -> String {
        let shown = self.rest("GET", &format!("/api/v1/tickets/{id}"), &Value::Null);
        shown.is(200).json()["ticket"]["stage"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// A tool's answer, or what it complains of.
pub fn told(answer: &Value) -> Result<Value, String> {
    let result = &answer["result"];
    if result.is_null() {
        return Err(answer["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned());
    }
    if result["isError"] == true {
        return Err(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    Ok(result["structuredContent"].clone())
}

/// Whether a path is one of a route's pattern, such as `/tickets/{ticket}`.
fn fits(pattern: &str, path: &str) -> bool {
    let (parts, words) = (pattern.split('/'), path.split('/'));
    pattern.split('/').count() == path.split('/').count()
        && parts
            .zip(words)
            .all(|(part, word)| part.starts_with('{') || part == word)
}

fn reply(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    Reply {
        status: status.unwrap_or_default(),
        head: head.to_owned(),
        body: if chunked {
            unchunked(body)
        } else {
            body.to_owned()
        },
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > rest.len() {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
