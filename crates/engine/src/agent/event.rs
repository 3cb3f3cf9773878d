//! Events of agents, in one form for all of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quota::QuotaReset;

/// An event in the output of a running agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    Started {
        session: Option<String>,
        model: Option<String>,
    },
    /// Text for people that is not part of the answer.
    Said {
        text: String,
    },
    /// A piece of a message. Pieces add up until the agent does something else; the last such
    /// message is the answer, if there is no other.
    SaidPart {
        text: String,
    },
    /// The agent used a tool.
    ToolUsed {
        tool: String,
        detail: String,
    },
    /// The agent was not permitted to use a tool.
    Denied {
        tool: String,
    },
    /// Usage in addition to earlier reports.
    Spent {
        usage: AgentUsage,
        model: Option<String>,
    },
    /// Total number of turns.
    TurnCount {
        turns: u64,
    },
    /// The agent's last message so far.
    Answered {
        text: String,
    },
    /// The provider's quota is used up until then.
    OutOfQuota {
        until: Option<QuotaReset>,
    },
    /// A person must act before the agent can work: log in, or pay.
    ActionRequired {
        message: String,
    },
    /// The agent stopped, or was stopped, because it reached its budget.
    OverBudget {
        message: String,
    },
    Failed {
        message: String,
    },
    /// The CLI could not connect to our MCP server. The agent continues without our tools.
    McpUnavailable {
        why: String,
    },
    /// The agent has finished, even if its process does not exit by itself.
    Finished,
}

/// Cost of a run, as far as the agent reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentUsage {
    /// Millionths of a dollar, or `None` if the agent reports no price.
    pub usd_micros: Option<u64>,
    /// All input tokens, cached or not.
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
    /// The part of `tokens_in` that came from a cache.
    pub tokens_cached: Option<u64>,
}

impl AgentUsage {
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        self.zip_with(more, |a, b| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        })
    }

    /// Subtracts an earlier total.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.zip_with(before, |all, before| {
            Some(all?.saturating_sub(before.unwrap_or_default()))
        })
    }

    /// Fills in unknown values from `other`.
    #[must_use]
    pub fn fill_missing(self, other: Self) -> Self {
        self.zip_with(other, Option::or)
    }

    fn zip_with(self, other: Self, join: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            usd_micros: join(self.usd_micros, other.usd_micros),
            tokens_in: join(self.tokens_in, other.tokens_in),
            tokens_out: join(self.tokens_out, other.tokens_out),
            tokens_cached: join(self.tokens_cached, other.tokens_cached),
        }
    }
}

/// The `usage` object of the contract.
#[derive(Debug, Deserialize)]
pub(super) struct ContractUsage {
    usd: Option<f64>,
    tokens_in: Option<u64>,
    tokens_out: Option<u64>,
    tokens_cached: Option<u64>,
    model: Option<String>,
}

impl ContractUsage {
    pub fn into_usage(self) -> (AgentUsage, Option<String>) {
        let usage = AgentUsage {
            usd_micros: self.usd.and_then(usd_to_micros),
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_cached: self.tokens_cached,
        };
        (usage, self.model)
    }
}

/// Converts dollars to millionths. Returns `None` for a negative price or one that is not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive and small before"
)]
pub(super) fn usd_to_micros(usd: f64) -> Option<u64> {
    (0.0..=1e9)
        .contains(&usd)
        .then(|| (usd * 1e6).round() as u64)
}

/// Returns the usage in a JSON result, if there is one.
pub(super) fn usage_in(result: &str) -> Option<(AgentUsage, Option<String>)> {
    let value: Value = serde_json::from_str(result).ok()?;
    let usage: ContractUsage = serde_json::from_value(value.get("usage")?.clone()).ok()?;
    Some(usage.into_usage())
}

/// Returns the last JSON object or array that starts at the start of a line.
pub(super) fn last_json(text: &str) -> Option<&str> {
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at);
    let at_line_start = |at: &usize| *at == 0 || text.as_bytes()[*at - 1] == b'\n';
    let starts: Vec<usize> = starts.filter(at_line_start).collect();
    starts.into_iter().rev().take(LOOKS_MAX).find_map(|at| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        values.next()?.ok()?;
        Some(&text[at..at + values.byte_offset()])
    })
}

/// Maximum number of possible JSON starts that are tried, from the end.
const LOOKS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_json_is_found_among_prose() {
        let text = "Thinking…\n{\"a\": 1}\nDone:\n{\n  \"b\": {\n    \"c\": 2\n  }\n}\nBye.\n";
        assert_eq!(last_json(text), Some("{\n  \"b\": {\n    \"c\": 2\n  }\n}"));
        assert_eq!(last_json("no {json} here"), None);
        assert_eq!(
            last_json("{broken\n{\"fine\":true}\n{broken"),
            Some("{\"fine\":true}")
        );
    }

    #[test]
    fn a_price_is_millionths_and_nonsense_is_none() {
        let read = |usd: &str| {
            usage_in(&format!("{{\"usage\":{{\"usd\":{usd}}}}}"))
                .unwrap()
                .0
        };
        assert_eq!(read("0.0123").usd_micros, Some(12_300));
        assert_eq!(read("-1").usd_micros, None);
        assert_eq!(usage_in("{\"usage\":{\"usd\":\"free\"}}"), None);
    }
}
