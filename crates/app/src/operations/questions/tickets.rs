//! Requests that list, show, add, import and export tickets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use flow::forecast::Forecast;
use flow::{Stage, TicketId};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{Stored, StoredEvent, TicketOrder, TicketQuery, TicketRow, TicketSort};

use super::{Items, Method, Question, TicketSummary, format_cursor, page, parse_cursor};
use crate::failure::Failure;
use crate::fields::read_fields;
use crate::operations::diff::{self, DiffSelection, RoundDiff};
use crate::operations::export::{self, ExportFormat};
use crate::operations::run_files::{self, ArtefactEntry, TicketRun};
use crate::operations::tickets::{self, AddedTicket};
use crate::operations::{App, epics, forecasts, history, parse_ticket_id, project};
use crate::settings::import::{self, ImportReport};
use crate::settings::ticket_fields::{self, TicketFields};
use crate::settings::ticket_file::{TicketRequest, id_for};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListTickets {
    /// Stages, separated by commas.
    pub stage: Option<String>,
    /// The `next` of the previous page.
    pub after: Option<String>,
    pub limit: Option<u32>,
    /// Words that all occur in the id, the title or the epic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epic: Option<String>,
    /// Column to sort by, lowest first; with `-` before it, highest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// Also counts all tickets of the other filters by stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<bool>,
    /// Only tickets of this repository: a path in it, or its common git directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Only tickets whose ids begin with this text; the other filters are then not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

impl ListTickets {
    /// Joins stages for the query; an empty list gives `None`, which means all stages.
    pub fn join_stages(stages: &[Stage]) -> Option<String> {
        let words: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
        (!words.is_empty()).then(|| words.join(","))
    }
}

/// One page of a list of tickets.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TicketList {
    pub items: Vec<TicketRow>,
    /// The `after` of the next page; `null` on the last page.
    pub next: Option<String>,
    /// Number of tickets in each stage that has any, if it was asked for. The filter by stage does
    /// not count, so that every stage has its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<BTreeMap<Stage, u64>>,
}

/// Most characters of a search.
const SEARCH_CHARS_MAX: usize = 500;

#[async_trait]
impl Question for ListTickets {
    type Answer = TicketList;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let repository = project::repository_name(app, self.repository).await;
        if let Some(prefix) = &self.prefix {
            let most = page(None, self.limit).most as usize;
            let items = tickets::with_prefix(app, prefix, repository, most).await?;
            return Ok(TicketList {
                items,
                next: None,
                counts: None,
            });
        }
        let words = self.stage.iter().flat_map(|words| words.split(','));
        let stages = words.map(parse_stage).collect::<Result<_, _>>()?;
        let search = self.q.as_deref().unwrap_or_default();
        if search.chars().count() > SEARCH_CHARS_MAX {
            let why = format!("q is longer than {SEARCH_CHARS_MAX} characters");
            return Err(Failure::usage(why));
        }
        let order = self
            .sort
            .as_deref()
            .map_or(Ok(TicketOrder::default()), parse_order)?;
        let position = self
            .after
            .as_deref()
            .map(|text| parse_position(text, order));
        let position = position.transpose()?;
        let query = TicketQuery {
            stages,
            epic: self.epic,
            repository,
            words: search.split_whitespace().map(str::to_owned).collect(),
            order,
            after_value: position.and_then(|(value, _)| value),
            ..TicketQuery::default()
        };
        let after = position.map(|(_, number)| number);
        let counts = match self.counts {
            Some(true) => Some(tickets::count(app, query.clone()).await?),
            Some(false) | None => None,
        };
        let rows = tickets::search(app, query, &page(after, self.limit)).await?;
        let last = rows.items.last().filter(|_| rows.next.is_some());
        Ok(TicketList {
            next: last.map(|row| format_position(row, order)),
            items: rows.items,
            counts: counts.map(|counts| counts.into_iter().collect()),
        })
    }
}

/// Parses an order such as `created` (oldest first) or `-cost` (highest first).
pub(crate) fn parse_order(text: &str) -> Result<TicketOrder, Failure> {
    let (ascending, word) = match text.strip_prefix('-') {
        Some(word) => (false, word),
        None => (true, text),
    };
    let by = TicketSort::ALL.into_iter().find(|by| by.word() == word);
    let by = by.ok_or_else(|| {
        let words = TicketSort::ALL.map(TicketSort::word);
        Failure::usage(format!("tickets cannot be sorted by {word:?}"))
            .hint(format!("use one of {}", words.join(", ")))
    })?;
    Ok(TicketOrder { by, ascending })
}

/// Formats the position of a ticket in a list: its number, and before it the value of the column
/// that the list is sorted by.
pub(crate) fn format_position(row: &TicketRow, order: TicketOrder) -> String {
    match order.by {
        TicketSort::Created => row.number.to_string(),
        by => format!("{}.{}", by.value(row), row.number),
    }
}

pub(crate) fn parse_position(
    text: &str,
    order: TicketOrder,
) -> Result<(Option<i64>, i64), Failure> {
    let read = || {
        if order.by == TicketSort::Created {
            return Some((None, text.parse().ok()?));
        }
        let (value, number) = text.split_once('.')?;
        Some((Some(value.parse().ok()?), number.parse().ok()?))
    };
    read().ok_or_else(|| {
        Failure::usage(format!("{text:?} is not a position in this list"))
            .hint("send the `next` of the previous page, with the same `sort`")
    })
}

pub fn parse_stage(word: &str) -> Result<Stage, Failure> {
    Stage::parse(word).ok_or_else(|| {
        let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
        Failure::usage(format!("{word:?} is not a stage"))
            .hint(format!("stages are {}", words.join(", ")))
    })
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowTicket {
    pub ticket: String,
}

#[async_trait]
impl Question for ShowTicket {
    type Answer = Stored;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &Stored) -> Option<u64> {
        Some(answer.ticket.version)
    }

    async fn answer(self, app: &App) -> Result<Stored, Failure> {
        app.ticket(&self.ticket).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForecastTicket {
    pub ticket: String,
}

#[async_trait]
impl Question for ForecastTicket {
    type Answer = Forecast;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/forecast";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<Forecast, Failure> {
        forecasts::forecast_ticket(app, &app.ticket(&self.ticket).await?).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArtefacts {
    pub ticket: String,
}

/// Files of a ticket's rounds, on the machine that has its data.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ArtefactList {
    pub data_dir: PathBuf,
    pub items: Vec<ArtefactEntry>,
}

#[async_trait]
impl Question for ListArtefacts {
    type Answer = ArtefactList;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/artefacts";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<ArtefactList, Failure> {
        let id = parse_ticket_id(&self.ticket)?;
        Ok(ArtefactList {
            data_dir: app.environment.data_dir.clone(),
            items: run_files::list_artefacts(app, &id).await?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    pub ticket: String,
}

#[async_trait]
impl Question for ListRuns {
    type Answer = Items<TicketRun>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/runs";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let items = run_files::list_runs(app, &self.ticket).await?;
        Ok(Items { items })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowDiff {
    pub ticket: String,
    #[serde(default)]
    pub round: Option<u32>,
    /// The same as `round`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_round: Option<u32>,
    /// Compares with the commit of this round instead of the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_round: Option<u32>,
    /// Only this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl ShowDiff {
    /// Asks for the whole diff of a round against its base.
    pub fn of_round(ticket: String, round: Option<u32>) -> Self {
        Self {
            ticket,
            round,
            to_round: None,
            from_round: None,
            file: None,
        }
    }
}

#[async_trait]
impl Question for ShowDiff {
    type Answer = RoundDiff;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/diff";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<RoundDiff, Failure> {
        if self.round.is_some() && self.to_round.is_some() {
            return Err(Failure::usage(
                "round and to_round say the same: send one of them",
            ));
        }
        let selection = DiffSelection {
            round: self.round.or(self.to_round),
            from_round: self.from_round,
            file: self.file,
        };
        diff::load_selected_diff(app, &self.ticket, &selection).await
    }
}

/// Reads the events of a ticket in the order of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    pub ticket: String,
    /// `12.345`: only events after this position.
    #[serde(default)]
    pub after: Option<String>,
    #[serde(default)]
    pub limit: Option<u32>,
}

/// One page of events.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    pub items: Vec<StoredEvent>,
    /// The `after` of the next page; `null` if there is no further event yet.
    pub next: Option<String>,
}

#[async_trait]
impl Question for ListEvents {
    type Answer = EventPage;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/events";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<EventPage, Failure> {
        let after = self.after.as_deref().map(parse_cursor).transpose();
        let after = after.map_err(Failure::usage)?.unwrap_or_default();
        let most = page(None, self.limit).most;
        let id = parse_ticket_id(&self.ticket)?;
        let (items, more) = history::events_page(app, &id, after, most).await?;
        let last = items.last().filter(|_| more);
        Ok(EventPage {
            next: last.map(|event| format_cursor(event.cursor)),
            items,
        })
    }
}

/// Adds one ticket of a repository on the server. The fields are those of a ticket file.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddTicket {
    #[serde(default)]
    repository: Option<String>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl JsonSchema for AddTicket {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AddTicket".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ticket_fields::schema(generator);
        schema.insert("required".to_owned(), json!(["title", "repository"]));
        if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let title =
                json!({"type": "string", "description": "The wanted change in one sentence."});
            fields.insert("title".to_owned(), title);
            let path = json!({"type": "string", "description": "A path on the server."});
            fields.insert("repository".to_owned(), path);
        }
        schema
    }
}

#[async_trait]
impl Question for AddTicket {
    type Answer = TicketSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets";
    const CREATES: bool = true;

    async fn answer(self, app: &App) -> Result<TicketSummary, Failure> {
        let repository = self.repository.clone();
        let mut request = self.into_request()?;
        let path = require_repository(repository.as_deref())?;
        let policy = project::assign_repository(app, path, &mut request.spec).await?;
        let id = request
            .id
            .clone()
            .unwrap_or_else(|| id_for(&request.spec.title));
        tickets::add(app, vec![request], &policy).await?;
        Ok(TicketSummary::from_ticket(
            &app.ticket(id.as_str()).await?.ticket,
        ))
    }
}

/// Returns the repository of new tickets. Without one nobody could work on them.
fn require_repository(path: Option<&str>) -> Result<&str, Failure> {
    path.ok_or_else(|| {
        Failure::usage("no repository is named, so nobody could work on the ticket")
            .hint("send `repository`, a path on the server; on the command line: --repository PATH")
    })
}

impl AddTicket {
    fn into_request(self) -> Result<TicketRequest, Failure> {
        let fields: TicketFields =
            read_fields(&Value::Object(self.fields)).map_err(Failure::usage)?;
        let mut request = fields.into_request("the ticket")?;
        let id = request.id.take();
        request.id = id.or_else(|| Some(id_for(&request.spec.title)));
        Ok(request)
    }
}

/// Adds several tickets at once; they may depend on each other.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddTickets {
    /// Each ticket has an optional id and its specification.
    #[schemars(with = "Vec<Value>")]
    pub tickets: Vec<TicketRequest>,
    /// A path on the server: the repository of the tickets.
    #[serde(default)]
    pub repository: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AddedTickets {
    pub tickets: Vec<AddedTicket>,
}

#[async_trait]
impl Question for AddTickets {
    type Answer = AddedTickets;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/batches";
    const CREATES: bool = true;

    async fn answer(self, app: &App) -> Result<AddedTickets, Failure> {
        let mut requests = self.tickets;
        let path = Path::new(require_repository(self.repository.as_deref())?);
        let policy = project::assign_current_repository(app, path, &mut requests).await?;
        let tickets = tickets::add(app, requests, &policy).await?;
        Ok(AddedTickets { tickets })
    }
}

/// Imports an epic or a file of another system, in any format that `countersign import` reads.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportFile {
    /// The file's name; its extension tells the format.
    pub name: String,
    pub text: String,
    /// A path on the server: the repository of the tickets.
    #[serde(default)]
    pub repository: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImportedFile {
    pub tickets: Vec<AddedTicket>,
    /// Tickets of the file that were there before. They stay as they are.
    #[serde(default)]
    pub existing: Vec<TicketId>,
    #[serde(default)]
    pub report: ImportReport,
}

#[async_trait]
impl Question for ImportFile {
    type Answer = ImportedFile;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/imports";
    const CREATES: bool = true;

    async fn answer(self, app: &App) -> Result<ImportedFile, Failure> {
        let file = import::read_tickets(&self.name, self.text.as_bytes())?;
        let directory = Path::new(require_repository(self.repository.as_deref())?);
        let additions = epics::add_imported(app, &file.epics, directory).await?;
        Ok(ImportedFile {
            tickets: additions.added,
            existing: additions.existing,
            report: file.report,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportTickets {
    /// Ticket ids, separated by commas.
    #[serde(default)]
    pub tickets: String,
    /// A whole epic instead, as an epic state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epic: Option<String>,
    pub form: ExportFormat,
    #[serde(default)]
    pub round: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExportedDocuments {
    pub documents: Vec<Value>,
}

#[async_trait]
impl Question for ExportTickets {
    type Answer = ExportedDocuments;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/export";

    fn tickets(&self) -> Vec<&str> {
        match &self.epic {
            Some(_) => Vec::new(),
            None => self.tickets.split(',').collect(),
        }
    }

    async fn answer(self, app: &App) -> Result<ExportedDocuments, Failure> {
        if let Some(epic) = &self.epic {
            app.require_all_tickets()?;
            if self.form != ExportFormat::EpicState || !self.tickets.is_empty() {
                return Err(Failure::usage(
                    "an epic is exported alone, as an epic state",
                ));
            }
            let documents = vec![export::export_epic(app, epic).await?];
            return Ok(ExportedDocuments { documents });
        }
        let ids: Vec<String> = self.tickets.split(',').map(str::to_owned).collect();
        let documents = export::export(app, self.form, &ids, self.round).await?;
        Ok(ExportedDocuments { documents })
    }
}
