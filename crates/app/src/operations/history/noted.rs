//! What was noted beside the decisions, in a sentence: how far somebody is, who may speak, why
//! something was refused, what became of a job.

use serde_json::Value;

/// `by` is whoever noted it.
pub fn told(name: &str, by: &str, body: &Value) -> String {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let said = match name {
        "checkpoint" => text("summary").map(|summary| format!("{by}: {summary}")),
        "token_created" => text("agent").map(|agent| format!("{agent} may call the server")),
        "token_revoked" => text("agent").map(|agent| format!("{agent} may call no more")),
        "tools_unconnected" => text("agent").zip(text("why")).map(|(agent, why)| {
            format!("{agent} works without Countersign's tools, its server did not connect: {why}")
        }),
        "network_refused" => text("agent").zip(text("hosts")).map(|(agent, hosts)| {
            format!("{agent} was kept from hosts that the policy does not let it reach: {hosts}")
        }),
        _ => text("why").or(text("error")).map(str::to_owned),
    };
    let of_a_kind = || text("kind").map(|kind| format!("{}: {kind}", name.replace('_', " ")));
    match said {
        Some(said) => findings::one_line(&said),
        None => of_a_kind().unwrap_or_else(|| body.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notes_are_sentences_and_what_is_not_known_is_shown_as_it_is() {
        for (name, body, sentence) in [
            (
                "checkpoint",
                json!({"summary": "half\nway"}),
                "bea: half way",
            ),
            (
                "token_revoked",
                json!({"agent": "claude (builder)"}),
                "claude (builder) may call no more",
            ),
            ("refused", json!({"why": "not yours"}), "not yours"),
            (
                "job_retried",
                json!({"kind": "build"}),
                "job retried: build",
            ),
            ("checkpoint", json!({}), "{}"),
        ] {
            assert_eq!(told(name, "bea", &body), sentence);
        }
    }
}
