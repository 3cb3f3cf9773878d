//! The tools with which agents read and write pull requests and issues. Everything goes through the
//! server's own connections: the token of a forge reaches no agent, and an agent reaches no other
//! repository. Texts of agents are neutralised, so that they mention nobody and give no command.

mod arguments;

use engine::git::{DiffContext, Oid};
use engine::session;
use flow::Role;
use flow::ticket::ChangePhase;
use forge::neutral::{neutralise, neutralise_line_of};
use forge::{
    ChangeDraft, ChangeKey, ChangeState, CommentDraft, CommentTopic, Forge, ForgeChange, IssueGoal,
    IssueLink,
};
use serde_json::json;

use super::App;
use super::connections::{LinkedForge, connect_link, load_links};
use super::forge_connection::forge_failure;
use super::identity::Identity;
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;
use crate::settings::connections::ForgeLink;
pub use arguments::{
    AddIssueComment, AddPullRequestComment, CommentReply, CreatePullRequest, FoundPullRequest,
    GetPullRequest, GetPullRequestByBranch, PullRequestReply, TransitionIssue, TransitionReply,
};

const TITLE_CHARS_MAX: usize = 200;
/// The smallest limit of the forges is 65,536, and the line with the author is added.
const BODY_CHARS_MAX: usize = 60_000;
/// Maximum length of the diff that an agent gets; `get_diff` has all of it, in pages.
const DIFF_BYTES_MAX: usize = 200_000;

/// Tools for pull requests, and for issues of a tracker.
pub const CHANGE_TOOLS: [&str; 4] = [
    "github_create_pr",
    "github_get_pr",
    "github_get_pr_by_branch",
    "github_add_pr_comment",
];
pub const ISSUE_TOOLS: [&str; 2] = ["jira_add_comment", "jira_transition_issue"];

/// Kinds of connections that are configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredTools {
    pub changes: bool,
    pub issues: bool,
}

impl ConfiguredTools {
    /// Reads the configuration. One that cannot be read has no connection.
    pub fn load(environment: &Environment) -> Self {
        let Ok(settings) = super::config::load_user_settings(environment) else {
            return Self::default();
        };
        let is_tracker = |section: &crate::settings::connections::ConnectionSection| {
            section.forge == Some(crate::settings::connections::ConnectionKind::Jira)
        };
        Self {
            // Tools that cannot work are not offered: an agent would try them.
            changes: settings.connections.iter().any(|one| !is_tracker(one)),
            issues: settings.connections.iter().any(is_tracker),
        }
    }

    /// Returns whether a tool can work here. Tools without a forge always can.
    pub fn has(self, tool: &str) -> bool {
        match tool {
            _ if CHANGE_TOOLS.contains(&tool) => self.changes,
            _ if ISSUE_TOOLS.contains(&tool) => self.issues,
            _ => true,
        }
    }
}

/// Place in which a caller works: the repository and branch of its ticket, if it has one.
#[derive(Debug, Default)]
struct CallerPlace {
    repository: Option<String>,
    branch: Option<String>,
    base: Option<String>,
    /// Pull request that Countersign keeps for the ticket.
    change: Option<u64>,
}

/// Creates the pull request of a branch, or updates it. The branch is pushed by the server.
pub async fn create_pull_request(
    app: &App,
    identity: &Identity,
    request: CreatePullRequest,
) -> Result<PullRequestReply, Failure> {
    let place = caller_place(app, identity).await?;
    let client = change_client(app, &place, request.repo.as_deref()).await?;
    let forge = change_forge(&client)?;
    let base = match request.base.or_else(|| place.base.clone()) {
        Some(base) => base,
        None => client.git.default_base().await.map_err(Failure::usage)?,
    };
    let head = head_branch(&place, request.head)?;
    // A pull request of a branch into itself is refused by forges in words that help nobody.
    if head == base {
        return Err(refusal(format!(
            "{head} is the base branch; name the branch with your work"
        )));
    }
    // Asked before anything is written: an agent reaches the issues of its own repository only.
    let issue = match &request.jira_key {
        Some(key) => linked_issue_client(app, identity, key).await?,
        None => None,
    };
    // Countersign keeps the pull request of a ticket itself, with its own title, text and state.
    if let Some(number) = place.change {
        let own = forge.find_change(&ChangeKey::Number(number)).await;
        if let Some(own) = own.map_err(forge_failure)? {
            link_issue(issue.as_ref(), request.jira_key.as_deref(), &own).await?;
            return Ok(reply(&own, None));
        }
    }
    // Pushed first: a forge knows no pull request of a branch that it does not have.
    push_branch(&client, &head, &base).await?;
    let draft = ChangeDraft {
        head_branch: head,
        base_branch: base,
        // An agent's words must not mention people or close issues.
        title: neutralise_line_of(&findings::shorten(&request.title, TITLE_CHARS_MAX)),
        body: text_of(identity, &request.body),
        draft: request.draft,
    };
    let change = forge.ensure_change(&draft).await.map_err(forge_failure)?;
    link_issue(issue.as_ref(), request.jira_key.as_deref(), &change).await?;
    note(
        app,
        identity,
        "pull_request_created",
        &format!("pull request {}", change.number),
    )
    .await;
    Ok(reply(&change, None))
}

/// Reads a pull request with its diff.
pub async fn get_pull_request(
    app: &App,
    identity: &Identity,
    request: GetPullRequest,
) -> Result<PullRequestReply, Failure> {
    let place = caller_place(app, identity).await?;
    let client = change_client(app, &place, request.repo.as_deref()).await?;
    let key = ChangeKey::Number(request.pr_number);
    match find(&client, &key).await? {
        Some(found) => Ok(found),
        None => Err(Failure::not_found(format!(
            "there is no pull request {}",
            request.pr_number
        ))),
    }
}

/// Finds the open pull request of a branch.
pub async fn get_pull_request_by_branch(
    app: &App,
    identity: &Identity,
    request: GetPullRequestByBranch,
) -> Result<FoundPullRequest, Failure> {
    let place = caller_place(app, identity).await?;
    let client = change_client(app, &place, request.repo.as_deref()).await?;
    let key = ChangeKey::Branch(request.branch);
    let pull_request = find(&client, &key).await?;
    Ok(FoundPullRequest { pull_request })
}

/// Comments on a pull request. The same text of the same agent is written once.
pub async fn comment_on_pull_request(
    app: &App,
    identity: &Identity,
    request: AddPullRequestComment,
) -> Result<CommentReply, Failure> {
    let place = caller_place(app, identity).await?;
    let client = change_client(app, &place, request.repo.as_deref()).await?;
    let number = request.pr_number;
    let key = ChangeKey::Number(number);
    let found = change_forge(&client)?.find_change(&key).await;
    // Asked first, because a comment on a number that is an issue would be written there.
    if found.map_err(forge_failure)?.is_none() {
        return Err(Failure::not_found(format!(
            "there is no pull request {number}"
        )));
    }
    let written = write_comment(identity, &client, &number.to_string(), &request.body).await?;
    note(
        app,
        identity,
        "pull_request_commented",
        &format!("pull request {number}"),
    )
    .await;
    Ok(written)
}

/// Comments on an issue of a tracker.
pub async fn comment_on_issue(
    app: &App,
    identity: &Identity,
    request: AddIssueComment,
) -> Result<CommentReply, Failure> {
    let client = issue_client(app, identity, &request.jira_key).await?;
    let written = write_comment(identity, &client, &request.jira_key, &request.comment).await?;
    note(
        app,
        identity,
        "issue_commented",
        &format!("issue {}", request.jira_key),
    )
    .await;
    Ok(written)
}

/// Moves an issue of a tracker to a status, by the status's name and never by a transition's id.
pub async fn transition_issue(
    app: &App,
    identity: &Identity,
    request: TransitionIssue,
) -> Result<TransitionReply, Failure> {
    let client = issue_client(app, identity, &request.jira_key).await?;
    // Agents use our words for the states of a ticket; the project has its own.
    let status = client.link.section.statuses.resolve(&request.status);
    let goal = IssueGoal::Status(status.clone());
    let moved = client
        .tracker()
        .ensure_issue_state(&request.jira_key, &goal);
    moved.await.map_err(forge_failure)?;
    note(
        app,
        identity,
        "issue_moved",
        &format!("issue {} to {status}", request.jira_key),
    )
    .await;
    Ok(TransitionReply {
        key: request.jira_key,
        status,
    })
}

fn refusal(why: impl std::fmt::Display) -> Failure {
    Failure::new(ExitKind::Refused, why)
}

fn is_agent(identity: &Identity) -> bool {
    matches!(
        identity.actor.role,
        Role::Builder | Role::Reviewer | Role::Verifier
    )
}

async fn caller_place(app: &App, identity: &Identity) -> Result<CallerPlace, Failure> {
    let claim = session::current_claim(&app.coordinator, &identity.agent_session()).await?;
    let ticket = match (claim, &identity.ticket) {
        (Some(claim), _) => Some(claim.stored),
        // A token for one ticket works on it, also without a claim.
        (None, Some(only)) => Some(app.ticket(only.as_str()).await?),
        (None, None) => None,
    };
    Ok(match ticket {
        Some(stored) => {
            let ticket = stored.ticket;
            let context = ticket.spec.context;
            let open = ticket.change.filter(|one| one.phase == ChangePhase::Open);
            CallerPlace {
                change: open.map(|change| change.number),
                branch: Some(
                    context
                        .branch
                        .unwrap_or_else(|| format!("countersign/{}", ticket.id)),
                ),
                repository: context.repository,
                base: context.base_branch,
            }
        }
        None => CallerPlace::default(),
    })
}

/// Finds the connection of a call: the one of the caller's repository, the named one, or the only
/// one. An agent that works on a ticket reaches the ticket's repository and no other.
async fn change_client(
    app: &App,
    place: &CallerPlace,
    named: Option<&str>,
) -> Result<LinkedForge, Failure> {
    let links = load_links(&app.environment)?;
    let mut links: Vec<ForgeLink> = links
        .into_iter()
        .filter(|link| !link.is_tracker())
        .collect();
    if let Some(named) = named {
        links.retain(|link| link.is_for(named) || link.name() == named);
    }
    // The name alone does not decide, because a name in an agent's call is the agent's word.
    if let Some(repository) = &place.repository {
        for link in &links {
            let client = connect_link(app, link).await?;
            if client.git.common_dir().to_string_lossy() == *repository {
                return Ok(client);
            }
        }
        return Err(
            refusal("the repository of your ticket has no connection to a forge")
                .hint("a person adds it: [[connection]] in the server's configuration"),
        );
    }
    match links.as_slice() {
        [link] => connect_link(app, link).await,
        [] => Err(refusal(
            "no connection of this server is for that repository",
        )),
        links => {
            // Several and none named: a guess could write into the wrong repository.
            let names: Vec<&str> = links
                .iter()
                .map(|link| link.section.repository.as_str())
                .collect();
            Err(Failure::usage("name the repository: repo")
                .hint(format!("it is one of {}", names.join(", "))))
        }
    }
}

async fn issue_client(app: &App, identity: &Identity, key: &str) -> Result<LinkedForge, Failure> {
    let place = caller_place(app, identity).await?;
    let project = key.rsplit_once('-').map_or("", |(project, _)| project);
    let links = load_links(&app.environment)?;
    let mut trackers = links.iter().filter(|link| link.is_tracker());
    let Some(link) = trackers.find(|link| link.is_for(project)) else {
        return Err(refusal(format!(
            "no connection of this server is for the project of {}",
            findings::one_line(key)
        )));
    };
    let client = connect_link(app, link).await?;
    if let Some(repository) = &place.repository
        // People and programs may write to any issue of a connection.
        && is_agent(identity)
        && client.git.common_dir().to_string_lossy() != *repository
    {
        return Err(refusal(
            "this issue belongs to another repository than your ticket",
        ));
    }
    Ok(client)
}

fn change_forge(client: &LinkedForge) -> Result<&dyn Forge, Failure> {
    client
        .forge()
        .ok_or_else(|| refusal(format!("{} has no pull requests", client.name())))
}

fn head_branch(place: &CallerPlace, named: Option<String>) -> Result<String, Failure> {
    match (&place.branch, named) {
        // Another branch may be another ticket's, under review at this moment.
        (Some(own), Some(named)) if *own != named => Err(refusal(format!(
            "your ticket's branch is {own}; a pull request of another branch is not yours to make"
        ))),
        (Some(own), _) => Ok(own.clone()),
        (None, Some(named)) => Ok(named),
        (None, None) => Err(Failure::usage("name the branch with the change: head")),
    }
}

/// Pushes a branch to the forge. Nothing there is overwritten.
async fn push_branch(client: &LinkedForge, head: &str, base: &str) -> Result<(), Failure> {
    let git = &client.git;
    let unknown = || Failure::not_found(format!("the server's repository has no branch {head}"));
    let tip = git.branch_tip(head).await.map_err(Failure::usage)?;
    let remote = client.git_remote().await?;
    let there = git
        .remote_branch(&remote, head)
        .await
        .map_err(Failure::error)?;
    let Some(tip) = tip else {
        // It may have been pushed by hand.
        return if there.is_some() {
            Ok(())
        } else {
            Err(unknown())
        };
    };
    // Nothing to push: the call is repeated, or a ticket with land = "pr" has pushed it.
    if there.as_ref() == Some(&tip) {
        return Ok(());
    }
    // Forges refuse an empty pull request, but only after the branch is pushed.
    require_change(client, &tip, base).await?;
    let pushed = git.push(&remote, &tip, &format!("refs/heads/{head}")).await;
    if !pushed.map_err(Failure::error)? {
        return Err(refusal(format!(
            "the forge has commits on {head} that the server does not have; nothing was pushed"
        )));
    }
    Ok(())
}

async fn require_change(client: &LinkedForge, tip: &Oid, base: &str) -> Result<(), Failure> {
    let base_tip = client.git.base_tip(base).await.map_err(Failure::usage)?;
    if base_tip == *tip {
        return Err(refusal(format!(
            "the branch has no commit that {base} does not have"
        )));
    }
    Ok(())
}

async fn find(client: &LinkedForge, key: &ChangeKey) -> Result<Option<PullRequestReply>, Failure> {
    let found = change_forge(client)?.find_change(key).await;
    let Some(change) = found.map_err(forge_failure)? else {
        return Ok(None);
    };
    let diff = diff_of(client, &change).await;
    Ok(Some(reply(&change, diff)))
}

/// Makes the diff from the server's own repository. Forges cut theirs.
async fn diff_of(client: &LinkedForge, change: &ForgeChange) -> Option<String> {
    let git = &client.git;
    let head = Oid::parse(&change.head_commit)?;
    if !git.has_commit(&head).await.ok()? {
        let remote = client.git_remote().await.ok()?;
        let name = client
            .connected
            .forge
            .capabilities()
            .head_ref(change.number);
        git.fetch_objects(&remote, &[name]).await.ok()?;
    }
    let base = git.base_tip(&change.base_branch).await.ok()?;
    // What the branch has changed, and not what the base has changed since.
    let base = git.merge_base(&base, &head).await.ok()?;
    let diff = git.diff(&base, &head, DiffContext::Usual).await.ok()?;
    Some(findings::clean(&findings::shorten(
        &diff.text,
        DIFF_BYTES_MAX,
    )))
}

fn reply(change: &ForgeChange, diff: Option<String>) -> PullRequestReply {
    let state = match change.state {
        ChangeState::Open => "open",
        ChangeState::Closed => "closed",
        ChangeState::Merged => "merged",
    };
    PullRequestReply {
        number: change.number,
        title: findings::one_line(&change.title),
        body: findings::clean(&findings::shorten(&change.body, BODY_CHARS_MAX)),
        state,
        author: findings::one_line(&change.author),
        head_branch: findings::one_line(&change.head_branch),
        head_sha: change.head_commit.clone(),
        base_branch: findings::one_line(&change.base_branch),
        draft: change.draft,
        labels: change
            .labels
            .iter()
            .map(|label| findings::one_line(label))
            .collect(),
        html_url: change.url.clone(),
        diff,
    }
}

/// Makes the text of an agent harmless, and says whose it is.
fn text_of(identity: &Identity, text: &str) -> String {
    let text = neutralise(&findings::shorten(text, BODY_CHARS_MAX));
    let by = neutralise_line_of(&identity.actor.agent);
    format!("{text}\n\n_Written by {by}, through Countersign._")
}

async fn write_comment(
    identity: &Identity,
    client: &LinkedForge,
    on: &str,
    text: &str,
) -> Result<CommentReply, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::usage("the comment is empty"));
    }
    // The text is the topic, so that a repeated call writes nothing twice.
    let words = format!("{} {text}", identity.actor.agent);
    let topic = format!("agent/{}", engine::hash::short_sha256(words.as_bytes()));
    let draft = CommentDraft {
        on: on.to_owned(),
        topic: CommentTopic(topic),
        body: text_of(identity, text),
    };
    let written = client.tracker().ensure_comment(&draft).await;
    let written = written.map_err(forge_failure)?;
    Ok(CommentReply {
        id: written.id,
        message: format!("commented on {}", findings::one_line(on)),
    })
}

/// Returns the connection of an issue, if there is one for its project.
async fn linked_issue_client(
    app: &App,
    identity: &Identity,
    key: &str,
) -> Result<Option<LinkedForge>, Failure> {
    let project = key.rsplit_once('-').map_or("", |(project, _)| project);
    let links = load_links(&app.environment)?;
    let mut trackers = links.iter().filter(|link| link.is_tracker());
    if !trackers.any(|link| link.is_for(project)) {
        return Ok(None);
    }
    issue_client(app, identity, key).await.map(Some)
}

/// Links a pull request in the issue that it belongs to.
async fn link_issue(
    client: Option<&LinkedForge>,
    key: Option<&str>,
    change: &ForgeChange,
) -> Result<(), Failure> {
    let (Some(client), Some(key)) = (client, key) else {
        return Ok(());
    };
    let goal = IssueGoal::Linked(IssueLink {
        id: format!("countersign-{}", change.url),
        url: change.url.clone(),
        title: format!("Pull request {}", change.number),
    });
    let linked = client.tracker().ensure_issue_state(key, &goal).await;
    linked.map_err(forge_failure)?;
    let draft = CommentDraft {
        on: key.to_owned(),
        topic: CommentTopic(format!("pull-request/{}", change.number)),
        body: format!("Pull request created: {}", change.url),
    };
    let written = client.tracker().ensure_comment(&draft).await;
    written.map_err(forge_failure)?;
    Ok(())
}

async fn note(app: &App, identity: &Identity, name: &str, what: &str) {
    use engine::log::LogErr;
    let agent = &identity.actor.agent;
    let why = format!("{agent}: {} ({what})", name.replace('_', " "));
    let noted = app
        .acting_as(identity.actor.clone())
        .note(name, json!({"agent": agent, "why": why}))
        .await;
    noted.log_err("record the call of a forge tool");
}
