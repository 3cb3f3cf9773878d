//! Which claim a report is about. A report that names another claim than the one its caller holds is
//! refused; one that names none counts only where `flow` is sure which process made it.

use engine::log::LogErr;
use engine::session::{self, SessionClaim};
use flow::Refused;
use flow::attempt::{self, Attempt, CallerState, HeldClaim};
use flow::standing::Access;
use serde::Serialize;
use store::CallerRecord;

use super::super::App;
use super::super::identity::Identity;
use crate::failure::{ExitKind, Failure};

/// How often a caller's record is written again because another call of it was faster.
const TRIES_MAX: u32 = 32;
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
    /// A hash of the words, where it is a verdict.
    pub verdict: Option<String>,
}

impl ClaimRef {
    pub fn of(attempt: &Attempt) -> Self {
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

    /// With the words of the verdict that it is.
    #[must_use]
    pub fn with_verdict(self, words: &impl Serialize) -> Self {
        let words = serde_json::to_vec(words).unwrap_or_default();
        Self {
            verdict: Some(engine::hash::short(&words)),
            ..self
        }
    }

    /// Words tell a repeated verdict where no session does.
    fn as_heard(&self, speaker: &Identity) -> attempt::ReportClaim<'_> {
        let verdict = self.verdict.as_deref();
        attempt::ReportClaim {
            attempt: self.attempt.as_deref(),
            verdict: verdict.filter(|_| speaker.session.is_none()),
        }
    }

    /// The attempt, if one was named; what is none is refused.
    pub fn parsed(&self) -> Result<Option<Attempt>, Failure> {
        let parsed = self.attempt.as_deref().map(str::parse).transpose();
        parsed.map_err(refused)
    }
}

/// The claim that a report is about, if it is the one that the caller holds.
pub async fn reporting(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
) -> Result<SessionClaim, Failure> {
    let held = session::held(&office.desk, &speaker.agent_session()).await?;
    let claim = held.as_ref().map(SessionClaim::claim);
    admit(office, speaker, named, claim.as_ref()).await?;
    the_one(held, named.number)
}

/// The claim that a call looks at. Nothing is reported, so a caller that names none is answered.
pub async fn looking(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
) -> Result<SessionClaim, Failure> {
    if named.attempt.is_some() {
        return reporting(office, speaker, named).await;
    }
    let held = session::held(&office.desk, &speaker.agent_session()).await?;
    the_one(held, named.number)
}

fn the_one(held: Option<SessionClaim>, number: Option<i64>) -> Result<SessionClaim, Failure> {
    let errand = held.ok_or_else(|| refused(Refused::NothingHeld { named: None }))?;
    let ours = errand.stored.number;
    if let Some(named) = number.filter(|named| *named != ours) {
        return Err(Failure::new(
            ExitKind::Refused,
            format!("assignment {named} is not yours"),
        )
        .hint(format!("yours is {ours}")));
    }
    Ok(errand)
}

/// Whether a report that names this attempt, or none, counts for the claim that the caller holds.
pub async fn admit(
    office: &App,
    speaker: &Identity,
    named: &ClaimRef,
    held: Option<&HeldClaim>,
) -> Result<(), Failure> {
    let named = named.as_heard(speaker);
    let caller = match (speaker.standing, named.attempt) {
        // The token of an agent that we started is good for one claim.
        (Access::Hired(_), _) => None,
        (Access::Guest, Some(_)) => Some(CallerState::default()),
        (Access::Guest, None) => Some(record(office, speaker).await?.state),
    };
    attempt::admit(named, held, caller.as_ref()).map_err(refused)
}

/// A caller that holds nothing and was given a claim that it never reported speaks of that claim.
pub async fn must_not_have_lost_one(office: &App, speaker: &Identity) -> Result<(), Failure> {
    match record(office, speaker).await?.state.open {
        None => Ok(()),
        Some(_) => Err(refused(Refused::NothingHeld { named: None })),
    }
}

/// A refusal as an agent reads it. It is not on record yet: whoever answers the call notes it.
pub fn refused(why: Refused) -> Failure {
    let needs_a_name = matches!(why, Refused::MustNameAttempt { .. });
    let failure = Failure::new(ExitKind::Refused, why).hint(ASK_AGAIN);
    if needs_a_name {
        failure.hint(NEW_TOKEN)
    } else {
        failure
    }
}

/// The claim is shown to the caller: its next report may be about it.
pub async fn given(office: &App, speaker: &Identity, attempt: &Attempt) -> Result<(), Failure> {
    let has_session = speaker.session.is_some();
    change(office, speaker, |state| state.given(attempt, has_session)).await
}

/// The caller's own report on the claim was accepted. Where this cannot be written the caller has to
/// name its next attempt, so a failure here needs no answer.
pub async fn reported(office: &App, speaker: &Identity, attempt: &Attempt) {
    let kept = change(office, speaker, |state| state.reported(attempt)).await;
    kept.log_err("keep which report was accepted");
}

/// Remembers the words of a verdict that names no attempt, before it counts: so that they are known
/// when they come again, also where its answer is lost.
pub async fn say(office: &App, speaker: &Identity, named: &ClaimRef) -> Result<(), Failure> {
    match named.as_heard(speaker) {
        attempt::ReportClaim {
            attempt: None,
            verdict: Some(verdict),
        } => change(office, speaker, |state| state.said(verdict)).await,
        _ => Ok(()),
    }
}

async fn change(
    office: &App,
    speaker: &Identity,
    next: impl Fn(&CallerState) -> CallerState,
) -> Result<(), Failure> {
    for _ in 0..TRIES_MAX {
        let before = record(office, speaker).await?;
        let state = next(&before.state);
        if state == before.state {
            return Ok(());
        }
        let after = CallerRecord { state, ..before };
        if office.desk.store.put_caller(after).await? {
            return Ok(());
        }
    }
    Err(Failure::new(
        ExitKind::Refused,
        "this token is used by too many calls at once; try again",
    ))
}

async fn record(office: &App, speaker: &Identity) -> Result<CallerRecord, Failure> {
    let (token, session) = (&speaker.token, speaker.session.as_deref().unwrap_or(""));
    let found = office.desk.store.caller(token, session).await?;
    Ok(found.unwrap_or_else(|| CallerRecord {
        token: token.clone(),
        session: session.to_owned(),
        version: 0,
        state: CallerState::default(),
    }))
}
