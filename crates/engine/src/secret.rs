//! Secrets: made of the operating system's randomness, kept only as hashes.

use std::fs::File;
use std::io::{self, Read};

use crate::hash::{self, hex};

/// Every secret begins with it, so that scanners for leaked ones know ours.
pub const PREFIX: &str = "cs_";
const BYTES: usize = 32;

/// A new secret of 256 random bits.
pub fn mint() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// What is kept of a secret. With that many random bits there is nothing to guess, so a plain
/// hash serves, and the store finds a token by it.
pub fn hash(secret: &str) -> String {
    hash::whole(secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_secrets_are_alike_and_none_is_its_hash() {
        let (one, two) = (mint().unwrap(), mint().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), PREFIX.len() + 2 * BYTES);
        assert_eq!(hash(&one), hash(&one));
        assert!(!one.contains(&hash(&one)));
    }
}
