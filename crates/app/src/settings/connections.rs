//! `[[connection]]`: the repositories and projects on forges that `serve` looks after. The
//! configuration never has a secret: it names the variable or the file that has it.
//!
//! The sections belong into the file of the server's own account. A repository that could name a
//! secret, or a directory, would decide who may give commands.

use std::collections::BTreeSet;
use std::path::PathBuf;

use forge::address::ForgeKind;
use forge::webhook::WebhookSecrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{inherited_variables, read_bounded};
use crate::failure::Failure;

/// Maximum number of connections of one server. Each webhook is compared with the secrets of all
/// connections of its kind.
pub const CONNECTIONS_MAX: usize = 32;
const SECRET_BYTES_MAX: usize = 4096;
/// Shortest secret: a shorter one can be guessed from one recorded webhook.
const SECRET_CHARS_MIN: usize = 16;
const NAME_CHARS_MAX: usize = 32;
const REVIEW_LABEL: &str = "ready-for-review";
const INTAKE_LABEL: &str = "countersign";

/// Kind of a connection, as a file names it. A tracker without pull requests is one too, unlike in
/// `[forge]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionKind {
    Github,
    Gitlab,
    #[serde(alias = "gitea")]
    Forgejo,
    Jira,
}

impl ConnectionKind {
    pub fn kind(self) -> ForgeKind {
        match self {
            Self::Github => ForgeKind::Github,
            Self::Gitlab => ForgeKind::Gitlab,
            Self::Forgejo => ForgeKind::Gitea,
            Self::Jira => ForgeKind::Jira,
        }
    }

    /// Returns whether its webhooks come to this address: `/hooks/WORD`.
    pub fn answers_to(self, word: &str) -> bool {
        ForgeKind::parse(word) == Some(self.kind())
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Gitlab => "gitlab",
            Self::Forgejo => "forgejo",
            Self::Jira => "jira",
        }
    }
}

/// Names of the statuses of a Jira project, by what they mean to Countersign. An empty name makes
/// no transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StatusNames {
    /// While an agent builds.
    pub working: String,
    /// While the change is checked and reviewed.
    pub code_review: String,
    /// After the approval.
    pub approved: String,
    /// While it is reworked.
    pub changes_requested: String,
    /// After it landed.
    pub done: String,
}

impl Default for StatusNames {
    fn default() -> Self {
        Self {
            working: "In Progress".to_owned(),
            code_review: "Code Review".to_owned(),
            approved: "Approved".to_owned(),
            changes_requested: "Changes Requested".to_owned(),
            done: "Done".to_owned(),
        }
    }
}

impl StatusNames {
    /// Returns the status for a word of an agent, such as `code_review`. Any other word is the name
    /// of a status.
    pub fn resolve(&self, word: &str) -> String {
        let word = word.trim();
        let known = match word.to_ascii_lowercase().replace([' ', '-'], "_").as_str() {
            "working" | "in_progress" => &self.working,
            "code_review" | "review" | "in_review" => &self.code_review,
            "approved" => &self.approved,
            "changes_requested" => &self.changes_requested,
            "done" => &self.done,
            _ => return word.to_owned(),
        };
        if known.is_empty() {
            word.to_owned()
        } else {
            known.clone()
        }
    }
}

/// A repository or project that `serve` looks after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, not states"
)]
pub struct ConnectionSection {
    /// A short name. Ids of tickets begin with it: issue 7 of the connection app is app-7.
    pub name: String,
    /// The kind of the forge or tracker.
    pub forge: Option<ConnectionKind>,
    /// OWNER/NAME; for Jira, the key of the project.
    pub repository: String,
    /// The checkout on this machine. Its [forge] has the address and the token.
    pub directory: String,
    /// The variable that has the secret of its webhooks.
    pub secret_env: Option<String>,
    /// The file that has the secret of its webhooks. Others must not be able to read it.
    pub secret_file: Option<String>,
    /// The variable that has the previous secret, while it is rotated.
    pub previous_secret_env: Option<String>,
    /// The file that has the previous secret, while it is rotated.
    pub previous_secret_file: Option<String>,
    /// Asks the forge for news by itself, in addition to webhooks.
    pub poll: bool,
    /// A pull request with this label is reviewed; empty for none.
    pub review_label: String,
    /// A pull request that is assigned to the account of the token is reviewed.
    pub review_assigned: bool,
    /// Pull requests onto these branches are always reviewed; "*" for all.
    pub review_branches: Vec<String>,
    /// An issue with this label becomes a ticket; empty for none.
    pub intake_label: String,
    /// An issue that is assigned to the account of the token becomes a ticket.
    pub intake_assigned: bool,
    /// Jira: the issues of this query become tickets.
    pub jql: Option<String>,
    /// Writes the state of tickets to their issues: comment, label, transition.
    pub report: bool,
    /// Jira: the names of the statuses.
    pub statuses: StatusNames,
}

impl Default for ConnectionSection {
    fn default() -> Self {
        Self {
            name: String::new(),
            forge: None,
            repository: String::new(),
            directory: String::new(),
            secret_env: None,
            secret_file: None,
            previous_secret_env: None,
            previous_secret_file: None,
            poll: true,
            review_label: REVIEW_LABEL.to_owned(),
            review_assigned: true,
            review_branches: Vec::new(),
            intake_label: INTAKE_LABEL.to_owned(),
            intake_assigned: true,
            jql: None,
            report: true,
            statuses: StatusNames::default(),
        }
    }
}

/// A connection with its secrets.
#[derive(Clone, Debug)]
pub struct ForgeLink {
    pub section: ConnectionSection,
    pub kind: ConnectionKind,
    pub directory: PathBuf,
    /// Without secrets its webhooks are not accepted.
    pub secrets: Option<WebhookSecrets>,
}

/// Lists all problems of the sections.
pub fn connection_problems(all: &[ConnectionSection]) -> Vec<String> {
    let mut problems: Vec<String> = all.iter().flat_map(ConnectionSection::problems).collect();
    let names: BTreeSet<String> = all.iter().map(|one| one.name.to_lowercase()).collect();
    if names.len() < all.len() {
        problems.push("two of [[connection]] have the same name".to_owned());
    }
    if all.len() > CONNECTIONS_MAX {
        problems.push(format!(
            "[[connection]] has at most {CONNECTIONS_MAX} entries"
        ));
    }
    problems
}

impl ConnectionSection {
    /// Returns the variables that no agent gets.
    pub fn secret_variables(&self) -> impl Iterator<Item = &str> {
        let both = [&self.secret_env, &self.previous_secret_env];
        both.into_iter().flatten().map(String::as_str)
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let name = &self.name;
        let is_name = !name.is_empty()
            && name.len() <= NAME_CHARS_MAX
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_name {
            problems.push(format!(
                "connection {name:?}: a name has letters, digits and '-', and at most {NAME_CHARS_MAX} characters"
            ));
        }
        let mut problem = |text: &str| problems.push(format!("connection {name:?}: {text}"));
        match self.forge {
            None => problem("forge is missing: github, gitlab, forgejo or jira"),
            Some(ConnectionKind::Jira) if !is_project_key(&self.repository) => {
                problem("repository is the key of a Jira project, such as PROJ");
            }
            Some(ConnectionKind::Jira) => {}
            Some(_) if !self.repository.contains('/') => problem("repository is OWNER/NAME"),
            Some(_) if self.jql.is_some() => problem("jql is for Jira only"),
            Some(_) => {}
        }
        if self.directory.is_empty() {
            problem("directory is missing: the path of a checkout on this machine");
        }
        if self.secret_env.is_some() && self.secret_file.is_some() {
            problem("secret_env and secret_file exclude each other");
        }
        if self.previous_secret_env.is_some() && self.previous_secret_file.is_some() {
            problem("previous_secret_env and previous_secret_file exclude each other");
        }
        let has_previous =
            self.previous_secret_env.is_some() || self.previous_secret_file.is_some();
        if has_previous && self.secret_env.is_none() && self.secret_file.is_none() {
            problem("it has a previous secret and no current one");
        }
        problems
    }

    /// Reads the secrets.
    pub fn resolve(&self) -> Result<ForgeLink, Failure> {
        let current = self.read_secret(self.secret_env.as_ref(), self.secret_file.as_ref())?;
        let previous = self.read_secret(
            self.previous_secret_env.as_ref(),
            self.previous_secret_file.as_ref(),
        )?;
        Ok(ForgeLink {
            kind: self.forge.unwrap_or(ConnectionKind::Github),
            directory: PathBuf::from(&self.directory),
            secrets: current.map(|current| WebhookSecrets { current, previous }),
            section: self.clone(),
        })
    }

    /// Reads a text from the named variable or file, and says where it comes from.
    fn read_text(
        &self,
        (env, file): (Option<&String>, Option<&String>),
        what: &str,
    ) -> Result<Option<(String, String)>, Failure> {
        let name = &self.name;
        match (env, file) {
            (None, None) => Ok(None),
            (Some(variable), _) => {
                let set = inherited_variables(std::iter::once(variable.as_str())).pop();
                let text = set.and_then(|(_, value)| value.into_string().ok());
                let text = text.ok_or_else(|| {
                    Failure::usage(format!(
                        "connection {name:?}: the variable {variable} with its {what} is not set"
                    ))
                })?;
                Ok(Some((text, format!("variable {variable}"))))
            }
            (None, Some(file)) => {
                let path = PathBuf::from(file);
                let what = format!("the {what}");
                super::forge::require_private(&path, &what)?;
                let bytes = read_bounded(&path, &what, SECRET_BYTES_MAX)?;
                let text = String::from_utf8(bytes).unwrap_or_default();
                Ok(Some((text, format!("file {file}"))))
            }
        }
    }

    fn read_secret(
        &self,
        env: Option<&String>,
        file: Option<&String>,
    ) -> Result<Option<String>, Failure> {
        let name = &self.name;
        let Some((secret, origin)) = self.read_text((env, file), "webhook secret")? else {
            return Ok(None);
        };
        let secret = secret.trim().to_owned();
        if secret.len() < SECRET_CHARS_MIN || secret.len() > SECRET_BYTES_MAX {
            return Err(Failure::usage(format!(
                "connection {name:?}: the webhook secret in {origin} has {} characters, and it needs {SECRET_CHARS_MIN} to {SECRET_BYTES_MAX}",
                secret.len()
            ))
            .hint("make one: openssl rand -hex 32"));
        }
        Ok(Some(secret))
    }
}

fn is_project_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

impl ForgeLink {
    pub fn name(&self) -> &str {
        &self.section.name
    }

    /// Returns whether the connection is for this repository, by its name on the forge. Forges
    /// compare names without regard to case.
    pub fn is_for(&self, repository: &str) -> bool {
        self.section.repository.eq_ignore_ascii_case(repository)
    }

    pub fn is_tracker(&self) -> bool {
        self.kind == ConnectionKind::Jira
    }

    /// Returns the key of an issue as the forge's adapter has it: on GitLab a bare number is a change.
    pub fn issue_key(&self, key: &str) -> String {
        let is_number = key.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.kind == ConnectionKind::Gitlab {
            format!("#{key}")
        } else {
            key.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn section(text: &str) -> ConnectionSection {
        toml::from_str(text).unwrap()
    }

    const APP: &str =
        "name = \"app\"\nforge = \"github\"\nrepository = \"o/r\"\ndirectory = \"/srv/app\"\n";

    #[test]
    fn problems_are_named_and_defaults_are_safe() {
        let app = section(APP);
        assert_eq!(connection_problems(std::slice::from_ref(&app)), [""; 0]);
        assert_eq!(app.review_label, "ready-for-review");
        assert!(app.resolve().unwrap().secrets.is_none());
        for (more, word) in [
            ("secret_env = \"A\"\nsecret_file = \"/b\"", "exclude"),
            ("previous_secret_env = \"A\"", "no current"),
            ("jql = \"x\"", "Jira only"),
        ] {
            let problems = section(&format!("{APP}{more}")).problems();
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{problems:?}"
            );
        }
        for (from, to, word) in [
            ("o/r", "r", "OWNER/NAME"),
            ("\"app\"", "\"a/b\"", "a name has"),
            ("github", "jira", "PROJ"),
            ("/srv/app", "", "directory"),
        ] {
            let problems = section(&APP.replace(from, to)).problems();
            assert!(
                !problems.is_empty() && problems[0].contains(word),
                "{problems:?}"
            );
        }
        let twice = connection_problems(&[app.clone(), app]);
        assert!(twice[0].contains("same name"), "{twice:?}");
    }

    #[test]
    fn a_secret_is_long_private_and_shown_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let text = format!("{APP}secret_file = {:?}\n", file.to_str().unwrap());
        engine::private_files::write(&file, "0123456789abcdef0123\n").unwrap();
        let link = section(&text).resolve().unwrap();
        assert_eq!(
            link.secrets.as_ref().unwrap().current,
            "0123456789abcdef0123"
        );
        assert!(!format!("{link:?}").contains("0123456789abcdef"));
        engine::private_files::write(&file, "short\n").unwrap();
        let failure = section(&text).resolve().unwrap_err();
        assert!(failure.message.contains("5 characters"), "{failure:?}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let failure = section(&text).resolve().unwrap_err();
        assert!(failure.message.contains("other users"), "{failure:?}");
    }

    #[test]
    fn words_of_agents_become_statuses() {
        let names = StatusNames::default();
        for (word, status) in [
            ("code_review", "Code Review"),
            ("Code Review", "Code Review"),
            ("approved", "Approved"),
            ("changes_requested", "Changes Requested"),
            ("Won't Do", "Won't Do"),
        ] {
            assert_eq!(names.resolve(word), status);
        }
    }
}
