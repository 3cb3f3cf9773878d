//! Callers that cost little themselves: one connection each, kept open, one question at a time.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const PROTOCOL: &str = "2025-11-25";

/// One agent's connection over HTTP.
pub struct Caller {
    stream: BufReader<TcpStream>,
    address: String,
    token: String,
}

impl Caller {
    pub async fn new(address: &str, token: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    /// A tool's answer. An error of the tool ends the measurement: it would be a quick answer.
    pub async fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let body = call(name, arguments);
        let answer = self.send("POST", "/mcp", &body.to_string()).await;
        assert!(answer["result"]["isError"] != true, "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        answer
    }

    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> Value {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {PROTOCOL}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let (status, length) = self.head().await;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        let text = String::from_utf8(body).unwrap();
        assert!((200..300).contains(&status), "{status}: {text}");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    async fn head(&mut self) -> (u16, usize) {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            assert!(
                self.stream.read_line(&mut line).await.unwrap() > 0,
                "it hung up"
            );
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                return (status, length);
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            }
            if let Some(rest) = line.strip_prefix("content-length:") {
                length = rest.trim().parse().unwrap();
            }
        }
    }
}

/// A server on its own standard input and output.
pub struct Piped {
    /// Ended with us.
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Piped {
    pub async fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut piped = Self {
            _child: child,
            input,
            output: BufReader::new(output),
        };
        let hello = json!({"protocolVersion": PROTOCOL, "capabilities": {},
            "clientInfo": {"name": "server_load", "version": "1"}});
        piped
            .ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))
            .await;
        piped
            .say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        piped
    }

    pub async fn tool(&mut self, name: &str, arguments: &Value) {
        let answer = self.ask(&call(name, arguments)).await;
        assert!(answer["result"]["isError"] != true, "{answer}");
    }

    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, message: &Value) -> Value {
        self.say(message).await;
        let mut line = String::new();
        assert!(
            self.output.read_line(&mut line).await.unwrap() > 0,
            "it has ended"
        );
        serde_json::from_str(&line).unwrap()
    }
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments}})
}
