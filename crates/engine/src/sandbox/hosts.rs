//! Hosts that a run may reach, as people and adapters name them, and how a request is compared with
//! them. Pure: nothing is resolved here.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use flow::policy::network::is_host;
use serde::{Deserialize, Serialize};

/// Ports that a host named without one may be reached at.
const USUAL_PORTS: [u16; 2] = [443, 80];

/// A host to connect to: `example.com`, `example.com:8443`, `*.example.com`, `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    /// In lower case, without brackets and without a final dot.
    name: String,
    port: Option<u16>,
}

impl Destination {
    pub fn new(name: &str, port: u16) -> Self {
        Self {
            name: normal(name),
            port: Some(port),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether a connection to this host and port is one to the destination.
    pub fn admits(&self, host: &str, port: u16) -> bool {
        let at_port = match self.port {
            Some(own) => own == port,
            None => USUAL_PORTS.contains(&port),
        };
        at_port && self.is_named(&normal(host))
    }

    fn is_named(&self, host: &str) -> bool {
        let (ours, theirs) = (self.name.parse::<IpAddr>(), host.parse::<IpAddr>());
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            // An address is reached only where that address is named.
            (_, Ok(_)) => false,
            _ => match self.name.strip_prefix("*.") {
                Some(domain) => host
                    .strip_suffix(domain)
                    .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
                None => self.name == host,
            },
        }
    }

    /// The port of a service on this machine, if that is what is meant.
    pub fn loopback_port(&self) -> Option<u16> {
        let local = self.name == "localhost" || self.name == "127.0.0.1";
        self.port.filter(|_| local)
    }
}

fn normal(host: &str) -> String {
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
        let refuse = || format!("{text:?} is no host");
        if !is_host(text) {
            return Err(refuse());
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_| refuse())?;
        let name = normal(name);
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

/// How many addresses are taken from one text.
const IN_TEXT_MAX: usize = 16;

/// The hosts of all web addresses in a text: a base URL, or a configuration with one in it.
pub fn in_text(text: &str) -> Vec<Destination> {
    let mut found = Vec::new();
    let mut rest = text;
    while found.len() < IN_TEXT_MAX {
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
            found.extend(authority(rest, usual));
        }
    }
    found
}

fn ends_with(before: &str, scheme: &str) -> bool {
    let from = before.len().checked_sub(scheme.len());
    let from = from.filter(|from| before.is_char_boundary(*from));
    from.is_some_and(|from| {
        let alone = !before[..from].ends_with(|c: char| c.is_ascii_alphanumeric());
        alone && before[from..].eq_ignore_ascii_case(scheme)
    })
}

/// The host at the beginning of a text that follows a scheme.
fn authority(text: &str, usual_port: u16) -> Option<Destination> {
    let of_host =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '[' | ']');
    let stop = |c: char| matches!(c, '/' | '?' | '#' | '\\' | '"' | '\'') || c.is_whitespace();
    let whole = text.split(stop).next().unwrap_or_default();
    // A name and a password may stand in front.
    let host = whole.rsplit('@').next().unwrap_or_default();
    let end = host.find(|c| !of_host(c)).unwrap_or(host.len());
    let mut found: Destination = host[..end].trim_end_matches(':').parse().ok()?;
    found.port.get_or_insert(usual_port);
    (!found.name.starts_with('*')).then_some(found)
}

/// The host that the value of a variable names, where the variable's own name says that it does:
/// some take `OLLAMA_HOST=127.0.0.1:11434`.
pub fn in_variable(name: &str, value: &str) -> Vec<Destination> {
    let upper = name.to_ascii_uppercase();
    // A proxy of the person's is a way to everywhere.
    if upper.ends_with("_PROXY") {
        return Vec::new();
    }
    let bare = upper.ends_with("_HOST") || upper.ends_with("_ENDPOINT");
    match value.trim().parse::<Destination>() {
        Ok(found) if bare && !found.name.starts_with('*') => vec![found],
        _ => in_text(value),
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
            let found: Vec<String> = in_text(text).iter().map(ToString::to_string).collect();
            assert_eq!(found, wanted, "{text}");
        }
        assert_eq!(
            in_variable("OLLAMA_HOST", "127.0.0.1:1"),
            [of("127.0.0.1:1")]
        );
        assert_eq!(in_variable("SOME_KEY", "127.0.0.1:1"), []);
        assert_eq!(in_variable("https_proxy", "http://proxy.example:1"), []);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_search_or_names_a_wildcard(text in ".{0,200}") {
            for found in in_text(&text).into_iter().chain(in_variable("X_HOST", &text)) {
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
