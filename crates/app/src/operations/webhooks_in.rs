//! Receives webhooks of forges and trackers: proves each, remembers its delivery, and queues a look
//! at the place that it names. Nothing else of a webhook is believed; webhooks come twice, late and
//! out of order, and the state is read from the forge.

pub mod payload;

use forge::address::ForgeKind;
pub use forge::webhook::WEBHOOK_BYTES_MAX;
use forge::webhook::{WebhookRefusal, verify_webhook};
use serde::Deserialize;
use serde_json::Value;

use super::forge_work::{ForgeJob, ForgeSubject, ForgeTask, queue_once};
use super::identity::Identity;
use super::tasks::{self, TaskRequest};
use super::{App, connection_status};
use crate::failure::Failure;
use crate::settings::connections::ForgeLink;
use engine::coordinator::Once;
use flow::{Policy, Role, Ticket};

/// A webhook as it arrived.
#[derive(Clone, Copy)]
pub struct ArrivedWebhook<'a> {
    /// Word of the address: `github`, `gitlab`, `forgejo`, `gitea`, `jira`.
    pub forge: &'a str,
    pub header: &'a (dyn Fn(&str) -> Option<&'a str> + Send + Sync),
    pub body: &'a [u8],
}

impl std::fmt::Debug for ArrivedWebhook<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "webhook of {}, {} bytes", self.forge, self.body.len())
    }
}

/// Outcome for a webhook that is genuine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookOutcome {
    Queued,
    /// The delivery is known.
    Repeated,
    /// The webhook is about nothing that matters here.
    Ignored,
}

impl WebhookOutcome {
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Repeated => "repeated",
            Self::Ignored => "ignored",
        }
    }
}

/// Reason why a webhook is not accepted. The answer to the sender says less.
#[derive(Debug)]
pub enum WebhookRejection {
    /// There is no listener for this forge, or none for this repository.
    NotHere,
    TooLarge,
    /// Signature, secret or time is missing or wrong.
    Unproven(WebhookRefusal),
    /// The webhook is genuine and no JSON.
    Unreadable,
    /// The token is of a role that sends no webhooks.
    NotPermitted(Failure),
    Failed(Failure),
}

impl From<Failure> for WebhookRejection {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Accepts a webhook.
pub async fn receive(
    app: &App,
    links: &[ForgeLink],
    webhook: ArrivedWebhook<'_>,
) -> Result<WebhookOutcome, WebhookRejection> {
    let kind = ForgeKind::parse(webhook.forge).ok_or(WebhookRejection::NotHere)?;
    if webhook.body.len() > WEBHOOK_BYTES_MAX {
        return Err(WebhookRejection::TooLarge);
    }
    let proven = match prove(app, links, kind, webhook) {
        Err(WebhookRejection::Unproven(refusal)) => {
            let wanted = links.iter().filter(|link| link.kind.kind() == kind);
            let wanted: Vec<&str> = wanted
                .filter(|link| link.secrets.is_some())
                .map(ForgeLink::name)
                .collect();
            connection_status::note_refusal(app, &wanted, &refusal.to_string()).await;
            return Err(WebhookRejection::Unproven(refusal));
        }
        proven => proven?,
    };
    let json: Value =
        serde_json::from_slice(webhook.body).map_err(|_| WebhookRejection::Unreadable)?;
    let event = (webhook.header)(payload::event_header(kind)).unwrap_or_default();
    let Some(news) = payload::read_news(kind, event, &json) else {
        // The first webhook of a forge says only that it is connected.
        if let [(link, _)] = proven.as_slice() {
            connection_status::note_webhook(app, link.name(), event).await;
        }
        return Ok(WebhookOutcome::Ignored);
    };
    // A secret may be shared by several connections, and a good signature for one repository is
    // none for another.
    let link = proven
        .iter()
        .find(|(link, _)| link.is_for(&news.repository));
    let (link, delivery) = link.ok_or(WebhookRejection::NotHere)?;
    connection_status::note_webhook(app, link.name(), event).await;
    let Some(subject) = news.subject else {
        return Ok(WebhookOutcome::Ignored);
    };
    let delivery = delivery
        .clone()
        .unwrap_or_else(|| engine::hash::short_sha256(webhook.body));
    queue_look(app, link.name(), &delivery, subject).await
}

/// Returns the connections whose secret proves the webhook, with the id of the delivery.
fn prove<'a>(
    app: &App,
    links: &'a [ForgeLink],
    kind: ForgeKind,
    webhook: ArrivedWebhook<'_>,
) -> Result<Vec<(&'a ForgeLink, Option<String>)>, WebhookRejection> {
    let now = app.now().0 / 1000;
    let mut refused = None;
    let mut proven = Vec::new();
    for link in links.iter().filter(|link| link.kind.kind() == kind) {
        let Some(secrets) = &link.secrets else {
            continue;
        };
        match verify_webhook(kind, webhook.header, webhook.body, secrets, now) {
            Ok(delivery) => proven.push((link, delivery)),
            Err(refusal) => refused = Some(refusal),
        }
    }
    match refused {
        _ if !proven.is_empty() => Ok(proven),
        Some(refusal) => Err(WebhookRejection::Unproven(refusal)),
        None => Err(WebhookRejection::NotHere),
    }
}

async fn queue_look(
    app: &App,
    connection: &str,
    delivery: &str,
    subject: ForgeSubject,
) -> Result<WebhookOutcome, WebhookRejection> {
    let job = ForgeJob::new(connection, ForgeTask::Look(subject));
    let is_new = queue_once(app, &format!("delivery/{delivery}"), &job).await?;
    Ok(if is_new {
        WebhookOutcome::Queued
    } else {
        WebhookOutcome::Repeated
    })
}

/// A webhook of any program, such as a rule of Jira's automation. The caller's token is its proof.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenericWebhook {
    /// Name of a connection, or the repository or project of one.
    #[serde(alias = "repository", alias = "project", alias = "github_repo")]
    pub connection: Option<String>,
    #[serde(alias = "pr_number", alias = "change")]
    pub pr: Option<GenericNumber>,
    #[serde(alias = "jira_key", alias = "key")]
    pub issue: Option<String>,
    /// Queues a task for this agent instead of looking.
    #[serde(alias = "agent")]
    pub agent_id: Option<String>,
    pub title: Option<String>,
    /// Status that the issue has now; it is for people who read the task.
    pub status: Option<String>,
}

/// A number that may come as text, as templates write it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum GenericNumber {
    Number(u64),
    Text(String),
}

impl GenericNumber {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().trim_start_matches('#').parse().ok(),
        }
    }
}

/// Answer to a generic webhook.
#[derive(Debug)]
pub enum GenericOutcome {
    Looked(WebhookOutcome),
    Queued(tasks::QueuedTask),
}

/// Accepts a webhook of a program with a token.
pub async fn receive_generic(
    app: &App,
    links: &[ForgeLink],
    identity: &Identity,
    (delivery, webhook): (Option<&str>, GenericWebhook),
) -> Result<GenericOutcome, WebhookRejection> {
    if !matches!(identity.actor.role, Role::Service | Role::Admin) {
        let role = identity.actor.role.as_str();
        let failure = Failure::new(
            crate::failure::ExitKind::Refused,
            format!("a webhook needs a token of the role service, and this one has {role}"),
        )
        .hint("countersign token create --agent jira --role service");
        return Err(WebhookRejection::NotPermitted(failure));
    }
    let number = match &webhook.pr {
        Some(number) => Some(number.number().ok_or(WebhookRejection::Unreadable)?),
        None => None,
    };
    if webhook.agent_id.is_some() {
        let mut app = app.acting_as(identity.actor.clone());
        // A sender that repeats itself gets the task of its first call.
        app.call.once = delivery.map(|delivery| Once {
            key: format!("generic/{}/{delivery}", identity.actor.agent),
            payload_hash: engine::hash::short_sha256(format!("{webhook:?}").as_bytes()),
            answer: |ticket: &Ticket, _: &Policy| Value::from(ticket.id.as_str()),
        });
        let request = task_request(&webhook, number);
        let queued = Box::pin(tasks::queue_task(&app, identity, request)).await?;
        return Ok(GenericOutcome::Queued(queued));
    }
    let subject = match (number, webhook.issue) {
        (Some(number), _) => ForgeSubject::Change(number),
        (None, Some(key)) => ForgeSubject::Issue(findings::one_line(&key)),
        (None, None) => ForgeSubject::Repository,
    };
    let project = match &subject {
        ForgeSubject::Issue(key) => key.rsplit_once('-').map(|(project, _)| project.to_owned()),
        ForgeSubject::Change(_) | ForgeSubject::Branch(_) | ForgeSubject::Repository => None,
    };
    let wanted = webhook.connection.or(project).unwrap_or_default();
    let link = links
        .iter()
        .find(|link| link.name() == wanted || link.is_for(&wanted))
        .ok_or(WebhookRejection::NotHere)?;
    connection_status::note_webhook(app, link.name(), "generic").await;
    let subject = match subject {
        ForgeSubject::Issue(key) => ForgeSubject::Issue(link.issue_key(&key)),
        other => other,
    };
    let delivery = if let Some(delivery) = delivery {
        let delivery = findings::shorten(delivery, 200);
        format!("{}/{delivery}", identity.actor.agent)
    } else {
        // Without a key each call is news of its own: the same rule may fire twice for an issue.
        let salt = engine::secret::generate().map_err(Failure::error)?;
        engine::hash::short_sha256(salt.as_bytes())
    };
    let looked = queue_look(app, link.name(), &format!("generic/{delivery}"), subject).await?;
    Ok(GenericOutcome::Looked(looked))
}

fn task_request(webhook: &GenericWebhook, number: Option<u64>) -> TaskRequest {
    let mut context = serde_json::Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            context.insert(name.to_owned(), value);
        }
    };
    add("pr_number", number.map(Value::from));
    add("jira_key", webhook.issue.clone().map(Value::from));
    let repository = webhook
        .connection
        .as_ref()
        .filter(|name| name.contains('/'));
    add("github_repo", repository.cloned().map(Value::from));
    add("jira_status", webhook.status.clone().map(Value::from));
    let subject = match (&webhook.issue, number) {
        (Some(key), _) => format!("Review {key}"),
        (None, Some(number)) => format!("Review PR #{number}"),
        (None, None) => "Review".to_owned(),
    };
    TaskRequest {
        agent_id: webhook.agent_id.clone().unwrap_or_default(),
        task_type: "review".to_owned(),
        title: webhook.title.clone().unwrap_or_else(|| subject.clone()),
        description: format!("{subject}."),
        context,
        ..TaskRequest::default()
    }
}
