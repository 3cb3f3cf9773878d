//! Verifies the certificates of servers.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::failure::Failure;
use crate::settings::read_bounded;
use crate::settings::server::ServerTrust;

/// Builds the TLS configuration for a trust rule.
pub fn client_config(trust: &ServerTrust) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Failure::error)?;
    let config = match trust {
        ServerTrust::Pinned(fingerprint) => {
            let verifier = PinnedCertificate {
                fingerprint: fingerprint.clone(),
                provider,
            };
            let config = config.dangerous();
            config.with_custom_certificate_verifier(Arc::new(verifier))
        }
        ServerTrust::Authorities(more) => {
            let mut roots = RootCertStore::empty();
            // A machine without root certificates is no error: the configured file may have them.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            for certificate in more.iter().map(|path| certificates(path)) {
                roots.add_parsable_certificates(certificate?);
            }
            config.with_root_certificates(roots)
        }
    };
    Ok(config.with_no_client_auth())
}

/// Accepts exactly one certificate, by its fingerprint, for any name and any signer. The signature
/// checks below still prove that the server has its key.
#[derive(Debug)]
struct PinnedCertificate {
    fingerprint: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if engine::hash::sha256(end_entity) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        let mismatch = CertificateError::ApplicationVerificationFailure;
        Err(Error::InvalidCertificate(mismatch))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Maximum size of a file with certificates or keys.
pub const CERTIFICATE_BYTES_MAX: usize = 1024 * 1024;

/// Reads a PEM file of certificates: a server's own, or trusted ones.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let text = read_bounded(path, "the certificate", CERTIFICATE_BYTES_MAX)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match parsed {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(format!("{} holds no certificate", path.display())),
        Err(error) => Err(format!("{} is not a certificate: {error}", path.display())),
    }
    .map_err(|why| Failure::usage(why).hint("the file must be PEM: -----BEGIN CERTIFICATE-----"))
}
