//! The change of a claim as a diff, in pages. All of it comes from agents, so the text is cleaned.

use std::fmt::Write as _;

use engine::git::{ChangedFile, DiffContext, Oid, Repository};
use engine::session::SessionClaim;
use flow::Task;
use serde::Serialize;

use super::super::App;
use super::super::identity::Identity;
use super::super::project;
use super::branch_of;
use super::claims::{self, ClaimRef};
use crate::failure::Failure;

/// Bytes of a page. Larger answers are cut by some clients.
const PAGE_BYTES: usize = 24_000;
/// Bytes of a page for clients that read the diff as a resource, which has no pages.
pub const RESOURCE_BYTES: usize = 256 * 1024;
/// Files in the list of changed files.
const FILES_MAX: usize = 500;

/// One page of a diff.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct DiffPage {
    pub base: String,
    pub commit: String,
    /// Changed files; only on the first page.
    pub files: Vec<String>,
    pub diff: String,
    /// The `offset` of the next page; null at the end.
    pub next: Option<usize>,
}

/// Selects a part of a diff.
#[derive(Clone, Debug, Default)]
pub struct DiffRequest {
    /// Only the diff of this file.
    pub file: Option<String>,
    pub offset: usize,
    /// Bytes of the page; `None` for the usual size.
    pub page_bytes: Option<usize>,
}

/// Loads a page of the change that the caller's claim is about: the commit to judge, or the
/// builder's own branch.
pub async fn load_diff_page(
    app: &App,
    identity: &Identity,
    claim_ref: &ClaimRef,
    request: &DiffRequest,
) -> Result<DiffPage, Failure> {
    let claim = claims::find_claim(app, identity, claim_ref).await?;
    let (git, rules) = project::open_ticket_repository(app, &claim.stored.ticket).await?;
    let (base, commit) = ends_of(&git, &rules.base_branch, &claim).await?;
    let changed = git.files_changed(&base, &commit).await;
    let changed = changed.map_err(Failure::error)?;
    let diff = git.diff(&base, &commit, DiffContext::Usual).await;
    let diff = diff.map_err(Failure::error)?;
    let mut text = match &request.file {
        Some(path) => section_of(&diff.text, &changed, path)?,
        None => diff.text,
    };
    if diff.cut {
        text.push_str("\n[the diff is longer than what is read; clone the repository]\n");
    }
    let text = findings::clean(&text);
    let (page, next) = page_of(&text, request.offset, request.page_bytes);
    let is_first = request.offset == 0 && request.file.is_none();
    Ok(DiffPage {
        base: base.to_string(),
        commit: commit.to_string(),
        files: if is_first {
            file_list(&changed)
        } else {
            Vec::new()
        },
        diff: page.to_owned(),
        next,
    })
}

/// Returns the two commits between which the claim's change is.
async fn ends_of(
    git: &Repository,
    base_branch: &str,
    claim: &SessionClaim,
) -> Result<(Oid, Oid), Failure> {
    let ticket = &claim.stored.ticket;
    let oid = |text: &str| {
        Oid::parse(text).ok_or_else(|| Failure::error(format!("{text:?} is not a commit")))
    };
    match &claim.task {
        Task::Review { commit, .. } | Task::Verify { commit, .. } => {
            let submission = ticket.submission.as_ref();
            let base = submission.map_or("", |submission| &submission.base);
            Ok((oid(base)?, oid(commit)?))
        }
        Task::Build { .. }
        | Task::Check { .. }
        | Task::Merge { .. }
        | Task::Tell { .. }
        | Task::Report => {
            let branch = branch_of(ticket);
            let head = git.branch_tip(&branch).await.map_err(Failure::error)?;
            let head = head.ok_or_else(|| {
                Failure::usage(format!("the branch {branch} has no commits here yet"))
                    .hint("commit on it, or push it, and ask again")
            })?;
            let base = git.base_tip(base_branch).await.map_err(Failure::usage)?;
            let base = git.merge_base(&base, &head).await.map_err(Failure::usage)?;
            Ok((base, head))
        }
    }
}

/// Returns the part of a diff that is about one file. The names come from git's list, because the
/// diff quotes them.
fn section_of(diff: &str, changed: &[ChangedFile], path: &str) -> Result<String, Failure> {
    let is_named = |file: &ChangedFile| file.path == path || file.old_path.as_deref() == Some(path);
    let Some(number) = changed.iter().position(is_named) else {
        let path = findings::one_line(path);
        return Err(Failure::usage(format!("the change does not touch {path}"))
            .hint("get_diff without `file` lists the changed files"));
    };
    let mut sections = 0;
    let mut section = String::new();
    for line in diff.split_inclusive('\n') {
        // A line of a file begins with a blank, a sign or a backslash, never with this word.
        sections += usize::from(line.starts_with("diff --git "));
        if sections == number + 1 {
            section.push_str(line);
        }
    }
    Ok(section)
}

/// Returns the page at an offset and the offset of the next. A page ends with a line, if a line
/// fits.
fn page_of(text: &str, offset: usize, page_bytes: Option<usize>) -> (&str, Option<usize>) {
    let most = page_bytes.unwrap_or(PAGE_BYTES);
    let start = char_boundary(text, offset);
    let rest = &text[start..];
    if rest.len() <= most {
        return (rest, None);
    }
    let cut = char_boundary(rest, most);
    let end = rest[..cut].rfind('\n').map_or(cut, |line_end| line_end + 1);
    (&rest[..end], Some(start + end))
}

/// Returns the nearest position at or before an offset at which a text can be cut.
fn char_boundary(text: &str, offset: usize) -> usize {
    let mut position = offset.min(text.len());
    while !text.is_char_boundary(position) {
        position -= 1;
    }
    position
}

fn file_list(changed: &[ChangedFile]) -> Vec<String> {
    let mut files: Vec<String> = changed.iter().take(FILES_MAX).map(describe).collect();
    if changed.len() > FILES_MAX {
        files.push(format!("and {} more", changed.len() - FILES_MAX));
    }
    files
}

fn describe(file: &ChangedFile) -> String {
    let mut line = format!("{} {}", file.status, findings::one_line(&file.path));
    let _ = match (file.added, file.removed) {
        (Some(added), Some(removed)) => write!(line, " +{added} -{removed}"),
        _ => write!(line, " binary"),
    };
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end_with_a_line_and_join_to_the_whole() {
        let lines: Vec<String> = (0..100).map(|n| format!("line {n} ä\n")).collect();
        let text = lines.concat();
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let (page, next) = page_of(&text, offset, Some(64));
            assert!(page.len() <= 64 && page.ends_with('\n'), "{page:?}");
            whole.push_str(page);
            match next {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, text);
    }

    #[test]
    fn a_long_line_is_cut_and_any_offset_is_answered() {
        let text = "ä".repeat(100);
        let (page, next) = page_of(&text, 0, Some(9));
        assert_eq!((page.len(), next), (8, Some(8)));
        assert_eq!(page_of(&text, 1, Some(1000)).0.len(), 200);
        assert_eq!(page_of(&text, 100_000, None), ("", None));
    }

    #[test]
    fn one_file_is_its_own_section() {
        let change = |path: &str| ChangedFile {
            path: path.to_owned(),
            old_path: None,
            status: 'M',
            added: Some(1),
            removed: Some(0),
        };
        let diff = "diff --git a/a b/a\n+one\ndiff --git a/b b/b\n+diff --git two\n";
        let changed = [change("a"), change("b")];
        let section = section_of(diff, &changed, "b").unwrap();
        assert_eq!(section, "diff --git a/b b/b\n+diff --git two\n");
        assert!(section_of(diff, &changed, "../a").is_err());
        assert_eq!(file_list(&changed), ["M a +1 -0", "M b +1 -0"]);
    }
}
