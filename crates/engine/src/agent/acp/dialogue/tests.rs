use super::*;

fn conversation(edits: bool, runs: bool) -> AcpConversation {
    AcpConversation::new(
        "/srv/repos".into(),
        "Do it.".to_owned(),
        AcpPermissions { edits, runs },
        None,
    )
}

fn said(reply: &DialogueReply) -> Value {
    serde_json::from_slice(&reply.reaction.say).unwrap()
}

fn permission(kind: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": {"title": "edit a.rs", "kind": kind},
        "options": [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}],
    }})
    .to_string()
}

#[test]
fn it_introduces_itself_opens_a_session_and_gives_the_brief() {
    let mut talk = conversation(true, true);
    let first: Value = serde_json::from_slice(&talk.first_input()).unwrap();
    assert_eq!(first["method"], "initialize");
    let next = talk.on_line(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    assert_eq!(said(&next)["params"]["cwd"], "/srv/repos");
    let next = talk.on_line(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}"#);
    assert_eq!(said(&next)["params"]["prompt"][0]["text"], "Do it.");
    let farewell: Value = serde_json::from_slice(&next.reaction.farewell.unwrap()).unwrap();
    assert_eq!(farewell["method"], "session/cancel");
    let piece = talk.on_line(
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi"}}}}"#,
    );
    assert_eq!(
        piece.events,
        Some(vec![AgentEvent::SaidPart {
            text: "Hi".to_owned()
        }])
    );
    let last = talk.on_line(r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}"#);
    assert!(last.reaction.over);
}

#[test]
fn our_server_is_named_to_those_who_take_one_over_http() {
    let server = json!({"type": "http", "name": "countersign", "url": "http://127.0.0.1:1/mcp"});
    for (capabilities, servers) in [
        (json!({"mcpCapabilities": {"http": true}}), json!([server])),
        (json!({"mcpCapabilities": {"http": false}}), json!([])),
        (json!({}), json!([])),
    ] {
        let mut talk = conversation(true, true);
        talk.server = Some(server.clone());
        talk.first_input();
        let introduced =
            json!({"jsonrpc": "2.0", "id": 1, "result": {"agentCapabilities": capabilities}});
        let reply = talk.on_line(&introduced.to_string());
        assert_eq!(said(&reply)["params"]["mcpServers"], servers);
        let told = reply.events.unwrap();
        assert_eq!(told.is_empty(), servers != json!([]), "{told:?}");
    }
}

#[test]
fn a_judge_is_not_let_write_and_runs_only_where_it_is_held() {
    for (edits, runs, kind, option) in [
        (true, true, "edit", "y"),
        (false, true, "edit", "n"),
        (false, true, "execute", "y"),
        (false, false, "execute", "n"),
        (false, false, "something new", "n"),
        (false, false, "read", "y"),
    ] {
        let mut talk = conversation(edits, runs);
        let reply = talk.on_line(&permission(kind));
        assert_eq!(
            said(&reply)["result"]["outcome"]["optionId"],
            option,
            "{kind}"
        );
        let denied = reply.events.unwrap();
        assert_eq!(denied.is_empty(), option == "y");
    }
}

#[test]
fn an_agent_that_wants_a_login_ends_the_conversation() {
    let mut talk = conversation(true, true);
    talk.first_input();
    talk.on_line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let reply = talk.on_line(
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}"#,
    );
    assert!(reply.reaction.over);
    assert!(matches!(
        reply.events.unwrap()[0],
        AgentEvent::ActionRequired { .. }
    ));
}

#[test]
fn what_it_asks_of_us_beside_permission_is_not_offered() {
    let mut talk = conversation(true, true);
    let reply =
        talk.on_line(r#"{"jsonrpc":"2.0","id":"x","method":"fs/write_text_file","params":{}}"#);
    assert_eq!(said(&reply)["error"]["code"], METHOD_NOT_FOUND);
    assert_eq!(talk.on_line("a banner").events, None);
}
