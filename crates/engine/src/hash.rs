//! Short names for content.

use sha2::{Digest, Sha256};

/// The first sixteen hex digits of the content's SHA-256.
pub fn short(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .take(8)
        .fold(String::new(), |out, byte| format!("{out}{byte:02x}"))
}
