//! Spans as a collector receives them. It needs a build with the feature `otel`.

use serde_json::Value;

use crate::support::listener::Listener;
use crate::support::server::Server;
use crate::support::{World, until};

#[test]
fn a_collector_receives_the_span_of_a_request_without_its_token() {
    let mut world = World::new();
    let collector = Listener::new(|_| Some("200 OK"));
    let base = collector.url.trim_end_matches("/hook").to_owned();
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", base.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ] {
        world.variables.push((name.to_owned(), value.to_owned()));
    }
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
    let attribute = |name: &str| {
        let all = found["attributes"].as_array().unwrap();
        let one = all.iter().find(|one| one["key"] == name).unwrap();
        one["value"]["stringValue"].as_str().unwrap().to_owned()
    };
    assert_eq!(attribute("caller"), "eve");
    assert_eq!(attribute("route"), "/api/v1/tickets");
    assert!(collector.got().iter().all(|got| !got.body.contains(&eve)));
}

fn spans(body: &Value) -> Vec<Value> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let resources = array(&body["resourceSpans"]).into_iter();
    let scopes = resources.flat_map(|resource| array(&resource["scopeSpans"]));
    scopes.flat_map(|scope| array(&scope["spans"])).collect()
}
