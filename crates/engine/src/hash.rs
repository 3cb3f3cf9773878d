//! Names for content.

use sha2::{Digest, Sha256};

/// The first sixteen hex digits of the content's SHA-256.
pub fn short(content: &[u8]) -> String {
    hex(&Sha256::digest(content)[..8])
}

/// All of the content's SHA-256.
pub fn whole(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |out, byte| format!("{out}{byte:02x}"))
}
