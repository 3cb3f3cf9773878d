//! A ticket's change as people read it: the diff of a round with that round's findings in place.
//! Everything in it came from agents, so every text is cleaned.

mod unified;

pub use unified::{DiffFile, DiffHunk, DiffRow, DiffRowKind};

use std::path::{Path, PathBuf};

use engine::git::{DiffContext, Oid, Repository};
use engine::workshop::TicketFiles;
use flow::ledger::LedgerEntry;
use flow::ticket::Submission;
use flow::{Ticket, TicketId};
use serde::{Deserialize, Serialize};

use super::project::git_tool;
use super::{App, history};
use crate::failure::Failure;

/// A round's change, read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundDiff {
    pub ticket: TicketId,
    pub round: u32,
    pub commit: String,
    pub base: String,
    pub files: Vec<DiffFile>,
    /// The ledger as it was then; a finding's line is a line of this commit.
    pub findings: Vec<LedgerEntry>,
    /// The diff is longer than what is read.
    pub cut: bool,
    /// Where the files can be opened, if they are anywhere.
    pub root: Option<PathBuf>,
}

impl RoundDiff {
    /// Findings that stand at a line of this file that the diff shows, or does not show.
    pub fn at<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a LedgerEntry> {
        let of_file = move |entry: &&LedgerEntry| entry.finding.file.as_deref() == Some(path);
        self.findings.iter().filter(of_file)
    }

    /// Findings of no file, or of one that the change does not touch.
    pub fn elsewhere(&self) -> impl Iterator<Item = &LedgerEntry> {
        let shown = |entry: &LedgerEntry| {
            let file = entry.finding.file.as_deref();
            file.is_some_and(|path| self.files.iter().any(|file| file.path == path))
        };
        self.findings.iter().filter(move |entry| !shown(entry))
    }
}

/// The newest submission's change, or that of an earlier round.
pub async fn of(office: &App, id: &str, round: Option<u32>) -> Result<RoundDiff, Failure> {
    let stored = office.ticket(id).await?;
    let ticket = match round {
        Some(round) => at_round(office, stored.ticket, round).await?,
        None => stored.ticket,
    };
    let Some(put) = ticket.submission.clone() else {
        return Err(
            Failure::usage(format!("{id} is {} and has no commit yet", ticket.stage))
                .hint(format!("countersign run {id}")),
        );
    };
    let git = repository(office, &ticket).await?;
    let (files, cut) = read(&git, &put).await?;
    Ok(RoundDiff {
        round: round.unwrap_or_else(|| round_of(&ticket, &put)),
        commit: put.commit,
        base: put.base,
        files,
        cut,
        root: root(office, &git, &ticket.id).await,
        findings: ticket.ledger.entries.clone(),
        ticket: ticket.id,
    })
}

/// A verdict opens the next round while the commit is still the last one's.
fn round_of(ticket: &Ticket, put: &Submission) -> u32 {
    let decided = ticket
        .rounds
        .iter()
        .rev()
        .find(|round| round.commit == put.commit);
    decided.map_or(ticket.round, |round| round.number)
}

async fn at_round(office: &App, ticket: Ticket, round: u32) -> Result<Ticket, Failure> {
    if round == ticket.round && ticket.rounds.iter().all(|one| one.number != round) {
        return Ok(ticket);
    }
    let numbers: Vec<String> = ticket
        .rounds
        .iter()
        .map(|round| round.number.to_string())
        .collect();
    history::at_round(office, &ticket.id, round)
        .await?
        .ok_or_else(|| {
            let known = if numbers.is_empty() {
                "no round has had its verdict yet".to_owned()
            } else {
                format!("its rounds are {}", numbers.join(", "))
            };
            Failure::usage(format!("{} has no round {round}", ticket.id)).hint(known)
        })
}

async fn repository(office: &App, ticket: &Ticket) -> Result<Repository, Failure> {
    let Some(place) = &ticket.spec.context.repository else {
        return Err(Failure::usage(format!(
            "{} belongs to no repository",
            ticket.id
        )));
    };
    let place = Path::new(place);
    let tool = git_tool(&office.surroundings, place)?;
    Repository::open(tool, place).await.map_err(Failure::usage)
}

async fn read(git: &Repository, put: &Submission) -> Result<(Vec<DiffFile>, bool), Failure> {
    let oid = |text: &str| {
        Oid::parse(text).ok_or_else(|| Failure::error(format!("{text:?} is no commit")))
    };
    let (from, to) = (oid(&put.base)?, oid(&put.commit)?);
    let changed = git
        .files_changed(&from, &to)
        .await
        .map_err(Failure::error)?;
    let diff = git
        .diff(&from, &to, DiffContext::Usual)
        .await
        .map_err(Failure::error)?;
    let (files, cut) = unified::read(&diff.text, &changed);
    Ok((files, cut || diff.cut))
}

/// The builder's own worktree, else the person's.
async fn root(office: &App, git: &Repository, id: &TicketId) -> Option<PathBuf> {
    let builders = TicketFiles::of(&office.surroundings.data_dir, id).worktree();
    if builders.is_dir() {
        return Some(builders);
    }
    git.main_tree().await.ok().flatten()
}
