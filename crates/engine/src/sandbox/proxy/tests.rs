//! Tests the proxy over real sockets on loopback: it reaches listed hosts and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream as Std;
use std::thread;

use super::*;

/// Starts a server that answers every connection with the first bytes it received.
fn echo() -> u16 {
    let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).unwrap_or(0);
                let text = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ngot:{}",
                    String::from_utf8_lossy(&chunk[..count])
                );
                drop(stream.write_all(text.as_bytes()));
            });
        }
    });
    port
}

fn proxy(hosts: &[String]) -> (RunningProxy, u16) {
    let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut allowed = ProxyRules::for_hosts(hosts.iter().map(|host| host.parse().unwrap()));
    allowed.port = port;
    let proxy = Proxy {
        allowed,
        source: ListenerSource::Own(listener),
        upstream: None,
    };
    (proxy.start(), port)
}

async fn ask(port: u16, text: String) -> String {
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = Std::connect(("127.0.0.1", port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut said = Vec::new();
        // A connection that is cut off has sent enough.
        drop(stream.read_to_end(&mut said));
        String::from_utf8_lossy(&said).into_owned()
    });
    asked.await.unwrap()
}

#[tokio::test]
async fn a_named_host_is_reached_by_a_tunnel_and_in_plain() {
    let server = echo();
    let (serving, port) = proxy(&[format!("127.0.0.1:{server}")]);
    let tunnel = format!("CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\nhello");
    let said = ask(port, tunnel).await;
    assert!(
        said.starts_with("HTTP/1.1 200 Connection established\r\n\r\n"),
        "{said}"
    );
    assert!(said.ends_with("got:hello"), "{said}");
    let plain = format!(
        "POST http://127.0.0.1:{server}/v1 HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"
    );
    let said = ask(port, plain).await;
    assert!(
        said.contains(&format!(
            "got:POST /v1 HTTP/1.1\r\nHost: 127.0.0.1:{server}\r\n"
        )),
        "{said}"
    );
    assert!(!said.contains("Proxy-Connection"), "{said}");
    assert_eq!(serving.refused(), []);
}

#[tokio::test]
async fn everything_else_is_refused_and_counted() {
    let (named, other) = (echo(), echo());
    let (serving, port) = proxy(&[format!("127.0.0.1:{named}"), "a.invalid".to_owned()]);
    for target in [
        format!("127.0.0.1:{other}"),
        format!("localhost:{named}"),
        format!("127.1:{named}"),
        format!("[::ffff:127.0.0.1]:{named}"),
        "93.184.216.34:443".to_owned(),
        "b.invalid:443".to_owned(),
        "a.invalid:22".to_owned(),
        "x.a.invalid:443".to_owned(),
    ] {
        let said = ask(port, format!("CONNECT {target} HTTP/1.1\r\n\r\nhello")).await;
        assert!(said.starts_with("HTTP/1.1 403 "), "{target}: {said}");
        assert!(said.contains("[policy.network]"), "{said}");
    }
    let again = ask(port, "GET http://b.invalid/ HTTP/1.1\r\n\r\n".to_owned()).await;
    assert!(again.starts_with("HTTP/1.1 403 "), "{again}");
    let refused = serving.refused();
    assert_eq!(refused.len(), 9, "{refused:?}");
    assert!(
        refused
            .iter()
            .any(|one| one.host == "b.invalid:443" && one.times == 1)
    );
    // A listed host that does not exist is not counted as refused.
    let gone = ask(port, "CONNECT a.invalid:443 HTTP/1.1\r\n\r\n".to_owned()).await;
    assert!(gone.starts_with("HTTP/1.1 502 "), "{gone}");
    assert_eq!(serving.refused().len(), 9);
}

#[tokio::test]
async fn what_is_no_request_is_told_so_and_a_long_head_is_not_read_on() {
    let (serving, port) = proxy(&[]);
    let said = ask(port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned()).await;
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    let long = format!(
        "CONNECT a.invalid:443 HTTP/1.1\r\nX: {}",
        "x".repeat(HEAD_BYTES_MAX)
    );
    let said = ask(port, long).await;
    assert!(
        said.is_empty() || said.starts_with("HTTP/1.1 431 "),
        "{said}"
    );
    assert_eq!(serving.refused(), []);
}

#[tokio::test]
async fn refusals_are_counted_up_to_a_bound() {
    let (serving, _) = proxy(&[]);
    for number in 0..200 {
        serving
            .state
            .count_refused(&format!("h{number}.invalid"), 443);
    }
    let refused = serving.refused();
    assert_eq!(refused.len(), REFUSED_HOSTS_MAX + 1);
    assert_eq!(refused[0].host, "others");
    assert_eq!(refused.iter().map(|one| one.times).sum::<u64>(), 200);
}

#[tokio::test]
async fn an_upstream_proxy_is_the_way_on_but_not_to_this_machine() {
    let (server, upstream) = (echo(), echo());
    let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut proxy = Proxy {
        allowed: ProxyRules {
            port,
            ..ProxyRules::for_hosts([
                "a.invalid".parse().unwrap(),
                format!("127.0.0.1:{server}").parse().unwrap(),
            ])
        },
        source: ListenerSource::Own(listener),
        upstream: None,
    };
    let mut env = vec![
        (
            "HTTPS_PROXY".into(),
            format!("http://127.0.0.1:{upstream}").into(),
        ),
        ("PATH".into(), "/bin".into()),
    ];
    proxy.set_proxy_variables(&mut env);
    let ours = format!("http://127.0.0.1:{port}");
    let value = |name: &str| {
        env.iter()
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(value("HTTPS_PROXY"), [OsString::from(&ours)]);
    assert_eq!(value("https_proxy"), [OsString::from(&ours)]);
    assert_eq!(value("PATH"), ["/bin"]);
    let _serving = proxy.start();
    // The echo server accepts every tunnel and then returns the request.
    let said = ask(port, "CONNECT a.invalid:443 HTTP/1.1\r\n\r\n".to_owned()).await;
    assert!(
        said.contains("got:CONNECT a.invalid:443 HTTP/1.1\r\nHost: a.invalid:443"),
        "{said}"
    );
    let said = ask(
        port,
        format!("CONNECT 127.0.0.1:{server} HTTP/1.1\r\n\r\nhello"),
    )
    .await;
    assert!(said.ends_with("got:hello"), "{said}");
}

#[test]
fn a_forward_never_takes_the_proxy_s_own_port() {
    let mut proxied = ProxyRules::for_hosts([format!("localhost:{PORT}").parse().unwrap()]);
    assert_eq!(proxied.forwards, [PORT]);
    assert_ne!(proxied.port, PORT);
    let before = proxied.port;
    proxied.allow_host(Destination::new("127.0.0.1", before));
    assert!(!proxied.forwards.contains(&proxied.port));
    for port in 1..100 {
        proxied.allow_host(Destination::new("127.0.0.1", 5000 + port));
    }
    assert_eq!(proxied.forwards.len(), FORWARDS_MAX);
}
