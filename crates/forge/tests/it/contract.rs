//! The official specifications, sliced to the calls of the adapters by `scripts/forge-contracts`.
//!
//! Every request to a fake and every answer of a fake is checked here, so that a fake cannot teach an
//! adapter what no forge says. An answer gets the fields that the specification requires and the fake
//! leaves out: null where that is permitted, else the value of the official example.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value, json};

/// Attempts to complete an answer; each goes one level deeper.
const DEPTH_MAX: usize = 30;

pub static GITHUB: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(include_bytes!("../contracts/github.json.gz"), false));
pub static JIRA: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(include_bytes!("../contracts/jira.json.gz"), false));
static GRAPHQL: LazyLock<Value> =
    LazyLock::new(|| unpack(include_bytes!("../contracts/github_graphql.json.gz")));

pub fn unpack(packed: &[u8]) -> Value {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut text)
        .unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// One request with its answer. The path has neither host nor query.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub request: &'a Value,
    pub status: u16,
    pub answer: Value,
}

#[derive(Debug)]
pub struct Contract {
    paths: Map<String, Value>,
    schemas: Value,
    /// Swagger 2.0 cannot say that a field may be null, and Go writes null for what is missing.
    is_swagger: bool,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
    /// Answers that were completed before, by their call and their text.
    completed: Mutex<HashMap<(String, String), Value>>,
}

impl Contract {
    pub fn new(packed: &[u8], is_swagger: bool) -> Self {
        let mut all = unpack(packed);
        let Value::Object(paths) = all["paths"].take() else {
            panic!("a contract without paths");
        };
        Self {
            paths,
            schemas: all["schemas"].take(),
            is_swagger,
            validators: Mutex::default(),
            completed: Mutex::default(),
        }
    }

    /// Returns the call with its name; a path with fewer parameters goes first.
    fn call(&self, method: &str, path: &str) -> Option<(String, &Value)> {
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |template: &str| {
            let wanted: Vec<&str> = template.split('/').collect();
            wanted.len() == parts.len()
                && wanted.iter().zip(&parts).all(|(wanted, part)| {
                    wanted == part || (wanted.starts_with('{') && !part.is_empty())
                })
        };
        let method = method.to_ascii_lowercase();
        let fitting = self
            .paths
            .iter()
            .filter(|(template, calls)| fits(template) && calls[&method].is_object());
        let (template, calls) =
            fitting.min_by_key(|(template, _)| template.matches('{').count())?;
        Some((format!("{method} {template}"), &calls[&method]))
    }

    fn validator(&self, name: String, schema: &Value) -> Arc<Validator> {
        let mut known = self.validators.lock().unwrap();
        let build = || {
            let mut document = schema.clone();
            document["$defs"] = self.schemas.clone();
            Arc::new(jsonschema::draft202012::new(&document).unwrap())
        };
        Arc::clone(known.entry(name).or_insert_with(build))
    }

    /// Checks an exchange, and returns the whole answer.
    pub fn check(&self, exchange: Exchange<'_>) -> Result<Value, String> {
        let Exchange {
            method,
            path,
            query,
            request,
            status,
            answer,
        } = exchange;
        let (name, call) = self
            .call(method, path)
            .ok_or_else(|| format!("{method} {path} is not in the specification"))?;
        let wrong = |what: &str| Err(format!("{name}: {what}"));
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let schema = &call["query"][key];
            let is_number = schema["type"] != "integer" || value.parse::<u64>().is_ok();
            let choices = schema["enum"].as_array();
            if schema.is_null() || !is_number || choices.is_some_and(|all| !has(all, value)) {
                return wrong(&format!("the parameter {pair}"));
            }
        }
        if !request.is_null() {
            let schema = &call["request"];
            if schema.is_null() {
                return wrong("it takes no body");
            }
            let mut names = Vec::new();
            self.property_names(schema, &mut names);
            let unknown = request.as_object().into_iter().flatten();
            let mut unknown = unknown.map(|(key, _)| key.clone());
            if let Some(key) = unknown.find(|key| !names.contains(key)) {
                return wrong(&format!("the request has the unknown field {key}"));
            }
            let validator = self.validator(format!("{name} request"), schema);
            if let Some(error) = validator.iter_errors(request).next() {
                let at = error.instance_path().to_string();
                return wrong(&format!("the request at {at}: {error}"));
            }
        }
        let known = &call["answers"][status.to_string()];
        if !known.is_object() && status < 400 {
            return wrong(&format!("it does not answer with {status}"));
        }
        if known["schema"].is_null() || status >= 400 {
            return Ok(answer);
        }
        let key = (format!("{name} {status}"), answer.to_string());
        if let Some(whole) = self.completed.lock().unwrap().get(&key) {
            return Ok(whole.clone());
        }
        let validator = self.validator(key.0.clone(), &known["schema"]);
        if self.is_swagger {
            let mut without = answer.clone();
            remove_nulls(&mut without);
            return complete(&validator, without, &Value::Null)
                .map(|_| answer)
                .or_else(|what| wrong(&what));
        }
        let whole = complete(&validator, answer, &known["example"]).or_else(|what| wrong(&what))?;
        self.completed.lock().unwrap().insert(key, whole.clone());
        Ok(whole)
    }

    /// Collects the names of the fields that a request may have at its top.
    fn property_names(&self, schema: &Value, names: &mut Vec<String>) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap();
            self.property_names(&self.schemas[name], names);
        }
        for key in schema["properties"].as_object().into_iter().flatten() {
            names.push(key.0.clone());
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            for inner in schema[word].as_array().into_iter().flatten() {
                self.property_names(inner, names);
            }
        }
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

fn has(choices: &[Value], value: &str) -> bool {
    choices.iter().any(|choice| choice == value)
}

/// Adds the fields that are required and missing, until the answer is valid.
fn complete(validator: &Validator, mut answer: Value, example: &Value) -> Result<Value, String> {
    for _ in 0..DEPTH_MAX {
        let mut missing = Vec::new();
        let mut first = None;
        for error in validator.iter_errors(&answer) {
            find_missing(&error, &mut missing);
            first.get_or_insert_with(|| {
                let at = error.instance_path().to_string();
                let kind = findings::shorten(&error.to_string(), 300);
                format!("the answer at {at}: {kind}")
            });
        }
        if missing.is_empty() {
            return first.map_or(Ok(answer), Err);
        }
        for (path, field) in &missing {
            answer.pointer_mut(path).unwrap()[field] = Value::Null;
        }
        let mut not_null = Vec::new();
        for error in validator.iter_errors(&answer) {
            find_places(&error, &mut not_null);
        }
        for (path, field) in &missing {
            if !not_null.contains(&format!("{path}/{field}")) {
                continue;
            }
            let sample = sample_at(example, path).map_or(Value::Null, |one| one[field].clone());
            if sample.is_null() {
                return Err(format!(
                    "the answer lacks {path}/{field}, and no example has it"
                ));
            }
            answer.pointer_mut(path).unwrap()[field] = sample;
        }
    }
    Err("the answer cannot be completed".to_owned())
}

/// Collects missing fields, also those inside of alternatives.
fn find_missing(error: &jsonschema::ValidationError<'_>, missing: &mut Vec<(String, String)>) {
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let path = error.instance_path().to_string();
            missing.push((path, property.as_str().unwrap_or_default().to_owned()));
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            for inner in context.iter().flatten() {
                find_missing(inner, missing);
            }
        }
        _ => {}
    }
}

/// Collects the places that errors are about, also inside of alternatives.
fn find_places(error: &jsonschema::ValidationError<'_>, places: &mut Vec<String>) {
    places.push(error.instance_path().to_string());
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            for inner in context.iter().flatten() {
                find_places(inner, places);
            }
        }
        _ => {}
    }
}

/// Returns the place in the example: an example has one entry of each list.
fn sample_at<'a>(example: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = example;
    for part in path.split('/').skip(1) {
        value = match value {
            Value::Array(entries) => entries.first()?,
            other => other.get(part)?,
        };
    }
    value.is_object().then_some(value)
}

/// Checks a query of GraphQL against the official schema, and the data of its answer against the query.
pub fn check_graphql(request: &Value, answer: &Value) -> Result<(), String> {
    let text = request["query"].as_str().unwrap_or_default();
    let mut query = Query {
        words: words_of(text),
        at: 0,
        variables: HashMap::new(),
    };
    let selected = query.operation()?;
    for (name, kind) in &query.variables {
        let value = &request["variables"][name];
        if value.is_null() && kind.ends_with('!') {
            return Err(format!("the variable {name} is missing"));
        }
    }
    if answer["data"].is_null() {
        return Ok(());
    }
    has_selected(&selected, &answer["data"])
}

#[derive(Debug)]
struct Selected(String, Vec<Selected>);

fn has_selected(selected: &[Selected], data: &Value) -> Result<(), String> {
    if let Value::Array(entries) = data {
        return entries
            .iter()
            .try_for_each(|entry| has_selected(selected, entry));
    }
    let Value::Object(fields) = data else {
        return Ok(());
    };
    if let Some(name) = fields
        .keys()
        .find(|name| !selected.iter().any(|one| one.0 == **name))
    {
        return Err(format!("the answer has {name}, which was not asked"));
    }
    for Selected(name, inner) in selected {
        let value = fields
            .get(name)
            .ok_or_else(|| format!("the answer lacks {name}"))?;
        has_selected(inner, value)?;
    }
    Ok(())
}

fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || c == '_' || c == '$' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() && c != ',' {
            words.push(c.to_string());
        }
    }
    words
}

struct Query {
    words: Vec<String>,
    at: usize,
    variables: HashMap<String, String>,
}

impl Query {
    fn next(&mut self) -> Result<String, String> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word.ok_or_else(|| "the query ends early".to_owned())
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.at).is_some_and(|next| next == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let next = self.next()?;
        (next == word)
            .then_some(())
            .ok_or_else(|| format!("{next:?} instead of {word:?}"))
    }

    fn operation(&mut self) -> Result<Vec<Selected>, String> {
        let root = match self.next()?.as_str() {
            "query" => "Query",
            "mutation" => "Mutation",
            other => return Err(format!("{other} is no operation")),
        };
        if self.takes("(") {
            while !self.takes(")") {
                let name = self.next()?.trim_start_matches('$').to_owned();
                self.expect(":")?;
                let mut kind = self.next()?;
                if self.takes("!") {
                    kind.push('!');
                }
                self.variables.insert(name, kind);
            }
        }
        self.expect("{")?;
        self.selection(root)
    }

    fn selection(&mut self, kind: &str) -> Result<Vec<Selected>, String> {
        let mut selected = Vec::new();
        while !self.takes("}") {
            let name = self.next()?;
            let field = &GRAPHQL["types"][kind][&name];
            let field_kind = field["type"]
                .as_str()
                .ok_or_else(|| format!("{kind} has no field {name}"))?;
            let mut given = Vec::new();
            if self.takes("(") {
                while !self.takes(")") {
                    let argument = self.next()?;
                    self.expect(":")?;
                    let wanted = field["args"][&argument]
                        .as_str()
                        .ok_or_else(|| format!("{name} takes no {argument}"))?;
                    self.value(wanted)?;
                    given.push(argument);
                }
            }
            let required = field["args"].as_object().into_iter().flatten();
            let mut required = required.filter(|(_, kind)| kind.as_str().unwrap().ends_with('!'));
            if let Some((argument, _)) = required.find(|(argument, _)| !given.contains(argument)) {
                return Err(format!("{name} needs {argument}"));
            }
            let inner = if self.takes("{") {
                self.selection(field_kind.trim_end_matches('!'))?
            } else {
                Vec::new()
            };
            selected.push(Selected(name, inner));
        }
        Ok(selected)
    }

    fn value(&mut self, wanted: &str) -> Result<(), String> {
        let wanted = wanted.trim_end_matches('!');
        if self.takes("{") {
            while !self.takes("}") {
                let field = self.next()?;
                self.expect(":")?;
                let kind = GRAPHQL["types"][wanted][&field]["type"]
                    .as_str()
                    .ok_or_else(|| format!("{wanted} has no field {field}"))?;
                self.value(kind)?;
            }
            return Ok(());
        }
        let word = self.next()?;
        let Some(name) = word.strip_prefix('$') else {
            return Ok(());
        };
        let kind = self
            .variables
            .get(name)
            .ok_or_else(|| format!("{word} is not declared"))?;
        if kind.trim_end_matches('!') == wanted {
            Ok(())
        } else {
            Err(format!("{word} is a {kind}, and {wanted} is wanted"))
        }
    }
}

#[test]
fn the_check_refuses_what_the_specification_refuses() {
    let check = |method, path, query, request: Value, status, answer: Value| {
        GITHUB.check(Exchange {
            method,
            path,
            query,
            request: &request,
            status,
            answer,
        })
    };
    let pulls = "/repos/o/r/pulls";
    let open = json!({"title": "t", "head": "b", "base": "main"});
    let fine = check("POST", pulls, "", open, 201, json!({"number": 7})).unwrap();
    assert_eq!(fine["number"], 7);
    assert!(fine["merged_at"].is_null() && fine["base"]["repo"]["owner"]["id"].is_u64());
    for (method, path, query, request, status, answer) in [
        ("GET", "/repos/o/r/pull", "", Value::Null, 200, json!([])),
        ("GET", pulls, "state=opened", Value::Null, 200, json!([])),
        ("GET", pulls, "page=one", Value::Null, 200, json!([])),
        ("GET", pulls, "limit=9", Value::Null, 200, json!([])),
        ("GET", pulls, "", Value::Null, 200, json!({})),
        ("GET", pulls, "", Value::Null, 200, json!([{"number": "7"}])),
        (
            "POST",
            pulls,
            "",
            json!({"title": "t", "head": "b"}),
            201,
            json!({}),
        ),
        (
            "POST",
            pulls,
            "",
            json!({"head": "b", "base": "m", "drafts": true}),
            201,
            json!({}),
        ),
        (
            "POST",
            pulls,
            "",
            json!({"head": "b", "base": "m"}),
            200,
            json!({}),
        ),
        ("GET", pulls, "", json!({"a": 1}), 200, json!([])),
    ] {
        let shown = format!("{method} {path}?{query} {request} {status} {answer}");
        let checked = check(method, path, query, request, status, answer);
        assert!(checked.is_err(), "{shown}");
    }
}

#[test]
fn a_query_of_graphql_is_checked_by_the_official_schema() {
    let resolve =
        "mutation($id:ID!){resolveReviewThread(input:{threadId:$id}){thread{isResolved}}}";
    let check = |query: &str, data: Value| {
        let request = json!({"query": query, "variables": {"id": "T1"}});
        check_graphql(&request, &json!({"data": data}))
    };
    let data = json!({"resolveReviewThread": {"thread": {"isResolved": true}}});
    assert_eq!(check(resolve, data.clone()), Ok(()));
    for (from, to) in [
        ("threadId", "id"),
        ("isResolved", "resolved"),
        ("ID!", "Int!"),
        ("$id", "$other"),
        ("resolveReviewThread", "resolveThread"),
        ("(input:{threadId:$id})", ""),
    ] {
        let wrong = resolve.replacen(from, to, 1);
        assert!(check(&wrong, data.clone()).is_err(), "{wrong}");
    }
    assert!(check(resolve, json!({"ok": {}})).is_err());
}
