//! Git over HTTP for agents on other machines: a clone for each claim, and pushes of a builder's own
//! branch.
//!
//! The credential is derived from the agent's token and the attempt. A request counts while the
//! agent holds exactly that claim, so the credential ends when the claim does. A reviewer sees the
//! base and the commit to judge. A builder sees the base and the branch of its ticket, and can push
//! that branch.

use std::path::{Path, PathBuf};

use engine::git::{BackendRequest, ClaimView, GitProgram, Oid, Repository, remove_tree};
use engine::log::LogErr;
use engine::project::{TicketFiles, mirror_dir};
use engine::session::{self, SessionClaim};
use flow::event::Lease;
use flow::{Task, TicketId};

use super::assignments::branch_of;
use super::identity::{self, AuthError, Identity};
use super::{App, project};
use crate::failure::{ExitKind, Failure};

/// Number of digits in the name of a temporary directory.
const NAME_CHARS: usize = 16;

/// A claim whose holder may use git.
#[derive(Debug)]
pub struct GitClaim {
    pub identity: Identity,
    claim: SessionClaim,
}

/// Parts of the address of a clone.
#[derive(Clone, Debug)]
pub struct GitAddress {
    pub ticket: TicketId,
    pub lease: Lease,
}

/// Answer of git's backend: headers, an empty line and the body, in a file that is removed by its
/// reader.
#[derive(Debug)]
pub struct GitAnswer {
    pub file: PathBuf,
}

impl Drop for GitAnswer {
    fn drop(&mut self) {
        engine::log::removed(&self.file, std::fs::remove_file(&self.file));
    }
}

/// Service of git that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitOperation {
    UploadPack,
    ReceivePack,
}

impl GitOperation {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }
}

/// Details of a request that git's backend needs.
#[derive(Clone, Debug, Default)]
pub struct GitCall {
    /// Value of the header `Git-Protocol`.
    pub protocol: Option<String>,
    pub gzip: bool,
    pub body: Vec<u8>,
}

/// Returns the address of a claim's clone, if the caller came over HTTP.
pub fn clone_url(identity: &Identity, claim: &SessionClaim) -> Option<String> {
    let server = identity.server_url.as_deref()?;
    let (ticket, lease) = (&claim.stored.ticket.id, claim.lease);
    Some(format!(
        "{server}/git/{ticket}/{}/{}",
        lease.serial, lease.fence
    ))
}

/// Authenticates a credential: its token is valid, and the agent holds the claim of the address.
pub async fn authenticate(
    app: &App,
    address: &GitAddress,
    credential: &str,
) -> Result<Result<GitClaim, AuthError>, Failure> {
    let identity = match identity::find_by_credential(app, credential).await? {
        Ok(identity) => identity,
        Err(error) => return Ok(Err(error)),
    };
    Ok(
        match held_claim(app, address, &identity, credential).await? {
            Some(claim) => Ok(GitClaim { identity, claim }),
            None => Err(AuthError::ClaimEnded),
        },
    )
}

/// Returns the claim of the address, if the agent holds it now and the credential is the claim's.
async fn held_claim(
    app: &App,
    address: &GitAddress,
    identity: &Identity,
    credential: &str,
) -> Result<Option<SessionClaim>, Failure> {
    let held = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    let now = app.coordinator.store.now().await?;
    Ok(held.filter(|claim| {
        let is_same = claim.stored.ticket.id == address.ticket && claim.lease == address.lease;
        let expected = identity.claim_credential(&claim.attempt());
        let is_valid =
            expected.is_some_and(|expected| engine::secret::is_equal(&expected, credential));
        is_same && is_valid && claim.until > now
    }))
}

impl GitClaim {
    fn may_push(&self) -> bool {
        matches!(self.claim.task, Task::Build { .. })
    }

    /// Refuses a service that the claim does not allow, before a body is read.
    pub fn require_operation(&self, service: GitOperation) -> Result<(), Failure> {
        if service == GitOperation::UploadPack || self.may_push() {
            return Ok(());
        }
        let kind = self.claim.task.word();
        Err(Failure::new(
            ExitKind::Refused,
            format!("your assignment is a {kind}: you can clone the repository and push nothing"),
        ))
    }

    /// Answers the first request of a clone or a push: the list of refs.
    pub async fn list_refs(
        &self,
        app: &App,
        service: GitOperation,
        call: GitCall,
    ) -> Result<GitAnswer, Failure> {
        let prepared = self.prepare(app).await?;
        let request = BackendRequest {
            method: "GET",
            path: "info/refs",
            query: format!("service={}", service.name()),
            protocol: call.protocol,
            ..BackendRequest::default()
        };
        let view = prepared.shared_view().await?;
        prepared.run_backend(&view, request).await
    }

    /// Answers a fetch.
    pub async fn fetch(&self, app: &App, call: GitCall) -> Result<GitAnswer, Failure> {
        let prepared = self.prepare(app).await?;
        let view = prepared.shared_view().await?;
        prepared
            .run_backend(&view, post(GitOperation::UploadPack, call))
            .await
    }

    /// Answers a push of the ticket's branch. It goes to a view of its own first; the branch of the
    /// repository moves after git and we have checked it.
    pub async fn push(
        &self,
        app: &App,
        address: &GitAddress,
        credential: &str,
        call: GitCall,
    ) -> Result<GitAnswer, Failure> {
        let prepared = self.prepare(app).await?;
        let commands = read_commands(&call.body)?;
        let new = match commands.as_slice() {
            // Git sends an empty request first, to see whether it may push at all.
            [] => None,
            [command] => Some(prepared.check_command(command)?),
            _ => return Err(refused("push one branch at a time".to_owned())),
        };
        let name = random_name()?;
        let view = prepared.views.join(format!("push-{name}"));
        let answered = prepared
            .push_into(&view, new, call, (app, self, address, credential))
            .await;
        for path in [view.with_extension("lock"), view] {
            let removed = remove_tree(&path);
            removed.log_err("remove the view of a push");
        }
        answered
    }

    /// Opens the repository and finds the commits of the view.
    async fn prepare(&self, app: &App) -> Result<PreparedView, Failure> {
        let ticket = &self.claim.stored.ticket;
        let (git, rules) = project::open_ticket_repository(app, ticket).await?;
        let branch = branch_of(ticket);
        let oid = |text: &str| {
            Oid::parse(text).ok_or_else(|| Failure::error(format!("{text:?} is not a commit")))
        };
        let (base, tip, head) = match &self.claim.task {
            Task::Review { commit, .. } | Task::Verify { commit, .. } => {
                let submission = ticket.submission.as_ref();
                let base = oid(submission.map_or("", |submission| &submission.base))?;
                let commit = oid(commit)?;
                (base, Some(commit.clone()), commit)
            }
            Task::Build { .. }
            | Task::Check { .. }
            | Task::Merge { .. }
            | Task::Tell { .. }
            | Task::Report => {
                let base = git.base_tip(&rules.base_branch).await;
                let base = base.map_err(Failure::usage)?;
                let tip = git.branch_tip(&branch).await.map_err(Failure::error)?;
                // A branch that is not there yet begins at the base, so that a clone is on it.
                let head = tip.clone().unwrap_or_else(|| base.clone());
                (base, tip, head)
            }
        };
        let data_dir = &app.environment.data_dir;
        Ok(PreparedView {
            mirror: mirror_dir(data_dir, &git),
            views: TicketFiles::new(data_dir, &ticket.id).views_dir(),
            program: project::git_tool(&app.environment, data_dir)?,
            git,
            base_branch: rules.base_branch,
            branch,
            base,
            tip,
            head,
            with_history: self.may_push(),
        })
    }
}

/// A view that can be created, with its repository.
struct PreparedView {
    git: Repository,
    program: GitProgram,
    mirror: PathBuf,
    /// Directory of the ticket's views.
    views: PathBuf,
    base_branch: String,
    branch: String,
    base: Oid,
    /// Commit of the branch in the repository, if it exists.
    tip: Option<Oid>,
    head: Oid,
    with_history: bool,
}

impl PreparedView {
    /// Creates the view that all requests with the same refs share.
    async fn shared_view(&self) -> Result<PathBuf, Failure> {
        let key = format!("{}:{}:{}", self.base, self.head, self.with_history);
        let name = engine::hash::short_sha256(key.as_bytes());
        let dir = self.views.join(name);
        self.create_view(&dir).await?;
        Ok(dir)
    }

    async fn create_view(&self, dir: &Path) -> Result<(), Failure> {
        let view = ClaimView {
            base_branch: &self.base_branch,
            base: &self.base,
            branch: &self.branch,
            head: &self.head,
            with_history: self.with_history,
        };
        let created = self.git.create_view(&view, &self.mirror, dir).await;
        created.map_err(Failure::error)
    }

    async fn run_backend(
        &self,
        view: &Path,
        request: BackendRequest,
    ) -> Result<GitAnswer, Failure> {
        let name = format!("answer-{}", random_name()?);
        let answer = GitAnswer {
            file: self.views.join(name),
        };
        let ran = self.program.http_backend(view, request, &answer.file).await;
        ran.map_err(Failure::error)?;
        Ok(answer)
    }

    /// Checks a command of a push: it moves the ticket's own branch and does not delete it.
    fn check_command(&self, command: &PushCommand) -> Result<Oid, Failure> {
        let own = format!("refs/heads/{}", self.branch);
        if command.name != own {
            let name = findings::one_line(&command.name);
            return Err(refused(format!(
                "you can push {own} and no other ref, not {name}"
            )));
        }
        // Git names the deletion of a ref by an object of zeros.
        if command.new.as_str().bytes().all(|digit| digit == b'0') {
            return Err(refused(format!("{own} cannot be deleted")));
        }
        Ok(command.new.clone())
    }

    async fn push_into(
        &self,
        view: &Path,
        new: Option<Oid>,
        call: GitCall,
        (app, holder, address, credential): (&App, &GitClaim, &GitAddress, &str),
    ) -> Result<GitAnswer, Failure> {
        self.create_view(view).await?;
        let answer = self
            .run_backend(view, post(GitOperation::ReceivePack, call))
            .await?;
        let Some(new) = new else {
            return Ok(answer);
        };
        let name = format!("refs/heads/{}", self.branch);
        let pushed = self.program.repository_at(view).read_ref(&name).await;
        // Git itself refused it, and its answer says why.
        if pushed.map_err(Failure::error)?.as_ref() != Some(&new) {
            return Ok(answer);
        }
        // The upload may have taken longer than the lease.
        let held = held_claim(app, address, &holder.identity, credential).await?;
        if held.is_none() {
            return Err(refused(
                "your claim ended before the push was complete".to_owned(),
            ));
        }
        let accepted = self
            .git
            .accept_push(view, (&self.branch, &new), (&self.base, self.tip.as_ref()))
            .await
            .map_err(|error| Failure::new(ExitKind::Refused, error))?;
        if accepted {
            Ok(answer)
        } else {
            Err(refused(format!(
                "{} has moved meanwhile, or would lose commits; fetch it and push again",
                self.branch
            )))
        }
    }
}

fn post(service: GitOperation, call: GitCall) -> BackendRequest {
    BackendRequest {
        method: "POST",
        path: service.name(),
        query: String::new(),
        content_type: format!("application/x-{}-request", service.name()),
        gzip: call.gzip,
        protocol: call.protocol,
        body: call.body,
    }
}

fn refused(why: String) -> Failure {
    Failure::new(ExitKind::Refused, why)
}

fn random_name() -> Result<String, Failure> {
    let secret = engine::secret::new_secret().map_err(|error| {
        Failure::error(format!("cannot make a name, no random numbers: {error}"))
    })?;
    Ok(secret.hash.chars().take(NAME_CHARS).collect())
}

/// One command of a push.
#[derive(Debug, PartialEq, Eq)]
struct PushCommand {
    new: Oid,
    name: String,
}

/// Reads the commands at the beginning of a push, up to the pack. Anything but plain commands is
/// refused: signed pushes and shallow histories are not served.
fn read_commands(body: &[u8]) -> Result<Vec<PushCommand>, Failure> {
    let bad = || Failure::usage("the request is not a push that git makes");
    let mut commands = Vec::new();
    let mut rest = body;
    loop {
        let (length, after) = rest.split_at_checked(4).ok_or_else(bad)?;
        let length = std::str::from_utf8(length).map_err(|_| bad())?;
        let length = usize::from_str_radix(length, 16).map_err(|_| bad())?;
        // A flush ends the commands.
        if length == 0 {
            return Ok(commands);
        }
        let length = length.checked_sub(4).ok_or_else(bad)?;
        let (line, after) = after.split_at_checked(length).ok_or_else(bad)?;
        rest = after;
        // The first line carries the client's capabilities after a NUL.
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| bad())?;
        let mut words = line.trim_end_matches('\n').splitn(3, ' ');
        let (old, new, name) = (words.next(), words.next(), words.next());
        old.and_then(Oid::parse).ok_or_else(bad)?;
        commands.push(PushCommand {
            new: new.and_then(Oid::parse).ok_or_else(bad)?,
            name: name.ok_or_else(bad)?.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str) -> String {
        format!("{:04x}{text}", text.len() + 4)
    }

    #[test]
    fn the_commands_of_a_push_are_read_up_to_the_pack() {
        let (old, new) = ("0".repeat(40), "1".repeat(40));
        let first = packet(&format!("{old} {new} refs/heads/a\0 report-status"));
        let second = packet(&format!("{new} {old} refs/heads/b\n"));
        let body = format!("{first}{second}0000PACK…");
        let commands = read_commands(body.as_bytes()).unwrap();
        let names: Vec<&str> = commands.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["refs/heads/a", "refs/heads/b"]);
        assert_eq!(commands[0].new.as_str(), new);
        assert_eq!(read_commands(b"0000").unwrap(), []);
    }

    #[test]
    fn everything_else_is_refused() {
        let (old, new) = ("0".repeat(40), "1".repeat(40));
        for body in [
            String::new(),
            "zzzz".to_owned(),
            "0001".to_owned(),
            "ffff".to_owned(),
            packet("push-cert\0 x"),
            packet(&format!("shallow {new}")),
            packet(&format!("{old} {new}")),
            packet(&format!("{old} HEAD refs/heads/a")),
            packet(&format!("{old} {new} refs/heads/a")),
        ] {
            assert!(read_commands(body.as_bytes()).is_err(), "{body}");
        }
    }
}
