//! The landing queue: whoever has the turn takes all approved commits that wait for the same
//! branch, puts them on top of each other, proves them together, and moves the branch once. What
//! does not merge or is red together goes back to its builder; the others land.

use std::sync::Arc;
use std::time::Duration;

use flow::event::Lease;
use flow::queue::{Train, TrainStep, batch_max, lets_land, place, waits};
use flow::ticket::CheckResult;
use flow::{EventKind, Queue, Task, Ticket, TicketId, Usage};
use store::{JobId, JobWork};
use tracing::Instrument;

use super::merge::{combine, conflicted, landed, overtaken};
use super::{JobContext, JobError, JobOutput, check, ground, not_ours, report, trace};
use crate::coordinator::{Error, JobRequest, Report, WorkItem};
use crate::git::{LandingOutcome, MergeResult, Oid};
use crate::log::LogErr;
use crate::process::{StopSignal, Stopper};
use crate::workshop::Project;

/// How often the branch may move under us before the jobs go back.
const MOVES_MAX: u32 = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a ticket waits before it looks again whether what it is stacked on has landed.
const STACKED_WAIT: Duration = Duration::from_millis(500);
/// How many approved tickets are looked at.
const LINE_MAX: u32 = 1000;

/// A ticket whose landing is in our hands.
#[derive(Debug)]
struct TrainEntry {
    ticket: Ticket,
    approved: Oid,
    job: JobId,
    lease: Lease,
    /// The name on the lease.
    holder: String,
}

/// Waits for the turn and lands whatever waits, until this ticket no longer does. One queue per
/// branch and repository has the turn, in whichever process it is.
pub async fn take_turn(
    shop: Arc<Project>,
    id: TicketId,
    worker: String,
    mut stop: StopSignal,
) -> Result<(), Error> {
    let branch = &shop.project.base_branch;
    let broken = |error: crate::git::Error| Error::Broken(error.to_string());
    let _turn = loop {
        if let Some(turn) = shop.git.landing_turn(branch).map_err(broken)? {
            break turn;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = stop.asked() => return Ok(()),
        }
    };
    while waits(&shop.ticket(&id).await?) {
        let train = board(&shop, &worker).await?;
        if train.is_empty() {
            // Ours waits for another that is not here yet.
            tokio::select! {
                () = tokio::time::sleep(STACKED_WAIT) => {}
                () = stop.asked() => {}
            }
            break;
        }
        if !ride(&shop, train, stop.clone()).await? {
            break;
        }
    }
    Ok(())
}

/// Takes up what waits for this branch, in its order.
async fn board(shop: &Project, worker: &str) -> Result<Vec<TrainEntry>, Error> {
    let request = JobRequest {
        worker: worker.to_owned(),
        queues: vec![Queue::Merge],
        lease: Duration::from_secs(shop.project.policy.limits.lease_secs),
        most: LINE_MAX,
        ..JobRequest::default()
    };
    let repository = shop.git.common_dir().to_string_lossy();
    let mut line = Vec::new();
    for offer in shop.coordinator.wait(&request, Duration::ZERO).await? {
        let ticket = *offer.ticket;
        let context = &ticket.spec.context;
        let base = context.base_branch.as_deref();
        let here = context.repository.as_deref() == Some(&*repository)
            && base.is_none_or(|base| base == shop.project.base_branch);
        if here && waits(&ticket) && may_land(shop, &ticket).await? && is_here(shop, &ticket).await
        {
            line.extend(place(&ticket));
        }
    }
    line.sort();
    let mut train = Vec::new();
    for (_, _, id) in line {
        if train.len() == batch_max(&shop.project.policy) {
            break;
        }
        train.extend(take(shop, &id, &request).await?);
    }
    Ok(train)
}

/// What was built elsewhere is brought; what cannot be had now is left for another train.
async fn is_here(shop: &Project, ticket: &Ticket) -> bool {
    match &shop.carrier {
        Some(carrier) => {
            let coordinator = &*shop.coordinator;
            let brought = carrier.bring(coordinator, &shop.git, ticket).await;
            brought.log_err("fetch an approved commit").is_some()
        }
        None => true,
    }
}

/// What a ticket is stacked on lands before it does.
async fn may_land(shop: &Project, ticket: &Ticket) -> Result<bool, Error> {
    for id in &ticket.spec.depends_on {
        if !lets_land(&shop.ticket(id).await?) {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn take(
    shop: &Project,
    id: &TicketId,
    request: &JobRequest,
) -> Result<Option<TrainEntry>, Error> {
    let request = JobRequest {
        only: Some(WorkItem::Ticket(id.clone())),
        policy: Some(Box::new(shop.project.policy.clone())),
        most: 1,
        ..request.clone()
    };
    let Some(job) = shop.coordinator.claim(&request).await?.pop() else {
        return Ok(None);
    };
    let (Some(serial), JobWork::Task(task)) = (job.serial, job.work.clone()) else {
        return Ok(None);
    };
    let lease = Lease {
        serial,
        fence: job.fence,
    };
    let started = Report::new(shop.house(), EventKind::Started { lease });
    let ticket = match shop.report(id, started).await {
        Ok(ticket) => ticket,
        Err(error) => return not_ours(shop, id, lease, error).await.map(|()| None),
    };
    let Task::Merge { commit } = &task else {
        return Ok(None);
    };
    let Some(approved) = Oid::parse(commit) else {
        let trouble = JobError::permanent(format!("{commit} is no commit"));
        report(shop, id, shop.house(), lease, Err(trouble)).await?;
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

/// Lands what can land. False where nothing goes on for now: the branch is held, or we are stopped.
async fn ride(shop: &Project, train: Vec<TrainEntry>, stop: StopSignal) -> Result<bool, Error> {
    let (stopper, own_stop) = StopSignal::pair();
    let leases: Vec<(JobId, u64)> = train.iter().map(|car| (car.job, car.lease.fence)).collect();
    let mut journey = TrainRun {
        shop,
        stop: own_stop,
        cars: train,
        goes_on: true,
    };
    tokio::select! {
        done = journey.run() => done?,
        () = keep_alive(shop, &leases, &stopper, stop) => {}
    }
    Ok(journey.goes_on)
}

/// Prolongs all leases while the journey lasts. A lost one is noticed before its car lands.
async fn keep_alive(
    shop: &Project,
    leases: &[(JobId, u64)],
    stopper: &Stopper,
    mut stop: StopSignal,
) {
    let lease = Duration::from_secs(shop.project.policy.limits.lease_secs);
    loop {
        tokio::select! {
            () = tokio::time::sleep(lease / 3) => {}
            () = stop.asked() => {
                stopper.stop();
                std::future::pending::<()>().await;
            }
        }
        for (job, fence) in leases {
            match shop.coordinator.renew(*job, *fence, Some(lease)).await {
                Ok(()) => {}
                // Cars that have been reported have no lease to prolong.
                Err(error) if error.is_stale() => {}
                Err(error) => tracing::warn!(%error, "could not renew a lease of the merge train"),
            }
        }
    }
}

struct TrainRun<'a> {
    shop: &'a Project,
    stop: StopSignal,
    cars: Vec<TrainEntry>,
    goes_on: bool,
}

/// The cars on top of each other on a tip; what does not merge waits for the next pass.
struct CombinedTrain {
    tip: Oid,
    /// Of each car the combination of all up to it.
    tops: Vec<Oid>,
    conflict: Option<(Vec<String>, String)>,
}

impl TrainRun<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        for _ in 0..self.cars.len() * 2 + MOVES_MAX as usize {
            if self.cars.is_empty() {
                return Ok(());
            }
            if let Err(trouble) = self.pass().await? {
                self.goes_on = false;
                return self.give_back(trouble).await;
            }
        }
        let branch = &self.shop.project.base_branch;
        self.give_back(JobError::transient(format!(
            "{branch} moved too often while we merged"
        )))
        .await
    }

    /// One train: stacked, proven, landed; its culprit sent back. The rest stays for the next.
    async fn pass(&mut self) -> Result<Result<(), JobError>, Error> {
        if let Err(trouble) = self.sort_out().await? {
            return Ok(Err(trouble));
        }
        if self.cars.is_empty() {
            return Ok(Ok(()));
        }
        let stack = match self.stack().await {
            Ok(stack) => stack,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if let (Some((files, messages)), true) = (&stack.conflict, stack.tops.is_empty()) {
            let car = self.cars.remove(0);
            let brought = conflicted(&self.held(&car), files.clone(), messages);
            self.tell(&car, Ok(brought)).await?;
            return Ok(Ok(()));
        }
        let (cars, culprit) = match self.prove(&stack).await {
            Ok(proven) => proven,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if cars > 0 {
            match self.land(&stack, cars).await? {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(trouble) => return Ok(Err(trouble)),
            }
        }
        if let Some(results) = culprit {
            // Those before it have landed, so it is the first now, and was red on this very tip.
            let car = self.cars.remove(0);
            let what = EventKind::CombinationRed {
                lease: car.lease,
                results,
                usage: Usage::default(),
            };
            self.tell(&car, Ok(brought(what))).await?;
        }
        Ok(Ok(()))
    }

    /// Cars that need no landing any more, or not this one.
    async fn sort_out(&mut self) -> Result<Result<(), JobError>, Error> {
        let mut kept = Vec::new();
        let mut bad = None;
        for car in std::mem::take(&mut self.cars) {
            if bad.is_some() {
                kept.push(car);
                continue;
            }
            match self.look_at(&car).await {
                Ok(None) => kept.push(car),
                Ok(Some(found)) => self.tell(&car, found).await?,
                Err(trouble) => {
                    kept.push(car);
                    bad = Some(trouble);
                }
            }
        }
        self.cars = kept;
        Ok(bad.map_or(Ok(()), Err))
    }

    async fn look_at(
        &self,
        car: &TrainEntry,
    ) -> Result<Option<Result<JobOutput, JobError>>, JobError> {
        let held = self.held(car);
        if held.must_be_ours().await.is_err() {
            return Ok(Some(Err(super::interrupted())));
        }
        if let Some(what) = overtaken(&held, &car.approved).await? {
            return Ok(Some(Ok(brought(what))));
        }
        let git = &self.shop.git;
        let tip = self.tip().await?;
        if git.is_ancestor(&car.approved, &tip).await? {
            // It landed before; what a killed landing left behind goes.
            git.recover_landing().await?;
            return Ok(Some(Ok(landed(&held, &car.approved, &tip))));
        }
        Ok(ground::must_be_there(&held, &car.approved).await?.map(Ok))
    }

    async fn tip(&self) -> Result<Oid, JobError> {
        let branch = &self.shop.project.base_branch;
        self.shop.git.branch(branch).await?.ok_or_else(|| {
            JobError::permanent(format!(
                "there is no local branch {branch} to land on; make it, then continue"
            ))
        })
    }

    async fn stack(&self) -> Result<CombinedTrain, JobError> {
        let tip = self.tip().await?;
        let (mut top, mut tops, mut conflict) = (tip.clone(), Vec::new(), None);
        for car in &self.cars {
            match combine(&self.held(car), &top, &car.approved).await? {
                MergeResult::Clean { commit, .. } => {
                    top = commit.clone();
                    tops.push(commit);
                }
                MergeResult::Conflicts { files, messages } => {
                    conflict = Some((files, messages));
                    break;
                }
            }
        }
        Ok(CombinedTrain {
            tip,
            tops,
            conflict,
        })
    }

    /// How many of the first are green together, and what is red with the one after them.
    async fn prove(
        &self,
        stack: &CombinedTrain,
    ) -> Result<(usize, Option<Vec<CheckResult>>), JobError> {
        let mut train = Train::of(stack.tops.len());
        let mut red = Vec::new();
        loop {
            match train.next() {
                TrainStep::Try(prefix) => {
                    let found = self.red_in(stack, prefix).await?;
                    train.heard(prefix, found.is_empty());
                    if !found.is_empty() {
                        red.push((prefix, found));
                    }
                }
                TrainStep::Land { cars, culprit } => {
                    let evidence = red.into_iter().find(|(prefix, _)| *prefix == cars + 1);
                    let results = evidence.map(|(_, results)| results).unwrap_or_default();
                    return Ok((cars, culprit.map(|_| results)));
                }
            }
        }
    }

    async fn red_in(
        &self,
        stack: &CombinedTrain,
        prefix: usize,
    ) -> Result<Vec<CheckResult>, JobError> {
        let (Some(car), Some(top)) = (self.cars.get(prefix - 1), stack.tops.get(prefix - 1)) else {
            return Ok(Vec::new());
        };
        let git = &self.shop.git;
        if prefix == 1 && git.is_ancestor(&stack.tip, &car.approved).await? {
            // The base has not moved since its own checks.
            return Ok(Vec::new());
        }
        let (results, _) = check::run_checks(&self.held(car), top, &stack.tip).await?;
        let policy = &self.shop.project.policy;
        let red = results
            .into_iter()
            .filter(|one| !policy.accepts(one.outcome));
        Ok(red.collect())
    }

    /// Moves the branch over the first cars; false where it has moved, or a car was lost.
    async fn land(
        &mut self,
        stack: &CombinedTrain,
        cars: usize,
    ) -> Result<Result<bool, JobError>, Error> {
        let (git, branch) = (&self.shop.git, &self.shop.project.base_branch);
        let Some(top) = stack.tops.get(cars - 1) else {
            return Ok(Ok(false));
        };
        for car in self.cars.iter().take(cars) {
            // What is cancelled or taken over in the meantime must not land.
            if self.held(car).must_be_ours().await.is_err() {
                return Ok(Ok(false));
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
            Ok(LandingOutcome::Held { work_tree, why }) => {
                return Ok(Err(JobError::permanent(format!(
                    "{branch} is checked out in {} and cannot move: {why}; commit or stash there, then continue",
                    work_tree.display()
                ))));
            }
            Err(trouble) => return Ok(Err(trouble)),
        }
        for (car, top) in self.cars.drain(..cars).zip(&stack.tops).collect::<Vec<_>>() {
            let brought = landed(&self.held(&car), &car.approved, top);
            self.tell(&car, Ok(brought)).await?;
        }
        Ok(Ok(true))
    }

    fn held<'a>(&'a self, car: &'a TrainEntry) -> JobContext<'a> {
        JobContext {
            shop: self.shop,
            ticket: &car.ticket,
            member: None,
            job: Some(car.job),
            lease: car.lease,
            stop: self.stop.clone(),
        }
    }

    async fn tell(
        &self,
        car: &TrainEntry,
        found: Result<JobOutput, JobError>,
    ) -> Result<(), Error> {
        let id = &car.ticket.id;
        let span = trace::span(id, "merge", car.lease, &car.holder);
        span.record("round", car.ticket.round);
        report(self.shop, id, self.shop.house(), car.lease, found)
            .instrument(span)
            .await
    }

    /// The same trouble for all that are left.
    async fn give_back(&mut self, trouble: JobError) -> Result<(), Error> {
        for car in std::mem::take(&mut self.cars) {
            self.tell(&car, Err(trouble.clone())).await?;
        }
        Ok(())
    }
}

fn brought(what: EventKind) -> JobOutput {
    JobOutput {
        what,
        artefacts: Vec::new(),
    }
}
