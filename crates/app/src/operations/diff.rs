//! Loads the diff of a ticket's round with that round's findings. All of it comes from agents, so
//! every text is cleaned.

mod generated;
mod unified;

pub use generated::is_generated;
pub use unified::{DiffFile, DiffHunk, DiffRow, DiffRowKind};

use std::path::{Path, PathBuf};

use engine::git::{DiffContext, Oid, Repository};
use engine::project::TicketFiles;
use flow::ledger::LedgerEntry;
use flow::ticket::Submission;
use flow::{Ticket, TicketId};
use serde::{Deserialize, Serialize};

use super::project::git_tool;
use super::{App, history};
use crate::failure::Failure;

/// Parsed diff of a round.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoundDiff {
    pub ticket: TicketId,
    pub round: u32,
    /// The earlier round that this one is compared with; otherwise it is compared with its base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_round: Option<u32>,
    /// True if the two rounds are on different commits of the base branch. The diff then shows the
    /// changes of the base branch as well.
    #[serde(default)]
    pub base_moved: bool,
    pub commit: String,
    /// Commit that the diff begins with.
    pub base: String,
    pub files: Vec<DiffFile>,
    /// The ledger of that round; a finding's line is a line of this commit.
    pub findings: Vec<LedgerEntry>,
    /// True if the diff is longer than the part that was read.
    pub cut: bool,
    /// Directory in which the files can be opened, if there is one.
    pub root: Option<PathBuf>,
}

impl RoundDiff {
    /// Lists the findings of a file, whether or not the diff shows their lines.
    pub fn findings_in<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a LedgerEntry> {
        let of_file = move |entry: &&LedgerEntry| entry.finding.file.as_deref() == Some(path);
        self.findings.iter().filter(of_file)
    }

    /// Lists findings of no file, or of one that the change does not touch.
    pub fn findings_elsewhere(&self) -> impl Iterator<Item = &LedgerEntry> {
        let is_shown = |entry: &LedgerEntry| {
            let file = entry.finding.file.as_deref();
            file.is_some_and(|path| self.files.iter().any(|file| file.path == path))
        };
        self.findings.iter().filter(move |entry| !is_shown(entry))
    }
}

/// Selects a part of a ticket's changes.
#[derive(Clone, Debug, Default)]
pub struct DiffSelection {
    /// Default: the newest submission.
    pub round: Option<u32>,
    /// Compares with the commit of this round instead of the base.
    pub from_round: Option<u32>,
    /// Only this file, by its new or its old name.
    pub file: Option<String>,
}

/// Loads the diff of the newest submission, or of an earlier round.
pub async fn load_diff(app: &App, id: &str, round: Option<u32>) -> Result<RoundDiff, Failure> {
    let selection = DiffSelection {
        round,
        ..DiffSelection::default()
    };
    load_selected_diff(app, id, &selection).await
}

/// Loads the diff of a round against its base or against another round.
pub async fn load_selected_diff(
    app: &App,
    id: &str,
    selection: &DiffSelection,
) -> Result<RoundDiff, Failure> {
    let round = selection.round;
    let stored = app.ticket(id).await?;
    let earlier = match selection.from_round {
        Some(from) => {
            let ticket = at_round(app, stored.ticket.clone(), from).await?;
            Some(submission_of(&ticket)?)
        }
        None => None,
    };
    let ticket = match round {
        Some(round) => at_round(app, stored.ticket, round).await?,
        None => stored.ticket,
    };
    let submission = submission_of(&ticket)?;
    let git = repository_of(app, &ticket).await?;
    let from = earlier
        .as_ref()
        .map_or(&submission.base, |earlier| &earlier.commit);
    let file = selection.file.as_deref();
    let (files, cut) = read(&git, from, &submission.commit, file).await?;
    Ok(RoundDiff {
        round: round.unwrap_or_else(|| round_of(&ticket, &submission)),
        from_round: selection.from_round,
        base_moved: earlier
            .as_ref()
            .is_some_and(|earlier| earlier.base != submission.base),
        base: from.clone(),
        commit: submission.commit,
        files,
        cut,
        root: open_root(app, &git, &ticket.id).await,
        findings: ticket.ledger.entries.clone(),
        ticket: ticket.id,
    })
}

fn submission_of(ticket: &Ticket) -> Result<Submission, Failure> {
    ticket.submission.clone().ok_or_else(|| {
        let (id, stage) = (&ticket.id, ticket.stage);
        Failure::usage(format!("{id} is {stage} and has no commit yet"))
            .hint(format!("countersign run {id}"))
    })
}

/// Returns the round of a submission. A verdict opens the next round while the commit still belongs
/// to the last one.
fn round_of(ticket: &Ticket, submission: &Submission) -> u32 {
    let decided = ticket
        .rounds
        .iter()
        .rev()
        .find(|round| round.commit == submission.commit);
    decided.map_or(ticket.round, |round| round.number)
}

async fn at_round(app: &App, ticket: Ticket, round: u32) -> Result<Ticket, Failure> {
    if round == ticket.round && ticket.rounds.iter().all(|decided| decided.number != round) {
        return Ok(ticket);
    }
    let numbers: Vec<String> = ticket
        .rounds
        .iter()
        .map(|round| round.number.to_string())
        .collect();
    history::at_round(app, &ticket.id, round)
        .await?
        .ok_or_else(|| {
            let hint = if numbers.is_empty() {
                "no round has a verdict yet".to_owned()
            } else {
                format!("its rounds are {}", numbers.join(", "))
            };
            Failure::usage(format!("{} has no round {round}", ticket.id)).hint(hint)
        })
}

/// Opens the repository that a ticket belongs to.
pub(super) async fn repository_of(app: &App, ticket: &Ticket) -> Result<Repository, Failure> {
    let Some(path) = &ticket.spec.context.repository else {
        return Err(Failure::usage(format!(
            "{} belongs to no repository",
            ticket.id
        )));
    };
    let path = Path::new(path);
    let program = git_tool(&app.environment, path)?;
    Repository::open(program, path)
        .await
        .map_err(Failure::usage)
}

async fn read(
    git: &Repository,
    from: &str,
    to: &str,
    file: Option<&str>,
) -> Result<(Vec<DiffFile>, bool), Failure> {
    let oid = |text: &str| {
        Oid::parse(text).ok_or_else(|| Failure::error(format!("{text:?} is not a commit")))
    };
    let (from, to) = (oid(from)?, oid(to)?);
    let mut changed = git
        .files_changed(&from, &to)
        .await
        .map_err(Failure::error)?;
    let mut paths = Vec::new();
    if let Some(path) = file {
        changed.retain(|file| file.path == path || file.old_path.as_deref() == Some(path));
        let Some(file) = changed.first() else {
            let path = findings::one_line(path);
            return Err(Failure::not_found(format!(
                "the change does not touch {path}"
            )));
        };
        paths.push(file.path.as_str());
        paths.extend(file.old_path.as_deref());
    }
    let diff = git
        .diff_of_paths(&from, &to, DiffContext::Usual, &paths)
        .await
        .map_err(Failure::error)?;
    let (files, cut) = unified::parse_diff(&diff.text, &changed);
    Ok((files, cut || diff.cut))
}

/// Returns the builder's worktree, else the person's work tree.
async fn open_root(app: &App, git: &Repository, id: &TicketId) -> Option<PathBuf> {
    let builders = TicketFiles::new(&app.environment.data_dir, id).worktree_dir();
    if builders.is_dir() {
        return Some(builders);
    }
    git.main_tree().await.ok().flatten()
}
