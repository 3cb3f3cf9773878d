//! Loads the diff of a ticket's round with that round's findings. All of it comes from agents, so
//! every text is cleaned.

mod unified;

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
    pub commit: String,
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

/// Loads the diff of the newest submission, or of an earlier round.
pub async fn load_diff(app: &App, id: &str, round: Option<u32>) -> Result<RoundDiff, Failure> {
    let stored = app.ticket(id).await?;
    let ticket = match round {
        Some(round) => at_round(app, stored.ticket, round).await?,
        None => stored.ticket,
    };
    let Some(submission) = ticket.submission.clone() else {
        return Err(
            Failure::usage(format!("{id} is {} and has no commit yet", ticket.stage))
                .hint(format!("countersign run {id}")),
        );
    };
    let git = repository_of(app, &ticket).await?;
    let (files, cut) = read(&git, &submission).await?;
    Ok(RoundDiff {
        round: round.unwrap_or_else(|| round_of(&ticket, &submission)),
        commit: submission.commit,
        base: submission.base,
        files,
        cut,
        root: open_root(app, &git, &ticket.id).await,
        findings: ticket.ledger.entries.clone(),
        ticket: ticket.id,
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

async fn read(git: &Repository, submission: &Submission) -> Result<(Vec<DiffFile>, bool), Failure> {
    let oid = |text: &str| {
        Oid::parse(text).ok_or_else(|| Failure::error(format!("{text:?} is not a commit")))
    };
    let (from, to) = (oid(&submission.base)?, oid(&submission.commit)?);
    let changed = git
        .files_changed(&from, &to)
        .await
        .map_err(Failure::error)?;
    let diff = git
        .diff(&from, &to, DiffContext::Usual)
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
