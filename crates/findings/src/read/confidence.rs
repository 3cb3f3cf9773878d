//! Confidence of a reviewer in a finding: a fraction, a percentage, a mark such as `4/5`, or a
//! word.
//!
//! A policy may ignore findings with a low confidence, so an ambiguous value counts as no
//! confidence at all.

use serde_json::Value;

/// Upper bound of ambiguous numbers: above 1 and up to this, a number may be a percentage or a mark
/// out of 5 or 10.
const MARK_MAX: f64 = 10.0;

/// Reads the confidence of a field, in percent.
pub(super) fn of_value(value: &Value) -> Option<u8> {
    match value {
        Value::Number(number) => of_number(number.as_f64()?),
        Value::String(text) => of_text(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads the confidence at the start of a text, in percent: `0.9`, `85 %`, `4/5`, `high (ran it)`.
pub(super) fn of_text(text: &str) -> Option<u8> {
    let text = text
        .trim()
        .trim_start_matches(['*', '~', '`', '≈'])
        .trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let rest = rest.trim_start();
    let Ok(number) = digits.trim_end_matches('.').parse::<f64>() else {
        return of_word(text);
    };
    if rest.starts_with('%') {
        return percent(number);
    }
    let Some(scale) = rest.strip_prefix('/') else {
        return of_number(number);
    };
    let scale: String = scale
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let scale: f64 = scale.parse().ok().filter(|scale| *scale >= 1.0)?;
    percent(number / scale * 100.0)
}

fn of_number(number: f64) -> Option<u8> {
    match number {
        share if (0.0..=1.0).contains(&share) => percent(share * 100.0),
        mark if mark <= MARK_MAX => None,
        number => percent(number),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 100 after the check"
)]
fn percent(number: f64) -> Option<u8> {
    (0.0..=100.0)
        .contains(&number)
        .then(|| number.round() as u8)
}

fn of_word(text: &str) -> Option<u8> {
    let lower = text.to_lowercase();
    let mut words = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    if first == "very" {
        return match words.next()? {
            "high" => Some(95),
            "low" => Some(10),
            _ => None,
        };
    }
    match first {
        "certain" | "confirmed" | "high" | "strong" => Some(90),
        "firm" | "medium" | "moderate" => Some(60),
        "low" | "tentative" | "weak" => Some(30),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_percentages_marks_and_words_are_read() {
        for (value, percent) in [
            (json!(0.9), 90),
            (json!(1), 100),
            (json!(0), 0),
            (json!(85), 85),
            (json!("0.35"), 35),
            (json!("85%"), 85),
            (json!("7 %"), 7),
            (json!("4/5"), 80),
            (json!("9 / 10 (ran the test)"), 90),
            (json!("High"), 90),
            (json!("**Medium** - not run"), 60),
            (json!("LOW"), 30),
            (json!("very high"), 95),
            (json!("Weak"), 30),
        ] {
            assert_eq!(of_value(&value), Some(percent), "{value}");
        }
    }

    #[test]
    fn a_doubtful_confidence_is_none() {
        for value in [
            json!(5),
            json!(8.5),
            json!(-1),
            json!(101),
            json!("8"),
            json!("3/0"),
            json!("7/5"),
            json!("highly unlikely to matter"),
            json!("rather sure"),
            json!(""),
            json!(null),
            json!([0.3]),
            json!(true),
        ] {
            assert_eq!(of_value(&value), None, "{value}");
        }
    }
}
