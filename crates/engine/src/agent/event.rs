//! What agents say, in one form for all of them.

use serde::Deserialize;
use serde_json::Value;

/// Something an agent did or said, as it went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    Started {
        session: Option<String>,
        model: Option<String>,
    },
    Said {
        text: String,
    },
    /// It used a tool.
    Used {
        tool: String,
        detail: String,
    },
    /// Adds to what was spent before.
    Spent {
        usage: Usage,
        model: Option<String>,
    },
    /// Its own last word, where the output format has one.
    Answered {
        text: String,
    },
    OutOfQuota {
        until: Option<String>,
    },
    Failed {
        message: String,
    },
}

/// What a run cost, as far as the agent tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Millionths of a dollar. None: it gives no price.
    pub usd_micros: Option<u64>,
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
}

impl Usage {
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            usd_micros: sum(self.usd_micros, more.usd_micros),
            tokens_in: sum(self.tokens_in, more.tokens_in),
            tokens_out: sum(self.tokens_out, more.tokens_out),
        }
    }

    /// Fills in what is not known.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            usd_micros: self.usd_micros.or(other.usd_micros),
            tokens_in: self.tokens_in.or(other.tokens_in),
            tokens_out: self.tokens_out.or(other.tokens_out),
        }
    }
}

/// `usage` as the contract writes it.
#[derive(Debug, Deserialize)]
pub(super) struct ToldUsage {
    usd: Option<f64>,
    tokens_in: Option<u64>,
    tokens_out: Option<u64>,
    model: Option<String>,
}

impl ToldUsage {
    pub fn read(self) -> (Usage, Option<String>) {
        let (tokens_in, tokens_out) = (self.tokens_in, self.tokens_out);
        (
            Usage {
                usd_micros: self.usd.and_then(micros),
                tokens_in,
                tokens_out,
            },
            self.model,
        )
    }
}

/// None for a price that is none: negative, or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive and small before"
)]
fn micros(usd: f64) -> Option<u64> {
    (0.0..=1e9)
        .contains(&usd)
        .then(|| (usd * 1e6).round() as u64)
}

/// The usage that a JSON result carries, if it is one and does.
pub(super) fn usage_in(result: &str) -> Option<(Usage, Option<String>)> {
    let value: Value = serde_json::from_str(result).ok()?;
    let told: ToldUsage = serde_json::from_value(value.get("usage")?.clone()).ok()?;
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
