//! Reads GitHub's answers. Missing fields are empty: Enterprise Server has older ones.

use serde_json::Value;

use crate::model::{ChangeState, ForgeChange, ForgePermission};

pub fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

pub fn id(value: &Value) -> String {
    value["id"]
        .as_u64()
        .map(|id| id.to_string())
        .unwrap_or_default()
}

pub fn names(entries: &[Value]) -> Vec<String> {
    entries.iter().map(|entry| text(entry, "name")).collect()
}

pub fn permission(word: &str) -> ForgePermission {
    match word {
        "admin" => ForgePermission::Admin,
        "write" | "maintain" => ForgePermission::Write,
        "read" | "triage" => ForgePermission::Read,
        _ => ForgePermission::None,
    }
}

pub fn change(value: &Value) -> ForgeChange {
    let is_merged = value["merged"] == true || !value["merged_at"].is_null();
    let state = match () {
        () if is_merged => ChangeState::Merged,
        () if value["state"] == "closed" => ChangeState::Closed,
        () => ChangeState::Open,
    };
    // The repository of a fork that was deleted is null.
    let (head, base) = (
        &value["head"]["repo"]["full_name"],
        &value["base"]["repo"]["full_name"],
    );
    ForgeChange {
        number: value["number"].as_u64().unwrap_or_default(),
        title: text(value, "title"),
        body: text(value, "body"),
        author: text(&value["user"], "login"),
        state,
        draft: value["draft"] == true,
        head_branch: text(&value["head"], "ref"),
        head_commit: text(&value["head"], "sha"),
        base_branch: text(&value["base"], "ref"),
        from_fork: head.is_null() || head != base,
        labels: names(value["labels"].as_array().map_or(&[], Vec::as_slice)),
        url: text(value, "html_url"),
        updated_at: text(value, "updated_at"),
    }
}
