//! What agents say, in one form for all of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quota::QuotaReset;

/// Something an agent did or said, as it went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    Started {
        session: Option<String>,
        model: Option<String>,
    },
    /// For people to read; not part of the answer.
    Said {
        text: String,
    },
    /// A piece of what it is saying. Pieces add up until it does something else; the last of such
    /// sayings is its answer, if it gives no other.
    Wrote {
        text: String,
    },
    /// It used a tool.
    Used {
        tool: String,
        detail: String,
    },
    /// It was not let use a tool.
    Denied {
        tool: String,
    },
    /// Adds to what was spent before.
    Spent {
        usage: AgentUsage,
        model: Option<String>,
    },
    /// How many turns it took, all in all.
    Turned {
        turns: u64,
    },
    /// Its own last word so far.
    Answered {
        text: String,
    },
    /// The provider gives nothing more until then.
    OutOfQuota {
        until: Option<QuotaReset>,
    },
    /// A person has to do something before it works at all: log in, pay.
    Barred {
        message: String,
    },
    /// It stopped, or was stopped, because it had spent what it might.
    OverBudget {
        message: String,
    },
    Failed {
        message: String,
    },
    /// Our tools are not there for it, as its CLI says. It works on without them.
    Unconnected {
        why: String,
    },
    /// Nothing more will come, whether it ends by itself or not.
    Finished,
}

/// What a run cost, as far as the agent tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentUsage {
    /// Millionths of a dollar. None: it gives no price.
    pub usd_micros: Option<u64>,
    /// All that was read, from a cache or not.
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
    /// The part of `tokens_in` that came from a cache.
    pub tokens_cached: Option<u64>,
}

impl AgentUsage {
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        self.each(more, |a, b| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        })
    }

    /// What came on top of what was there before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.each(before, |all, before| {
            Some(all?.saturating_sub(before.unwrap_or_default()))
        })
    }

    /// Fills in what is not known.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.each(other, Option::or)
    }

    fn each(self, other: Self, join: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            usd_micros: join(self.usd_micros, other.usd_micros),
            tokens_in: join(self.tokens_in, other.tokens_in),
            tokens_out: join(self.tokens_out, other.tokens_out),
            tokens_cached: join(self.tokens_cached, other.tokens_cached),
        }
    }
}

/// `usage` as the contract writes it.
#[derive(Debug, Deserialize)]
pub(super) struct ContractUsage {
    usd: Option<f64>,
    tokens_in: Option<u64>,
    tokens_out: Option<u64>,
    tokens_cached: Option<u64>,
    model: Option<String>,
}

impl ContractUsage {
    pub fn read(self) -> (AgentUsage, Option<String>) {
        let usage = AgentUsage {
            usd_micros: self.usd.and_then(micros),
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            tokens_cached: self.tokens_cached,
        };
        (usage, self.model)
    }
}

/// None for a price that is none: negative, or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive and small before"
)]
pub(super) fn micros(usd: f64) -> Option<u64> {
    (0.0..=1e9)
        .contains(&usd)
        .then(|| (usd * 1e6).round() as u64)
}

/// The usage that a JSON result carries, if it is one and does.
pub(super) fn usage_in(result: &str) -> Option<(AgentUsage, Option<String>)> {
    let value: Value = serde_json::from_str(result).ok()?;
    let told: ContractUsage = serde_json::from_value(value.get("usage")?.clone()).ok()?;
    Some(told.read())
}

/// The last JSON object or array that begins at the beginning of a line.
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

/// How many beginnings of JSON are tried from the end.
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
