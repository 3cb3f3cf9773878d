//! Costs of work: money, tokens and time. Sums saturate, so that no overflow gets past a budget.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Usage of a run, a round or a ticket.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Millionths of a dollar: reported, or estimated from tokens. It is 0 if the price is unknown.
    pub usd_micros: u64,
    pub tokens: u64,
    pub wall_ms: u64,
    /// The part of `usd_micros` that was estimated from tokens and prices.
    #[serde(skip_serializing_if = "is_zero")]
    pub estimated_micros: u64,
    /// Number of runs of agents whose price is unknown. The sum is then a lower bound.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpriced_runs: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usd_micros: self.usd_micros.saturating_add(other.usd_micros),
            tokens: self.tokens.saturating_add(other.tokens),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
            estimated_micros: self.estimated_micros.saturating_add(other.estimated_micros),
            unpriced_runs: self.unpriced_runs.saturating_add(other.unpriced_runs),
        }
    }

    /// Formats the amount alone: `$1.20`, or `≥ $1.20` if the price of a run is unknown.
    pub fn describe_amount(self) -> String {
        let least = if self.unpriced_runs > 0 { "≥ " } else { "" };
        format!("{least}{}", format_dollars(self.usd_micros))
    }

    /// Formats the mean of several rounds: `about $1.20`, or `at least $1.20` if the price of a run
    /// is unknown.
    pub fn describe_mean(self) -> String {
        let about = if self.unpriced_runs > 0 {
            "at least"
        } else {
            "about"
        };
        format!("{about} {}", format_dollars(self.usd_micros))
    }

    /// Formats the cost: `$1.20`, `$1.20 (estimated)` or `≥ $1.20, codex: price unknown`. Without
    /// the names of the agents it counts their runs.
    pub fn describe_cost<'a>(self, unpriced: impl IntoIterator<Item = &'a String>) -> String {
        let mut text = format_dollars(self.usd_micros);
        if self.estimated_micros > 0 {
            text.push_str(if self.estimated_micros >= self.usd_micros {
                " (estimated)"
            } else {
                " (partly estimated)"
            });
        }
        if self.unpriced_runs == 0 {
            return text;
        }
        let names: Vec<&str> = unpriced.into_iter().map(String::as_str).collect();
        if names.is_empty() {
            let runs = crate::narrate::count_noun(
                usize::try_from(self.unpriced_runs).unwrap_or(usize::MAX),
                "run",
            );
            return format!("≥ {text}, price unknown for {runs}");
        }
        format!("≥ {text}, {}: price unknown", names.join(", "))
    }
}

/// Upper limits for one scope; what is `None` is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenCaps", into = "WrittenCaps")]
#[schemars(with = "WrittenCaps")]
pub struct Caps {
    pub usd_micros: Option<u64>,
    pub tokens: Option<u64>,
    pub wall_secs: Option<u64>,
}

/// Limits as files and stored policies have them: money in dollars.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct WrittenCaps {
    /// Dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
    /// The first versions stored millionths of a dollar.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    usd_micros: Option<u64>,
    /// Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    /// Seconds of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_secs: Option<u64>,
}

/// The most dollars that a limit can name; a float is exact to the millionth up to here.
const USD_MAX: f64 = 1e9;

impl TryFrom<WrittenCaps> for Caps {
    type Error = String;

    fn try_from(written: WrittenCaps) -> Result<Self, Self::Error> {
        if written.usd.is_some() && written.usd_micros.is_some() {
            return Err("usd and usd_micros say the same: keep usd".to_owned());
        }
        if let Some(usd) = written.usd.filter(|usd| !(0.0..=USD_MAX).contains(usd)) {
            return Err(format!("usd = {usd}: choose 0 to {USD_MAX}"));
        }
        Ok(Self {
            usd_micros: written.usd.map(micros).or(written.usd_micros),
            tokens: written.tokens,
            wall_secs: written.wall_secs,
        })
    }
}

impl From<Caps> for WrittenCaps {
    fn from(caps: Caps) -> Self {
        Self {
            usd: caps.usd_micros.map(dollars),
            usd_micros: None,
            tokens: caps.tokens,
            wall_secs: caps.wall_secs,
        }
    }
}

/// Dollars of millionths.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the millionth below USD_MAX; above, a limit is no limit"
)]
pub fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Millionths of a dollar.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded and not negative; a float that is too large saturates"
)]
pub fn micros(usd: f64) -> u64 {
    (usd * 1e6).round().max(0.0) as u64
}

impl Caps {
    /// Reads limits of a request. The money is in dollars, or in millionths as the first versions
    /// wrote it, but not in both.
    pub fn of_request(
        usd: Option<f64>,
        usd_micros: Option<u64>,
        tokens: Option<u64>,
        wall_secs: Option<u64>,
    ) -> Result<Self, String> {
        Self::try_from(WrittenCaps {
            usd,
            usd_micros,
            tokens,
            wall_secs,
        })
    }

    /// Describes the first limit that `used` has reached.
    pub fn reached_by(self, used: Usage) -> Option<String> {
        if let Some(cap) = self.usd_micros.filter(|cap| used.usd_micros >= *cap) {
            let estimated = if used.estimated_micros > 0 {
                " (estimated)"
            } else {
                ""
            };
            return Some(format!(
                "{} of {} spent{estimated}",
                format_dollars(used.usd_micros),
                format_dollars(cap)
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
    /// Returns the rest of each limit, or 0 if it is exceeded.
    #[must_use]
    pub fn remaining_after(self, used: Usage) -> Self {
        let rest = |cap: Option<u64>, used: u64| cap.map(|cap| cap.saturating_sub(used));
        Self {
            usd_micros: rest(self.usd_micros, used.usd_micros),
            tokens: rest(self.tokens, used.tokens),
            wall_secs: rest(self.wall_secs, used.wall_ms / 1000),
        }
    }

    /// The tighter of both, limit by limit.
    #[must_use]
    pub fn tighter_of(self, other: Self) -> Self {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// For one round.
    pub round: Caps,
    /// For one ticket.
    pub ticket: Caps,
    /// For all tickets of one day (UTC).
    pub day: Caps,
}

/// `1234567` micros as `$1.23`.
pub fn format_dollars(micros: u64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}
