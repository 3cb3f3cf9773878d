//! `OpenAPI` document, generated from the same route table as the router.

use axum::http::HeaderMap;
use axum::response::Response;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::api::{Route, RouteAccess, routes};
use super::representation::json_answer;
use app::operations::StoredEvent;
use app::operations::questions::{Method, path_fields};

/// Ending of the names of types in requests.
const INPUT: &str = "Input";

pub async fn show(headers: HeaderMap) -> Response {
    json_answer(&headers, &document(), None).await
}

pub fn document() -> Value {
    // Answers are described as they are written: a field with a default is always there.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    // All answers first: they share definitions, which are complete only after the last one.
    let answers: Vec<Value> = routes()
        .iter()
        .map(|route| (route.answers)(&mut generator).to_value())
        .collect();
    let event = generator.subschema_for::<StoredEvent>().to_value();
    let mut schemas = generator.take_definitions(true);
    name_inner_objects(&mut schemas);
    schemas.insert("Problem".to_owned(), problem());
    let mut paths: Map<String, Value> = Map::new();
    for (route, answer) in routes().iter().zip(answers) {
        // Several methods of one path are one entry.
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(methods) = entry.as_object_mut() {
            let operation = operation(route, answer, &mut schemas);
            methods.insert(method_word(route.method).to_owned(), operation);
        }
    }
    paths.extend(other_paths(event));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "No agent's change lands on one signature.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
        // Every route needs a token unless it says otherwise.
        "security": [{"token": []}],
    });
    simplify_schemas(&mut document);
    document
}

/// Writes schemas in the form that generators of clients understand: any value is `{}` and not
/// `true`, and one of several words is one `enum` and not a choice of constants.
fn simplify_schemas(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(items) = fields.get_mut("items") {
                spell_out(items);
            }
            if let Some(words) = words_of(fields) {
                // `shift` keeps the order of the other keys, so that the document changes only
                // where it has to.
                fields.shift_remove("oneOf");
                fields.insert("type".to_owned(), "string".into());
                fields.insert("enum".to_owned(), words);
            }
            let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
            for property in properties.into_iter().flat_map(Map::values_mut) {
                spell_out(property);
            }
            fields.values_mut().for_each(simplify_schemas);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify_schemas),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Gives the objects inside a choice of objects names of their own. Generators of clients lose such
/// objects without a name.
fn name_inner_objects(schemas: &mut Map<String, Value>) {
    let mut named = Vec::new();
    for (name, schema) in schemas.iter_mut() {
        let choices = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            let fields = choice.get_mut("properties").and_then(Value::as_object_mut);
            for (field, inner) in fields.into_iter().flatten() {
                if inner["type"] != "object" || inner.get("properties").is_none() {
                    continue;
                }
                let mut letters = field.chars();
                let first = letters.next().map(|first| first.to_ascii_uppercase());
                let inner_name: String = name
                    .chars()
                    .chain(first)
                    .chain(letters)
                    // `WorkReply` and `active_job` become `WorkReplyActivejob`: a name that nothing
                    // else has.
                    .filter(|c| *c != '_')
                    .collect();
                let reference = json!({"$ref": format!("#/components/schemas/{inner_name}")});
                named.push((inner_name, std::mem::replace(inner, reference)));
            }
        }
    }
    schemas.extend(named);
}

/// Returns the words of a schema that is a choice of constant strings.
fn words_of(schema: &Map<String, Value>) -> Option<Value> {
    let choices = schema.get("oneOf")?.as_array()?;
    let mut words = Vec::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum")) {
            (Some(word @ Value::String(_)), None) => words.push(word.clone()),
            (None, Some(Value::Array(several))) if several.iter().all(Value::is_string) => {
                words.extend(several.iter().cloned());
            }
            // One choice that is no word makes it a real choice of schemas.
            _ => return None,
        }
    }
    Some(words.into())
}

fn spell_out(schema: &mut Value) {
    if *schema == true {
        *schema = json!({});
    }
}

/// Describes the routes that are not in the table, because they answer with text or a stream.
fn other_paths(event: Value) -> Map<String, Value> {
    let text =
        json!({"description": "done", "content": {"text/plain": {"schema": {"type": "string"}}}});
    let position = json!({"type": "string"});
    let stream = json!({
        "description": "Events as server-sent events. The data of each is one JSON object.",
        "content": {"text/event-stream": event_stream(&event)},
    });
    let paths = json!({
        "/api/v1/events": {"get": {
            "summary": "Streams events in the order of the log.",
            "operationId": "get_events",
            "parameters": [
                {"name": "after", "in": "query", "schema": position,
                 "description": "id of the last event that you have, or `now` for new events only; default: the beginning"},
                {"name": "Last-Event-ID", "in": "header", "schema": position,
                 "description": "the same; browsers send it when they connect again"},
                {"name": "ticket", "in": "query", "schema": {"type": "string"},
                 "description": "only events of this ticket"},
            ],
            "responses": {
                "200": stream, "400": bad("malformed request"), "401": bad("no valid token"),
                "403": bad("only for people, programs and administrators"), "404": bad("not found"),
                "429": bad("too many calls at once"), "503": bad("try again"),
            },
        }},
        "/metrics": {"get": {
            "summary": "Serves metrics for Prometheus.",
            "operationId": "get_metrics",
            "responses": {
                "200": text, "401": bad("no valid token"),
                "403": bad("only for people, programs and administrators"),
                "429": bad("too many calls at once"), "503": bad("try again"),
            },
        }},
        "/healthz": {"get": {
            "summary": "Tells that the server runs.",
            // Probes have no token.
            "operationId": "get_healthz", "security": [],
            "responses": {"200": text},
        }},
        "/readyz": {"get": {
            "summary": "Tells that the server can reach its database.",
            "operationId": "get_readyz", "security": [],
            "responses": {"200": text, "503": bad("try again")},
        }},
    });
    match paths {
        Value::Object(mut paths) => {
            paths.extend(file_paths());
            paths
        }
        _ => Map::new(),
    }
}

/// Describes a stream of events by the schema of their data. Version 3.2 of the specification has
/// `itemSchema` for it; readers of 3.1 that do not know it see a stream of anything.
fn event_stream(data: &Value) -> Value {
    let data =
        json!({"type": "string", "contentMediaType": "application/json", "contentSchema": data});
    let text = json!({"type": "string"});
    json!({
        "itemSchema": {
            "type": "object",
            "properties": {"event": text, "id": text, "retry": {"type": "integer"}, "data": data},
        },
    })
}

/// Describes the routes that answer with the bytes of a file.
fn file_paths() -> Vec<(String, Value)> {
    let in_path = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}});
    let range = json!({"name": "Range", "in": "header", "schema": {"type": "string"},
        "description": "a part of the file, such as bytes=0-1023"});
    let if_none_match = if_none_match();
    let bytes_of = |summary: &str, id: &str, kind: &str, parameters: Vec<Value>| {
        let content = json!({kind: {"schema": {"type": "string", "contentMediaType": kind}}});
        let headers = json!({"ETag": {"schema": {"type": "string"}},
            "Accept-Ranges": {"schema": {"type": "string"}}});
        // Files can be large, so clients may ask for a part, or for nothing if they have it.
        let parameters = [parameters, vec![range.clone(), if_none_match.clone()]].concat();
        json!({"get": {
            "summary": summary, "operationId": id, "parameters": parameters,
            "responses": {
                "200": {"description": "the whole file", "content": content, "headers": headers},
                "206": {"description": "the part that Range names", "content": content, "headers": headers},
                "304": {"description": "the file has not changed"},
                "401": bad("no valid token"),
                "403": bad("only for people, programs and administrators"),
                "404": bad("not found"), "416": bad("the file has no such part"),
                "429": bad("too many calls at once"), "503": bad("try again"),
            },
        }})
    };
    let run = || vec![in_path("ticket"), in_path("run")];
    let output = json!({"oneOf": [
        {"type": "object", "title": "output", "required": ["at", "text"], "properties": {
            "at": {"type": "integer", "description": "position of the text in the transcript, in bytes"},
            "text": {"type": "string"}}},
        {"type": "object", "title": "end", "required": ["how"], "properties": {
            "how": {"type": "string", "description": "how the run ended"}}},
    ]});
    let position = json!({"type": "string", "pattern": "^[0-9]+$"});
    let parameters = [
        run(),
        vec![
            json!({"name": "after", "in": "query", "schema": position,
                "description": "bytes of the transcript that you have; default: 0"}),
            json!({"name": "Last-Event-ID", "in": "header", "schema": position,
                "description": "the same; browsers send it when they connect again"}),
        ],
    ]
    .concat();
    let stream = json!({"get": {
        "summary": "Streams the transcript of a run until the run ends.",
        "operationId": "get_tickets_ticket_runs_run_transcript_stream",
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "Output and the end of the run as server-sent events. The data of each is one JSON object.",
                "content": {"text/event-stream": event_stream(&output)},
            },
            // A browser's event source connects again after every other answer.
            "204": {"description": "the run has ended and you have all of it"},
            "400": bad("malformed request"), "401": bad("no valid token"),
            "403": bad("only for people, programs and administrators"), "404": bad("not found"),
            "429": bad("too many calls at once"), "503": bad("try again"),
        },
    }});
    let transcript = "/api/v1/tickets/{ticket}/runs/{run}/transcript";
    vec![
        (
            transcript.to_owned(),
            bytes_of(
                "Reads the transcript of a run: the raw output of its agent.",
                "get_tickets_ticket_runs_run_transcript",
                "text/plain",
                run(),
            ),
        ),
        (format!("{transcript}/stream"), stream),
        (
            "/api/v1/tickets/{ticket}/artefacts/{artefact}".to_owned(),
            bytes_of(
                "Reads one of the ticket's files.",
                "get_tickets_ticket_artefacts_artefact",
                "application/octet-stream",
                vec![in_path("ticket"), in_path("artefact")],
            ),
        ),
    ]
}

fn if_none_match() -> Value {
    json!({"name": "If-None-Match", "in": "header", "schema": {"type": "string"},
        "description": "the ETag of the answer that you have; 304 if it is still the same"})
}

fn method_word(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

fn operation(route: &Route, answer: Value, schemas: &mut Map<String, Value>) -> Value {
    let mut parameters: Vec<Value> = path_fields(route.path)
        .map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
        })
        .collect();
    parameters.extend(route.query.iter().map(|(name, description)| {
        json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
    }));
    // What changes nothing can be cached; what changes something can be repeated under a key.
    if route.method == Method::Get {
        parameters.push(if_none_match());
    } else {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200},
            "description": "a repeated call with the same key returns the first answer",
        }));
    }
    if route.versioned && route.method != Method::Get {
        parameters.push(json!({
            "name": "If-Match", "in": "header", "schema": {"type": "string", "pattern": "^\"?[0-9]+\"?$"},
            "description": "the ETag of the ticket; another version is refused with 409",
        }));
    }
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": responses(route, answer),
    });
    if let (Some(schema), Some(fields)) = (route.takes, operation.as_object_mut()) {
        let schema = hoist_definitions(without_path(route, schema().to_value()), schemas);
        let content = json!({"application/json": {"schema": schema}});
        fields.insert(
            "requestBody".to_owned(),
            json!({"required": true, "content": content}),
        );
    }
    operation
}

/// Moves the definitions of a request to the document's components, because references in
/// `OpenAPI` start at the root of the document. A type that answers have as well gets a second
/// name: in a request, its fields with defaults may be left out.
fn hoist_definitions(mut schema: Value, schemas: &mut Map<String, Value>) -> Value {
    if let Some(Value::Object(parts)) = schema.as_object_mut().and_then(|all| all.remove("$defs")) {
        for (name, part) in parts {
            schemas.insert(format!("{name}{INPUT}"), rewrite_refs(part));
        }
    }
    rewrite_refs(schema)
}

fn rewrite_refs(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| match value {
                Value::String(to) if name == "$ref" => {
                    let to = to.replace("#/$defs/", "#/components/schemas/");
                    (name, format!("{to}{INPUT}").into())
                }
                other => (name, rewrite_refs(other)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.into_iter().map(rewrite_refs).collect(),
        other => other,
    }
}

/// Removes the path's parameters from the body schema.
fn without_path(route: &Route, mut schema: Value) -> Value {
    for name in path_fields(route.path) {
        if let Some(fields) = schema["properties"].as_object_mut() {
            fields.remove(name);
        }
        if let Some(names) = schema["required"].as_array_mut() {
            names.retain(|required| required != name);
        }
    }
    schema
}

fn operation_id(route: &Route) -> String {
    let plain: Vec<&str> = route
        .path
        .split(['/', '{', '}'])
        .filter(|part| !part.is_empty() && *part != "api" && *part != "v1")
        .collect();
    format!("{}_{}", method_word(route.method), plain.join("_"))
}

fn bad(description: &str) -> Value {
    let schema = json!({"$ref": "#/components/schemas/Problem"});
    json!({"description": description, "content": {"application/problem+json": {"schema": schema}}})
}

fn responses(route: &Route, answer: Value) -> Value {
    let mut good =
        json!({"description": "done", "content": {"application/json": {"schema": answer}}});
    if route.versioned {
        good["headers"] = json!({"ETag": {
            "description": "version of the ticket, for If-Match", "schema": {"type": "string"},
        }});
    } else if route.method == Method::Get {
        good["headers"] = json!({"ETag": {
            "description": "changes with the answer, for If-None-Match", "schema": {"type": "string"},
        }});
    }
    let access = match route.access {
        RouteAccess::People => "only for people, programs and administrators",
        RouteAccess::Administrators => "only for administrators",
        RouteAccess::Anyone => "the origin is not allowed",
    };
    let mut all = json!({
        "400": bad("malformed request"), "401": bad("no valid token"), "403": bad(access),
        "404": bad("not found"), "408": bad("the body did not arrive in time"),
        "409": bad("refused in the current state, or the version has changed"),
        "413": bad("the body is too large"), "422": bad("the body does not match the schema"),
        "429": bad("too many calls at once"), "503": bad("try again"),
    });
    all[if route.creates { "201" } else { "200" }] = good;
    if route.method == Method::Get {
        all["304"] = json!({"description": "the answer has not changed"});
    }
    all
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "hints", "exit"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "hints": {"type": "array", "items": {"type": "string"}},
            "exit": {"type": "integer", "description": "the exit code of the command line"},
            "error": {"description": "the error for programs, if it has one"},
        },
    })
}
