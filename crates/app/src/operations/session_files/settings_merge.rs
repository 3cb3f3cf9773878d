//! Adds our hooks to a JSON settings file of an agent CLI, and takes them out again. Everything else
//! in the file stays as it is, with its layout and its comments. A file that cannot be understood is
//! refused.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Value, json};

/// A command that a CLI runs at an event of a session.
#[derive(Clone, Debug)]
pub(super) struct CommandHook {
    /// Name of the event in the CLI's settings: `Stop`.
    pub event: &'static str,
    pub command: String,
    /// In the unit of the CLI.
    pub timeout: u32,
}

/// Returns the text of the settings with the hooks. A hook of ours that is there already stays as
/// it is if `keep_ours` is set; else it is replaced.
pub(super) fn add_hooks(
    text: Option<&str>,
    hooks: &[CommandHook],
    prefix: &str,
    keep_ours: bool,
) -> Result<String, String> {
    let old = text.unwrap_or_default();
    let mut expected = parse_value(old)?;
    let root = parse_tree(old)?;
    let top = root
        .object_value_or_create()
        .ok_or("the top level is not an object")?;
    for hook in hooks {
        if count_ours(&expected, hook.event, prefix) > 0 {
            if keep_ours {
                continue;
            }
            remove_from_tree(&top, hook.event, prefix);
            remove_from_value(&mut expected, hook.event, prefix);
        }
        let events = top
            .object_value_or_create("hooks")
            .ok_or("\"hooks\" is not an object")?;
        let groups = events
            .array_value_or_create(hook.event)
            .ok_or_else(|| format!("\"hooks.{}\" is not a list", hook.event))?;
        groups.append(CstInputValue::Object(vec![(
            "hooks".to_owned(),
            CstInputValue::Array(vec![CstInputValue::Object(vec![
                ("type".to_owned(), "command".into()),
                ("command".to_owned(), hook.command.as_str().into()),
                ("timeout".to_owned(), hook.timeout.into()),
            ])]),
        )]));
        add_to_value(&mut expected, hook);
    }
    let mut new = root.to_string();
    if !new.ends_with('\n') {
        new.push('\n');
    }
    verified(new, &expected)
}

/// Returns the text of the settings without our hooks of these events; `None` if nothing is left in
/// it. The text is the same if it has none of ours.
pub(super) fn remove_hooks(
    text: &str,
    events: &[&'static str],
    prefix: &str,
) -> Result<Option<String>, String> {
    let mut expected = parse_value(text)?;
    let root = parse_tree(text)?;
    let Some(top) = root.object_value() else {
        return Ok(Some(text.to_owned()));
    };
    let mut removed = false;
    for event in events {
        if count_ours(&expected, event, prefix) > 0 {
            remove_from_tree(&top, event, prefix);
            remove_from_value(&mut expected, event, prefix);
            removed = true;
        }
    }
    if !removed {
        return Ok(Some(text.to_owned()));
    }
    if expected.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(None);
    }
    verified(root.to_string(), &expected).map(Some)
}

/// Returns the dialect that the CLIs read: JSON, and comments, which one of them allows.
fn dialect() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parse_tree(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &dialect()).map_err(|error| error.to_string())
}

/// Returns the meaning of a settings text; an empty one means an empty object.
fn parse_value(text: &str) -> Result<Value, String> {
    // Not by another parser: only the tree's has a limit for nesting.
    match parse_tree(text)?.to_serde_value() {
        None if text.trim().is_empty() => Ok(json!({})),
        Some(value @ Value::Object(_)) => Ok(value),
        _ => Err("the top level is not an object".to_owned()),
    }
}

/// Compares the new text with the meaning it should have. A key that is there twice, for example,
/// would be changed in one place and read from the other.
fn verified(text: String, expected: &Value) -> Result<String, String> {
    if parse_value(&text)? == *expected {
        return Ok(text);
    }
    Err("it cannot be changed without changing something else in it; is a key there twice?".into())
}

fn is_ours(command: &Value, prefix: &str) -> bool {
    let rest = command.as_str().and_then(|text| text.strip_prefix(prefix));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

fn count_ours(settings: &Value, event: &str, prefix: &str) -> usize {
    let groups = settings["hooks"][event].as_array().into_iter().flatten();
    groups
        .flat_map(|group| group["hooks"].as_array().into_iter().flatten())
        .filter(|hook| is_ours(&hook["command"], prefix))
        .count()
}

fn add_to_value(settings: &mut Value, hook: &CommandHook) {
    let entry = json!({"hooks": [
        {"type": "command", "command": hook.command, "timeout": hook.timeout},
    ]});
    let groups = &mut settings["hooks"][hook.event];
    match groups {
        Value::Array(list) => list.push(entry),
        other => *other = json!([entry]),
    }
}

/// Removes our hooks of an event, and the group, the event and `hooks` if that leaves them empty.
fn remove_from_value(settings: &mut Value, event: &str, prefix: &str) {
    let Some(groups) = settings["hooks"][event].as_array_mut() else {
        return;
    };
    groups.retain_mut(|group| {
        let Some(hooks) = group.get_mut("hooks").and_then(Value::as_array_mut) else {
            return true;
        };
        let before = hooks.len();
        hooks.retain(|hook| !is_ours(&hook["command"], prefix));
        hooks.len() == before || !hooks.is_empty()
    });
    if !groups.is_empty() {
        return;
    }
    if let Some(events) = settings["hooks"].as_object_mut() {
        events.shift_remove(event);
        if events.is_empty()
            && let Some(top) = settings.as_object_mut()
        {
            top.shift_remove("hooks");
        }
    }
}

/// Does the same in the text.
fn remove_from_tree(top: &CstObject, event: &str, prefix: &str) {
    let Some(events) = top.object_value("hooks") else {
        return;
    };
    let Some(groups) = events.array_value(event) else {
        return;
    };
    for group in groups.elements() {
        let Some(hooks) = group
            .as_object()
            .and_then(|group| group.array_value("hooks"))
        else {
            continue;
        };
        let ours: Vec<CstNode> = hooks
            .elements()
            .into_iter()
            .filter(|hook| {
                let value = hook.to_serde_value().unwrap_or_default();
                is_ours(&value["command"], prefix)
            })
            .collect();
        let found = !ours.is_empty();
        for hook in ours {
            hook.remove();
        }
        if found && hooks.elements().is_empty() {
            group.remove();
        }
    }
    if groups.elements().is_empty() {
        if let Some(prop) = events.get(event) {
            prop.remove();
        }
        if events.properties().is_empty()
            && let Some(prop) = top.get("hooks")
        {
            prop.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "countersign review --hook claude";
    const EVENTS: [&str; 2] = ["Stop", "UserPromptSubmit"];

    fn hooks() -> Vec<CommandHook> {
        let hook = |event| CommandHook {
            event,
            command: PREFIX.to_owned(),
            timeout: 600,
        };
        EVENTS.map(hook).to_vec()
    }

    #[test]
    fn what_was_added_is_taken_out_again_and_the_rest_keeps_its_layout() {
        for text in [
            "{\n  \"model\": \"opus\"\n}\n",
            "{\n\t\"model\": \"opus\", // mine\n\t\"permissions\": {\"allow\": [ \"Bash(ls)\" ]}\n}\n",
            "{\"hooks\": {\"Stop\": [{\"matcher\": \"\", \"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}}\n",
            "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  },\n  \"z\": 1\n}\n",
        ] {
            let added = add_hooks(Some(text), &hooks(), PREFIX, true).unwrap();
            assert_ne!(added, text);
            let value = parse_value(&added).unwrap();
            assert_eq!(
                EVENTS.map(|event| count_ours(&value, event, PREFIX)),
                [1, 1]
            );
            let again = add_hooks(Some(&added), &hooks(), PREFIX, true).unwrap();
            assert_eq!(again, added, "a second time changes nothing");
            let removed = remove_hooks(&added, &EVENTS, PREFIX).unwrap().unwrap();
            assert_eq!(
                parse_value(&removed).unwrap(),
                parse_value(text).unwrap(),
                "{removed}"
            );
            for line in text.lines().filter(|line| line.contains("mine")) {
                assert!(removed.contains(line), "{removed}");
            }
        }
    }

    #[test]
    fn a_file_of_our_own_is_written_and_leaves_nothing() {
        let added = add_hooks(None, &hooks(), PREFIX, true).unwrap();
        let value = parse_value(&added).unwrap();
        assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], PREFIX);
        assert_eq!(remove_hooks(&added, &EVENTS, PREFIX).unwrap(), None);
    }

    #[test]
    fn a_hook_of_somebody_else_in_our_group_stays() {
        let ours = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"countersign review --hook claude --checks"},{"type":"command","command":"say done"}]}]}}"#;
        let removed = remove_hooks(ours, &EVENTS, PREFIX).unwrap().unwrap();
        let value = parse_value(&removed).unwrap();
        assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], "say done");
        let longer = r#"{"hooks":{"Stop":[{"hooks":[{"command":"countersign review --hook claude-not-ours"}]}]}}"#;
        assert_eq!(
            remove_hooks(longer, &EVENTS, PREFIX).unwrap().as_deref(),
            Some(longer)
        );
    }

    #[test]
    fn flags_of_ours_are_kept_or_replaced_as_asked() {
        let old = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"countersign review --hook claude --checks"}]}]}}"#;
        let kept = add_hooks(Some(old), &hooks(), PREFIX, true).unwrap();
        assert!(kept.contains("--checks"), "{kept}");
        let replaced = add_hooks(Some(old), &hooks(), PREFIX, false).unwrap();
        assert!(!replaced.contains("--checks"), "{replaced}");
        let value = parse_value(&replaced).unwrap();
        assert_eq!(count_ours(&value, "Stop", PREFIX), 1);
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        let deep = "[".repeat(100_000);
        for text in [
            "{",
            "[]",
            "\"text\"",
            "{\"hooks\": []}",
            "{\"hooks\": {\"Stop\": {}}}",
            "{\"hooks\": {\"Stop\": \"x\"}}",
            "{\"hooks\": {}, \"hooks\": {\"Stop\": []}}",
            "{'a': 1}",
            "{\"a\": 1 \"b\": 2}",
            &deep,
        ] {
            let added = add_hooks(Some(text), &hooks(), PREFIX, true);
            assert!(added.is_err(), "{text:.40}: {added:?}");
        }
    }
}
