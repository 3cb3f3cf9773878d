//! Finds the server to use: from a flag, the environment, or the user's `server.toml`. A file with
//! a token is refused if others can read it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::read_bounded;
use crate::failure::Failure;

/// Name of the file, next to the user's `config.toml`.
const NAME: &str = "server.toml";
/// Maximum size of the file.
const BYTES_MAX: usize = 64 * 1024;
/// Value of the flag that turns a configured server off and uses this machine's store.
const NO_SERVER: &str = "none";

/// Address of a server, and the rule that verifies its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    pub url: String,
    pub trust: ServerTrust,
}

impl ServerAddress {
    /// Tells whether the address is one of this machine, so that paths mean the same on both sides.
    pub fn is_local(&self) -> bool {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default();
        let name = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let address = name.parse::<std::net::IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
    }
}

/// Rule that verifies the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// Accepts certificates from authorities that this machine trusts or that are in the file.
    Authorities(Option<PathBuf>),
    /// Accepts only the certificate with this SHA-256.
    Pinned(String),
}

/// Server settings after flag, environment and file are merged.
#[derive(Clone, Debug, Default)]
pub struct ServerSettings {
    pub address: Option<ServerAddress>,
    pub token: Option<String>,
    /// True if the address comes from the command line.
    pub by_flag: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerConfigFile {
    url: Option<String>,
    token: Option<String>,
    certificate: Option<PathBuf>,
}

/// Values of the environment variables.
#[derive(Debug, Default)]
pub struct ServerVariables {
    pub url: Option<String>,
    pub token: Option<String>,
    pub certificate: Option<String>,
}

/// Merges the sources: a flag wins over the environment, and that over the file.
pub fn resolve(
    flag: Option<String>,
    variables: ServerVariables,
    user_file: Option<&Path>,
) -> Result<ServerSettings, Failure> {
    let by_flag = flag.is_some();
    if flag.as_deref() == Some(NO_SERVER) {
        return Ok(ServerSettings {
            address: None,
            token: variables.token,
            by_flag,
        });
    }
    let path = user_file.map(|file| file.with_file_name(NAME));
    let file = match path.filter(|path| path.exists()) {
        Some(path) => read(&path)?,
        None => ServerConfigFile::default(),
    };
    // A token in the file is only for the address in the file.
    let address_from_file = flag.is_none() && variables.url.is_none();
    let url = flag.or(variables.url).or(file.url);
    let authorities = variables
        .certificate
        .map(PathBuf::from)
        .or(file.certificate);
    Ok(ServerSettings {
        address: url
            .map(|url| parse_address(&url, authorities))
            .transpose()?,
        token: variables.token.or(file.token.filter(|_| address_from_file)),
        by_flag,
    })
}

fn read(path: &Path) -> Result<ServerConfigFile, Failure> {
    let name = path.display();
    let text = read_bounded(path, "the file", BYTES_MAX)?;
    let text = String::from_utf8_lossy(&text);
    let file: ServerConfigFile = toml::from_str(&text).map_err(|error| {
        Failure::usage(format!("{name}: {}", error.message()))
            .hint("it can have url, token and certificate")
    })?;
    let is_open = std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0);
    if file.token.is_some() && is_open {
        let why = format!("{name} has a token, and other users can read the file");
        return Err(Failure::usage(why).hint(format!("chmod 600 {name}")));
    }
    Ok(file)
}

/// Parses an address. Without TLS only this machine is accepted, because the token would be sent
/// unencrypted.
fn parse_address(url: &str, authorities: Option<PathBuf>) -> Result<ServerAddress, Failure> {
    let url = url.trim_end_matches('/');
    let bad = |why: &str| {
        Failure::usage(format!("{url:?} is not the address of a server: {why}"))
            .hint("write https://name:port, or `none` to use this machine's own store")
    };
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| bad("it has no https://"))?;
    if rest.is_empty() || rest.contains(['/', '?', '#', '@']) {
        return Err(bad("only a name and a port are allowed"));
    }
    let is_local = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| rest == *name || rest.starts_with(&format!("{name}:")));
    match scheme {
        "https" => {}
        "http" if is_local => {}
        "http" => return Err(bad("your token would be sent unencrypted; use https")),
        _ => return Err(bad("it must begin with https:// or http://")),
    }
    Ok(ServerAddress {
        url: url.to_owned(),
        trust: ServerTrust::Authorities(authorities),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(url: &str) -> ServerVariables {
        ServerVariables {
            url: Some(url.to_owned()),
            ..ServerVariables::default()
        }
    }

    #[test]
    fn a_token_goes_in_the_clear_to_this_machine_only() {
        for good in [
            "http://127.0.0.1:7420",
            "http://localhost:7420/",
            "http://[::1]:1",
            "https://build.example",
        ] {
            let found = resolve(None, told(good), None).unwrap();
            assert_eq!(found.address.unwrap().url, good.trim_end_matches('/'));
        }
        for bad in [
            "http://build.example:7420",
            "http://localhost.evil.example",
            "ftp://localhost",
            "localhost:7420",
            "https://",
            "https://me@build.example",
            "https://build.example/path",
        ] {
            assert!(resolve(None, told(bad), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_flag_goes_before_the_environment_and_may_say_none() {
        let found = resolve(Some("https://a".to_owned()), told("https://b"), None).unwrap();
        assert_eq!(found.address.unwrap().url, "https://a");
        let found = resolve(Some("none".to_owned()), told("https://b"), None).unwrap();
        assert!(found.address.is_none());
    }
}
