//! TLS with a certificate and key from files, which are reloaded when they change. An unusable
//! certificate is refused at the start; later, the previous one stays in use.
//!
//! Certificates are renewed every few weeks by other programs, and a server with long runs must not
//! be restarted for it.

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

/// Permission bits of users other than the owner and the group.
const OTHERS_MODE: u32 = 0o007;
/// ALPN protocol ids, offered in this order.
pub const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// Paths of the certificate and its key.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The certificate in use and the files it comes from.
#[derive(Debug)]
pub struct Tls {
    files: CertificateFiles,
    current: RwLock<LoadedCertificate>,
}

#[derive(Clone, Debug)]
struct LoadedCertificate {
    /// Stamps of the files at the last load, whether it succeeded or not.
    stamps: [CertificateStamp; 2],
    config: Arc<ServerConfig>,
    fingerprint: String,
}

/// Inode, modification time and size of a file, which change when it is replaced.
/// All four together, because a renewal may keep the size and the modification time is not exact on
/// every file system.
type CertificateStamp = Option<(u64, i64, i64, u64)>;

impl Tls {
    pub fn read(files: CertificateFiles) -> Result<Self, Failure> {
        // Stamped before the files are read: a change in between is found at the next look.
        let stamps = files.stamps();
        let (config, fingerprint) = files.load()?;
        let now = RwLock::new(LoadedCertificate {
            stamps,
            config,
            fingerprint,
        });
        Ok(Self {
            files,
            current: now,
        })
    }

    /// Returns an acceptor with the current certificate, for one connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now().config)
    }

    /// SHA-256 of the server's certificate; local clients pin it.
    pub fn fingerprint(&self) -> String {
        self.now().fingerprint
    }

    /// Reloads the files if they have changed or `force` is set. Returns whether a new certificate
    /// is in use.
    pub fn reload(&self, force: bool) -> Result<bool, Failure> {
        let (stamps, mut now) = (self.files.stamps(), self.now());
        if stamps == now.stamps && !force {
            return Ok(false);
        }
        // Kept also if the load fails, so that a broken file is reported once and not at every
        // look.
        now.stamps = stamps;
        let loaded = self.files.load();
        let is_new = match &loaded {
            Ok((config, fingerprint)) => {
                now.config = Arc::clone(config);
                // A forced reload of the same certificate is no news.
                std::mem::replace(&mut now.fingerprint, fingerprint.clone()) != *fingerprint
            }
            Err(_) => false,
        };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = now;
        loaded.map(|_| is_new)
    }

    fn now(&self) -> LoadedCertificate {
        // A poisoned lock still has the last complete value.
        let now = self.current.read().unwrap_or_else(PoisonError::into_inner);
        now.clone()
    }
}

impl CertificateFiles {
    fn stamps(&self) -> [CertificateStamp; 2] {
        [&self.certificate, &self.key].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((
                metadata.ino(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.len(),
            ))
        })
    }

    fn load(&self) -> Result<(Arc<ServerConfig>, String), Failure> {
        let chain = certificates(&self.certificate)?;
        // The server's own certificate is the first of its chain.
        let fingerprint = chain.first().map(|own| engine::hash::sha256(own));
        let key = key(&self.key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Failure::error)?;
        let mut config = config
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| self.certificate_error(&error))?;
        config.alpn_protocols = [HTTP_2, HTTP_1].map(<[u8]>::to_vec).to_vec();
        Ok((Arc::new(config), fingerprint.unwrap_or_default()))
    }

    fn certificate_error(&self, error: &rustls::Error) -> Failure {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match error {
            rustls::Error::InconsistentKeys(_) => Failure::usage(format!(
                "the key {key} does not belong to the certificate {certificate}"
            ))
            .hint("put the server's own certificate first in its file, then its issuers"),
            other => Failure::usage(format!(
                "the certificate {certificate} with the key {key} cannot be used: {other}"
            )),
        }
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let text = read_bounded(path, "the key", CERTIFICATE_BYTES_MAX)?;
    let is_public =
        // Looked at after the read, so that a missing file gives the usual message.
        std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & OTHERS_MODE != 0);
    if is_public {
        let why = format!("the key {} is readable by everybody", path.display());
        return Err(Failure::usage(why).hint(format!("chmod 600 {}", path.display())));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        Failure::usage(format!("{} contains no private key", path.display()))
            .hint("use PEM without a password: -----BEGIN PRIVATE KEY-----")
    })
}
