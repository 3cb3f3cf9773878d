//! Matches reports with claims. A report that names another claim than the one its caller holds is
//! refused. A report that names no claim counts only if `flow` is sure which process sent it.
//!
//! The state of a caller is stored under its token and session. It is written by compare-and-swap,
//! because two processes of one token may call at the same moment.

use engine::log::LogErr;
use engine::session::{self, SessionClaim};
use flow::Refused;
use flow::access::Access;
use flow::attempt::{self, Attempt, CallerState, HeldClaim};
use serde::Serialize;
use store::{CallerRecord, Cursor, EventBody, EventQuery, JobId, JobState};

use super::super::App;
use super::super::identity::Identity;
use crate::failure::{ExitKind, Failure};

/// Maximum attempts to write a caller's record when concurrent calls of the same caller win.
/// Each loss means that another call of the same token has won. So many at once is a misuse.
const TRIES_MAX: u32 = 32;
/// Newest events of a ticket that are searched for a report whose record was lost.
/// A claim is searched for when the next one is given, so its report is among the newest.
const EVENTS_SEARCHED: u32 = 500;
const ASK_AGAIN: &str =
    "call get_my_assignment, read what it gives you, and send its `attempt` with every report";
const NEW_TOKEN: &str = "a program that cannot name attempts needs a new token, which also shuts out its old \
    processes: countersign token rotate ID";

/// Names the claim that a call is about.
#[derive(Clone, Debug, Default)]
pub struct ClaimRef {
    /// The ticket's number, `assignment_id`.
    pub number: Option<i64>,
    pub attempt: Option<String>,
    /// Hash of the text if the call is a verdict.
    pub verdict: Option<String>,
}

impl ClaimRef {
    pub fn from_attempt(attempt: &Attempt) -> Self {
        Self {
            attempt: Some(attempt.to_string()),
            ..Self::default()
        }
    }

    pub fn attempt(attempt: Option<String>) -> Self {
        Self {
            attempt,
            ..Self::default()
        }
    }

    /// Adds the hash of a verdict's text.
    #[must_use]
    pub fn with_verdict(self, words: &impl Serialize) -> Self {
        let words = serde_json::to_vec(words).unwrap_or_default();
        Self {
            verdict: Some(engine::hash::short_sha256(&words)),
            ..self
        }
    }

    /// Builds the claim of a report. Without a session, the text of a verdict identifies a repeated
    /// call.
    fn report_claim(&self, identity: &Identity) -> attempt::ReportClaim<'_> {
        let verdict = self.verdict.as_deref();
        attempt::ReportClaim {
            attempt: self.attempt.as_deref(),
            // With a session the process is known, and the same words are no hint of a repetition.
            verdict: verdict.filter(|_| identity.session.is_none()),
        }
    }

    /// Parses the named attempt, if there is one; an invalid one is refused.
    pub fn parse_attempt(&self) -> Result<Option<Attempt>, Failure> {
        let parsed = self.attempt.as_deref().map(str::parse).transpose();
        parsed.map_err(refusal_error)
    }
}

/// Returns the claim that a report is about, or refuses it if the caller holds another or none.
pub async fn require_reported_claim(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<SessionClaim, Failure> {
    // Read first: the lease is the truth, and the caller's state only helps to interpret a report.
    let held = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    let claim = held.as_ref().map(SessionClaim::claim);
    check_report(app, identity, claim_ref, claim.as_ref()).await?;
    require_claim(held, claim_ref.number)
}

/// Returns the claim that a reading call is about. It reports nothing, so it may leave out the
/// attempt.
pub async fn find_claim(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<SessionClaim, Failure> {
    // A reading call that names an attempt is held to it, so that an agent does not read about
    // another claim.
    if claim_ref.attempt.is_some() {
        return require_reported_claim(app, identity, claim_ref).await;
    }
    let held = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    require_claim(held, claim_ref.number)
}

fn require_claim(held: Option<SessionClaim>, number: Option<i64>) -> Result<SessionClaim, Failure> {
    let claim = held.ok_or_else(|| refusal_error(Refused::NothingHeld { named: None }))?;
    let number_held = claim.stored.number;
    if let Some(given) = number.filter(|given| *given != number_held) {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("assignment {given} is not yours"),
        )
        .hint(format!("your assignment is {number_held}")));
    }
    Ok(claim)
}

/// Checks that a report which names this attempt, or none, counts for the claim that the caller
/// holds.
pub async fn check_report(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    held: Option<&HeldClaim>,
) -> Result<(), Failure> {
    let report = claim_ref.report_claim(identity);
    let caller = match (identity.access, report.attempt) {
        // The token of an agent that Countersign started is valid for one claim only.
        (Access::Spawned(_), _) => None,
        // With a named attempt the state is not needed, so no lookup is made.
        (Access::SelfRegistered, Some(_)) => Some(CallerState::default()),
        (Access::SelfRegistered, None) => Some(load_caller(app, identity).await?.state),
    };
    attempt::admit(report, held, caller.as_ref()).map_err(refusal_error)
}

/// Refuses a caller that holds nothing but was given a claim and never reported on it: its call is
/// about that lost claim.
/// Without this check the call would quietly begin something new in place of what the agent meant.
pub async fn check_no_lost_claim(app: &App, identity: &Identity) -> Result<(), Failure> {
    match load_caller(app, identity).await?.state.open {
        None => Ok(()),
        Some(_) => Err(refusal_error(Refused::NothingHeld { named: None })),
    }
}

/// Builds the error that an agent reads. It is not in the log yet; the code that answers the call
/// notes it.
pub fn refusal_error(why: Refused) -> Failure {
    let needs_a_name = matches!(why, Refused::MustNameAttempt { .. });
    let failure = Failure::new(ExitKind::Refused, why).hint(ASK_AGAIN);
    if needs_a_name {
        failure.hint(NEW_TOKEN)
    } else {
        failure
    }
}

/// Records that the caller was given this claim, so that its next report may be about it.
pub async fn record_claim(
    app: &App,
    identity: &Identity,
    attempt: &Attempt,
) -> Result<(), Failure> {
    let has_session = identity.session.is_some();
    close_reported_claim(app, identity, attempt).await?;
    update_caller(app, identity, |state| {
        state.after_claim(attempt, has_session)
    })
    .await
}

/// Closes the caller's earlier claim if its report was accepted. The report and the record of it are
/// two writes: a server that was killed in between knows the report only from the log.
async fn close_reported_claim(
    app: &App,
    identity: &Identity,
    next: &Attempt,
) -> Result<(), Failure> {
    let open = load_caller(app, identity).await?.state.open;
    let earlier = open.and_then(|open| open.parse::<Attempt>().ok());
    match earlier.filter(|earlier| earlier != next) {
        Some(earlier) if is_reported(app, &earlier).await? => {
            update_caller(app, identity, |state| state.after_report(&earlier)).await
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns whether the log or the job has the report of this claim.
async fn is_reported(app: &App, attempt: &Attempt) -> Result<bool, Failure> {
    let store = &app.coordinator.store;
    match attempt {
        Attempt::Job { ticket, lease, .. } => {
            let query = EventQuery {
                ticket: Some(ticket.clone()),
                after: Cursor::default(),
                most: EVENTS_SEARCHED,
                newest: true,
            };
            let events = store.events(&query).await?;
            Ok(events.iter().any(|event| match &event.body {
                EventBody::Decided(event) => event.what.reported_lease() == Some(*lease),
                EventBody::Noted(_) => false,
            }))
        }
        Attempt::Task { job, fence } => {
            let job = store.job(JobId(*job)).await?;
            Ok(job.is_some_and(|job| job.fence == *fence && job.state == JobState::Done))
        }
    }
}

/// Records that the caller's report on the claim was accepted. A failure is only logged: the caller
/// then has to name its next attempt, and nothing else is lost.
pub async fn record_reported(app: &App, identity: &Identity, attempt: &Attempt) {
    let recorded = update_caller(app, identity, |state| state.after_report(attempt)).await;
    recorded.log_err("keep which report was accepted");
}

/// Stores the hash of a verdict that names no attempt before the verdict counts. A repeated call is
/// then recognised even if the answer to the first was lost.
pub async fn record_verdict_words(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
) -> Result<(), Failure> {
    match claim_ref.report_claim(identity) {
        attempt::ReportClaim {
            attempt: None,
            verdict: Some(verdict),
        } => update_caller(app, identity, |state| state.after_verdict(verdict)).await,
        _ => Ok(()),
    }
}

/// Returns whether the same approval was sent back before because its text is not understood.
pub async fn is_questioned(
    app: &App,
    identity: &Identity,
    attempt: &Attempt,
    words: &str,
) -> Result<bool, Failure> {
    let caller = load_caller(app, identity).await?;
    Ok(caller.state.is_questioned(attempt, words))
}

/// Records that an approval was sent back because its text is not understood.
pub async fn record_question(
    app: &App,
    identity: &Identity,
    attempt: &Attempt,
    words: &str,
) -> Result<(), Failure> {
    update_caller(app, identity, |state| state.after_question(attempt, words)).await
}

async fn update_caller(
    app: &App,
    identity: &Identity,
    next: impl Fn(&CallerState) -> CallerState,
) -> Result<(), Failure> {
    for _ in 0..TRIES_MAX {
        let before = load_caller(app, identity).await?;
        let state = next(&before.state);
        // Most calls change nothing, and a write per call would wear the database.
        if state == before.state {
            return Ok(());
        }
        let after = CallerRecord { state, ..before };
        if app.coordinator.store.put_caller(after).await? {
            return Ok(());
        }
    }
    Err(Failure::new(
        ExitKind::Refused,
        "this token is used by too many calls at once; try again",
    ))
}

async fn load_caller(app: &App, identity: &Identity) -> Result<CallerRecord, Failure> {
    let (token, session) = (&identity.token, identity.session.as_deref().unwrap_or(""));
    // An empty session is the caller of all processes without one.
    let record = app.coordinator.store.caller(token, session).await?;
    Ok(record.unwrap_or_else(|| CallerRecord {
        token: token.clone(),
        session: session.to_owned(),
        version: 0,
        state: CallerState::default(),
    }))
}
