//! The `OpenAPI` document, made of the table that the router is made of.

use axum::Json;
use serde_json::{Map, Value, json};

use super::api::{Route, RouteAccess, routes};
use app::operations::questions::{Method, in_path};

pub async fn show() -> Json<Value> {
    Json(document())
}

pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut schemas = Map::from_iter([("Problem".to_owned(), problem())]);
    for route in routes() {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(methods) = entry.as_object_mut() {
            methods.insert(
                word(route.method).to_owned(),
                operation(&route, &mut schemas),
            );
        }
    }
    json!({
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
        "security": [{"token": []}],
    })
}

fn word(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

fn operation(route: &Route, schemas: &mut Map<String, Value>) -> Value {
    let mut parameters: Vec<Value> = in_path(route.path)
        .map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
        })
        .collect();
    parameters.extend(route.query.iter().map(|(name, means)| {
        json!({"name": name, "in": "query", "description": means, "schema": {"type": "string"}})
    }));
    if route.method != Method::Get {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200},
            "description": "the same call again under it gets the first answer",
        }));
    }
    let mut operation = json!({
        "summary": route.does,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": responses(route),
    });
    if let (Some(schema), Some(fields)) = (route.takes, operation.as_object_mut()) {
        let schema = shared(without_path(route, schema().to_value()), schemas);
        let content = json!({"application/json": {"schema": schema}});
        fields.insert(
            "requestBody".to_owned(),
            json!({"required": true, "content": content}),
        );
    }
    operation
}

/// Parts with a name are the whole document's: there is only one place that references begin at.
fn shared(mut schema: Value, schemas: &mut Map<String, Value>) -> Value {
    if let Some(Value::Object(parts)) = schema.as_object_mut().and_then(|all| all.remove("$defs")) {
        for (name, part) in parts {
            schemas.insert(name, pointed(part));
        }
    }
    pointed(schema)
}

fn pointed(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| match value {
                Value::String(to) if name == "$ref" => {
                    (name, to.replace("#/$defs/", "#/components/schemas/").into())
                }
                other => (name, pointed(other)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.into_iter().map(pointed).collect(),
        other => other,
    }
}

/// What the path says is not said in the body.
fn without_path(route: &Route, mut schema: Value) -> Value {
    for name in in_path(route.path) {
        if let Some(fields) = schema["properties"].as_object_mut() {
            fields.remove(name);
        }
        if let Some(names) = schema["required"].as_array_mut() {
            names.retain(|one| one != name);
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
    format!("{}_{}", word(route.method), plain.join("_"))
}

fn responses(route: &Route) -> Value {
    let good = json!({"description": "done", "content": {"application/json": {"schema": {}}}});
    let bad = |what: &str| {
        let schema = json!({"$ref": "#/components/schemas/Problem"});
        json!({"description": what, "content": {"application/problem+json": {"schema": schema}}})
    };
    let who = match route.who {
        RouteAccess::People => "only for people, programs and administrators",
        RouteAccess::Administrators => "only for administrators",
    };
    json!({
        "200": good, "201": good,
        "400": bad("not understood"), "401": bad("nobody is recognised"), "403": bad(who),
        "404": bad("there is no such thing"), "408": bad("the body did not come in time"), "409": bad("refused: not now, or not on what you saw"),
        "413": bad("the body is too large"), "422": bad("the body is not what is wanted"),
        "429": bad("too many calls at once"), "503": bad("try again"),
    })
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
        },
    })
}
