//! Finds the forge of a remote: by configuration, then by a well-known host, then by a host that a
//! login exists for. It never guesses: a token sent to the wrong kind of server is a leaked token.

use serde::{Deserialize, Serialize};

/// Kind of a forge or tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgeKind {
    Github,
    Gitlab,
    /// Forgejo and Gitea, which have the same API.
    Gitea,
    Jira,
}

impl ForgeKind {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "github" => Some(Self::Github),
            "gitlab" => Some(Self::Gitlab),
            "gitea" | "forgejo" => Some(Self::Gitea),
            "jira" => Some(Self::Jira),
            _ => None,
        }
    }

    /// Path of the API below the address of a self-hosted server.
    fn api_path(self) -> &'static str {
        match self {
            Self::Github => "/api/v3",
            Self::Gitlab => "/api/v4",
            Self::Gitea => "/api/v1",
            Self::Jira => "/rest/api/3",
        }
    }
}

/// A configured forge.
#[derive(Clone, Debug)]
pub struct ForgeRule {
    pub kind: ForgeKind,
    /// Host of the remotes that it is for; without it, all remotes.
    pub host: Option<String>,
    /// Address of the API, if it is not at its usual place on the host.
    pub api: Option<String>,
    /// `owner/name`, if the remote does not say it.
    pub repository: Option<String>,
}

/// A forge, the address of its API, and the repository on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeLocation {
    pub kind: ForgeKind,
    pub api: String,
    pub repository: String,
    pub origin: LocationOrigin,
}

/// Reason why a host counts as a forge of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationOrigin {
    Configured,
    WellKnown,
    Authenticated,
}

/// Reason why a remote has no forge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownForge {
    #[error("{0:?} is not the address of a repository on a forge")]
    NoAddress(String),
    #[error("{0} is not a known forge: name its kind in [forge]")]
    UnknownHost(String),
    #[error("{0:?} names no repository as OWNER/NAME")]
    NoRepository(String),
    #[error("{0:?} is not an https address")]
    NoApi(String),
}

/// Host and path of a remote, without credentials. `None` for a directory or an unknown scheme.
pub fn parse_remote(remote: &str) -> Option<(String, String)> {
    let (authority, path) = match remote.split_once("://") {
        Some(("https" | "http" | "ssh" | "git+ssh", rest)) => rest.split_once('/')?,
        Some(_) => return None,
        None if remote.starts_with(['/', '.', '-']) => return None,
        None => remote
            .split_once(':')
            .filter(|(host, _)| !host.contains('/'))?,
    };
    let host = authority.rsplit('@').next()?;
    let is_web = remote.starts_with("http");
    // The port of ssh says nothing about the web server.
    let host = match host.rsplit_once(':') {
        Some((name, _)) if !is_web => name,
        _ => host,
    };
    let host = host.to_ascii_lowercase();
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_matches('/');
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '~');
    let valid = !host.is_empty()
        && host.chars().all(is_host)
        && !path.is_empty()
        && path.chars().all(is_path)
        && !path.split('/').any(|part| matches!(part, "" | "." | ".."));
    valid.then(|| (host, path.to_owned()))
}

/// Resolves a remote to its forge. `authenticated` lists hosts that a forge's own tool has a login
/// for.
pub fn resolve_forge(
    remote: &str,
    rules: &[ForgeRule],
    authenticated: &[(String, ForgeKind)],
) -> Result<ForgeLocation, UnknownForge> {
    let parsed = parse_remote(remote);
    let host = parsed.as_ref().map(|(host, _)| web_host(host));
    let fits = |rule: &&ForgeRule| {
        let wanted = rule.host.as_deref().map(str::to_ascii_lowercase);
        wanted.is_none() || wanted.as_deref() == host
    };
    if let Some(rule) = rules.iter().find(fits) {
        return configured(rule, remote, parsed.as_ref());
    }
    let shown = || remote.rsplit('@').next().unwrap_or_default().to_owned();
    let (Some((_, path)), Some(host)) = (&parsed, host) else {
        return Err(UnknownForge::NoAddress(shown()));
    };
    let known = well_known(host).map(|(kind, api)| (kind, api, LocationOrigin::WellKnown));
    let login = || {
        let (_, kind) = authenticated.iter().find(|(name, _)| name == host)?;
        let api = format!("https://{host}{}", kind.api_path());
        Some((*kind, api, LocationOrigin::Authenticated))
    };
    let found = known.or_else(login);
    let (kind, api, origin) = found.ok_or_else(|| UnknownForge::UnknownHost(host.to_owned()))?;
    Ok(ForgeLocation {
        kind,
        api,
        repository: repository(kind, path)?,
        origin,
    })
}

fn configured(
    rule: &ForgeRule,
    remote: &str,
    parsed: Option<&(String, String)>,
) -> Result<ForgeLocation, UnknownForge> {
    let shown = || remote.rsplit('@').next().unwrap_or_default().to_owned();
    let host = rule
        .host
        .as_deref()
        .or(parsed.map(|(host, _)| web_host(host)));
    let api = match (&rule.api, host) {
        (Some(api), _) => api.trim_end_matches('/').to_owned(),
        (None, Some(host)) => match well_known(host) {
            Some((kind, api)) if kind == rule.kind => api,
            _ => format!("https://{host}{}", rule.kind.api_path()),
        },
        (None, None) => return Err(UnknownForge::NoAddress(shown())),
    };
    if !is_safe_address(&api) {
        return Err(UnknownForge::NoApi(api));
    }
    let path = match (&rule.repository, parsed) {
        (Some(repository), _) => repository.clone(),
        // A server below a path has that path in its remotes too.
        (None, Some((_, path))) => {
            let prefix = below_path(&api, rule.kind);
            let rest = path.strip_prefix(&prefix).unwrap_or(path);
            rest.trim_start_matches('/').to_owned()
        }
        (None, None) => return Err(UnknownForge::NoAddress(shown())),
    };
    Ok(ForgeLocation {
        kind: rule.kind,
        repository: repository(rule.kind, &path)?,
        api,
        origin: LocationOrigin::Configured,
    })
}

fn below_path(api: &str, kind: ForgeKind) -> String {
    let rest = api.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let usual = kind.api_path().trim_start_matches('/');
    let path = path.strip_suffix(usual).unwrap_or_default();
    let path = path.trim_matches('/');
    match path {
        "" => String::new(),
        path => format!("{path}/"),
    }
}

/// Returns whether a token may be sent to the address: over TLS, or to this machine.
pub fn is_safe_address(api: &str) -> bool {
    let authority = |rest: &str| rest.split(['/', '?', '#']).next().unwrap_or("").to_owned();
    match api.split_once("://") {
        Some(("https", rest)) => {
            let host = authority(rest);
            !host.is_empty() && !host.contains('@')
        }
        Some(("http", rest)) => {
            let host = authority(rest);
            let local = ["localhost", "127.0.0.1", "[::1]"];
            local
                .iter()
                .any(|name| host == *name || host.starts_with(&format!("{name}:")))
        }
        _ => false,
    }
}

/// Returns the host that the remotes of a configured forge have, and the address of its API. `url`
/// is the address of the server or of its API; without it, the kind's public service is meant.
pub fn server_of(kind: ForgeKind, url: Option<&str>) -> Result<(String, String), UnknownForge> {
    let Some(url) = url.map(|url| url.trim_end_matches('/')) else {
        let host = match kind {
            ForgeKind::Github => "github.com",
            ForgeKind::Gitlab => "gitlab.com",
            // These kinds have no usual public service.
            ForgeKind::Gitea | ForgeKind::Jira => return Err(UnknownForge::NoApi(String::new())),
        };
        let known = well_known(host).ok_or_else(|| UnknownForge::UnknownHost(host.to_owned()))?;
        return Ok((host.to_owned(), known.1));
    };
    if !is_safe_address(url) {
        return Err(UnknownForge::NoApi(url.to_owned()));
    }
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.to_ascii_lowercase();
    let public = host.strip_prefix("api.").unwrap_or(&host);
    if let Some((known, api)) = well_known(public).filter(|_| path.is_empty()) {
        let fits = known == kind;
        let wrong = || UnknownForge::UnknownHost(host.clone());
        return fits.then(|| (public.to_owned(), api)).ok_or_else(wrong);
    }
    let usual = kind.api_path();
    let api = if url.ends_with(usual) {
        url.to_owned()
    } else {
        format!("{url}{usual}")
    };
    Ok((host, api))
}

/// Hosts that only serve ssh belong to another name.
fn web_host(host: &str) -> &str {
    match host {
        "ssh.github.com" | "www.github.com" => "github.com",
        "altssh.gitlab.com" => "gitlab.com",
        host => host,
    }
}

fn well_known(host: &str) -> Option<(ForgeKind, String)> {
    match host {
        "github.com" => Some((ForgeKind::Github, "https://api.github.com".to_owned())),
        "gitlab.com" => Some((ForgeKind::Gitlab, "https://gitlab.com/api/v4".to_owned())),
        "codeberg.org" | "gitea.com" => Some((ForgeKind::Gitea, format!("https://{host}/api/v1"))),
        host => {
            let name = host.strip_suffix(".ghe.com")?;
            let plain = !name.is_empty() && !name.contains(['.', ':']);
            plain.then(|| (ForgeKind::Github, format!("https://api.{host}")))
        }
    }
}

fn repository(kind: ForgeKind, path: &str) -> Result<String, UnknownForge> {
    let parts = path.split('/').count();
    let fits = match kind {
        ForgeKind::Github | ForgeKind::Gitea => parts == 2,
        ForgeKind::Gitlab => parts >= 2,
        ForgeKind::Jira => true,
    };
    if fits {
        Ok(path.to_owned())
    } else {
        Err(UnknownForge::NoRepository(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolved(remote: &str) -> Result<(ForgeKind, String, String), UnknownForge> {
        let authenticated = [("git.example".to_owned(), ForgeKind::Gitea)];
        let found = resolve_forge(remote, &[], &authenticated)?;
        Ok((found.kind, found.api, found.repository))
    }

    #[test]
    fn well_known_and_authenticated_hosts_are_found() {
        for (remote, kind, api) in [
            (
                "https://github.com/o/r.git",
                ForgeKind::Github,
                "https://api.github.com",
            ),
            (
                "git@github.com:o/r.git",
                ForgeKind::Github,
                "https://api.github.com",
            ),
            (
                "ssh://git@ssh.github.com:443/o/r",
                ForgeKind::Github,
                "https://api.github.com",
            ),
            (
                "https://token@GitHub.com/o/r/",
                ForgeKind::Github,
                "https://api.github.com",
            ),
            (
                "https://acme.ghe.com/o/r",
                ForgeKind::Github,
                "https://api.acme.ghe.com",
            ),
            (
                "https://codeberg.org/o/r",
                ForgeKind::Gitea,
                "https://codeberg.org/api/v1",
            ),
            (
                "ssh://git@git.example:2222/o/r.git",
                ForgeKind::Gitea,
                "https://git.example/api/v1",
            ),
        ] {
            assert_eq!(
                resolved(remote),
                Ok((kind, api.to_owned(), "o/r".to_owned())),
                "{remote}"
            );
        }
        let nested = resolved("https://gitlab.com/a/b/c.git").unwrap();
        assert_eq!(nested.2, "a/b/c");
    }

    #[test]
    fn nothing_is_guessed() {
        for remote in [
            "https://github.com.evil.example/o/r",
            "https://evil.example/github.com/o/r",
            "https://evil-github.com/o/r",
            "https://x.y.ghe.com/o/r",
            "https://gitlab.example/o/r",
            "https://github.com/o",
            "https://github.com/o/r/x",
            "https://github.com/o/../r",
            "https://github.com:o@evil.example/o/r",
            "/srv/github.com/o/r",
            "ext::github.com:o/r",
            "",
        ] {
            assert!(resolved(remote).is_err(), "{remote}");
        }
    }

    #[test]
    fn configuration_wins_and_knows_paths() {
        let rule =
            |kind, host: Option<&str>, api: Option<&str>, repository: Option<&str>| ForgeRule {
                kind,
                host: host.map(str::to_owned),
                api: api.map(str::to_owned),
                repository: repository.map(str::to_owned),
            };
        let ghes = [rule(ForgeKind::Github, Some("git.example"), None, None)];
        let authenticated = [("git.example".to_owned(), ForgeKind::Gitea)];
        let found = resolve_forge("git@git.example:o/r", &ghes, &authenticated).unwrap();
        assert_eq!(
            (found.kind, found.api.as_str()),
            (ForgeKind::Github, "https://git.example/api/v3")
        );
        assert_eq!(found.origin, LocationOrigin::Configured);
        let below = [rule(
            ForgeKind::Gitlab,
            None,
            Some("https://h.example/gitlab/api/v4/"),
            None,
        )];
        let found = resolve_forge("https://h.example/gitlab/a/b.git", &below, &[]).unwrap();
        assert_eq!(
            (found.api.as_str(), found.repository.as_str()),
            ("https://h.example/gitlab/api/v4", "a/b")
        );
        let local = [rule(
            ForgeKind::Github,
            None,
            Some("http://127.0.0.1:9/api/v3"),
            Some("o/r"),
        )];
        assert_eq!(
            resolve_forge("/srv/r.git", &local, &[]).unwrap().repository,
            "o/r"
        );
        for api in [
            "http://git.example/api/v3",
            "ftp://h",
            "https://me@h",
            "http://localhost.evil/x",
        ] {
            let unsafe_rule = [rule(ForgeKind::Github, None, Some(api), Some("o/r"))];
            assert!(
                resolve_forge("/srv/r.git", &unsafe_rule, &[]).is_err(),
                "{api}"
            );
        }
    }

    #[test]
    fn a_configured_server_has_its_host_and_its_api() {
        let github = ForgeKind::Github;
        for (url, host, api) in [
            (None, "github.com", "https://api.github.com"),
            (
                Some("https://GitHub.com/"),
                "github.com",
                "https://api.github.com",
            ),
            (
                Some("https://api.github.com"),
                "github.com",
                "https://api.github.com",
            ),
            (
                Some("https://git.example"),
                "git.example",
                "https://git.example/api/v3",
            ),
            (
                Some("https://git.example/api/v3/"),
                "git.example",
                "https://git.example/api/v3",
            ),
            (
                Some("http://127.0.0.1:8080"),
                "127.0.0.1:8080",
                "http://127.0.0.1:8080/api/v3",
            ),
        ] {
            let wanted = (host.to_owned(), api.to_owned());
            assert_eq!(server_of(github, url), Ok(wanted), "{url:?}");
        }
        assert!(server_of(github, Some("http://git.example")).is_err());
        assert!(server_of(github, Some("https://codeberg.org")).is_err());
        assert!(server_of(ForgeKind::Gitea, None).is_err());
    }

    proptest! {
        #[test]
        fn a_token_goes_to_no_host_that_the_remote_does_not_name(remote in "(https://|git@|ssh://)?[a-z@:./-]{0,12}(github.com)?[a-z@:./-]{0,12}") {
            if let Ok((_, api, _)) = resolved(&remote) {
                let (host, _) = parse_remote(&remote).unwrap();
                prop_assert!(api.contains(web_host(&host)), "{} {}", remote, api);
                let errors = format!("{:?}", resolve_forge(&remote, &[], &[]));
                prop_assert!(!errors.is_empty());
            }
        }
    }
}
