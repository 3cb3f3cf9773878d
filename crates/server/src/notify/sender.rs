//! Delivers one message to one target, once.
//!
//! A sender never waits and never retries: `delivery` decides on that, because only it holds the
//! position in the log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::process::{self, Launcher, ProcessExit, ShortCommand};
use flow::Time;

use super::http::WebhookClient;
use super::notification::Notification;
use app::failure::Failure;
use app::settings::Environment;
use app::settings::notify::{NotifyChannel, NotifyTarget};

/// Maximum output of a command that is kept.
/// A command may print without end.
const OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// Delay before the first retry.
const BACKOFF: Duration = Duration::from_secs(1);
/// Longest delay before a retry.
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// Outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// Delivered, with the answer.
    Delivered(String),
    Retry(String),
    /// The target will not accept this message on a retry either.
    Rejected(String),
}

#[derive(Clone, Debug)]
pub struct NotificationSender {
    pub target: NotifyTarget,
    client: Option<WebhookClient>,
    /// Working directory of commands.
    directory: PathBuf,
    /// Ties a command's life to ours.
    // A notification command must not outlive the server.
    launcher: Launcher,
}

impl NotificationSender {
    pub fn new(target: NotifyTarget, environment: &Environment) -> Result<Self, Failure> {
        let client = match &target.channel {
            NotifyChannel::Webhook { url, .. } | NotifyChannel::Slack { url } => {
                Some(WebhookClient::new(&target, url)?)
            }
            NotifyChannel::Command { .. } => None,
        };
        Ok(Self {
            target,
            client,
            directory: environment.data_dir.clone(),
            launcher: Launcher::tied_to_us(&environment.program),
        })
    }

    pub async fn deliver(&self, message: &Notification, now: Time) -> DeliveryOutcome {
        match (&self.target.channel, &self.client) {
            (NotifyChannel::Webhook { secret, .. }, Some(client)) => {
                let body = message.payload().to_string();
                let headers = webhook_headers(message, now, secret.as_deref(), &body);
                client.post(&headers, body).await
            }
            (NotifyChannel::Slack { .. }, Some(client)) => {
                client.post(&[], message.slack().to_string()).await
            }
            (NotifyChannel::Command { program, args, env }, _) => {
                let path = env.iter().find(|(name, _)| name == "PATH");
                let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
                let program = match process::find_program(program, &path, &self.directory) {
                    Ok(program) => program,
                    // The program may be installed later, so this is no final error.
                    Err(error) => return DeliveryOutcome::Retry(error.to_string()),
                };
                let call = ShortCommand {
                    program,
                    args: args.clone(),
                    env: env.clone(),
                    cwd: self.directory.clone(),
                    stdin: format!("{}\n", message.payload()).into_bytes(),
                    wall: self.target.timeout,
                    output_bytes: OUTPUT_BYTES_MAX,
                    stdout_file: None,
                    launcher: Some(self.launcher.clone()),
                };
                run_command(&call).await
            }
            (NotifyChannel::Webhook { .. } | NotifyChannel::Slack { .. }, None) => {
                DeliveryOutcome::Rejected("the target has no client".to_owned())
            }
        }
    }

    /// Returns the delay before the next try: exponential, with jitter so that not all retries come
    /// at once.
    pub fn retry_delay(&self, message: &Notification, tries: u32) -> Duration {
        let whole = BACKOFF.saturating_mul(1 << tries.saturating_sub(1).min(16));
        let whole = whole.min(BACKOFF_MAX);
        // Jitter by hash: targets that failed together come back at different times.
        let spread = format!("{} {} {tries}", self.target.name, message.id);
        let digits = engine::hash::short_sha256(spread.as_bytes());
        let digits = digits.get(..4).unwrap_or_default();
        let share = u32::from_str_radix(digits, 16).unwrap_or_default();
        // Between half of the delay and all of it.
        whole / 2 + whole / 2 * share / 0xffff
    }
}

/// Returns the headers of Standard Webhooks. Without a key there is no signature.
fn webhook_headers(
    message: &Notification,
    now: Time,
    key: Option<&[u8]>,
    body: &str,
) -> Vec<(&'static str, String)> {
    let (id, secs) = (&message.id, now.0.div_euclid(1000));
    let mut headers = vec![
        ("webhook-id", id.clone()),
        ("webhook-timestamp", secs.to_string()),
    ];
    if let Some(key) = key {
        // Id, time and body are signed together, so that an old message cannot be sent again under
        // another id or time.
        let content = format!("{id}.{secs}.{body}");
        let signature = engine::secret::hmac_base64(key, content.as_bytes());
        headers.push(("webhook-signature", format!("v1,{signature}")));
    }
    headers
}

async fn run_command(call: &ShortCommand) -> DeliveryOutcome {
    let name = || Path::new(&call.program).display().to_string();
    match process::run_short_command(call).await {
        Ok(output) if output.exit.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            DeliveryOutcome::Delivered(findings::shorten(&findings::one_line(&text), 200))
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let text = findings::shorten(&findings::one_line(&text), 200);
            let why = match output.exit {
                ProcessExit::WallLimit => format!("{} took too long", name()),
                exit => format!("{}: {exit} {text}", name()),
            };
            DeliveryOutcome::Retry(why.trim_end().to_owned())
        }
        Err(error) => DeliveryOutcome::Retry(error.to_string()),
    }
}
