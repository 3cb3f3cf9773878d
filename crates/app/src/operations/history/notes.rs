//! Describes notes of the log, which are no decisions, in a sentence: progress of agents, tokens,
//! refusals, events of jobs.

use serde_json::Value;

/// Describes a note; `by` is its author.
pub fn describe_note(name: &str, by: &str, body: &Value) -> String {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let sentence = match name {
        "checkpoint" => text("summary").map(|summary| format!("{by}: {summary}")),
        "message_to_person" => text("to").zip(text("content")).map(|(to, content)| {
            // The server writes the note, the agent the message.
            let from = text("from").unwrap_or(by);
            format!("{from} to {to}: {content}")
        }),
        "token_created" => text("agent").map(|agent| format!("{agent} may call the server")),
        "token_revoked" => {
            text("agent").map(|agent| format!("{agent} may no longer call the server"))
        }
        "link_created" => text("agent").map(|agent| format!("{agent} made a link to this ticket")),
        "link_revoked" => {
            text("agent").map(|agent| format!("the link of {agent} to this ticket was revoked"))
        }
        "session_opened" => {
            text("agent").map(|agent| format!("{agent} logged in to the dashboard"))
        }
        "session_ended" => {
            text("agent").map(|agent| format!("a session of {agent} on the dashboard ended"))
        }
        "tools_unconnected" => text("agent").zip(text("why")).map(|(agent, why)| {
            format!("{agent} works without Countersign's tools, its server did not connect: {why}")
        }),
        "network_refused" => text("agent").zip(text("hosts")).map(|(agent, hosts)| {
            format!("{agent} tried to reach hosts that the policy does not permit: {hosts}")
        }),
        // All other notes carry their own sentence, also those of a newer version.
        _ => text("why").or(text("error")).map(str::to_owned),
    };
    let with_kind = || text("kind").map(|kind| format!("{}: {kind}", name.replace('_', " ")));
    match sentence {
        Some(sentence) => findings::one_line(&sentence),
        None => with_kind().unwrap_or_else(|| body.to_string()),
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
                "claude (builder) may no longer call the server",
            ),
            ("refused", json!({"why": "not yours"}), "not yours"),
            (
                "job_retried",
                json!({"kind": "build"}),
                "job retried: build",
            ),
            ("checkpoint", json!({}), "{}"),
        ] {
            assert_eq!(describe_note(name, "bea", &body), sentence);
        }
    }
}
