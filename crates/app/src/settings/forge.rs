//! `[forge]`: the server that has the pull requests. The configuration never has the token: it names
//! the variable or the file that has it, and it is read when it is needed.
//!
//! The section belongs into the user's own file. A repository that could name a server would get the
//! user's token sent there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forge::ForgeToken;
use forge::address::{
    ForgeKind, ForgeLocation, ForgeRule, LocationOrigin, UnknownForge, parse_remote, resolve_forge,
    server_of,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Environment, inherited_variables, read_bounded};
use crate::failure::Failure;

const TOKEN_BYTES_MAX: usize = 4096;
const LOGINS_BYTES_MAX: usize = 64 * 1024;
/// Permissions of a file that other users of the machine have.
const OTHERS_MODE: u32 = 0o077;
/// Variables of the token for github.com, as GitHub's own tool reads them.
const PUBLIC_VARIABLES: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
/// Variables of the token for another GitHub server.
const ENTERPRISE_VARIABLES: [&str; 2] = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];

/// Kinds of forges that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForgeKindName {
    Github,
}

impl ForgeKindName {
    fn kind(self) -> ForgeKind {
        match self {
            Self::Github => ForgeKind::Github,
        }
    }
}

/// The forge that has the pull requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForgeSection {
    /// The kind of the server: github, for github.com and GitHub Enterprise Server.
    pub kind: Option<ForgeKindName>,
    /// The address of the server or of its API; by default the public service of its kind.
    pub url: Option<String>,
    /// OWNER/NAME, if the repository's remote does not say it, or is a fork of it.
    pub repository: Option<String>,
    /// The variable that has the token.
    pub token_env: Option<String>,
    /// The file that has the token. Other users of the machine must not be able to read it.
    pub token_file: Option<String>,
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
            problems.push("forge.kind is missing: write kind = \"github\"".to_owned());
            return problems;
        };
        match server_of(kind.kind(), self.url.as_deref()) {
            Err(UnknownForge::NoApi(url)) => problems.push(format!(
                "forge.url {url:?} is not an https address: a token is sent over https only"
            )),
            Err(error) => problems.push(format!("forge.url: {error}")),
            Ok((host, _)) if host != "github.com" && !self.names_token() => problems.push(format!(
                "forge.url is a server of its own ({host}): name its token with token_env or token_file"
            )),
            Ok(_) => {}
        }
        if self.token_env.is_some() && self.token_file.is_some() {
            problems.push("forge.token_env and forge.token_file exclude each other".to_owned());
        }
        if let Some(repository) = &self.repository
            && repository
                .split('/')
                .filter(|part| !part.is_empty())
                .count()
                != 2
        {
            problems.push(format!("forge.repository {repository:?} is not OWNER/NAME"));
        }
        problems
    }

    fn names_token(&self) -> bool {
        self.token_env.is_some() || self.token_file.is_some()
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

    /// Reads the token for a location, and says where it comes from. The configured token is for the
    /// configured server and for no other.
    pub fn token(&self, location: &ForgeLocation) -> Result<(ForgeToken, String), Failure> {
        let is_configured = location.origin == LocationOrigin::Configured;
        if is_configured && let Some(file) = &self.token_file {
            return read_token_file(file);
        }
        let names: Vec<&str> = match (&self.token_env, location.kind) {
            (Some(name), _) if is_configured => vec![name],
            (_, ForgeKind::Github) if location.api == "https://api.github.com" => {
                PUBLIC_VARIABLES.to_vec()
            }
            (_, ForgeKind::Github) => ENTERPRISE_VARIABLES.to_vec(),
            _ => Vec::new(),
        };
        let set = inherited_variables(names.iter().copied()).into_iter();
        let mut set = set.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let Some((name, value)) = set.next() else {
            let missing = match names.as_slice() {
                [] => "no variable or file is named for the token".to_owned(),
                names => format!("the variable {} is not set", names.join(" or ")),
            };
            return Err(
                Failure::usage(format!("no token for {}: {missing}", location.api))
                    .hint("set it, or name a file of mode 600 with token_file in [forge]"),
            );
        };
        let token = value.to_str().and_then(ForgeToken::new);
        let token = token.ok_or_else(|| {
            Failure::usage(format!(
                "the variable {name} has no token: it is not one word of ASCII"
            ))
        })?;
        Ok((token, format!("variable {name}")))
    }

    /// Returns the variables that no agent gets: they have, or may have, the token of a forge.
    pub fn secret_variables(&self) -> Vec<&str> {
        self.token_env.iter().map(String::as_str).collect()
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
            "no remote of this repository is {repository}, which [forge] names"
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

/// Reads a token from a file that only its owner can read.
fn read_token_file(file: &str) -> Result<(ForgeToken, String), Failure> {
    let path = PathBuf::from(file);
    require_private(&path, "the token file")?;
    let bytes = read_bounded(&path, "the token file", TOKEN_BYTES_MAX)?;
    let token = std::str::from_utf8(&bytes).ok().and_then(ForgeToken::new);
    let token = token
        .ok_or_else(|| Failure::usage(format!("the token file {file} is not one word of ASCII")))?;
    Ok((token, format!("file {file}")))
}

/// Returns whether a variable has the token of a forge by its usual name.
pub fn is_token_variable(name: &str) -> bool {
    PUBLIC_VARIABLES.contains(&name) || ENTERPRISE_VARIABLES.contains(&name)
}

/// Returns the hosts for which GitHub's own tool has a login. Only the names are read.
pub fn tool_logins(environment: &Environment) -> Vec<(String, ForgeKind)> {
    let config_dir = environment
        .user_file
        .as_ref()
        .and_then(|file| file.parent()?.parent());
    let Some(path) = config_dir.map(|dir| dir.join("gh/hosts.yml")) else {
        return Vec::new();
    };
    let Ok(bytes) = read_bounded(&path, "the logins of gh", LOGINS_BYTES_MAX) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let hosts: BTreeMap<String, serde_json::Value> =
        serde_saphyr::from_str(&text).unwrap_or_default();
    let hosts = hosts.into_keys().map(|host| host.to_ascii_lowercase());
    hosts.map(|host| (host, ForgeKind::Github)).collect()
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

    #[test]
    fn the_token_of_a_configured_server_goes_to_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        engine::private_files::write(&file, "secret-token\n").unwrap();
        let text = format!(
            "kind = \"github\"\nurl = \"https://git.example\"\ntoken_file = {:?}\n",
            file.to_str().unwrap()
        );
        let section = section(&text);
        let remote = |url: &str| section.locate(&[url.to_owned()], &[]).unwrap().location;
        let (token, origin) = section.token(&remote("https://git.example/o/r")).unwrap();
        assert_eq!(token.redact("secret-token"), "[token]");
        assert!(origin.starts_with("file ") && !format!("{token:?}").contains("secret"));
        let public = section.token(&remote("https://github.com/o/r"));
        assert!(public.map_or(true, |(token, _)| token.redact("secret-token") != "[token]"));
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let failure = section
            .token(&remote("https://git.example/o/r"))
            .unwrap_err();
        assert!(failure.message.contains("other users"), "{failure:?}");
    }
}
