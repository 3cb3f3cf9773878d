//! Values of options whose type belongs to `app`, which does not depend on clap.

use app::operations::export::ExportFormat as ExportForm;
use app::operations::findings::ConvertFormat as ReviewForm;
use app::operations::tickets::BudgetScope;
use app::settings::schema::SchemaKind;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Name, help text and value of an option's choice.
type ValueRow<T> = (&'static str, &'static str, T);

fn one_of<T: Copy + Send + Sync>(all: &'static [ValueRow<T>]) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|(name, help, _)| {
        let value = PossibleValue::new(*name);
        if help.is_empty() {
            value
        } else {
            value.help(*help)
        }
    });
    PossibleValuesParser::new(values).try_map(move |given| {
        let found = all.iter().find(|(name, ..)| *name == given);
        found
            .map(|(.., value)| *value)
            .ok_or("not one of the values")
    })
}

pub fn schema() -> impl TypedValueParser<Value = SchemaKind> {
    one_of(&[
        ("config", "`countersign.toml`", SchemaKind::Config),
        (
            "ticket",
            "The front matter of a ticket, or a whole ticket in YAML",
            SchemaKind::Ticket,
        ),
        ("epic", "An epic in YAML", SchemaKind::Epic),
    ])
}

pub fn export_form() -> impl TypedValueParser<Value = ExportForm> {
    one_of(&[
        (
            "epic-state",
            "An epic-state.json with all tickets",
            ExportForm::EpicState,
        ),
        ("task", "A task file, JSON", ExportForm::Task),
        (
            "findings",
            "A findings document, Markdown",
            ExportForm::Findings,
        ),
        (
            "report",
            "The `ReviewReport` of the last round",
            ExportForm::Report,
        ),
        (
            "revision",
            "The revision context of the last round, JSON",
            ExportForm::Revision,
        ),
    ])
}

pub fn review_form() -> impl TypedValueParser<Value = ReviewForm> {
    one_of(&[
        ("json", "Countersign's own JSON", ReviewForm::Json),
        (
            "document",
            "Findings document, Markdown",
            ReviewForm::Document,
        ),
        (
            "checklist",
            "Numbered checklist, Markdown",
            ReviewForm::Checklist,
        ),
        (
            "qa",
            "JSON array of findings for an engineer's task",
            ReviewForm::Qa,
        ),
        ("report", "`ReviewReport` JSON", ReviewForm::Report),
        (
            "rework",
            "Rework context for a builder, Markdown",
            ReviewForm::Rework,
        ),
        ("sarif", "SARIF 2.1.0", ReviewForm::Sarif),
        ("rdjson", "reviewdog's JSON", ReviewForm::Rdjson),
        ("rdjsonl", "reviewdog's JSON lines", ReviewForm::Rdjsonl),
        ("gitlab", "GitLab code quality", ReviewForm::Gitlab),
        ("checkstyle", "Checkstyle XML", ReviewForm::Checkstyle),
        (
            "junit",
            "JUnit XML: must-fix findings fail, the rest is skipped",
            ReviewForm::Junit,
        ),
        (
            "github-annotations",
            "GitHub workflow commands",
            ReviewForm::GithubAnnotations,
        ),
        (
            "github-review",
            "GitHub review; comments only on lines in the diff (--diff)",
            ReviewForm::GithubReview,
        ),
        (
            "summary",
            "Markdown summary with a hidden marker, so that a comment can be updated",
            ReviewForm::Summary,
        ),
    ])
}

pub fn budget_scope() -> impl TypedValueParser<Value = BudgetScope> {
    one_of(&[
        ("round", "", BudgetScope::Round),
        ("ticket", "", BudgetScope::Ticket),
        ("day", "", BudgetScope::Day),
    ])
}
