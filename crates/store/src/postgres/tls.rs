//! TLS to `PostgreSQL`, with the modes and names of its own client library.
//!
//! `require` encrypts and proves nothing: an attacker that can redirect the connection can read it.
//! `verify-ca` proves that an authority of yours made the certificate, `verify-full` also that it
//! was made for this host.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::error::Error;

/// How much a connection proves, by the names of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsMode {
    Disable,
    /// TLS if the server has it.
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl FromStr for TlsMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            other => {
                return Err(Error::Other(format!(
                    "sslmode={other} is not known; use disable, prefer, require, verify-ca or verify-full"
                )));
            }
        })
    }
}

/// The TLS settings of a database address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TlsSettings {
    mode: TlsMode,
    /// File with the certificates of the authorities; without it the machine's own count.
    authorities: Option<PathBuf>,
}

impl TlsSettings {
    /// Takes `sslmode` and `sslrootcert` out of an address. The library that reads the rest knows
    /// only some modes, and no file.
    pub(super) fn split_from(url: &str) -> Result<(String, Self), Error> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|part| !part.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.parse::<TlsMode>()?),
                Some(("sslrootcert", "system")) => {}
                Some(("sslrootcert", value)) => authorities = Some(decoded(value)),
                _ => rest.push(parameter),
            }
        }
        let mut mode = mode.unwrap_or(TlsMode::Prefer);
        match (mode, &authorities) {
            // As in PostgreSQL's own library: an authority that is named is also asked.
            (TlsMode::Require, Some(_)) => mode = TlsMode::VerifyCa,
            (TlsMode::Disable | TlsMode::Prefer, Some(_)) => {
                return Err(Error::Other(
                    "sslrootcert has no effect without sslmode=verify-full or verify-ca; add one"
                        .to_owned(),
                ));
            }
            _ => {}
        }
        let rest = rest.join("&");
        let separator = if rest.is_empty() { "" } else { "?" };
        let settings = Self { mode, authorities };
        Ok((format!("{place}{separator}{rest}"), settings))
    }

    /// Returns the mode for the library, which encrypts or does not; the proof is ours.
    pub(super) fn ssl_mode(&self) -> SslMode {
        match self.mode {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        }
    }

    pub(super) fn connector(&self) -> Result<PgTls, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let custom = |authorities| {
            let verifier = PartialVerifier {
                provider: Arc::clone(&provider),
                authorities,
            };
            builder
                .clone()
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        };
        let config = match self.mode {
            TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => custom(None),
            TlsMode::VerifyCa => custom(Some(self.roots()?)),
            TlsMode::VerifyFull => builder
                .clone()
                .with_root_certificates(self.roots()?)
                .with_no_client_auth(),
        };
        Ok(PgTls {
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let certificates = match &self.authorities {
            Some(path) => read_certificates(path)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(Error::Other(
                "no authority is known that could vouch for the database; name its file with sslrootcert=FILE"
                    .to_owned(),
            ));
        }
        Ok(roots)
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let fail = |why: &dyn std::fmt::Display| {
        Error::Other(format!("sslrootcert: {}: {why}", path.display()))
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|error| fail(&error))?
        .collect();
    let found = found.map_err(|error| fail(&error))?;
    if found.is_empty() {
        return Err(fail(&"it contains no certificate"));
    }
    Ok(found)
}

fn unusable(error: rustls::Error) -> Error {
    Error::Other(format!("TLS cannot be used: {error}"))
}

/// Decodes percent signs in a path of an address.
fn decoded(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%')
            .then(|| std::str::from_utf8(after.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// Accepts any certificate, or any of the named authorities, whatever its host. The handshake's own
/// signature is always checked.
#[derive(Debug)]
struct PartialVerifier {
    provider: Arc<CryptoProvider>,
    authorities: Option<RootCertStore>,
}

impl ServerCertVerifier for PartialVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.authorities {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Makes TLS connections for the pool.
#[derive(Clone)]
pub(super) struct PgTls {
    connector: TlsConnector,
}

impl std::fmt::Debug for PgTls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PgTls")
    }
}

/// One TLS connection to one host.
pub(super) struct PgTlsConnect {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl<S> MakeTlsConnect<S> for PgTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = PgTlsStream<S>;
    type TlsConnect = PgTlsConnect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<PgTlsConnect> {
        let host = ServerName::try_from(domain.to_owned())
            .map_err(|error| io::Error::other(format!("TLS: {domain:?}: {error}")))?;
        Ok(PgTlsConnect {
            connector: self.connector.clone(),
            host,
        })
    }
}

impl<S> TlsConnect<S> for PgTlsConnect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = PgTlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PgTlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connected = self.connector.connect(self.host, stream).await;
            let fail = |error: io::Error| {
                io::Error::other(format!(
                    "TLS: {error}; see sslmode and sslrootcert of the database's address"
                ))
            };
            connected.map(PgTlsStream).map_err(fail)
        })
    }
}

/// An encrypted connection.
#[derive(Debug)]
pub(super) struct PgTlsStream<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for PgTlsStream<S> {
    // The binding needs the hash that the certificate was signed with, which the library does not
    // tell. SCRAM works without it, and `verify-full` proves the server.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for PgTlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PgTlsStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_and_the_authority_are_read_from_the_address() {
        for (url, rest, mode, authorities) in [
            ("postgres://db/x", "postgres://db/x", TlsMode::Prefer, None),
            (
                "postgres://db/x?sslmode=verify-full&connect_timeout=3",
                "postgres://db/x?connect_timeout=3",
                TlsMode::VerifyFull,
                None,
            ),
            (
                "postgres://db/x?sslrootcert=/a%20b/ca.pem&sslmode=verify-ca",
                "postgres://db/x",
                TlsMode::VerifyCa,
                Some("/a b/ca.pem"),
            ),
            (
                "postgres://db/x?sslmode=require&sslrootcert=/ca.pem",
                "postgres://db/x",
                TlsMode::VerifyCa,
                Some("/ca.pem"),
            ),
        ] {
            let authorities = authorities.map(PathBuf::from);
            let settings = TlsSettings { mode, authorities };
            assert_eq!(
                TlsSettings::split_from(url).unwrap(),
                (rest.to_owned(), settings)
            );
        }
        for url in [
            "postgres://db/x?sslmode=allow",
            "postgres://db/x?sslmode=",
            "postgres://db/x?sslrootcert=/ca.pem",
            "postgres://db/x?sslmode=disable&sslrootcert=/ca.pem",
        ] {
            assert!(TlsSettings::split_from(url).is_err(), "{url}");
        }
    }
}
