//! Encodes decisions of `flow` for both databases: columns projected from a ticket's body, and JSON
//! text. All encoding happens here, before a transaction is open.

mod jobs;
mod words;

pub(crate) use jobs::{JobColumns, JobUpdate, lease_end, state_for};
pub(crate) use words::{
    ClaimLine, JobStory, clean, count, decode, event_body, int, lease, nat, nat32, stage,
    ticket_id, time, unreadable,
};

use std::collections::BTreeMap;

use flow::{Event, EventKind, Policy, Ticket, Time, Usage};

use crate::change::{Artefact, Change, Remembered};
use crate::error::Error;
use crate::job::ClaimRequest;
use crate::record::{Noted, Spending};

use jobs::jobs_of;
use words::word_of;

/// Columns of a ticket list, in the order in which [`crate::TicketRow`] is read.
pub(crate) const TICKET_COLUMNS: &str = "number, id, title, stage, priority, round, epic, \
    repository, version, waits_for, open_must_fix, usd_micros, created_at, updated_at";

/// Columns of a job list, in the order in which [`crate::Job`] is read.
pub(crate) const JOB_COLUMNS: &str = "id, queue, state, ticket, serial, kind, body, priority, \
    created_at, not_before, attempts, fence, holder, lease_until, last_error, result";

/// A row of the table `tickets`.
#[derive(Debug)]
pub(crate) struct TicketColumns {
    pub(crate) id: String,
    pub(crate) version: i64,
    pub(crate) stage: &'static str,
    pub(crate) title: String,
    pub(crate) priority: i32,
    pub(crate) round: i64,
    pub(crate) epic: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) waits_for: i64,
    pub(crate) open_must_fix: i64,
    pub(crate) usd_micros: i64,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) policy: String,
    pub(crate) body: String,
}

#[derive(Debug)]
pub(crate) struct RoundColumns {
    pub(crate) number: i64,
    pub(crate) commit: String,
    pub(crate) decided_at: i64,
    pub(crate) approved: bool,
    pub(crate) open_must_fix: i64,
    pub(crate) overall_score: Option<i64>,
    pub(crate) usage: UsageColumns,
}

#[derive(Debug)]
pub(crate) struct FindingColumns {
    pub(crate) id: String,
    pub(crate) fingerprint: String,
    pub(crate) severity: &'static str,
    pub(crate) status: String,
    pub(crate) category: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<i64>,
    pub(crate) title: String,
    pub(crate) reported_by: String,
    pub(crate) first_round: i64,
    pub(crate) last_round: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct UsageColumns {
    pub(crate) usd_micros: i64,
    pub(crate) tokens: i64,
    pub(crate) wall_ms: i64,
}

/// A row of the event log; a note has no version.
#[derive(Debug)]
pub(crate) struct EventColumns {
    pub(crate) ticket: Option<String>,
    pub(crate) version: Option<i64>,
    pub(crate) policy: Option<String>,
    pub(crate) at: i64,
    pub(crate) name: String,
    pub(crate) by: String,
    pub(crate) spent: Option<UsageColumns>,
    pub(crate) body: String,
}

/// A [`Change`] as rows.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) ticket: TicketColumns,
    pub(crate) was: Option<i64>,
    pub(crate) rounds: Vec<RoundColumns>,
    pub(crate) findings: Vec<FindingColumns>,
    pub(crate) depends_on: Vec<String>,
    /// Serial and fence under which the event was reported, and whether it reports a lost lease.
    pub(crate) lease: Option<LeaseCheck>,
    pub(crate) event: EventColumns,
    pub(crate) policy_id: String,
    pub(crate) policy_body: String,
    pub(crate) new_jobs: Vec<JobColumns>,
    pub(crate) turns: Vec<JobUpdate>,
    pub(crate) reads: Vec<(String, i64)>,
    pub(crate) remember: Option<Remembered>,
    pub(crate) artefacts: Vec<Artefact>,
    pub(crate) then: Option<ClaimRequest>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseCheck {
    pub(crate) serial: i64,
    pub(crate) fence: u64,
    pub(crate) must_have_run_out: bool,
}

impl Encoded {
    pub(crate) fn new(change: Change) -> Result<Self, Error> {
        let expected = change.base_version.unwrap_or(0).saturating_add(1);
        if change.ticket.version != expected {
            return Err(Error::Other(format!(
                "the change of {} goes from version {} to {}, but one event adds exactly one version",
                change.ticket.id,
                change.base_version.unwrap_or(0),
                change.ticket.version
            )));
        }
        let policy_id = change.policy.id();
        let event = event_columns(&change.ticket, &change.event, &policy_id)?;
        let (new_jobs, turns) = jobs_of(&change)?;
        let mut reads: Vec<(String, i64)> = change
            .reads
            .iter()
            .filter(|(id, _)| *id != change.ticket.id)
            .map(|(id, version)| (id.to_string(), int(*version)))
            .collect();
        reads.sort();
        Ok(Self {
            was: change.base_version.map(int),
            rounds: change.ticket.rounds.iter().map(round_columns).collect(),
            findings: finding_columns(&change.ticket)?,
            depends_on: change
                .ticket
                .spec
                .depends_on
                .iter()
                .map(ToString::to_string)
                .collect(),
            lease: change.event.what.lease().map(|lease| LeaseCheck {
                serial: i64::from(lease.serial),
                fence: lease.fence,
                must_have_run_out: matches!(change.event.what, EventKind::LeaseLost { .. }),
            }),
            ticket: ticket_columns(&change.ticket, &change.policy, &policy_id)?,
            event,
            policy_body: serde_json::to_string(&change.policy)?,
            policy_id,
            new_jobs,
            turns,
            reads,
            remember: change.remember,
            artefacts: change.artefacts,
            then: change.then,
        })
    }
}

fn ticket_columns(
    ticket: &Ticket,
    policy: &Policy,
    policy_id: &str,
) -> Result<TicketColumns, Error> {
    Ok(TicketColumns {
        id: ticket.id.to_string(),
        version: int(ticket.version),
        stage: ticket.stage.as_str(),
        title: clean(&ticket.spec.title),
        priority: ticket.spec.priority,
        round: i64::from(ticket.round),
        epic: ticket.spec.context.epic.as_deref().map(clean),
        repository: ticket.spec.context.repository.as_deref().map(clean),
        waits_for: count(ticket.waits_for.len()),
        open_must_fix: count(ticket.ledger.open_must_fix(policy).len()),
        usd_micros: int(ticket.spent.ticket.usd_micros),
        created_at: ticket.created_at.0,
        updated_at: ticket.updated_at.0,
        policy: policy_id.to_owned(),
        body: serde_json::to_string(ticket)?,
    })
}

fn round_columns(round: &flow::ticket::Round) -> RoundColumns {
    RoundColumns {
        number: i64::from(round.number),
        commit: clean(&round.commit),
        decided_at: round.decided_at.0,
        approved: round.verdict.approved,
        open_must_fix: i64::from(round.verdict.open_must_fix),
        overall_score: round.verdict.overall_score.map(i64::from),
        usage: spent(round.usage),
    }
}

fn finding_columns(ticket: &Ticket) -> Result<Vec<FindingColumns>, Error> {
    let column = |entry: &flow::ledger::LedgerEntry| {
        let reporters: Vec<&str> = entry.reported_by.iter().map(String::as_str).collect();
        Ok(FindingColumns {
            id: clean(&entry.id),
            fingerprint: clean(&entry.fingerprint),
            severity: entry.severity().word(),
            status: word_of(&entry.status)?,
            category: entry.finding.category.as_ref().map(word_of).transpose()?,
            file: entry.finding.file.as_deref().map(clean),
            line: entry.finding.line.map(i64::from),
            title: clean(&entry.finding.title),
            reported_by: clean(&reporters.join(", ")),
            first_round: i64::from(entry.first_round),
            last_round: i64::from(entry.last_round),
        })
    };
    ticket.ledger.entries.iter().map(column).collect()
}

fn event_columns(ticket: &Ticket, event: &Event, policy: &str) -> Result<EventColumns, Error> {
    let usage = event.what.usage();
    Ok(EventColumns {
        ticket: Some(ticket.id.to_string()),
        version: Some(int(ticket.version)),
        policy: Some(policy.to_owned()),
        at: event.at.0,
        name: event.what.name().to_owned(),
        by: clean(&event.by.agent),
        spent: (usage != Usage::default()).then(|| spent(usage)),
        body: serde_json::to_string(event)?,
    })
}

impl EventColumns {
    pub(crate) fn note(noted: &Noted) -> Result<Self, Error> {
        let mut body = noted.body.clone();
        findings::clean_json(&mut body);
        Ok(Self {
            ticket: noted.ticket.as_ref().map(ToString::to_string),
            version: None,
            policy: None,
            at: noted.at.0,
            name: clean(&noted.name),
            by: findings::clean_name(&noted.by),
            spent: None,
            body: serde_json::to_string(&body)?,
        })
    }

    pub(crate) fn spending(noted: &Noted, usage: Usage) -> Result<Self, Error> {
        Ok(Self {
            spent: Some(spent(usage)),
            ..Self::note(noted)?
        })
    }
}

/// Adds up the usage of each day, agent and model. Here and not in SQL: our sums saturate.
pub(crate) fn sum_spending(events: impl Iterator<Item = Spending>) -> Vec<Spending> {
    let mut sums: BTreeMap<(Time, String, Option<String>), Usage> = BTreeMap::new();
    for event in events {
        let key = (event.day.start_of_day(), event.by, event.model);
        let sum = sums.entry(key).or_default();
        *sum = sum.plus(event.usage);
    }
    let sum = |((day, by, model), usage)| Spending {
        day,
        by,
        model,
        usage,
    };
    sums.into_iter().map(sum).collect()
}

fn spent(usage: Usage) -> UsageColumns {
    UsageColumns {
        usd_micros: int(usage.usd_micros),
        tokens: int(usage.tokens),
        wall_ms: int(usage.wall_ms),
    }
}
