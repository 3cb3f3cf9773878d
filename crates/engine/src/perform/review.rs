//! Reviewing: a fresh mind on a throw-away checkout of the exact commit, watched by a manifest.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use findings::ReviewClaim;
use flow::bound::bounded;
use flow::brief::{ChangeLocation, Recipient};
use flow::policy::pattern::PathPatterns;
use flow::{EventKind, Policy, Ticket, Usage};

use super::agents::{self, AgentRun, AgentStart};
use super::check::{CheckoutSite, run_with_stdout};
use super::reading::within_limit;
use super::{JobContext, JobError, JobOutput, supply};
use crate::agent::{AgentRole, ReviewQuestion, answer, diff_file};
use crate::check::Check;
use crate::git::{CheckoutPurpose, DiffContext, Oid, remove_tree};
use crate::linter::{self, LinterRun};
use crate::manifest::{self, Manifest};
use crate::workshop::AgentConfig;

/// What keeps the reviewer from writing, or at least from writing unseen, on every rung.
const ALWAYS: &str = "separate checkout, manifest before and after";

pub async fn review(
    held: &JobContext<'_>,
    commit: &str,
    seat: &str,
) -> Result<JobOutput, JobError> {
    let shop = held.shop;
    if let Some(command) = shop.linter(seat) {
        return lint(held, commit, seat, command).await;
    }
    let question = ReviewRequest::of(held, commit, seat);
    let mut watched = match &question.earlier {
        None => {
            let limit = shop.project.policy.limits.review_secs;
            let (member, role) = (held.member()?, AgentRole::Review);
            watch(held, commit, member, role, &question.brief, limit).await?
        }
        Some(earlier) => ask_to_countersign(held, &question, earlier).await?,
    };
    let mut heard = hear(held, commit, &watched).await;
    if let Ok(unclear) = &heard
        && question.earlier.is_none()
        && watched.run.first.is_none()
        && !flow::answer::is_usable(&unclear.review, &shop.project.policy)
    {
        let missing = unclear.unclear.clone().unwrap_or_default();
        if let Some(again) = Box::pin(ask_for_form(held, &question, &watched, &missing)).await? {
            watched = again;
            heard = hear(held, commit, &watched).await;
        }
    }
    let usage = watched.run.usage;
    let (lease, artefacts) = (held.lease, watched.run.artefacts.clone());
    let heard = heard.and_then(|heard| with_verdict(heard, held));
    let what = match heard {
        Err(why) => EventKind::ReviewUnusable { lease, why, usage },
        Ok(review) => EventKind::Reviewed {
            lease,
            commit: commit.to_owned(),
            review: Box::new(bounded(review, &shop.project.policy)),
            isolation: isolation(watched.run.isolation),
            usage,
        },
    };
    Ok(JobOutput { what, artefacts })
}

/// What the reviewer in a seat is asked, and the job in which it refused where it is about that.
struct ReviewRequest<'a> {
    commit: &'a str,
    brief: String,
    /// The question alone, for a session that knows the rest.
    alone: String,
    earlier: Option<u32>,
}

impl<'a> ReviewRequest<'a> {
    fn of(held: &JobContext<'_>, commit: &'a str, seat: &str) -> Self {
        let (ticket, project) = (held.ticket, &held.shop.project);
        let mut seats = ticket.seats.iter().filter(|known| known.name == seat);
        let refusal = seats
            .find(|seat| seat.is_asked_to_countersign())
            .and_then(|seat| seat.refusal.as_ref());
        Self {
            commit,
            brief: flow::brief::for_reviewer(
                ticket,
                seat,
                &project.policy,
                &project.house,
                Recipient::Spawned,
            ),
            alone: flow::brief::countersign(ticket, seat, commit, Recipient::Spawned),
            earlier: refusal.map(|refusal| refusal.job),
        }
    }
}

/// What the reviewer said, as its answer is to be understood; else why it is no answer at all.
async fn hear(
    held: &JobContext<'_>,
    commit: &str,
    watched: &WatchedRun,
) -> Result<findings::CommissionedReview, String> {
    let said = ReviewStatement {
        commit: commit.to_owned(),
        answer: usable(watched, held.ticket)?.to_owned(),
        beside: watched.run.beside.clone(),
        first: watched.run.first.clone(),
        roots: judged_in(held),
        policy: held.shop.project.policy.clone(),
    };
    within_limit(move || said.read()).await
}

/// All that a reviewer said on one commit.
struct ReviewStatement {
    commit: String,
    answer: String,
    /// What it said beside its answer.
    beside: Option<String>,
    /// Its first answer, where it was asked a second time.
    first: Option<String>,
    roots: Vec<String>,
    policy: Policy,
}

impl ReviewStatement {
    fn read(&self) -> findings::CommissionedReview {
        let mut answer = self.weigh(findings::read_answer(&self.answer, &self.commit));
        if let Some(beside) = &self.beside {
            answer = findings::hear_beside(answer, beside);
        }
        if let Some(first) = &self.first {
            let known: HashSet<String> = titles(&answer.review.findings).collect();
            let before = findings::read(first).findings.into_iter();
            let missed = before.filter(|finding| !known.contains(&finding.title));
            answer.review.findings.extend(missed);
            answer
                .review
                .remarks
                .push("asked once more for the answer in form".to_owned());
            answer = self.weigh(answer);
        }
        let roots: Vec<&str> = self.roots.iter().map(String::as_str).collect();
        findings::relocate(&roots, &mut answer.review);
        answer
    }

    fn weigh(&self, mut answer: findings::CommissionedReview) -> findings::CommissionedReview {
        let was = answer.review.claim;
        answer.review = flow::answer::weighed(answer.review, &self.policy);
        if answer.review.claim == ReviewClaim::Unknown && was != ReviewClaim::Unknown {
            answer.unclear = answer.review.remarks.last().cloned();
        }
        answer
    }
}

fn titles(findings: &[findings::Finding]) -> impl Iterator<Item = String> {
    findings.iter().map(|finding| finding.title.clone())
}

/// A review that a verdict can rest on; else why it cannot be one.
fn with_verdict(
    heard: findings::CommissionedReview,
    held: &JobContext<'_>,
) -> Result<findings::Review, String> {
    if flow::answer::is_usable(&heard.review, &held.shop.project.policy) {
        return Ok(heard.review);
    }
    let why = heard.unclear.unwrap_or_default();
    Err(format!(
        "it is neither an approval in form nor a refusal: {why}"
    ))
}

/// Asks the reviewer once more for its answer in the contract's form: in its session where it has
/// one, else from the beginning. Nothing where there is no time or money left for it.
async fn ask_for_form(
    held: &JobContext<'_>,
    asked: &ReviewRequest<'_>,
    first: &WatchedRun,
    missing: &str,
) -> Result<Option<WatchedRun>, JobError> {
    let member = held.member()?;
    let mut ticket = held.ticket.clone();
    // What the first answer cost is not in the ticket yet.
    ticket.spent.round = ticket.spent.round.plus(first.run.usage);
    ticket.spent.ticket = ticket.spent.ticket.plus(first.run.usage);
    let held = &JobContext {
        shop: held.shop,
        ticket: &ticket,
        member: held.member,
        job: held.job,
        lease: held.lease,
        stop: held.stop.clone(),
    };
    let limit = held.shop.project.policy.limits.review_secs;
    let limit_secs = limit.saturating_sub(first.run.usage.wall_ms / 1000);
    let spent = held.left().reached_by(Usage::default()).is_some();
    if spent || limit_secs == 0 {
        return Ok(None);
    }
    let request = flow::brief::in_form(asked.commit, missing);
    let whole = format!("{request}\n---\n\n{}", asked.brief);
    // After a crash the first answer is on record in another run's directory.
    let resumed = agents::resumable(member, &first.run, &held.dir());
    let look = JudgeRunRequest {
        commit: asked.commit,
        member,
        role: AgentRole::Review,
        brief: if resumed.is_some() { &request } else { &whole },
        whole: Some(&whole),
        limit_secs,
        question: ReviewQuestion::Form,
        resumed,
        dir: held.dir(),
    };
    let mut run = look_at(held, look).await?;
    // Also where the first said nothing: that it was asked is on record.
    run.first = Some(first.run.result.clone().unwrap_or_default());
    run.usage = first.run.usage.plus(run.usage);
    let known = first.run.artefacts.iter();
    let missing = known.filter(|one| run.artefacts.iter().all(|new| new.path != one.path));
    let missing: Vec<_> = missing.cloned().collect();
    run.artefacts.extend(missing);
    agents::record(held, &run)?;
    let tampered = run.tampered.clone();
    Ok(Some(WatchedRun { run, tampered }))
}

/// Asks a reviewer that refused over minor findings whether it countersigns: in its session where that
/// is still here, else with the whole brief.
async fn ask_to_countersign(
    held: &JobContext<'_>,
    asked: &ReviewRequest<'_>,
    earlier: &u32,
) -> Result<WatchedRun, JobError> {
    let member = held.member()?;
    if let Some(run) = agents::finished(held) {
        let tampered = run.tampered.clone();
        return Ok(WatchedRun { run, tampered });
    }
    let before = agents::ended_run(held, *earlier);
    let resumed = before.as_ref().and_then(|(dir, run)| {
        let resumed = agents::resumable(member, run, dir)?;
        Some((resumed, dir.clone()))
    });
    let (resumed, dir) = match resumed {
        // Sessions are found by the directory that they were held in.
        Some((resumed, dir)) => (Some(resumed), dir),
        None => (None, held.dir()),
    };
    let brief = if resumed.is_some() {
        &asked.alone
    } else {
        &asked.brief
    };
    let look = JudgeRunRequest {
        commit: asked.commit,
        member,
        role: AgentRole::Review,
        brief,
        whole: Some(&asked.brief),
        limit_secs: held.shop.project.policy.limits.review_secs,
        question: ReviewQuestion::Countersign,
        resumed,
        dir,
    };
    let run = look_at(held, look).await?;
    agents::record(held, &run)?;
    let tampered = run.tampered.clone();
    Ok(WatchedRun { run, tampered })
}

/// The reviewer's words, if they are its own, on this ticket, and it kept its hands off the work.
fn usable<'a>(watched: &'a WatchedRun, ticket: &Ticket) -> Result<&'a str, String> {
    if let Some(why) = &watched.tampered {
        return Err(why.clone());
    }
    let text = watched.run.result.as_deref().unwrap_or_default();
    let is_ours = |name: &str| {
        name.eq_ignore_ascii_case(ticket.id.as_str()) || name.trim() == ticket.spec.title.trim()
    };
    match answer::ticket_named(text).filter(|name| !is_ours(name)) {
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

/// The places at which a judge saw the repository.
fn judged_in(held: &JobContext<'_>) -> Vec<String> {
    let own = held.dir();
    let checkouts = [
        own.join("review").join(CHANGE),
        own.join("scratch/copy/checkout"),
    ];
    roots(held, &checkouts)
}

/// The places at which the repository stands for whoever judges it: these directories and the
/// builder's worktree, as we name them and as they are called behind symbolic links.
fn roots(held: &JobContext<'_>, dirs: &[PathBuf]) -> Vec<String> {
    let worktree = held.shop.files(&held.ticket.id).worktree();
    let mut roots = Vec::new();
    for dir in dirs.iter().chain([&worktree]) {
        let real = dir.canonicalize().ok();
        roots.extend(real.map(|real| real.to_string_lossy().into_owned()));
        roots.push(dir.to_string_lossy().into_owned());
    }
    roots
}

/// A linter as a reviewer: what it prints is the review, if it ran to its end.
async fn lint(
    held: &JobContext<'_>,
    commit: &str,
    seat: &str,
    command: &str,
) -> Result<JobOutput, JobError> {
    let head =
        Oid::parse(commit).ok_or_else(|| JobError::permanent(format!("{commit} is no commit")))?;
    let base = super::check::base_of(held)?;
    let site = CheckoutSite::at(held, &head, &base, "lint").await?;
    supply::put_in(held, &base, &site).await?;
    supply::set_up(held, &site).await?;
    let check = Check {
        name: seat.to_owned(),
        command: command.to_owned(),
        time_limit: super::secs(held.shop.project.policy.limits.review_secs),
        parallel: false,
        coverage_min: None,
    };
    // Behind a symbolic link a linter may print either name of the checkout.
    let roots = roots(held, std::slice::from_ref(&site.dir));
    let ran = run_with_stdout(held, &check, &site, "1", LINT_BYTES_MAX).await?;
    let usage = Usage {
        wall_ms: ran.result.wall_ms,
        ..Usage::default()
    };
    let (lease, artefacts) = (
        held.lease,
        vec![agents::artefact(held, "lint", seat, &ran.output)],
    );
    let output = std::fs::read(&ran.output).unwrap_or_default();
    let (name, command) = (seat.to_owned(), command.to_owned());
    let read = within_limit(move || {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        linter::findings_of(&LinterRun {
            name: &name,
            command: &command,
            exit: ran.exit,
            stdout: &ran.stdout,
            output: &String::from_utf8_lossy(&output),
            cut: ran.cut || output.len() >= LINT_BYTES_MAX,
            tail: &ran.result.tail,
            roots: &roots,
        })
    });
    let read = read.await.flatten();
    let what = match read {
        Ok(review) => EventKind::Reviewed {
            lease,
            commit: commit.to_owned(),
            review: Box::new(bounded(review, &held.shop.project.policy)),
            isolation: "a linter, in the room of a check".to_owned(),
            usage,
        },
        Err(why) => EventKind::ReviewUnusable { lease, why, usage },
    };
    Ok(JobOutput { what, artefacts })
}

/// More output than this is read by nobody.
const LINT_BYTES_MAX: usize = 64 << 20;

fn isolation(enforced: Option<String>) -> String {
    match enforced {
        Some(how) => format!("{how}; {ALWAYS}"),
        None => ALWAYS.to_owned(),
    }
}

/// A run in a checkout, and whether the checkout is what it was.
#[derive(Debug)]
pub struct WatchedRun {
    pub run: AgentRun,
    pub tampered: Option<String>,
}

/// Runs a judge on the commit. What it changed is found by comparing everything before and after.
pub async fn watch(
    held: &JobContext<'_>,
    commit: &str,
    member: &AgentConfig,
    role: AgentRole,
    brief: &str,
    limit_secs: u64,
) -> Result<WatchedRun, JobError> {
    if let Some(run) = agents::finished(held) {
        let tampered = run.tampered.clone();
        return Ok(WatchedRun { run, tampered });
    }
    let look = JudgeRunRequest {
        commit,
        member,
        role,
        brief,
        whole: None,
        limit_secs,
        question: ReviewQuestion::Work,
        resumed: None,
        dir: held.dir(),
    };
    let run = look_at(held, look).await?;
    agents::record(held, &run)?;
    let tampered = run.tampered.clone();
    Ok(WatchedRun { run, tampered })
}

/// One look of a judge at a commit.
struct JudgeRunRequest<'a> {
    commit: &'a str,
    member: &'a AgentConfig,
    role: AgentRole,
    brief: &'a str,
    /// The brief for an agent whose session is gone.
    whole: Option<&'a str>,
    limit_secs: u64,
    question: ReviewQuestion,
    resumed: Option<agents::ResumedSession>,
    /// The run's directory that the checkout is in.
    dir: PathBuf,
}

/// The checkout's name in the directory that a judge starts in.
pub const CHANGE: &str = "change";
/// A longer diff is cut in the file; git shows all of it.
const DIFF_BYTES_MAX: usize = 8 << 20;

/// Where a judge works. It starts in a directory of ours that has nothing but these in it: what CLIs
/// look for where they start, and above, is nothing that the change could have put there.
struct ReviewLayout {
    dir: PathBuf,
    change: PathBuf,
    from_base: Vec<String>,
}

impl ReviewLayout {
    fn told(&self, brief: &str) -> String {
        let diff = diff_file(&self.change);
        let place = ChangeLocation {
            change: &self.change.to_string_lossy(),
            diff: &diff.to_string_lossy(),
            from_base: &self.from_base,
        };
        flow::brief::placed(brief, &place)
    }
}

async fn look_at(held: &JobContext<'_>, look: JudgeRunRequest<'_>) -> Result<AgentRun, JobError> {
    let laid = checkout(held, look.commit, &look.dir).await?;
    lay_out_copy(held, look.commit).await?;
    let before = take(laid.dir.clone()).await?;
    let start = AgentStart {
        role: look.role,
        brief: &laid.told(look.brief),
        dir: &laid.dir,
        limit_secs: look.limit_secs,
        question: look.question,
        resumed: look.resumed,
    };
    let whole = look.whole.map(|brief| laid.told(brief));
    let mut run = agents::begin(held, look.member, &start, whole.as_deref()).await?;
    let after = take(laid.dir.clone()).await?;
    let changes = manifest::diff(&before, &after);
    if !changes.is_empty() {
        let shown: Vec<String> = changes.iter().take(5).map(ToString::to_string).collect();
        run.tampered = Some(format!("the checkout was changed: {}", shown.join(", ")));
    }
    Ok(run)
}

async fn checkout(
    held: &JobContext<'_>,
    commit: &str,
    run_dir: &Path,
) -> Result<ReviewLayout, JobError> {
    let shop = held.shop;
    let head =
        Oid::parse(commit).ok_or_else(|| JobError::permanent(format!("{commit} is no commit")))?;
    let base = super::check::base_of(held)?;
    let dir = run_dir.join("review");
    remove_tree(&dir)?;
    crate::private::make_dir(&dir)?;
    let change = dir.join(CHANGE);
    let ordinary = ordinary(held, &base, &head).await?;
    let purpose = CheckoutPurpose::Review {
        ordinary: &ordinary,
    };
    let made = shop
        .git
        .checkout(&head, &base, purpose, &shop.mirror(), &change)
        .await?;
    let mut diff = shop.git.diff(&base, &head, DiffContext::Usual).await?;
    if diff.text.len() > DIFF_BYTES_MAX || diff.cut {
        let end = (0..=DIFF_BYTES_MAX.min(diff.text.len())).rev();
        let end = end.into_iter().find(|at| diff.text.is_char_boundary(*at));
        diff.text.truncate(end.unwrap_or_default());
        diff.text
            .push_str("\n(cut here: the whole is in `git diff base change`)\n");
    }
    crate::private::write(&diff_file(&change), diff.text)?;
    Ok(ReviewLayout {
        dir,
        change,
        from_base: made.from_base,
    })
}

/// Dot files of the change that the policy wants to be seen as the change has them.
async fn ordinary(held: &JobContext<'_>, base: &Oid, head: &Oid) -> Result<Vec<String>, JobError> {
    let known = &held.shop.project.policy.ordinary_dot_files;
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let files = held.shop.git.files_changed(base, head).await?.into_iter();
    let paths = files.flat_map(|file| [Some(file.path), file.old_path]);
    let patterns = PathPatterns::new(known);
    let named = |path: &String| patterns.matches(path);
    Ok(paths.flatten().filter(named).collect())
}

/// Where a judge may build and run tests: a copy that it may change, with the project's caches.
/// Without a setup there is nothing in it that a clone of the checkout would not have.
async fn lay_out_copy(held: &JobContext<'_>, commit: &str) -> Result<(), JobError> {
    if held.shop.project.setup.is_empty() {
        return Ok(());
    }
    let head =
        Oid::parse(commit).ok_or_else(|| JobError::permanent(format!("{commit} is no commit")))?;
    let base = super::check::base_of(held)?;
    let site = CheckoutSite::copy(held, &head, &base).await?;
    supply::put_in(held, &base, &site).await?;
    Ok(())
}

async fn take(dir: PathBuf) -> Result<Manifest, JobError> {
    let taken = tokio::task::spawn_blocking(move || manifest::take(&dir)).await;
    taken
        .map_err(JobError::transient)?
        .map_err(JobError::transient)
}
