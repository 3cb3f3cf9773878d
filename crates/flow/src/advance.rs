//! The state machine of a ticket. `stages` and `roles` say when an event is possible and who may
//! report it, and `apply` calls its transition. Each file in `advance/` holds the transitions of
//! one area.
//!
//! Everything here is pure: no clock, no I/O, no randomness. The time and the caller come with the
//! event. That is why the log of a ticket replays to the same ticket, which `doctor --verify-log`
//! checks for the whole store. A transition that reads anything else breaks that check.
//!
//! A refusal is an ordinary result, not a fault: late reports, repeated reports and callers without
//! permission are expected every day, and each gets the reason and the next step.

mod build;
mod dependency;
mod fallback;
mod follow_ups;
mod job;
mod land;
mod open_answers;
mod panel;
mod person;
mod pull_request;
pub(crate) mod review;
mod table;
mod transition;
mod verify;

pub use build::{describe_forbidden_paths, known_red_checks};
pub use fallback::fallback_agent;
pub(crate) use job::retry_wait_ms;
pub use open_answers::{needs_verifier, waiting_for_verifier};
pub use person::{available_choices, role_to_reassign};
pub use table::{allowed_roles, allowed_stages};
pub use transition::{exceeded_daily_budget, remaining_budget, spent_in_round};

use crate::event::{Event, EventKind, Role};
use crate::job::Effect;
use crate::policy::Policy;
use crate::ticket::{Stage, Ticket, TicketId};
use transition::Transition;

/// Result of an accepted event: the new ticket, and the effects to write with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub ticket: Ticket,
    pub effects: Vec<Effect>,
}

/// Reason why an event is not accepted. A refusal changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "cannot {} while the ticket is {stage}{}",
        event_words(event),
        possible_stages_suffix(stages)
    )]
    NotNow {
        event: &'static str,
        stage: Stage,
        stages: &'static [Stage],
    },
    #[error("the role {} may not report {event}; it takes {}", role.as_str(), join_with_or(roles.iter().map(|role| role.as_str())))]
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
        "your lease on job {serial} has ended (your token {given}, the current one is {current}); another worker may have the job"
    )]
    StaleFence {
        serial: u32,
        given: u64,
        current: u64,
    },
    #[error("the ticket has no open job {serial}; it has ended or was dropped")]
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
    #[error("{principal} built part of this change and cannot review or verify it")]
    OwnWork { principal: String },
    #[error(
        "{reviewer} refused, and is asked whether it countersigns; {given} cannot answer for it"
    )]
    NotTheReviewer { reviewer: String, given: String },
    #[error(
        "{agent} is of the family {family}, like the builder; the policy requires another (other_family)"
    )]
    SameFamily { agent: String, family: String },
    #[error(
        "the model family of {agent} is unknown, and the policy requires another than the builder's; name it under [families]"
    )]
    UnknownFamily { agent: String },
    #[error("no fallback agent may take job {serial}; it waits, or a person reassigns it")]
    NoFallback { serial: u32 },
    #[error("this is about commit {given}, but the ticket's current commit is {current}")]
    OtherCommit { given: String, current: String },
    #[error(
        "{principal} holds no job of this ticket; only an agent that works on it may ask for help"
    )]
    NotAtWork { principal: String },
    #[error(
        "`{named}` is not an attempt, and nothing was changed; copy the `attempt` of get_my_assignment's answer as it is"
    )]
    BadAttempt { named: String },
    #[error(
        "you named the attempt {named}, but you hold {held} now; nothing was changed, because your report belongs to a claim that has ended"
    )]
    OtherAttempt { named: String, held: String },
    #[error(
        "{}you have no assignment: its lease ran out, or it has ended; nothing was changed",
        named_attempt_prefix(named.as_deref())
    )]
    NothingHeld { named: Option<String> },
    #[error(
        "you named no attempt, and an earlier claim of this token or session ended without its report or was given twice: two processes may use it, so every report must name its `attempt`. You hold {held}; nothing was changed"
    )]
    MustNameAttempt { held: String },
    #[error(
        "you named no attempt, and a report in these words has counted before: it may be the same one again. You hold {held}; nothing was changed"
    )]
    SameVerdict { held: String },
    #[error("you named no attempt, and {held} was not given to this process; nothing was changed")]
    GivenToAnother { held: String },
    #[error("the change is empty: there is nothing to review")]
    EmptyChange,
    #[error("the submission is incomplete: it must name its commit and its tree")]
    NotExact,
    #[error("say why: the decision is recorded with your name and your reason")]
    NoReason,
    #[error("there is no open finding {id}; `countersign ticket show` lists them")]
    NoSuchFinding { id: String },
    #[error("the base is not red, or the policy accepts it as it is; nothing was changed")]
    BaseAccepted,
    #[error("there is no finding in it; nothing was changed")]
    NoFindings,
    #[error(
        "there is no commit to comment on yet: the builder has not submitted anything; put it into the ticket's description, or wait for the first submission"
    )]
    NothingToComment,
    #[error(
        "{given} findings are too many: the policy keeps at most {most} of one review (limits.findings_max); nothing was changed"
    )]
    TooManyFindings { given: usize, most: usize },
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
    #[error("name the builder or the reviewer to reassign the ticket to")]
    NobodyNamed,
    #[error("a ticket cannot depend on itself")]
    DependsOnItself,
    #[error("{ticket} is not among the dependencies that this ticket waits for")]
    NotADependency { ticket: TicketId },
    #[error("a ticket begins with `created`, once")]
    NotTheBeginning,
    #[error(
        "this ticket has no pull request: it lands in another way (land), or nothing was submitted yet"
    )]
    NoPullRequest,
    #[error("the findings of this comment are in the ledger; nothing was changed")]
    CommentsKnown,
    #[error("a ticket needs a title")]
    NoTitle,
}

// Such a refusal is no failure of the job: a fallback or another agent can still take it.
impl Refused {
    /// Whether only this caller may not judge the change. Another agent may.
    pub fn is_reviewer_ineligible(&self) -> bool {
        matches!(
            self,
            Self::OwnWork { .. }
                | Self::SameFamily { .. }
                | Self::UnknownFamily { .. }
                | Self::NotTheReviewer { .. }
        )
    }
}

fn named_attempt_prefix(named: Option<&str>) -> String {
    named.map_or_else(String::new, |named| {
        format!("you named the attempt {named}, but ")
    })
}

/// Names an event in words for people. Other names are plain words apart from the underscore.
fn event_words(event: &str) -> String {
    match event {
        "findings_added" => "add findings".to_owned(),
        "settled" => "resolve an escalation".to_owned(),
        "waived" => "waive a finding".to_owned(),
        "resubmitted" => "resubmit".to_owned(),
        "cancelled" => "cancel".to_owned(),
        "budget_raised" => "raise the budget".to_owned(),
        "dependencies_set" => "set dependencies".to_owned(),
        other => format!("report {other}"),
    }
}

fn possible_stages_suffix(stages: &[Stage]) -> String {
    if stages.is_empty() {
        String::new()
    } else {
        let words = stages.iter().map(|stage| stage.as_str());
        format!("; only while it is {}", join_with_or(words))
    }
}

/// Joins words: `a, b or c`.
fn join_with_or<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some(_) | None => words.concat(),
    }
}

/// Decides what an event does to a ticket. This is the only function that changes one.
/// The order matters: a refused event must not add its usage, so it is admitted before the draft is
/// made. The draft is a copy; an error in `apply` throws it away with its partial changes.
pub fn advance(ticket: &Ticket, event: &Event, policy: &Policy) -> Result<Step, Refused> {
    admit(ticket, event, policy)?;
    let mut draft = Transition::new(ticket, event, policy);
    // The usage is added first: the transition must see what is left of the budget.
    draft.add_usage(event.what.usage());
    apply(&mut draft, &event.what)?;
    draft.answer_open_findings();
    // Parallel reviewers share one budget. The report of one can use it up while the others still
    // run, and nothing else would look at them until they report.
    draft.stop_paid_jobs_over_budget();
    draft.order_report_if_visible(ticket);
    Ok(draft.into_step())
}

/// Checks version, stage, lease and role of an event before its transition runs.
fn admit(ticket: &Ticket, event: &Event, policy: &Policy) -> Result<(), Refused> {
    // The version comes first: a person who decided on an old view must look again, even if the
    // decision would still be possible by accident.
    let what = &event.what;
    if let Some(seen) = event.expects.filter(|seen| *seen != ticket.version) {
        return Err(Refused::StaleVersion {
            seen,
            current: ticket.version,
        });
    }
    // Stage before role, so that a finished ticket answers every caller with the same sentence.
    let stages = allowed_stages(what);
    if !stages.contains(&ticket.stage) {
        return Err(Refused::NotNow {
            event: what.name(),
            stage: ticket.stage,
            stages,
        });
    }
    // The permitted roles depend on the job, so its lease is checked first.
    job::admit(ticket, event, policy)?;
    let roles = allowed_roles(what, job::reported_task(ticket, what));
    if !roles.contains(&event.by.role) {
        return Err(Refused::WrongRole {
            event: what.name(),
            role: event.by.role,
            roles,
        });
    }
    Ok(())
}

// The match has no wildcard arm: a new event does not compile until its transition exists.
fn apply(draft: &mut Transition<'_>, what: &EventKind) -> Result<(), Refused> {
    match what {
        EventKind::Created { .. } => return Err(Refused::NotTheBeginning),
        EventKind::DependencyMet { ticket } => draft.on_dependency_met(ticket)?,
        EventKind::DependencyFailed { ticket, why } => draft.on_dependency_failed(ticket, why)?,
        EventKind::DependencyRepaired { ticket } => draft.on_dependency_repaired(ticket)?,
        EventKind::DependenciesSet {
            depends_on,
            met,
            failed,
            why,
        } => draft.on_dependencies_set(depends_on, met, failed, why)?,
        EventKind::Started { lease } => draft.on_started(*lease)?,
        EventKind::BaseRed {
            lease,
            base,
            results,
            hint,
            ..
        } => draft.on_base_red(*lease, base, results, hint)?,
        EventKind::Submitted {
            lease,
            submission,
            reports,
            session,
            ..
        } => draft.on_submitted(*lease, submission, reports, session.as_deref())?,
        EventKind::Checked {
            lease,
            commit,
            results,
            ..
        } => draft.on_checked(*lease, commit, results)?,
        EventKind::Reviewed {
            lease,
            commit,
            review,
            sandbox,
            answers_open,
            ..
        } => draft.on_reviewed(*lease, commit, review, sandbox, *answers_open)?,
        EventKind::ReviewUnusable { lease, why, .. } => draft.on_review_unusable(*lease, why)?,
        EventKind::Verified {
            lease,
            commit,
            answers,
            ..
        } => draft.on_verified(*lease, commit, answers)?,
        EventKind::Landed {
            lease,
            commit,
            landed,
            diff_id,
            branch,
            tip,
            ..
        } => draft.on_landed(*lease, commit, (landed, diff_id), branch, tip.as_deref())?,
        EventKind::Conflicted {
            lease,
            files,
            evidence,
            ..
        } => draft.on_conflicted(*lease, files, evidence),
        EventKind::CombinationRed { lease, results, .. } => {
            draft.on_combination_red(*lease, results);
        }
        EventKind::WentStale { submission, .. } => draft.on_went_stale(submission)?,
        EventKind::JobFailed {
            lease,
            failure,
            message,
            ..
        } => draft.on_job_failed(*lease, *failure, message)?,
        EventKind::LeaseLost { lease } => draft.on_lease_lost(*lease)?,
        EventKind::AgentOut { serial, why } => draft.on_agent_out(*serial, why)?,
        EventKind::HelpRequested { why, .. } => draft.on_help_requested(why)?,
        EventKind::BudgetReached { limit } => draft.on_budget_reached(limit),
        EventKind::BudgetRaised { budget, why } => draft.on_budget_raised(*budget, why)?,
        EventKind::Waived { finding, why } => draft.on_waived(finding, why)?,
        EventKind::FindingsAdded {
            commit,
            findings,
            must_fix,
            comments,
        } => draft.on_findings_added(commit, (findings, *must_fix), comments)?,
        EventKind::ChangeObserved { seen } => draft.on_change_observed(seen)?,
        EventKind::ReportRequested { .. } => draft.on_report_requested()?,
        EventKind::Settled { choice, why } => draft.on_settled(choice, why)?,
        EventKind::Resubmitted { submission } => draft.on_resubmitted(submission)?,
        EventKind::Cancelled { why } => draft.on_cancelled(why),
    }
    Ok(())
}

/// Creates a ticket from its first event.
pub fn open_ticket(id: &TicketId, event: &Event, policy: &Policy) -> Result<Step, Refused> {
    let EventKind::Created { spec, met, failed } = &event.what else {
        return Err(Refused::NotTheBeginning);
    };
    if spec.title.trim().is_empty() {
        return Err(Refused::NoTitle);
    }
    if spec.depends_on.contains(id) {
        return Err(Refused::DependsOnItself);
    }
    let blank = transition::new_ticket(id, spec, event.at);
    let mut draft = Transition::new(&blank, event, policy);
    draft.init_dependencies(&spec.depends_on, met, failed);
    Ok(draft.into_step())
}

/// Rebuilds a ticket from its log: each event with the policy it was decided under.
pub fn replay<'a>(
    id: &TicketId,
    log: impl IntoIterator<Item = (&'a Event, &'a Policy)>,
) -> Result<Option<Ticket>, Refused> {
    let mut ticket = None;
    for (event, policy) in log {
        // The recorded policy of each event counts, not today's. A changed project policy must not
        // change decisions of the past.
        let step = match &ticket {
            None => open_ticket(id, event, policy)?,
            Some(current) => advance(current, event, policy)?,
        };
        ticket = Some(step.ticket);
    }
    Ok(ticket)
}
