//! The landing queue. The holder of the turn takes all approved commits that wait for the same
//! branch, stacks them, checks them together, and moves the branch once. A change that does not
//! merge, or is red in combination, goes back to its builder; the others land.

use std::sync::Arc;
use std::time::Duration;

use flow::event::Lease;
use flow::merge_train::{
    Train, TrainStep, allows_stacked_to_land, batch_max, queue_position, waits_to_land,
};
use flow::ticket::CheckResult;
use flow::{EventKind, Queue, Task, Ticket, TicketId, Usage};
use store::{JobId, JobWork};
use tracing::Instrument;

use super::combination::{
    Combination, LandingCandidate, combine, landed_candidate, record_candidate,
};
use super::merge::{check_branch_moved, landed_output};
use super::{
    JobContext, JobError, JobOutput, check, handle_refused_start, pinned_base, report_and_clean,
    trace,
};
use crate::coordinator::{Error, JobRequest, Report, WorkItem};
use crate::git::{LandingOutcome, Oid};
use crate::log::LogErr;
use crate::process::{StopSignal, Stopper};
use crate::project::Project;

/// Maximum number of times the branch may move before the jobs go back.
const MOVES_MAX: u32 = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Delay before a ticket checks again whether the tickets below it in the stack have landed.
const STACKED_WAIT: Duration = Duration::from_millis(500);
/// Maximum number of approved tickets read.
const WAITING_MAX: u32 = 1000;

/// A ticket whose landing job we hold.
#[derive(Debug)]
struct TrainEntry {
    ticket: Ticket,
    approved: Oid,
    job: JobId,
    lease: Lease,
    /// Name on the lease.
    holder: String,
}

/// Waits for the turn and lands all waiting tickets, until this one no longer waits. One process at
/// a time has the turn of a branch in a repository.
pub async fn run_merge_train(
    project: Arc<Project>,
    id: TicketId,
    worker: String,
    mut stop: StopSignal,
) -> Result<(), Error> {
    let branch = &project.config.base_branch;
    let broken = |error: crate::git::Error| Error::Broken(error.to_string());
    let _turn = loop {
        if let Some(turn) = project.git.try_landing_turn(branch).map_err(broken)? {
            break turn;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = stop.requested() => return Ok(()),
        }
    };
    while waits_to_land(&project.ticket(&id).await?) {
        let train = claim_waiting_entries(&project, &worker).await?;
        if train.is_empty() {
            // Our ticket waits for another that is not in the queue yet.
            tokio::select! {
                () = tokio::time::sleep(STACKED_WAIT) => {}
                () = stop.requested() => {}
            }
            break;
        }
        if !run_train(&project, train, stop.clone()).await? {
            break;
        }
    }
    Ok(())
}

/// Claims the tickets that wait for this branch, in order.
async fn claim_waiting_entries(project: &Project, worker: &str) -> Result<Vec<TrainEntry>, Error> {
    let request = JobRequest {
        worker: worker.to_owned(),
        queues: vec![Queue::Merge],
        lease: Duration::from_secs(project.config.policy.limits.lease_secs),
        most: WAITING_MAX,
        ..JobRequest::default()
    };
    let repository = project.git.common_dir().to_string_lossy();
    let mut line = Vec::new();
    for offer in project.coordinator.wait(&request, Duration::ZERO).await? {
        let ticket = *offer.ticket;
        let context = &ticket.spec.context;
        let base = context.base_branch.as_deref();
        let here = context.repository.as_deref() == Some(&*repository)
            && base.is_none_or(|base| base == project.config.base_branch);
        if here
            && waits_to_land(&ticket)
            && may_land(project, &ticket).await?
            && fetch_ticket_commits(project, &ticket).await
        {
            line.extend(queue_position(&ticket));
        }
    }
    line.sort();
    let mut train = Vec::new();
    for (_, _, id) in line {
        if train.len() == batch_max(&project.config.policy) {
            break;
        }
        train.extend(claim_entry(project, &id, &request).await?);
    }
    Ok(train)
}

/// Fetches a commit that was built elsewhere. If it is unavailable now, a later train takes it.
async fn fetch_ticket_commits(project: &Project, ticket: &Ticket) -> bool {
    match &project.repo_sync {
        Some(sync) => {
            let coordinator = &*project.coordinator;
            let fetched = sync.fetch_for_job(coordinator, &project.git, ticket).await;
            fetched.log_err("fetch an approved commit").is_some()
        }
        None => true,
    }
}

/// Returns whether the tickets below in the stack let this one land.
async fn may_land(project: &Project, ticket: &Ticket) -> Result<bool, Error> {
    for id in &ticket.spec.depends_on {
        if !allows_stacked_to_land(&project.ticket(id).await?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Claims the merge job of one ticket and reports its start.
async fn claim_entry(
    project: &Project,
    id: &TicketId,
    request: &JobRequest,
) -> Result<Option<TrainEntry>, Error> {
    let request = JobRequest {
        only: Some(WorkItem::Ticket(id.clone())),
        policy: Some(Box::new(project.config.policy.clone())),
        most: 1,
        ..request.clone()
    };
    let Some(job) = project.coordinator.claim(&request).await?.pop() else {
        return Ok(None);
    };
    let (Some(serial), JobWork::Task(task)) = (job.serial, job.work.clone()) else {
        return Ok(None);
    };
    let lease = Lease {
        serial,
        fence: job.fence,
    };
    let started = Report::new(project.system_actor(), EventKind::Started { lease });
    let ticket = match project.report(id, started).await {
        Ok(ticket) => ticket,
        Err(error) => {
            return handle_refused_start(project, id, lease, error)
                .await
                .map(|()| None);
        }
    };
    let Task::Merge { commit } = &task else {
        return Ok(None);
    };
    let Some(approved) = Oid::parse(commit) else {
        let error = JobError::permanent(format!("{commit} is not a commit id"));
        report_and_clean(project, id, project.system_actor(), lease, Err(error)).await?;
        return Ok(None);
    };
    Ok(Some(TrainEntry {
        ticket,
        approved,
        job: job.id,
        lease,
        holder: job.holder,
    }))
}

/// Lands the entries that can land. Returns false if nothing can continue for now: the branch is
/// blocked, or we were stopped.
async fn run_train(
    project: &Project,
    train: Vec<TrainEntry>,
    stop: StopSignal,
) -> Result<bool, Error> {
    let (stopper, own_stop) = StopSignal::pair();
    let leases: Vec<(JobId, u64)> = train
        .iter()
        .map(|entry| (entry.job, entry.lease.fence))
        .collect();
    let mut run = TrainRun {
        project,
        stop: own_stop,
        entries: train,
        can_continue: true,
    };
    tokio::select! {
        done = run.run() => done?,
        () = keep_alive(project, &leases, &stopper, stop) => {}
    }
    Ok(run.can_continue)
}

/// Prolongs all leases during the run of the train. A lost lease is noticed before its entry lands.
async fn keep_alive(
    project: &Project,
    leases: &[(JobId, u64)],
    stopper: &Stopper,
    mut stop: StopSignal,
) {
    let lease = Duration::from_secs(project.config.policy.limits.lease_secs);
    loop {
        tokio::select! {
            () = tokio::time::sleep(lease / 3) => {}
            () = stop.requested() => {
                stopper.stop();
                std::future::pending::<()>().await;
            }
        }
        for (job, fence) in leases {
            match project.coordinator.renew(*job, *fence, Some(lease)).await {
                Ok(()) => {}
                // Entries that have been reported have no lease to prolong.
                Err(error) if error.is_stale() => {}
                Err(error) => tracing::warn!(%error, "could not renew a lease of the merge train"),
            }
        }
    }
}

/// Run of a merge train.
struct TrainRun<'a> {
    project: &'a Project,
    stop: StopSignal,
    entries: Vec<TrainEntry>,
    can_continue: bool,
}

/// The entries stacked on a tip. An entry that cannot be combined waits for the next pass.
struct CombinedTrain {
    tip: Oid,
    /// Combination of all entries up to each one.
    combinations: Vec<LandingCandidate>,
    /// Result of the entry after them, if it cannot be combined.
    rejected: Option<Result<JobOutput, JobError>>,
}

impl TrainRun<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        for _ in 0..self.entries.len() * 2 + MOVES_MAX as usize {
            if self.entries.is_empty() {
                return Ok(());
            }
            if let Err(error) = self.run_one_train().await? {
                self.can_continue = false;
                return self.fail_remaining(error).await;
            }
        }
        let branch = &self.project.config.base_branch;
        self.fail_remaining(JobError::transient(format!(
            "{branch} moved too often during the merge"
        )))
        .await
    }

    /// Runs one pass: stacks, checks and lands the entries, and sends a red one back. The rest
    /// stays for the next pass.
    async fn run_one_train(&mut self) -> Result<Result<(), JobError>, Error> {
        if let Err(error) = self.drop_settled_entries().await? {
            return Ok(Err(error));
        }
        if self.entries.is_empty() {
            return Ok(Ok(()));
        }
        let stack = match self.combine_entries().await {
            Ok(stack) => stack,
            Err(error) => return Ok(Err(error)),
        };
        if let (Some(result), true) = (&stack.rejected, stack.combinations.is_empty()) {
            let entry = self.entries.remove(0);
            self.report_entry(&entry, result.clone()).await?;
            return Ok(Ok(()));
        }
        let (landable, culprit) = match self.find_green_prefix(&stack).await {
            Ok(proven) => proven,
            Err(error) => return Ok(Err(error)),
        };
        if landable > 0 {
            match self.land(&stack, landable).await? {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
        if let Some(results) = culprit {
            // The entries before it have landed, so it is the first now, and was red on exactly
            // this tip.
            let entry = self.entries.remove(0);
            let what = EventKind::CombinationRed {
                lease: entry.lease,
                results,
                usage: Usage::default(),
            };
            self.report_entry(&entry, Ok(job_output(what))).await?;
        }
        Ok(Ok(()))
    }

    /// Reports and removes entries that need no landing any more, or not this one.
    async fn drop_settled_entries(&mut self) -> Result<Result<(), JobError>, Error> {
        let mut remaining = Vec::new();
        let mut failure = None;
        for entry in std::mem::take(&mut self.entries) {
            if failure.is_some() {
                remaining.push(entry);
                continue;
            }
            match self.check_entry(&entry).await {
                Ok(None) => remaining.push(entry),
                Ok(Some(result)) => self.report_entry(&entry, result).await?,
                Err(error) => {
                    remaining.push(entry);
                    failure = Some(error);
                }
            }
        }
        self.entries = remaining;
        Ok(failure.map_or(Ok(()), Err))
    }

    async fn check_entry(
        &self,
        entry: &TrainEntry,
    ) -> Result<Option<Result<JobOutput, JobError>>, JobError> {
        let context = self.job_context(entry);
        if context.ensure_lease_held().await.is_err() {
            return Ok(Some(Err(super::interrupted())));
        }
        if let Some(what) = check_branch_moved(&context, &entry.approved).await? {
            return Ok(Some(Ok(job_output(what))));
        }
        let git = &self.project.git;
        let tip = self.branch_tip().await?;
        if let Some(landed) = landed_candidate(&context, &entry.approved, &tip).await? {
            // It landed before; clean up after a landing that was killed.
            git.recover_landing().await?;
            return Ok(Some(Ok(landed_output(&context, &landed))));
        }
        Ok(pinned_base::check_before_landing(&context, &entry.approved)
            .await?
            .map(Ok))
    }

    async fn branch_tip(&self) -> Result<Oid, JobError> {
        let branch = &self.project.config.base_branch;
        self.project.git.branch_tip(branch).await?.ok_or_else(|| {
            JobError::permanent(format!(
                "there is no local branch {branch} to land on; create it, then continue"
            ))
        })
    }

    /// Stacks the entries on the tip, up to the first one that cannot be combined.
    async fn combine_entries(&self) -> Result<CombinedTrain, JobError> {
        let tip = self.branch_tip().await?;
        let (mut top, mut combinations, mut rejected) = (tip.clone(), Vec::new(), None);
        for entry in &self.entries {
            match combine(&self.job_context(entry), &top, &entry.approved).await? {
                Combination::Ready(candidate) => {
                    top = candidate.top.clone();
                    combinations.push(candidate);
                }
                Combination::Rejected(result) => {
                    rejected = Some(*result);
                    break;
                }
            }
        }
        Ok(CombinedTrain {
            tip,
            combinations,
            rejected,
        })
    }

    /// Returns how many of the first entries are green together, and the red results of the next
    /// one.
    async fn find_green_prefix(
        &self,
        stack: &CombinedTrain,
    ) -> Result<(usize, Option<Vec<CheckResult>>), JobError> {
        let mut train = Train::new(stack.combinations.len());
        let mut red = Vec::new();
        loop {
            match train.next_step() {
                TrainStep::Try(prefix) => {
                    let red_results = self.red_checks_of(stack, prefix).await?;
                    train.record_result(prefix, red_results.is_empty());
                    if !red_results.is_empty() {
                        red.push((prefix, red_results));
                    }
                }
                TrainStep::Land { entries, culprit } => {
                    let evidence = red.into_iter().find(|(prefix, _)| *prefix == entries + 1);
                    let results = evidence.map(|(_, results)| results).unwrap_or_default();
                    return Ok((entries, culprit.map(|_| results)));
                }
            }
        }
    }

    /// Returns the red checks of the combination of the first `prefix` entries.
    async fn red_checks_of(
        &self,
        stack: &CombinedTrain,
        prefix: usize,
    ) -> Result<Vec<CheckResult>, JobError> {
        let (Some(entry), Some(candidate)) = (
            self.entries.get(prefix - 1),
            stack.combinations.get(prefix - 1),
        ) else {
            return Ok(Vec::new());
        };
        let git = &self.project.git;
        if prefix == 1 && git.is_ancestor(&stack.tip, &entry.approved).await? {
            // The base has not moved since the checks of this ticket.
            return Ok(Vec::new());
        }
        let (results, _) =
            check::run_checks(&self.job_context(entry), &candidate.top, &stack.tip).await?;
        let policy = &self.project.config.policy;
        let red = results
            .into_iter()
            .filter(|result| !policy.accepts(result.outcome));
        Ok(red.collect())
    }

    /// Moves the branch to include the first entries. Returns false if the branch has moved, or a
    /// lease was lost.
    async fn land(
        &mut self,
        stack: &CombinedTrain,
        count: usize,
    ) -> Result<Result<bool, JobError>, Error> {
        let (git, branch) = (&self.project.git, &self.project.config.base_branch);
        let Some(LandingCandidate { top, .. }) = stack.combinations.get(count - 1) else {
            return Ok(Ok(false));
        };
        let landing = self.entries.iter().zip(&stack.combinations).take(count);
        for (entry, candidate) in landing {
            let context = self.job_context(entry);
            // A change that was cancelled or taken over meanwhile must not land.
            if context.ensure_lease_held().await.is_err() {
                return Ok(Ok(false));
            }
            if let Err(error) = record_candidate(&context, candidate).await {
                return Ok(Err(error));
            }
        }
        let moved = async {
            let moved = git.land(branch, top, &stack.tip).await?;
            git.sync().await?;
            Ok::<LandingOutcome, JobError>(moved)
        };
        match moved.await {
            Ok(LandingOutcome::Done { .. }) => {}
            Ok(LandingOutcome::Moved { .. }) => return Ok(Ok(false)),
            Ok(LandingOutcome::Blocked { work_tree, why }) => {
                return Ok(Err(JobError::permanent(format!(
                    "{branch} is checked out in {} and cannot move: {why}; commit or stash there, then continue",
                    work_tree.display()
                ))));
            }
            Err(error) => return Ok(Err(error)),
        }
        for (entry, candidate) in self
            .entries
            .drain(..count)
            .zip(&stack.combinations)
            .collect::<Vec<_>>()
        {
            let output = landed_output(&self.job_context(&entry), candidate);
            self.report_entry(&entry, Ok(output)).await?;
        }
        Ok(Ok(true))
    }

    fn job_context<'a>(&'a self, entry: &'a TrainEntry) -> JobContext<'a> {
        JobContext {
            project: self.project,
            ticket: &entry.ticket,
            agent: None,
            job: Some(entry.job),
            lease: entry.lease,
            stop: self.stop.clone(),
        }
    }

    async fn report_entry(
        &self,
        entry: &TrainEntry,
        result: Result<JobOutput, JobError>,
    ) -> Result<(), Error> {
        let id = &entry.ticket.id;
        let span = trace::span(id, "merge", entry.lease, &entry.holder);
        span.record("round", entry.ticket.round);
        report_and_clean(
            self.project,
            id,
            self.project.system_actor(),
            entry.lease,
            result,
        )
        .instrument(span)
        .await
    }

    /// Reports the same error for all remaining entries.
    async fn fail_remaining(&mut self, error: JobError) -> Result<(), Error> {
        for entry in std::mem::take(&mut self.entries) {
            self.report_entry(&entry, Err(error.clone())).await?;
        }
        Ok(())
    }
}

fn job_output(what: EventKind) -> JobOutput {
    JobOutput {
        what,
        artefacts: Vec::new(),
    }
}
