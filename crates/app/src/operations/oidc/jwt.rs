//! Verifies the signature and the claims of an ID token. The keys and the time are passed in.
//!
//! The algorithm is bound to the key: a token names one, and a key of another kind does not verify
//! it. `none` and symmetric algorithms do not exist here.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flow::Time;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Difference of the clocks that is tolerated.
const CLOCK_SKEW_SECS: i64 = 60;
/// Age of a token that is accepted at most.
const AGE_SECS_MAX: i64 = 600;
/// Maximum length of a token.
const LENGTH_MAX: usize = 32 * 1024;
/// Keys of a provider that are looked at.
const KEYS_MAX: usize = 64;

/// Keys of a provider, as its JWKS document has them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct KeySet {
    keys: Vec<PublicJwk>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PublicJwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Values that the claims must have.
#[derive(Clone, Debug)]
pub struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    pub now: Time,
}

/// Reason why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    #[error("the ID token is not a signed JWT")]
    Form,
    #[error("the ID token is signed with {0:?}, which is not accepted")]
    Algorithm(String),
    /// The provider may have changed its keys.
    #[error("no key of the provider fits the ID token")]
    NoKey,
    #[error("the signature of the ID token is wrong")]
    Signature,
    #[error("the claim {0} of the ID token is missing or wrong")]
    Claim(&'static str),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

/// Verifies a token and returns its claims.
pub fn verify(
    token: &str,
    keys: &KeySet,
    expected: &ExpectedClaims<'_>,
) -> Result<Map<String, Value>, TokenFault> {
    let mut parts = token.split('.');
    let (Some(header), Some(body), Some(sign), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(TokenFault::Form);
    };
    if token.len() > LENGTH_MAX {
        return Err(TokenFault::Form);
    }
    let form = |_| TokenFault::Form;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenFault::Form);
    let head: Header = serde_json::from_slice(&decode(header)?).map_err(form)?;
    // An extension that changes what the token means, and that is not known here.
    if head.crit.is_some() {
        return Err(TokenFault::Form);
    }
    let algorithm = SignatureAlgorithm::parse(&head.alg)
        .ok_or_else(|| TokenFault::Algorithm(findings::shorten(&head.alg, 20)))?;
    let signed = token
        .get(..header.len() + 1 + body.len())
        .ok_or(TokenFault::Form)?;
    let sign = decode(sign)?;
    let fits = |key: &&PublicJwk| {
        let is_named = head.kid.is_none() || key.kid.is_none() || key.kid == head.kid;
        let for_signing = key.usage.as_deref().is_none_or(|usage| usage == "sig");
        let same = key.alg.as_deref().is_none_or(|alg| alg == head.alg);
        is_named && for_signing && same && algorithm.is_of_key(key)
    };
    let mut fitting = keys.keys.iter().take(KEYS_MAX).filter(fits).peekable();
    if fitting.peek().is_none() {
        return Err(TokenFault::NoKey);
    }
    if !fitting.any(|key| algorithm.verifies(key, signed.as_bytes(), &sign)) {
        return Err(TokenFault::Signature);
    }
    let claims: Map<String, Value> = serde_json::from_slice(&decode(body)?).map_err(form)?;
    check_claims(&claims, expected)?;
    Ok(claims)
}

fn check_claims(
    claims: &Map<String, Value>,
    expected: &ExpectedClaims<'_>,
) -> Result<(), TokenFault> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let number = |name: &str| claims.get(name).and_then(Value::as_f64);
    let require =
        |is_right: bool, name: &'static str| is_right.then_some(()).ok_or(TokenFault::Claim(name));
    require(text("iss") == Some(expected.issuer), "iss")?;
    let audience: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    require(audience.contains(&expected.client_id), "aud")?;
    // With several audiences, the token says which of them asked for it.
    let party = text("azp");
    require(
        party.map_or(audience.len() == 1, |party| party == expected.client_id),
        "azp",
    )?;
    let nonce = text("nonce").unwrap_or_default();
    require(
        engine::secret::is_equal(nonce, expected.nonce) && !nonce.is_empty(),
        "nonce",
    )?;
    require(text("sub").is_some_and(|sub| !sub.is_empty()), "sub")?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds since 1970 are exact in a double"
    )]
    let (now, skew, oldest) = (
        expected.now.0 as f64 / 1000.0,
        CLOCK_SKEW_SECS as f64,
        AGE_SECS_MAX as f64,
    );
    require(number("exp").is_some_and(|end| end > now - skew), "exp")?;
    let is_recent = |at: f64| at < now + skew && at > now - oldest - skew;
    require(number("iat").is_some_and(is_recent), "iat")?;
    require(number("nbf").is_none_or(|begin| begin < now + skew), "nbf")
}

/// Algorithms that are accepted.
#[derive(Clone, Copy)]
enum SignatureAlgorithm {
    Rsa(&'static signature::RsaParameters),
    Curve(&'static str, &'static dyn VerificationAlgorithm),
    Ed25519,
}

impl SignatureAlgorithm {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "RS256" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Self::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Self::Rsa(&RSA_PSS_2048_8192_SHA256),
            "PS384" => Self::Rsa(&RSA_PSS_2048_8192_SHA384),
            "PS512" => Self::Rsa(&RSA_PSS_2048_8192_SHA512),
            "ES256" => Self::Curve("P-256", &ECDSA_P256_SHA256_FIXED),
            "ES384" => Self::Curve("P-384", &ECDSA_P384_SHA384_FIXED),
            "EdDSA" | "Ed25519" => Self::Ed25519,
            _ => return None,
        })
    }

    fn is_of_key(self, key: &PublicJwk) -> bool {
        match self {
            Self::Rsa(_) => key.kty == "RSA",
            Self::Curve(name, _) => key.kty == "EC" && key.crv.as_deref() == Some(name),
            Self::Ed25519 => key.kty == "OKP" && key.crv.as_deref() == Some("Ed25519"),
        }
    }

    fn verifies(self, key: &PublicJwk, signed: &[u8], sign: &[u8]) -> bool {
        let part = |part: &Option<String>| {
            let decoded = URL_SAFE_NO_PAD.decode(part.as_deref().unwrap_or_default());
            decoded.unwrap_or_default()
        };
        match self {
            Self::Rsa(parameters) => {
                let key = RsaPublicKeyComponents {
                    n: part(&key.n),
                    e: part(&key.e),
                };
                key.verify(parameters, signed, sign).is_ok()
            }
            Self::Curve(_, algorithm) => {
                // An uncompressed point.
                let point = [vec![4], part(&key.x), part(&key.y)].concat();
                let key = UnparsedPublicKey::new(algorithm, point);
                key.verify(signed, sign).is_ok()
            }
            Self::Ed25519 => {
                let key = UnparsedPublicKey::new(&ED25519, part(&key.x));
                key.verify(signed, sign).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests;
