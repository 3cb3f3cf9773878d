//! Hosts that a run may reach, in the form that people and adapters write, and the comparison of a
//! request with them. The module is pure and resolves no names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use flow::policy::network::is_host;
use serde::{Deserialize, Serialize};

/// Permitted ports of a host that is listed without a port.
const USUAL_PORTS: [u16; 2] = [443, 80];

/// A host to connect to: `example.com`, `example.com:8443`, `*.example.com`, `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    /// Name in lower case, without brackets and without a final dot.
    name: String,
    port: Option<u16>,
}

impl Destination {
    pub fn new(name: &str, port: u16) -> Self {
        Self {
            name: normalize_host(name),
            port: Some(port),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns whether this destination permits a connection to the host and port.
    pub fn admits(&self, host: &str, port: u16) -> bool {
        let at_port = match self.port {
            Some(own) => own == port,
            None => USUAL_PORTS.contains(&port),
        };
        at_port && self.matches_name(&normalize_host(host))
    }

    fn matches_name(&self, host: &str) -> bool {
        let (ours, theirs) = (self.name.parse::<IpAddr>(), host.parse::<IpAddr>());
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            // An IP address is permitted only if that address itself is listed.
            (_, Ok(_)) => false,
            _ => match self.name.strip_prefix("*.") {
                Some(domain) => host
                    .strip_suffix(domain)
                    .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
                None => self.name == host,
            },
        }
    }

    /// Returns the port, if the destination is a service on this machine.
    pub fn loopback_port(&self) -> Option<u16> {
        let local = self.name == "localhost" || self.name == "127.0.0.1";
        self.port.filter(|_| local)
    }
}

fn normalize_host(host: &str) -> String {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(out, "[{}]", self.name)?;
        } else {
            out.write_str(&self.name)?;
        }
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a host; use NAME, NAME:PORT or *.NAME");
        if !is_host(text) {
            return Err(refuse());
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_| refuse())?;
        let name = normalize_host(name);
        Ok(Self { name, port })
    }
}

impl TryFrom<String> for Destination {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Destination> for String {
    fn from(destination: Destination) -> Self {
        destination.to_string()
    }
}

/// Maximum number of addresses from one text.
const IN_TEXT_MAX: usize = 16;

/// Returns the hosts of all web addresses in a text: a base URL, or a configuration that contains
/// one.
pub fn hosts_in_text(text: &str) -> Vec<Destination> {
    let mut hosts = Vec::new();
    let mut rest = text;
    while hosts.len() < IN_TEXT_MAX {
        let Some(at) = rest.find("://") else {
            break;
        };
        let usual = match rest.get(..at) {
            Some(before) if ends_with(before, "https") || ends_with(before, "wss") => Some(443),
            Some(before) if ends_with(before, "http") || ends_with(before, "ws") => Some(80),
            _ => None,
        };
        rest = rest.get(at + 3..).unwrap_or_default();
        if let Some(usual) = usual {
            hosts.extend(parse_authority(rest, usual));
        }
    }
    hosts
}

fn ends_with(before: &str, scheme: &str) -> bool {
    let from = before.len().checked_sub(scheme.len());
    let from = from.filter(|from| before.is_char_boundary(*from));
    from.is_some_and(|from| {
        let alone = !before[..from].ends_with(|c: char| c.is_ascii_alphanumeric());
        alone && before[from..].eq_ignore_ascii_case(scheme)
    })
}

/// Parses the host at the start of a text that follows a scheme.
fn parse_authority(text: &str, usual_port: u16) -> Option<Destination> {
    let of_host =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '[' | ']');
    let stop = |c: char| matches!(c, '/' | '?' | '#' | '\\' | '"' | '\'') || c.is_whitespace();
    let whole = text.split(stop).next().unwrap_or_default();
    // A user name and a password may precede the host.
    let host = whole.rsplit('@').next().unwrap_or_default();
    let end = host.find(|c| !of_host(c)).unwrap_or(host.len());
    let mut host_and_port: Destination = host[..end].trim_end_matches(':').parse().ok()?;
    host_and_port.port.get_or_insert(usual_port);
    (!host_and_port.name.starts_with('*')).then_some(host_and_port)
}

/// Returns the hosts in the value of an environment variable. A bare host counts only if the
/// variable's name ends in `_HOST` or `_ENDPOINT`, as in `OLLAMA_HOST=127.0.0.1:11434`.
pub fn hosts_in_variable(name: &str, value: &str) -> Vec<Destination> {
    let upper = name.to_ascii_uppercase();
    // The person's own proxy would give access to every host.
    if upper.ends_with("_PROXY") {
        return Vec::new();
    }
    let bare = upper.ends_with("_HOST") || upper.ends_with("_ENDPOINT");
    match value.trim().parse::<Destination>() {
        Ok(host) if bare && !host.name.starts_with('*') => vec![host],
        _ => hosts_in_text(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Destination {
        text.parse().unwrap()
    }

    #[test]
    fn a_host_is_reached_by_its_name_at_its_ports_only() {
        let plain = of("api.example.com");
        assert!(plain.admits("api.example.com", 443) && plain.admits("API.example.COM.", 80));
        for (host, port) in [
            ("api.example.com", 8443),
            ("example.com", 443),
            ("x.api.example.com", 443),
            ("api.example.com.evil.example", 443),
            ("evil-api.example.com", 443),
            ("93.184.216.34", 443),
            ("api.example.com:443", 443),
            ("api.example.com\0.evil", 443),
        ] {
            assert!(!plain.admits(host, port), "{host}:{port}");
        }
        let with_port = of("localhost:8080");
        assert!(with_port.admits("localhost", 8080));
        assert!(!with_port.admits("localhost", 443) && !with_port.admits("127.0.0.1", 8080));
        let below = of("*.example.com");
        assert!(below.admits("a.example.com", 443) && below.admits("a.b.example.com", 443));
        assert!(!below.admits("example.com", 443) && !below.admits("aexample.com", 443));
        assert!(!below.admits(".example.com", 443));
        assert!(of("[::1]:80").admits("0:0:0:0:0:0:0:1", 80));
        assert!(!of("127.0.0.1:80").admits("127.1", 80));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in [
            "a.example",
            "a.example:1",
            "*.a.example",
            "[::1]:80",
            "10.0.0.1",
        ] {
            assert_eq!(of(text).to_string(), text);
        }
        assert!("*".parse::<Destination>().is_err());
    }

    #[test]
    fn base_urls_are_found_wherever_they_stand() {
        let rows: [(&str, &[&str]); 9] = [
            ("https://gateway.example/v1", &["gateway.example:443"]),
            ("http://127.0.0.1:19098", &["127.0.0.1:19098"]),
            ("HTTP://[::1]:8080/x", &["[::1]:8080"]),
            ("https://me:pass@gw.example:8443/", &["gw.example:8443"]),
            (
                r#"{"baseURL":"http://localhost:1/v1","x":"https://b.example"}"#,
                &["localhost:1", "b.example:443"],
            ),
            (
                "model_providers.x={base_url = \"http://127.0.0.1:5/v1\"}",
                &["127.0.0.1:5"],
            ),
            ("sk-key-without-address", &[]),
            ("xhttp://a.example file:///etc ssh://b.example", &[]),
            ("https://*.example.com/ https:///x http://@/", &[]),
        ];
        for (text, wanted) in rows {
            let found: Vec<String> = hosts_in_text(text)
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(found, wanted, "{text}");
        }
        assert_eq!(
            hosts_in_variable("OLLAMA_HOST", "127.0.0.1:1"),
            [of("127.0.0.1:1")]
        );
        assert_eq!(hosts_in_variable("SOME_KEY", "127.0.0.1:1"), []);
        assert_eq!(
            hosts_in_variable("https_proxy", "http://proxy.example:1"),
            []
        );
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_search_or_names_a_wildcard(text in ".{0,200}") {
            for found in hosts_in_text(&text).into_iter().chain(hosts_in_variable("X_HOST", &text)) {
                prop_assert!(!found.to_string().contains('*'));
                prop_assert_eq!(&found.to_string().parse::<Destination>().unwrap(), &found);
            }
        }

        #[test]
        fn a_longer_name_is_another_host(front in "[a-z.]{1,9}", back in "[a-z.]{1,9}") {
            let plain = of("api.example.com");
            let (before, after) = (format!("{front}api.example.com"), format!("api.example.com{back}"));
            prop_assert!(!plain.admits(&before, 443));
            prop_assert!(back == "." || !plain.admits(&after, 443));
        }
    }
}
