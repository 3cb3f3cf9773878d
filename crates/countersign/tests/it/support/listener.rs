//! A little HTTP server of a test, with TLS or without: it keeps what it is sent and answers as it is
//! told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

pub struct Listener {
    pub url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Got {
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Got {
    pub fn header(&self, name: &str) -> String {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A caller's stream, as it is or inside of TLS.
trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Listener {
    /// `answer` is given how many have come before; an answer of `None` is silence.
    pub fn new(answer: impl Fn(usize) -> Option<&'static str> + Send + 'static) -> Self {
        Self::begun("http", |stream| Some(Box::new(stream)), answer)
    }

    /// With the certificate that lies there.
    pub fn over_tls(
        (certificate, key): (&Path, &Path),
        answer: impl Fn(usize) -> Option<&'static str> + Send + 'static,
    ) -> Self {
        let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let wrap = move |stream| -> Option<Box<dyn Stream>> {
            let mut stream =
                StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            // A client that rejects our certificate sends nothing more.
            stream.conn.complete_io(&mut stream.sock).ok()?;
            Some(Box::new(stream))
        };
        Self::begun("https", wrap, answer)
    }

    fn begun(
        scheme: &str,
        wrap: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + 'static,
        answer: impl Fn(usize) -> Option<&'static str> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}/hook", listener.local_addr().unwrap());
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let kept = Arc::clone(&got);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let Some(mut stream) = wrap(stream) else {
                    continue;
                };
                let Some(request) = read(&mut *stream) else {
                    continue;
                };
                let before = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(request);
                    kept.len() - 1
                };
                match answer(before) {
                    Some(status) => {
                        let text = format!(
                            "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
                        );
                        let _ = stream.write_all(text.as_bytes());
                        let _ = stream.flush();
                    }
                    None => silent.push(stream),
                }
            }
        });
        Self { url, got }
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

fn read(stream: &mut dyn Stream) -> Option<Got> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Got { headers, body })
}
