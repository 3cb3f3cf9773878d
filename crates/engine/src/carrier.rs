//! The carrier between a worker's repository and the one that all workers share: brings what a ticket's
//! work rests on, and puts there what came of it. Everything is named by its own hash, below
//! `refs/countersign/<ticket>/commits/`; the ticket's branch goes along where that takes nothing
//! away, and a base branch only where the worker is told to land there.

use flow::{Ticket, What};

use crate::desk::{Desk, Error as DeskError};
use crate::git::{Error, Oid, Remote, Repository};
use crate::perform;

#[derive(Clone, Debug)]
pub struct Carrier {
    pub remote: Remote,
    /// What landed is put on the remote's base branch.
    pub lands: bool,
    /// The repository is the worker's own copy, in which the remote's word counts.
    pub is_copy: bool,
}

impl Carrier {
    /// Sees that all is here that the ticket's next job rests on.
    pub async fn bring(
        &self,
        desk: &Desk,
        git: &Repository,
        ticket: &Ticket,
    ) -> Result<(), DeskError> {
        let unusable = |error: Error| DeskError::Unusable(error.to_string());
        for id in &ticket.spec.depends_on {
            let below = desk.ticket(id).await?.ticket;
            if below.landed.is_none() {
                self.bring_submission(git, &below).await.map_err(unusable)?;
            }
        }
        self.bring_submission(git, ticket).await.map_err(unusable)?;
        if self.is_copy {
            self.settle_branch(git, ticket).await.map_err(unusable)?;
        }
        Ok(())
    }

    async fn bring_submission(&self, git: &Repository, ticket: &Ticket) -> Result<(), Error> {
        let Some(commit) = put_forward(ticket) else {
            return Ok(());
        };
        if git.has_commit(&commit).await? {
            return Ok(());
        }
        let name = name_of(ticket, &commit);
        git.fetch_commit(&self.remote, &name, &commit).await
    }

    /// The ticket's branch in our copy is where the ticket says, or where somebody has gone on from
    /// there; whatever an earlier round of ours left there is history.
    async fn settle_branch(&self, git: &Repository, ticket: &Ticket) -> Result<(), Error> {
        let Some(commit) = put_forward(ticket) else {
            return Ok(());
        };
        let branch = perform::branch(ticket);
        let name = format!("refs/heads/{branch}");
        let theirs = git.remote_branch(&self.remote, &branch).await?;
        let mut head = commit.clone();
        if let Some(theirs) = theirs.filter(|theirs| *theirs != commit) {
            let ours = format!("refs/countersign/{}/theirs", ticket.id);
            let fetched = git.fetch_branch(&self.remote, &branch, &ours).await?;
            if fetched == theirs && git.is_ancestor(&commit, &theirs).await? {
                head = theirs;
            }
        }
        let now = git.read_ref(&name).await?;
        git.keep_ref(&name, &head, now.as_ref()).await?;
        Ok(())
    }

    /// Puts what came of a job where others find it.
    pub async fn send(&self, git: &Repository, ticket: &Ticket, what: &What) -> Result<(), Error> {
        let What::Submitted { submission, .. } = what else {
            return Ok(());
        };
        let Some(commit) = Oid::parse(&submission.commit) else {
            return Ok(());
        };
        let name = name_of(ticket, &commit);
        if !git.push(&self.remote, &commit, &name).await? {
            return Err(Error::Failed {
                verb: "push".to_owned(),
                dir: git.common_dir().to_owned(),
                detail: format!("the remote did not take {name}"),
            });
        }
        // An amended commit would have to be forced; it is found by its name.
        let branch = format!("refs/heads/{}", submission.branch);
        git.push(&self.remote, &commit, &branch).await?;
        Ok(())
    }

    /// Puts what is to land on the remote's base branch; false where that has moved.
    pub async fn land(&self, git: &Repository, branch: &str, tip: &Oid) -> Result<bool, Error> {
        let name = format!("refs/heads/{branch}");
        if git.push(&self.remote, tip, &name).await? {
            return Ok(true);
        }
        if self.is_copy {
            let ours = git.read_ref(&name).await?;
            let theirs = git
                .fetch_branch(&self.remote, branch, "refs/countersign/base")
                .await?;
            git.keep_ref(&name, &theirs, ours.as_ref()).await?;
        }
        Ok(false)
    }
}

fn put_forward(ticket: &Ticket) -> Option<Oid> {
    let put = ticket.submission.as_ref()?;
    Oid::parse(&put.commit)
}

fn name_of(ticket: &Ticket, commit: &Oid) -> String {
    format!("refs/countersign/{}/commits/{commit}", ticket.id)
}
