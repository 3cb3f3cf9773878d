//! Forms for a new ticket and a new epic. Before anything is added, the person sees who will work,
//! what is checked, and what it will cost as far as that is known.

use std::collections::BTreeSet;

use axum::body::Bytes;
use axum::response::{IntoResponse, Redirect, Response};
use flow::ticket::Spec;
use flow::{Stage, TicketId};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::forms::SubmittedForm;
use super::layout::{PageFrame, form_token, icon, page};
use super::parts::encode;
use super::svg::{GraphNode, graph};
use super::{PageContext, PageError, PageResult, Viewer, html as respond, ticket};
use app::failure::Failure;
use app::operations::forecasts::{TicketPreview, preview_ticket};
use app::operations::plans::RunPlan;
use app::operations::questions::Question;
use app::operations::questions::tickets::{AddTicket, ImportFile};
use app::operations::tickets::recent_repositories;
use app::settings::ticket_fields::TITLE_CHARS_MAX;

/// Fields of a ticket in the form, as a person typed them.
#[derive(Debug, Default)]
struct TicketDraft {
    title: String,
    description: String,
    acceptance: String,
    repository: String,
    base: String,
    depends_on: String,
    epic: String,
    priority: String,
}

impl TicketDraft {
    fn from_form(form: &SubmittedForm) -> Self {
        let field = |name: &str| form.get(name).unwrap_or_default().trim().to_owned();
        Self {
            title: field("title"),
            description: field("description"),
            acceptance: field("acceptance"),
            repository: field("repository"),
            base: field("base"),
            depends_on: field("depends_on"),
            epic: field("epic"),
            priority: field("priority"),
        }
    }

    /// Builds the body of the same request that programs send.
    fn to_json(&self) -> Value {
        // Empty fields are left out, so that the defaults of the request count and not those of a
        // form.
        let mut fields = Map::new();
        let texts = [
            ("title", &self.title),
            ("description", &self.description),
            ("repository", &self.repository),
            ("base", &self.base),
            ("epic", &self.epic),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            fields.insert(name.to_owned(), json!(text));
        }
        fields.insert("acceptance".to_owned(), json!(lines(&self.acceptance)));
        fields.insert("depends_on".to_owned(), json!(words(&self.depends_on)));
        // The field's pattern allows only digits and a sign, so what cannot be parsed here is empty
        // or out of range.
        if let Ok(priority) = self.priority.parse::<i32>() {
            fields.insert("priority".to_owned(), json!(priority));
        }
        Value::Object(fields)
    }
}

fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

fn words(text: &str) -> Vec<&str> {
    let words = text.split([',', ' ']).map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

pub async fn ticket_page(context: Viewer) -> PageResult {
    let draft = TicketDraft {
        repository: only_repository(&context).await?,
        ..TicketDraft::default()
    };
    ticket_form(&context, &draft, None).await
}

/// Returns the repository if all recent tickets have the same one.
async fn only_repository(context: &PageContext) -> Result<String, Failure> {
    // With several repositories, a guess would send a ticket to the wrong one.
    let mut known = recent_repositories(&context.app).await?;
    Ok(match (known.pop_first(), known.is_empty()) {
        (Some(only), true) => only,
        _ => String::new(),
    })
}

async fn ticket_form(
    context: &PageContext,
    draft: &TicketDraft,
    preview: Option<&TicketPreview>,
) -> PageResult {
    let body = html! {
        p.crumbs { a href="/tickets" data-up { "Tickets" } " / New" }
        h1 { "New ticket" }
        @if context.may_change() {
            div.columns {
                form.panel method="post" action="/new" {
                    (form_token(context))
                    label for="title" { "Title: the wanted change in one sentence" }
                    input #title name="title" required maxlength=(TITLE_CHARS_MAX) value=(draft.title) autofocus;
                    label for="description" { "Description, in Markdown" }
                    textarea #description name="description" rows="8" { (draft.description) }
                    label for="acceptance" { "Acceptance criteria, one in each line" }
                    textarea #acceptance name="acceptance" rows="4" { (draft.acceptance) }
                    (repository_field(context, &draft.repository).await?)
                    div.row {
                        label { "Base branch " input name="base" value=(draft.base) placeholder="as configured"; }
                        label { "Priority " input name="priority" value=(draft.priority) inputmode="numeric" pattern="-?[0-9]*" placeholder="50" size="6"; }
                        label { "Epic " input name="epic" value=(draft.epic); }
                        label { "Depends on " input name="depends_on" value=(draft.depends_on) placeholder="ids, with commas"; }
                    }
                    div.choices {
                        button.primary type="submit" name="action" value="preview" { "Preview plan and forecast" }
                        @if preview.is_some() { button type="submit" name="action" value="add" { (icon("new")) "Add the ticket" } }
                    }
                }
                div { @match preview {
                    Some(preview) => { (plan(&preview.plan)) (ticket::forecast(&preview.forecast)) }
                    None => { section.panel { h2 { "Plan and forecast" } p.quiet { "The preview shows who builds and reviews, which checks run, and what a round will cost. Nothing starts before you add the ticket." } } }
                } }
            }
        } @else { p.notice { "Your role reads only." } }
    };
    let frame = PageFrame {
        title: "New ticket",
        section: "/tickets",
        topic: None,
    };
    Ok(respond(page(context, frame, &body).await?))
}

async fn repository_field(context: &PageContext, value: &str) -> Result<Markup, Failure> {
    let known = recent_repositories(&context.app).await?;
    Ok(html! {
        label for="repository" { "Repository: a path on the server" }
        input #repository name="repository" required value=(value) list="repositories" spellcheck="false";
        datalist #repositories { @for path in &known { option value=(path) {} } }
    })
}

/// Renders who will work on a ticket, and what is checked.
pub fn plan(plan: &RunPlan) -> Markup {
    html! {
        section.panel {
            h2 { "Plan" }
            dl.facts {
                dt { "Base" } dd { code { (plan.base) } }
                dt { "Builder" } dd { (plan.builder.as_deref().unwrap_or("none configured")) }
                @for reviewer in &plan.reviewers {
                    dt { "Reviewer" } dd {
                        (reviewer.name)
                        @if let Some(by) = &reviewer.by { " by " (by) }
                        @if reviewer.second_reviewer { span.meta { " after the others approved" } }
                    }
                }
                @if let Some(verifier) = &plan.verifier { dt { "Verifier" } dd { (verifier) } }
                dt { "Checks" } dd { @if plan.checks.is_empty() { "none" } @else { (plan.checks.join(", ")) } }
                dt { "Rounds" } dd { "at most " (plan.max_rounds) }
            }
            @for remark in &plan.remarks { p.quiet { (remark) } }
        }
    }
}

pub async fn add_ticket(context: Viewer, body: Bytes) -> Result<Response, PageError> {
    let form = SubmittedForm::parse(&body)?;
    let app = form.acting(&context)?;
    let draft = TicketDraft::from_form(&form);
    // Enter in a field submits the first button, so that one must be the harmless one.
    if form.get("action") != Some("add") {
        let spec = Spec {
            title: draft.title.clone(),
            description: draft.description.clone(),
            ..Spec::default()
        };
        // The plan depends on the repository and its rules, so an incomplete ticket has one too.
        let preview = preview_ticket(&app, &draft.repository, spec).await;
        let preview = preview.map_err(|failure| PageError::from(failure).back_to("/new"))?;
        return Ok(ticket_form(&context, &draft, Some(&preview))
            .await?
            .into_response());
    }
    // The same struct as REST reads, so that a limit of one is a limit of the other.
    let question: Result<AddTicket, _> = serde_json::from_value(draft.to_json());
    let question = question.map_err(Failure::usage)?;
    let added = question.answer(&app).await;
    let added = added.map_err(|failure| PageError::from(failure).back_to("/new"))?;
    // A redirect, so that reloading the page does not add the ticket again.
    Ok(Redirect::to(&format!("/tickets/{}", added.id)).into_response())
}

/// A new epic as a person typed it: one ticket in each line.
#[derive(Debug, Default)]
struct EpicDraft {
    id: String,
    title: String,
    repository: String,
    tickets: String,
    coordination: String,
}

/// One line of an epic: `id: Title (after other, third)`.
#[derive(Debug, PartialEq, Eq)]
struct EpicLine<'a> {
    id: &'a str,
    title: &'a str,
    needs: Vec<&'a str>,
}

fn parse_line(line: &str) -> Option<EpicLine<'_>> {
    let (id, rest) = line.split_once(':')?;
    let (title, needs) = match rest
        .trim()
        .strip_suffix(')')
        // From the right: a title may have parentheses of its own.
        .and_then(|rest| rest.rsplit_once("(after "))
    {
        Some((title, needs)) => (title.trim(), words(needs)),
        None => (rest.trim(), Vec::new()),
    };
    (!id.trim().is_empty() && !title.is_empty()).then(|| EpicLine {
        id: id.trim(),
        title,
        needs,
    })
}

impl EpicDraft {
    fn from_form(form: &SubmittedForm) -> Self {
        let field = |name: &str| form.get(name).unwrap_or_default().trim().to_owned();
        Self {
            id: field("id"),
            title: field("title"),
            repository: field("repository"),
            tickets: field("tickets"),
            coordination: field("coordination"),
        }
    }

    fn lines(&self) -> Result<Vec<EpicLine<'_>>, Failure> {
        let mut all = Vec::new();
        for line in lines(&self.tickets) {
            // One bad line refuses the epic, because a line that is left out would change the order
            // of the others.
            let parsed = parse_line(line).ok_or_else(|| {
                Failure::usage(format!("{line:?} is not a ticket"))
                    .hint("write: id: Title (after other-id)")
            })?;
            all.push(parsed);
        }
        Ok(all)
    }

    /// Builds the epic's file. JSON is YAML as well.
    fn to_file(&self) -> Result<String, Failure> {
        let tickets: Vec<Value> = self
            .lines()?
            .into_iter()
            .map(|line| json!({"id": line.id, "title": line.title, "depends_on": line.needs}))
            .collect();
        let file = json!({"id": self.id, "title": self.title, "tickets": tickets,
            "coordination": lines(&self.coordination)});
        Ok(file.to_string())
    }

    /// Returns the tickets as nodes of a graph. Ids that are none are left out; adding refuses them.
    fn nodes(&self) -> Result<Vec<GraphNode>, Failure> {
        let nodes = self.lines()?.into_iter().filter_map(|line| {
            let needs = line
                .needs
                .iter()
                .filter_map(|need| TicketId::new(need).ok());
            Some(GraphNode {
                id: TicketId::new(line.id).ok()?,
                title: line.title.to_owned(),
                stage: Stage::Pending,
                needs: needs.collect::<BTreeSet<TicketId>>(),
            })
        });
        Ok(nodes.collect())
    }
}

pub async fn epic_page(context: Viewer) -> PageResult {
    let draft = EpicDraft {
        repository: only_repository(&context).await?,
        ..EpicDraft::default()
    };
    epic_form(&context, &draft, None).await
}

/// Preview of an epic: its plan, and the forecast of each ticket's first round.
struct EpicPreview {
    nodes: Vec<GraphNode>,
    first: TicketPreview,
}

async fn epic_form(
    context: &PageContext,
    draft: &EpicDraft,
    preview: Option<&EpicPreview>,
) -> PageResult {
    let body = html! {
        p.crumbs { a href="/epics" data-up { "Epics" } " / New" }
        h1 { "New epic" }
        @if context.may_change() {
            div.columns {
                form.panel method="post" action="/epics/new" {
                    (form_token(context))
                    label for="title" { "Title" }
                    input #title name="title" required maxlength=(TITLE_CHARS_MAX) value=(draft.title) autofocus;
                    label for="id" { "Id, such as greetings" }
                    input #id name="id" required value=(draft.id) spellcheck="false";
                    label for="tickets" { "Tickets, one in each line" }
                    textarea #tickets name="tickets" required rows="8" spellcheck="false"
                        placeholder="greet-by-name: Greet by name\ngreet-politely: Greet politely (after greet-by-name)" { (draft.tickets) }
                    label for="coordination" { "Requirements for every ticket, one in each line" }
                    textarea #coordination name="coordination" rows="3" { (draft.coordination) }
                    (repository_field(context, &draft.repository).await?)
                    div.choices {
                        button.primary type="submit" name="action" value="preview" { "Preview plan and forecast" }
                        @if preview.is_some() { button type="submit" name="action" value="add" { (icon("new")) "Add the epic" } }
                    }
                }
                div { @match preview {
                    Some(preview) => {
                        (plan(&preview.first.plan))
                        p.meta { (preview.nodes.len()) " tickets; the forecast is that of the first round of one of them." }
                        (ticket::forecast(&preview.first.forecast))
                    }
                    None => { section.panel { h2 { "Plan and forecast" } p.quiet { "The preview draws the order of the tickets and shows who builds and reviews them. Nothing starts before you add the epic." } } }
                } }
            }
            @if let Some(preview) = preview { (graph(&preview.nodes)) }
        } @else { p.notice { "Your role reads only." } }
    };
    let frame = PageFrame {
        title: "New epic",
        section: "/epics",
        topic: None,
    };
    Ok(respond(page(context, frame, &body).await?))
}

pub async fn add_epic(context: Viewer, body: Bytes) -> Result<Response, PageError> {
    let form = SubmittedForm::parse(&body)?;
    let app = form.acting(&context)?;
    let draft = EpicDraft::from_form(&form);
    let back = |failure: Failure| PageError::from(failure).back_to("/epics/new");
    if form.get("action") != Some("add") {
        let nodes = draft.nodes().map_err(back)?;
        let spec = Spec {
            title: draft.title.clone(),
            ..Spec::default()
        };
        let first = preview_ticket(&app, &draft.repository, spec)
            .await
            .map_err(back)?;
        let preview = EpicPreview { nodes, first };
        return Ok(epic_form(&context, &draft, Some(&preview))
            .await?
            .into_response());
    }
    let question = ImportFile {
        name: "epic.yaml".to_owned(),
        text: draft.to_file().map_err(back)?,
        repository: Some(draft.repository.clone()),
    };
    question.answer(&app).await.map_err(back)?;
    Ok(Redirect::to(&format!("/epics/{}", encode(&draft.id))).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_an_epic_has_an_id_a_title_and_what_it_needs() {
        let line = parse_line("b: Greet (politely) (after a, c)").unwrap();
        assert_eq!((line.id, line.title), ("b", "Greet (politely)"));
        assert_eq!(line.needs, ["a", "c"]);
        assert!(parse_line("a: Greet").unwrap().needs.is_empty());
        for bad in ["Greet", ": Greet", "a:"] {
            assert_eq!(parse_line(bad), None, "{bad}");
        }
    }
}
