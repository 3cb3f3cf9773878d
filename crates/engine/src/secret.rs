//! Creates secrets from the operating system's randomness. Only their hashes are stored.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::Sha256;

use crate::hash::{self, hex};

/// Prefix of every secret, so that scanners for leaked secrets recognise ours.
pub const PREFIX: &str = findings::TOKEN_PREFIX;
const BYTES: usize = findings::TOKEN_DIGITS / 2;
const ID_CHARS: usize = 8;

/// Creates a secret of 256 random bits.
pub fn generate() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// A new secret, its hash for the store, and its id.
pub struct NewSecret {
    pub secret: String,
    pub hash: String,
    /// Beginning of the hash, which identifies the secret.
    pub id: String,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("NewSecret").field(&self.id).finish()
    }
}

pub fn new_secret() -> io::Result<NewSecret> {
    let secret = generate()?;
    let hash = hash_secret(&secret);
    let id = hash.chars().take(ID_CHARS).collect();
    Ok(NewSecret { secret, hash, id })
}

/// Returns the hash of a secret for the store. A secret has too many random bits to be guessed, so
/// a plain hash is sufficient, and the store can look up a token by it.
pub fn hash_secret(secret: &str) -> String {
    hash::sha256(secret.as_bytes())
}

/// Returns the HMAC-SHA256 of a message in base64.
pub fn hmac_base64(key: &[u8], message: &[u8]) -> String {
    BASE64.encode(hmac(key, message))
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    use hmac::{Hmac, KeyInit, Mac};
    // HMAC accepts a key of any length, so this does not fail.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

/// Returns the credential of a token for one purpose. It has the form of a secret and begins with
/// the token's id. It is derived and not stored, so every server that knows the token's hash can
/// check it, and it ends with the token.
pub fn derive_credential(token_id: &str, token_hash: &str, purpose: &str) -> String {
    let mac = hex(&hmac(token_hash.as_bytes(), purpose.as_bytes()));
    let digits: String = token_id
        .chars()
        .chain(mac.chars())
        .take(2 * BYTES)
        .collect();
    format!("{PREFIX}{digits}")
}

/// Returns the token's id in a derived credential.
pub fn credential_token_id(credential: &str) -> Option<&str> {
    let digits = credential.strip_prefix(PREFIX)?;
    (digits.len() == 2 * BYTES && digits.is_ascii()).then(|| &digits[..ID_CHARS])
}

/// Compares two texts in a time that does not depend on where they differ.
pub fn is_equal(one: &str, other: &str) -> bool {
    let differences = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_secrets_are_alike_and_none_is_its_hash() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), PREFIX.len() + 2 * BYTES);
        assert_eq!(hash_secret(&one), hash_secret(&one));
        assert!(!one.contains(&hash_secret(&one)));
        let fresh = new_secret().unwrap();
        assert!(fresh.hash == hash_secret(&fresh.secret) && fresh.hash.starts_with(&fresh.id));
        assert!(!format!("{fresh:?}").contains(&fresh.secret));
    }

    #[test]
    fn a_derived_credential_names_its_token_and_fits_one_purpose() {
        let NewSecret { hash, id, .. } = new_secret().unwrap();
        let one = derive_credential(&id, &hash, "T-1/1/1");
        assert_eq!(credential_token_id(&one), Some(id.as_str()));
        assert!(is_equal(&one, &derive_credential(&id, &hash, "T-1/1/1")));
        for other in [
            derive_credential(&id, &hash, "T-1/1/2"),
            derive_credential(&id, &hash_secret("another"), "T-1/1/1"),
            String::new(),
            one[..one.len() - 1].to_owned(),
        ] {
            assert!(!is_equal(&one, &other), "{other}");
        }
        assert_eq!(credential_token_id("cs_short"), None);
    }

    #[test]
    fn a_signature_is_that_of_the_standard() {
        // This is the example of the Standard Webhooks libraries.
        let key = from_base64("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let message = "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
        let signed = hmac_base64(&key, message.as_bytes());
        assert_eq!(signed, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
