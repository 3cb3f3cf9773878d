//! Which server is spoken to, where one is: by a flag, the environment, or a file of the user's own
//! that is closed to others where it holds a token.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::read_bounded;
use crate::failure::Failure;

/// Beside the user's `config.toml`.
const NAME: &str = "server.toml";
/// A larger file is no configuration.
const BYTES_MAX: usize = 64 * 1024;
/// Said instead of an address: whatever is configured, this machine's own store.
const NONE: &str = "none";

/// A server, and how it is known to be the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    pub url: String,
    pub trust: ServerTrust,
}

/// Whom we believe that a server with TLS is who it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTrust {
    /// Those whom this machine trusts, and who signed one of the certificates in the file.
    Authorities(Option<PathBuf>),
    /// Who shows the certificate with this SHA-256, and nobody else.
    Only(String),
}

/// What was found, and what it was found in.
#[derive(Clone, Debug, Default)]
pub struct ServerSettings {
    pub place: Option<ServerAddress>,
    pub token: Option<String>,
    /// Named on the command line, for this call.
    pub by_flag: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ServerConfigFile {
    url: Option<String>,
    token: Option<String>,
    certificate: Option<PathBuf>,
}

/// What the environment says.
#[derive(Debug, Default)]
pub struct ServerVariables {
    pub url: Option<String>,
    pub token: Option<String>,
    pub certificate: Option<String>,
}

/// A flag goes before the environment, and that before the file.
pub fn find(
    flag: Option<String>,
    told: ServerVariables,
    user_file: Option<&Path>,
) -> Result<ServerSettings, Failure> {
    let by_flag = flag.is_some();
    if flag.as_deref() == Some(NONE) {
        return Ok(ServerSettings {
            place: None,
            token: told.token,
            by_flag,
        });
    }
    let path = user_file.map(|file| file.with_file_name(NAME));
    let written = match path.filter(|path| path.exists()) {
        Some(path) => read(&path)?,
        None => ServerConfigFile::default(),
    };
    // A token is for the server that it was written down with.
    let of_file = flag.is_none() && told.url.is_none();
    let url = flag.or(told.url).or(written.url);
    let authorities = told.certificate.map(PathBuf::from).or(written.certificate);
    Ok(ServerSettings {
        place: url.map(|url| place(&url, authorities)).transpose()?,
        token: told.token.or(written.token.filter(|_| of_file)),
        by_flag,
    })
}

fn read(path: &Path) -> Result<ServerConfigFile, Failure> {
    let name = path.display();
    let text = read_bounded(path, "the file", BYTES_MAX)?;
    let text = String::from_utf8_lossy(&text);
    let written: ServerConfigFile = toml::from_str(&text).map_err(|error| {
        Failure::usage(format!("{name}: {}", error.message()))
            .hint("it may have url, token and certificate")
    })?;
    let others = std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0);
    if written.token.is_some() && others {
        let why = format!("{name} holds a token and is open to others");
        return Err(Failure::usage(why).hint(format!("chmod 600 {name}")));
    }
    Ok(written)
}

/// A token is sent in the clear to nobody but this machine.
fn place(url: &str, authorities: Option<PathBuf>) -> Result<ServerAddress, Failure> {
    let url = url.trim_end_matches('/');
    let bad = |why: &str| {
        Failure::usage(format!("{url:?} is no server: {why}"))
            .hint("name one as https://name:port, or none for this machine's own store")
    };
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| bad("it is no address"))?;
    if rest.is_empty() || rest.contains(['/', '?', '#', '@']) {
        return Err(bad("a name and a port are wanted, and no more"));
    }
    let at_home = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| rest == *name || rest.starts_with(&format!("{name}:")));
    match scheme {
        "https" => {}
        "http" if at_home => {}
        "http" => return Err(bad("your token would be sent unencrypted; say https")),
        _ => return Err(bad("it begins with https:// or http://")),
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
            let found = find(None, told(good), None).unwrap();
            assert_eq!(found.place.unwrap().url, good.trim_end_matches('/'));
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
            assert!(find(None, told(bad), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_flag_goes_before_the_environment_and_may_say_none() {
        let found = find(Some("https://a".to_owned()), told("https://b"), None).unwrap();
        assert_eq!(found.place.unwrap().url, "https://a");
        let found = find(Some("none".to_owned()), told("https://b"), None).unwrap();
        assert!(found.place.is_none());
    }
}
