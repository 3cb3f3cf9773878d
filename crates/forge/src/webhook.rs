//! Proves that a webhook is genuine, over the raw bytes that arrived, before anything is parsed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::address::ForgeKind;

/// Maximum size of a webhook.
pub const WEBHOOK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest difference of the clocks for signatures with a time.
const CLOCK_SECONDS_MAX: i64 = 300;

/// The secret of a connection, and the previous one while it is rotated.
#[derive(Clone)]
pub struct WebhookSecrets {
    pub current: String,
    pub previous: Option<String>,
}

impl fmt::Debug for WebhookSecrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WebhookSecrets(…)")
    }
}

/// Reason why a webhook is refused. The sender learns none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookRefusal {
    #[error("the webhook is larger than 4 MiB")]
    TooLarge,
    #[error("the webhook has no signature")]
    Unsigned,
    #[error("the signature is wrong")]
    WrongSignature,
    #[error("the time of the webhook differs from ours by more than five minutes")]
    WrongTime,
}

/// Checks the proof of a webhook, and returns its delivery id, if it has one.
pub fn verify_webhook<'a>(
    kind: ForgeKind,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &[u8],
    secrets: &WebhookSecrets,
    now_seconds: i64,
) -> Result<Option<String>, WebhookRefusal> {
    if body.len() > WEBHOOK_BYTES_MAX {
        return Err(WebhookRefusal::TooLarge);
    }
    let delivery = |names: &[&str]| {
        let found = names.iter().find_map(|name| header(name));
        found.map(|id| id.chars().take(200).collect())
    };
    match kind {
        ForgeKind::Github => {
            check_hex(header("x-hub-signature-256"), "sha256=", body, secrets)?;
            Ok(delivery(&["x-github-delivery"]))
        }
        ForgeKind::Gitea => {
            // The strongest header decides; a good weaker one does not save it.
            let own = header("x-forgejo-signature").or_else(|| header("x-gitea-signature"));
            match own {
                Some(own) => check_hex(Some(own), "", body, secrets)?,
                None => check_hex(header("x-hub-signature-256"), "sha256=", body, secrets)?,
            }
            Ok(delivery(&["x-forgejo-delivery", "x-gitea-delivery"]))
        }
        ForgeKind::Jira => {
            check_hex(header("x-hub-signature"), "sha256=", body, secrets)?;
            Ok(delivery(&["x-atlassian-webhook-identifier"]))
        }
        ForgeKind::Gitlab => {
            match header("webhook-signature") {
                Some(signature) => {
                    let id = header("webhook-id").ok_or(WebhookRefusal::Unsigned)?;
                    let time = header("webhook-timestamp").ok_or(WebhookRefusal::Unsigned)?;
                    check_standard(signature, id, time, body, secrets, now_seconds)?;
                }
                None => check_plain(header("x-gitlab-token"), secrets)?,
            }
            Ok(delivery(&[
                "webhook-id",
                "idempotency-key",
                "x-gitlab-event-uuid",
            ]))
        }
    }
}

fn any_secret(secrets: &WebhookSecrets, fits: impl Fn(&str) -> bool) -> Result<(), WebhookRefusal> {
    let both = [Some(&secrets.current), secrets.previous.as_ref()];
    let mut given = both
        .into_iter()
        .flatten()
        .filter(|secret| !secret.is_empty());
    if given.any(|secret| fits(secret)) {
        Ok(())
    } else {
        Err(WebhookRefusal::WrongSignature)
    }
}

/// Compares in constant time.
fn is_signed(key: &[u8], parts: &[&[u8]], signature: &[u8]) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return false;
    };
    for part in parts {
        mac.update(part);
    }
    mac.verify_slice(signature).is_ok()
}

fn check_hex(
    value: Option<&str>,
    prefix: &str,
    body: &[u8],
    secrets: &WebhookSecrets,
) -> Result<(), WebhookRefusal> {
    let value = value.ok_or(WebhookRefusal::Unsigned)?;
    let signature = value.strip_prefix(prefix).and_then(from_hex);
    let signature = signature.ok_or(WebhookRefusal::WrongSignature)?;
    any_secret(secrets, |secret| {
        is_signed(secret.as_bytes(), &[body], &signature)
    })
}

/// Checks a signature of Standard Webhooks. The header may have several, for rotation.
fn check_standard(
    header: &str,
    id: &str,
    time: &str,
    body: &[u8],
    secrets: &WebhookSecrets,
    now_seconds: i64,
) -> Result<(), WebhookRefusal> {
    let sent: i64 = time.parse().map_err(|_| WebhookRefusal::WrongTime)?;
    if sent.abs_diff(now_seconds) > CLOCK_SECONDS_MAX.unsigned_abs() {
        return Err(WebhookRefusal::WrongTime);
    }
    let signatures = header
        .split(' ')
        .filter_map(|word| word.strip_prefix("v1,"));
    let signatures: Vec<Vec<u8>> = signatures
        .filter_map(|text| BASE64.decode(text).ok())
        .collect();
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", time.as_bytes(), b".", body];
    any_secret(secrets, |secret| {
        let key = match secret.strip_prefix("whsec_") {
            Some(text) => BASE64.decode(text).unwrap_or_default(),
            None => secret.as_bytes().to_vec(),
        };
        !key.is_empty() && signatures.iter().any(|one| is_signed(&key, &parts, one))
    })
}

/// Compares a plain token through a keyed hash, so that the time tells nothing about it.
fn check_plain(value: Option<&str>, secrets: &WebhookSecrets) -> Result<(), WebhookRefusal> {
    let value = value.ok_or(WebhookRefusal::Unsigned)?;
    any_secret(secrets, |secret| {
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            return false;
        };
        let own = mac.chain_update(secret.as_bytes()).finalize().into_bytes();
        is_signed(secret.as_bytes(), &[value.as_bytes()], &own)
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests;
