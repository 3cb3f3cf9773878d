//! Characters that nobody sees, from every way in to every way out.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::support::World;
use crate::support::server::Server;

/// Texts with what hides, moves or colours others among their letters.
fn nasty() -> impl Strategy<Value = String> {
    let hidden = prop::sample::select(vec![
        "\u{1b}",
        "\u{1b}[31m",
        "\u{1b}[2J",
        "\u{1b}]0;x\u{7}",
        "\u{1b}]8;;http://e\u{1b}\\",
        "\u{9b}1m",
        "\u{9d}0;t\u{9c}",
        "\u{85}",
        "\u{90}",
        "\0",
        "\u{7}",
        "\u{8}",
        "\r",
        "\u{7f}",
        "\u{202a}",
        "\u{202b}",
        "\u{202c}",
        "\u{202d}",
        "\u{202e}",
        "\u{2066}",
        "\u{2067}",
        "\u{2068}",
        "\u{2069}",
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{200e}",
        "\u{200f}",
        "\u{feff}",
        "\u{2028}",
        "\u{61c}",
        "\n",
    ]);
    prop::collection::vec(("[a-z]{1,4}", hidden), 1..6).prop_map(|parts| {
        let words: Vec<String> = parts
            .iter()
            .map(|(word, hidden)| format!("{word}{hidden}"))
            .collect();
        format!("{}end", words.concat())
    })
}

fn generated(count: usize) -> Vec<String> {
    let mut runner = TestRunner::new(Config::default());
    let mut one = || nasty().new_tree(&mut runner).unwrap().current();
    (0..count).map(|_| one()).collect()
}

/// Nothing but letters, line ends and tabs.
#[track_caller]
fn is_plain(what: &str, text: &str) {
    let hidden: Vec<char> = text.chars().filter(|c| findings::is_hidden(*c)).collect();
    assert!(hidden.is_empty(), "{what}: {hidden:?} in {text:?}");
}

/// Every command that shows tickets, in both forms.
fn everything_shown(world: &World, ids: &[String]) {
    let mut all: Vec<Vec<&str>> = vec![
        vec!["ticket", "list"],
        vec!["status"],
        vec!["log", "--limit", "1000"],
        vec!["queue", "list"],
        vec!["escalation", "list"],
        vec!["epic", "list"],
        vec!["agent", "list"],
        vec!["insights"],
        vec!["token", "list"],
        vec!["watch", "--once"],
    ];
    for id in ids {
        all.push(vec!["ticket", "show", id]);
        all.push(vec!["log", id]);
        all.push(vec!["export", id]);
    }
    for words in all {
        for json in [false, true] {
            let words = [&words[..], if json { &["--json"] } else { &[] }].concat();
            let ran = world.call(&words);
            is_plain(&words.join(" "), &ran.out);
            is_plain(&words.join(" "), &ran.err);
        }
    }
}

#[test]
fn no_hidden_character_comes_out_whichever_way_it_went_in() {
    let world = World::new();
    let server = Server::start(&world);
    let builder = server.token("bob", "builder", &[]);
    let mut texts = generated(60).into_iter();
    let mut next = || texts.next().unwrap();
    let mut ids = Vec::new();
    // The command line takes no NUL; files, REST and MCP do.
    let sentence = format!("Do {}", next().replace('\0', ""));
    let added = world.json(&["ticket", "add", &sentence]);
    ids.push(added["tickets"][0]["id"].as_str().unwrap().to_owned());
    for n in 0..3 {
        let body = json!({"id": format!("rest-{n}"), "title": next(), "description": next(),
            "acceptance_criteria": [next(), next()], "epic": next(), "kind": next(),
            "repository": world.repository.to_str().unwrap()});
        let made = server.rest("POST", "/api/v1/tickets", &body);
        assert_eq!(made.status, 201, "{}", made.body);
        is_plain("REST", &made.body);
        if made.status < 300 {
            ids.push(format!("rest-{n}"));
        }
    }
    let yaml = |text: &str| serde_json::to_string(text).unwrap();
    for n in 0..3 {
        let text = format!(
            "---\nid: file-{n}\nkind: {}\nepic: {}\n---\n# {}\n\n{}\n\n## Acceptance criteria\n- {}\n",
            yaml(&next()),
            yaml(&next()),
            next().replace(['\n', '\r'], " "),
            next(),
            next().replace('\n', " ")
        );
        let file = world.put(&format!("file-{n}.md"), text);
        let ran = world.call(&["ticket", "add", &file]);
        is_plain("ticket add", &format!("{}{}", ran.out, ran.err));
        if ran.code == 0 {
            ids.push(format!("file-{n}"));
        }
    }
    let task = json!({"id": "task-1", "title": next(), "description": next(), "context": {"jira_key": next()}});
    let file = world.put("task.json", task.to_string());
    let ran = world.call(&["import", &file]);
    is_plain("import", &format!("{}{}", ran.out, ran.err));
    for name in ["send_message", "request_human_help", "report_progress"] {
        let arguments = json!({"to": next(), "type": "INFO", "content": next(), "reason": next(),
            "message": next(), "why": next()});
        if let Err(why) = server.tool(&builder, name, &arguments) {
            is_plain(name, &why);
        }
    }
    let id = ids[0].clone();
    let why = next().replace('\0', "");
    world.call(&["ticket", "cancel", &id, "--why", &why]);
    assert!(ids.len() >= 4, "most ways in were open: {ids:?}");
    everything_shown(&world, &ids);
    // Errors that quote what was asked.
    for words in [
        vec!["ticket", "show", &why],
        vec!["run", &why],
        vec![&why],
        vec!["--base", &why],
    ] {
        let ran = world.call(&words);
        is_plain("an error", &format!("{}{}", ran.out, ran.err));
    }
    let list = server.rest("GET", "/api/v1/tickets", &Value::Null).is(200);
    is_plain("the list over REST", &list.body);
}
