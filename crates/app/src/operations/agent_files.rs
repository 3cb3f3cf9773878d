//! Agent files for Claude Code: a reviewer and a fixer, with the instructions of our own briefs. A
//! file without our marker line is never overwritten.

use std::path::{Path, PathBuf};

use engine::linkless_files::LinklessPath;
use flow::Policy;
use flow::brief::{fixer_manual, reviewer_manual};
use serde::Serialize;

use super::project;
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;

/// Identifies our own files. It must not change: older files have it.
pub(super) const MARKER_TEXT: &str =
    "Written by `countersign agent install`; it is renewed by it as long as this line stands.";
/// The same as a comment in Markdown.
const FILE_MARKER: &str = "<!-- Written by `countersign agent install`; it is renewed by it as long as this line stands. -->";

/// Mode of the files, less the person's umask.
pub(super) const FILE_MODE: u32 = 0o666;

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
    /// Directory that the person named; no link below it is followed.
    #[serde(skip)]
    pub(super) root: PathBuf,
}

impl AgentFile {
    pub(super) fn place(&self) -> LinklessPath<'_> {
        let below = self.path.strip_prefix(&self.root).unwrap_or(&self.path);
        LinklessPath {
            root: &self.root,
            below,
        }
    }
}

/// Returns the files as they would be written.
pub async fn propose(
    environment: &Environment,
    directory: &Path,
    scope: InstallScope,
) -> Result<Vec<AgentFile>, Failure> {
    let root = install_root(environment, directory, scope).await?;
    Ok(claude_agents(&root, Path::new(".claude")))
}

/// Returns the directory below which the files are written.
pub(super) async fn install_root(
    environment: &Environment,
    directory: &Path,
    scope: InstallScope,
) -> Result<PathBuf, Failure> {
    match scope {
        InstallScope::User => environment.home.clone().ok_or_else(|| {
            Failure::usage("there is no home directory: HOME is not set")
                .hint("leave out --user to install into the project")
        }),
        InstallScope::Project => {
            let git = project::open_repository(environment, directory).await?;
            let tree = git.work_tree().map(Path::to_owned);
            tree.ok_or_else(|| Failure::usage("this repository has no work tree to write into"))
        }
    }
}

/// Returns the agent files below Claude Code's settings directory.
pub(super) fn claude_agents(root: &Path, settings: &Path) -> Vec<AgentFile> {
    let dir = root.join(settings).join("agents");
    [reviewer(), fixer()]
        .into_iter()
        .map(|(name, text)| AgentFile {
            path: dir.join(name),
            text,
            root: root.to_owned(),
        })
        .collect()
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
            "{head}{FILE_MARKER}\n\n{}\nWrite commit messages in the style of the project's log (`git log --oneline -10`).\n",
            fixer_manual()
        ),
    )
}

/// Writes all files, or none if one exists that is not ours, or if a link is in the way.
pub fn write(files: &[AgentFile]) -> Result<(), Failure> {
    let failed = |file: &AgentFile, error: std::io::Error| {
        Failure::new(refusal_kind(&error), cannot_write(&file.path, &error))
            .hint("print the files with --print, and put them where you want them")
    };
    for file in files {
        let existing = file.place().read().map_err(|error| failed(file, error))?;
        if existing.is_some_and(|text| !text.contains(MARKER_TEXT)) {
            return Err(foreign_file_error(&file.path));
        }
    }
    for file in files {
        let written = file.place().write(&file.text, FILE_MODE);
        written.map_err(|error| failed(file, error))?;
    }
    Ok(())
}

pub(super) fn foreign_file_error(path: &Path) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!(
            "{} exists and was not written by Countersign; it is left as it is",
            path.display()
        ),
    )
    .hint("move it away, or print ours with --print")
}

/// Returns whether an error is our own refusal, such as a link in the way, or a failure.
pub(super) fn refusal_kind(error: &std::io::Error) -> ExitKind {
    match error.kind() {
        std::io::ErrorKind::Other => ExitKind::Refused,
        _ => ExitKind::Error,
    }
}

pub(super) fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be written: {error}", path.display())
}
