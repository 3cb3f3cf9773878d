//! TLS of the server's own: with a certificate made on the spot and a real client.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::Signal;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned,
};

use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{World, until};

/// A certificate for this machine that has signed itself, and where it lies.
pub struct Certificate {
    pub file: PathBuf,
    pub key: PathBuf,
    der: CertificateDer<'static>,
}

impl Certificate {
    pub fn new(world: &World) -> Self {
        Self::of(world, &["localhost", "127.0.0.1"])
    }

    /// One for these names.
    pub fn of(world: &World, names: &[&str]) -> Self {
        let (file, key) = (world.root().join("cert.pem"), world.root().join("key.pem"));
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        for (path, text) in [
            (&key, made.signing_key.serialize_pem()),
            (&file, made.cert.pem()),
        ] {
            // Put in place whole, as who renews certificates does.
            let aside = path.with_extension("new");
            fs::write(&aside, text).unwrap();
            fs::set_permissions(&aside, fs::Permissions::from_mode(0o600)).unwrap();
            fs::rename(&aside, path).unwrap();
        }
        let der = made.cert.der().clone();
        Self { file, key, der }
    }

    pub fn words(&self) -> [&str; 4] {
        let (file, key) = (self.file.to_str().unwrap(), self.key.to_str().unwrap());
        ["--tls-cert", file, "--tls-key", key]
    }

    /// For a server that shows it.
    pub fn server(&self) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.der.clone()], key);
        Arc::new(config.unwrap())
    }

    /// A client that trusts this certificate and nothing else.
    fn client(&self, inside: &[&[u8]]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = inside.iter().map(|name| name.to_vec()).collect();
        config
    }

    /// Returns the answer to a request; `None` if the server does not have this certificate.
    fn ask(&self, server: &Server<'_>) -> Option<String> {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(self.client(&[])), name).unwrap();
        let stream = TcpStream::connect(&server.address).unwrap();
        let mut stream = StreamOwned::new(client, stream);
        let bearer = format!("Authorization: Bearer {}", server.token);
        let head = "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close";
        stream
            .write_all(format!("{head}\r\n{bearer}\r\n\r\n").as_bytes())
            .ok()?;
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        Some(String::from_utf8_lossy(&said).into_owned())
    }
}

#[test]
fn a_certificate_of_its_own_is_served_and_renewed_without_a_restart() {
    let world = World::new();
    let first = Certificate::new(&world);
    let server = Server::start_with(&world, &first.words());
    assert!(first.ask(&server).unwrap().starts_with("HTTP/1.1 200"));
    let unencrypted = server.send("GET", "/healthz", &[], "");
    assert_eq!(unencrypted.status, 0, "{}", unencrypted.head);

    let second = Certificate::new(&world);
    signal(server.pid(), Signal::HUP);
    until("the new certificate is shown", || {
        second.ask(&server).is_some()
    });
    assert!(second.ask(&server).unwrap().starts_with("HTTP/1.1 200"));
    assert!(first.ask(&server).is_none());

    // One that cannot be used changes nothing.
    fs::write(&second.file, "nothing").unwrap();
    signal(server.pid(), Signal::HUP);
    assert!(second.ask(&server).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn who_speaks_http_2_is_answered_in_it() {
    use http_body_util::{BodyExt, Empty};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let world = World::new();
    let certificate = Certificate::new(&world);
    let server = Server::start_with(&world, &certificate.words());
    let answered = async {
        let stream = tokio::net::TcpStream::connect(&server.address).await;
        let name = ServerName::try_from("localhost").unwrap();
        let client = Arc::new(certificate.client(&[b"h2", b"http/1.1"]));
        let tls = tokio_rustls::TlsConnector::from(client);
        let stream = tls.connect(name, stream.unwrap()).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let http =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut caller, connection) = http.await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::get(format!("https://{}/api/v1/status", server.address))
            .header("authorization", format!("Bearer {}", server.token))
            .body(Empty::<hyper::body::Bytes>::new())
            .unwrap();
        let answer = caller.send_request(request).await.unwrap();
        let status = answer.status();
        (
            status,
            answer.into_body().collect().await.unwrap().to_bytes(),
        )
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (status, body) = runtime.block_on(answered);
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&body).contains("tally"));
}

#[test]
fn who_connects_and_agrees_on_nothing_is_let_go() {
    let world = World::new();
    let certificate = Certificate::new(&world);
    let server = Server::start_with(&world, &certificate.words());
    let mut silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(&server.address).unwrap())
        .collect();
    assert!(certificate.ask(&server).is_some());
    let mut said = Vec::new();
    silent.pop().unwrap().read_to_end(&mut said).unwrap();
    assert!(said.is_empty());
}

#[test]
fn what_cannot_be_used_is_refused_at_the_start_and_the_reason_is_told() {
    let world = World::new();
    let (other, others) = (Certificate::new(&world), World::new());
    let strange = Certificate::new(&others);
    let file = |certificate: &PathBuf| certificate.to_str().unwrap().to_owned();
    let (cert, key, other_key) = (file(&other.file), file(&other.key), file(&strange.key));
    let open = file(&world.root().join("open.pem"));
    fs::copy(&key, &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let missing = file(&world.root().join("missing.pem"));
    for (cert, key, why) in [
        (&cert, &other_key, "does not belong to the certificate"),
        (&cert, &open, "is readable by everybody"),
        (&cert, &missing, "cannot be read"),
        (&missing, &key, "cannot be read"),
        (&cert, &cert, "contains no private key"),
        (&key, &key, "holds no certificate"),
    ] {
        let words = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert];
        let call = world.call(&[&words[..], &["--tls-key", key]].concat());
        call.ends_with(2).says(why);
    }
    let alone = ["serve", "--tls-cert", cert.as_str()];
    world.call(&alone).ends_with(2).says("--tls-key");
}

#[test]
fn a_certificate_opens_other_addresses_to_those_with_a_token() {
    let world = World::new();
    let certificate = Certificate::new(&world);
    let words = [
        &["serve", "--listen", "0.0.0.0:0"][..],
        &certificate.words(),
    ]
    .concat();
    world
        .call(&words)
        .ends_with(2)
        .says("there is no valid token");
}
