//! Takes one message to one target, once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::process::{self, Launcher, ProcessExit, ShortCommand};
use flow::Time;

use super::http::WebhookClient;
use super::message::Notification;
use app::failure::Failure;
use app::settings::Environment;
use app::settings::notify::{NotifyChannel, NotifyTarget};

/// What is kept of what a command says.
const OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// The first wait before another try, and the longest.
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// What one try came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// With what was answered.
    Delivered(String),
    Again(String),
    /// The same message will not be taken another time either.
    Never(String),
}

#[derive(Clone, Debug)]
pub struct NotificationSender {
    pub target: NotifyTarget,
    client: Option<WebhookClient>,
    /// Where commands are run, and what holds them.
    directory: PathBuf,
    launcher: Launcher,
}

impl NotificationSender {
    pub fn new(target: NotifyTarget, surroundings: &Environment) -> Result<Self, Failure> {
        let client = match &target.means {
            NotifyChannel::Webhook { url, .. } | NotifyChannel::Slack { url } => {
                Some(WebhookClient::new(&target, url)?)
            }
            NotifyChannel::Command { .. } => None,
        };
        Ok(Self {
            target,
            client,
            directory: surroundings.data_dir.clone(),
            launcher: Launcher::hold(&surroundings.program),
        })
    }

    pub async fn deliver(&self, message: &Notification, now: Time) -> DeliveryOutcome {
        match (&self.target.means, &self.client) {
            (NotifyChannel::Webhook { secret, .. }, Some(client)) => {
                let body = message.payload().to_string();
                let headers = signed(message, now, secret.as_deref(), &body);
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
                    Err(error) => return DeliveryOutcome::Again(error.to_string()),
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
                run(&call).await
            }
            (NotifyChannel::Webhook { .. } | NotifyChannel::Slack { .. }, None) => {
                DeliveryOutcome::Never("there is no way to reach it".to_owned())
            }
        }
    }

    /// How long to wait before the next try: twice as long each time, spread so that not all come back
    /// at once.
    pub fn pause(&self, message: &Notification, tries: u32) -> Duration {
        let whole = BACKOFF.saturating_mul(1 << tries.saturating_sub(1).min(16));
        let whole = whole.min(BACKOFF_MAX);
        let spread = format!("{} {} {tries}", self.target.name, message.id);
        let digits = engine::hash::short(spread.as_bytes());
        let digits = digits.get(..4).unwrap_or_default();
        let share = u32::from_str_radix(digits, 16).unwrap_or_default();
        // Between half of it and all of it.
        whole / 2 + whole / 2 * share / 0xffff
    }
}

/// The headers of Standard Webhooks; without a key only those that name the message.
fn signed(
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
        let content = format!("{id}.{secs}.{body}");
        let signature = engine::secret::sign(key, content.as_bytes());
        headers.push(("webhook-signature", format!("v1,{signature}")));
    }
    headers
}

async fn run(call: &ShortCommand) -> DeliveryOutcome {
    let name = || Path::new(&call.program).display().to_string();
    match process::output(call).await {
        Ok(output) if output.exit.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            DeliveryOutcome::Delivered(findings::shorten(&findings::one_line(&said), 200))
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = findings::shorten(&findings::one_line(&said), 200);
            let why = match output.exit {
                ProcessExit::WallLimit => format!("{} took too long", name()),
                exit => format!("{}: {exit} {said}", name()),
            };
            DeliveryOutcome::Again(why.trim_end().to_owned())
        }
        Err(error) => DeliveryOutcome::Again(error.to_string()),
    }
}
