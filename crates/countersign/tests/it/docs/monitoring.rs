//! The dashboard, the alert rules and the page name only metrics that the server has.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::root;
use crate::support::World;
use crate::support::server::Server;

/// The names of metrics in a text. A histogram is named by its parts.
fn named(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let places = text.match_indices("countersign_");
    let names = places.map(|(at, _)| text[at..].chars().take_while(|c| is_name(*c)));
    let names = names.map(String::from_iter);
    names
        .map(|name: String| {
            let parts = ["_bucket", "_sum", "_count"];
            let whole = parts.iter().find_map(|part| name.strip_suffix(part));
            whole.unwrap_or(&name).to_owned()
        })
        .collect()
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_exists() {
    let world = World::new();
    let server = Server::start(&world);
    let shown = server.rest("GET", "/metrics", &Value::Null).is(200).body;
    let types = shown
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let known: BTreeSet<String> = types
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    for line in shown
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
    {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
    }
    assert!(
        shown.contains("countersign_build_info{version=\""),
        "{shown}"
    );
    let scraped = server.rest("GET", "/metrics", &Value::Null).is(200).body;
    let counted =
        "countersign_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"200\"} 1";
    assert!(scraped.contains(counted), "{scraped}");
    // A caller cannot make labels with invented paths or methods.
    server.send("BREW", "/made/up", &[], "");
    let scraped = server.rest("GET", "/metrics", &Value::Null).is(200).body;
    assert!(!scraped.contains("BREW") && !scraped.contains("made/up"));

    for file in ["deploy/grafana-dashboard.json", "deploy/alerts.yml"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let unknown: Vec<String> = named(&text).difference(&known).cloned().collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let missing: Vec<String> = known.difference(&named(&page)).cloned().collect();
    assert!(missing.is_empty(), "docs/operations.md lacks {missing:?}");
}
