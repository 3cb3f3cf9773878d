//! The person's own proxy, through which ours connects if their network needs one.
//!
//! It gets only targets that our own list has admitted. Its credentials stay outside of the
//! sandbox: the run sees our address only.

use std::ffi::OsString;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::hosts::Destination;
use super::{CONNECT_TIME_MAX, connect};

/// Maximum size of the head of its response.
const ANSWER_BYTES_MAX: usize = 8 << 10;

pub struct Upstream {
    at: Destination,
    /// Value for Basic authentication.
    credentials: Option<String>,
}

/// Leaves the credentials out of debug output.
impl std::fmt::Debug for Upstream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Upstream({})", self.at)
    }
}

impl Upstream {
    /// Returns the proxy that a program's environment variables name.
    pub fn from_environment(env: &[(OsString, OsString)]) -> Option<Self> {
        // The order is that of most tools: the specific variable before the general one.
        let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let variable = names
            .iter()
            .find_map(|name| env.iter().find(|(variable_name, _)| variable_name == name));
        Self::from_url(variable?.1.to_str()?)
    }

    fn from_url(url: &str) -> Option<Self> {
        // A proxy that is itself reached by TLS or SOCKS is not supported; the run then connects
        // directly.
        let rest = url.trim().strip_prefix("http://")?;
        let rest = rest.split('/').next()?;
        // The last `@` counts, since a password may contain one.
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        let proxy: Destination = host.parse().ok()?;
        let port = proxy.port().unwrap_or(80);
        Some(Self {
            at: Destination::new(proxy.name(), port),
            credentials: user.map(|user| STANDARD.encode(percent_decode(user))),
        })
    }

    /// Connects to the host through this proxy.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        timeout(CONNECT_TIME_MAX, self.tunnel(host, port))
            .await
            .map_err(late)?
    }

    async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = connect(self.at.name(), self.at.port().unwrap_or(80)).await?;
        let to = Destination::new(host, port);
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(credentials) = &self.credentials {
            request.extend(["Proxy-Authorization: Basic ", credentials, "\r\n"]);
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        // Read byte by byte, because the bytes after the head belong to the tunnel.
        while !head.ends_with(b"\r\n\r\n") {
            // A server that never ends its head must not fill the memory.
            if head.len() > ANSWER_BYTES_MAX {
                return Err(io::Error::other("the proxy's response is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        let status = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        if status == b"200" {
            return Ok(stream);
        }
        let status = String::from_utf8_lossy(status).into_owned();
        Err(io::Error::other(format!(
            "the proxy {} refused the connection with status {status:.20}",
            self.at
        )))
    }
}

/// Decodes percent escapes: `%40` is an at sign.
fn percent_decode(text: &str) -> Vec<u8> {
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
        let read = |url: &str| Upstream::from_url(url).map(|found| format!("{found:?}"));
        let plain = read("http://proxy.example:8080/");
        assert_eq!(plain.as_deref(), Some("Upstream(proxy.example:8080)"));
        assert_eq!(
            read("http://proxy.example").as_deref(),
            Some("Upstream(proxy.example:80)")
        );
        for other in ["socks5://a.example:1", "https://a.example", "a.example", ""] {
            assert_eq!(read(other), None, "{other}");
        }
        let with_user = Upstream::from_url("http://me:p%40ss@proxy.example:1").unwrap();
        assert_eq!(with_user.credentials.unwrap(), STANDARD.encode("me:p@ss"));
    }
}
