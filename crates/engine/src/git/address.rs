//! The address of a remote repository, in one of the forms that cannot run a program of its choice.
//! A password in it is stored separately: it appears in no argument, record or error message.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Maximum length of an address.
const URL_CHARS_MAX: usize = 2_000;

/// Address to fetch from, and its protocol.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address without its password.
    pub url: String,
    pub protocol: &'static str,
    /// `Authorization: Basic …` header, if the address has a name and a password.
    pub header: Option<String>,
}

/// Omits the password.
impl std::fmt::Debug for RemoteAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Address({})", self.protocol)
    }
}

impl RemoteAddress {
    /// Parses an address; the error never contains its password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = text.len() <= URL_CHARS_MAX && !text.contains(|c: char| c.is_control());
        let address = match text.split_once("://") {
            _ if !plain || text.starts_with('-') => None,
            Some(("https", rest)) => parse_https(rest),
            Some(("ssh", rest)) => parse_ssh(rest),
            Some(_) => None,
            None if Path::new(text).is_absolute() => Some(Self::plain(text, "file")),
            None => is_scp_form(text).then(|| Self::plain(text, "ssh")),
        };
        address.ok_or_else(|| {
            let shown = redact_invalid_address(text);
            format!(
                "{shown:?} is not a valid address to fetch from; use https://…, ssh://…, user@host:path or a directory"
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

/// Returns an address that is safe to store and show.
pub fn without_secret(text: &str) -> String {
    RemoteAddress::parse(text).map_or_else(|_| redact_invalid_address(text), |address| address.url)
}

/// Returns the part of an invalid address that is safe to show: the text before an `@` may be a
/// password.
fn redact_invalid_address(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => text.chars().take(URL_CHARS_MAX).collect(),
    }
}

/// Splits into user info, host and path.
fn split_host(rest: &str) -> Option<(Option<&str>, &str, &str)> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user_info, host) = match authority.rsplit_once('@') {
        Some((user_info, host)) => (Some(user_info), host),
        None => (None, authority),
    };
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '[' | ']' | ':');
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']'));
    let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
    let is_host = !host.is_empty() && !host.starts_with('-') && host.chars().all(is_allowed);
    (is_host && port.is_none_or(|(_, port)| is_port(port))).then_some((user_info, host, path))
}

/// Parses an HTTPS address. A name without a password may be a token, so it is dropped too; git
/// finds the password in `~/.netrc`.
fn parse_https(rest: &str) -> Option<RemoteAddress> {
    let (user_info, host, path) = split_host(rest)?;
    let secret = user_info.and_then(|user_info| user_info.split_once(':'));
    let header = secret.map(|(name, password)| {
        let both = [
            percent_decode(name),
            b":".to_vec(),
            percent_decode(password),
        ]
        .concat();
        format!("Authorization: Basic {}", BASE64.encode(both))
    });
    Some(RemoteAddress {
        header,
        ..RemoteAddress::plain(&format!("https://{host}{path}"), "https")
    })
}

/// Parses an SSH address, which may have a name but no password.
fn parse_ssh(rest: &str) -> Option<RemoteAddress> {
    let (user_info, host, path) = split_host(rest)?;
    let name = user_info.unwrap_or_default();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with('-') || !name.chars().all(is_allowed) {
        return None;
    }
    let at = if name.is_empty() { "" } else { "@" };
    let url = format!("ssh://{name}{at}{host}{path}");
    Some(RemoteAddress::plain(&url, "ssh"))
}

/// Returns whether the text is `user@host:path`, and nothing that git would treat as another helper
/// (`ext::…`).
fn is_scp_form(text: &str) -> bool {
    let Some((host, path)) = text.split_once(':') else {
        return false;
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    !path.is_empty() && !path.starts_with(':') && host.contains('@') && host.chars().all(is_allowed)
}

/// Decodes percent escapes: `%40` is `@`. An invalid escape stays as it is.
fn percent_decode(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let escape = after.get(..2).filter(|_| *first == b'%');
        let escape = escape.and_then(|two| std::str::from_utf8(two).ok());
        let hex = |two: &&str| two.chars().all(|c| c.is_ascii_hexdigit());
        let byte = escape
            .filter(hex)
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
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
