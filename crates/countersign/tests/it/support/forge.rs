//! A host of repositories like a forge: git's own program behind HTTPS, open to all or with a
//! password.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::tls::Certificate;

pub struct Forge {
    /// `127.0.0.1:PORT`
    pub address: String,
}

/// Settings for the answers to every connection.
struct Place {
    root: PathBuf,
    /// Required value of `Authorization`.
    wanted: Option<String>,
    tls: Arc<ServerConfig>,
}

impl Forge {
    /// Serves the repositories below `root`, to callers that send `name:password`.
    pub fn start(certificate: &Certificate, root: &Path, secret: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let place = Arc::new(Place {
            root: root.to_owned(),
            wanted: secret.map(|secret| format!("Basic {}", BASE64.encode(secret))),
            tls: certificate.server(),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let place = Arc::clone(&place);
                // A client may disconnect in the middle of a request.
                std::thread::spawn(move || drop(answer(&place, stream)));
            }
        });
        Self { address }
    }
}

fn answer(place: &Place, stream: TcpStream) -> std::io::Result<()> {
    let tls = ServerConnection::new(Arc::clone(&place.tls)).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(tls, stream);
    let (head, body) = read(&mut stream)?;
    let known = place.wanted.as_deref();
    let reply = if known.is_none_or(|wanted| field(&head, "authorization") == wanted) {
        performed(place, &head, &body)
    } else {
        let realm = "WWW-Authenticate: Basic realm=\"forge\"";
        (format!("401 Unauthorized\r\n{realm}"), Vec::new())
    };
    let length = reply.1.len();
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
        reply.0
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&reply.1)?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// A request's head, and its body by the length that the head gives.
pub fn read(stream: &mut impl Read) -> std::io::Result<(String, Vec<u8>)> {
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let end = all.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&all[..end]).into_owned();
            let length = field(&head, "content-length").parse().unwrap_or(0);
            if all.len() >= end + 4 + length {
                return Ok((head, all[end + 4..].to_vec()));
            }
        }
        match stream.read(&mut some)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => all.extend_from_slice(&some[..count]),
        }
    }
}

pub fn field<'a>(head: &'a str, name: &str) -> &'a str {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value)
}

/// Returns the answer of git's program: the status with its fields, and the body.
#[expect(
    clippy::disallowed_methods,
    reason = "a forge is another's program, on the other side of the network"
)]
fn performed(place: &Place, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let length = body.len().to_string();
    let mut child = Command::new("git")
        .args(["-c", "http.receivepack=true", "http-backend"])
        .env("GIT_PROJECT_ROOT", &place.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .envs([
            ("REQUEST_METHOD", method),
            ("PATH_INFO", path),
            ("QUERY_STRING", query),
        ])
        .env("CONTENT_TYPE", field(head, "content-type"))
        .env("CONTENT_LENGTH", length)
        .env("HTTP_CONTENT_ENCODING", field(head, "content-encoding"))
        .env("GIT_PROTOCOL", field(head, "git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    let said = child.wait_with_output().unwrap().stdout;
    let end = said
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let fields = String::from_utf8_lossy(&said[..end]).into_owned();
    let mut status = field(&fields, "status").to_owned();
    if status.is_empty() {
        "200 OK".clone_into(&mut status);
    }
    for line in fields.lines().filter(|line| !line.starts_with("Status")) {
        let _ = write!(status, "\r\n{line}");
    }
    (status, said[end + 4..].to_vec())
}
