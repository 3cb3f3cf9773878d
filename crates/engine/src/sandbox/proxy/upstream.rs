//! The person's own proxy, where their network has one: the way on from ours.

use std::ffi::OsString;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::hosts::Destination;
use super::{CONNECT_TIME_MAX, connect};

/// The head of its answer.
const ANSWER_BYTES_MAX: usize = 8 << 10;

pub struct Upstream {
    at: Destination,
    /// What it is told of who asks.
    credentials: Option<String>,
}

/// The password is nobody's business.
impl std::fmt::Debug for Upstream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Upstream({})", self.at)
    }
}

impl Upstream {
    /// The one that a program's variables name.
    pub fn of(env: &[(OsString, OsString)]) -> Option<Self> {
        let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let found = names
            .iter()
            .find_map(|name| env.iter().find(|(known, _)| known == name));
        Self::read(found?.1.to_str()?)
    }

    fn read(url: &str) -> Option<Self> {
        let rest = url.trim().strip_prefix("http://")?;
        let rest = rest.split('/').next()?;
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        let named: Destination = host.parse().ok()?;
        let port = named.port().unwrap_or(80);
        Some(Self {
            at: Destination::new(named.name(), port),
            credentials: user.map(|user| STANDARD.encode(decoded(user))),
        })
    }

    /// A way through it to the host.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        timeout(CONNECT_TIME_MAX, self.tunnel(host, port))
            .await
            .map_err(late)?
    }

    async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = connect(self.at.name(), self.at.port().unwrap_or(80)).await?;
        let to = Destination::new(host, port);
        let mut ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(credentials) = &self.credentials {
            ask.extend(["Proxy-Authorization: Basic ", credentials, "\r\n"]);
        }
        ask.push_str("\r\n");
        stream.write_all(ask.as_bytes()).await?;
        let mut head = Vec::new();
        // Byte by byte: what follows the head belongs to the tunnel.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::other("the proxy's answer is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if status == b"200" {
            return Ok(stream);
        }
        let status = String::from_utf8_lossy(status).into_owned();
        Err(io::Error::other(format!(
            "the proxy {} answers {status:.20}",
            self.at
        )))
    }
}

/// `%40` is an at sign.
fn decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_http_proxy_is_one() {
        let read = |url: &str| Upstream::read(url).map(|found| format!("{found:?}"));
        let plain = read("http://proxy.example:8080/");
        assert_eq!(plain.as_deref(), Some("Upstream(proxy.example:8080)"));
        assert_eq!(
            read("http://proxy.example").as_deref(),
            Some("Upstream(proxy.example:80)")
        );
        for other in ["socks5://a.example:1", "https://a.example", "a.example", ""] {
            assert_eq!(read(other), None, "{other}");
        }
        let with_user = Upstream::read("http://me:p%40ss@proxy.example:1").unwrap();
        assert_eq!(with_user.credentials.unwrap(), STANDARD.encode("me:p@ss"));
    }
}
