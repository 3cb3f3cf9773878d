//! The address of another repository, in one of the forms that run no program of the address's choice.
//! A password in it is kept apart: it is in no argument, no record and no complaint.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Longer is no address.
const URL_CHARS_MAX: usize = 2_000;

/// Where to fetch from, and with which protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Without a password.
    pub url: String,
    pub protocol: &'static str,
    /// `Authorization: Basic …`, where the address came with a name and a password.
    pub header: Option<String>,
}

/// Without what is a password.
impl std::fmt::Debug for RemoteAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Address({})", self.protocol)
    }
}

impl RemoteAddress {
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = text.len() <= URL_CHARS_MAX && !text.contains(|c: char| c.is_control());
        let found = match text.split_once("://") {
            _ if !plain || text.starts_with('-') => None,
            Some(("https", rest)) => of_https(rest),
            Some(("ssh", rest)) => of_ssh(rest),
            Some(_) => None,
            None if Path::new(text).is_absolute() => Some(Self::plain(text, "file")),
            None => is_of_ssh(text).then(|| Self::plain(text, "ssh")),
        };
        found.ok_or_else(|| {
            let shown = shown(text);
            format!(
                "{shown:?} is no address to fetch from: https://…, ssh://…, user@host:path and a directory are"
            )
        })
    }

    fn plain(url: &str, protocol: &'static str) -> Self {
        Self {
            url: url.to_owned(),
            protocol,
            header: None,
        }
    }
}

/// An address as it may be kept and shown.
pub fn without_secret(text: &str) -> String {
    RemoteAddress::parse(text).map_or_else(|_| shown(text), |address| address.url)
}

/// What may be said of an address that is none: what stands before an `@` may be a password.
fn shown(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => text.chars().take(URL_CHARS_MAX).collect(),
    }
}

/// What comes before the host, the host, and what comes after it.
fn parts(rest: &str) -> Option<(Option<&str>, &str, &str)> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (who, host) = match authority.rsplit_once('@') {
        Some((who, host)) => (Some(who), host),
        None => (None, authority),
    };
    let sound =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']' | ':');
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']'));
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let is_host = !host.is_empty() && !host.starts_with('-') && host.chars().all(sound);
    (is_host && port.is_none_or(|(_, port)| is_port(port))).then_some((who, host, path))
}

/// A name alone may be a token, and is left out too: whose password it is, `~/.netrc` says.
fn of_https(rest: &str) -> Option<RemoteAddress> {
    let (who, host, path) = parts(rest)?;
    let secret = who.and_then(|who| who.split_once(':'));
    let header = secret.map(|(name, password)| {
        let both = [decoded(name), b":".to_vec(), decoded(password)].concat();
        format!("Authorization: Basic {}", BASE64.encode(both))
    });
    Some(RemoteAddress {
        header,
        ..RemoteAddress::plain(&format!("https://{host}{path}"), "https")
    })
}

/// ssh takes a name, and no password.
fn of_ssh(rest: &str) -> Option<RemoteAddress> {
    let (who, host, path) = parts(rest)?;
    let name = who.unwrap_or_default();
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with('-') || !name.chars().all(sound) {
        return None;
    }
    let at = if name.is_empty() { "" } else { "@" };
    let url = format!("ssh://{name}{at}{host}{path}");
    Some(RemoteAddress::plain(&url, "ssh"))
}

/// `user@host:path`, and nothing that git would take for another helper (`ext::…`).
fn is_of_ssh(text: &str) -> bool {
    let Some((host, path)) = text.split_once(':') else {
        return false;
    };
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    !path.is_empty() && !path.starts_with(':') && host.contains('@') && host.chars().all(sound)
}

/// `%40` is `@`; what is no such sign is itself.
fn decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let sign = after.get(..2).filter(|_| *first == b'%');
        let sign = sign.and_then(|two| std::str::from_utf8(two).ok());
        let hex = |two: &&str| two.chars().all(|c| c.is_ascii_hexdigit());
        let meant = sign
            .filter(hex)
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(meant.unwrap_or(*first));
        rest = if meant.is_some() { &after[2..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_runs_a_program_of_its_choice() {
        for fine in [
            "https://h/x.git",
            "https://[::1]:8443/x.git",
            "ssh://git@h/x",
            "ssh://h:2222/x",
            "git@h.example:x/y.git",
            "/srv/repos/x",
        ] {
            assert_eq!(RemoteAddress::parse(fine).unwrap().url, fine);
        }
        let wrong = [
            "",
            "ext::sh -c evil",
            "ext::x@y:z",
            "file:///etc",
            "git://h/x",
            "http://h/x",
            "--upload-pack=evil",
            "fd::3",
            "-oProxyCommand=evil@h:x",
            "ssh://-oProxyCommand=evil/x",
            "ssh://-l@h/x",
            "git@h::x",
            "https://h/\nx",
            "https:///x",
            "https://ada:pa/ss@h/x",
            "ssh://ada:pass@h/x",
        ];
        for wrong in wrong {
            let why = RemoteAddress::parse(wrong).unwrap_err();
            assert!(!why.contains("pa/ss") && !why.contains("pass@"), "{why}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_kept_apart() {
        let address = RemoteAddress::parse("https://ada:s%40crt@h:8443/x.git").unwrap();
        assert_eq!(address.url, "https://h:8443/x.git");
        let header = format!("Authorization: Basic {}", BASE64.encode("ada:s@crt"));
        assert_eq!(address.header.as_deref(), Some(header.as_str()));
        assert!(!format!("{address:?}").contains("crt"));
        let token = RemoteAddress::parse("https://ghp_token@h/x").unwrap();
        assert_eq!((token.url.as_str(), token.header), ("https://h/x", None));
    }
}
