//! The short name of a policy's content, which approvals and the log record. A stored policy keeps
//! its name when a later version renames a key or adds one, so that old logs still replay.
//!
//! The id is compared when an approval or a review is reused. An id that changed with a new version
//! of Countersign would void every approval in the store and make `doctor --verify-log` fail.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Policy;

/// Keys by table as the identity knows them. A key that is not here came later: it counts only
/// where its value differs from the value that a policy without the key is read with.
/// This list is closed. A new key of the policy must not be added here: it would count in every
/// stored policy, also in those that were written before the key existed.
const FIRST_KEYS: &[(&str, &str)] = &[
    (
        "",
        "max_rounds on_exhausted must_fix min_confidence minor_only review reviewers votes gates \
         dimensions minimums weights overall_minimum verify second_opinion disposition \
         criteria_required other_family protected protected_change leftovers land \
         dependants_start red_on_base isolation network ordinary_dot_files limits budget fallback",
    ),
    (
        "reviewers[]",
        "name lens agent fallback confirms paths kinds lines_min from_round until_round scope \
         command",
    ),
    (
        "gates",
        "reviewer_approves no_open_must_fix no_blocking_issue dimension_minimums overall_score \
         checks_green",
    ),
    ("minimums", "critical important moderate"),
    ("weights", "critical important moderate"),
    ("network", "build check review verify"),
    (
        "limits",
        "retries_max backoff_secs backoff_secs_max unusable_reviews_max red_checks_max \
         conflicts_max stale_max unfixed_max batch_max lease_secs build_secs check_secs \
         review_secs verify_secs merge_secs idle_secs output_bytes_max disk_bytes_max \
         disk_files_max findings_max queue_max heartbeat_secs watchdog_secs poll_secs",
    ),
    ("budget", "round ticket day"),
    ("budget.round", "usd_micros tokens wall_secs"),
    ("budget.ticket", "usd_micros tokens wall_secs"),
    ("budget.day", "usd_micros tokens wall_secs"),
];

/// Tables whose keys are names that a project chooses.
/// Their keys are not ours, so none of them can be a later key.
const NAMED_TABLES: [&str; 2] = ["dimensions", "fallback"];

/// Renamed keys: the table, today's name, and the name in the identity.
/// A rename needs an entry here and in the settings' reader of old names.
const RENAMED_KEYS: [(&str, &str, &str); 9] = [
    ("", "verify_open", "disposition"),
    ("", "uncommitted", "leftovers"),
    ("", "start_dependents", "dependants_start"),
    ("", "sandbox", "isolation"),
    ("reviewers[]", "focus", "lens"),
    ("reviewers[]", "second_reviewer", "confirms"),
    ("budget.round", "usd", "usd_micros"),
    ("budget.ticket", "usd", "usd_micros"),
    ("budget.day", "usd", "usd_micros"),
];

/// Renamed values: the key in the identity, today's value, and the value in the identity.
const RENAMED_VALUES: [(&str, &str, &str); 3] = [
    ("disposition", "in-parallel", "beside"),
    ("disposition", "before-review", "first"),
    ("isolation", "off", "manifest"),
];

impl Policy {
    /// A short name made of the content: two equal policies have the same one.
    pub fn id(&self) -> String {
        // The values of a policy without any key, as today's version reads it. A later key with
        // exactly this value says nothing new.
        let unsaid = serde_json::from_str::<Self>("{}").ok();
        let unsaid = unsaid.and_then(|policy| serde_json::to_value(policy).ok());
        let value = serde_json::to_value(self).unwrap_or_default();
        let text = canonical("", value, unsaid.as_ref()).to_string();
        Sha256::digest(text)
            .iter()
            // Six bytes are short enough for a trailer in a commit message. The id names a policy
            // among a few of one project and is no proof of its content.
            .take(6)
            .fold(String::new(), |out, byte| format!("{out}{byte:02x}"))
    }
}

/// The value with the names of the identity, without later keys that say nothing new.
fn canonical(table: &str, value: Value, unsaid: Option<&Value>) -> Value {
    match value {
        Value::Object(fields) => {
            let entries = fields.into_iter().filter_map(|(key, value)| {
                let unsaid = unsaid.and_then(|unsaid| unsaid.get(&key));
                entry(table, &key, value, unsaid)
            });
            let mut entries = entries.collect::<Map<String, Value>>();
            if table == "limits" {
                entries = with_retired_limits(entries);
            }
            Value::Object(entries)
        }
        // Items of a list are complete tables, and `{}` has no item to compare with. So all their
        // keys count.
        Value::Array(items) => {
            let table = format!("{table}[]");
            let items = items.into_iter();
            items.map(|item| canonical(&table, item, None)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn entry(table: &str, key: &str, value: Value, unsaid: Option<&Value>) -> Option<(String, Value)> {
    let renamed = RENAMED_KEYS
        .iter()
        .find(|(at, today, _)| *at == table && *today == key);
    let name = renamed.map_or(key, |(.., first)| *first);
    let is_named_table = NAMED_TABLES
        .iter()
        .any(|named| table == *named || table.starts_with(&format!("{named}.")));
    // All three conditions are needed: a name chosen by the project always counts, a first key
    // always counted, and a later key counts where it says something.
    if !is_named_table && !is_first_key(table, name) && unsaid == Some(&value) {
        return None;
    }
    let path = if table.is_empty() {
        key.to_owned()
    } else {
        format!("{table}.{key}")
    };
    // Values are translated back as well. A renamed word would change the hash like a renamed key.
    let value = match (name, value) {
        // The budget's dollars were millionths.
        ("usd_micros", Value::Number(dollars)) if key == "usd" => {
            crate::usage::micros(dollars.as_f64().unwrap_or_default()).into()
        }
        (_, Value::String(word)) => {
            let mut renamed = RENAMED_VALUES.iter();
            let first = renamed.find(|(at, today, _)| *at == name && *today == word);
            Value::String(first.map_or(word, |(.., first)| (*first).to_owned()))
        }
        (_, other) => canonical(&path, other, unsaid),
    };
    Some((name.to_owned(), value))
}

/// Adds limits that no longer exist, with their old defaults and at their old places: ids of stored
/// policies were made with them. A policy that had set one of them has another id today; the audit
/// of the log knows that (`Ticket::with_policies_named`).
fn with_retired_limits(limits: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in limits {
        if key == "heartbeat_secs" {
            all.insert("queue_max".to_owned(), 100.into());
            all.insert(key, value);
            all.insert("watchdog_secs".to_owned(), 60.into());
            all.insert("poll_secs".to_owned(), 30.into());
        } else {
            all.insert(key, value);
        }
    }
    all
}

fn is_first_key(table: &str, key: &str) -> bool {
    let mut tables = FIRST_KEYS.iter().filter(|(name, _)| *name == table);
    tables.any(|(_, keys)| keys.split_whitespace().any(|known| known == key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids that stand in logs and approvals of earlier versions.
    #[test]
    fn stored_policies_keep_their_identity() {
        let recorded = [
            ("standard", "80232c5457ff"),
            ("second-look", "62d6d9a53a8c"),
            ("careful", "18dc7109b38c"),
            ("sergeant", "aa0645c14733"),
            ("scored", "c82e6d581de8"),
            ("supervisor", "2f39cb17324c"),
            ("story", "e26cdd6bd01f"),
        ];
        for (preset, id) in recorded {
            assert_eq!(Policy::preset(preset).unwrap().id(), id, "{preset}");
        }
        let unsaid: Policy = serde_json::from_str("{}").unwrap();
        assert_eq!(unsaid.id(), "59ba10662841");
    }

    #[test]
    fn a_policy_stored_under_the_first_names_is_read_and_keeps_its_identity() {
        let mut stored = serde_json::to_value(Policy::preset("careful").unwrap()).unwrap();
        for key in ["verify_open", "uncommitted", "start_dependents", "sandbox"] {
            stored.as_object_mut().unwrap().remove(key);
        }
        stored["disposition"] = "first".into();
        stored["leftovers"] = "refuse".into();
        stored["dependants_start"] = "approved".into();
        stored["isolation"] = "manifest".into();
        stored["budget"]["ticket"] = serde_json::json!({"usd_micros": 5_000_000});
        stored["reviewers"] = serde_json::json!([
            {"name": "correctness", "lens": "correctness"},
            {"name": "requirements", "lens": "requirements"},
            {"name": "tests", "lens": "tests"},
            {"name": "last", "lens": "correctness", "confirms": true},
        ]);
        let policy: Policy = serde_json::from_value(stored).unwrap();
        assert_eq!(policy.id(), "699f0e3794de");
    }

    /// The next version's key: it changes the identity only where it says something.
    #[test]
    fn a_later_key_counts_only_where_it_differs_from_what_was_always_so() {
        let today = serde_json::to_value(Policy::default()).unwrap();
        for at in ["", "limits", "gates"] {
            let with = |value: bool| {
                let mut later = today.clone();
                let table = match at {
                    "" => &mut later,
                    at => &mut later[at],
                };
                table["a_later_key"] = value.into();
                later
            };
            let unsaid = with(false);
            let same = canonical("", with(false), Some(&unsaid));
            assert_eq!(same, canonical("", today.clone(), Some(&today)), "{at}");
            let other = canonical("", with(true), Some(&unsaid));
            assert_ne!(other, same, "{at}");
        }
    }
}
