//! `[server.oidc]`: the identity provider of a team, for the login to the dashboard. The
//! configuration never has the secret: it names the variable or the file that has it.
//!
//! The section belongs into the user's own file: a repository that could name a provider could let
//! strangers in.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flow::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{inherited_variables, read_bounded};
use crate::failure::Failure;

const SECRET_BYTES_MAX: usize = 4096;
/// Permissions of a file that other users of the machine have.
const OTHERS_MODE: u32 = 0o077;
/// Roles that a person in a browser can have, the strongest first.
const ROLES: [Role; 3] = [Role::Admin, Role::Human, Role::Viewer];

/// The dashboard of `serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSection {
    /// Login with an identity provider, by OIDC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcSection>,
}

/// The identity provider, and the people that it lets in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OidcSection {
    /// The address of the provider, as its discovery document has it.
    pub issuer: String,
    /// The id that the provider has for this server.
    pub client_id: String,
    /// The variable that has the client's secret. Without a secret the client is public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_env: Option<String>,
    /// The file that has the client's secret. Other users of the machine must not be able to read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_file: Option<String>,
    /// The address of this server as people write it; by default that of their request. The
    /// provider must know it with /login/callback at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Scopes besides openid, profile and email, such as groups.
    pub scopes: Vec<String>,
    /// The claim with the person's name; by default `email`, which must be verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_claim: Option<String>,
    /// The claim with the person's groups; by default `groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// Roles by group: admin, human or viewer.
    pub groups: BTreeMap<String, String>,
    /// Roles by verified e-mail address: ada@example.org, or *@example.org for all of a domain.
    pub emails: BTreeMap<String, String>,
    /// Certificates to trust in addition to the machine's own, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
}

/// A secret that is not printed.
#[derive(Clone)]
pub struct ClientSecret(pub String);

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ClientSecret")
    }
}

impl ServerSection {
    /// Lists all problems of the section.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.oidc.as_ref().map(OidcSection::problems);
        problems.unwrap_or_default()
    }

    /// Returns the variables that no agent gets.
    pub fn secret_variables(&self) -> Vec<&str> {
        let section = self.oidc.as_ref();
        let name = section.and_then(|section| section.client_secret_env.as_deref());
        name.into_iter().collect()
    }
}

impl OidcSection {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !is_safe_address(&self.issuer) {
            problems.push(format!(
                "server.oidc.issuer {:?} is not an https address",
                self.issuer
            ));
        }
        if self.client_id.is_empty() {
            problems.push("server.oidc.client_id is missing".to_owned());
        }
        if self.client_secret_env.is_some() && self.client_secret_file.is_some() {
            problems.push(
                "server.oidc.client_secret_env and server.oidc.client_secret_file exclude each other"
                    .to_owned(),
            );
        }
        if let Some(url) = &self.url
            && !is_safe_address(url)
        {
            problems.push(format!("server.oidc.url {url:?} is not an https address"));
        }
        if self.groups.is_empty() && self.emails.is_empty() {
            problems.push(
                "server.oidc lets nobody in: name groups or e-mail addresses with their roles"
                    .to_owned(),
            );
        }
        for role in self.groups.values().chain(self.emails.values()) {
            if parse_role(role).is_none() {
                problems.push(format!(
                    "server.oidc: {role:?} is not a role of a person; use admin, human or viewer"
                ));
            }
        }
        for email in self.emails.keys() {
            // `*@*` or `*` would let the whole world of a public provider in.
            let fits = email.split_once('@').is_some_and(|(name, domain)| {
                !domain.contains(['*', '@'])
                    && domain.contains('.')
                    && (name == "*" || !name.contains('*'))
                    && !name.is_empty()
            });
            if !fits {
                problems.push(format!(
                    "server.oidc.emails: {email:?} is neither an address nor *@DOMAIN"
                ));
            }
        }
        problems
    }

    /// Reads the client's secret; a public client has none.
    pub fn read_secret(&self) -> Result<Option<ClientSecret>, Failure> {
        if let Some(name) = &self.client_secret_env {
            let value = inherited_variables(std::iter::once(name.as_str()));
            let value = value.into_iter().next().map(|(_, value)| value);
            let text = value.and_then(|value| value.into_string().ok());
            return text.map(ClientSecret).map(Some).ok_or_else(|| {
                Failure::usage(format!(
                    "server.oidc: the variable {name} with the client's secret is not set"
                ))
            });
        }
        let Some(file) = &self.client_secret_file else {
            return Ok(None);
        };
        let path = PathBuf::from(file);
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.mode() & OTHERS_MODE != 0) {
            return Err(Failure::usage(format!(
                "server.oidc: the file {file} can be read by other users of this machine"
            ))
            .hint(format!("chmod 600 {file}")));
        }
        let bytes = read_bounded(Path::new(file), "the client's secret", SECRET_BYTES_MAX)?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        Ok(Some(ClientSecret(text)))
    }

    /// Returns the strongest role of a person, or `None` for a person who is not let in. The address
    /// counts only if the provider has verified it.
    pub fn role_of(&self, groups: &[String], verified_email: Option<&str>) -> Option<Role> {
        let of_groups = groups.iter().filter_map(|group| self.groups.get(group));
        let email = verified_email.map(str::to_ascii_lowercase);
        let of_email = self.emails.iter().filter(|(pattern, _)| {
            let pattern = pattern.to_ascii_lowercase();
            email.as_deref().is_some_and(|email| {
                match (pattern.strip_prefix("*@"), email.rsplit_once('@')) {
                    (Some(domain), Some((_, own))) => own == domain,
                    (Some(_), None) => false,
                    (None, _) => pattern == email,
                }
            })
        });
        let given: Vec<Role> = of_groups
            .chain(of_email.map(|(_, role)| role))
            .filter_map(|role| parse_role(role))
            .collect();
        ROLES.into_iter().find(|role| given.contains(role))
    }
}

fn parse_role(word: &str) -> Option<Role> {
    ROLES.into_iter().find(|role| role.as_str() == word)
}

/// Accepts `https` addresses, and `http` on this machine for tests.
pub fn is_safe_address(url: &str) -> bool {
    let host = |rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        !authority.is_empty() && !authority.contains('@')
    };
    if let Some(rest) = url.strip_prefix("https://") {
        return host(rest);
    }
    url.strip_prefix("http://").is_some_and(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let name = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        host(rest) && ["127.0.0.1", "localhost", "::1"].contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> OidcSection {
        toml::from_str(text).unwrap()
    }

    const WHOLE: &str = "issuer = \"https://id.example\"\nclient_id = \"c\"\n\
        groups = {ops = \"admin\", staff = \"viewer\"}\n\
        emails = {\"ada@example.org\" = \"human\", \"*@example.com\" = \"viewer\"}\n";

    #[test]
    fn the_strongest_role_counts_and_strangers_have_none() {
        let section = section(WHOLE);
        assert_eq!(section.problems(), [""; 0]);
        let role = |groups: &[&str], email: Option<&str>| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            section.role_of(&groups, email)
        };
        assert_eq!(role(&["staff", "ops"], None), Some(Role::Admin));
        assert_eq!(role(&["staff"], Some("Ada@Example.org")), Some(Role::Human));
        assert_eq!(role(&[], Some("x@example.com")), Some(Role::Viewer));
        for stranger in [
            "x@example.org",
            "x@evil-example.com",
            "x@example.com.evil.org",
            "ada@example.org@evil.org",
            "*@example.com.evil",
            "",
        ] {
            assert_eq!(role(&["Ops"], Some(stranger)), None, "{stranger}");
        }
        // An address that is not verified is not even passed on.
        assert_eq!(role(&[], None), None);
    }

    #[test]
    fn problems_are_named() {
        for (text, word) in [
            ("issuer = \"http://id.example\"", "https"),
            ("issuer = \"https://user@id.example\"", "https"),
            ("client_id = \"\"", "client_id"),
            ("groups = {}\nemails = {}", "nobody"),
            ("groups = {ops = \"builder\"}", "not a role"),
            ("emails = {\"*\" = \"human\"}", "neither"),
            ("emails = {\"*@*\" = \"human\"}", "neither"),
            ("emails = {\"a*@example.org\" = \"human\"}", "neither"),
            ("url = \"ftp://x\"", "url"),
            (
                "client_secret_env = \"A\"\nclient_secret_file = \"b\"",
                "exclude",
            ),
        ] {
            let key = text.split(' ').next().unwrap();
            let rest = WHOLE.lines().filter(|line| !line.starts_with(key));
            let rest: Vec<&str> = match key {
                "groups" if text.contains("emails") => {
                    rest.filter(|line| !line.starts_with("emails")).collect()
                }
                _ => rest.collect(),
            };
            let problems = section(&format!("{text}\n{}", rest.join("\n"))).problems();
            assert!(
                problems.len() == 1 && problems[0].contains(word),
                "{text}: {problems:?}"
            );
        }
        assert!(is_safe_address("http://127.0.0.1:4000/x"));
        for unsafe_one in [
            "http://127.0.0.1.evil.example",
            "http://localhost@evil.example",
            "https://",
            "//id.example",
        ] {
            assert!(!is_safe_address(unsafe_one), "{unsafe_one}");
        }
    }
}
