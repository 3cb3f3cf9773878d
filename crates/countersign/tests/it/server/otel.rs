//! Spans as a collector receives them. The tests need the feature `otel`, which is on by default.

use serde_json::Value;

use crate::support::crew::smooth;
use crate::support::listener::Listener;
use crate::support::server::Server;
use crate::support::{World, until};

/// A world whose spans go to `base`.
fn world_with_collector(base: &str) -> World {
    let mut world = World::new();
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", base),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ] {
        world.variables.push((name.to_owned(), value.to_owned()));
    }
    world
}

#[test]
fn a_collector_receives_the_span_of_a_request_without_its_token() {
    let collector = Listener::new(|_| Some("200 OK"));
    let world = world_with_collector(collector.url.trim_end_matches("/hook"));
    let server = Server::start(&world);
    let eve = server.token("eve", "human", &[]);
    let bearer = format!("Bearer {eve}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("X-Request-Id", "req-9"),
    ];
    server.send("GET", "/api/v1/tickets", &headers, "").is(200);
    let mut found = Value::Null;
    until("the span has arrived", || {
        let got = collector.got();
        let mut spans = got.iter().flat_map(|got| spans(&got.json()));
        found = spans
            .find(|span| span.to_string().contains("req-9"))
            .unwrap_or_default();
        !found.is_null()
    });
    assert_eq!(found["name"], "request", "{found:#}");
    assert_eq!(text(&found, "caller").unwrap(), "eve");
    assert_eq!(text(&found, "route").unwrap(), "/api/v1/tickets");
    assert!(collector.got().iter().all(|got| !got.body.contains(&eve)));
}

#[test]
fn a_run_sends_the_spans_of_its_jobs_and_a_short_command_sends_none() {
    let collector = Listener::new(|_| Some("200 OK"));
    let world = world_with_collector(collector.url.trim_end_matches("/hook"));
    world.call(&["status"]).ends_with(0);
    world.call(&["ticket", "list"]).ends_with(0);
    assert!(collector.got().is_empty(), "{:#?}", collector.got());
    let crew = world.crew(&smooth());
    let words = [
        "run",
        "Greet by name",
        "--builder",
        &crew,
        "--reviewer",
        &crew,
    ];
    world.call(&words).ends_with(0);
    // The command has ended, so everything that it sends has arrived.
    let got = collector.got();
    let spans: Vec<_> = got.iter().flat_map(|got| spans(&got.json())).collect();
    let kinds: Vec<_> = spans.iter().filter_map(|span| text(span, "kind")).collect();
    for kind in ["build", "check", "review", "merge"] {
        assert!(kinds.iter().any(|known| known == kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn a_collector_that_cannot_be_used_is_reported_once_and_only_by_commands_with_spans() {
    let world = world_with_collector("this is no address");
    let warning = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent";
    for words in [&["status"][..], &["ticket", "list"], &["doctor"]] {
        let ran = world.call(words);
        assert!(!ran.err.contains(warning), "{words:?}: {}", ran.err);
    }
    let crew = world.crew(&smooth());
    let words = [
        "run",
        "Greet by name",
        "--builder",
        &crew,
        "--reviewer",
        &crew,
    ];
    let ran = world.call(&words).ends_with(0);
    assert_eq!(ran.err.matches(warning).count(), 1, "{}", ran.err);
}

/// The attribute of a span as text.
fn text(span: &Value, name: &str) -> Option<String> {
    let all = span["attributes"].as_array()?;
    let one = all.iter().find(|one| one["key"] == name)?;
    Some(one["value"]["stringValue"].as_str()?.to_owned())
}

fn spans(body: &Value) -> Vec<Value> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let resources = array(&body["resourceSpans"]).into_iter();
    let scopes = resources.flat_map(|resource| array(&resource["scopeSpans"]));
    scopes.flat_map(|scope| array(&scope["spans"])).collect()
}
