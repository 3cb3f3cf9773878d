//! Attempts: names of single claims, and the rules which report counts for which claim.
//!
//! A report counts only for its own claim. If the caller names its attempt, all of it must match
//! the lease. If not, the report counts only while no other process of the same token can be at
//! work: see [`CallerState`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::advance::Refused;
use crate::event::Lease;
use crate::job::Task;
use crate::ticket::TicketId;

/// Longest attempt that is read.
/// A ticket id, two numbers and a commit fit many times over.
const LENGTH_MAX: usize = 300;
/// Length of a SHA-256 commit id.
const COMMIT_MAX: usize = 64;
/// Longest part of an invalid attempt that is repeated to its caller.
const SHOWN_MAX: usize = 120;
const TASK_PREFIX: &str = "task:";
/// Verdicts remembered per caller, to recognise one that is sent again.
/// The list is stored with the caller, so it is bounded.
const VERDICTS_MAX: usize = 64;

/// One claim of one job. It names a claim and proves nothing: the caller's token decides who may
/// use it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// A ticket's job under one lease. A review or a verification also names its commit.
    Job {
        ticket: TicketId,
        lease: Lease,
        commit: Option<String>,
    },
    /// A queue task, by the number of its job.
    Task { job: i64, fence: u64 },
}

impl Attempt {
    pub fn of_job(ticket: &TicketId, lease: Lease, task: &Task) -> Self {
        let commit = match task {
            // The commit makes the attempt of a review useless for another commit of the same
            // ticket.
            Task::Review { commit, .. } | Task::Verify { commit, .. } => Some(commit.clone()),
            Task::Build { .. }
            | Task::Check { .. }
            | Task::Merge { .. }
            | Task::Tell { .. }
            | Task::Report => None,
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
            Self::Task { job, fence } => write!(out, "{TASK_PREFIX}{job}/{fence}"),
        }
    }
}

impl FromStr for Attempt {
    type Err = Refused;

    /// Parses strictly: a text in any other form than [`Attempt`] writes is refused (`+1`, `01`,
    /// spaces).
    /// A lenient reader would accept two texts for one claim, and a misspelt attempt might hit
    /// another one.
    fn from_str(text: &str) -> Result<Self, Refused> {
        // The length is tested first, so that no long text is parsed or repeated.
        let parsed = if text.len() > LENGTH_MAX {
            None
        } else if let Some(numbers) = text.strip_prefix(TASK_PREFIX) {
            parse_task(numbers)
        } else {
            parse_job(text)
        };
        parsed
            // The round trip is the whole rule: written again, it has to be the same text.
            .filter(|attempt| attempt.to_string() == text)
            .ok_or_else(|| {
                // The text is repeated to the caller and to the log. It is shortened and loses its
                // control characters.
                let start: String = text.chars().take(LENGTH_MAX).collect();
                Refused::BadAttempt {
                    named: findings::shorten(&findings::one_line(&start), SHOWN_MAX),
                }
            })
    }
}

fn parse_task(numbers: &str) -> Option<Attempt> {
    let (job, fence) = numbers.split_once('/')?;
    Some(Attempt::Task {
        job: job.parse().ok()?,
        fence: fence.parse().ok()?,
    })
}

fn parse_job(text: &str) -> Option<Attempt> {
    let mut parts = text.split('/');
    let ticket = TicketId::new(parts.next()?).ok()?;
    let lease = Lease {
        serial: parts.next()?.parse().ok()?,
        fence: parts.next()?.parse().ok()?,
    };
    let commit = parts.next().map(str::to_owned);
    // Any letter or digit: the comparison with the lease decides. The limit keeps paths and spaces
    // out.
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
    /// Description for people: `the review of greet in round 2`. It does not contain the attempt,
    /// so that a refused caller reads its assignment before it reports again.
    pub described: String,
}

impl HeldClaim {
    pub fn of_job(ticket: &TicketId, lease: Lease, task: &Task) -> Self {
        let round = match task {
            Task::Build { round } | Task::Review { round, .. } | Task::Verify { round, .. } => {
                format!(" in round {round}")
            }
            Task::Check { .. } | Task::Merge { .. } | Task::Tell { .. } | Task::Report => {
                String::new()
            }
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

/// Claims given to one caller. A caller is a token together with the session of its process, if the
/// protocol has sessions; without sessions all processes of a token are one caller.
///
/// A report without an attempt counts only for the caller's last claim. Without a session it never
/// counts again once two processes of the caller may work on different claims: after an earlier
/// claim ended without its report (its process may still report), or after an earlier claim was
/// given twice. A session is one process: after a lost claim its reports count again as soon as it
/// has asked and was given the next one.
///
/// A verdict without an attempt may be an earlier one with the same text, sent again because its
/// answer was lost. Without a session it does not count for another claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerState {
    /// Last claim, if this caller has not reported on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<String>,
    /// The last claim was given more than once, and no session tells the processes apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_twice: bool,
    /// Every report has to name its attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_name: bool,
    /// Verdicts without an attempt, each with its claim, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<UnattributedVerdict>,
    /// Approval that was sent back because its text is not understood. The same call again confirms
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questioned: Option<UnattributedVerdict>,
}

/// Text of a verdict, and the claim that it was about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnattributedVerdict {
    /// Hash of its text.
    pub words: String,
    /// Claim for which it counted.
    pub attempt: String,
}

/// Fields of a report that tie it to a claim.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportClaim<'a> {
    /// Attempt, if the report names one.
    pub attempt: Option<&'a str>,
    /// Hash of the text, if the report is a verdict without a session.
    pub verdict: Option<&'a str>,
}

impl CallerState {
    /// Returns the state after this claim is given to the caller.
    #[must_use]
    pub fn after_claim(&self, attempt: &Attempt, has_session: bool) -> Self {
        let attempt = attempt.to_string();
        // The same claim given again: a client that lost the answer asks twice. Without a session
        // it may also be a second process.
        if self.open.as_ref() == Some(&attempt) {
            return Self {
                given_twice: self.given_twice || !has_session,
                ..self.clone()
            };
        }
        // A new claim. If the one before is still open, another process of the token may be alive
        // and may report late. A session is one process, and it has asked for the new claim.
        let is_shared = self.must_name || self.given_twice || self.open.is_some();
        Self {
            open: Some(attempt),
            given_twice: false,
            // Once set, it stays: nothing shows that the second process has ended.
            must_name: is_shared && !has_session,
            verdicts: self.verdicts.clone(),
            // The question belonged to the claim before. The same words about another change would
            // otherwise confirm it.
            questioned: None,
        }
    }

    /// Returns the state after an approval of this claim was sent back because of its text.
    #[must_use]
    pub fn after_question(&self, attempt: &Attempt, words: &str) -> Self {
        Self {
            questioned: Some(UnattributedVerdict {
                words: words.to_owned(),
                attempt: attempt.to_string(),
            }),
            ..self.clone()
        }
    }

    /// Returns whether the same approval of the same claim was sent back before.
    pub fn is_questioned(&self, attempt: &Attempt, words: &str) -> bool {
        let is_same = |asked: &UnattributedVerdict| {
            asked.words == words && asked.attempt == attempt.to_string()
        };
        self.questioned.as_ref().is_some_and(is_same)
    }

    /// Returns the state after a verdict without an attempt was accepted for the last claim.
    #[must_use]
    pub fn after_verdict(&self, verdict: &str) -> Self {
        let mut after = self.clone();
        let new = UnattributedVerdict {
            words: verdict.to_owned(),
            attempt: self.open.clone().unwrap_or_default(),
        };
        // The same verdict on the same claim is kept once, as the newest.
        after.verdicts.retain(|verdict| *verdict != new);
        after.verdicts.push(new);
        let surplus = after.verdicts.len().saturating_sub(VERDICTS_MAX);
        after.verdicts.drain(..surplus);
        after
    }

    /// Returns the state after the caller's own report on this claim was accepted.
    #[must_use]
    pub fn after_report(&self, attempt: &Attempt) -> Self {
        let attempt = attempt.to_string();
        Self {
            // Only its own claim is closed. A report on an older one says nothing about the claim
            // that is open.
            open: self.open.clone().filter(|open| *open != attempt),
            ..self.clone()
        }
    }
}

/// Decides whether a report counts for the claim that its caller holds.
///
/// `caller` is `None` if the token itself is bound to the claim, as for a spawned agent.
pub fn admit(
    report: ReportClaim<'_>,
    held: Option<&HeldClaim>,
    caller: Option<&CallerState>,
) -> Result<(), Refused> {
    let ReportClaim { attempt, verdict } = report;
    // A malformed attempt is refused before anything else, also if nothing is held.
    let attempt = attempt.map(str::parse::<Attempt>).transpose()?;
    let Some(held) = held else {
        return Err(Refused::NothingHeld {
            named: attempt.map(|attempt| attempt.to_string()),
        });
    };
    match (attempt, caller) {
        // All of it must be equal: ticket, job, fence and commit.
        (Some(attempt), _) if attempt == held.attempt => Ok(()),
        (Some(attempt), _) => Err(Refused::OtherAttempt {
            named: attempt.to_string(),
            held: held.described.clone(),
        }),
        (None, Some(caller)) => admit_unnamed(held, caller, verdict),
        // The token was made for this claim and ends with it. There is no second process.
        (None, None) => Ok(()),
    }
}

fn admit_unnamed(
    held: &HeldClaim,
    caller: &CallerState,
    verdict: Option<&str>,
) -> Result<(), Refused> {
    let described = held.described.clone();
    // This comes first: it is the answer that tells the client what to do from now on.
    if caller.must_name {
        return Err(Refused::MustNameAttempt { held: described });
    }
    // The token holds a claim that another process of it was given.
    if caller.open != Some(held.attempt.to_string()) {
        return Err(Refused::GivenToAnother { held: described });
    }
    // The same words for another claim may be a delayed copy of the earlier report.
    let is_of_another = |earlier: &UnattributedVerdict| {
        verdict == Some(earlier.words.as_str()) && caller.open.as_ref() != Some(&earlier.attempt)
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
        let caller = CallerState::default().after_claim(&first.attempt, false);
        assert_eq!(admit(words("yes"), Some(&first), Some(&caller)), Ok(()));
        let caller = caller.after_verdict("yes").after_report(&first.attempt);
        let caller = caller.after_claim(&second.attempt, false);
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
            many = many.after_verdict(&number.to_string());
        }
        assert_eq!(many.verdicts.len(), VERDICTS_MAX);
    }

    fn claim(serial: u32, fence: u64) -> HeldClaim {
        let ticket = TicketId::new("greet").unwrap();
        let task = Task::Review {
            commit: format!("c{serial}"),
            round: serial,
            reviewer: "reviewer".to_owned(),
        };
        HeldClaim::of_job(&ticket, Lease { serial, fence }, &task)
    }

    #[test]
    fn a_simple_caller_reports_one_claim_after_the_other() {
        let mut caller = CallerState::default();
        for serial in 1..5 {
            let held = claim(serial, 1);
            assert!(admit(unnamed(), Some(&held), Some(&caller)).is_err());
            caller = caller.after_claim(&held.attempt, false);
            assert_eq!(admit(unnamed(), Some(&held), Some(&caller)), Ok(()));
            caller = caller.after_report(&held.attempt);
        }
        assert!(!caller.must_name);
    }

    #[test]
    fn after_a_claim_that_ended_without_its_report_every_report_names_its_attempt() {
        let (lost, next, later) = (claim(1, 1), claim(1, 2), claim(2, 1));
        let mut caller = CallerState::default().after_claim(&lost.attempt, false);
        for held in [next, later] {
            caller = caller.after_claim(&held.attempt, false);
            assert!(matches!(
                admit(unnamed(), Some(&held), Some(&caller)),
                Err(Refused::MustNameAttempt { .. })
            ));
            let named = held.attempt.to_string();
            assert_eq!(admit(under(&named), Some(&held), Some(&caller)), Ok(()));
            caller = caller.after_report(&held.attempt);
        }
    }

    /// A client of another system that was slow once, or whose server died between the report and the
    /// record of it, knows no attempts. Its session is one process, which has asked again.
    #[test]
    fn a_session_that_asks_again_after_a_lost_claim_reports_as_before() {
        let (lost, next) = (claim(1, 1), claim(1, 2));
        let caller = CallerState::default().after_claim(&lost.attempt, true);
        let late = admit(unnamed(), Some(&next), Some(&caller));
        assert!(
            matches!(late, Err(Refused::GivenToAnother { .. })),
            "before it has asked: {late:?}"
        );
        let caller = caller.after_claim(&next.attempt, true);
        assert_eq!(admit(unnamed(), Some(&next), Some(&caller)), Ok(()));
    }

    /// One of several processes with the same token and without sessions does something.
    #[derive(Clone, Copy, Debug)]
    enum ProcessStep {
        /// It asks for its assignment.
        Ask(usize),
        /// It reports on the claim that it was given, in one of a few wordings.
        Report(usize, u8),
        /// Its last report arrives again.
        Repeat(usize),
        /// The lease of the token ends without a report.
        Lose,
    }

    fn step() -> impl proptest::strategy::Strategy<Value = ProcessStep> {
        use proptest::prelude::*;
        prop_oneof![
            4 => (0..3_usize).prop_map(ProcessStep::Ask),
            4 => (0..3_usize, 0..200_u8).prop_map(|(process, words)| ProcessStep::Report(process, words)),
            2 => (0..3_usize).prop_map(ProcessStep::Repeat),
            1 => Just(ProcessStep::Lose),
        ]
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]

        /// Whatever the processes of a token do, a report without an attempt counts only for the
        /// claim that its own process was given.
        #[test]
        fn an_unnamed_report_counts_for_the_claim_of_its_own_process_only(
            steps in proptest::collection::vec(step(), 1..40)
        ) {
            let (mut caller, mut held, mut serial) = (CallerState::default(), None, 0);
            // The claim of each process, and what it reported last on which claim.
            let mut given: [Option<Attempt>; 3] = Default::default();
            let mut sent: [Option<(String, Attempt)>; 3] = Default::default();
            for step in steps {
                let (process, words, meant) = match step {
                    ProcessStep::Ask(process) => {
                        let current: &HeldClaim = held.get_or_insert_with(|| {
                            serial += 1;
                            claim(serial, 1)
                        });
                        caller = caller.after_claim(&current.attempt, false);
                        given[process] = Some(current.attempt.clone());
                        continue;
                    }
                    ProcessStep::Lose => {
                        held = None;
                        continue;
                    }
                    // Each process has wordings of its own, as each looks at its own work.
                    ProcessStep::Report(process, words) => match given[process].clone() {
                        Some(meant) => (process, format!("{process} {words} {meant}"), meant),
                        None => continue,
                    },
                    ProcessStep::Repeat(process) => match sent[process].clone() {
                        Some((words, meant)) => (process, words, meant),
                        None => continue,
                    },
                };
                sent[process] = Some((words.clone(), meant.clone()));
                let report = ReportClaim { attempt: None, verdict: Some(&words) };
                if admit(report, held.as_ref(), Some(&caller)).is_ok() {
                    let counted = held.take().map(|held| held.attempt);
                    proptest::prop_assert_eq!(counted.as_ref(), Some(&meant));
                    caller = caller.after_verdict(&words).after_report(&meant);
                    given[process] = None;
                }
            }
        }
    }

    #[test]
    fn only_the_same_words_on_the_same_claim_confirm_a_questioned_approval() {
        let (first, second) = (claim(1, 1), claim(2, 1));
        let caller = CallerState::default().after_claim(&first.attempt, false);
        assert!(!caller.is_questioned(&first.attempt, "words"));
        let caller = caller.after_question(&first.attempt, "words");
        assert!(caller.is_questioned(&first.attempt, "words"));
        assert!(!caller.is_questioned(&first.attempt, "others"));
        assert!(!caller.is_questioned(&second.attempt, "words"));
        let other = caller.after_question(&first.attempt, "others");
        assert!(!other.is_questioned(&first.attempt, "words"));
        let next = caller.after_claim(&second.attempt, false);
        assert!(!next.is_questioned(&first.attempt, "words"));
    }

    #[test]
    fn a_claim_given_twice_without_a_session_may_have_two_processes() {
        let (first, second) = (claim(1, 1), claim(2, 1));
        for (has_session, counts) in [(false, false), (true, true)] {
            let caller = CallerState::default()
                .after_claim(&first.attempt, has_session)
                .after_claim(&first.attempt, has_session);
            assert_eq!(admit(unnamed(), Some(&first), Some(&caller)), Ok(()));
            let caller = caller
                .after_report(&first.attempt)
                .after_claim(&second.attempt, has_session);
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
        let text = refused.to_string();
        assert!(text.contains(&stale) && text.contains("the review of greet in round 2"));
        assert!(!text.contains(&held.attempt.to_string()), "{text}");
        let nothing = admit(under(&stale), None, None).unwrap_err().to_string();
        assert!(nothing.contains("you have no assignment"), "{nothing}");
        assert!(nothing.contains(&stale), "{nothing}");
    }
}
