//! The invariants, checked after every step. Their data is kept apart from the ticket, so that a
//! wrong ticket cannot confirm itself.

use std::collections::{BTreeMap, BTreeSet};

use findings::ReviewClaim;
use flow::event::{Choice, Lease};
use flow::ledger::{FindingStatus, LedgerEntry};
use flow::policy::{Land, MinorOnly, Policy, ROUNDS_HARD_CAP, RedOnBase, VerifyNewFindings, Votes};
use flow::ticket::{Approval, ApprovedBy, BlockedReason, CheckOutcome, PanelReviewer, Ticket};
use flow::usage::Caps;
use flow::{Effect, Event, EventKind, Refused, Stage, Task, Usage, advance};

use crate::story::Story;

#[derive(Debug, Default)]
pub struct Watch {
    pub stages: BTreeSet<Stage>,
    /// Jobs that were ordered and have not ended, according to the effects alone.
    open: BTreeMap<u32, Task>,
    last_serial: u32,
    fences: BTreeMap<u32, u64>,
    rounds_at_reset: usize,
    grants: u32,
    spent: u64,
    /// Principals whose reviews of the current submission were accepted.
    judges: BTreeSet<String>,
    /// The last claim on a tree, by reviewer.
    claims: BTreeMap<(String, String, String), ReviewClaim>,
    refusers: BTreeSet<String>,
}

impl Watch {
    pub fn begin(story: &Story) -> Self {
        let mut watch = Self::default();
        watch.stages.insert(story.stage());
        watch.jobs_agree(&story.ticket, &story.effects);
        way_forward(&story.ticket, &story.policy);
        watch
    }

    pub fn after(&mut self, before: &Ticket, event: &Event, story: &Story) {
        let (after, policy) = (&story.ticket, &story.policy);
        self.stages.insert(after.stage);
        assert!(
            !before.stage.is_terminal(),
            "a ticket left {}",
            before.stage
        );
        assert_eq!(after.version, before.version + 1);
        self.jobs_agree(after, &story.effects);
        self.fences_grow(before, event, after);
        self.rounds_are_bounded(before, event, after, policy);
        self.nobody_judges_their_own_work(before, event, after);
        self.countersigners_said_yes(before, event, after, policy);
        self.budget_is_hard(before, event, story);
        way_forward(after, policy);
        approval_is_exact(after, policy);
        must_fix_stays(before, event, after, policy);
        verdicts_leave_nobody_waiting(after, policy);
        notes_are_neither_must_fix_nor_approved_over(before, after, policy);
        landing_is_approved(event, after);
        repeated_is_refused(before, event, story);
    }

    /// Every open job was ordered once and has not ended; every ended one has an effect that says
    /// how.
    fn jobs_agree(&mut self, after: &Ticket, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Enqueue(job) => {
                    assert!(job.serial > self.last_serial, "a serial came twice");
                    self.last_serial = job.serial;
                    if !matches!(job.task, Task::Tell { .. } | Task::Report) {
                        self.open.insert(job.serial, job.task.clone());
                    }
                }
                Effect::Retry { serial, .. } => {
                    assert!(self.open.contains_key(serial), "a retry of no job");
                }
                Effect::Finish { serial }
                | Effect::Drop { serial, .. }
                | Effect::Bury { serial, .. } => {
                    let ended = self.open.remove(serial);
                    assert!(ended.is_some(), "job {serial} ended twice");
                }
            }
        }
        let known: BTreeMap<u32, Task> = after
            .jobs
            .iter()
            .map(|job| (job.serial, job.task.clone()))
            .collect();
        assert_eq!(known, self.open, "the ticket's jobs and the queue's");
    }

    fn fences_grow(&mut self, before: &Ticket, event: &Event, after: &Ticket) {
        for job in &after.jobs {
            let known = self.fences.entry(job.serial).or_default();
            assert!(job.fence >= *known, "a fence fell");
            *known = job.fence;
        }
        let Some(lease) = event.what.lease() else {
            return;
        };
        let mut jobs = before.jobs.iter();
        let job = jobs.find(|job| job.serial == lease.serial);
        let job = job.expect("an accepted report is of an open job");
        match &job.holder {
            Some(_) => assert_eq!(lease.fence, job.fence, "a report under an old token"),
            None => assert!(lease.fence > job.fence, "a token that was used before"),
        }
    }

    fn rounds_are_bounded(
        &mut self,
        before: &Ticket,
        event: &Event,
        after: &Ticket,
        policy: &Policy,
    ) {
        match &event.what {
            EventKind::Settled {
                choice: Choice::Reset,
                ..
            } => {
                self.rounds_at_reset = after.rounds.len();
                self.grants = 0;
            }
            EventKind::Settled {
                choice: Choice::Continue | Choice::Reassign { .. },
                ..
            }
            | EventKind::Resubmitted { .. } => self.grants += 1,
            _ => {}
        }
        let verdicts = u32::try_from(after.rounds.len() - self.rounds_at_reset).unwrap();
        assert_eq!(verdicts, after.counts.verdicts);
        assert!(verdicts <= ROUNDS_HARD_CAP, "past the hard cap");
        let allowed = policy.max_rounds + self.grants;
        assert!(verdicts <= allowed, "{verdicts} verdicts of {allowed}");
        assert!(after.round >= before.round, "a round number fell");
        let numbers: Vec<u32> = after.rounds.iter().map(|round| round.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(after.rounds.starts_with(&before.rounds), "the past changed");
    }

    fn nobody_judges_their_own_work(&mut self, before: &Ticket, event: &Event, after: &Ticket) {
        let who = &event.by.principal;
        let judges = matches!(
            event.what,
            EventKind::Reviewed { .. }
                | EventKind::Verified { .. }
                | EventKind::Waived { .. }
                | EventKind::Settled {
                    choice: Choice::Accept { .. },
                    ..
                }
        );
        assert!(
            !(judges && before.authors.contains(who)),
            "{who} judged their own work"
        );
        let job = |lease: Lease| before.jobs.iter().find(|job| job.serial == lease.serial);
        if matches!(event.what, EventKind::Started { .. })
            && let Some(job) = event.what.lease().and_then(job)
            && matches!(job.task, Task::Review { .. } | Task::Verify { .. })
            && let Some(name) = event.by.written.as_ref().filter(|_| job.fallback)
        {
            assert!(
                !before.builders.contains(name),
                "{name} judges what it built"
            );
        }
        if before.submission != after.submission {
            self.judges.clear();
        }
        if matches!(event.what, EventKind::Reviewed { .. }) {
            self.judges.insert(who.clone());
        }
        assert!(after.authors.is_superset(&before.authors));
        let now = after
            .approval
            .as_ref()
            .filter(|_| before.approval.is_none());
        let Some(ApprovedBy::Reviewers { names, refused }) = now.map(|approval| &approval.by)
        else {
            return;
        };
        // A reviewer in two reviewers that approved in only one of them is not named.
        let heard = after
            .panel
            .iter()
            .filter_map(|reviewer| reviewer.answer.as_ref());
        let stated_nothing = heard
            .clone()
            .any(|answer| answer.claim == ReviewClaim::Unknown);
        let someone = !names.is_empty() || !refused.is_empty() || stated_nothing;
        assert!(someone && heard.count() > 0, "approved by nobody");
        assert!(self.judges.is_disjoint(&after.authors), "a self-review");
        assert!(
            after.panel.iter().all(|reviewer| reviewer.answer.is_some()),
            "approved with an empty reviewer"
        );
    }

    /// A named countersigner approved last, in every reviewer that it had. If the policy asks again, no
    /// refusal is overruled while a finding behind it is open.
    fn countersigners_said_yes(
        &mut self,
        before: &Ticket,
        event: &Event,
        after: &Ticket,
        policy: &Policy,
    ) {
        let reviewer = event.what.lease().and_then(|lease| {
            let mut jobs = before.jobs.iter();
            match &jobs.find(|job| job.serial == lease.serial)?.task {
                Task::Review { reviewer, .. } => Some(reviewer.clone()),
                _ => None,
            }
        });
        if let (Some(reviewer), EventKind::Reviewed { review, .. }) = (reviewer, &event.what) {
            if review.claim == ReviewClaim::ChangesRequested {
                self.refusers.insert(event.by.agent.clone());
            }
            // Without a verdict it was no review, unless its findings count.
            let taken = after.panel.iter().any(|known| {
                let answer = known.answer.as_ref();
                known.name == reviewer && answer.is_some_and(|one| one.reviewer == event.by.agent)
            });
            if review.claim != ReviewClaim::Unknown || taken {
                let key = (tree(before), reviewer, event.by.agent.clone());
                self.claims.insert(key, review.claim);
            }
        }
        let now = after
            .approval
            .as_ref()
            .filter(|_| before.approval.is_none());
        let Some(ApprovedBy::Reviewers { names, refused }) = now.map(|approval| &approval.by)
        else {
            return;
        };
        let reviewers: Vec<_> = after
            .panel
            .iter()
            .filter(|reviewer| !reviewer.linter)
            .collect();
        let last_in = |reviewer: &PanelReviewer, who: &str| {
            let key = (tree(after), reviewer.name.clone(), who.to_owned());
            self.claims.get(&key).copied()
        };
        let said = |name: &String| {
            let own = reviewers.iter().filter(|reviewer| {
                let answer = reviewer.answer.as_ref();
                answer.is_some_and(|answer| answer.reviewer == *name)
            });
            own.filter_map(|reviewer| last_in(reviewer, name))
                .collect::<Vec<_>>()
        };
        for name in names {
            let claims = said(name);
            let yes = claims.iter().all(|claim| *claim == ReviewClaim::Approved);
            assert!(
                yes && !claims.is_empty(),
                "{name} is named and said {claims:?}"
            );
        }
        for name in refused {
            assert!(self.refusers.contains(name), "{name} refused nothing");
        }
        if policy.minor_only != MinorOnly::Ask || policy.votes != Votes::All {
            return;
        }
        for reviewer in reviewers.iter().filter(|_| policy.gates.reviewer_approves) {
            let answer = reviewer.answer.as_ref();
            let last = answer.and_then(|answer| last_in(reviewer, &answer.reviewer));
            let reported = reviewer.answer.iter().flat_map(|answer| &answer.reported);
            let mut named = reported.filter_map(|id| after.ledger.get(id));
            let stands = named.any(|entry| entry.status.is_open());
            assert!(
                last == Some(ReviewClaim::Approved) || !stands,
                "{} was overruled while it stood by a finding",
                reviewer.name
            );
        }
    }

    fn budget_is_hard(&mut self, before: &Ticket, event: &Event, story: &Story) {
        let ticket = &story.ticket;
        self.spent += event.what.usage().usd_micros;
        assert_eq!(ticket.spent.ticket.usd_micros, self.spent);
        let budget = ticket.budget.unwrap_or(story.policy.budget);
        let over = ticket
            .rounds
            .last()
            .is_some_and(|round| round.number == ticket.round);
        let reached =
            |caps: Caps, used: Usage| caps.usd_micros.is_some_and(|cap| used.usd_micros >= cap);
        let broke = reached(budget.ticket, ticket.spent.ticket)
            || (!over && reached(budget.round, ticket.spent.round));
        if !broke {
            return;
        }
        let mut jobs = ticket.jobs.iter();
        assert!(!jobs.any(|job| job.task.is_paid()), "paid work goes on");
        for effect in &story.effects {
            let retried = matches!(effect, Effect::Retry { serial, .. }
                if before.jobs.iter().any(|job| job.serial == *serial && job.task.is_paid()));
            assert!(!retried, "paid work is tried again");
        }
    }
}

fn tree(ticket: &Ticket) -> String {
    let put = ticket.submission.as_ref();
    put.map(|put| put.tree.clone()).unwrap_or_default()
}

/// A ticket that is not terminal waits for a job, a dependency or a person.
fn way_forward(ticket: &Ticket, policy: &Policy) {
    let queues: Vec<&str> = ticket.jobs.iter().map(|job| job.task.word()).collect();
    let held = ticket.jobs.iter().any(|job| job.holder.is_some());
    let stage = ticket.stage;
    assert_eq!(ticket.escalation.is_some(), stage == Stage::Escalated);
    assert_eq!(ticket.blocked.is_some(), stage == Stage::Blocked);
    assert_eq!(ticket.landed.is_some(), stage == Stage::Done);
    let ended = matches!(stage, Stage::Failed | Stage::Cancelled);
    assert_eq!(ticket.ended.is_some(), ended);
    match stage {
        Stage::Pending => {
            assert!(!ticket.waits_for.is_empty(), "pending for nothing");
            assert!(queues.is_empty());
        }
        Stage::Queued | Stage::Rework => assert!(queues == ["build"] && !held, "{queues:?}"),
        Stage::Building => assert!(queues == ["build"] && held, "{queues:?}"),
        Stage::Checking => assert_eq!(queues, ["check"]),
        Stage::Reviewing => {
            assert!(!queues.is_empty(), "nobody reviews");
            assert!(
                queues
                    .iter()
                    .all(|queue| ["review", "verify"].contains(queue))
            );
        }
        // The forge is the way forward, and a report has no place among the jobs.
        Stage::Approved if policy.land == Land::Pr => assert!(queues.is_empty(), "{queues:?}"),
        Stage::Approved => assert!(queues == ["merge"] && !held, "{queues:?}"),
        Stage::Merging => assert!(queues == ["merge"] && held, "{queues:?}"),
        Stage::Blocked => {
            assert!(queues.is_empty());
            if ticket.blocked == Some(BlockedReason::ByDependency) {
                assert!(!ticket.broken.is_empty(), "blocked by nothing");
            }
        }
        Stage::Escalated | Stage::Done | Stage::Failed | Stage::Cancelled => {
            assert!(queues.is_empty(), "{queues:?} while {stage}");
        }
    }
}

/// An approval names the current commit, with green checks unless a person accepted red ones.
fn approval_is_exact(ticket: &Ticket, policy: &Policy) {
    let Some(approval) = &ticket.approval else {
        let needs = matches!(ticket.stage, Stage::Approved | Stage::Merging | Stage::Done);
        assert!(!needs, "{} without an approval", ticket.stage);
        return;
    };
    let at_work = matches!(
        ticket.stage,
        Stage::Queued | Stage::Building | Stage::Checking | Stage::Reviewing | Stage::Rework
    );
    assert!(!at_work, "approved while {}", ticket.stage);
    let put = ticket.submission.as_ref().expect("something is approved");
    assert_eq!(approval.commit, put.commit);
    assert_eq!(approval.tree, put.tree);
    assert!(!approval.tree.is_empty(), "an approval of no tree");
    assert_eq!(approval.base_tree, put.base_tree);
    assert_eq!(approval.policy, policy.id());
    checks_are_green(ticket, approval, policy);
    if !matches!(approval.by, ApprovedBy::NobodyAsPolicySays) {
        let open = ticket.ledger.open_must_fix(policy);
        assert!(open.is_empty(), "approved with {} open", open[0].id);
    }
}

fn checks_are_green(ticket: &Ticket, approval: &Approval, policy: &Policy) {
    let over_red = matches!(
        approval.by,
        ApprovedBy::Person {
            over_red_checks: true,
            ..
        }
    );
    if over_red {
        return;
    }
    let checks = ticket.checks.as_ref().expect("checks have run");
    assert_eq!(checks.commit, approval.commit);
    assert_eq!(checks.results, approval.checks);
    let tolerates = policy.red_on_base == RedOnBase::Tolerate;
    let fine = approval.checks.iter().all(|result| {
        result.outcome.is_green() || (tolerates && result.outcome == CheckOutcome::RedOnBase)
    });
    assert!(fine, "approved over red checks");
}

/// A note blocks nothing, but a refusal over a note is not overruled.
fn notes_are_neither_must_fix_nor_approved_over(before: &Ticket, after: &Ticket, policy: &Policy) {
    for note in after.ledger.notes() {
        assert!(!note.is_must_fix(policy), "{} is a note", note.id);
    }
    let decided = after.rounds.len() > before.rounds.len();
    let Some(round) = after.rounds.last().filter(|_| decided) else {
        return;
    };
    let everybody = policy.votes == Votes::All && policy.gates.reviewer_approves;
    if !round.verdict.approved || !everybody {
        return;
    }
    let answers = round.panel.iter().filter(|reviewer| !reviewer.linter);
    let answers = answers.filter_map(|reviewer| reviewer.answer.as_ref());
    for answer in answers.filter(|answer| answer.claim == ReviewClaim::ChangesRequested) {
        let mut named = answer.reported.iter();
        let over = named.find(|id| round.verdict.notes.contains(id));
        assert_eq!(over, None, "a refusal over a note was overruled");
    }
}

/// An open must-fix finding is closed only by proof, refutation or a person's waiver.
fn must_fix_stays(before: &Ticket, event: &Event, after: &Ticket, policy: &Policy) {
    assert!(after.ledger.entries.len() >= before.ledger.entries.len());
    for was in before.ledger.open_must_fix(policy) {
        let is = after.ledger.get(&was.id).expect("an entry was removed");
        if is.status.is_open() {
            assert!(is.is_must_fix(policy), "{} was talked down", is.id);
            continue;
        }
        let proper = match is.status {
            FindingStatus::Fixed => {
                matches!(event.what, EventKind::Verified { .. })
                    || is_stated_fixed(before, was, after, policy)
            }
            FindingStatus::Refuted => matches!(event.what, EventKind::Verified { .. }),
            FindingStatus::Waived => matches!(
                event.what,
                EventKind::Waived { .. }
                    | EventKind::Settled {
                        choice: Choice::Accept { .. },
                        ..
                    }
            ),
            FindingStatus::Open
            | FindingStatus::NotRepeated
            | FindingStatus::Reopened
            | FindingStatus::Disputed
            | FindingStatus::Duplicate => false,
        };
        assert!(proper, "{} left by {}", is.id, event.what.name());
    }
}

/// An approval may call a finding fixed only if every voter that answered approves the exact
/// commit, none of them is an author or reports the finding, and the policy does not want it
/// verified independently.
fn is_stated_fixed(before: &Ticket, was: &LedgerEntry, after: &Ticket, policy: &Policy) -> bool {
    let decided = after.rounds.get(before.rounds.len());
    let panel = decided.map_or(&after.panel, |round| &round.panel);
    let answers: Vec<_> = panel.iter().filter_map(|one| one.answer.as_ref()).collect();
    let mut voters = panel.iter().filter(|one| !one.linter);
    let is_yes = |one: &PanelReviewer| {
        let answer = one.answer.as_ref();
        answer.is_none_or(|answer| answer.claim == ReviewClaim::Approved)
    };
    let note = after.ledger.get(&was.id).and_then(|is| is.note.as_ref());
    before.stage == Stage::Reviewing
        && before.submission == after.submission
        && voters.all(is_yes)
        && answers.iter().any(|answer| answer.answers_open)
        && !answers.iter().any(|a| after.authors.contains(&a.reviewer))
        && !answers.iter().any(|a| a.reported.contains(&was.id))
        && !wants_verifier(was, policy)
        && note.is_some_and(|note| note.text.contains("no verifier looked"))
}

fn wants_verifier(entry: &LedgerEntry, policy: &Policy) -> bool {
    policy.second_opinion
        || policy.verify == VerifyNewFindings::MustFix
        || policy.verify == VerifyNewFindings::Disputed && entry.status == FindingStatus::Disputed
}

/// Once every reviewer has answered, a panel with an agent that knows only verdicts waits for a
/// verifier only where the policy wants one.
fn verdicts_leave_nobody_waiting(after: &Ticket, policy: &Policy) {
    let mut answers = after.panel.iter().map(|one| one.answer.as_ref());
    let complete = answers.clone().all(|answer| answer.is_some());
    let speaks = answers.any(|answer| answer.is_some_and(|answer| answer.answers_open));
    let mut jobs = after.jobs.iter();
    let busy = jobs.any(|job| job.holder.is_some() || !matches!(job.task, Task::Verify { .. }));
    if after.stage != Stage::Reviewing || after.verified_new || !complete || !speaks || busy {
        return;
    }
    for job in &after.jobs {
        let Task::Verify { findings, .. } = &job.task else {
            continue;
        };
        for entry in findings.iter().filter_map(|id| after.ledger.get(id)) {
            assert!(wants_verifier(entry, policy), "{} waits in vain", entry.id);
        }
    }
}

fn landing_is_approved(event: &Event, after: &Ticket) {
    let Some(landed) = &after.landed else { return };
    let approval = after.approval.as_ref().expect("landed without an approval");
    let same_diff = matches!(&event.what, EventKind::Landed { diff_id, .. }
        if !diff_id.is_empty() && *diff_id == approval.diff_id);
    assert!(landed.commit == approval.commit || same_diff);
}

/// A worker that missed the answer reports again: that must change nothing.
fn repeated_is_refused(before: &Ticket, event: &Event, story: &Story) {
    let careful = Event {
        expects: Some(before.version),
        ..event.clone()
    };
    let again = advance(&story.ticket, &careful, &story.policy).unwrap_err();
    assert!(matches!(again, Refused::StaleVersion { .. }));
    if event.what.lease().is_some() {
        let plain = Event {
            expects: None,
            ..event.clone()
        };
        let again = advance(&story.ticket, &plain, &story.policy);
        assert!(again.is_err(), "{} counted twice", event.what.name());
    }
}
