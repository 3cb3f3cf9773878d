//! What work costs: money, tokens and time. Sums saturate; a budget is never passed by overflow.

use serde::{Deserialize, Serialize};

/// What a run, a round or a ticket has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Millionths of a dollar, where the agent told a price.
    pub usd_micros: u64,
    pub tokens: u64,
    pub wall_ms: u64,
}

impl Usage {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usd_micros: self.usd_micros.saturating_add(other.usd_micros),
            tokens: self.tokens.saturating_add(other.tokens),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
        }
    }
}

/// Upper limits for one scope; what is `None` is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Caps {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_secs: Option<u64>,
}

impl Caps {
    /// The first limit that `used` has reached, in words.
    pub fn reached_by(self, used: Usage) -> Option<String> {
        if let Some(cap) = self.usd_micros.filter(|cap| used.usd_micros >= *cap) {
            return Some(format!(
                "{} of {} spent",
                dollars(used.usd_micros),
                dollars(cap)
            ));
        }
        if let Some(cap) = self.tokens.filter(|cap| used.tokens >= *cap) {
            return Some(format!("{} of {cap} tokens used", used.tokens));
        }
        let cap = self.wall_secs.filter(|cap| used.wall_ms / 1000 >= *cap)?;
        Some(format!("{} of {cap} seconds used", used.wall_ms / 1000))
    }
}

impl Caps {
    /// What remains of them; nothing, where more than all is used.
    #[must_use]
    pub fn less(self, used: Usage) -> Self {
        let rest = |cap: Option<u64>, used: u64| cap.map(|cap| cap.saturating_sub(used));
        Self {
            usd_micros: rest(self.usd_micros, used.usd_micros),
            tokens: rest(self.tokens, used.tokens),
            wall_secs: rest(self.wall_secs, used.wall_ms / 1000),
        }
    }

    /// The tighter of both, limit by limit.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let tighter = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            usd_micros: tighter(self.usd_micros, other.usd_micros),
            tokens: tighter(self.tokens, other.tokens),
            wall_secs: tighter(self.wall_secs, other.wall_secs),
        }
    }
}

/// Hard limits by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    pub round: Caps,
    pub ticket: Caps,
    /// Over all tickets of one day; watched where the sums are kept, reported as an event.
    pub day: Caps,
}

/// `1234567` micros as `$1.23`.
pub fn dollars(micros: u64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}
