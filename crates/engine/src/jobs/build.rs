//! Builds a change: runs the builder in a worktree and takes the exact commit that results.

use findings::CriterionAnswer;
use flow::brief::Recipient;
use flow::event::{FindingReport, ReportedOutcome};
use flow::policy::UncommittedChanges;
use flow::{EventKind, Ticket, TicketId};

use super::agent_run;
use super::checkout_site::CheckoutSite;
use super::finished_run::{self, AgentRun};
use super::{
    JobContext, JobError, JobOutput, base_proof, cache_setup, pinned_base, refusal, run_sandbox,
    submission,
};
use crate::agent::AgentRole;
use crate::agent::answer::{self, HandlingOutcome};
use crate::cleanup;
use crate::git::{
    CombinePlan, CommitIdentity, MergeResult, MergeStyle, Oid, Worktree, WorktreeOrigin,
    make_readable, remove_tree,
};
use crate::log::LogErr;
use crate::project::Project;

/// Maximum length of a builder's summary, and of each of its claims.
const WORDS_CHARS_MAX: usize = 4_000;
/// Maximum number of claims, and of answers on findings.
const ANSWERS_MAX: usize = 1_000;

/// Ref of the commit that a stacked ticket began on.
pub const STACK_REF: &str = "stack";

/// Result of an agent in its worktree.
#[derive(Debug)]
pub struct BuiltCommit {
    pub head: Oid,
    pub branch: String,
    pub run: AgentRun,
}

/// Runs a build job.
pub async fn build(context: &JobContext<'_>) -> Result<JobOutput, JobError> {
    let (git, project) = (&context.project.git, &context.project.config);
    let (policy, rules) = (&project.policy, &project.rules);
    if let Some(red) = Box::pin(base_proof::prove_before_build(context)).await? {
        return Ok(red);
    }
    let brief = flow::brief::for_builder(context.ticket, policy, rules, Recipient::Spawned);
    let built = build_in_worktree(context, &brief).await?;
    submission::ensure_not_empty(git, project, &built.head).await?;
    make_output(context, &built.head, &built.branch, built.run).await
}

/// Runs the builder with the brief in the worktree of the ticket, and takes the resulting commit.
pub async fn build_in_worktree(
    context: &JobContext<'_>,
    brief: &str,
) -> Result<BuiltCommit, JobError> {
    let project = context.project;
    let branch = branch_name(context.ticket);
    let start = start_commit(context).await?;
    let path = project.ticket_files(&context.ticket.id).worktree_dir();
    let worktree = project.git.ensure_worktree(&branch, &start, &path).await?;
    // A builder that finished before is not paid again; only its report was lost.
    if let Some(run) = finished_run::newest_finished_run(context)
        && let Some(head) = run.head.as_deref().and_then(Oid::parse)
    {
        return Ok(BuiltCommit { head, branch, run });
    }
    let leftovers = context.ref_name(&format!(
        "leftovers-{}-{}",
        context.lease.serial, context.lease.fence
    ));
    make_readable(&path);
    if worktree.origin != WorktreeOrigin::Fresh
        && set_aside_leftovers(context, &worktree, &start, &leftovers).await?
    {
        // Another holder of the job may be working there.
        context.ensure_lease_held().await?;
        project.git.reset_worktree(&worktree, &start).await?;
    }
    project.git.fill_submodules(&start, &path).await?;
    let site = cache_setup::set_up_worktree(context, &worktree).await?;
    let refusal_note = refusal::refusal_note(context);
    let run_result = Box::pin(run_builder(
        context,
        (&worktree, site.as_ref()),
        &format!("{brief}{refusal_note}"),
    ))
    .await;
    let commit_result = match &run_result {
        Ok(_) => Box::pin(take(context, &worktree, &start)).await,
        Err(error) => Err(error.clone()),
    };
    remove_layers(context)?;
    let (mut run, (head, unstorable)) = (run_result?, commit_result?);
    keep_round_commit(context, &head).await?;
    run.head = Some(head.to_string());
    run.unstorable = unstorable;
    finished_run::record_run(context, &run)?;
    Ok(BuiltCommit { head, branch, run })
}

/// Returns the commit of a run, and the files that git does not store.
async fn take(
    context: &JobContext<'_>,
    worktree: &Worktree,
    start: &Oid,
) -> Result<(Oid, Vec<String>), JobError> {
    context.ensure_lease_held().await?;
    let git = &context.project.git;
    if context.project.sandbox_profile.is_some() {
        let layer = run_sandbox::git_overlay_dir(&context.run_dir());
        let moved = git.import_from_overlay(worktree, &layer).await;
        moved.map_err(|error| refusal::of(context, error))?;
    } else {
        ensure_repository(context)?;
    }
    // Repair git's own records of the worktree if the builder broke them; its files are still
    // there.
    git.ensure_worktree(&worktree.branch, start, &worktree.path)
        .await?;
    take_commit(context, worktree, start).await
}

/// Removes the builder's own view of the git directory. It is useless once its commits are taken,
/// and its logs and messages may contain credentials. Those of earlier attempts go too: they have
/// ended.
fn remove_layers(context: &JobContext<'_>) -> Result<(), JobError> {
    let own = context.run_dir();
    let job = own.parent().unwrap_or(&own);
    for (_, run) in crate::run_records::numbered_dirs(job, "run-") {
        remove_tree(&run.join("git"))?;
    }
    Ok(())
}

/// Returns whether an earlier attempt left changes, and saves them under a ref.
async fn set_aside_leftovers(
    context: &JobContext<'_>,
    worktree: &Worktree,
    start: &Oid,
    ref_name: &str,
) -> Result<bool, JobError> {
    let saved = context
        .project
        .git
        .save_worktree_state(worktree, start, ref_name)
        .await;
    saved.map_err(|error| git_state_error(context, error))
}

/// Fails if the git directory is gone. A builder without a sandbox can delete more than its own
/// work.
fn ensure_repository(context: &JobContext<'_>) -> Result<(), JobError> {
    let common = context.project.git.common_dir();
    if common.join("HEAD").is_file() && common.join("objects").is_dir() {
        return Ok(());
    }
    Err(JobError::permanent(format!(
        "the builder ran without a sandbox and deleted the git directory {} of the repository; restore it from a clone or a backup, and run with `sandbox = \"enforced\"`",
        common.display()
    )))
}

/// Keeps the commit of the round under a ref, whatever happens to the branch.
async fn keep_round_commit(context: &JobContext<'_>, head: &Oid) -> Result<(), JobError> {
    let (git, name) = (
        &context.project.git,
        context.ref_name(&format!("job-{}", context.lease.serial)),
    );
    let earlier = git.read_ref(&name).await?;
    git.keep_ref(&name, head, earlier.as_ref()).await?;
    Ok(git.sync().await?)
}

/// Returns the branch of the ticket.
pub fn branch_name(ticket: &Ticket) -> String {
    let own = ticket.spec.context.branch.clone();
    own.unwrap_or_else(|| format!("countersign/{}", ticket.id))
}

/// Removes the worktree, the checkouts, the scratch directories and the homes of a ticket that has
/// ended. Uncommitted changes are kept under a ref.
pub async fn remove_working_files(project: &Project, ticket: &Ticket) {
    if flow::retention::has_no_more_work(ticket) && !project.config.keep_working_files {
        let files = project.ticket_files(&ticket.id);
        let removed = cleanup::remove_working_files(Some(&project.git), &files, ticket).await;
        // Files that remain use disk space but do no harm, and the next start tries again.
        removed.log_err("remove the working files of a finished ticket");
    }
}

/// Returns the commit to start from: the last submission, or in the first round the base.
async fn start_commit(context: &JobContext<'_>) -> Result<Oid, JobError> {
    match submitted_commit(context.ticket) {
        Some(commit) => Ok(commit),
        None => first_start_commit(context).await,
    }
}

/// Returns the commit that was submitted last.
pub fn submitted_commit(ticket: &Ticket) -> Option<Oid> {
    ticket
        .submission
        .as_ref()
        .and_then(|submission| Oid::parse(&submission.commit))
}

/// Returns the start of the first round: the base. If a ticket may start before its dependencies
/// have landed, their approved commits are merged on top.
async fn first_start_commit(context: &JobContext<'_>) -> Result<Oid, JobError> {
    let (project, name) = (context.project, context.ref_name(STACK_REF));
    if let Some(stack) = project.git.read_ref(&name).await? {
        return Ok(stack);
    }
    let base = project.git.base_tip(&project.config.base_branch).await?;
    pinned_base::pin_base(context, &base).await?;
    let mut top = base.clone();
    for below in unlanded_dependencies(context).await? {
        let message = format!("Stack {} on {}", context.ticket.id, below.0);
        let identity = CommitIdentity::countersign();
        let plan = CombinePlan::simple(MergeStyle::FastForward, &identity, &message);
        let combined = project.git.combine(&top, &below.1, &plan).await?;
        top = match combined {
            MergeResult::Clean { commit, .. } => commit,
            MergeResult::Conflicts { files, .. } => {
                return Err(JobError::transient(format!(
                    "its dependencies do not merge cleanly yet: {}",
                    files.join(", ")
                )));
            }
        };
    }
    if top != base {
        project.git.keep_ref(&name, &top, None).await?;
        project.git.sync().await?;
    }
    Ok(top)
}

/// Returns the dependencies that have not landed, with their approved commits.
pub async fn unlanded_dependencies(
    context: &JobContext<'_>,
) -> Result<Vec<(TicketId, Oid)>, JobError> {
    let mut dependencies = Vec::new();
    for id in &context.ticket.spec.depends_on {
        let ticket = context
            .project
            .ticket(id)
            .await
            .map_err(JobError::transient)?;
        let submission = ticket
            .submission
            .as_ref()
            .map(|submission| submission.commit.clone());
        let commit = submission.as_deref().and_then(Oid::parse);
        if ticket.landed.is_none() {
            dependencies.extend(commit.map(|commit| (ticket.id, commit)));
        }
    }
    Ok(dependencies)
}

async fn run_builder(
    context: &JobContext<'_>,
    (worktree, site): (&Worktree, Option<&CheckoutSite>),
    brief: &str,
) -> Result<AgentRun, JobError> {
    let limit = context.project.config.policy.limits.build_secs;
    agent_run::run_agent(
        context,
        context.agent()?,
        AgentRole::Build,
        brief,
        (&worktree.path, site),
        limit,
    )
    .await
}

/// Returns the commit that the builder left. Uncommitted changes are committed for it, or refused,
/// as the policy says.
async fn take_commit(
    context: &JobContext<'_>,
    worktree: &Worktree,
    start: &Oid,
) -> Result<(Oid, Vec<String>), JobError> {
    let project = context.project;
    let mut unstorable = Vec::new();
    match project.config.policy.uncommitted {
        UncommittedChanges::Commit => {
            let message = commit_message(context);
            let by = builder_identity(&context.agent()?.name);
            let committed = project.git.commit_all(worktree, &by, &message).await;
            unstorable = committed
                .map_err(|error| git_state_error(context, error))?
                .unstorable;
        }
        UncommittedChanges::Refuse => {
            let dirty = project.git.dirty_in(worktree).await?;
            if !dirty.is_empty() {
                return Err(JobError::transient(format!(
                    "the builder left uncommitted: {}",
                    dirty.join(", ")
                )));
            }
        }
    }
    let head = project.git.head_of(worktree).await?.commit;
    submission::ensure_on_base(&project.git, &project.config, start, &head).await?;
    pinned_base::check_after_build(context, &head).await?;
    Ok((head, unstorable))
}

/// Converts an error about the state of the worktree. Without a sandbox the builder may have broken
/// the repository itself, so the message says how to find out.
fn git_state_error(context: &JobContext<'_>, error: crate::git::Error) -> JobError {
    let job_error = refusal::of(context, error);
    if context.project.sandbox_profile.is_some() {
        return job_error;
    }
    let message = format!(
        "{}\nthe builder ran without a sandbox: run `git fsck` in {} to see whether it broke the repository",
        job_error.message,
        context.project.git.common_dir().display()
    );
    JobError {
        message,
        ..job_error
    }
}

fn commit_message(context: &JobContext<'_>) -> String {
    let title = findings::one_line(&context.ticket.spec.title);
    match context.ticket.rounds.last() {
        Some(round) if context.ticket.rework_reason.is_some() => {
            let rules = &context.project.config.rules;
            match &rules.rework_message {
                Some(message) => message
                    .for_round(round.number)
                    .replace("<what you did>", &title),
                None => format!("{title} (review round {})", round.number),
            }
        }
        Some(_) | None => title,
    }
}

/// Returns the git identity of an agent, for commits that we make on its behalf.
pub fn builder_identity(agent: &str) -> CommitIdentity {
    let mail: String = agent
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    CommitIdentity {
        name: agent.to_owned(),
        email: format!("{mail}@countersign.invalid"),
    }
}

/// Builds the submission event from the commit and the answer of the builder.
async fn make_output(
    context: &JobContext<'_>,
    head: &Oid,
    branch: &str,
    run: AgentRun,
) -> Result<JobOutput, JobError> {
    let built = answer::parse_builder_answer(run.result.as_deref().unwrap_or_default());
    let mut submission = submission::describe(
        &context.project.git,
        &context.project.config,
        context.ticket,
        head,
        branch,
        &context.agent()?.name,
    )
    .await?;
    let claims = built.claims.into_iter().take(ANSWERS_MAX);
    submission.claims = claims.map(to_criterion_answer).collect();
    submission.summary = shorten_text(&format!("{}{}", built.summary, not_stored(&run.unstorable)));
    let handled = built.findings.into_iter().take(ANSWERS_MAX);
    let reports = handled.map(to_finding_report).collect();
    let what = EventKind::Submitted {
        lease: context.lease,
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

/// Cleans and shortens a text of the builder. It is stored for good; the transcript has the full
/// text.
pub fn shorten_text(text: &str) -> String {
    findings::shorten(&findings::clean(text), WORDS_CHARS_MAX)
}

fn to_criterion_answer(claim: answer::CriterionClaim) -> CriterionAnswer {
    let evidence = Some(shorten_text(&claim.evidence)).filter(|text| !text.is_empty());
    CriterionAnswer {
        criterion: shorten_text(&claim.criterion),
        met: claim.met,
        evidence,
    }
}

fn to_finding_report(handled: answer::HandledFinding) -> FindingReport {
    FindingReport {
        finding: handled.id,
        outcome: match handled.outcome {
            HandlingOutcome::Fixed => ReportedOutcome::Fixed,
            HandlingOutcome::CouldNotFix => ReportedOutcome::CouldNotFix,
            HandlingOutcome::Disputed => ReportedOutcome::Disputed,
        },
        note: shorten_text(&handled.note),
    }
}
