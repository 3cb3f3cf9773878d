//! Agent files for Claude Code: a reviewer and a fixer, with the instructions of our own briefs. A
//! file without our marker line is never overwritten.

use std::path::{Path, PathBuf};

use flow::Policy;
use flow::brief::{fixer_manual, reviewer_manual};
use serde::Serialize;

use super::project;
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;

/// Identifies our own files. It must not change: older files have it.
const FILE_MARKER: &str = "<!-- Written by `countersign agent install`; it is renewed by it as long as this line stands. -->";

/// Place of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallScope {
    Project,
    /// Below the person's home, for all projects.
    User,
}

/// A file with the instructions of an agent.
#[derive(Clone, Debug, Serialize)]
pub struct AgentFile {
    pub path: PathBuf,
    pub text: String,
}

/// Returns the files as they would be written.
pub async fn propose(
    environment: &Environment,
    directory: &Path,
    scope: InstallScope,
) -> Result<Vec<AgentFile>, Failure> {
    let root = match scope {
        InstallScope::User => environment.home.clone().ok_or_else(|| {
            Failure::usage("there is no home directory: HOME is not set")
                .hint("leave out --user to install into the project")
        })?,
        InstallScope::Project => {
            let git = project::open_repository(environment, directory).await?;
            let tree = git.work_tree().map(Path::to_owned);
            tree.ok_or_else(|| Failure::usage("this repository has no work tree to write into"))?
        }
    };
    let dir = root.join(".claude/agents");
    Ok([reviewer(), fixer()]
        .into_iter()
        .map(|(name, text)| AgentFile {
            path: dir.join(name),
            text,
        })
        .collect())
}

fn reviewer() -> (&'static str, String) {
    let head = "---\n\
        name: countersign-reviewer\n\
        description: Reviews a change with a fresh mind and answers in the JSON that Countersign reads. Use it after a change is committed.\n\
        tools: Read, Grep, Glob, Bash\n\
        ---\n";
    let manual = reviewer_manual(&Policy::default());
    (
        "countersign-reviewer.md",
        format!(
            "{head}{FILE_MARKER}\n\n{manual}\nWithout COUNTERSIGN_RESULT_FILE print the JSON last; `countersign findings parse -` reads it.\n"
        ),
    )
}

fn fixer() -> (&'static str, String) {
    let head = "---\n\
        name: countersign-fixer\n\
        description: Answers a reviewer's findings one by one and changes nothing else. Use it with a findings document (countersign export --as findings T-7).\n\
        ---\n";
    (
        "countersign-fixer.md",
        format!(
            "{head}{FILE_MARKER}\n\n{}\nCommit with the message `fix: address code review round N - <what you did>`.\n",
            fixer_manual()
        ),
    )
}

/// Writes all files, or none if one exists that is not ours.
pub fn write(files: &[AgentFile]) -> Result<(), Failure> {
    for file in files {
        let existing = std::fs::read_to_string(&file.path);
        if existing.is_ok_and(|text| !text.contains(FILE_MARKER)) {
            return Err(Failure::new(
                ExitKind::Refused,
                format!(
                    "{} exists and was not written by Countersign; it is left as it is",
                    file.path.display()
                ),
            )
            .hint("move it away, or print ours with --print"));
        }
    }
    for file in files {
        let dir = file.path.parent().unwrap_or(&file.path);
        std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(&file.path, &file.text))
            .map_err(|error| {
                Failure::error(format!(
                    "{} cannot be written: {error}",
                    file.path.display()
                ))
            })?;
    }
    Ok(())
}
