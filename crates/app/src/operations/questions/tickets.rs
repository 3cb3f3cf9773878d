//! Tickets: those there are, what is known of one, and new ones.

use std::path::{Path, PathBuf};

use flow::forecast::Forecast;
use flow::ticket::{PRIORITY_DEFAULT, Spec, TicketContext, label};
use flow::{Policy, Stage, TicketId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Artefact, Paged, Stored, TicketRow};

use super::{Method, Question, TicketSummary, page};
use crate::failure::Failure;
use crate::operations::diff::{self, RoundDiff};
use crate::operations::export::{self, ExportFormat};
use crate::operations::tickets::{self, AddedTicket};
use crate::operations::{App, epics, forecasts, project, ticket_id};
use crate::settings::epic_file;
use crate::settings::ticket_file::{TicketRequest, id_for};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListTickets {
    /// Stages, with commas between them.
    pub stage: Option<String>,
    pub after: Option<i64>,
    pub limit: Option<u32>,
}

impl ListTickets {
    /// None for all.
    pub fn of(stages: &[Stage]) -> Option<String> {
        let words: Vec<&str> = stages.iter().map(|stage| stage.word()).collect();
        (!words.is_empty()).then(|| words.join(","))
    }
}

impl Question for ListTickets {
    type Answer = Paged<TicketRow>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets";

    async fn answer(self, office: &App) -> Result<Self::Answer, Failure> {
        let words = self.stage.iter().flat_map(|words| words.split(','));
        let stages = words.map(stage).collect::<Result<_, _>>()?;
        let mut found = tickets::list(office, stages, &page(self.after, self.limit)).await?;
        found.items.retain(|row| may_see(office, &row.id));
        Ok(found)
    }
}

pub(super) fn may_see(office: &App, id: &TicketId) -> bool {
    office.call.only.as_ref().is_none_or(|only| only == id)
}

pub fn stage(word: &str) -> Result<Stage, Failure> {
    Stage::parse(word).ok_or_else(|| {
        let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.word()).collect();
        Failure::usage(format!("{word:?} is no stage"))
            .hint(format!("stages are {}", words.join(", ")))
    })
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowTicket {
    pub ticket: String,
}

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

    async fn answer(self, office: &App) -> Result<Stored, Failure> {
        office.ticket(&self.ticket).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForecastTicket {
    pub ticket: String,
}

impl Question for ForecastTicket {
    type Answer = Forecast;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/forecast";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, office: &App) -> Result<Forecast, Failure> {
        forecasts::of_ticket(office, &office.ticket(&self.ticket).await?).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArtefacts {
    pub ticket: String,
}

/// Files of a ticket's rounds, on the machine that has its data.
#[derive(Debug, Serialize, Deserialize)]
pub struct ArtefactList {
    pub data_dir: PathBuf,
    pub items: Vec<Artefact>,
}

impl Question for ListArtefacts {
    type Answer = ArtefactList;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/artefacts";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, office: &App) -> Result<ArtefactList, Failure> {
        let id = ticket_id(&self.ticket)?;
        Ok(ArtefactList {
            data_dir: office.surroundings.data_dir.clone(),
            items: office.desk.store.artefacts(&id).await?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowDiff {
    pub ticket: String,
    #[serde(default)]
    pub round: Option<u32>,
}

impl Question for ShowDiff {
    type Answer = RoundDiff;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/diff";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, office: &App) -> Result<RoundDiff, Failure> {
        diff::of(office, &self.ticket, self.round).await
    }
}

/// One ticket of a repository that the server has.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddTicket {
    /// Made of the title, where it is not given.
    #[serde(default)]
    id: Option<String>,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    acceptance_criteria: Vec<String>,
    /// Higher goes first; 50 where it is not given.
    #[serde(default)]
    priority: Option<i32>,
    #[serde(default)]
    depends_on: Vec<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    critical: bool,
    /// A path on the server.
    #[serde(default)]
    repository: Option<String>,
    #[serde(default)]
    base_branch: Option<String>,
    #[serde(default)]
    epic: Option<String>,
    /// Labels (`KEY=VALUE`) that a worker must have to take it up.
    #[serde(default)]
    needs: Vec<String>,
}

impl Question for AddTicket {
    type Answer = TicketSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets";
    const MAKES: bool = true;

    async fn answer(self, office: &App) -> Result<TicketSummary, Failure> {
        let repository = self.repository.clone();
        let mut wanted = self.wanted()?;
        let policy = match &repository {
            Some(place) => project::settle(office, place, &mut wanted.spec).await?,
            None => Policy::default(),
        };
        let id = wanted
            .id
            .clone()
            .unwrap_or_else(|| id_for(&wanted.spec.title));
        tickets::add(office, vec![wanted], &policy).await?;
        Ok(TicketSummary::of(&office.ticket(id.as_str()).await?.ticket))
    }
}

impl AddTicket {
    fn wanted(self) -> Result<TicketRequest, Failure> {
        let id = self.id.as_deref().map(ticket_id).transpose()?;
        let id = id.unwrap_or_else(|| id_for(&self.title));
        let after: Result<_, _> = self.depends_on.iter().map(|id| TicketId::new(id)).collect();
        let needs: Result<_, _> = self.needs.iter().map(|text| label(text)).collect();
        let spec = Spec {
            title: self.title,
            description: self.description,
            acceptance: self.acceptance_criteria,
            priority: self.priority.unwrap_or(PRIORITY_DEFAULT),
            depends_on: after.map_err(Failure::usage)?,
            kind: self.kind,
            critical: self.critical,
            protected: Vec::new(),
            context: TicketContext {
                epic: self.epic,
                base_branch: self.base_branch,
                needs: needs.map_err(Failure::usage)?,
                ..TicketContext::default()
            },
        };
        Ok(TicketRequest { id: Some(id), spec })
    }
}

/// Several at once, as files and sentences ask for them; they may depend on each other.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddTickets {
    /// Each with its id, if it has one, and what is wanted.
    #[schemars(with = "Vec<Value>")]
    pub tickets: Vec<TicketRequest>,
    /// A path on the server; of no repository where there is none.
    #[serde(default)]
    pub repository: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct AddedTickets {
    pub tickets: Vec<AddedTicket>,
}

impl Question for AddTickets {
    type Answer = AddedTickets;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/batches";
    const MAKES: bool = true;

    async fn answer(self, office: &App) -> Result<AddedTickets, Failure> {
        let mut wanted = self.tickets;
        let policy = match &self.repository {
            Some(place) => project::settle_here(office, Path::new(place), &mut wanted).await?,
            None => Policy::default(),
        };
        let tickets = tickets::add(office, wanted, &policy).await?;
        Ok(AddedTickets { tickets })
    }
}

/// A file of another system's, or an epic: whatever `countersign import` reads.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportFile {
    /// The file's name: what it ends in says what it is.
    pub name: String,
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ImportedTickets {
    pub remarks: Vec<String>,
    pub tickets: Vec<AddedTicket>,
}

impl Question for ImportFile {
    type Answer = ImportedTickets;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/imports";
    const MAKES: bool = true;

    async fn answer(self, office: &App) -> Result<ImportedTickets, Failure> {
        let file = epic_file::read_any(&self.name, self.text.as_bytes())?;
        let tickets = epics::enter(office, &file, None, &Policy::default()).await?;
        Ok(ImportedTickets {
            remarks: file.remarks,
            tickets,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportTickets {
    /// With commas between them.
    pub tickets: String,
    pub form: ExportFormat,
    #[serde(default)]
    pub round: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ExportedDocuments {
    pub documents: Vec<Value>,
}

impl Question for ExportTickets {
    type Answer = ExportedDocuments;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/export";

    fn tickets(&self) -> Vec<&str> {
        self.tickets.split(',').collect()
    }

    async fn answer(self, office: &App) -> Result<ExportedDocuments, Failure> {
        let ids: Vec<String> = self.tickets.split(',').map(str::to_owned).collect();
        let documents = export::export(office, self.form, &ids, self.round).await?;
        Ok(ExportedDocuments { documents })
    }
}
