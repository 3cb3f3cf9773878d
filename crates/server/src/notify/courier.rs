//! Takes one message to one target, once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::process::{self, Call, Exit, Launcher};
use flow::Time;

use super::http::Client;
use super::message::Message;
use app::failure::Failure;
use app::settings::Surroundings;
use app::settings::notify::{Means, Target};

/// What is kept of what a command says.
const OUTPUT_BYTES_MAX: usize = 4 * 1024;

/// The first wait before another try, and the longest.
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// What one try came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With what was answered.
    Delivered(String),
    Again(String),
    /// The same message will not be taken another time either.
    Never(String),
}

#[derive(Clone, Debug)]
pub struct Courier {
    pub target: Target,
    client: Option<Client>,
    /// Where commands are run, and what holds them.
    directory: PathBuf,
    launcher: Launcher,
}

impl Courier {
    pub fn new(target: Target, surroundings: &Surroundings) -> Result<Self, Failure> {
        let client = match &target.means {
            Means::Webhook { url, .. } | Means::Slack { url } => Some(Client::new(&target, url)?),
            Means::Command { .. } => None,
        };
        Ok(Self {
            target,
            client,
            directory: surroundings.data_dir.clone(),
            launcher: Launcher::hold(&surroundings.program),
        })
    }

    pub async fn deliver(&self, message: &Message, now: Time) -> Outcome {
        match (&self.target.means, &self.client) {
            (Means::Webhook { secret, .. }, Some(client)) => {
                let body = message.payload().to_string();
                let headers = signed(message, now, secret.as_deref(), &body);
                client.post(&headers, body).await
            }
            (Means::Slack { .. }, Some(client)) => {
                client.post(&[], message.slack().to_string()).await
            }
            (Means::Command { program, args, env }, _) => {
                let path = env.iter().find(|(name, _)| name == "PATH");
                let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
                let program = match process::find_program(program, &path, &self.directory) {
                    Ok(program) => program,
                    Err(error) => return Outcome::Again(error.to_string()),
                };
                let call = Call {
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
            (Means::Webhook { .. } | Means::Slack { .. }, None) => {
                Outcome::Never("there is no way to reach it".to_owned())
            }
        }
    }

    /// How long to wait before the next try: twice as long each time, spread so that not all come back
    /// at once.
    pub fn pause(&self, message: &Message, tries: u32) -> Duration {
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
    message: &Message,
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

async fn run(call: &Call) -> Outcome {
    let name = || Path::new(&call.program).display().to_string();
    match process::output(call).await {
        Ok(output) if output.exit.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            Outcome::Delivered(findings::shorten(&findings::one_line(&said), 200))
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = findings::shorten(&findings::one_line(&said), 200);
            let why = match output.exit {
                Exit::WallLimit => format!("{} took too long", name()),
                exit => format!("{}: {exit} {said}", name()),
            };
            Outcome::Again(why.trim_end().to_owned())
        }
        Err(error) => Outcome::Again(error.to_string()),
    }
}
