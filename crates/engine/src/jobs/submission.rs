//! Describes an exact commit: its changes, its authors, and the new positions of its lines.

use std::collections::BTreeSet;

use findings::LineMap;
use flow::Ticket;
use flow::policy::pattern::{self, PathPatterns};
use flow::ticket::{EDITION, Spec, Submission};

use super::JobError;
use super::build::builder_identity;
use crate::git::{
    CommitIdentity, CommitPerson, DiffContext, Oid, Repository, is_agent_configuration,
};
use crate::project::ProjectConfig;

/// Maximum number of different people in the commits of a change.
const PEOPLE_MAX: usize = 200;
const UNKNOWN_SIGNERS_SHOWN_MAX: usize = 10;
const NAME_CHARS_MAX: usize = 100;

/// Describes the range from the merge base with the base branch to `head`, submitted by `by`.
pub async fn describe(
    git: &Repository,
    project: &ProjectConfig,
    ticket: &Ticket,
    head: &Oid,
    branch: &str,
    by: &str,
) -> Result<Submission, JobError> {
    let tip = git.base_tip(&project.base_branch).await?;
    let base = range_base(git, ticket, &tip, head).await?;
    let earlier = ticket
        .submission
        .as_ref()
        .and_then(|submission| Oid::parse(&submission.commit));
    let request = (&ticket.spec, earlier.as_ref());
    let mut submission = describe_range(git, project, request, (&base, head), branch).await?;
    let people = git.authors_and_committers(&base, head).await?;
    submission.signed_as = unknown_signers(&people, by, ticket);
    Ok(submission)
}

/// Describes exactly this range for a specification, relative to the earlier submission if there is
/// one.
pub async fn describe_range(
    git: &Repository,
    project: &ProjectConfig,
    (spec, earlier): (&Spec, Option<&Oid>),
    (base, head): (&Oid, &Oid),
    branch: &str,
) -> Result<Submission, JobError> {
    let diff = git.diff(base, head, DiffContext::None).await?.text;
    let touched = LineMap::parse(&diff);
    let files: Vec<String> = git
        .files_changed(base, head)
        .await?
        .into_iter()
        .flat_map(|file| file.old_path.into_iter().chain([file.path]))
        .collect();
    let people = git.authors_and_committers(base, head).await?;
    if people.len() > PEOPLE_MAX {
        return Err(JobError::transient(format!(
            "the commits have {} different names, more than the limit of {PEOPLE_MAX}; squash them into fewer commits by their real authors",
            people.len()
        )));
    }
    let moved = match earlier {
        Some(earlier) => LineMap::parse(&git.diff(earlier, head, DiffContext::None).await?.text),
        None => LineMap::default(),
    };
    Ok(Submission {
        commit: head.to_string(),
        tree: git.tree_of(head).await?.to_string(),
        branch: branch.to_owned(),
        base: base.to_string(),
        base_tree: git.tree_of(base).await?.to_string(),
        diff_id: git.change_id(base, head).await?,
        signed_as: Vec::new(),
        authors: people
            .into_iter()
            .flat_map(|person| [person.name, person.email])
            .collect(),
        protected: protected_files(project, spec, &files)?,
        files,
        lines_changed: touched.changed_line_count(),
        touched,
        moved,
        claims: Vec::new(),
        summary: String::new(),
        edition: EDITION,
    })
}

/// Refuses a commit that is not a change on top of the base that the work began on.
pub async fn ensure_valid_change(
    git: &Repository,
    project: &ProjectConfig,
    start: &Oid,
    head: &Oid,
) -> Result<(), JobError> {
    ensure_on_base(git, project, start, head).await?;
    ensure_not_empty(git, project, head).await
}

/// Refuses a commit that lacks the base that the work began on.
pub async fn ensure_on_base(
    git: &Repository,
    project: &ProjectConfig,
    start: &Oid,
    head: &Oid,
) -> Result<(), JobError> {
    let base = git.base_tip(&project.base_branch).await?;
    let fork = git.merge_base(&base, start).await?;
    if !git.is_ancestor(&fork, head).await? {
        let short = fork.short();
        return Err(JobError::transient(format!(
            "the builder rewrote history at or below the base ({short})"
        )));
    }
    Ok(())
}

/// Refuses a commit without changes.
pub async fn ensure_not_empty(
    git: &Repository,
    project: &ProjectConfig,
    head: &Oid,
) -> Result<(), JobError> {
    let base = git.base_tip(&project.base_branch).await?;
    let below = git.merge_base(&base, head).await?;
    if git.tree_of(head).await? == git.tree_of(&below).await? {
        return Err(JobError::transient("the builder changed nothing"));
    }
    Ok(())
}

/// Returns authors who were not involved: neither the submitter, nor earlier builders, nor
/// Countersign itself.
fn unknown_signers(people: &[CommitPerson], by: &str, ticket: &Ticket) -> Vec<String> {
    let at_work = ticket.authors.iter().map(String::as_str).chain([by]);
    let mut involved: Vec<CommitIdentity> = at_work.map(builder_identity).collect();
    involved.push(CommitIdentity::countersign());
    let is_involved = |person: &CommitPerson| {
        let mut involved = involved.iter();
        involved.any(|one| one.name == person.name && one.email == person.email)
    };
    let outsiders = people.iter().filter(|person| !is_involved(person));
    outsiders
        .take(UNKNOWN_SIGNERS_SHOWN_MAX)
        .map(|person| {
            let name = findings::one_line(&format!("{} <{}>", person.name, person.email));
            findings::shorten(&name, NAME_CHARS_MAX)
        })
        .collect()
}

/// Returns the commit that the change begins on: the merge base, or the stacked dependencies until
/// they land.
async fn range_base(
    git: &Repository,
    ticket: &Ticket,
    tip: &Oid,
    head: &Oid,
) -> Result<Oid, JobError> {
    let name = format!("refs/countersign/{}/{}", ticket.id, super::build::STACK_REF);
    let fork = git.merge_base(tip, head).await?;
    if let Some(stack) = git.read_ref(&name).await?
        && git.is_ancestor(&stack, head).await?
        && !git.is_ancestor(&stack, tip).await?
        // A squashed or replayed dependency never has the stack in its history. Once the change has
        // brought in the newer base, that base is what it begins on.
        && git.is_ancestor(&fork, &stack).await?
    {
        return Ok(stack);
    }
    Ok(fork)
}

/// Returns the changed paths that the project or the ticket protects, and files that configure
/// agents.
fn protected_files(
    project: &ProjectConfig,
    spec: &Spec,
    files: &[String],
) -> Result<Vec<String>, JobError> {
    // Use two lists: a `!` pattern of the ticket must not undo a protection of the project.
    let lists = [
        parse_patterns(&project.policy.protected)?,
        parse_patterns(&spec.protected)?,
    ];
    let hit = |file: &&String| {
        lists.iter().any(|list| list.protects(file))
            || is_agent_configuration(file)
            || *file == "countersign.toml"
    };
    Ok(files
        .iter()
        .filter(hit)
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect())
}

/// Parses patterns. A pattern that cannot match anything protects nothing, so it stops the work
/// instead.
fn parse_patterns(lines: &[String]) -> Result<PathPatterns, JobError> {
    for line in lines {
        if let Some(why) = pattern::problem(line) {
            let shown = findings::shorten(&findings::one_line(line), NAME_CHARS_MAX);
            return Err(JobError::permanent(format!(
                "the protected path {shown:?} is {why}; fix it in the ticket or in countersign.toml"
            )));
        }
    }
    Ok(PathPatterns::new(lines))
}
