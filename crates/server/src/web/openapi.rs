//! `OpenAPI` document, generated from the same route table as the router.

use axum::Json;
use serde_json::{Map, Value, json};

use super::api::{Route, RouteAccess, routes};
use app::operations::questions::{Method, path_fields};

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
                method_word(route.method).to_owned(),
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

fn method_word(method: Method) -> &'static str {
    match method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Delete => "delete",
    }
}

fn operation(route: &Route, schemas: &mut Map<String, Value>) -> Value {
    let mut parameters: Vec<Value> = path_fields(route.path)
        .map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}})
        })
        .collect();
    parameters.extend(route.query.iter().map(|(name, description)| {
        json!({"name": name, "in": "query", "description": description, "schema": {"type": "string"}})
    }));
    if route.method != Method::Get {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200},
            "description": "a repeated call with the same key returns the first answer",
        }));
    }
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": responses(route),
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

/// Moves the schema's definitions to the document's components, because references in `OpenAPI`
/// start at the root of the document.
fn hoist_definitions(mut schema: Value, schemas: &mut Map<String, Value>) -> Value {
    if let Some(Value::Object(parts)) = schema.as_object_mut().and_then(|all| all.remove("$defs")) {
        for (name, part) in parts {
            schemas.insert(name, rewrite_refs(part));
        }
    }
    rewrite_refs(schema)
}

fn rewrite_refs(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| match value {
                Value::String(to) if name == "$ref" => {
                    (name, to.replace("#/$defs/", "#/components/schemas/").into())
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

fn responses(route: &Route) -> Value {
    let good = json!({"description": "done", "content": {"application/json": {"schema": {}}}});
    let bad = |description: &str| {
        let schema = json!({"$ref": "#/components/schemas/Problem"});
        json!({"description": description, "content": {"application/problem+json": {"schema": schema}}})
    };
    let access = match route.access {
        RouteAccess::People => "only for people, programs and administrators",
        RouteAccess::Administrators => "only for administrators",
    };
    json!({
        "200": good, "201": good,
        "400": bad("malformed request"), "401": bad("no valid token"), "403": bad(access),
        "404": bad("not found"), "408": bad("the body did not arrive in time"),
        "409": bad("refused in the current state, or the version has changed"),
        "413": bad("the body is too large"), "422": bad("the body does not match the schema"),
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
