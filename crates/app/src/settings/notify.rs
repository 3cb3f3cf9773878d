//! `[[notify]]`: who is told of what happens, and how. Secrets are never in the file: it names the
//! variable or the file that has them, and they are read when they are needed.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use flow::narrate::ACTIVITIES;
use serde::{Deserialize, Serialize};

use super::trouble::closest;
use super::{passed_on, read_bounded};
use crate::failure::Failure;

/// More targets are a list of another kind.
pub const TARGETS_MAX: usize = 16;
const SECRET_BYTES_MAX: usize = 4096;
const TIMEOUT_SECS_DEFAULT: u64 = 10;
const TIMEOUT_SECS_MAX: u64 = 300;
const TRIES_DEFAULT: u32 = 10;
const TRIES_MAX: u32 = 50;

/// Events that are no activity by the same name, and what is noted beside tickets.
const EVENTS: [&str; 21] = [
    "checkpoint",
    "combination_red",
    "job_claimed",
    "job_dead",
    "job_done",
    "job_dropped",
    "job_enqueued",
    "job_retried",
    "network_refused",
    "notification_given_up",
    "notification_target_back",
    "provider_limited",
    "refused",
    "reviewed",
    "spool_troubled",
    "task_ran",
    "task_refused",
    "task_taken_up",
    "token_created",
    "token_revoked",
    "tools_unconnected",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyKind {
    Webhook,
    Command,
    Slack,
}

/// How much it matters to whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    Info,
    Warning,
    /// A person is wanted.
    Urgent,
}

impl Urgency {
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Urgent => "urgent",
        }
    }
}

/// One target, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NotifySection {
    pub name: String,
    pub kind: Option<NotifyKind>,
    pub url: Option<String>,
    pub url_env: Option<String>,
    pub url_file: Option<String>,
    /// Whom to believe beside those whom this machine trusts, as PEM.
    pub ca_file: Option<String>,
    pub secret_env: Option<String>,
    pub secret_file: Option<String>,
    pub command: Vec<String>,
    pub env: Vec<String>,
    pub events: Vec<String>,
    pub severity: Option<Urgency>,
    pub timeout_secs: Option<u64>,
    pub tries_max: Option<u32>,
}

/// One target, with all that is needed to reach it.
#[derive(Clone, Debug)]
pub struct NotifyTarget {
    pub name: String,
    pub means: NotifyChannel,
    pub ca_file: Option<PathBuf>,
    /// Those activities or events alone; all, where none is named.
    pub events: Vec<String>,
    pub severity: Urgency,
    pub timeout: Duration,
    pub tries_max: u32,
}

#[derive(Clone)]
pub enum NotifyChannel {
    Webhook {
        url: String,
        /// The key that messages are signed with.
        secret: Option<Vec<u8>>,
    },
    Slack {
        url: String,
    },
    Command {
        program: OsString,
        args: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
    },
}

/// Without addresses and keys, which may be secret.
impl fmt::Debug for NotifyChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Webhook { .. } => "webhook",
            Self::Slack { .. } => "slack",
            Self::Command { .. } => "command",
        })
    }
}

impl NotifySection {
    /// All that is wrong with it.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(sound) {
            found.push("a target of [[notify]] needs a `name` of letters, digits, '-' and '_': how far it has been told is kept under it".to_owned());
        }
        let name = &self.name;
        let urls = [&self.url, &self.url_env, &self.url_file];
        let urls = urls.iter().filter(|url| url.is_some()).count();
        match self.kind {
            None => found.push(format!(
                "notify {name:?} has no `kind`: webhook, command or slack"
            )),
            Some(NotifyKind::Command) if self.command.is_empty() => found.push(format!(
                "notify {name:?} needs `command = [\"PROGRAM\", \"ARGUMENT\", …]`"
            )),
            Some(NotifyKind::Webhook | NotifyKind::Slack) if urls != 1 => found.push(format!(
                "notify {name:?} needs one of `url`, `url_env` and `url_file`"
            )),
            Some(_) => {}
        }
        if self.kind != Some(NotifyKind::Webhook)
            && (self.secret_env.is_some() || self.secret_file.is_some())
        {
            found.push(format!("notify {name:?}: only a webhook is signed"));
        }
        if self.kind == Some(NotifyKind::Command) && self.ca_file.is_some() {
            found.push(format!(
                "notify {name:?}: a command has no `ca_file`; that is for addresses"
            ));
        }
        let secs = self.timeout_secs.unwrap_or(TIMEOUT_SECS_DEFAULT);
        if !(1..=TIMEOUT_SECS_MAX).contains(&secs) {
            found.push(format!(
                "notify {name:?}: timeout_secs is between 1 and {TIMEOUT_SECS_MAX}"
            ));
        }
        if !(1..=TRIES_MAX).contains(&self.tries_max.unwrap_or(TRIES_DEFAULT)) {
            found.push(format!(
                "notify {name:?}: tries_max is between 1 and {TRIES_MAX}"
            ));
        }
        found
    }

    /// What it waits for and nobody knows: it would never hear of it.
    pub fn remarks(&self) -> Vec<String> {
        let known: Vec<&str> = ACTIVITIES.into_iter().chain(EVENTS).collect();
        let strange = |name: &&String| !known.contains(&name.as_str());
        let remark = |name: &String| {
            let meant = closest(name, &known).map(|close| format!("; did you mean {close:?}?"));
            let (target, meant) = (&self.name, meant.unwrap_or_default());
            format!("notify {target:?} waits for {name:?}, which is no event that is known{meant}")
        };
        self.events.iter().filter(strange).map(remark).collect()
    }

    /// As it may be shown: of an address no more than the server.
    #[must_use]
    pub fn shown(&self) -> Self {
        let short = |url: &String| {
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/…")
        };
        Self {
            url: self.url.as_ref().map(short),
            ..self.clone()
        }
    }

    /// With its secrets, from where they are.
    pub fn target(&self) -> Result<NotifyTarget, Failure> {
        let severity = self.severity.unwrap_or(if self.events.is_empty() {
            Urgency::Urgent
        } else {
            Urgency::Info
        });
        Ok(NotifyTarget {
            name: self.name.clone(),
            means: self.means()?,
            ca_file: self.ca_file.as_ref().map(PathBuf::from),
            events: self.events.clone(),
            severity,
            timeout: Duration::from_secs(self.timeout_secs.unwrap_or(TIMEOUT_SECS_DEFAULT)),
            tries_max: self.tries_max.unwrap_or(TRIES_DEFAULT),
        })
    }

    fn means(&self) -> Result<NotifyChannel, Failure> {
        let url = || -> Result<String, Failure> {
            let kept = self.kept("url", self.url_env.as_ref(), self.url_file.as_ref())?;
            let url = self.url.clone().or(kept).unwrap_or_default();
            Ok(url.trim().to_owned())
        };
        Ok(match self.kind {
            Some(NotifyKind::Slack) => NotifyChannel::Slack { url: url()? },
            Some(NotifyKind::Command) => {
                let mut words = self.command.iter().map(OsString::from);
                let always = ["PATH", "HOME", "LANG"];
                let names = always
                    .into_iter()
                    .chain(self.env.iter().map(String::as_str));
                NotifyChannel::Command {
                    program: words.next().unwrap_or_default(),
                    args: words.collect(),
                    env: passed_on(names),
                }
            }
            Some(NotifyKind::Webhook) | None => {
                let (env, file) = (self.secret_env.as_ref(), self.secret_file.as_ref());
                let secret = self.kept("secret", env, file)?;
                NotifyChannel::Webhook {
                    url: url()?,
                    secret: secret.map(|text| self.key(&text)).transpose()?,
                }
            }
        })
    }

    /// What a variable or a file has, where one is named.
    fn kept(
        &self,
        what: &str,
        env: Option<&String>,
        file: Option<&String>,
    ) -> Result<Option<String>, Failure> {
        let name = &self.name;
        if let Some(variable) = env {
            let set = passed_on(std::iter::once(variable.as_str())).pop();
            let text = set.and_then(|(_, value)| value.into_string().ok());
            return text.map(Some).ok_or_else(|| {
                Failure::usage(format!(
                    "notify {name:?}: the variable {variable} for its {what} is not set"
                ))
            });
        }
        let Some(file) = file else { return Ok(None) };
        let what = format!("the {what} of notify {name:?} in");
        let bytes = read_bounded(&PathBuf::from(file), &what, SECRET_BYTES_MAX)?;
        let text = String::from_utf8(bytes).ok();
        let text = text.map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty() && text.len() <= SECRET_BYTES_MAX)
            .map(Some)
            .ok_or_else(|| Failure::usage(format!("{what} {file} is empty, too long or no text")))
    }

    /// `whsec_…` is the key in base64, as Standard Webhooks write it; anything else is the key itself.
    fn key(&self, secret: &str) -> Result<Vec<u8>, Failure> {
        let secret = secret.trim();
        match secret.strip_prefix("whsec_") {
            None => Ok(secret.as_bytes().to_vec()),
            Some(text) => engine::secret::from_base64(text).ok_or_else(|| {
                Failure::usage(format!(
                    "notify {:?}: what follows whsec_ in its secret is not base64",
                    self.name
                ))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook() -> NotifySection {
        NotifySection {
            name: "ops".to_owned(),
            kind: Some(NotifyKind::Webhook),
            url: Some("https://ada:word@hooks.example/T1/secret?x=1".to_owned()),
            ..NotifySection::default()
        }
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_secret_in_it() {
        assert_eq!(hook().shown().url.unwrap(), "https://hooks.example/…");
        assert!(!format!("{:?}", hook().target().unwrap()).contains("secret"));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(hook().problems(), [""; 0]);
        assert_eq!(NotifySection::default().problems().len(), 2);
        let bare = NotifySection {
            url: None,
            timeout_secs: Some(0),
            ..hook()
        };
        assert_eq!(bare.problems().len(), 2);
    }

    #[test]
    fn without_a_word_on_it_only_what_wants_a_person_is_told() {
        assert_eq!(hook().target().unwrap().severity, Urgency::Urgent);
        let chosen = NotifySection {
            events: vec!["done".to_owned()],
            ..hook()
        };
        assert_eq!(chosen.target().unwrap().severity, Urgency::Info);
        assert_eq!(chosen.remarks(), [""; 0]);
    }

    #[test]
    fn an_event_that_nobody_knows_is_remarked_on() {
        let chosen = NotifySection {
            events: vec!["escalated_for_human".to_owned()],
            ..hook()
        };
        let meant = "did you mean \"escalated_for_human_review\"?";
        assert!(
            chosen.remarks()[0].contains(meant),
            "{:?}",
            chosen.remarks()
        );
    }
}
