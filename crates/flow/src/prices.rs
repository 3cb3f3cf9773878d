//! Prices of models, so that a budget in dollars binds agents that report tokens and no price. The
//! list prices are those that providers published in January 2026; a project or a person can set
//! their own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most own prices of a configuration.
const OWN_MAX: usize = 200;
/// Highest price that is believed, in dollars per million tokens.
const USD_MAX: f64 = 100_000.0;

/// Price of a model in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WrittenPrice", into = "WrittenPrice")]
#[schemars(with = "WrittenPrice")]
pub struct ModelPrice {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
}

/// Price as files have it: dollars per million tokens.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenPrice {
    /// Dollars per million input tokens.
    input: f64,
    /// Dollars per million output tokens.
    output: f64,
    /// Dollars per million input tokens that came from a cache; by default as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cached: Option<f64>,
}

impl TryFrom<WrittenPrice> for ModelPrice {
    type Error = String;

    fn try_from(written: WrittenPrice) -> Result<Self, String> {
        let cached = written.cached.unwrap_or(written.input);
        for usd in [written.input, written.output, cached] {
            // NaN is in no range, so it is refused here too.
            if !(0.0..=USD_MAX).contains(&usd) {
                return Err(format!(
                    "{usd} is not a price: write dollars per million tokens, 0 to {USD_MAX}"
                ));
            }
        }
        Ok(Self {
            input: crate::usage::micros(written.input),
            output: crate::usage::micros(written.output),
            cached: crate::usage::micros(cached),
        })
    }
}

impl From<ModelPrice> for WrittenPrice {
    fn from(price: ModelPrice) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "prices are far below the precision of a float"
        )]
        let usd = |micros: u64| micros as f64 / 1e6;
        Self {
            input: usd(price.input),
            output: usd(price.output),
            cached: Some(usd(price.cached)),
        }
    }
}

/// Tokens of a run, as far as the agent reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// All input tokens, cached or not.
    pub input: u64,
    pub output: u64,
    /// The part of `input` that came from a cache.
    pub cached: u64,
}

impl ModelPrice {
    /// Returns the cost in millionths of a dollar, rounded up.
    /// Rounded up, so that a thousand tiny runs do not add up to nothing.
    pub fn cost(self, tokens: TokenCounts) -> u64 {
        // The counts come from an agent. More cached than input tokens would wrap around.
        let cached = tokens.cached.min(tokens.input);
        let sum = [
            (tokens.input - cached, self.input),
            (cached, self.cached),
            (tokens.output, self.output),
        ]
        .into_iter()
        // Two 64-bit numbers multiplied need 128 bits.
        .map(|(count, price)| u128::from(count) * u128::from(price))
        .fold(0_u128, u128::saturating_add);
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// One row of the list prices: provider, beginning of the model's name, and dollars × 1000 per
/// million tokens for input, output and cached input.
type PriceRow = (&'static str, &'static str, [u64; 3]);

/// List prices. The longest beginning that fits a model counts.
const LIST_PRICES: &[PriceRow] = &[
    ("anthropic", "claude-opus-4-5", [5_000, 25_000, 500]),
    ("anthropic", "claude-opus-4", [15_000, 75_000, 1_500]),
    ("anthropic", "claude-sonnet-4", [3_000, 15_000, 300]),
    ("anthropic", "claude-3-7-sonnet", [3_000, 15_000, 300]),
    ("anthropic", "claude-haiku-4", [1_000, 5_000, 100]),
    ("anthropic", "claude-3-5-haiku", [800, 4_000, 80]),
    ("openai", "gpt-5.2", [1_750, 14_000, 175]),
    ("openai", "gpt-5.1", [1_250, 10_000, 125]),
    ("openai", "gpt-5.1-codex-mini", [250, 2_000, 25]),
    ("openai", "gpt-5", [1_250, 10_000, 125]),
    ("openai", "gpt-5-mini", [250, 2_000, 25]),
    ("openai", "gpt-5-nano", [50, 400, 5]),
    ("openai", "gpt-4.1", [2_000, 8_000, 500]),
    ("openai", "gpt-4.1-mini", [400, 1_600, 100]),
    ("openai", "o3", [2_000, 8_000, 500]),
    ("openai", "o4-mini", [1_100, 4_400, 275]),
    ("google", "gemini-3-pro", [2_000, 12_000, 200]),
    ("google", "gemini-2.5-pro", [1_250, 10_000, 125]),
    ("google", "gemini-2.5-flash", [300, 2_500, 30]),
    ("google", "gemini-2.5-flash-lite", [100, 400, 10]),
    ("xai", "grok-code-fast-1", [200, 1_500, 20]),
    ("xai", "grok-4", [3_000, 15_000, 750]),
];

/// Own prices by the beginning of a model's name, before the list prices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PriceTable(pub BTreeMap<String, ModelPrice>);

impl PriceTable {
    /// Returns the price of a model; `None` if nobody has set one.
    pub fn find(&self, model: &str) -> Option<ModelPrice> {
        let name = model.trim().to_ascii_lowercase();
        // Some CLIs put the provider before the model: `openai/gpt-5.2`.
        let short = name.rsplit('/').next().unwrap_or(&name);
        // The name is compared with and without its provider: an own price may be written either
        // way.
        let fits = |key: &str| {
            let key = key.to_ascii_lowercase();
            begins_with_model(&name, &key) || begins_with_model(short, &key)
        };
        // Own prices go before list prices, even if a list price has the longer name: the person
        // knows the contract.
        let own = self.0.iter().filter(|(key, _)| fits(key));
        if let Some((_, price)) = own.max_by_key(|(key, _)| key.len()) {
            return Some(*price);
        }
        let listed = LIST_PRICES.iter().filter(|(_, key, _)| fits(key));
        let (.., [input, output, cached]) = listed.max_by_key(|(_, key, _)| key.len())?;
        Some(ModelPrice {
            input: input * 1_000,
            output: output * 1_000,
            cached: cached * 1_000,
        })
    }

    /// Lists impossible entries.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.0.len() > OWN_MAX {
            found.push(format!("[prices] has at most {OWN_MAX} models"));
        }
        if self.0.keys().any(|name| name.trim().is_empty()) {
            found.push("[prices] has a model without a name".to_owned());
        }
        found
    }
}

/// Whether a model is the named one or a variant of it: the name ends, or goes on after `-`, `.`,
/// `:` or `@`. So `gpt-5` is not the price of `gpt-50`.
fn begins_with_model(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name).filter(|_| !name.is_empty()) else {
        return false;
    };
    rest.is_empty() || rest.starts_with(['-', '.', ':', '@', '[', '_'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn price(model: &str) -> Option<u64> {
        PriceTable::default().find(model).map(|price| price.input)
    }

    #[test]
    fn the_longest_name_that_fits_counts() {
        assert_eq!(price("gpt-5"), Some(1_250_000));
        assert_eq!(price("gpt-5.2-codex"), Some(1_750_000));
        assert_eq!(price("openai/gpt-5-mini-2025-08-07"), Some(250_000));
        assert_eq!(price("Claude-Sonnet-4-5-20250929"), Some(3_000_000));
        for unknown in ["gpt-50", "", "scripted", "claude", "sonnet"] {
            assert_eq!(price(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn an_own_price_goes_before_the_list() {
        let own: PriceTable = serde_json::from_str(
            r#"{"gpt-5.2": {"input": 1, "output": 2}, "house": {"input": 0, "output": 0}}"#,
        )
        .unwrap();
        let found = own.find("gpt-5.2").unwrap();
        assert_eq!(
            (found.input, found.output, found.cached),
            (1_000_000, 2_000_000, 1_000_000)
        );
        assert_eq!(
            own.find("house-7b").unwrap().cost(TokenCounts {
                input: 9,
                output: 9,
                cached: 0
            }),
            0
        );
        for bad in [
            r#"{"x": {"input": -1, "output": 1}}"#,
            r#"{"x": {"input": 1}}"#,
            r#"{"x": {"input": 1e9, "output": 1}}"#,
        ] {
            assert!(serde_json::from_str::<PriceTable>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cached_tokens_cost_their_own_price() {
        let price = PriceTable::default().find("gpt-5.2").unwrap();
        let tokens = TokenCounts {
            input: 1_000_000,
            output: 100_000,
            cached: 800_000,
        };
        // 0.2 × 1.75 + 0.8 × 0.175 + 0.1 × 14
        assert_eq!(price.cost(tokens), 350_000 + 140_000 + 1_400_000);
    }

    proptest! {
        #[test]
        fn a_cost_never_overflows_and_grows_with_the_tokens(input: u64, output: u64, cached: u64) {
            let price = PriceTable::default().find("claude-opus-4").unwrap();
            let all = price.cost(TokenCounts { input, output, cached });
            let none = price.cost(TokenCounts { input, output: 0, cached });
            prop_assert!(all >= none);
        }
    }
}
