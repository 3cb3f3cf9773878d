//! Parses the head of a request to the proxy strictly: it refuses any ambiguous request.
//!
//! The host that is checked must be the host that is reached. Wherever two parsers could disagree,
//! the request is refused rather than repaired.

use crate::sandbox::hosts::Destination;

/// Methods that are forwarded in plain HTTP.
const PLAIN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Headers that are meant for a proxy or that we set ourselves; they are not forwarded.
const OURS: [&str; 6] = [
    "host",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "upgrade",
];

#[derive(Debug, PartialEq, Eq)]
pub struct ProxyRequest {
    pub host: String,
    pub port: u16,
    pub kind: ProxyRequestKind,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ProxyRequestKind {
    Tunnel,
    /// The head that is sent to the server.
    Plain(Vec<u8>),
}

/// Parses the head of a request. The error is the reason for a refusal.
pub fn parse_request(head: &[u8]) -> Result<ProxyRequest, &'static str> {
    let text = str::from_utf8(head).map_err(|_| "the request is not UTF-8")?;
    let text = text
        .strip_suffix("\r\n\r\n")
        .ok_or("the request has no end")?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    // Splitting at single spaces refuses two spaces and tabs, which servers read differently.
    let [method, target, version]: [&str; 3] = first
        .split(' ')
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "the request line does not have three parts")?;
    if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return Err("only HTTP/1.1 and HTTP/1.0 are supported");
    }
    let headers: Vec<(&str, &str)> = lines.map(parse_header).collect::<Result<_, _>>()?;
    if method == "CONNECT" {
        let (host, port) = parse_authority(target, None)?;
        let kind = ProxyRequestKind::Tunnel;
        return Ok(ProxyRequest { host, port, kind });
    }
    if !PLAIN.contains(&method) {
        return Err("only CONNECT and plain HTTP methods are supported");
    }
    parse_plain_request(method, target, version, &headers)
}

fn parse_plain_request(
    method: &str,
    target: &str,
    version: &str,
    headers: &[(&str, &str)],
) -> Result<ProxyRequest, &'static str> {
    let scheme = target.get(..7).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err("this is a proxy: use the full address, http://HOST/PATH, or CONNECT");
    }
    let rest = &target[7..];
    // The authority ends at the first of these, so a host cannot hide behind `?` or `#`.
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = parse_authority(&rest[..end], Some(80))?;
    let path = match &rest[end..] {
        "" => "/".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path if path.starts_with('/') => path.to_owned(),
        _ => return Err("the address has a fragment"),
    };
    let count = |name: &str| {
        let matching = headers
            .iter()
            .filter(|(header, _)| header.eq_ignore_ascii_case(name));
        matching.count()
    };
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    if lengths + codings > 1 || count("host") > 1 {
        // Two lengths could be read in two ways (request smuggling).
        return Err("the request repeats a header that must appear once");
    }
    // The `Host` header is written again from the checked target: a different one could reach
    // another site on the same address.
    let target = Destination::new(&host, port);
    // One request per connection: everything after the head is relayed without another check.
    let mut head = format!("{method} {path} {version}\r\nHost: {target}\r\nConnection: close\r\n");
    for (name, value) in headers {
        if !OURS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            head.extend([*name, ": ", *value, "\r\n"]);
        }
    }
    head.push_str("\r\n");
    let kind = ProxyRequestKind::Plain(head.into_bytes());
    Ok(ProxyRequest { host, port, kind })
}

fn parse_header(line: &str) -> Result<(&str, &str), &'static str> {
    let (name, value) = line.split_once(':').ok_or("a header has no colon")?;
    // A space before the colon, or a folded line, is a known way to smuggle a header.
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(of_name) {
        return Err("a header has an invalid name");
    }
    if value
        .bytes()
        .any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f)
    {
        return Err("a header has a control character");
    }
    Ok((name, value.trim_matches([' ', '\t'])))
}

/// Parses `host:port` or `[address]:port`. The port is optional if there is a default.
fn parse_authority(text: &str, default_port: Option<u16>) -> Result<(String, u16), &'static str> {
    const BAD: &str = "the target is not a valid host and port";
    let (name, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (address, rest) = inner.split_once(']').ok_or(BAD)?;
            // An address in brackets must be one; anything else could be read in two ways.
            address.parse::<std::net::Ipv6Addr>().map_err(|_| BAD)?;
            (address, rest)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    // No `@`, `/` or `%`: a user part or an escape would hide the real host.
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(of_name) {
        return Err(BAD);
    }
    let port = match (rest.strip_prefix(':'), default_port) {
        (Some(port), _) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().map_err(|_| BAD)?
        }
        (None, Some(default_port)) if rest.is_empty() => default_port,
        _ => return Err(BAD),
    };
    if port == 0 {
        return Err(BAD);
    }
    // Host names have no case, but comparisons do.
    Ok((name.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(text: &str) -> Result<(String, u16), &'static str> {
        parse_request(text.as_bytes()).map(|request| (request.host, request.port))
    }

    #[test]
    fn a_tunnel_and_a_plain_request_are_understood() {
        let tunnel = told("CONNECT API.example.com:443 HTTP/1.1\r\nHost: other\r\n\r\n");
        assert_eq!(tunnel, Ok(("api.example.com".to_owned(), 443)));
        let six = told("CONNECT [::1]:8080 HTTP/1.1\r\n\r\n");
        assert_eq!(six, Ok(("::1".to_owned(), 8080)));
        let text = "POST http://a.example/x?y=1 HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\nContent-Length: 2\r\nX-A:  b \r\n\r\n";
        let Ok(ProxyRequest {
            host,
            port,
            kind: ProxyRequestKind::Plain(head),
        }) = parse_request(text.as_bytes())
        else {
            panic!("not understood")
        };
        assert_eq!((host.as_str(), port), ("a.example", 80));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /x?y=1 HTTP/1.1\r\nHost: a.example:80\r\nConnection: close\r\nContent-Length: 2\r\nX-A: b\r\n\r\n"
        );
        assert_eq!(
            told("GET http://a.example?q HTTP/1.0\r\n\r\n").unwrap().1,
            80
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "",
            "\r\n\r\n",
            "CONNECT a.example HTTP/1.1\r\n\r\n",
            "CONNECT a.example:0 HTTP/1.1\r\n\r\n",
            "CONNECT a.example:+443 HTTP/1.1\r\n\r\n",
            "CONNECT a.example:443:1 HTTP/1.1\r\n\r\n",
            "CONNECT a.example:99999 HTTP/1.1\r\n\r\n",
            "CONNECT u@a.example:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.example:443/x HTTP/1.1\r\n\r\n",
            "CONNECT  a.example:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.example:443 HTTP/2\r\n\r\n",
            "CONNECT a.example:443\r\n\r\n",
            "CONNECT a\0.example:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.example%2e:443 HTTP/1.1\r\n\r\n",
            "CONNECT [a.example]:443 HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "GET http:/a.example/ HTTP/1.1\r\n\r\n",
            "GET http://u:p@a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example#x HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "TRACE http://a.example/ HTTP/1.1\r\n\r\n",
            "connect a.example:443 HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\rHost: c\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        ] {
            assert!(told(text).is_err(), "{text:?}");
        }
        assert!(parse_request(b"CONNECT \xff.example:443 HTTP/1.1\r\n\r\n").is_err());
    }

    proptest! {
        #[test]
        fn nothing_breaks_it_and_the_host_is_one_the_list_can_be_compared_with(
            method in "(CONNECT|GET|POST|[A-Z ]{0,8})",
            target in "(http://)?[ -~]{0,40}",
            more in "[ -~\r\n]{0,60}",
        ) {
            let text = format!("{method} {target} HTTP/1.1\r\n{more}\r\n\r\n");
            if let Ok((host, port)) = told(&text) {
                prop_assert!(port > 0);
                prop_assert!(!host.is_empty());
                prop_assert!(host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b)));
                // The headers never change the host: it is always the one in the target.
                prop_assert!(target.to_ascii_lowercase().contains(&host));
            }
        }

        #[test]
        fn bytes_do_not_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(parse_request(&bytes));
        }
    }
}
