//! `[[notify]]`: targets of notifications. The configuration never has secrets: it names the
//! variable or the file that has them, and they are read when they are needed.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use flow::narrate::ACTIVITIES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config_problems::closest;
use super::{inherited_variables, read_bounded};
use crate::failure::Failure;

/// Maximum number of targets.
pub const TARGETS_MAX: usize = 16;
const SECRET_BYTES_MAX: usize = 4096;
const TIMEOUT_SECS_DEFAULT: u64 = 10;
const TIMEOUT_SECS_MAX: u64 = 300;
const TRIES_DEFAULT: u32 = 10;
const TRIES_MAX: u32 = 50;

/// Events and notes that are no activity of the same name.
const EVENTS: [&str; 32] = [
    "change_review_queued",
    "change_reviewed",
    "checkpoint",
    "combination_red",
    "command_obeyed",
    "command_refused",
    "issue_not_changed",
    "issue_taken_in",
    "job_claimed",
    "job_dead",
    "job_done",
    "job_dropped",
    "job_enqueued",
    "job_retried",
    "link_created",
    "link_revoked",
    "message_to_person",
    "network_refused",
    "notification_given_up",
    "notification_target_back",
    "provider_limited",
    "refused",
    "reviewed",
    "session_ended",
    "session_opened",
    "spool_troubled",
    "task_ran",
    "task_refused",
    "task_taken_up",
    "token_created",
    "token_revoked",
    "tools_unconnected",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotifyKind {
    Webhook,
    Command,
    Slack,
}

/// Urgency of a notification.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    Info,
    Warning,
    /// A person has to act.
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

/// One target, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NotifySection {
    /// The target's name. The position in the log is stored under it.
    pub name: String,
    /// webhook: a signed POST; command: JSON on its standard input; slack: a message to a channel.
    pub kind: Option<NotifyKind>,
    /// The address.
    pub url: Option<String>,
    /// The variable that has the address, if the address is a secret.
    pub url_env: Option<String>,
    /// The file that has the address, if the address is a secret.
    pub url_file: Option<String>,
    /// Certificates to trust in addition to the machine's own, as PEM.
    pub ca_file: Option<String>,
    /// The variable that has the signing key.
    pub secret_env: Option<String>,
    /// The file that has the signing key.
    pub secret_file: Option<String>,
    /// The program and its arguments; no shell is used.
    pub command: Vec<String>,
    /// Variables for the program, in addition to PATH, HOME and LANG.
    pub env: Vec<String>,
    /// Only these activities or events; without the key, all.
    pub events: Vec<String>,
    /// The lowest severity; by default urgent if no events are named, else info.
    pub severity: Option<Urgency>,
    /// The longest time of one try, in seconds; 10 by default.
    pub timeout_secs: Option<u64>,
    /// Tries before a message is dropped; 10 by default.
    pub tries_max: Option<u32>,
}

/// One target, with everything that is needed to reach it.
#[derive(Clone, Debug)]
pub struct NotifyTarget {
    pub name: String,
    pub channel: NotifyChannel,
    pub ca_file: Option<PathBuf>,
    /// Only these activities or events; all if the list is empty.
    pub events: Vec<String>,
    pub severity: Urgency,
    pub timeout: Duration,
    pub tries_max: u32,
}

/// Means by which a target is notified.
#[derive(Clone)]
pub enum NotifyChannel {
    Webhook {
        url: String,
        /// Key that signs the messages.
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

/// Prints no addresses and keys, because they may be secret.
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
    /// Lists all problems of the target.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_allowed) {
            problems.push("a target of [[notify]] needs a `name` of letters, digits, '-' and '_': its position in the log is stored under it".to_owned());
        }
        let name = &self.name;
        let urls = [&self.url, &self.url_env, &self.url_file];
        let urls = urls.iter().filter(|url| url.is_some()).count();
        match self.kind {
            None => problems.push(format!(
                "notify {name:?} has no `kind`: webhook, command or slack"
            )),
            Some(NotifyKind::Command) if self.command.is_empty() => problems.push(format!(
                "notify {name:?} needs `command = [\"PROGRAM\", \"ARGUMENT\", …]`"
            )),
            Some(NotifyKind::Webhook | NotifyKind::Slack) if urls != 1 => problems.push(format!(
                "notify {name:?} needs one of `url`, `url_env` and `url_file`"
            )),
            Some(_) => {}
        }
        if self.kind != Some(NotifyKind::Webhook)
            && (self.secret_env.is_some() || self.secret_file.is_some())
        {
            problems.push(format!("notify {name:?}: only a webhook is signed"));
        }
        if self.kind == Some(NotifyKind::Command) && self.ca_file.is_some() {
            problems.push(format!(
                "notify {name:?}: a command has no `ca_file`; that is for addresses"
            ));
        }
        let secs = self.timeout_secs.unwrap_or(TIMEOUT_SECS_DEFAULT);
        if !(1..=TIMEOUT_SECS_MAX).contains(&secs) {
            problems.push(format!(
                "notify {name:?}: timeout_secs is between 1 and {TIMEOUT_SECS_MAX}"
            ));
        }
        if !(1..=TRIES_MAX).contains(&self.tries_max.unwrap_or(TRIES_DEFAULT)) {
            problems.push(format!(
                "notify {name:?}: tries_max is between 1 and {TRIES_MAX}"
            ));
        }
        problems
    }

    /// Warns about unknown events, which would never be sent.
    pub fn remarks(&self) -> Vec<String> {
        let known_events: Vec<&str> = ACTIVITIES.into_iter().chain(EVENTS).collect();
        let is_unknown = |name: &&String| !known_events.contains(&name.as_str());
        let remark = |name: &String| {
            let suggestion =
                closest(name, &known_events).map(|close| format!("; did you mean {close:?}?"));
            let (target, suggestion) = (&self.name, suggestion.unwrap_or_default());
            format!("notify {target:?} waits for the unknown event {name:?}{suggestion}")
        };
        self.events.iter().filter(is_unknown).map(remark).collect()
    }

    /// Returns a copy that can be shown: an address is cut to its host.
    #[must_use]
    pub fn redacted(&self) -> Self {
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

    /// Resolves the target with its secrets.
    pub fn resolve(&self) -> Result<NotifyTarget, Failure> {
        let severity = self.severity.unwrap_or(if self.events.is_empty() {
            Urgency::Urgent
        } else {
            Urgency::Info
        });
        Ok(NotifyTarget {
            name: self.name.clone(),
            channel: self.channel()?,
            ca_file: self.ca_file.as_ref().map(PathBuf::from),
            events: self.events.clone(),
            severity,
            timeout: Duration::from_secs(self.timeout_secs.unwrap_or(TIMEOUT_SECS_DEFAULT)),
            tries_max: self.tries_max.unwrap_or(TRIES_DEFAULT),
        })
    }

    fn channel(&self) -> Result<NotifyChannel, Failure> {
        let url = || -> Result<String, Failure> {
            let secret_url =
                self.read_secret("url", self.url_env.as_ref(), self.url_file.as_ref())?;
            let url = self.url.clone().or(secret_url).unwrap_or_default();
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
                    env: inherited_variables(names),
                }
            }
            Some(NotifyKind::Webhook) | None => {
                let (env, file) = (self.secret_env.as_ref(), self.secret_file.as_ref());
                let secret = self.read_secret("secret", env, file)?;
                NotifyChannel::Webhook {
                    url: url()?,
                    secret: secret.map(|text| self.key(&text)).transpose()?,
                }
            }
        })
    }

    /// Reads a secret from the named variable or file, if one is named.
    fn read_secret(
        &self,
        kind: &str,
        env: Option<&String>,
        file: Option<&String>,
    ) -> Result<Option<String>, Failure> {
        let name = &self.name;
        if let Some(variable) = env {
            let set = inherited_variables(std::iter::once(variable.as_str())).pop();
            let text = set.and_then(|(_, value)| value.into_string().ok());
            return text.map(Some).ok_or_else(|| {
                Failure::usage(format!(
                    "notify {name:?}: the variable {variable} for its {kind} is not set"
                ))
            });
        }
        let Some(file) = file else { return Ok(None) };
        let kind = format!("the {kind} of notify {name:?} in");
        let bytes = read_bounded(&PathBuf::from(file), &kind, SECRET_BYTES_MAX)?;
        let text = String::from_utf8(bytes).ok();
        let text = text.map(|text| text.trim().to_owned());
        text.filter(|text| !text.is_empty() && text.len() <= SECRET_BYTES_MAX)
            .map(Some)
            .ok_or_else(|| Failure::usage(format!("{kind} {file} is empty, too long or no text")))
    }

    /// Decodes the signing key: `whsec_…` is base64, as in Standard Webhooks; anything else is the
    /// key itself.
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
        assert_eq!(hook().redacted().url.unwrap(), "https://hooks.example/…");
        assert!(!format!("{:?}", hook().resolve().unwrap()).contains("secret"));
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
        assert_eq!(hook().resolve().unwrap().severity, Urgency::Urgent);
        let chosen = NotifySection {
            events: vec!["done".to_owned()],
            ..hook()
        };
        assert_eq!(chosen.resolve().unwrap().severity, Urgency::Info);
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
