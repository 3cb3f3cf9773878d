//! `[forge]`: the server that has the pull requests. The configuration never has the token: it names
//! the variable or the file that has it, and it is read when it is needed.
//!
//! The section belongs into the user's own file. A repository that could name a server would get the
//! user's token sent there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forge::ForgeCredential;
use forge::address::{
    ForgeKind, ForgeLocation, ForgeRule, LocationOrigin, UnknownForge, parse_remote, resolve_forge,
    server_of,
};
use forge::app_auth::AppCredential;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forge_token::{CommandPlace, TokenSource, read_app_key};
use super::tracker::JIRA_VARIABLES;
use super::{Environment, inherited_variables, read_bounded};
use crate::failure::Failure;

const LOGINS_BYTES_MAX: usize = 64 * 1024;
/// Permissions of a file that other users of the machine have.
const OTHERS_MODE: u32 = 0o077;
/// Variables of the token for github.com, as GitHub's own tool reads them.
const PUBLIC_VARIABLES: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
/// Variables of the token for another GitHub server.
const ENTERPRISE_VARIABLES: [&str; 2] = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

/// Variables of the token for gitlab.com, and of the host that they are for.
const GITLAB_VARIABLES: [&str; 1] = ["GITLAB_TOKEN"];
const GITLAB_HOST_VARIABLES: [&str; 2] = ["GITLAB_HOST", "GL_HOST"];

/// Kinds of forges that can be configured. These are words of a file and not `ForgeKind`, which
/// knows no files: Jira is missing, because it has no pull requests, and Forgejo and Gitea are two
/// words for one adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForgeKindName {
    Github,
    Gitlab,
    Forgejo,
    Gitea,
}

impl ForgeKindName {
    pub fn kind(self) -> ForgeKind {
        match self {
            Self::Github => ForgeKind::Github,
            Self::Gitlab => ForgeKind::Gitlab,
            Self::Forgejo | Self::Gitea => ForgeKind::Gitea,
        }
    }
}

/// The forge that has the pull requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForgeSection {
    /// The kind of the server: github, gitlab, forgejo or gitea.
    pub kind: Option<ForgeKindName>,
    /// The address of the server or of its API; by default the public service of its kind.
    pub url: Option<String>,
    /// OWNER/NAME, or GROUP/…/NAME on GitLab, if the repository's remote does not say it, or is a fork of it.
    pub repository: Option<String>,
    /// The variable that has the token.
    pub token_env: Option<String>,
    /// The file that has the token. Other users of the machine must not be able to read it.
    pub token_file: Option<String>,
    /// The command that prints the token, as a list of words.
    pub token_command: Option<Vec<String>>,
    /// The client id or the number of a GitHub App, instead of a token.
    pub app_id: Option<String>,
    /// The file that has the private key of the App. Others must not be able to read it.
    pub app_key_file: Option<String>,
    /// The number of the App's installation, if it is not that of the repository.
    pub installation: Option<u64>,
    /// Certificates to trust in addition to the machine's own, as PEM.
    pub ca_file: Option<String>,
}

/// A repository on its forge, and the address to fetch from.
#[derive(Clone, Debug)]
pub struct ForgeRepository {
    pub location: ForgeLocation,
    /// Address of the remote that belongs to it.
    pub remote: Option<String>,
    /// True if the remote is on the forge's own host, so that the token is meant for it.
    pub remote_is_forge: bool,
}

impl ForgeSection {
    /// Lists all problems of the section.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if *self == Self::default() {
            return problems;
        }
        let Some(kind) = self.kind else {
            problems.push(
                "forge.kind is missing: write kind = \"github\", \"gitlab\", \"forgejo\" or \"gitea\""
                    .to_owned(),
            );
            return problems;
        };
        match server_of(kind.kind(), self.url.as_deref()) {
            Err(UnknownForge::NoApi(url)) if url.is_empty() => problems.push(
                "forge.url is missing: this kind of server has no usual address".to_owned(),
            ),
            Err(UnknownForge::NoApi(url)) => problems.push(format!(
                "forge.url {url:?} is not an https address: a token is sent over https only"
            )),
            Err(error) => problems.push(format!("forge.url: {error}")),
            Ok((host, _)) if !is_public(&host) && !self.names_token() => problems.push(format!(
                "forge.url is a server of its own ({host}): name its token with token_env, token_file or token_command"
            )),
            Ok(_) => {}
        }
        problems.extend(self.token_source().problems());
        problems.extend(self.app_problem(kind));
        if let Some(repository) = &self.repository {
            let parts = repository
                .split('/')
                .filter(|part| !part.is_empty())
                .count();
            let fits = parts == 2 || (parts > 2 && kind == ForgeKindName::Gitlab);
            if !fits {
                problems.push(format!("forge.repository {repository:?} is not OWNER/NAME"));
            }
        }
        problems
    }

    fn app_problem(&self, kind: ForgeKindName) -> Option<String> {
        let has_app = self.app_id.is_some();
        match () {
            () if has_app != self.app_key_file.is_some() => Some(
                "forge.app_id and forge.app_key_file belong together: the App and its private key"
                    .to_owned(),
            ),
            () if !has_app && self.installation.is_some() => {
                Some("forge.installation is for an App: name it with app_id".to_owned())
            }
            () if has_app && kind != ForgeKindName::Github => {
                Some("forge.app_id is for GitHub only".to_owned())
            }
            () if has_app && self.token_source().is_named() => {
                Some("forge.app_id and a token exclude each other".to_owned())
            }
            () => None,
        }
    }

    fn token_source(&self) -> TokenSource<'_> {
        TokenSource {
            section: "forge",
            env: self.token_env.as_ref(),
            file: self.token_file.as_ref(),
            command: self.token_command.as_ref(),
        }
    }

    fn names_token(&self) -> bool {
        self.token_source().is_named() || self.app_id.is_some()
    }

    /// Finds the forge of a repository by its remotes (`origin` first): the configured one, then a
    /// well-known host, then a host with a login. A host that is none of these is an error.
    pub fn locate(
        &self,
        remotes: &[String],
        logins: &[(String, ForgeKind)],
    ) -> Result<ForgeRepository, Failure> {
        let rule = self.kind.map(|kind| self.rule(kind.kind())).transpose()?;
        let hosted = |remote: &&String| parse_remote(remote).is_some();
        if let Some(rule) = &rule
            && let Some(repository) = &self.repository
        {
            return locate_named(rule, repository, remotes);
        }
        let Some(remote) = remotes.iter().find(hosted) else {
            return Err(Failure::usage("no remote of this repository is on a forge")
                .hint("name it in your own file: [forge] kind = \"github\", repository = \"OWNER/NAME\""));
        };
        let location = resolve_forge(remote, rule.as_slice(), logins).map_err(|error| {
            Failure::usage(error)
                .hint("put [forge] with kind, url and token_env into ~/.config/countersign/config.toml; see docs/forges.md")
        })?;
        Ok(ForgeRepository {
            location,
            remote: Some(remote.clone()),
            remote_is_forge: true,
        })
    }

    fn rule(&self, kind: ForgeKind) -> Result<ForgeRule, Failure> {
        let server = server_of(kind, self.url.as_deref());
        let (host, api) = server.map_err(|error| Failure::usage(format!("forge.url: {error}")))?;
        Ok(ForgeRule {
            kind,
            host: Some(host),
            api: Some(api),
            repository: None,
        })
    }

    /// Reads the credential for a location, and says where it comes from. What is configured is for
    /// the configured server and for no other.
    pub async fn credential(
        &self,
        place: CommandPlace<'_>,
        location: &ForgeLocation,
    ) -> Result<(ForgeCredential, String), Failure> {
        let is_configured = location.origin == LocationOrigin::Configured;
        if is_configured && let (Some(id), Some(file)) = (&self.app_id, &self.app_key_file) {
            let key = read_app_key(id, file, self.installation)?;
            let app = AppCredential::new(key, &location.repository);
            return Ok((ForgeCredential::App(app), format!("App {id} with {file}")));
        }
        let unnamed = TokenSource {
            env: None,
            file: None,
            command: None,
            ..self.token_source()
        };
        let source = if is_configured {
            self.token_source()
        } else {
            unnamed
        };
        let usual = usual_variables(location);
        let read = source.read(place, &location.api, usual);
        let (token, origin) = read.await?;
        Ok((token.into(), origin))
    }

    /// Returns the variables that no agent gets: they have, or may have, the token of a forge.
    pub fn secret_variables(&self) -> Vec<&str> {
        let named = self.token_env.iter().map(String::as_str);
        // Without a named token, those that the tools of the forges read are asked for one.
        let usual = [
            &PUBLIC_VARIABLES[..],
            &ENTERPRISE_VARIABLES,
            &GITLAB_VARIABLES,
        ]
        .concat();
        let usual = usual.into_iter().filter(|_| !self.names_token());
        named.chain(usual).collect()
    }
}

/// Finds the remote of a repository that is named in the configuration. It may be another than
/// `origin`, which is often a fork.
fn locate_named(
    rule: &ForgeRule,
    repository: &str,
    remotes: &[String],
) -> Result<ForgeRepository, Failure> {
    let rule = ForgeRule {
        repository: Some(repository.to_owned()),
        ..rule.clone()
    };
    let rules = std::slice::from_ref(&rule);
    let any = ForgeRule {
        host: None,
        ..rule.clone()
    };
    let on_forge = |remote: &&String| {
        let plain = ForgeRule {
            repository: None,
            ..rule.clone()
        };
        let found = resolve_forge(remote, &[plain], &[]);
        found.is_ok_and(|found| {
            found.origin == LocationOrigin::Configured
                && found.repository.eq_ignore_ascii_case(repository)
        })
    };
    let located = |remote: &str, rules: &[ForgeRule]| {
        resolve_forge(remote, rules, &[]).map_err(Failure::usage)
    };
    if let Some(remote) = remotes.iter().find(on_forge) {
        return Ok(ForgeRepository {
            location: located(remote, rules)?,
            remote: Some(remote.clone()),
            remote_is_forge: true,
        });
    }
    // A directory may be a copy of the repository; a remote on a host is another repository.
    let directory = remotes
        .iter()
        .find(|remote| Path::new(remote).is_absolute());
    if directory.is_none() && !remotes.is_empty() {
        return Err(Failure::usage(format!(
            "no remote of this repository is {repository} on {}, which [forge] names",
            rule.host.as_deref().unwrap_or("that server")
        ))
        .hint(
            "add it with `git remote add upstream ADDRESS`, or remove `repository` from [forge]",
        ));
    }
    Ok(ForgeRepository {
        location: located("", &[any])?,
        remote: directory.cloned(),
        remote_is_forge: false,
    })
}

/// Refuses a file with a secret that other users of the machine can read.
pub fn require_private(path: &Path, what: &str) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & OTHERS_MODE != 0) {
        let file = path.display();
        return Err(Failure::usage(format!(
            "{what} {file} can be read by other users of this machine"
        ))
        .hint(format!("chmod 600 {file}")));
    }
    Ok(())
}

/// Returns the variables of the token that the forge's own tool reads. They are for the public service,
/// or for a GitHub server of one's own.
fn usual_variables(location: &ForgeLocation) -> &'static [&'static str] {
    match location.kind {
        ForgeKind::Github if location.api == "https://api.github.com" => &PUBLIC_VARIABLES,
        ForgeKind::Github => &ENTERPRISE_VARIABLES,
        ForgeKind::Gitlab if location.api == "https://gitlab.com/api/v4" => {
            // The variable is for the host of the other one, if that is set.
            let host = inherited_variables(GITLAB_HOST_VARIABLES.into_iter());
            let is_public = host.iter().all(|(_, host)| {
                let host = host.to_string_lossy();
                host.trim_start_matches("https://").trim_end_matches('/') == "gitlab.com"
            });
            if is_public { &GITLAB_VARIABLES } else { &[] }
        }
        ForgeKind::Gitlab | ForgeKind::Gitea | ForgeKind::Jira => &[],
    }
}

fn is_public(host: &str) -> bool {
    matches!(host, "github.com" | "gitlab.com")
}

/// Returns whether a variable has the token of a forge by its usual name.
pub fn is_token_variable(name: &str) -> bool {
    [
        &PUBLIC_VARIABLES[..],
        &ENTERPRISE_VARIABLES,
        &GITLAB_VARIABLES,
        &JIRA_VARIABLES,
        &["FORGEJO_TOKEN", "GITEA_TOKEN"],
    ]
    .iter()
    .any(|names| names.contains(&name))
}

/// Names of the hosts in a file of logins.
#[derive(Debug, Default, Deserialize)]
struct GlabLogins {
    #[serde(default)]
    hosts: BTreeMap<String, serde_json::Value>,
}

/// Returns the hosts for which the tools of GitHub and GitLab have a login. Only the names are read.
pub fn tool_logins(environment: &Environment) -> Vec<(String, ForgeKind)> {
    let config_dir = environment
        .user_file
        .as_ref()
        .and_then(|file| file.parent()?.parent());
    let Some(config_dir) = config_dir else {
        return Vec::new();
    };
    let text = |name: &str| {
        let bytes = read_bounded(&config_dir.join(name), "the logins", LOGINS_BYTES_MAX);
        bytes
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    let gh: Option<BTreeMap<String, serde_json::Value>> =
        text("gh/hosts.yml").and_then(|text| serde_saphyr::from_str(&text).ok());
    let glab: Option<GlabLogins> =
        text("glab-cli/config.yml").and_then(|text| serde_saphyr::from_str(&text).ok());
    let gh = gh
        .unwrap_or_default()
        .into_keys()
        .map(|host| (host, ForgeKind::Github));
    let glab = glab.unwrap_or_default().hosts.into_keys();
    let glab = glab.map(|host| (host, ForgeKind::Gitlab));
    gh.chain(glab)
        .map(|(host, kind)| (host.to_ascii_lowercase(), kind))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> ForgeSection {
        toml::from_str(text).unwrap()
    }

    fn located(text: &str, remotes: &[&str]) -> Result<(String, String), String> {
        let remotes: Vec<String> = remotes.iter().map(|&remote| remote.to_owned()).collect();
        let logins = [("ghes.example".to_owned(), ForgeKind::Github)];
        let found = section(text).locate(&remotes, &logins);
        found
            .map(|found| (found.location.api, found.location.repository))
            .map_err(|failure| failure.message)
    }

    #[test]
    fn no_agent_gets_a_variable_that_may_have_the_token() {
        let unnamed = section("");
        let secret = unnamed.secret_variables();
        for name in [
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "GH_ENTERPRISE_TOKEN",
            "GITLAB_TOKEN",
        ] {
            assert!(secret.contains(&name), "{name}");
        }
        // With a named token, the others belong to somebody else.
        let named = section("kind = \"github\"\ntoken_env = \"T\"\n");
        assert_eq!(named.secret_variables(), ["T"]);
    }

    #[test]
    fn configuration_goes_before_known_hosts_and_those_before_logins() {
        let public = ("https://api.github.com".to_owned(), "o/r".to_owned());
        assert_eq!(located("", &["git@github.com:o/r.git"]), Ok(public.clone()));
        let ghes = ("https://ghes.example/api/v3".to_owned(), "o/r".to_owned());
        assert_eq!(located("", &["https://ghes.example/o/r"]), Ok(ghes));
        let own = "kind = \"github\"\nurl = \"https://git.example\"\ntoken_env = \"T\"\n";
        let there = ("https://git.example/api/v3".to_owned(), "o/r".to_owned());
        assert_eq!(located(own, &["https://git.example/o/r"]), Ok(there));
        // A configured server does not change what another host is.
        assert_eq!(located(own, &["https://github.com/o/r"]), Ok(public));
    }

    #[test]
    fn no_host_is_guessed() {
        assert!(located("", &["https://git.example/o/r"]).is_err());
        assert!(located("kind = \"github\"", &["https://git.example/o/r"]).is_err());
        assert!(located("", &["/srv/r.git"]).is_err());
        let named = "kind = \"github\"\nrepository = \"o/r\"\n";
        assert!(located(named, &["https://github.com/me/r"]).is_err());
        assert!(located(named, &["https://evil.example/o/r"]).is_err());
        let fork = &["https://github.com/me/r", "https://github.com/o/r.git"];
        assert_eq!(located(named, fork).unwrap().1, "o/r");
        assert_eq!(located(named, &["/srv/r.git"]).unwrap().1, "o/r");
    }

    #[test]
    fn problems_are_named() {
        assert_eq!(section("").problems(), [""; 0]);
        assert_eq!(section("kind = \"github\"").problems(), [""; 0]);
        for (text, word) in [
            ("url = \"https://git.example\"", "forge.kind"),
            ("kind = \"github\"\nurl = \"http://git.example\"", "https"),
            (
                "kind = \"github\"\nurl = \"https://git.example\"",
                "token_env",
            ),
            ("kind = \"github\"\nrepository = \"r\"", "OWNER/NAME"),
            (
                "kind = \"github\"\ntoken_env = \"A\"\ntoken_file = \"/b\"",
                "exclude",
            ),
        ] {
            let problems = section(text).problems();
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{text}: {problems:?}"
            );
        }
    }

    #[tokio::test]
    async fn the_token_of_a_configured_server_goes_to_no_other() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        engine::private_files::write(&file, "secret-token\n").unwrap();
        let place = CommandPlace {
            path: "/bin".as_ref(),
            home: dir.path(),
        };
        let text = format!(
            "kind = \"github\"\nurl = \"https://git.example\"\ntoken_file = {:?}\n",
            file.to_str().unwrap()
        );
        let section = section(&text);
        let remote = |url: &str| section.locate(&[url.to_owned()], &[]).unwrap().location;
        let own = remote("https://git.example/o/r");
        let (token, origin) = section.credential(place, &own).await.unwrap();
        assert!(origin.starts_with("file ") && !format!("{token:?}").contains("secret"));
        let ForgeCredential::Token(token) = token else {
            panic!("{token:?}");
        };
        assert_eq!(token.redact("secret-token"), "[token]");
        for other in [
            "https://github.com/o/r",
            "https://gitlab.com/o/r",
            "https://codeberg.org/o/r",
        ] {
            match section.credential(place, &remote(other)).await {
                Ok((ForgeCredential::Token(token), origin)) => {
                    assert!(token.redact("secret-token") != "[token]", "{origin}");
                }
                Ok((other, _)) => panic!("{other:?}"),
                Err(failure) => assert!(failure.message.contains("no token"), "{failure:?}"),
            }
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let failure = section.credential(place, &own).await.unwrap_err();
        assert!(failure.message.contains("other users"), "{failure:?}");
    }

    #[test]
    fn every_kind_has_its_rules() {
        for fine in [
            "kind = \"gitlab\"",
            "kind = \"gitlab\"\nrepository = \"a/b/c\"",
            "kind = \"forgejo\"\nurl = \"https://codeberg.org\"\ntoken_env = \"T\"",
            "kind = \"gitea\"\nurl = \"https://git.example/sub\"\ntoken_command = [\"pass\", \"x\"]",
            "kind = \"github\"\napp_id = \"Iv1\"\napp_key_file = \"/k\"\ninstallation = 7",
        ] {
            assert_eq!(section(fine).problems(), [""; 0], "{fine}");
        }
        for (text, word) in [
            ("kind = \"forgejo\"", "forge.url is missing"),
            ("kind = \"github\"\nrepository = \"a/b/c\"", "OWNER/NAME"),
            ("kind = \"github\"\napp_id = \"1\"", "belong together"),
            ("kind = \"github\"\ninstallation = 1", "installation"),
            (
                "kind = \"gitlab\"\napp_id = \"1\"\napp_key_file = \"/k\"",
                "GitHub only",
            ),
            (
                "kind = \"github\"\napp_id = \"1\"\napp_key_file = \"/k\"\ntoken_env = \"T\"",
                "exclude",
            ),
            (
                "kind = \"gitlab\"\nurl = \"https://github.com\"",
                "github.com",
            ),
        ] {
            let problems = section(text).problems();
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{text}: {problems:?}"
            );
        }
        let own = "kind = \"gitlab\"\nurl = \"https://h.example/gitlab\"\ntoken_env = \"T\"\n";
        let found = located(own, &["https://h.example/gitlab/a/b/c.git"]).unwrap();
        assert_eq!(
            found,
            (
                "https://h.example/gitlab/api/v4".to_owned(),
                "a/b/c".to_owned()
            )
        );
    }
}
