//! Keys, values and presets of `countersign.toml` that have new names. The old ones are read for one
//! version, with a warning that names the new one.
//!
//! Translation works on the table, before it is read. So the reader knows only today's names, and
//! an old file and a new one give equal settings.

use flow::Policy;
use toml::{Table, Value};

/// Tables of `[policy.budget]`.
const BUDGETS: [&str; 3] = ["round", "ticket", "day"];

/// The old name, the new one, and values that changed with it.
type RenamedKey = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// Keys of `[policy]`.
const POLICY_KEYS: [RenamedKey; 4] = [
    (
        "disposition",
        "verify_open",
        &[("beside", "in-parallel"), ("first", "before-review")],
    ),
    ("leftovers", "uncommitted", &[]),
    ("dependants_start", "start_dependents", &[]),
    ("isolation", "sandbox", &[("manifest", "off")]),
];

/// Keys of one of `[[policy.reviewers]]`.
const REVIEWER_KEYS: [(&str, &str); 2] = [("lens", "focus"), ("confirms", "second_reviewer")];

/// Keys of `[policy.limits]` that had no effect, with what happens instead.
const RETIRED_LIMITS: [(&str, &str); 3] = [
    ("queue_max", "a queue holds 100 open tasks"),
    ("watchdog_secs", "lost leases are found at each claim"),
    ("poll_secs", "agents are woken when there is work"),
];

const MICROS_PER_DOLLAR: f64 = 1e6;

/// Gives everything its new name. Returns a sentence for each old one.
pub fn translate(table: &mut Table) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(Value::String(preset)) = table.get_mut("preset") {
        let mut renamed = Policy::RENAMED_PRESETS.iter();
        if let Some((old, new)) = renamed.find(|(old, _)| old == preset) {
            warnings.push(format!("the preset {old:?} is now called {new:?}"));
            *preset = (*new).to_owned();
        }
    }
    let Some(Value::Table(policy)) = table.get_mut("policy") else {
        return warnings;
    };
    for (old, new, values) in POLICY_KEYS {
        // The key first: its values are looked up under the new name.
        rename(policy, old, new, &mut warnings);
        translate_value(policy, new, values, &mut warnings);
    }
    if let Some(Value::Array(reviewers)) = policy.get_mut("reviewers") {
        for reviewer in reviewers.iter_mut().filter_map(Value::as_table_mut) {
            for (old, new) in REVIEWER_KEYS {
                rename(reviewer, old, new, &mut warnings);
            }
        }
    }
    if let Some(Value::Table(limits)) = policy.get_mut("limits") {
        for (key, instead) in RETIRED_LIMITS {
            if limits.remove(key).is_some() {
                warnings.push(format!(
                    "`limits.{key}` has no effect, remove it: {instead}"
                ));
            }
        }
    }
    if let Some(Value::Table(budget)) = policy.get_mut("budget") {
        for scope in BUDGETS {
            if let Some(Value::Table(caps)) = budget.get_mut(scope) {
                translate_micros(caps, &mut warnings);
            }
        }
    }
    // One reviewer's key may occur in several entries. One warning is enough.
    warnings.sort();
    warnings.dedup();
    warnings
}

/// Whether a key or a value is a name of an earlier version.
pub fn is_old(name: &str) -> bool {
    let in_policy = POLICY_KEYS.iter().any(|(old, _, values)| {
        *old == name || values.iter().any(|(old_value, _)| *old_value == name)
    });
    let retired = RETIRED_LIMITS.iter().any(|(key, _)| *key == name);
    in_policy
        || retired
        || name == "usd_micros"
        || REVIEWER_KEYS.iter().any(|(old, _)| *old == name)
}

/// The warnings about one file, as people read them.
pub fn warnings(name: &str, text: &str) -> Vec<String> {
    // A file that is no TOML has its own error elsewhere.
    let mut table: Table = text.parse().unwrap_or_default();
    let found = translate(&mut table).into_iter();
    found
        .map(|warning| format!("{name}: {warning}; the next version no longer reads the old name"))
        .collect()
}

/// Renames a key that is there under its old name only. With both, the reader refuses the file.
fn rename(table: &mut Table, old: &str, new: &str, warnings: &mut Vec<String>) {
    if !table.contains_key(new)
        && let Some(value) = table.remove(old)
    {
        table.insert(new.to_owned(), value);
        warnings.push(format!("`{old}` is now called `{new}`"));
    }
}

fn translate_value(
    table: &mut Table,
    key: &str,
    values: &[(&str, &str)],
    warnings: &mut Vec<String>,
) {
    let word = table.get(key).and_then(Value::as_str);
    if let Some((old, new)) = values.iter().find(|(old, _)| Some(*old) == word) {
        table.insert(key.to_owned(), Value::String((*new).to_owned()));
        warnings.push(format!("{old:?} of `{key}` is now called {new:?}"));
    }
}

/// `usd_micros = 2000000` becomes `usd = 2.0`.
fn translate_micros(caps: &mut Table, warnings: &mut Vec<String>) {
    let Some(micros) = caps.get("usd_micros").and_then(Value::as_integer) else {
        return;
    };
    if caps.contains_key("usd") {
        return;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact up to nine billion dollars"
    )]
    let usd = micros as f64 / MICROS_PER_DOLLAR;
    caps.remove("usd_micros");
    caps.insert("usd".to_owned(), Value::Float(usd));
    warnings.push(format!(
        "`usd_micros = {micros}` is now written `usd = {usd:.2}`"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::file;

    const OLD: &str = "preset = \"supervisor\"\n[policy]\ndisposition = \"first\"\nleftovers = \"refuse\"\n\
        dependants_start = \"approved\"\nisolation = \"manifest\"\n\
        [[policy.reviewers]]\nname = \"a\"\nlens = \"security\"\n\
        [[policy.reviewers]]\nname = \"b\"\nconfirms = true\n\
        [policy.budget.ticket]\nusd_micros = 2500000\n";
    const NEW: &str = "preset = \"four-rounds\"\n[policy]\nverify_open = \"before-review\"\nuncommitted = \"refuse\"\n\
        start_dependents = \"approved\"\nsandbox = \"off\"\n\
        [[policy.reviewers]]\nname = \"a\"\nfocus = \"security\"\n\
        [[policy.reviewers]]\nname = \"b\"\nsecond_reviewer = true\n\
        [policy.budget.ticket]\nusd = 2.50\n";

    #[test]
    fn a_file_with_old_names_means_the_same_and_each_is_named_in_a_warning() {
        let old = file::read("f", OLD).unwrap();
        assert_eq!(old, file::read("f", NEW).unwrap());
        assert_eq!(old.policy.budget.ticket.usd_micros, Some(2_500_000));
        let warned = warnings("f", OLD);
        assert_eq!(warned.len(), 10, "{warned:#?}");
        assert!(warnings("f", NEW).is_empty());
        let both = "[policy]\nisolation = \"enforced\"\nsandbox = \"enforced\"\n";
        assert!(file::read("f", both).is_err());
        let both = "[policy.budget.day]\nusd_micros = 1\nusd = 1.0\n";
        assert!(file::read("f", both).is_err());
    }

    #[test]
    fn money_that_cannot_be_is_refused() {
        for usd in ["-1", "1e10", "nan", "\"2\""] {
            let text = format!("[policy.budget.day]\nusd = {usd}\n");
            assert!(file::read("f", &text).is_err(), "{usd}");
        }
    }
}
