//! An exact commit, described: what it changes, who wrote it, where its lines went.

use std::collections::BTreeSet;

use findings::LineMap;
use flow::Ticket;
use flow::policy::pattern::{self, PathPatterns};
use flow::ticket::{EDITION, Spec, Submission};

use super::JobError;
use super::build::identity;
use crate::git::{
    CommitIdentity, CommitPerson, DiffContext, Oid, Repository, is_agent_configuration,
};
use crate::workshop::ProjectConfig;

/// Names that the commits of a change may carry.
const PEOPLE_MAX: usize = 200;
const STRANGERS_SHOWN_MAX: usize = 10;
const NAME_CHARS_MAX: usize = 100;

/// Describes the range from the merge base with the base branch to `head`, which `by` puts forward.
pub async fn describe(
    git: &Repository,
    project: &ProjectConfig,
    ticket: &Ticket,
    head: &Oid,
    branch: &str,
    by: &str,
) -> Result<Submission, JobError> {
    let tip = git.base(&project.base_branch).await?;
    let base = under(git, ticket, &tip, head).await?;
    let earlier = ticket
        .submission
        .as_ref()
        .and_then(|put| Oid::parse(&put.commit));
    let asked = (&ticket.spec, earlier.as_ref());
    let mut put = describe_range(git, project, asked, (&base, head), branch).await?;
    let people = git.people(&base, head).await?;
    put.signed_as = strangers(&people, by, ticket);
    Ok(put)
}

/// Describes exactly this range, for what was asked, beside what was put forward before.
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
    let people = git.people(base, head).await?;
    if people.len() > PEOPLE_MAX {
        return Err(JobError::transient(format!(
            "the commits carry {} different names, and {PEOPLE_MAX} is the most; make fewer commits, each by whoever makes it",
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
        diff_id: diff_id(&diff),
        signed_as: Vec::new(),
        authors: people
            .into_iter()
            .flat_map(|person| [person.name, person.email])
            .collect(),
        protected: protected(project, spec, &files)?,
        files,
        lines_changed: touched.size(),
        touched,
        moved,
        claims: Vec::new(),
        summary: String::new(),
        edition: EDITION,
    })
}

/// Refuses a commit that is no change on top of the base that the work began on.
pub async fn must_be_sound(
    git: &Repository,
    project: &ProjectConfig,
    start: &Oid,
    head: &Oid,
) -> Result<(), JobError> {
    must_stand_on_base(git, project, start, head).await?;
    must_change_something(git, project, head).await
}

/// Refuses a commit that leaves out what the work began on.
pub async fn must_stand_on_base(
    git: &Repository,
    project: &ProjectConfig,
    start: &Oid,
    head: &Oid,
) -> Result<(), JobError> {
    let base = git.base(&project.base_branch).await?;
    let fork = git.merge_base(&base, start).await?;
    if !git.is_ancestor(&fork, head).await? {
        let short = fork.short();
        return Err(JobError::transient(format!(
            "the builder rewrote history at or below the base ({short})"
        )));
    }
    Ok(())
}

/// Refuses a commit that is no change.
pub async fn must_change_something(
    git: &Repository,
    project: &ProjectConfig,
    head: &Oid,
) -> Result<(), JobError> {
    let base = git.base(&project.base_branch).await?;
    let below = git.merge_base(&base, head).await?;
    if git.tree_of(head).await? == git.tree_of(&below).await? {
        return Err(JobError::transient("the builder changed nothing"));
    }
    Ok(())
}

/// Who signed and was not at work: neither the one who puts it forward, nor those who built before,
/// nor ourselves.
fn strangers(people: &[CommitPerson], by: &str, ticket: &Ticket) -> Vec<String> {
    let at_work = ticket.authors.iter().map(String::as_str).chain([by]);
    let mut known: Vec<CommitIdentity> = at_work.map(identity).collect();
    known.push(CommitIdentity::countersign());
    let is_known = |person: &CommitPerson| {
        let mut known = known.iter();
        known.any(|one| one.name == person.name && one.email == person.email)
    };
    let strangers = people.iter().filter(|person| !is_known(person));
    strangers
        .take(STRANGERS_SHOWN_MAX)
        .map(|person| {
            let name = findings::one_line(&format!("{} <{}>", person.name, person.email));
            findings::shorten(&name, NAME_CHARS_MAX)
        })
        .collect()
}

/// Where the change begins: the merge base, or what the ticket is stacked on until that lands.
async fn under(git: &Repository, ticket: &Ticket, tip: &Oid, head: &Oid) -> Result<Oid, JobError> {
    let name = format!("refs/countersign/{}/{}", ticket.id, super::build::STACK);
    if let Some(stack) = git.read_ref(&name).await?
        && git.is_ancestor(&stack, head).await?
        && !git.is_ancestor(&stack, tip).await?
    {
        return Ok(stack);
    }
    Ok(git.merge_base(tip, head).await?)
}

/// The same change has the same id wherever it is based: line numbers and blob names do not count.
pub fn diff_id(diff: &str) -> String {
    let lines = diff
        .lines()
        .filter(|line| !line.starts_with("@@ ") && !line.starts_with("index "));
    crate::hash::short(lines.collect::<Vec<_>>().join("\n").as_bytes())
}

/// Paths that the project or the ticket protects, and files that steer agents.
fn protected(
    project: &ProjectConfig,
    spec: &Spec,
    files: &[String],
) -> Result<Vec<String>, JobError> {
    // Two lists: a ticket's `!` takes back nothing that the project protects.
    let lists = [
        patterns(&project.policy.protected)?,
        patterns(&spec.protected)?,
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

/// A pattern that can match nothing protects nothing, so it stops the work instead.
fn patterns(lines: &[String]) -> Result<PathPatterns, JobError> {
    for line in lines {
        if let Some(why) = pattern::problem(line) {
            let shown = findings::shorten(&findings::one_line(line), NAME_CHARS_MAX);
            return Err(JobError::permanent(format!(
                "the protected path {shown:?} is {why}; mend it in the ticket or in countersign.toml"
            )));
        }
    }
    Ok(PathPatterns::new(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_one_id_on_any_base() {
        let here = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,0 +2 @@\n+new\n";
        let there =
            "diff --git a/x b/x\nindex 3..4 100644\n--- a/x\n+++ b/x\n@@ -41,0 +42 @@\n+new\n";
        let other = there.replace("+new", "+other");
        assert_eq!(diff_id(here), diff_id(there));
        assert_ne!(diff_id(here), diff_id(&other));
    }
}
