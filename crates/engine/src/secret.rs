//! Secrets: made of the operating system's randomness, kept only as hashes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::Sha256;

use crate::hash::{self, hex};

/// Every secret begins with it, so that scanners for leaked ones know ours.
pub const PREFIX: &str = findings::TOKEN_PREFIX;
const BYTES: usize = findings::TOKEN_DIGITS / 2;
const ID_CHARS: usize = 8;

/// A new secret of 256 random bits.
pub fn mint() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// A secret as it is handed out, and what is kept of it.
pub struct NewSecret {
    pub secret: String,
    pub hash: String,
    /// Enough of the hash to name it by.
    pub id: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Fresh").field(&self.id).finish()
    }
}

pub fn fresh() -> io::Result<NewSecret> {
    let secret = mint()?;
    let hash = hash(&secret);
    let id = hash.chars().take(ID_CHARS).collect();
    Ok(NewSecret { secret, hash, id })
}

/// What is kept of a secret. With that many random bits there is nothing to guess, so a plain
/// hash serves, and the store finds a token by it.
pub fn hash(secret: &str) -> String {
    hash::whole(secret.as_bytes())
}

/// The base64 of the HMAC-SHA256 of a message.
pub fn sign(key: &[u8], message: &[u8]) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    // A key of any length is one; there is no other failure.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    BASE64.encode(mac.chain_update(message).finalize().into_bytes())
}

pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
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
        let fresh = fresh().unwrap();
        assert!(fresh.hash == hash(&fresh.secret) && fresh.hash.starts_with(&fresh.id));
        assert!(!format!("{fresh:?}").contains(&fresh.secret));
    }

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // The example of the Standard Webhooks' own libraries.
        let key = from_base64("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let message = "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
        let signed = sign(&key, message.as_bytes());
        assert_eq!(signed, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
