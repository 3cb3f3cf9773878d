//! The section of a brief that tells an agent which connected by itself how to get the repository.

use std::fmt::Write as _;

use super::quote::line;

/// Ways to the repository, for an agent that connected over MCP. Countersign does not know on which
/// machine the agent runs, so the brief names all of them.
#[derive(Clone, Copy, Debug)]
pub struct RepositoryWays<'a> {
    /// Git directory on the server's machine.
    pub path: &'a str,
    /// Branch of the ticket.
    pub branch: &'a str,
    pub base_branch: &'a str,
    /// Commit to judge; `None` for a builder, which makes one.
    pub commit: Option<&'a str>,
    /// Address for `git clone`, if the server is reached over HTTP.
    pub clone_url: Option<&'a str>,
}

/// Inserts a section on the repository after the title of a brief.
pub fn with_repository_ways(brief: &str, ways: &RepositoryWays<'_>) -> String {
    let (path, branch, base) = (line(ways.path), line(ways.branch), line(ways.base_branch));
    let mut out = String::from("\n## How to get the code\n\n");
    if ways.commit.is_some() {
        out.push_str("- `get_diff` returns the change, in pages and by file.\n");
    } else {
        out.push_str("- `get_diff` returns the commits on your branch as one diff.\n");
    }
    let _ = match ways.commit {
        Some(commit) => writeln!(
            out,
            "- On the server's machine, the repository is `{path}`. Work on a copy: `git clone --no-checkout {path} copy`, \
             then `git -C copy checkout --detach {}`.",
            line(commit)
        ),
        None => writeln!(
            out,
            "- On the server's machine, the repository is `{path}`. Work on the branch `{branch}` in a worktree of your own; \
             create it from `{base}` if it is missing."
        ),
    };
    let Some(url) = ways.clone_url.map(line) else {
        return insert(brief, &out);
    };
    let _ = writeln!(
        out,
        "- From any machine: `git clone -c http.extraHeader=\"Authorization: Bearer CREDENTIAL\" {url} copy`, with the \
         assignment's `clone_credential` in place of CREDENTIAL. It ends with your claim."
    );
    let _ = match ways.commit {
        Some(_) => writeln!(
            out,
            "  The clone has the change checked out, without its history, and the base as `origin/{base}`. You can \
             push nothing."
        ),
        None => writeln!(
            out,
            "  The clone is on `{branch}`. Commit there and `git push`; you can push that branch and no other, and not \
             by force."
        ),
    };
    insert(brief, &out)
}

/// Puts the section after the title, so that the brief still begins with its heading.
fn insert(brief: &str, text: &str) -> String {
    match brief.split_once('\n') {
        Some((title, rest)) => format!("{title}\n{text}{rest}"),
        None => format!("{brief}\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: RepositoryWays<'static> = RepositoryWays {
        path: "/srv/a/.git",
        branch: "countersign/T-1",
        base_branch: "main",
        commit: Some("c1"),
        clone_url: Some("http://h:1/git/T-1/2/3"),
    };

    #[test]
    fn a_reviewer_reads_how_to_get_the_commit_and_that_it_cannot_push() {
        let text = with_repository_ways("# Review T-1: x\n\nthe rest\n", &WAYS);
        assert!(text.starts_with("# Review T-1: x\n\n## How to get the code\n"));
        assert!(text.ends_with("\n\nthe rest\n"), "{text}");
        for needed in [
            "get_diff",
            "git clone --no-checkout /srv/a/.git copy",
            "checkout --detach c1",
            "http://h:1/git/T-1/2/3 copy",
            "`clone_credential`",
            "push nothing",
        ] {
            assert!(text.contains(needed), "{needed}: {text}");
        }
    }

    #[test]
    fn a_builder_reads_which_branch_it_may_push() {
        let ways = RepositoryWays {
            commit: None,
            ..WAYS
        };
        let text = with_repository_ways("# Build T-1: x\n", &ways);
        assert!(text.contains("you can push that branch and no other"));
        assert!(text.contains("create it from `main`"), "{text}");
    }

    #[test]
    fn without_a_server_address_there_is_no_clone() {
        let ways = RepositoryWays {
            clone_url: None,
            ..WAYS
        };
        let text = with_repository_ways("# Review T-1: x\n", &ways);
        assert!(!text.contains("CREDENTIAL"), "{text}");
        assert!(text.contains("/srv/a/.git"));
    }

    #[test]
    fn a_name_cannot_open_a_heading() {
        let ways = RepositoryWays {
            branch: "a\n## b",
            commit: None,
            ..WAYS
        };
        let text = with_repository_ways("# Build\n", &ways);
        assert!(!text.contains("\n## b"), "{text}");
    }
}
