use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A provider with one key of each kind that this library can make.
struct Provider {
    ed: Ed25519KeyPair,
    ec: EcdsaKeyPair,
    keys: KeySet,
}

impl Provider {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pair = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let ed = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(kind, pair.as_ref(), &random).unwrap();
        let point = ec.public_key().as_ref().to_vec();
        let keys = json!({"keys": [
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "use": "sig", "x": encode(ed.public_key())},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "alg": "ES256",
             "x": encode(&point[1..33]), "y": encode(&point[33..])},
            {"kty": "oct", "kid": "symmetric", "k": "c2VjcmV0"},
        ]});
        let keys = serde_json::from_value(keys).unwrap();
        Self { ed, ec, keys }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            encode(header.to_string()),
            encode(claims.to_string())
        );
        let sign = match header["alg"].as_str() {
            Some("ES256") => {
                let random = SystemRandom::new();
                let sign = self.ec.sign(&random, signed.as_bytes()).unwrap();
                sign.as_ref().to_vec()
            }
            _ => self.ed.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", encode(sign))
    }

    fn verify(&self, token: &str) -> Result<Map<String, Value>, TokenFault> {
        let expected = ExpectedClaims {
            issuer: "https://id.example",
            client_id: "countersign",
            nonce: "n-1",
            now: Time(NOW * 1000),
        };
        verify(token, &self.keys, &expected)
    }
}

fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": "countersign", "sub": "7", "nonce": "n-1",
        "iat": NOW - 5, "exp": NOW + 300, "email": "ada@example.org"})
}

fn with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all
}

#[test]
fn tokens_of_the_provider_are_accepted() {
    let provider = Provider::new();
    for header in [
        json!({"alg": "EdDSA", "kid": "ed"}),
        json!({"alg": "EdDSA"}),
        json!({"alg": "ES256", "kid": "ec"}),
    ] {
        let read = provider.verify(&provider.sign(&header, &claims())).unwrap();
        assert_eq!(read["email"], "ada@example.org", "{header}");
    }
    let header = json!({"alg": "EdDSA", "kid": "ed"});
    for fine in [
        with("aud", json!(["countersign"])),
        with("exp", json!(NOW - 30)),
        with("iat", json!(NOW + 30)),
    ] {
        provider.verify(&provider.sign(&header, &fine)).unwrap();
    }
}

#[test]
fn a_token_with_a_wrong_claim_is_refused() {
    let provider = Provider::new();
    let header = json!({"alg": "EdDSA", "kid": "ed"});
    for (name, value) in [
        ("iss", json!("https://id.example/")),
        ("iss", json!("https://evil.example")),
        ("iss", Value::Null),
        ("aud", json!("another")),
        ("aud", json!([])),
        ("aud", json!(7)),
        ("azp", json!("another")),
        ("nonce", json!("n-2")),
        ("nonce", json!("")),
        ("nonce", Value::Null),
        ("sub", json!("")),
        ("sub", Value::Null),
        ("exp", json!(NOW - 61)),
        ("exp", Value::Null),
        ("exp", json!("1900000000")),
        ("iat", json!(NOW - 700)),
        ("iat", json!(NOW + 100)),
        ("iat", Value::Null),
        ("nbf", json!(NOW + 100)),
    ] {
        let token = provider.sign(&header, &with(name, value.clone()));
        assert_eq!(
            provider.verify(&token),
            Err(TokenFault::Claim(name)),
            "{name} {value}"
        );
    }
    // Two audiences, and nobody says which one asked.
    let both = with("aud", json!(["countersign", "another"]));
    assert_eq!(
        provider.verify(&provider.sign(&header, &both)),
        Err(TokenFault::Claim("azp"))
    );
}

#[test]
fn forged_tokens_are_refused() {
    let provider = Provider::new();
    let good = provider.sign(&json!({"alg": "EdDSA", "kid": "ed"}), &claims());
    let parts: Vec<&str> = good.split('.').collect();
    let admin = encode(with("email", json!("root@example.org")).to_string());
    let header = |value: Value| encode(value.to_string());
    let forged = [
        // Another body under the same signature, and none at all.
        (
            format!("{}.{admin}.{}", parts[0], parts[2]),
            TokenFault::Signature,
        ),
        (format!("{}.{}.", parts[0], parts[1]), TokenFault::Signature),
        // Algorithms that prove nothing to us.
        (
            format!("{}.{}.", header(json!({"alg": "none"})), parts[1]),
            TokenFault::Algorithm("none".to_owned()),
        ),
        (
            provider.sign(&json!({"alg": "HS256", "kid": "ed"}), &claims()),
            TokenFault::Algorithm("HS256".to_owned()),
        ),
        // The algorithm of one key and the id of another.
        (
            provider.sign(&json!({"alg": "ES256", "kid": "ed"}), &claims()),
            TokenFault::NoKey,
        ),
        (
            provider.sign(&json!({"alg": "RS256", "kid": "ed"}), &claims()),
            TokenFault::NoKey,
        ),
        (
            provider.sign(&json!({"alg": "EdDSA", "kid": "unknown"}), &claims()),
            TokenFault::NoKey,
        ),
        (
            provider.sign(&json!({"alg": "EdDSA", "crit": ["b64"]}), &claims()),
            TokenFault::Form,
        ),
        (format!("{good}.x"), TokenFault::Form),
        ("a.b".to_owned(), TokenFault::Form),
        (String::new(), TokenFault::Form),
        ("x".repeat(LENGTH_MAX + 1), TokenFault::Form),
    ];
    for (token, fault) in forged {
        assert_eq!(provider.verify(&token), Err(fault), "{token:.80}");
    }
    // Another provider's signature.
    let other = Provider::new();
    let token = other.sign(&json!({"alg": "EdDSA", "kid": "ed"}), &claims());
    assert_eq!(provider.verify(&token), Err(TokenFault::Signature));
}
