//! Reviews a commit: runs an independent agent on a throw-away checkout of the exact commit, and
//! compares a manifest before and after.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use findings::ReviewClaim;
use flow::brief::{ChangeLocation, Recipient};
use flow::policy::pattern::PathPatterns;
use flow::truncate::truncate_review;
use flow::{EventKind, Policy, Ticket, Usage};

use super::agent_run::{self, AgentStart};
use super::bounded_read::read_within_limit;
use super::checkout_site::CheckoutSite;
use super::finished_run::{self, AgentRun};
use super::lint;
use super::{JobContext, JobError, JobOutput, cache_setup};
use crate::agent::{AgentRole, ReviewQuestion, answer, diff_file};
use crate::git::{CheckoutPurpose, DiffContext, Oid, remove_tree};
use crate::manifest::{self, Manifest};
use crate::project::AgentConfig;

/// Protection that every sandbox level has: writing is prevented, or at least detected.
const BASE_ISOLATION: &str = "separate checkout, manifest before and after";

/// Runs a review job, by an agent or a linter.
pub async fn review(
    context: &JobContext<'_>,
    commit: &str,
    reviewer: &str,
) -> Result<JobOutput, JobError> {
    let project = context.project;
    if let Some(command) = project.linter_command(reviewer) {
        return lint::run_linter(context, commit, reviewer, command).await;
    }
    let question = ReviewRequest::new(context, commit, reviewer);
    let mut watched = match &question.earlier {
        None => {
            let limit = project.config.policy.limits.review_secs;
            let (agent, role) = (context.agent()?, AgentRole::Review);
            run_judge(context, commit, agent, role, &question.brief, limit).await?
        }
        Some(earlier) => ask_to_countersign(context, &question, earlier).await?,
    };
    let mut answer = read_review(context, commit, &watched).await;
    if let Ok(reading) = &answer
        && question.earlier.is_none()
        && watched.run.first.is_none()
        && !flow::review_validity::is_usable(&reading.review, &project.config.policy)
    {
        let missing = reading.unclear.clone().unwrap_or_default();
        if let Some(again) =
            Box::pin(ask_for_valid_form(context, &question, &watched, &missing)).await?
        {
            watched = again;
            answer = read_review(context, commit, &watched).await;
        }
    }
    let usage = watched.run.usage;
    let (lease, artefacts) = (context.lease, watched.run.artefacts.clone());
    let answer = answer.and_then(|answer| require_verdict(answer, context));
    let what = match answer {
        Err(why) => EventKind::ReviewUnusable { lease, why, usage },
        Ok(review) => EventKind::Reviewed {
            answers_open: false,
            lease,
            commit: commit.to_owned(),
            review: Box::new(truncate_review(review, &project.config.policy)),
            sandbox: describe_sandbox(watched.run.sandbox),
            usage,
        },
    };
    Ok(JobOutput { what, artefacts })
}

/// The question for a reviewer.
struct ReviewRequest<'a> {
    commit: &'a str,
    brief: String,
    /// Question alone, for a session that already knows the rest.
    alone: String,
    /// Job in which the reviewer refused, if the question is about that refusal.
    earlier: Option<u32>,
}

impl<'a> ReviewRequest<'a> {
    fn new(context: &JobContext<'_>, commit: &'a str, reviewer: &str) -> Self {
        let (ticket, project) = (context.ticket, &context.project.config);
        let mut reviewers = ticket.panel.iter().filter(|other| other.name == reviewer);
        let refusal = reviewers
            .find(|reviewer| reviewer.is_asked_to_countersign())
            .and_then(|reviewer| reviewer.refusal.as_ref());
        Self {
            commit,
            brief: flow::brief::for_reviewer(
                ticket,
                reviewer,
                &project.policy,
                &project.rules,
                Recipient::Spawned,
            ),
            alone: flow::brief::for_countersign(ticket, reviewer, commit, Recipient::Spawned),
            earlier: refusal.map(|refusal| refusal.job),
        }
    }
}

/// Reads the answer of the reviewer, or returns why it is no answer at all.
async fn read_review(
    context: &JobContext<'_>,
    commit: &str,
    watched: &WatchedRun,
) -> Result<findings::CommissionedReview, String> {
    let statement = ReviewStatement {
        commit: commit.to_owned(),
        answer: usable_answer(watched, context.ticket)?.to_owned(),
        other_text: watched.run.other_output.clone(),
        first: watched.run.first.clone(),
        criteria: ticket_criteria(context.ticket),
        roots: judge_roots(context),
        policy: context.project.config.policy.clone(),
    };
    read_within_limit(move || statement.read()).await
}

/// Everything that a reviewer said on one commit.
struct ReviewStatement {
    commit: String,
    answer: String,
    /// Output next to its answer.
    other_text: Option<String>,
    /// First answer, if the reviewer was asked a second time.
    first: Option<String>,
    /// Criteria of the ticket, whose words the answer may repeat.
    criteria: Vec<String>,
    roots: Vec<String>,
    policy: Policy,
}

impl ReviewStatement {
    fn read(&self) -> findings::CommissionedReview {
        let mut answer = findings::read_answer(&self.answer, &self.commit, &self.criteria);
        if let Some(other_text) = &self.other_text {
            answer = findings::apply_text_beside(answer, other_text);
        }
        // Only now: a must-fix finding may stand in the text outside the answer.
        answer = self.downgrade_contradicted(answer);
        if let Some(first) = &self.first {
            let known_titles: HashSet<String> = titles(&answer.review.findings).collect();
            let before = findings::read(first).findings.into_iter();
            let missed = before.filter(|finding| !known_titles.contains(&finding.title));
            answer.review.findings.extend(missed);
            answer
                .review
                .remarks
                .push("asked again for the answer in the required form".to_owned());
            answer = self.downgrade_contradicted(answer);
        }
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        findings::make_paths_relative(&roots, &mut answer.review);
        answer
    }

    fn downgrade_contradicted(
        &self,
        mut answer: findings::CommissionedReview,
    ) -> findings::CommissionedReview {
        let claim_before = answer.review.claim;
        answer.review =
            flow::review_validity::downgrade_contradicted_approval(answer.review, &self.policy);
        if answer.review.claim == ReviewClaim::Unknown && claim_before != ReviewClaim::Unknown {
            answer.unclear = answer.review.remarks.last().cloned();
        }
        answer
    }
}

fn ticket_criteria(ticket: &Ticket) -> Vec<String> {
    let criteria = flow::brief::criteria(&ticket.spec).into_iter();
    criteria.map(str::to_owned).collect()
}

fn titles(findings: &[findings::Finding]) -> impl Iterator<Item = String> {
    findings.iter().map(|finding| finding.title.clone())
}

/// Returns a review that can support a verdict, or why it cannot.
fn require_verdict(
    reading: findings::CommissionedReview,
    context: &JobContext<'_>,
) -> Result<findings::Review, String> {
    if flow::review_validity::is_usable(&reading.review, &context.project.config.policy) {
        return Ok(reading.review);
    }
    let why = reading.unclear.unwrap_or_default();
    Err(format!(
        "the answer is neither a clear approval nor a refusal: {why}"
    ))
}

/// Asks the reviewer again for its answer in the required form: in its session if it has one, else
/// from the beginning. Returns `None` if no time or budget is left for that.
async fn ask_for_valid_form(
    context: &JobContext<'_>,
    question: &ReviewRequest<'_>,
    first: &WatchedRun,
    missing: &str,
) -> Result<Option<WatchedRun>, JobError> {
    let agent = context.agent()?;
    let mut ticket = context.ticket.clone();
    // The ticket does not include the cost of the first answer yet.
    ticket.spent.round = ticket.spent.round.plus(first.run.usage);
    ticket.spent.ticket = ticket.spent.ticket.plus(first.run.usage);
    let context = &JobContext {
        project: context.project,
        ticket: &ticket,
        agent: context.agent,
        job: context.job,
        lease: context.lease,
        stop: context.stop.clone(),
    };
    let limit = context.project.config.policy.limits.review_secs;
    let limit_secs = limit.saturating_sub(first.run.usage.wall_ms / 1000);
    let spent = context
        .remaining_budget()
        .reached_by(Usage::default())
        .is_some();
    if spent || limit_secs == 0 {
        return Ok(None);
    }
    let request = flow::brief::for_answer_in_form(question.commit, missing);
    let whole = format!("{request}\n---\n\n{}", question.brief);
    // After a crash, the first answer is recorded in the directory of another run.
    let resumed = agent_run::resumable_session(agent, &first.run, &context.run_dir());
    let run_request = JudgeRunRequest {
        commit: question.commit,
        member: agent,
        role: AgentRole::Review,
        brief: if resumed.is_some() { &request } else { &whole },
        whole: Some(&whole),
        limit_secs,
        question: ReviewQuestion::Form,
        resumed,
        dir: context.run_dir(),
    };
    let mut run = run_judge_request(context, run_request).await?;
    // Set it even if the first answer was empty: the record must show that the reviewer was asked
    // again.
    run.first = Some(first.run.result.clone().unwrap_or_default());
    run.usage = first.run.usage.plus(run.usage);
    let earlier = first.run.artefacts.iter();
    let missing = earlier.filter(|one| run.artefacts.iter().all(|new| new.path != one.path));
    let missing: Vec<_> = missing.cloned().collect();
    run.artefacts.extend(missing);
    finished_run::record_run(context, &run)?;
    let tampered = run.tampered.clone();
    Ok(Some(WatchedRun { run, tampered }))
}

/// Asks a reviewer that refused because of minor findings whether it countersigns: in its session
/// if that still exists here, else with the whole brief.
async fn ask_to_countersign(
    context: &JobContext<'_>,
    question: &ReviewRequest<'_>,
    earlier: &u32,
) -> Result<WatchedRun, JobError> {
    let agent = context.agent()?;
    if let Some(run) = finished_run::newest_finished_run(context) {
        let tampered = run.tampered.clone();
        return Ok(WatchedRun { run, tampered });
    }
    let before = agent_run::last_run_of_job(context, *earlier);
    let resumed = before.as_ref().and_then(|(dir, run)| {
        let resumed = agent_run::resumable_session(agent, run, dir)?;
        Some((resumed, dir.clone()))
    });
    let (resumed, dir) = match resumed {
        // CLIs find a session by the directory in which it was started.
        Some((resumed, dir)) => (Some(resumed), dir),
        None => (None, context.run_dir()),
    };
    let brief = if resumed.is_some() {
        &question.alone
    } else {
        &question.brief
    };
    let run_request = JudgeRunRequest {
        commit: question.commit,
        member: agent,
        role: AgentRole::Review,
        brief,
        whole: Some(&question.brief),
        limit_secs: context.project.config.policy.limits.review_secs,
        question: ReviewQuestion::Countersign,
        resumed,
        dir,
    };
    let run = run_judge_request(context, run_request).await?;
    finished_run::record_run(context, &run)?;
    let tampered = run.tampered.clone();
    Ok(WatchedRun { run, tampered })
}

/// Returns the reviewer's answer if it is about this ticket and the checkout is unchanged.
fn usable_answer<'a>(watched: &'a WatchedRun, ticket: &Ticket) -> Result<&'a str, String> {
    if let Some(why) = &watched.tampered {
        return Err(why.clone());
    }
    let text = watched.run.result.as_deref().unwrap_or_default();
    let is_ours = |name: &str| {
        name.eq_ignore_ascii_case(ticket.id.as_str()) || name.trim() == ticket.spec.title.trim()
    };
    match answer::named_ticket(text).filter(|name| !is_ours(name)) {
        None => Ok(text),
        Some(other) => {
            let other = findings::shorten(&findings::one_line(&other), 80);
            Err(format!(
                "the answer names another ticket, {other:?}, and not {}",
                ticket.id
            ))
        }
    }
}

/// Returns the paths at which a reviewer saw the repository.
fn judge_roots(context: &JobContext<'_>) -> Vec<String> {
    let own = context.run_dir();
    let checkouts = [
        own.join("review").join(CHANGE_DIR),
        own.join("scratch/copy/checkout"),
    ];
    repository_roots(context, &checkouts)
}

/// Returns the paths of the repository for a reviewer: these directories and the builder's
/// worktree, each as we name it and with symbolic links resolved.
pub(super) fn repository_roots(context: &JobContext<'_>, dirs: &[PathBuf]) -> Vec<String> {
    let worktree = context
        .project
        .ticket_files(&context.ticket.id)
        .worktree_dir();
    let mut roots = Vec::new();
    for dir in dirs.iter().chain([&worktree]) {
        let real = dir.canonicalize().ok();
        roots.extend(real.map(|real| real.to_string_lossy().into_owned()));
        roots.push(dir.to_string_lossy().into_owned());
    }
    roots
}

fn describe_sandbox(enforced: Option<String>) -> String {
    match enforced {
        Some(how) => format!("{how}; {BASE_ISOLATION}"),
        None => BASE_ISOLATION.to_owned(),
    }
}

/// A run in a checkout, and how it changed the checkout, if it did.
#[derive(Debug)]
pub struct WatchedRun {
    pub run: AgentRun,
    pub tampered: Option<String>,
}

/// Runs a reviewer or verifier on the commit. Comparing everything before and after shows its
/// changes.
pub async fn run_judge(
    context: &JobContext<'_>,
    commit: &str,
    agent: &AgentConfig,
    role: AgentRole,
    brief: &str,
    limit_secs: u64,
) -> Result<WatchedRun, JobError> {
    if let Some(run) = finished_run::newest_finished_run(context) {
        let tampered = run.tampered.clone();
        return Ok(WatchedRun { run, tampered });
    }
    let run_request = JudgeRunRequest {
        commit,
        member: agent,
        role,
        brief,
        whole: None,
        limit_secs,
        question: ReviewQuestion::Work,
        resumed: None,
        dir: context.run_dir(),
    };
    let run = run_judge_request(context, run_request).await?;
    finished_run::record_run(context, &run)?;
    let tampered = run.tampered.clone();
    Ok(WatchedRun { run, tampered })
}

/// One run of a reviewer or verifier on a commit.
struct JudgeRunRequest<'a> {
    commit: &'a str,
    member: &'a AgentConfig,
    role: AgentRole,
    brief: &'a str,
    /// Full brief, for an agent whose session is gone.
    whole: Option<&'a str>,
    limit_secs: u64,
    question: ReviewQuestion,
    resumed: Option<agent_run::ResumedSession>,
    /// Directory of the run that contains the checkout.
    dir: PathBuf,
}

/// Name of the checkout in the directory that a reviewer starts in.
pub const CHANGE_DIR: &str = "change";
/// Maximum size of the diff file. A longer diff is cut; git shows all of it.
const DIFF_BYTES_MAX: usize = 8 << 20;

/// Directories of a reviewer. It starts in a directory of ours that contains only these. CLIs read
/// files from their start directory and its parents, and the change cannot put any there.
struct ReviewLayout {
    dir: PathBuf,
    change: PathBuf,
    from_base: Vec<String>,
}

impl ReviewLayout {
    fn locate_change_in_brief(&self, brief: &str) -> String {
        let diff = diff_file(&self.change);
        let location = ChangeLocation {
            change: &self.change.to_string_lossy(),
            diff: &diff.to_string_lossy(),
            from_base: &self.from_base,
        };
        flow::brief::with_change_location(brief, &location)
    }
}

/// Runs a reviewer in a fresh checkout and compares the checkout before and after.
async fn run_judge_request(
    context: &JobContext<'_>,
    request: JudgeRunRequest<'_>,
) -> Result<AgentRun, JobError> {
    let layout = lay_out_checkout(context, request.commit, &request.dir).await?;
    let copy = lay_out_copy(context, request.commit).await?;
    let before = take_manifest(layout.dir.clone()).await?;
    let start = AgentStart {
        role: request.role,
        brief: &layout.locate_change_in_brief(request.brief),
        dir: &layout.dir,
        limit_secs: request.limit_secs,
        question: request.question,
        resumed: request.resumed,
        site: copy.as_ref(),
    };
    let whole = request
        .whole
        .map(|brief| layout.locate_change_in_brief(brief));
    let mut run = agent_run::start_agent(context, request.member, &start, whole.as_deref()).await?;
    let after = take_manifest(layout.dir.clone()).await?;
    let changes = manifest::diff(&before, &after);
    if !changes.is_empty() {
        let shown: Vec<String> = changes.iter().take(5).map(ToString::to_string).collect();
        run.tampered = Some(format!("the checkout was changed: {}", shown.join(", ")));
    }
    Ok(run)
}

/// Prepares the directory of a reviewer: the checkout and the diff.
async fn lay_out_checkout(
    context: &JobContext<'_>,
    commit: &str,
    run_dir: &Path,
) -> Result<ReviewLayout, JobError> {
    let project = context.project;
    let head = Oid::parse(commit)
        .ok_or_else(|| JobError::permanent(format!("{commit} is not a commit id")))?;
    let base = super::check::submission_base(context)?;
    let dir = run_dir.join("review");
    remove_tree(&dir)?;
    crate::private_files::make_dir(&dir)?;
    let change = dir.join(CHANGE_DIR);
    let ordinary = ordinary_dot_files(context, &base, &head).await?;
    let purpose = CheckoutPurpose::Review {
        ordinary: &ordinary,
    };
    let checkout = project
        .git
        .checkout(&head, &base, purpose, &project.mirror_dir(), &change)
        .await?;
    let mut diff = project.git.diff(&base, &head, DiffContext::Usual).await?;
    if diff.text.len() > DIFF_BYTES_MAX || diff.cut {
        let end = (0..=DIFF_BYTES_MAX.min(diff.text.len())).rev();
        let end = end.into_iter().find(|at| diff.text.is_char_boundary(*at));
        diff.text.truncate(end.unwrap_or_default());
        diff.text
            .push_str("\n(cut here: run `git diff base change` to see all of it)\n");
    }
    crate::private_files::write(&diff_file(&change), diff.text)?;
    Ok(ReviewLayout {
        dir,
        change,
        from_base: checkout.from_base,
    })
}

/// Returns the dot files that the reviewer sees as the change has them, because the policy calls
/// them ordinary.
async fn ordinary_dot_files(
    context: &JobContext<'_>,
    base: &Oid,
    head: &Oid,
) -> Result<Vec<String>, JobError> {
    let allowed = &context.project.config.policy.ordinary_dot_files;
    if allowed.is_empty() {
        return Ok(Vec::new());
    }
    let files = context
        .project
        .git
        .files_changed(base, head)
        .await?
        .into_iter();
    let paths = files.flat_map(|file| [Some(file.path), file.old_path]);
    let patterns = PathPatterns::new(allowed);
    let is_allowed = |path: &String| patterns.matches(path);
    Ok(paths.flatten().filter(is_allowed).collect())
}

/// Prepares a copy in which a reviewer may build and run tests, with the caches of the project.
/// Without a setup the copy would have nothing that a clone of the checkout lacks.
async fn lay_out_copy(
    context: &JobContext<'_>,
    commit: &str,
) -> Result<Option<CheckoutSite>, JobError> {
    if context.project.config.setup.is_empty() {
        return Ok(None);
    }
    let head = Oid::parse(commit)
        .ok_or_else(|| JobError::permanent(format!("{commit} is not a commit id")))?;
    let base = super::check::submission_base(context)?;
    let mut site = CheckoutSite::for_judge_copy(context, &head, &base).await?;
    cache_setup::add_caches(context, &base, &mut site).await?;
    Ok(Some(site))
}

async fn take_manifest(dir: PathBuf) -> Result<Manifest, JobError> {
    let manifest = tokio::task::spawn_blocking(move || manifest::take_manifest(&dir)).await;
    manifest
        .map_err(JobError::transient)?
        .map_err(JobError::transient)
}
