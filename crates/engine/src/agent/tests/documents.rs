//! Makes the tables of `docs/agents.md` from the list of known CLIs, and compares other lists with it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;

use super::registry;
use crate::agent::AgentCli;
use crate::agent::declared::McpSupport;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Quotes each word as code, or shows a dash for an empty list.
fn codes(words: &[&str]) -> String {
    if words.is_empty() {
        return "–".to_owned();
    }
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// A table with one row per CLI: the heads of its columns, and the cells after the name.
fn table(heads: &[&str], cells: fn(&AgentCli) -> Vec<String>) -> String {
    let mut out = format!("| name | {} |\n|---|", heads.join(" | "));
    out.push_str(&"---|".repeat(heads.len()));
    out.push('\n');
    for cli in registry::ALL {
        let cells = cells(cli);
        assert_eq!(cells.len(), heads.len());
        writeln!(out, "| `{}` | {} |", cli.name, cells.join(" | ")).unwrap();
    }
    out
}

fn starts() -> String {
    let mut out = "| name | program | role | how it is started |\n|---|---|---|---|\n".to_owned();
    for cli in registry::ALL {
        let (name, title, summary) = (cli.name, cli.title, cli.summary);
        writeln!(
            out,
            "| `{name}` | {title} | builder | {} |",
            summary.builder
        )
        .unwrap();
        writeln!(out, "| | | judge | {} |", summary.judge).unwrap();
    }
    out
}

fn hosts(cli: &AgentCli) -> Vec<String> {
    let mut hosts = codes(cli.hosts);
    if cli.variables.contains(&"GOOGLE_CLOUD_LOCATION") {
        hosts.push_str(", and `LOCATION-aiplatform.googleapis.com` for `GOOGLE_CLOUD_LOCATION`");
    }
    vec![hosts, cli.proxy.word().to_owned()]
}

fn records(cli: &AgentCli) -> Vec<String> {
    let reports = cli.reports;
    let mut tokens = reports.tokens.to_owned();
    if cli.sums_over_session {
        tokens.push_str("; the sum of the session, and the earlier part is subtracted");
    }
    let words = [
        reports.turns,
        reports.refusals,
        cli.session.word(),
        cli.known_limits,
    ];
    let mut cells = vec![reports.price.to_owned(), tokens];
    cells.extend(words.map(str::to_owned));
    cells
}

fn mcp(cli: &AgentCli) -> Vec<String> {
    match cli.mcp {
        McpSupport::Connected { how, other_servers } => {
            vec![how.to_owned(), other_servers.to_owned()]
        }
        McpSupport::NotConnected { why } => vec![format!("not connected: {why}"), "–".to_owned()],
    }
}

/// Replaces the text between the markers of a table.
fn replace_table(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- {name}:begin -->\n"),
        format!("<!-- {name}:end -->"),
    );
    let (before, rest) = page.split_once(&begin).expect(name);
    let (_, after) = rest.split_once(&end).expect(name);
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_tables_of_the_document_are_made_from_the_list() {
    let page = root().join("docs/agents.md");
    let mut text = fs::read_to_string(&page).unwrap();
    let files = table(&["files below your home", "variables"], |cli| {
        vec![codes(cli.files), codes(cli.variables)]
    });
    let mut hosts = table(&["hosts", "proxy variables work"], hosts);
    hosts.push_str("| `command:`, `acp:` | unknown: the network stays on and the review records that; name them with `hosts` | depends on your program |\n");
    let mut mcp = table(&["how it is connected", "other MCP servers"], mcp);
    mcp.push_str("| `acp:` | `mcpServers` of `session/new`, if the agent accepts servers over HTTP (Gemini CLI only with `--skip-trust`). The protocol has no variables, so the agent gets the token itself and may store it in its home; the token is invalid after the run | the agent's own |\n");
    let heads = [
        "price",
        "tokens",
        "turns",
        "refusals",
        "session",
        "known limits",
    ];
    for (name, table) in [
        ("agents-start", starts()),
        (
            "agents-sandbox-off",
            table(&["with `sandbox = \"off\"`"], |cli| {
                vec![cli.summary.without_sandbox.to_owned()]
            }),
        ),
        ("agents-files", files),
        ("agents-hosts", hosts),
        (
            "agents-tool-files",
            table(&["files that it reads by itself"], |cli| {
                vec![codes(cli.tool_files)]
            }),
        ),
        ("agents-records", table(&heads, records)),
        ("agents-mcp", mcp),
    ] {
        text = replace_table(&text, name, &table);
    }
    expect_file![page].assert_eq(&text);
}

#[test]
fn the_script_with_real_agents_knows_the_same_ones() {
    let script = fs::read_to_string(root().join("scripts/real/clis.py")).unwrap();
    for cli in registry::ALL {
        let listed = script.contains(&format!("Cli(\"{}\",", cli.name));
        // Its makers offer no package that could be pinned, so it was never run.
        assert_eq!(listed, cli.name != "cursor", "{}", cli.name);
    }
    let listed = script.matches("    Cli(\"").count();
    assert_eq!(listed, registry::ALL.len() - 1, "the script has others");
}

#[test]
fn names_and_texts_have_the_form_that_their_readers_need() {
    let names = registry::names();
    for cli in registry::ALL {
        assert_eq!(names.iter().filter(|name| **name == cli.name).count(), 1);
        assert!(!cli.install.is_empty() && !cli.log_in.is_empty() && !cli.hosts.is_empty());
        for text in cli
            .errors
            .log_in_first
            .iter()
            .chain(cli.errors.out_of_quota)
        {
            // Errors are compared in lower case.
            assert_eq!(*text, text.to_lowercase(), "{}", cli.name);
        }
    }
}
