//! Types of the facts that an adapter declares about its CLI, in [`AgentCli`](super::AgentCli).
//!
//! They are fields, not documentation, so that the compiler asks a new adapter for each of them.
//! The tables of `docs/agents.md` are made from them.

/// Texts of errors that are particular to one CLI, in lower case. General ones are in
/// `error_class`.
#[derive(Clone, Copy, Debug)]
pub struct ErrorTexts {
    /// A person must log in, or pay, before the agent can work.
    pub log_in_first: &'static [&'static str],
    /// The error goes away by itself later.
    pub out_of_quota: &'static [&'static str],
}

/// How a CLI continues an earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSupport {
    None,
    /// By the id that it printed.
    ById,
    /// By a name that we gave it.
    ByName,
}

impl SessionSupport {
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "no",
            Self::ById => "yes",
            Self::ByName => "by name",
        }
    }
}

/// How we know whether a CLI obeys the proxy variables, which the network setting `provider` needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxySupport {
    Tested,
    Documented,
    HttpLibrary,
    Runtime,
    Unknown,
}

impl ProxySupport {
    pub fn word(self) -> &'static str {
        match self {
            Self::Tested => "tested",
            Self::Documented => "according to its documentation",
            Self::HttpLibrary => "according to its HTTP library",
            Self::Runtime => "according to its runtime",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a CLI can be connected to our MCP server.
#[derive(Clone, Copy, Debug)]
pub enum McpSupport {
    Connected {
        how: &'static str,
        /// MCP servers that it uses in addition to ours.
        other_servers: &'static str,
    },
    NotConnected {
        why: &'static str,
    },
}

/// Summary of the command lines for people. Tests compare the full ones with fixtures.
#[derive(Clone, Copy, Debug)]
pub struct InvocationSummary {
    pub builder: &'static str,
    /// For a reviewer or a verifier.
    pub judge: &'static str,
    /// Permissions of both roles if our sandbox is off, and with it the CLI's protection by us.
    pub without_sandbox: &'static str,
}

/// Parts of a run's record that the CLI reports.
#[derive(Clone, Copy, Debug)]
pub struct UsageReports {
    pub price: &'static str,
    pub tokens: &'static str,
    pub turns: &'static str,
    pub refusals: &'static str,
}
