//! Whom we believe that a server is who it says.

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

pub fn config(trust: &ServerTrust) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Failure::error)?;
    let config = match trust {
        ServerTrust::Only(fingerprint) => {
            let verifier = PinnedCertificate {
                fingerprint: fingerprint.clone(),
                provider,
            };
            let config = config.dangerous();
            config.with_custom_certificate_verifier(Arc::new(verifier))
        }
        ServerTrust::Authorities(more) => {
            let mut roots = RootCertStore::empty();
            // A machine that trusts nobody is no error: the file may say whom.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            for certificate in more.iter().map(|path| certificates(path)) {
                roots.add_parsable_certificates(certificate?);
            }
            config.with_root_certificates(roots)
        }
    };
    Ok(config.with_no_client_auth())
}

/// One certificate and no other, whatever name it is for and whoever signed it: its owner told us
/// which it is. That the server has its key is proven as ever.
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
        if engine::hash::whole(end_entity) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        let other = CertificateError::ApplicationVerificationFailure;
        Err(Error::InvalidCertificate(other))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The longest file of certificates or keys that is read.
pub const CERTIFICATE_BYTES_MAX: usize = 1024 * 1024;

/// Reads a PEM file of certificates: the server's own, or those that are trusted.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let text = read_bounded(path, "the certificate", CERTIFICATE_BYTES_MAX)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(format!("{} holds no certificate", path.display())),
        Err(error) => Err(format!("{} is no certificate: {error}", path.display())),
    }
    .map_err(|why| Failure::usage(why).hint("it is wanted as PEM: -----BEGIN CERTIFICATE-----"))
}
