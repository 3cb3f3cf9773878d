//! The table of transitions. What an event may do, in which stage, by whose hand, stands in
//! three short tables; how it is done stands in the files beside this one, an area each.

mod build;
mod dependency;
mod draft;
mod follow_ups;
mod job;
mod land;
mod panel;
mod person;
pub(crate) mod review;
mod stand_in;
mod table;
mod verify;

pub use build::forbidden_sentence;
pub use draft::{left, over_day, spent_in_round};
pub use person::choices;
pub use stand_in::stand_in;
pub use table::{roles, stages};

use crate::event::{Event, EventKind, Role};
use crate::job::Effect;
use crate::policy::Policy;
use crate::ticket::{Stage, Ticket, TicketId};
use draft::Transition;

/// What follows from an event: the ticket as it is now, and what is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub ticket: Ticket,
    pub effects: Vec<Effect>,
}

/// Why an event is not accepted. A refusal changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "{event} is not possible while the ticket is {stage}{}",
        possible_in(stages)
    )]
    NotNow {
        event: &'static str,
        stage: Stage,
        stages: &'static [Stage],
    },
    #[error("the role {} may not report {event}; it takes {}", role.word(), either(roles.iter().map(|role| role.word())))]
    WrongRole {
        event: &'static str,
        role: Role,
        roles: &'static [Role],
    },
    #[error(
        "the ticket has changed since you looked (you saw version {seen}, it is {current}); look again"
    )]
    StaleVersion { seen: u64, current: u64 },
    #[error(
        "job {serial} is not held under this lease any more (your token {given}, the job's {current}); the work has gone to somebody else"
    )]
    StaleFence {
        serial: u32,
        given: u64,
        current: u64,
    },
    #[error("the ticket waits for no job {serial}; it has ended or is no longer wanted")]
    NoSuchJob { serial: u32 },
    #[error("job {serial} is a {task} job and cannot report {event}")]
    WrongJob {
        serial: u32,
        task: &'static str,
        event: &'static str,
    },
    #[error("job {serial} is held by {holder}, not by {given}")]
    NotHolder {
        serial: u32,
        holder: String,
        given: String,
    },
    #[error("{principal} built part of this change and cannot judge it")]
    OwnWork { principal: String },
    #[error(
        "{reviewer} refused, and is asked whether it countersigns; {given} cannot answer for it"
    )]
    NotTheReviewer { reviewer: String, given: String },
    #[error(
        "{agent} is of the family {family}, as whoever built this; the policy wants another (other_family)"
    )]
    SameFamily { agent: String, family: String },
    #[error(
        "nobody knows of which model family {agent} is, and the policy wants another than the builder's; name it under [families]"
    )]
    UnknownFamily { agent: String },
    #[error(
        "nobody may stand in for whoever should do job {serial}; it waits, or a person reassigns it"
    )]
    NoStandIn { serial: u32 },
    #[error("this is about commit {given}, but the ticket stands at {current}")]
    OtherCommit { given: String, current: String },
    #[error(
        "{principal} has none of this ticket's jobs; only who is at work on it may ask for help"
    )]
    NotAtWork { principal: String },
    #[error(
        "`{named}` is not an attempt, and nothing was changed; copy the `attempt` of get_my_assignment's answer as it is"
    )]
    BadAttempt { named: String },
    #[error(
        "you named the attempt {named}, but what you hold now is {held}; nothing was changed, and what you reported belongs to a claim that is not yours any more"
    )]
    OtherAttempt { named: String, held: String },
    #[error(
        "{}you have no assignment: its lease ran out, or it has ended; nothing was changed",
        named_attempt(named.as_deref())
    )]
    NothingHeld { named: Option<String> },
    #[error(
        "you named no attempt, and an earlier claim of this token or session ended without its report or was given twice: two processes may use it, so every report must name its `attempt`. You hold {held}; nothing was changed"
    )]
    MustNameAttempt { held: String },
    #[error(
        "you named no attempt, and a verdict in these words has counted before: it may be the same one again. You hold {held}; nothing was changed"
    )]
    SameVerdict { held: String },
    #[error("you named no attempt, and {held} was not given to this process; nothing was changed")]
    GivenToAnother { held: String },
    #[error("the change is empty: there is nothing to review")]
    EmptyChange,
    #[error("the submission does not say exactly what it is: it must name its commit and its tree")]
    NotExact,
    #[error("say why: the decision is recorded with your name and your reason")]
    NoReason,
    #[error("there is no open finding {id}; `countersign ticket show` lists them")]
    NoSuchFinding { id: String },
    #[error(
        "{verdicts} rounds are the most a ticket can have; accept, take over, reset or reject it"
    )]
    HardCap { verdicts: u32 },
    #[error("the budget is still used up ({limit}); raise it first")]
    BudgetUsedUp { limit: String },
    #[error("there is no commit to accept yet; continue, reassign or reject the ticket")]
    NothingToAccept,
    #[error(
        "checks are not green on this commit; accept it over red checks explicitly, or not at all"
    )]
    RedChecks,
    #[error("name the builder or the reviewer that shall have it")]
    NobodyNamed,
    #[error("a ticket cannot depend on itself")]
    DependsOnItself,
    #[error("{ticket} is not among the dependencies that this ticket waits for")]
    NotADependency { ticket: TicketId },
    #[error("a ticket begins with `created`, once")]
    NotTheBeginning,
    #[error("a ticket needs a title")]
    NoTitle,
}

impl Refused {
    /// Whoever asked may not judge this change, and somebody else may.
    pub fn is_about_the_judge(&self) -> bool {
        matches!(
            self,
            Self::OwnWork { .. }
                | Self::SameFamily { .. }
                | Self::UnknownFamily { .. }
                | Self::NotTheReviewer { .. }
        )
    }
}

fn named_attempt(named: Option<&str>) -> String {
    named.map_or_else(String::new, |named| {
        format!("you named the attempt {named}, but ")
    })
}

fn possible_in(stages: &[Stage]) -> String {
    if stages.is_empty() {
        String::new()
    } else {
        let words = stages.iter().map(|stage| stage.word());
        format!("; it is possible in {}", either(words))
    }
}

/// `a, b or c`.
fn either<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some(_) | None => words.concat(),
    }
}

/// Decides what an event does to a ticket.
pub fn advance(ticket: &Ticket, event: &Event, policy: &Policy) -> Result<Step, Refused> {
    admit(ticket, event, policy)?;
    let mut draft = Transition::new(ticket, event, policy);
    draft.spend(event.what.usage());
    apply(&mut draft, &event.what)?;
    draft.call_off_what_is_not_afforded();
    Ok(draft.into_step())
}

/// What every event is asked before it is looked at.
fn admit(ticket: &Ticket, event: &Event, policy: &Policy) -> Result<(), Refused> {
    let what = &event.what;
    if let Some(seen) = event.expects.filter(|seen| *seen != ticket.version) {
        return Err(Refused::StaleVersion {
            seen,
            current: ticket.version,
        });
    }
    let stages = stages(what);
    if !stages.contains(&ticket.stage) {
        return Err(Refused::NotNow {
            event: what.name(),
            stage: ticket.stage,
            stages,
        });
    }
    job::admit(ticket, event, policy)?;
    let roles = roles(what, job::task(ticket, what));
    if !roles.contains(&event.by.role) {
        return Err(Refused::WrongRole {
            event: what.name(),
            role: event.by.role,
            roles,
        });
    }
    Ok(())
}

fn apply(draft: &mut Transition<'_>, what: &EventKind) -> Result<(), Refused> {
    match what {
        EventKind::Created { .. } => return Err(Refused::NotTheBeginning),
        EventKind::DependencyMet { ticket } => draft.dependency_met(ticket)?,
        EventKind::DependencyFailed { ticket, why } => draft.dependency_failed(ticket, why)?,
        EventKind::DependencyRepaired { ticket } => draft.dependency_repaired(ticket)?,
        EventKind::DependenciesSet {
            depends_on,
            met,
            failed,
            why,
        } => draft.dependencies_set(depends_on, met, failed, why)?,
        EventKind::Started { lease } => draft.started(*lease)?,
        EventKind::Submitted {
            lease,
            submission,
            reports,
            session,
            ..
        } => draft.submitted(*lease, submission, reports, session.as_deref())?,
        EventKind::Checked {
            lease,
            commit,
            results,
            ..
        } => draft.checked(*lease, commit, results)?,
        EventKind::Reviewed {
            lease,
            commit,
            review,
            isolation,
            ..
        } => draft.reviewed(*lease, commit, review, isolation)?,
        EventKind::ReviewUnusable { lease, why, .. } => draft.review_unusable(*lease, why)?,
        EventKind::Verified {
            lease,
            commit,
            answers,
            ..
        } => draft.verified(*lease, commit, answers)?,
        EventKind::Landed {
            lease,
            commit,
            landed,
            diff_id,
            branch,
            tip,
            ..
        } => draft.landed(*lease, commit, (landed, diff_id), branch, tip.as_deref())?,
        EventKind::Conflicted {
            lease,
            files,
            evidence,
            ..
        } => draft.conflicted(*lease, files, evidence),
        EventKind::CombinationRed { lease, results, .. } => draft.combination_red(*lease, results),
        EventKind::WentStale { submission, .. } => draft.went_stale(submission)?,
        EventKind::JobFailed {
            lease,
            failure,
            message,
            ..
        } => draft.job_failed(*lease, *failure, message)?,
        EventKind::LeaseLost { lease } => draft.lease_lost(*lease)?,
        EventKind::AgentOut { serial, why } => draft.agent_out(*serial, why)?,
        EventKind::HelpRequested { why, .. } => draft.help_requested(why)?,
        EventKind::BudgetReached { limit } => draft.budget_reached(limit),
        EventKind::BudgetRaised { budget, why } => draft.budget_raised(*budget, why)?,
        EventKind::Waived { finding, why } => draft.waived(finding, why)?,
        EventKind::Settled { choice, why } => draft.settled(choice, why)?,
        EventKind::Resubmitted { submission } => draft.resubmitted(submission)?,
        EventKind::Cancelled { why } => draft.cancelled(why),
    }
    Ok(())
}

/// The first step of a ticket's life.
pub fn open(id: &TicketId, event: &Event, policy: &Policy) -> Result<Step, Refused> {
    let EventKind::Created { spec, met, failed } = &event.what else {
        return Err(Refused::NotTheBeginning);
    };
    if spec.title.trim().is_empty() {
        return Err(Refused::NoTitle);
    }
    if spec.depends_on.contains(id) {
        return Err(Refused::DependsOnItself);
    }
    let blank = draft::blank(id, spec, event.at);
    let mut draft = Transition::new(&blank, event, policy);
    draft.arrange_dependencies(&spec.depends_on, met, failed);
    Ok(draft.into_step())
}

/// A ticket made again from its log: each event with the policy it was decided under.
pub fn replay<'a>(
    id: &TicketId,
    log: impl IntoIterator<Item = (&'a Event, &'a Policy)>,
) -> Result<Option<Ticket>, Refused> {
    let mut ticket = None;
    for (event, policy) in log {
        let step = match &ticket {
            None => open(id, event, policy)?,
            Some(known) => advance(known, event, policy)?,
        };
        ticket = Some(step.ticket);
    }
    Ok(ticket)
}
