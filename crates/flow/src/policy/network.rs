//! Which hosts a run may reach, by role. Written as `"on"`, `"off"`, `"provider"` or a list of hosts.
//!
//! Reviewers and verifiers read hostile text. With an open network, such text could send the code
//! or a key to another host. So their default is the provider of their model and nothing else.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Hosts that one role may be given.
/// Every request of a run is compared with each of them.
const HOSTS_MAX: usize = 64;
// The longest name that DNS allows.
const HOST_CHARS_MAX: usize = 253;

/// Whether runs may reach beyond this machine, by role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Networks {
    /// For builders.
    pub build: Network,
    /// For checks.
    pub check: Network,
    /// For reviewers.
    pub review: Network,
    /// For verifiers.
    pub verify: Network,
}

// Builders and checks may need to download dependencies, so they are open unless a project closes
// them.
impl Default for Networks {
    fn default() -> Self {
        Self {
            build: Network::On,
            check: Network::On,
            review: Network::Provider,
            verify: Network::Provider,
        }
    }
}

/// The network of one role.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "WrittenNetwork")]
pub enum Network {
    On,
    Off,
    /// Only the hosts of the agent's model provider, through a proxy of ours.
    Provider,
    /// Only these hosts and, for an agent, its provider's; through the same proxy.
    Hosts(Vec<String>),
}

/// The form in a file, for the schema alone.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its shape is used")]
enum WrittenNetwork {
    Word(NetworkWord),
    Hosts(Vec<String>),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its shape is used")]
enum NetworkWord {
    On,
    Off,
    Provider,
}

const WORDS: &[&str] = &["on", "off", "provider"];

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::On => out.serialize_str("on"),
            Self::Off => out.serialize_str("off"),
            Self::Provider => out.serialize_str("provider"),
            Self::Hosts(hosts) => {
                let mut list = out.serialize_seq(Some(hosts.len()))?;
                for host in hosts {
                    list.serialize_element(host)?;
                }
                list.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordOrList)
    }
}

struct WordOrList;

impl<'de> Visitor<'de> for WordOrList {
    type Value = Network;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("\"on\", \"off\", \"provider\" or a list of hosts")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Network, E> {
        match word {
            "on" => Ok(Network::On),
            "off" => Ok(Network::Off),
            "provider" => Ok(Network::Provider),
            other => Err(E::unknown_variant(other, WORDS)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Network, A::Error> {
        let mut hosts = Vec::new();
        while let Some(host) = list.next_element::<String>()? {
            hosts.push(host);
        }
        Ok(Network::Hosts(hosts))
    }
}

impl Networks {
    /// Lists impossible values, each with its key.
    pub(super) fn problems(&self, found: &mut Vec<String>) {
        let roles = [
            ("network.build", &self.build),
            ("network.check", &self.check),
            ("network.review", &self.review),
            ("network.verify", &self.verify),
        ];
        for (key, network) in roles {
            if let Network::Hosts(hosts) = network {
                host_problems(found, key, hosts);
            }
        }
        if self.check == Network::Provider {
            found.push(
                "network.check is \"provider\": a check has none; use \"on\", \"off\" or a list of hosts"
                    .to_owned(),
            );
        }
    }
}

fn host_problems(found: &mut Vec<String>, key: &str, hosts: &[String]) {
    if hosts.len() > HOSTS_MAX {
        found.push(format!(
            "{key} has {} hosts: at most {HOSTS_MAX}",
            hosts.len()
        ));
    }
    for host in hosts.iter().filter(|host| !is_host(host)) {
        found.push(format!(
            "{key} has {host:?}: write a host as \"example.com\", \"example.com:8443\" or \"*.example.com\", without a scheme or a path"
        ));
    }
}

/// Whether the text is a host that a proxy can compare: a name or an address, perhaps with a port,
/// perhaps with `*.` in front of at least two labels.
/// A scheme, a path or a user would never match at the proxy, and the person would believe that the
/// host is allowed.
pub fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            let port = rest.strip_prefix(':');
            return is_address && (rest.is_empty() || port.is_some_and(is_port));
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    // `*.com` would allow almost everything, so a wildcard needs two labels.
    let (rest, labels_min) = match name.strip_prefix("*.") {
        Some(rest) => (rest, 2),
        None => (name, 1),
    };
    let legal = |label: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !label.is_empty() && label.len() <= 63 && label.chars().all(inner)
    };
    port.is_none_or(is_port)
        && rest.len() <= HOST_CHARS_MAX
        && rest.split('.').count() >= labels_min
        && rest.split('.').all(legal)
}

fn is_port(text: &str) -> bool {
    // `parse` accepts `+1`, so the digits are tested too.
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_or_a_list_is_read_and_written_as_it_was() {
        for text in [
            r#""on""#,
            r#""off""#,
            r#""provider""#,
            r#"["a.example","b.example:8443"]"#,
            "[]",
        ] {
            let read: Network = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        for text in [r#""open""#, r#""On""#, "1", "true", "{}", "[1]", "null"] {
            assert!(serde_json::from_str::<Network>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_of_before_is_read_and_written_as_it_was() {
        let text = r#"{"build":"on","check":"off","review":"on","verify":"on"}"#;
        let read: Networks = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn hosts_are_names_or_addresses_and_nothing_else() {
        for good in [
            "example.com",
            "*.example.com",
            "localhost:8080",
            "10.0.0.1",
            "[::1]:8080",
            "[::1]",
            "registry",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            "https://example.com",
            "example.com/path",
            "user@example.com",
            "*",
            "*.com",
            "a.*.com",
            "example.com:",
            "example.com:0",
            "example.com:70000",
            "example.com:+1",
            "exa mple.com",
            "example..com",
            "::1",
            "[::1",
            "[x]",
            "bücher.example",
            "\u{1}",
        ] {
            assert!(!is_host(bad), "{bad:?}");
        }
        let list = Networks {
            check: Network::Provider,
            build: Network::Hosts(vec!["https://a.example".to_owned(), "b.example".to_owned()]),
            ..Networks::default()
        };
        let mut found = Vec::new();
        list.problems(&mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("network.build has \"https://"));
        assert!(found[1].starts_with("network.check is"));
    }
}
