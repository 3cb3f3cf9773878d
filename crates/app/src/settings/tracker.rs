//! `[tracker]`: the Jira that has the issues, next to the forge that has the pull requests. It belongs
//! into the user's own file, as `[forge]` does.

use forge::address::is_safe_address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forge_token::TokenSource;

/// Variables of the token, if the section names none.
pub const JIRA_VARIABLES: [&str; 2] = ["JIRA_API_TOKEN", "JIRA_TOKEN"];

/// Kinds of trackers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrackerKindName {
    /// Jira Cloud.
    Jira,
    JiraDataCenter,
}

/// The tracker that has the issues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrackerSection {
    /// The kind of the tracker: `jira` for Jira Cloud, or `jira_data_center`.
    pub kind: Option<TrackerKindName>,
    /// The address of the site, such as `https://example.atlassian.net`.
    pub url: Option<String>,
    /// Jira Cloud: the e-mail address of the account that the token belongs to.
    pub login: Option<String>,
    /// The variable that has the token; by default `JIRA_API_TOKEN`.
    pub token_env: Option<String>,
    /// The file that has the token. Other users of the machine must not be able to read it.
    pub token_file: Option<String>,
    /// The command that prints the token, as a list of words.
    pub token_command: Option<Vec<String>>,
    /// Certificates to trust in addition to the machine's own, as PEM.
    pub ca_file: Option<String>,
}

impl TrackerSection {
    pub fn token_source(&self) -> TokenSource<'_> {
        TokenSource {
            section: "tracker",
            env: self.token_env.as_ref(),
            file: self.token_file.as_ref(),
            command: self.token_command.as_ref(),
        }
    }

    /// Returns the address of the API, if the section is complete.
    pub fn api(&self) -> Option<String> {
        let url = self.url.as_ref()?.trim_end_matches('/');
        let version = match self.kind? {
            TrackerKindName::Jira => "/rest/api/3",
            TrackerKindName::JiraDataCenter => "/rest/api/2",
        };
        let root = url.strip_suffix(version).unwrap_or(url);
        Some(format!("{root}{version}"))
    }

    /// Lists all problems of the section.
    pub fn problems(&self) -> Vec<String> {
        if *self == Self::default() {
            return Vec::new();
        }
        let mut problems = self.token_source().problems();
        if self.kind.is_none() {
            problems.push(
                "tracker.kind is missing: write kind = \"jira\" or kind = \"jira_data_center\""
                    .to_owned(),
            );
        }
        match &self.url {
            None => problems.push(
                "tracker.url is missing: write url = \"https://example.atlassian.net\"".to_owned(),
            ),
            Some(url) if !is_safe_address(url) => problems.push(format!(
                "tracker.url {url:?} is not an https address: a token is sent over https only"
            )),
            Some(_) => {}
        }
        let login = self.login.as_deref().unwrap_or_default();
        match self.kind {
            Some(TrackerKindName::Jira) if !login.contains('@') || login.contains(':') => problems
                .push(
                    "tracker.login is missing: Jira Cloud wants the e-mail address of the token's account"
                        .to_owned(),
                ),
            Some(TrackerKindName::JiraDataCenter) if self.login.is_some() => problems.push(
                "tracker.login is for Jira Cloud only: a personal access token needs none".to_owned(),
            ),
            _ => {}
        }
        problems
    }

    /// Returns the variables that no agent gets.
    pub fn secret_variables(&self) -> Vec<&str> {
        let named = self.token_env.iter().map(String::as_str);
        let is_named = self.token_source().is_named();
        let usual = JIRA_VARIABLES.into_iter().filter(|_| !is_named);
        named.chain(usual).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> TrackerSection {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_address_of_the_api_follows_the_kind() {
        let cloud = "kind = \"jira\"\nurl = \"https://x.atlassian.net/\"\nlogin = \"a@x.org\"\n";
        assert_eq!(section(cloud).problems(), [""; 0]);
        let api = section(cloud).api();
        assert_eq!(api.as_deref(), Some("https://x.atlassian.net/rest/api/3"));
        let own = "kind = \"jira_data_center\"\nurl = \"https://x.org/jira\"\ntoken_env = \"T\"\n";
        assert_eq!(section(own).problems(), [""; 0]);
        let api = section(own).api();
        assert_eq!(api.as_deref(), Some("https://x.org/jira/rest/api/2"));
    }

    #[test]
    fn problems_are_named() {
        assert_eq!(section("").problems(), [""; 0]);
        for (text, word) in [
            ("url = \"https://x.org\"", "tracker.kind"),
            ("kind = \"jira_data_center\"", "tracker.url"),
            (
                "kind = \"jira_data_center\"\nurl = \"http://x.org\"",
                "https",
            ),
            ("kind = \"jira\"\nurl = \"https://x.org\"", "e-mail"),
            (
                "kind = \"jira_data_center\"\nurl = \"https://x.org\"\nlogin = \"a@b\"",
                "Cloud only",
            ),
            (
                "kind = \"jira_data_center\"\nurl = \"https://x.org\"\ntoken_command = []",
                "token_command is empty",
            ),
        ] {
            let problems = section(text).problems();
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{text}: {problems:?}"
            );
        }
    }
}
