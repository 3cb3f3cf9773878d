//! TLS of our own: a certificate and its key from files, read again when they are renewed. What
//! cannot be used is refused at the start; later, the one that served before goes on serving.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ServerConfig};

use app::failure::Failure;
use app::remote::{CERTIFICATE_BYTES_MAX, certificates};
use app::settings::read_bounded;

/// Others than the owner and the group.
const EVERYBODY: u32 = 0o007;
/// What is spoken inside, the best first.
pub const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// Where the certificate and its key are.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The certificate that is shown now.
#[derive(Debug)]
pub struct Tls {
    files: CertificateFiles,
    now: RwLock<LoadedCertificate>,
}

#[derive(Clone, Debug)]
struct LoadedCertificate {
    /// What the files looked like when they were read last, good or bad.
    seen: [CertificateStamp; 2],
    config: Arc<ServerConfig>,
    fingerprint: String,
}

/// What tells a file from the one that was there before.
type CertificateStamp = Option<(u64, i64, i64, u64)>;

impl Tls {
    pub fn read(files: CertificateFiles) -> Result<Self, Failure> {
        let seen = files.look();
        let (config, fingerprint) = files.load()?;
        let now = RwLock::new(LoadedCertificate {
            seen,
            config,
            fingerprint,
        });
        Ok(Self { files, now })
    }

    /// For the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now().config)
    }

    /// The SHA-256 of our own certificate, by which our own callers know it.
    pub fn fingerprint(&self) -> String {
        self.now().fingerprint
    }

    /// Reads the files again where they have changed, or where it is asked for. True where a new
    /// certificate is shown from now on.
    pub fn renew(&self, asked: bool) -> Result<bool, Failure> {
        let (seen, mut now) = (self.files.look(), self.now());
        if seen == now.seen && !asked {
            return Ok(false);
        }
        now.seen = seen;
        let loaded = self.files.load();
        let is_new = match &loaded {
            Ok((config, fingerprint)) => {
                now.config = Arc::clone(config);
                std::mem::replace(&mut now.fingerprint, fingerprint.clone()) != *fingerprint
            }
            Err(_) => false,
        };
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
        loaded.map(|_| is_new)
    }

    fn now(&self) -> LoadedCertificate {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }
}

impl CertificateFiles {
    fn look(&self) -> [CertificateStamp; 2] {
        [&self.certificate, &self.key].map(|path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
        })
    }

    fn load(&self) -> Result<(Arc<ServerConfig>, String), Failure> {
        let chain = certificates(&self.certificate)?;
        let fingerprint = chain.first().map(|own| engine::hash::whole(own));
        let key = key(&self.key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Failure::error)?;
        let mut config = config
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| self.unfit(&error))?;
        config.alpn_protocols = [HTTP_2, HTTP_1].map(<[u8]>::to_vec).to_vec();
        Ok((Arc::new(config), fingerprint.unwrap_or_default()))
    }

    fn unfit(&self, error: &rustls::Error) -> Failure {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match error {
            rustls::Error::InconsistentKeys(_) => Failure::usage(format!(
                "the key {key} does not belong to the certificate {certificate}"
            ))
            .hint("the server's own certificate comes first in its file, then who signed it"),
            other => Failure::usage(format!(
                "the certificate {certificate} with the key {key} cannot be used: {other}"
            )),
        }
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let text = read_bounded(path, "the key", CERTIFICATE_BYTES_MAX)?;
    let open = std::fs::metadata(path).is_ok_and(|found| found.mode() & EVERYBODY != 0);
    if open {
        let why = format!("the key {} is open to everybody", path.display());
        return Err(Failure::usage(why).hint(format!("chmod 600 {}", path.display())));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        Failure::usage(format!("{} holds no private key", path.display()))
            .hint("it is wanted as PEM and without a password: -----BEGIN PRIVATE KEY-----")
    })
}
