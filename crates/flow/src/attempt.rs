//! Attempts: the name of one claim, and which reports count for it.
//!
//! A report counts only for the claim that it is about. A caller that names its attempt is compared
//! with the lease, wholly. A caller that does not is believed only while nothing else of the same
//! token can still be under way: see [`CallerState`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::advance::Refused;
use crate::event::Lease;
use crate::job::Task;
use crate::ticket::TicketId;

/// No attempt is longer.
const LENGTH_MAX: usize = 300;
/// A commit of SHA-256.
const COMMIT_MAX: usize = 64;
/// How much of a name that is no attempt is repeated to its caller.
const SHOWN_MAX: usize = 120;
const TASK: &str = "task:";
/// How many verdicts of a caller are remembered, to know one that comes again.
const VERDICTS_MAX: usize = 64;

/// One claim of one job. It names a claim and proves nothing: who may use it is a matter of the
/// caller's token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// A ticket's job under one lease. A review or a verification names the commit that it is
    /// about.
    Job {
        ticket: TicketId,
        lease: Lease,
        commit: Option<String>,
    },
    /// A queued task, by the number of its job.
    Task { job: i64, fence: u64 },
}

impl Attempt {
    pub fn of_job(ticket: &TicketId, lease: Lease, task: &Task) -> Self {
        let commit = match task {
            Task::Review { commit, .. } | Task::Verify { commit, .. } => Some(commit.clone()),
            Task::Build { .. } | Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => {
                None
            }
        };
        Self::Job {
            ticket: ticket.clone(),
            lease,
            commit,
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job {
                ticket,
                lease: Lease { serial, fence },
                commit,
            } => {
                write!(out, "{ticket}/{serial}/{fence}")?;
                match commit {
                    Some(commit) => write!(out, "/{commit}"),
                    None => Ok(()),
                }
            }
            Self::Task { job, fence } => write!(out, "{TASK}{job}/{fence}"),
        }
    }
}

impl FromStr for Attempt {
    type Err = Refused;

    /// Strict: what would be written differently is not an attempt (`+1`, `01`, spaces).
    fn from_str(text: &str) -> Result<Self, Refused> {
        let read = if text.len() > LENGTH_MAX {
            None
        } else if let Some(numbers) = text.strip_prefix(TASK) {
            read_task(numbers)
        } else {
            read_job(text)
        };
        read.filter(|attempt| attempt.to_string() == text)
            .ok_or_else(|| {
                let start: String = text.chars().take(LENGTH_MAX).collect();
                Refused::BadAttempt {
                    named: findings::shorten(&findings::one_line(&start), SHOWN_MAX),
                }
            })
    }
}

fn read_task(numbers: &str) -> Option<Attempt> {
    let (job, fence) = numbers.split_once('/')?;
    Some(Attempt::Task {
        job: job.parse().ok()?,
        fence: fence.parse().ok()?,
    })
}

fn read_job(text: &str) -> Option<Attempt> {
    let mut parts = text.split('/');
    let ticket = TicketId::new(parts.next()?).ok()?;
    let lease = Lease {
        serial: parts.next()?.parse().ok()?,
        fence: parts.next()?.parse().ok()?,
    };
    let commit = parts.next().map(str::to_owned);
    let is_commit = |text: &String| {
        (1..=COMMIT_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let is_whole = parts.next().is_none() && commit.as_ref().is_none_or(is_commit);
    is_whole.then_some(Attempt::Job {
        ticket,
        lease,
        commit,
    })
}

/// The claim that a caller holds when its report arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    pub attempt: Attempt,
    /// For people: `the review of greet in round 2`. It does not give the attempt away, so that a
    /// refused caller reads its assignment before it reports again.
    pub described: String,
}

impl HeldClaim {
    pub fn of_job(ticket: &TicketId, lease: Lease, task: &Task) -> Self {
        let round = match task {
            Task::Build { round } | Task::Review { round, .. } | Task::Verify { round, .. } => {
                format!(" in round {round}")
            }
            Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } => String::new(),
        };
        Self {
            attempt: Attempt::of_job(ticket, lease, task),
            described: format!("the {} of {ticket}{round}", task.word()),
        }
    }

    pub fn of_task(job: i64, fence: u64, id: &str) -> Self {
        Self {
            attempt: Attempt::Task { job, fence },
            described: format!("the task {id}"),
        }
    }
}

/// The claims that one caller was given. A caller is a token together with the session of its
/// process, where the protocol has sessions; without sessions all processes of a token are one
/// caller.
///
/// A report without an attempt counts only for the last claim that this caller was given. It stops
/// counting for good once two processes of the caller may be at work on different claims: when an
/// earlier claim ended without its report (the process that had it may still report), or when an
/// earlier claim was given twice to a caller without a session (there may be two processes).
///
/// A verdict without an attempt that has the same words as an earlier one of the same caller may be
/// that one, sent again because its answer was lost; without a session it does not count for another
/// claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerState {
    /// The claim that was given last and has not been reported by this caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// The last claim was given more than once, and no session tells by whom.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_twice: bool,
    /// Every report has to name its attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_name: bool,
    /// Verdicts that came without an attempt, each with the claim that it was about, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<UnattributedVerdict>,
}

/// A verdict that came without an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnattributedVerdict {
    /// A hash of its words.
    pub words: String,
    /// The claim that it was about.
    pub attempt: String,
}

/// What a report says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportClaim<'a> {
    /// The attempt, if it names one.
    pub attempt: Option<&'a str>,
    /// Where it is a verdict without a session: a hash of its words.
    pub verdict: Option<&'a str>,
}

impl CallerState {
    /// The state after this claim is given to the caller.
    #[must_use]
    pub fn given(&self, attempt: &Attempt, has_session: bool) -> Self {
        let attempt = attempt.to_string();
        if self.open.as_ref() == Some(&attempt) {
            return Self {
                given_twice: self.given_twice || !has_session,
                ..self.clone()
            };
        }
        Self {
            open: Some(attempt),
            given_twice: false,
            must_name: self.must_name || self.given_twice || self.open.is_some(),
            verdicts: self.verdicts.clone(),
        }
    }

    /// The state after a verdict without an attempt was admitted for the claim given last.
    #[must_use]
    pub fn said(&self, verdict: &str) -> Self {
        let mut after = self.clone();
        let said = UnattributedVerdict {
            words: verdict.to_owned(),
            attempt: self.open.clone().unwrap_or_default(),
        };
        after.verdicts.retain(|known| *known != said);
        after.verdicts.push(said);
        let surplus = after.verdicts.len().saturating_sub(VERDICTS_MAX);
        after.verdicts.drain(..surplus);
        after
    }

    /// The state after the caller's own report on this claim was accepted.
    #[must_use]
    pub fn reported(&self, attempt: &Attempt) -> Self {
        let attempt = attempt.to_string();
        Self {
            open: self.open.clone().filter(|open| *open != attempt),
            ..self.clone()
        }
    }
}

/// Decides whether a report counts for the claim that its caller holds.
///
/// `caller` is `None` where the token itself is bound to the claim: an agent that was started for
/// one job.
pub fn admit(
    named: ReportClaim<'_>,
    held: Option<&HeldClaim>,
    caller: Option<&CallerState>,
) -> Result<(), Refused> {
    let ReportClaim { attempt, verdict } = named;
    let named = attempt.map(str::parse::<Attempt>).transpose()?;
    let Some(held) = held else {
        return Err(Refused::NothingHeld {
            named: named.map(|attempt| attempt.to_string()),
        });
    };
    match (named, caller) {
        (Some(named), _) if named == held.attempt => Ok(()),
        (Some(named), _) => Err(Refused::OtherAttempt {
            named: named.to_string(),
            held: held.described.clone(),
        }),
        (None, Some(caller)) => admit_unnamed(held, caller, verdict),
        (None, None) => Ok(()),
    }
}

fn admit_unnamed(
    held: &HeldClaim,
    caller: &CallerState,
    verdict: Option<&str>,
) -> Result<(), Refused> {
    let described = held.described.clone();
    if caller.must_name {
        return Err(Refused::MustNameAttempt { held: described });
    }
    if caller.open != Some(held.attempt.to_string()) {
        return Err(Refused::GivenToAnother { held: described });
    }
    let is_of_another = |said: &UnattributedVerdict| {
        verdict == Some(said.words.as_str()) && caller.open.as_ref() != Some(&said.attempt)
    };
    if caller.verdicts.iter().any(is_of_another) {
        return Err(Refused::SameVerdict { held: described });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_read_as_it_is_written_and_in_no_other_way() {
        for sound in [
            "greet/3/1",
            "greet/3/1/4f0c2ab",
            "task:7/2",
            "A-1.b/4294967295/18446744073709551615",
        ] {
            let read: Attempt = sound.parse().unwrap();
            assert_eq!(read.to_string(), sound);
        }
        let long = format!("{}/1/1", "x".repeat(LENGTH_MAX));
        for bad in [
            "",
            "/",
            "greet",
            "greet/3",
            "greet/3/",
            "greet/3/1/",
            "greet/3/1/c1/x",
            "greet//1",
            "greet/+3/1",
            "greet/03/1",
            "greet/3/1 ",
            " greet/3/1",
            "greet/3/-1",
            "greet/3/1\n",
            "greet/3/0x1",
            "greet/4294967296/1",
            "greet/3/18446744073709551616",
            "greet/3/1/c 1",
            "../3/1",
            "task:7",
            "task:7/",
            "task:+7/2",
            "task:7/2/1",
            "Task:7/2",
            "\u{202e}greet/3/1",
            "greet/\u{663}/1",
            &long,
        ] {
            let refused = bad.parse::<Attempt>();
            assert!(
                matches!(refused, Err(Refused::BadAttempt { .. })),
                "{bad:?}: {refused:?}"
            );
        }
    }

    fn unnamed() -> ReportClaim<'static> {
        ReportClaim::default()
    }

    fn under(attempt: &str) -> ReportClaim<'_> {
        ReportClaim {
            attempt: Some(attempt),
            verdict: None,
        }
    }

    #[test]
    fn a_verdict_that_comes_again_in_the_same_words_does_not_count_for_the_next_claim() {
        let (first, second) = (claim(1, 1), claim(2, 1));
        let words = |verdict| ReportClaim {
            attempt: None,
            verdict: Some(verdict),
        };
        let caller = CallerState::default().given(&first.attempt, false);
        assert_eq!(admit(words("yes"), Some(&first), Some(&caller)), Ok(()));
        let caller = caller.said("yes").reported(&first.attempt);
        let caller = caller.given(&second.attempt, false);
        assert!(matches!(
            admit(words("yes"), Some(&second), Some(&caller)),
            Err(Refused::SameVerdict { .. })
        ));
        assert_eq!(admit(words("no"), Some(&second), Some(&caller)), Ok(()));
        let named = second.attempt.to_string();
        let named = ReportClaim {
            attempt: Some(&named),
            ..words("yes")
        };
        assert_eq!(admit(named, Some(&second), Some(&caller)), Ok(()));
        let mut many = caller;
        for number in 0..2 * VERDICTS_MAX {
            many = many.said(&number.to_string());
        }
        assert_eq!(many.verdicts.len(), VERDICTS_MAX);
    }

    fn claim(serial: u32, fence: u64) -> HeldClaim {
        let ticket = TicketId::new("greet").unwrap();
        let task = Task::Review {
            commit: format!("c{serial}"),
            round: serial,
            seat: "reviewer".to_owned(),
        };
        HeldClaim::of_job(&ticket, Lease { serial, fence }, &task)
    }

    #[test]
    fn a_simple_caller_reports_one_claim_after_the_other() {
        let mut caller = CallerState::default();
        for serial in 1..5 {
            let held = claim(serial, 1);
            assert!(admit(unnamed(), Some(&held), Some(&caller)).is_err());
            caller = caller.given(&held.attempt, false);
            assert_eq!(admit(unnamed(), Some(&held), Some(&caller)), Ok(()));
            caller = caller.reported(&held.attempt);
        }
        assert!(!caller.must_name);
    }

    #[test]
    fn after_a_claim_that_ended_without_its_report_every_report_names_its_attempt() {
        let (lost, next, later) = (claim(1, 1), claim(1, 2), claim(2, 1));
        let mut caller = CallerState::default().given(&lost.attempt, false);
        for held in [next, later] {
            caller = caller.given(&held.attempt, false);
            assert!(matches!(
                admit(unnamed(), Some(&held), Some(&caller)),
                Err(Refused::MustNameAttempt { .. })
            ));
            let named = held.attempt.to_string();
            assert_eq!(admit(under(&named), Some(&held), Some(&caller)), Ok(()));
            caller = caller.reported(&held.attempt);
        }
    }

    #[test]
    fn a_claim_given_twice_without_a_session_may_have_two_processes() {
        let (first, second) = (claim(1, 1), claim(2, 1));
        for (has_session, counts) in [(false, false), (true, true)] {
            let caller = CallerState::default()
                .given(&first.attempt, has_session)
                .given(&first.attempt, has_session);
            assert_eq!(admit(unnamed(), Some(&first), Some(&caller)), Ok(()));
            let caller = caller
                .reported(&first.attempt)
                .given(&second.attempt, has_session);
            let admitted = admit(unnamed(), Some(&second), Some(&caller));
            assert_eq!(admitted.is_ok(), counts, "{admitted:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_named_and_what_is_held_without_giving_the_attempt_away() {
        let (stale, held) = (claim(1, 1), claim(2, 1));
        let caller = CallerState::default();
        let stale = stale.attempt.to_string();
        let refused = admit(under(&stale), Some(&held), Some(&caller)).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains(&stale) && told.contains("the review of greet in round 2"));
        assert!(!told.contains(&held.attempt.to_string()), "{told}");
        let nothing = admit(under(&stale), None, None).unwrap_err().to_string();
        assert!(nothing.contains("you have no assignment"), "{nothing}");
        assert!(nothing.contains(&stale), "{nothing}");
    }
}
