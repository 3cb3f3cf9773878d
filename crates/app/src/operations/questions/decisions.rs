//! Decisions of a person about a ticket, and the list of tickets that wait for one.

use async_trait::async_trait;
use flow::event::ChoiceOptions;
use flow::usage::Caps;
use flow::{Stage, Ticket, TicketId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::Paged;

use super::{Method, Question, TicketSummary, page};
use crate::failure::Failure;
use crate::operations::escalations::{self, PendingEscalation};
use crate::operations::person_findings::{self, AddedFinding, PersonFinding};
use crate::operations::tickets::{self, BudgetScope};
use crate::operations::{App, project};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTicket {
    pub ticket: String,
    /// The reason; it is recorded with your name.
    pub why: String,
}

#[async_trait]
impl Question for CancelTicket {
    type Answer = TicketSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/cancel";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &TicketSummary) -> Option<u64> {
        Some(answer.version)
    }

    async fn answer(self, app: &App) -> Result<TicketSummary, Failure> {
        let ticket = tickets::cancel(app, &self.ticket, &self.why).await?;
        Ok(TicketSummary::from_ticket(&ticket))
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaiveFinding {
    pub ticket: String,
    pub finding: String,
    /// The reason; it is recorded with your name.
    pub why: String,
}

#[async_trait]
impl Question for WaiveFinding {
    type Answer = TicketSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/findings/{finding}/waive";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &TicketSummary) -> Option<u64> {
        Some(answer.version)
    }

    async fn answer(self, app: &App) -> Result<TicketSummary, Failure> {
        let ticket = tickets::waive_finding(app, &self.ticket, &self.finding, &self.why).await?;
        Ok(TicketSummary::from_ticket(&ticket))
    }
}

/// Findings of a person on the ticket's current commit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddFindings {
    pub ticket: String,
    pub findings: Vec<PersonFinding>,
    /// Every finding blocks the ticket, whatever its severity.
    #[serde(default)]
    pub must_fix: bool,
}

/// A report of a tool as a person's findings: SARIF, rdjson, or any other format that is read.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportFindings {
    pub ticket: String,
    /// Text of the report.
    pub report: String,
    /// Every finding blocks the ticket, whatever its severity.
    #[serde(default)]
    pub must_fix: bool,
}

/// State of the ticket after its ledger took findings.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FindingsAnswer {
    pub id: TicketId,
    pub stage: Stage,
    pub version: u64,
    pub findings: Vec<AddedFinding>,
}

impl FindingsAnswer {
    fn new(ticket: &Ticket, findings: Vec<AddedFinding>) -> Self {
        Self {
            id: ticket.id.clone(),
            stage: ticket.stage,
            version: ticket.version,
            findings,
        }
    }
}

#[async_trait]
impl Question for AddFindings {
    type Answer = FindingsAnswer;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/findings";
    const CREATES: bool = true;

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &FindingsAnswer) -> Option<u64> {
        Some(answer.version)
    }

    async fn answer(self, app: &App) -> Result<FindingsAnswer, Failure> {
        let (ticket, added) =
            person_findings::add(app, &self.ticket, &self.findings, self.must_fix).await?;
        Ok(FindingsAnswer::new(&ticket, added))
    }
}

#[async_trait]
impl Question for ImportFindings {
    type Answer = FindingsAnswer;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/findings/import";
    const CREATES: bool = true;

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &FindingsAnswer) -> Option<u64> {
        Some(answer.version)
    }

    async fn answer(self, app: &App) -> Result<FindingsAnswer, Failure> {
        let (ticket, added) =
            person_findings::import(app, &self.ticket, &self.report, self.must_fix).await?;
        Ok(FindingsAnswer::new(&ticket, added))
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RaiseBudget {
    pub ticket: String,
    pub scope: BudgetScope,
    /// The new limit in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// The old name, in millionths of a dollar. The next version no longer reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_micros: Option<u64>,
    #[serde(default)]
    pub tokens: Option<u64>,
    #[serde(default)]
    pub wall_secs: Option<u64>,
    /// The reason; it is recorded with your name.
    pub why: String,
}

#[async_trait]
impl Question for RaiseBudget {
    type Answer = TicketSummary;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/tickets/{ticket}/budget";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &TicketSummary) -> Option<u64> {
        Some(answer.version)
    }

    async fn answer(self, app: &App) -> Result<TicketSummary, Failure> {
        let caps = Caps::of_request(self.usd, self.usd_micros, self.tokens, self.wall_secs)
            .map_err(Failure::usage)?;
        let ticket = tickets::raise_budget(app, &self.ticket, self.scope, caps, &self.why).await?;
        Ok(TicketSummary::from_ticket(&ticket))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListEscalations {
    pub after: Option<i64>,
    pub limit: Option<u32>,
    /// Only tickets of this repository: its common git directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

#[async_trait]
impl Question for ListEscalations {
    type Answer = Paged<PendingEscalation>;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/escalations";

    async fn answer(self, app: &App) -> Result<Self::Answer, Failure> {
        let repository = project::repository_name(app, self.repository).await;
        escalations::list(app, repository, &page(self.after, self.limit)).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowEscalation {
    pub ticket: String,
}

#[async_trait]
impl Question for ShowEscalation {
    type Answer = PendingEscalation;
    const METHOD: Method = Method::Get;
    const PATH: &'static str = "/api/v1/escalations/{ticket}";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    async fn answer(self, app: &App) -> Result<PendingEscalation, Failure> {
        escalations::pending_escalation(app, &app.ticket(&self.ticket).await?).await
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveEscalation {
    pub ticket: String,
    /// accept, continue, take-over, reset, reassign or reject.
    pub choice: String,
    #[serde(default)]
    pub why: String,
    /// Only for accept: accept even though checks are not green.
    #[serde(default)]
    pub over_red_checks: bool,
    /// Only for reassign.
    #[serde(default)]
    pub builder: Option<String>,
    /// Only for reassign.
    #[serde(default)]
    pub reviewer: Option<String>,
}

/// State of the ticket, and the name under which the escalation was resolved.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ResolvedEscalation {
    #[serde(flatten)]
    pub summary: TicketSummary,
    #[serde(default)]
    pub by: String,
}

#[async_trait]
impl Question for ResolveEscalation {
    type Answer = ResolvedEscalation;
    const METHOD: Method = Method::Post;
    const PATH: &'static str = "/api/v1/escalations/{ticket}";

    fn tickets(&self) -> Vec<&str> {
        vec![&self.ticket]
    }

    fn version(answer: &ResolvedEscalation) -> Option<u64> {
        Some(answer.summary.version)
    }

    async fn answer(self, app: &App) -> Result<ResolvedEscalation, Failure> {
        let options = ChoiceOptions {
            over_red_checks: self.over_red_checks,
            builder: self.builder,
            reviewer: self.reviewer,
        };
        let choice = escalations::parse_choice(&self.choice.replace('_', "-"), options)?;
        let ticket = escalations::resolve(app, &self.ticket, choice, &self.why).await?;
        Ok(ResolvedEscalation {
            summary: TicketSummary::from_ticket(&ticket),
            by: app.person().agent,
        })
    }
}
