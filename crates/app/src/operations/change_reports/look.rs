//! One look at the pull request of a ticket: reads it, reports what it shows, and writes what is
//! missing. Each step reads the state again, so a look that was killed is made again from the start.

use engine::coordinator::Report;
use engine::git::{Oid, Repository};
use engine::log::LogErr;
use engine::project::ProjectConfig;
use flow::landing::{LandingStyle, PullRequestMerge};
use flow::pull_request::{
    ChangePlan, PlannedGate, approved_commit, minds_red_checks, next_look, plan_change,
    reopens_closed, wants_pull_request,
};
use flow::ticket::{ChangeObservation, ChangePhase, Submission};
use flow::{Actor, EventKind, Policy, Role, Ticket, TicketId, Time};
use forge::{
    ChangeDraft, ChangeFeedback, ChangeKey, ChangeState, ForgeChange, ForgeError, ForgeGate,
    GateState, LabelEdit, MergeMethod, MergeOrder, MergeReport,
};

use super::branch::{BranchState, bring_branch, follow_branch};
use super::memory::{WrittenReport, report_path};
use super::writing::{GATE, ReportWriter};
use super::{feedback, texts};
use crate::failure::Failure;
use crate::operations::App;
use crate::operations::forge_connection::{ConnectedForge, forge_failure};

/// Most steps of one look. Each event that a step reports begins the next one.
const STEPS_MAX: u32 = 12;
/// Longest sentence of a forge that a ticket keeps.
const REASON_CHARS_MAX: usize = 200;
/// Time after which the forge should show a push. It grows with each try.
const PUSH_SEEN_MS: u64 = 1_000;

/// Reason why a look did not end.
#[derive(Debug)]
pub struct LookError {
    pub failure: Failure,
    /// Milliseconds after which a repetition may succeed; `None` if none will.
    pub retry_ms: Option<u64>,
    /// Whether the repetition counts as an attempt.
    pub counts: bool,
}

impl From<ForgeError> for LookError {
    fn from(error: ForgeError) -> Self {
        let (retry_ms, counts) = match &error {
            // A limit is no failure: the forge says when to come back.
            ForgeError::Limited { seconds, .. } => (Some(seconds.saturating_mul(1000)), false),
            ForgeError::Lost { .. } | ForgeError::Unreadable { .. } => (Some(5_000), true),
            // Somebody pushed or closed it at this moment: the next look sees it as it is then.
            ForgeError::Refused { status, .. } if *status >= 500 || [409, 422].contains(status) => {
                (Some(5_000), true)
            }
            ForgeError::Refused { .. }
            | ForgeError::Unsupported { .. }
            | ForgeError::NotFound { .. }
            | ForgeError::Unauthorized { .. }
            | ForgeError::Forbidden { .. }
            | ForgeError::Moved { .. }
            | ForgeError::Address(_) => (None, true),
        };
        Self {
            failure: forge_failure(error),
            retry_ms,
            counts,
        }
    }
}

impl From<Failure> for LookError {
    fn from(failure: Failure) -> Self {
        // Git, the network and the store: all of them may be back in a moment.
        Self {
            failure,
            retry_ms: Some(5_000),
            counts: true,
        }
    }
}

/// End of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookOutcome {
    Done,
    /// A machine works on the pull request, and nobody tells us when it is done.
    Again(Time),
}

enum LookStep {
    /// The ticket changed, so everything is read again.
    Restart,
    Ended(LookOutcome),
}

/// A ticket, its repository and its forge.
#[derive(Debug)]
pub struct Look<'a> {
    pub app: &'a App,
    pub git: Repository,
    pub project: ProjectConfig,
    pub connected: ConnectedForge,
    pub id: TicketId,
}

/// The ticket as one step sees it.
#[derive(Debug)]
struct LookState {
    ticket: Ticket,
    policy: Policy,
    submission: Submission,
}

impl Look<'_> {
    pub async fn look(&self) -> Result<LookOutcome, LookError> {
        for _ in 0..STEPS_MAX {
            if let LookStep::Ended(outcome) = Box::pin(self.step()).await? {
                return Ok(outcome);
            }
        }
        Ok(LookOutcome::Again(self.app.now().plus_ms(15_000)))
    }

    async fn step(&self) -> Result<LookStep, LookError> {
        let stored = self.app.coordinator.ticket(&self.id).await;
        let stored = stored.map_err(Failure::from)?;
        let policy = self.app.coordinator.policy_of(&stored).await;
        let policy = policy.map_err(Failure::from)?;
        let ticket = stored.ticket;
        let done = Ok(LookStep::Ended(LookOutcome::Done));
        let Some(submission) = ticket.submission.clone() else {
            return done;
        };
        if !wants_pull_request(&ticket, &self.project.landing) {
            return done;
        }
        let state = LookState {
            ticket,
            policy,
            submission,
        };
        let found = self.find(&state).await?;
        match found {
            Some(change) if change.state == ChangeState::Merged => {
                self.on_ended(&state, &change, ChangePhase::Merged).await
            }
            Some(change)
                if change.state == ChangeState::Closed && !reopens_closed(&state.ticket) =>
            {
                self.on_ended(&state, &change, ChangePhase::Closed).await
            }
            found => {
                let open = found.filter(|change| change.state == ChangeState::Open);
                self.on_open(&state, open).await
            }
        }
    }

    /// Finds the pull request by its number, or by its branch before the number is known.
    async fn find(&self, state: &LookState) -> Result<Option<ForgeChange>, LookError> {
        let key = match &state.ticket.change {
            Some(known) => ChangeKey::Number(known.number),
            None => ChangeKey::Branch(state.submission.branch.clone()),
        };
        Ok(self.connected.forge.find_change(&key).await?)
    }

    /// Reports a merge or a close, and writes the last state.
    async fn on_ended(
        &self,
        state: &LookState,
        change: &ForgeChange,
        phase: ChangePhase,
    ) -> Result<LookStep, LookError> {
        let mut seen = observation(change, phase, String::new());
        if phase == ChangePhase::Merged {
            seen.base_tip = self.fetch_base(state).await?.map(|tip| tip.to_string());
        }
        if !state.ticket.stage.is_terminal() && self.observe(state, seen).await? {
            return Ok(LookStep::Restart);
        }
        let plan = self.plan(state);
        self.write(state, (change, &change.head_commit), &plan)
            .await?;
        Ok(LookStep::Ended(LookOutcome::Done))
    }

    /// Fetches the base branch of the forge, so that later work begins at its newest commit.
    async fn fetch_base(&self, state: &LookState) -> Result<Option<Oid>, LookError> {
        let context = &state.ticket.spec.context;
        let base = context.base_branch.as_deref();
        let base = base.unwrap_or(&self.project.base_branch);
        let remote = self.connected.git_remote().await?;
        let name = format!("refs/remotes/origin/{base}");
        let fetched = self.git.fetch_branch(&remote, base, &name).await;
        Ok(fetched.log_err("fetch the base branch of the forge"))
    }

    async fn on_open(
        &self,
        state: &LookState,
        open: Option<ForgeChange>,
    ) -> Result<LookStep, LookError> {
        let ticket = &state.ticket;
        let plan = self.plan(state);
        if ticket.stage.is_terminal() {
            if let Some(change) = open {
                self.write(state, (&change, &change.head_commit), &plan)
                    .await?;
            }
            return Ok(LookStep::Ended(LookOutcome::Done));
        }
        let remote = self.connected.git_remote().await?;
        let branch = bring_branch(&self.git, &remote, ticket, &state.submission).await?;
        match &branch {
            BranchState::Extended(head) if ticket.waits_for_forge() => {
                return self.submit_theirs(state, head).await;
            }
            // Before the verdict their commits are left alone: the verdict is about ours.
            BranchState::Ours | BranchState::Extended(_) => {}
            BranchState::Foreign(head) => return self.on_foreign(state, open, head, &plan).await,
        }
        let change = self.ensure_change(state, open, &plan).await?;
        let said = self.connected.forge.change_feedback(change.number).await?;
        if self.report_feedback(state, &change, &said).await? {
            return Ok(LookStep::Restart);
        }
        if branch == BranchState::Ours && said.head_commit != state.submission.commit {
            // The forge sees a push a moment later, and refuses a review of an unknown commit.
            let commit = &state.submission.commit;
            return Err(LookError {
                failure: Failure::error(format!(
                    "the forge does not show {commit} on pull request {} yet",
                    change.number
                )),
                retry_ms: Some(PUSH_SEEN_MS),
                counts: true,
            });
        }
        self.write(state, (&change, &said.head_commit), &plan)
            .await?;
        self.finish(state, &change, &said, &plan).await
    }

    fn plan(&self, state: &LookState) -> ChangePlan {
        plan_change(&state.ticket, &state.policy, &self.project.landing)
    }

    /// Submits commits that somebody added after the approval: they are checked and reviewed.
    async fn submit_theirs(&self, state: &LookState, head: &Oid) -> Result<LookStep, LookError> {
        follow_branch(&self.git, &state.submission, head).await?;
        let by = state.ticket.assigned.built_by.clone().unwrap_or_default();
        let branch = &state.submission.branch;
        let described =
            engine::jobs::describe_submission(&self.git, &self.project, &state.ticket, branch, &by);
        let submission = described.await.map_err(Failure::from)?;
        let why = format!("somebody pushed {} to the pull request", head.short());
        let event = EventKind::WentStale {
            submission: Box::new(submission),
            why,
            lease: None,
        };
        self.decide(state, Actor::system(), event).await?;
        Ok(LookStep::Restart)
    }

    /// Reports commits that the ticket does not build on. Nothing is overwritten.
    async fn on_foreign(
        &self,
        state: &LookState,
        open: Option<ForgeChange>,
        head: &Oid,
        plan: &ChangePlan,
    ) -> Result<LookStep, LookError> {
        let Some(change) = open else {
            return Err(Failure::error(format!(
                "the branch {} exists on the forge with a commit that is not of this ticket",
                state.submission.branch
            ))
            .hint("delete it there, or give the ticket another branch")
            .into());
        };
        if state.ticket.stage.is_active() {
            let seen = ChangeObservation {
                foreign_head: Some(head.to_string()),
                ..observation(&change, ChangePhase::Open, String::new())
            };
            if self.observe(state, seen).await? {
                return Ok(LookStep::Restart);
            }
        }
        self.write(state, (&change, head.as_str()), plan).await?;
        Ok(LookStep::Ended(LookOutcome::Done))
    }

    async fn ensure_change(
        &self,
        state: &LookState,
        open: Option<ForgeChange>,
        plan: &ChangePlan,
    ) -> Result<ForgeChange, LookError> {
        let context = &state.ticket.spec.context;
        let base = context.base_branch.as_ref();
        let draft = ChangeDraft {
            head_branch: state.submission.branch.clone(),
            base_branch: base.unwrap_or(&self.project.base_branch).clone(),
            title: forge::neutral::neutralise_line_of(&state.ticket.spec.title),
            body: texts::change_body(&state.ticket, &state.policy),
            draft: plan.draft,
        };
        let text = format!(
            "{}\n{}\n{}\n{}",
            draft.draft, draft.title, draft.base_branch, draft.body
        );
        let hash = engine::hash::short_sha256(text.as_bytes());
        let path = report_path(&self.app.environment, &self.id);
        let known = open
            .as_ref()
            .map(|open| WrittenReport::read(&path, open.number));
        // A person who makes it ready while we work on it has a reason, and some repositories have
        // no drafts. One that should be ready has to be.
        let is_ready_enough = |open: &ForgeChange| draft.draft || !open.draft;
        let change = match (open, known) {
            (Some(open), Some(known)) if known.change == hash && is_ready_enough(&open) => open,
            _ => self.connected.forge.ensure_change(&draft).await?,
        };
        let mut written = WrittenReport::read(&path, change.number);
        let labels = &self.project.landing.pr_labels;
        if !written.labels && !labels.is_empty() {
            let edit = LabelEdit {
                add: labels.clone(),
                remove: Vec::new(),
            };
            self.connected.forge.labels(change.number, &edit).await?;
        }
        written.labels = true;
        written.change = hash;
        written.write(&path)?;
        Ok(change)
    }

    /// Reports what people and programs say. Returns whether the ticket changed.
    async fn report_feedback(
        &self,
        state: &LookState,
        change: &ForgeChange,
        said: &ChangeFeedback,
    ) -> Result<bool, LookError> {
        let ticket = &state.ticket;
        let known = ticket.change.as_ref();
        // The reason for a wait is known only at the end of the look, so the last one stays.
        let waits_for = match approved_commit(ticket) {
            Some(_) => known
                .map(|known| known.waits_for.clone())
                .unwrap_or_default(),
            None => String::new(),
        };
        let mut seen = observation(change, ChangePhase::Open, waits_for);
        let is_approved = approved_commit(ticket) == Some(said.head_commit.as_str());
        if is_approved && said.conflict == Some(true) {
            seen.conflict = self.find_conflict(state).await?;
        }
        if is_approved && minds_red_checks(ticket) {
            seen.red = feedback::red_checks(said);
        }
        if self.observe(state, seen).await? {
            return Ok(true);
        }
        // While it waits for a dependency nobody can add findings; a later look does.
        if !ticket.stage.is_active() && ticket.escalation.is_none() && ticket.blocked.is_none() {
            return Ok(false);
        }
        let about = (ticket, &state.submission);
        let people = feedback::people_findings(&*self.connected.forge, &self.git, about, said);
        let mut changed = false;
        for person in people.await? {
            let by = Actor::new(&person.login, Role::Human);
            let event = EventKind::FindingsAdded {
                commit: state.submission.commit.clone(),
                findings: person.findings,
                must_fix: person.must_fix,
                comments: person.comments,
            };
            changed |= self.decide(state, by, event).await?;
        }
        Ok(changed)
    }

    async fn find_conflict(
        &self,
        state: &LookState,
    ) -> Result<Option<flow::ticket::ChangeConflict>, LookError> {
        let Some(tip) = self.fetch_base(state).await? else {
            return Ok(None);
        };
        let base = &self.project.base_branch;
        let found = feedback::conflict(&self.git, &state.submission, (base, &tip)).await;
        Ok(Some(found.map_err(Failure::error)?))
    }

    /// Reports a look, unless the ticket knows it. Returns whether it was reported.
    async fn observe(&self, state: &LookState, seen: ChangeObservation) -> Result<bool, LookError> {
        if seen.is_known_to(&state.ticket) {
            return Ok(false);
        }
        let event = EventKind::ChangeObserved {
            seen: Box::new(seen),
        };
        self.decide(state, Actor::system(), event).await
    }

    /// Lets the ticket decide on an event. A refusal means that it has changed: the next step reads
    /// it again.
    async fn decide(
        &self,
        state: &LookState,
        by: Actor,
        what: EventKind,
    ) -> Result<bool, LookError> {
        let report = Report::new(by, what);
        let decided = self.app.coordinator.decide(&self.id, &state.policy, report);
        match Box::pin(decided).await {
            Ok(_) => Ok(true),
            Err(error) if error.refusal().is_some() => {
                // The coordinator has logged the refusal.
                Ok(false)
            }
            Err(error) => Err(Failure::from(error).into()),
        }
    }

    /// Writes what is missing on a change with this head.
    async fn write(
        &self,
        state: &LookState,
        (change, head): (&ForgeChange, &str),
        plan: &ChangePlan,
    ) -> Result<(), LookError> {
        let path = report_path(&self.app.environment, &self.id);
        let mut written = WrittenReport::read(&path, change.number);
        let before = written.clone();
        let writer = ReportWriter {
            forge: &*self.connected.forge,
            git: &self.git,
            number: change.number,
            ticket: &state.ticket,
            submission: &state.submission,
            policy: &state.policy,
            plan,
            shows_submission: head == state.submission.commit,
        };
        let result = writer.write(&mut written).await;
        // What was written before a failure is remembered too.
        if written != before {
            written.write(&path)?;
        }
        result
    }

    /// Merges an approved change if that is ours to do, and says what it waits for.
    async fn finish(
        &self,
        state: &LookState,
        change: &ForgeChange,
        said: &ChangeFeedback,
        plan: &ChangePlan,
    ) -> Result<LookStep, LookError> {
        if approved_commit(&state.ticket).is_none() {
            return Ok(LookStep::Ended(LookOutcome::Done));
        }
        let pending = feedback::pending_checks(said);
        let again = LookOutcome::Again(next_look(&state.ticket, self.app.now()));
        let (waits_for, outcome) = match (&plan.merge, self.project.landing.pr_merge) {
            _ if !pending.is_empty() => (
                format!("checks on the forge: {}", pending.join(", ")),
                again,
            ),
            (Some(commit), _) if *commit == said.head_commit => {
                match self.merge(change.number, commit).await? {
                    MergeReport::Merged | MergeReport::HeadMoved => return Ok(LookStep::Restart),
                    MergeReport::NotMergeable(why) => {
                        let why = findings::shorten(&findings::one_line(&why), REASON_CHARS_MAX);
                        (
                            format!("the forge, which does not merge it yet: {why}"),
                            again,
                        )
                    }
                }
            }
            // The forge shows a push a moment later.
            (Some(_), _) => ("the forge to show the approved commit".to_owned(), again),
            (None, PullRequestMerge::Queue) => (
                "the merge queue of the forge".to_owned(),
                self.follow_queue(change.number, plan, again).await?,
            ),
            (None, PullRequestMerge::Person | PullRequestMerge::Countersign) => {
                ("a person who merges it".to_owned(), LookOutcome::Done)
            }
        };
        let seen = observation(change, ChangePhase::Open, waits_for);
        // The summary says it too.
        if self.observe(state, seen).await? {
            return Ok(LookStep::Restart);
        }
        Ok(LookStep::Ended(outcome))
    }

    /// Puts the gate on the commit that the merge queue tests: a required status has to be there
    /// too, or the queue waits for it in vain. The commit changes when a change before it leaves.
    async fn follow_queue(
        &self,
        number: u64,
        plan: &ChangePlan,
        again: LookOutcome,
    ) -> Result<LookOutcome, LookError> {
        let PlannedGate::Success(text) = &plan.gate else {
            return Ok(LookOutcome::Done);
        };
        let Some(commit) = self.connected.forge.queued_commit(number).await? else {
            return Ok(LookOutcome::Done);
        };
        let gate = ForgeGate {
            commit,
            name: GATE.to_owned(),
            state: GateState::Success,
            description: forge::neutral::neutralise_line_of(text),
            url: None,
        };
        self.connected.forge.ensure_gate(&gate).await?;
        Ok(again)
    }

    async fn merge(&self, number: u64, commit: &str) -> Result<MergeReport, LookError> {
        let order = MergeOrder {
            change: number,
            commit: commit.to_owned(),
            method: match self.project.landing.pr_method {
                LandingStyle::Merge => MergeMethod::Merge,
                LandingStyle::Squash => MergeMethod::Squash,
                LandingStyle::Rebase => MergeMethod::Rebase,
            },
        };
        Ok(self.connected.forge.merge(&order).await?)
    }
}

fn observation(change: &ForgeChange, phase: ChangePhase, waits_for: String) -> ChangeObservation {
    ChangeObservation {
        number: change.number,
        url: change.url.clone(),
        phase,
        head: change.head_commit.clone(),
        draft: change.draft,
        waits_for,
        base_tip: None,
        foreign_head: None,
        red: Vec::new(),
        conflict: None,
    }
}
