//! SHA-256 of content in hexadecimal form.

use sha2::{Digest, Sha256};

/// Returns the first sixteen hex digits of the content's SHA-256.
pub fn short_sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content)[..8])
}

/// Returns the content's SHA-256 in hex digits.
pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |out, byte| format!("{out}{byte:02x}"))
}
