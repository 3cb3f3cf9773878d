//! Building: a worktree, the builder in it, and the exact commit that comes out.

use findings::CriterionAnswer;
use flow::brief::Recipient;
use flow::event::{FindingReport, ReportedOutcome};
use flow::policy::UncommittedChanges;
use flow::{EventKind, Ticket, TicketId};

use super::agents::{self, AgentRun};
use super::{JobContext, JobError, JobOutput, ground, refusal, room, submission, supply};
use crate::agent::AgentRole;
use crate::agent::answer::{self, HandlingOutcome};
use crate::git::{
    CommitIdentity, MergeResult, MergeStyle, Oid, Worktree, WorktreeOrigin, make_readable,
    remove_tree,
};
use crate::log::LogErr;
use crate::workshop::Project;

/// Of a builder's summary, and of each of its claims.
const WORDS_CHARS_MAX: usize = 4_000;
/// Claims, and words on findings.
const ANSWERS_MAX: usize = 1_000;

/// The ref of the commit that a stacked ticket began on.
pub const STACK: &str = "stack";

/// What an agent has made in its worktree.
#[derive(Debug)]
pub struct BuiltCommit {
    pub head: Oid,
    pub branch: String,
    pub run: AgentRun,
}

pub async fn build(held: &JobContext<'_>) -> Result<JobOutput, JobError> {
    let (shop, project) = (held.shop, &held.shop.project);
    let (policy, house) = (&project.policy, &project.house);
    let brief = flow::brief::build(held.ticket, policy, house, Recipient::Spawned);
    let work = in_worktree(held, &brief).await?;
    submission::must_change_something(&shop.git, project, &work.head).await?;
    bring(held, &work.head, &work.branch, work.run).await
}

/// Has the brief worked on in the ticket's own worktree, and takes the commit that comes out.
pub async fn in_worktree(held: &JobContext<'_>, brief: &str) -> Result<BuiltCommit, JobError> {
    let shop = held.shop;
    let branch = branch(held.ticket);
    let start = start(held).await?;
    let path = shop.files(&held.ticket.id).worktree();
    let worktree = shop.git.worktree(&branch, &start, &path).await?;
    // A builder that came to its end before is not paid again; only its report was lost.
    if let Some(run) = agents::finished(held)
        && let Some(head) = run.head.as_deref().and_then(Oid::parse)
    {
        return Ok(BuiltCommit { head, branch, run });
    }
    let aside = held.ref_named(&format!(
        "leftovers-{}-{}",
        held.lease.serial, held.lease.fence
    ));
    make_readable(&path);
    if worktree.made != WorktreeOrigin::Fresh
        && is_left_behind(held, &worktree, &start, &aside).await?
    {
        // Whoever holds the job now may be at work in there.
        held.must_be_ours().await?;
        shop.git.put_back(&worktree, &start).await?;
    }
    supply::furnish_worktree(held, &worktree).await?;
    let told = refusal::told(held);
    let ran = Box::pin(run_builder(held, &worktree, &format!("{brief}{told}"))).await;
    let taken = match &ran {
        Ok(_) => Box::pin(take(held, &worktree, &start)).await,
        Err(trouble) => Err(trouble.clone()),
    };
    remove_layers(held)?;
    let (mut run, (head, unstorable)) = (ran?, taken?);
    keep(held, &head).await?;
    run.head = Some(head.to_string());
    run.unstorable = unstorable;
    agents::record(held, &run)?;
    Ok(BuiltCommit { head, branch, run })
}

/// The commit that comes out of a run, and the files that git does not store.
async fn take(
    held: &JobContext<'_>,
    worktree: &Worktree,
    start: &Oid,
) -> Result<(Oid, Vec<String>), JobError> {
    held.must_be_ours().await?;
    let git = &held.shop.git;
    if held.shop.ward.is_some() {
        let layer = room::git_layer(&held.dir());
        let taken = git.take_from_layer(worktree, &layer).await;
        taken.map_err(|error| refusal::of(held, error))?;
    } else {
        must_have_repository(held)?;
    }
    // What it broke of git's own records is made anew; its files are there.
    git.worktree(&worktree.branch, start, &worktree.path)
        .await?;
    take_commit(held, worktree, start).await
}

/// A builder's own view of the git directory is of no use once its commits are taken, and its logs
/// and messages may hold whatever it was lent. Those of earlier tries go too: they have ended.
fn remove_layers(held: &JobContext<'_>) -> Result<(), JobError> {
    let own = held.dir();
    let job = own.parent().unwrap_or(&own);
    for (_, run) in crate::runs::numbered(job, "run-") {
        remove_tree(&run.join("git"))?;
    }
    Ok(())
}

/// Whether there is anything that an earlier try left; it is saved under a ref.
async fn is_left_behind(
    held: &JobContext<'_>,
    worktree: &Worktree,
    start: &Oid,
    aside: &str,
) -> Result<bool, JobError> {
    let set_aside = held.shop.git.set_aside(worktree, start, aside).await;
    set_aside.map_err(|error| left_so(held, error))
}

/// Whoever is not confined can take away more than its own work.
fn must_have_repository(held: &JobContext<'_>) -> Result<(), JobError> {
    let common = held.shop.git.common_dir();
    if common.join("HEAD").is_file() && common.join("objects").is_dir() {
        return Ok(());
    }
    Err(JobError::permanent(format!(
        "the builder, whom nothing confined, deleted the repository's git directory {}; put it back from a clone or a backup, and run with `isolation = \"enforced\"`",
        common.display()
    )))
}

/// The round's commit stays, whatever becomes of the branch.
async fn keep(held: &JobContext<'_>, head: &Oid) -> Result<(), JobError> {
    let (git, name) = (
        &held.shop.git,
        held.ref_named(&format!("job-{}", held.lease.serial)),
    );
    let earlier = git.read_ref(&name).await?;
    git.keep_ref(&name, head, earlier.as_ref()).await?;
    Ok(git.sync().await?)
}

/// The ticket's own branch.
pub fn branch(ticket: &Ticket) -> String {
    let own = ticket.spec.context.branch.clone();
    own.unwrap_or_else(|| format!("countersign/{}", ticket.id))
}

/// Removes the worktree of a ticket whose change has landed: nothing is left to do there, and git
/// would list it for ever. What lies there uncommitted is kept under a ref.
pub async fn remove_worktree(shop: &Project, ticket: &Ticket) {
    if ticket.landed.is_none() || !ticket.stage.is_terminal() {
        return;
    }
    let path = shop.files(&ticket.id).worktree();
    let keep = format!("refs/countersign/{}/leftovers-end", ticket.id);
    if let Some(worktree) = shop.git.find_worktree(&branch(ticket), &path) {
        // A worktree that stays takes room and does no harm.
        let removed = shop.git.remove_worktree(&worktree, &keep).await;
        removed.log_err("remove the worktree of a finished ticket");
    }
}

/// Later rounds go on from the last submission, the first one from the base.
async fn start(held: &JobContext<'_>) -> Result<Oid, JobError> {
    match last_commit(held.ticket) {
        Some(commit) => Ok(commit),
        None => first(held).await,
    }
}

/// The commit that was put forward last.
pub fn last_commit(ticket: &Ticket) -> Option<Oid> {
    ticket
        .submission
        .as_ref()
        .and_then(|put| Oid::parse(&put.commit))
}

/// The base, or where a ticket may begin before what it needs has landed, the base with that on top.
async fn first(held: &JobContext<'_>) -> Result<Oid, JobError> {
    let (shop, name) = (held.shop, held.ref_named(STACK));
    if let Some(stack) = shop.git.read_ref(&name).await? {
        return Ok(stack);
    }
    let base = shop.git.base(&shop.project.base_branch).await?;
    ground::remember(held, &base).await?;
    let mut top = base.clone();
    for below in unlanded(held).await? {
        let message = format!("Stack {} on {}", held.ticket.id, below.0);
        let identity = CommitIdentity::countersign();
        let combined = shop
            .git
            .combine(&top, &below.1, MergeStyle::FastForward, &identity, &message)
            .await?;
        top = match combined {
            MergeResult::Clean { commit, .. } => commit,
            MergeResult::Conflicts { files, .. } => {
                return Err(JobError::transient(format!(
                    "what it needs does not merge yet: {}",
                    files.join(", ")
                )));
            }
        };
    }
    if top != base {
        shop.git.keep_ref(&name, &top, None).await?;
        shop.git.sync().await?;
    }
    Ok(top)
}

/// What the ticket needs and has not landed, with the commits that were approved.
pub async fn unlanded(held: &JobContext<'_>) -> Result<Vec<(TicketId, Oid)>, JobError> {
    let mut found = Vec::new();
    for id in &held.ticket.spec.depends_on {
        let ticket = held.shop.ticket(id).await.map_err(JobError::transient)?;
        let put = ticket.submission.as_ref().map(|put| put.commit.clone());
        let commit = put.as_deref().and_then(Oid::parse);
        if ticket.landed.is_none() {
            found.extend(commit.map(|commit| (ticket.id, commit)));
        }
    }
    Ok(found)
}

async fn run_builder(
    held: &JobContext<'_>,
    worktree: &Worktree,
    brief: &str,
) -> Result<AgentRun, JobError> {
    let limit = held.shop.project.policy.limits.build_secs;
    agents::run(
        held,
        held.member()?,
        AgentRole::Build,
        brief,
        &worktree.path,
        limit,
    )
    .await
}

/// The commit that the builder leaves; what it did not commit is committed for it, or refused.
async fn take_commit(
    held: &JobContext<'_>,
    worktree: &Worktree,
    start: &Oid,
) -> Result<(Oid, Vec<String>), JobError> {
    let shop = held.shop;
    let mut unstorable = Vec::new();
    match shop.project.policy.leftovers {
        UncommittedChanges::Commit => {
            let message = message(held);
            let by = identity(&held.member()?.name);
            let committed = shop.git.commit_all(worktree, &by, &message).await;
            unstorable = committed.map_err(|error| left_so(held, error))?.unstorable;
        }
        UncommittedChanges::Refuse => {
            let dirty = shop.git.dirty_in(worktree).await?;
            if !dirty.is_empty() {
                return Err(JobError::transient(format!(
                    "the builder left uncommitted: {}",
                    dirty.join(", ")
                )));
            }
        }
    }
    let head = shop.git.head_of(worktree).await?.commit;
    submission::must_stand_on_base(&shop.git, &shop.project, start, &head).await?;
    ground::must_be_left(held, &head).await?;
    Ok((head, unstorable))
}

/// Git cannot take what is there. Whether the builder could have broken it, the person should know.
fn left_so(held: &JobContext<'_>, error: crate::git::Error) -> JobError {
    let trouble = refusal::of(held, error);
    if held.shop.ward.is_some() {
        return trouble;
    }
    let message = format!(
        "{}\nnothing confined the builder: `git fsck` in {} shows whether it broke the repository",
        trouble.message,
        held.shop.git.common_dir().display()
    );
    JobError { message, ..trouble }
}

fn message(held: &JobContext<'_>) -> String {
    let title = findings::one_line(&held.ticket.spec.title);
    match held.ticket.rounds.last() {
        Some(round) if held.ticket.setback.is_some() => {
            format!("fix: address code review round {} - {title}", round.number)
        }
        Some(_) | None => title,
    }
}

/// Whoever builds signs what we commit for it.
pub fn identity(agent: &str) -> CommitIdentity {
    let mail: String = agent
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    CommitIdentity {
        name: agent.to_owned(),
        email: format!("{mail}@countersign.invalid"),
    }
}

async fn bring(
    held: &JobContext<'_>,
    head: &Oid,
    branch: &str,
    run: AgentRun,
) -> Result<JobOutput, JobError> {
    let said = answer::built(run.result.as_deref().unwrap_or_default());
    let mut submission = submission::describe(
        &held.shop.git,
        &held.shop.project,
        held.ticket,
        head,
        branch,
        &held.member()?.name,
    )
    .await?;
    let claims = said.claims.into_iter().take(ANSWERS_MAX);
    submission.claims = claims.map(claim).collect();
    submission.summary = short(&format!("{}{}", said.summary, not_stored(&run.unstorable)));
    let handled = said.findings.into_iter().take(ANSWERS_MAX);
    let reports = handled.map(report).collect();
    let what = EventKind::Submitted {
        lease: held.lease,
        submission: Box::new(submission),
        reports,
        session: run.session.clone(),
        usage: run.usage,
    };
    Ok(JobOutput {
        what,
        artefacts: run.artefacts,
    })
}

/// Tells reviewers and the builder's next round about files that the commit does not have.
fn not_stored(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\n\nNot in the commit, because git stores nothing under such names: {}",
        names.join(", ")
    )
}

/// What a builder says of its work is stored for good; the transcript has all of it.
pub fn short(text: &str) -> String {
    findings::shorten(&findings::clean(text), WORDS_CHARS_MAX)
}

fn claim(claim: answer::CriterionClaim) -> CriterionAnswer {
    let evidence = Some(short(&claim.evidence)).filter(|text| !text.is_empty());
    CriterionAnswer {
        criterion: short(&claim.criterion),
        met: claim.met,
        evidence,
    }
}

fn report(handled: answer::HandledFinding) -> FindingReport {
    FindingReport {
        finding: handled.id,
        outcome: match handled.outcome {
            HandlingOutcome::Fixed => ReportedOutcome::Fixed,
            HandlingOutcome::CouldNotFix => ReportedOutcome::CouldNotFix,
            HandlingOutcome::Disputed => ReportedOutcome::Disputed,
        },
        note: short(&handled.note),
    }
}
