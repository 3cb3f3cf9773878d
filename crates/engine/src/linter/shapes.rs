//! The exact shapes of JSON reports without results, by linter.
//!
//! A report is clean only if every key is one that the linter writes, every value has the type that
//! the linter gives it, and every list and count of results is empty. One more key, or another
//! type, makes the report unknown: it may be a failure that this table does not know.

use serde_json::{Map, Value};

/// Content that a key of a clean report must have.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// An empty list of results or failures.
    NoItems,
    /// An empty list, an empty object or null, as some linters write one or the other.
    Nothing,
    /// The number zero.
    Zero,
    /// A count of work done, greater than zero.
    Work,
    /// Any number that is not negative.
    Number,
    /// A short text that names something.
    Name,
    /// The flag `false`.
    No,
    /// A list of names, which says nothing about the code.
    Facts,
    /// An object about rules, versions or times, which says nothing about the code.
    Info,
    /// An object of this shape.
    Object(&'static [Field]),
    /// A list of objects of this shape, with at least one.
    Items(&'static [Field]),
    /// An object whose values are all zero.
    Zeros,
}

/// A key, its content, and whether it must be there.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    key: &'static str,
    kind: Kind,
    required: bool,
}

const fn must(key: &'static str, kind: Kind) -> Field {
    Field {
        key,
        kind,
        required: true,
    }
}

const fn may(key: &'static str, kind: Kind) -> Field {
    Field {
        key,
        kind,
        required: false,
    }
}

/// A report without results.
struct Shape {
    tools: &'static [&'static str],
    /// Whether the report is a list of such objects, one for each file.
    list: bool,
    fields: &'static [Field],
}

const SHAPES: [Shape; 16] = [
    Shape {
        tools: &["eslint", "eslint_d"],
        list: true,
        fields: &[
            must("filePath", Kind::Name),
            must("messages", Kind::NoItems),
            may("suppressedMessages", Kind::Facts),
            must("errorCount", Kind::Zero),
            may("fatalErrorCount", Kind::Zero),
            must("warningCount", Kind::Zero),
            may("fixableErrorCount", Kind::Zero),
            may("fixableWarningCount", Kind::Zero),
            may("usedDeprecatedRules", Kind::Facts),
            may("stats", Kind::Info),
        ],
    },
    Shape {
        tools: &["stylelint"],
        list: true,
        fields: &[
            must("source", Kind::Name),
            may("deprecations", Kind::NoItems),
            may("invalidOptionWarnings", Kind::NoItems),
            may("parseErrors", Kind::NoItems),
            must("errored", Kind::No),
            must("warnings", Kind::NoItems),
        ],
    },
    Shape {
        tools: &["bandit"],
        list: false,
        fields: &[
            must("errors", Kind::NoItems),
            must("generated_at", Kind::Name),
            must("metrics", Kind::Info),
            must("results", Kind::NoItems),
        ],
    },
    Shape {
        tools: &["semgrep", "opengrep"],
        list: false,
        fields: &[
            may("version", Kind::Name),
            must("results", Kind::NoItems),
            must("errors", Kind::NoItems),
            may(
                "paths",
                Kind::Object(&[
                    may("scanned", Kind::Facts),
                    may("skipped", Kind::NoItems),
                    may("_comment", Kind::Name),
                ]),
            ),
            may("skipped_rules", Kind::NoItems),
            may("interfile_languages_used", Kind::Facts),
            may("engine_requested", Kind::Name),
            may("time", Kind::Info),
            may("profiling_results", Kind::NoItems),
        ],
    },
    Shape {
        tools: &["shellcheck"],
        list: false,
        fields: &[must("comments", Kind::NoItems)],
    },
    Shape {
        tools: &["golangci-lint"],
        list: false,
        fields: &[
            must("Issues", Kind::Nothing),
            must(
                "Report",
                Kind::Object(&[
                    must("Linters", Kind::Facts),
                    may("Warnings", Kind::Nothing),
                    may("Error", Kind::Nothing),
                ]),
            ),
        ],
    },
    Shape {
        tools: &["phpstan"],
        list: false,
        fields: &[
            must(
                "totals",
                Kind::Object(&[must("errors", Kind::Zero), must("file_errors", Kind::Zero)]),
            ),
            must("files", Kind::Nothing),
            must("errors", Kind::NoItems),
        ],
    },
    Shape {
        tools: &["pyright", "basedpyright"],
        list: false,
        fields: &[
            must("version", Kind::Name),
            must("time", Kind::Name),
            must("generalDiagnostics", Kind::NoItems),
            must(
                "summary",
                Kind::Object(&[
                    must("filesAnalyzed", Kind::Work),
                    must("errorCount", Kind::Zero),
                    must("warningCount", Kind::Zero),
                    must("informationCount", Kind::Zero),
                    may("timeInSec", Kind::Number),
                ]),
            ),
        ],
    },
    Shape {
        tools: &["rubocop", "standardrb"],
        list: false,
        fields: &[
            must("metadata", Kind::Info),
            must(
                "files",
                Kind::Items(&[must("path", Kind::Name), must("offenses", Kind::NoItems)]),
            ),
            must(
                "summary",
                Kind::Object(&[
                    must("offense_count", Kind::Zero),
                    must("target_file_count", Kind::Work),
                    must("inspected_file_count", Kind::Work),
                ]),
            ),
        ],
    },
    Shape {
        tools: &["biome"],
        list: false,
        fields: &[
            must(
                "summary",
                Kind::Object(&[
                    must("changed", Kind::Zero),
                    must("unchanged", Kind::Work),
                    may("matches", Kind::Number),
                    may("duration", Kind::Info),
                    may("scannerDuration", Kind::Info),
                    must("errors", Kind::Zero),
                    must("warnings", Kind::Zero),
                    may("infos", Kind::Zero),
                    may("skipped", Kind::Zero),
                    may("suggestedFixesSkipped", Kind::Zero),
                    may("diagnosticsNotPrinted", Kind::Zero),
                ]),
            ),
            must("diagnostics", Kind::NoItems),
            must("command", Kind::Name),
        ],
    },
    Shape {
        tools: &["npm", "npm audit"],
        list: false,
        fields: &[
            must("auditReportVersion", Kind::Number),
            must("vulnerabilities", Kind::Nothing),
            must(
                "metadata",
                Kind::Object(&[
                    must("vulnerabilities", Kind::Zeros),
                    may("dependencies", Kind::Info),
                ]),
            ),
        ],
    },
    Shape {
        tools: &["reviewdog"],
        list: false,
        fields: &[
            may("source", Kind::Info),
            may("severity", Kind::Name),
            must("diagnostics", Kind::NoItems),
        ],
    },
    Shape {
        tools: &["tflint"],
        list: false,
        fields: &[must("issues", Kind::NoItems), must("errors", Kind::NoItems)],
    },
    Shape {
        tools: &["pylint"],
        list: false,
        fields: &[
            must("messages", Kind::NoItems),
            must(
                "statistics",
                Kind::Object(&[
                    must("messageTypeCount", Kind::Zeros),
                    must("modulesLinted", Kind::Work),
                    may("score", Kind::Number),
                ]),
            ),
        ],
    },
    Shape {
        tools: &["oxlint"],
        list: false,
        fields: &[
            must("diagnostics", Kind::NoItems),
            must("number_of_files", Kind::Work),
            may("number_of_rules", Kind::Number),
            may("threads_count", Kind::Number),
            may("start_time", Kind::Number),
        ],
    },
    Shape {
        tools: &["gosec"],
        list: false,
        fields: &[
            must("Golang errors", Kind::Nothing),
            must("Issues", Kind::NoItems),
            must(
                "Stats",
                Kind::Object(&[
                    must("files", Kind::Work),
                    must("lines", Kind::Number),
                    must("nosec", Kind::Number),
                    must("found", Kind::Zero),
                ]),
            ),
            may("GosecVersion", Kind::Name),
        ],
    },
];

/// Returns whether a report has exactly the shape of one without results. A linter with a shape of
/// its own is held to it; an unknown command may print the report of any known one.
pub fn is_clean(report: &Value, tool: Option<&str>) -> bool {
    let own: Vec<&Shape> = SHAPES
        .iter()
        .filter(|shape| tool.is_some_and(|tool| shape.tools.contains(&tool)))
        .collect();
    let any = own.is_empty();
    SHAPES
        .iter()
        .filter(|shape| any || own.iter().any(|own| std::ptr::eq(*own, *shape)))
        .any(|shape| match report {
            Value::Array(items) if shape.list => {
                !items.is_empty() && items.iter().all(|item| has_fields(item, shape.fields))
            }
            Value::Object(_) if !shape.list => {
                has_fields(report, shape.fields) && counts_agree(report)
            }
            _ => false,
        })
}

fn has_fields(value: &Value, fields: &[Field]) -> bool {
    let Value::Object(object) = value else {
        return false;
    };
    let known = object.iter().all(|(key, value)| {
        fields
            .iter()
            .any(|field| field.key == key && is_kind(value, field.kind))
    });
    known
        && fields
            .iter()
            .all(|field| !field.required || object.contains_key(field.key))
}

fn is_kind(value: &Value, kind: Kind) -> bool {
    match kind {
        Kind::NoItems => value.as_array().is_some_and(Vec::is_empty),
        Kind::Nothing => match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        },
        Kind::Zero => value.as_u64() == Some(0),
        Kind::Work => value.as_u64().is_some_and(|count| count > 0),
        Kind::Number => value.as_f64().is_some_and(|number| number >= 0.0),
        Kind::Name => value
            .as_str()
            .is_some_and(|text| !text.is_empty() && text.len() < 4096 && !text.contains('\n')),
        Kind::No => value.as_bool() == Some(false),
        Kind::Facts => value.is_array(),
        Kind::Info => value.is_object(),
        Kind::Object(fields) => has_fields(value, fields),
        Kind::Items(fields) => value.as_array().is_some_and(|items| {
            !items.is_empty() && items.iter().all(|item| has_fields(item, fields))
        }),
        Kind::Zeros => value.as_object().is_some_and(|object| {
            !object.is_empty() && object.values().all(|count| count.as_u64() == Some(0))
        }),
    }
}

/// Returns whether the counts of files in a summary agree with each other and with the list.
fn counts_agree(report: &Value) -> bool {
    let summary = &report["summary"];
    let counts = (
        summary["target_file_count"].as_u64(),
        summary["inspected_file_count"].as_u64(),
    );
    match counts {
        (Some(targets), Some(inspected)) => {
            let listed = report["files"].as_array().map_or(0, Vec::len) as u64;
            targets == inspected && listed == inspected
        }
        _ => true,
    }
}

/// Top-level keys of SARIF, and the keys of a run, that say nothing against the run.
const SARIF_KEYS: [&str; 4] = ["$schema", "version", "runs", "properties"];
const RUN_KEYS: [&str; 16] = [
    "tool",
    "results",
    "invocations",
    "artifacts",
    "columnKind",
    "originalUriBaseIds",
    "properties",
    "automationDetails",
    "versionControlProvenance",
    "language",
    "taxonomies",
    "translations",
    "policies",
    "defaultEncoding",
    "newlineSequences",
    "logicalLocations",
];

/// Returns whether SARIF has only known keys, runs of named tools, and no results.
pub fn is_clean_sarif(report: &Map<String, Value>) -> bool {
    let runs = report.get("runs").and_then(Value::as_array);
    report.keys().all(|key| SARIF_KEYS.contains(&key.as_str()))
        && report.get("version").is_some_and(Value::is_string)
        && runs.is_some_and(|runs| !runs.is_empty() && runs.iter().all(is_clean_run))
}

fn is_clean_run(run: &Value) -> bool {
    let Value::Object(fields) = run else {
        return false;
    };
    let invocations = match fields.get("invocations") {
        None => true,
        Some(Value::Array(list)) => list.iter().all(|one| one["executionSuccessful"] == true),
        Some(_) => false,
    };
    fields.keys().all(|key| RUN_KEYS.contains(&key.as_str()))
        && fields.get("tool").is_some_and(Value::is_object)
        && is_kind(&run["results"], Kind::NoItems)
        && invocations
}
