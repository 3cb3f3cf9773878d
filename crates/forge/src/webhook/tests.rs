use super::*;
use std::fmt::Write;

type Headers = Vec<(&'static str, String)>;

fn secrets() -> WebhookSecrets {
    WebhookSecrets {
        current: "new".to_owned(),
        previous: Some("old".to_owned()),
    }
}

fn verify(
    kind: ForgeKind,
    headers: &Headers,
    body: &[u8],
) -> Result<Option<String>, WebhookRefusal> {
    let header = |name: &str| {
        let found = headers.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_str())
    };
    verify_webhook(kind, header, body, &secrets(), 1000)
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(message).finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[test]
fn the_example_of_github_s_documentation_is_genuine() {
    let secrets = WebhookSecrets {
        current: "It's a Secret to Everybody".to_owned(),
        previous: None,
    };
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let header = |name: &str| (name == "x-hub-signature-256").then_some(signature);
    let verdict = verify_webhook(ForgeKind::Github, header, b"Hello, World!", &secrets, 0);
    assert_eq!(verdict, Ok(None));
}

#[test]
fn raw_bytes_count_and_both_secrets_hold() {
    let body = b"{ \"a\": 1 }";
    for (kind, name, prefix, id) in [
        (
            ForgeKind::Github,
            "x-hub-signature-256",
            "sha256=",
            "x-github-delivery",
        ),
        (
            ForgeKind::Gitea,
            "x-forgejo-signature",
            "",
            "x-forgejo-delivery",
        ),
        (
            ForgeKind::Gitea,
            "x-gitea-signature",
            "",
            "x-gitea-delivery",
        ),
        (
            ForgeKind::Gitea,
            "x-hub-signature-256",
            "sha256=",
            "x-gitea-delivery",
        ),
        (
            ForgeKind::Jira,
            "x-hub-signature",
            "sha256=",
            "x-atlassian-webhook-identifier",
        ),
    ] {
        for key in ["new", "old"] {
            let headers = vec![
                (name, format!("{prefix}{}", hex(&mac(key.as_bytes(), body)))),
                (id, "d1".to_owned()),
            ];
            assert_eq!(verify(kind, &headers, body), Ok(Some("d1".to_owned())));
            // The same JSON, written again.
            assert_eq!(
                verify(kind, &headers, b"{\"a\":1}"),
                Err(WebhookRefusal::WrongSignature)
            );
        }
        let other = vec![(name, format!("{prefix}{}", hex(&mac(b"other", body))))];
        assert_eq!(
            verify(kind, &other, body),
            Err(WebhookRefusal::WrongSignature)
        );
        assert_eq!(verify(kind, &vec![], body), Err(WebhookRefusal::Unsigned));
        for wrong in ["", "sha256=", "sha1=00", "\u{e9}"] {
            assert!(verify(kind, &vec![(name, wrong.to_owned())], body).is_err());
        }
    }
}

#[test]
fn an_old_or_weaker_signature_of_github_is_none() {
    let sha1 = vec![(
        "x-hub-signature",
        format!("sha256={}", hex(&mac(b"new", b"x"))),
    )];
    assert_eq!(
        verify(ForgeKind::Github, &sha1, b"x"),
        Err(WebhookRefusal::Unsigned)
    );
    let good = format!("sha256={}", hex(&mac(b"new", b"x")));
    let bad_first = vec![
        ("x-forgejo-signature", "00".repeat(32)),
        ("x-hub-signature-256", good),
    ];
    assert_eq!(
        verify(ForgeKind::Gitea, &bad_first, b"x"),
        Err(WebhookRefusal::WrongSignature)
    );
}

#[test]
fn gitlab_signs_with_a_time_or_sends_a_plain_token() {
    let signed = |time: &str, key: &[u8]| -> Headers {
        let message = format!("id1.{time}.body");
        let signature = BASE64.encode(mac(key, message.as_bytes()));
        vec![
            ("webhook-id", "id1".to_owned()),
            ("webhook-timestamp", time.to_owned()),
            ("webhook-signature", format!("v1,AAAA v1,{signature}")),
            ("x-gitlab-token", "new".to_owned()),
        ]
    };
    assert_eq!(
        verify(ForgeKind::Gitlab, &signed("1200", b"old"), b"body"),
        Ok(Some("id1".to_owned()))
    );
    for time in ["1301", "699", "soon"] {
        assert_eq!(
            verify(ForgeKind::Gitlab, &signed(time, b"new"), b"body"),
            Err(WebhookRefusal::WrongTime)
        );
    }
    // A wrong signature is not saved by a good token.
    assert_eq!(
        verify(ForgeKind::Gitlab, &signed("1000", b"x"), b"body"),
        Err(WebhookRefusal::WrongSignature)
    );
    assert_eq!(
        verify(
            ForgeKind::Gitlab,
            &vec![("x-gitlab-token", "old".to_owned())],
            b"x"
        ),
        Ok(None)
    );
    for wrong in ["", "ne", "newer"] {
        let headers = vec![("x-gitlab-token", wrong.to_owned())];
        assert_eq!(
            verify(ForgeKind::Gitlab, &headers, b"x"),
            Err(WebhookRefusal::WrongSignature)
        );
    }
}

#[test]
fn an_empty_secret_proves_nothing_and_size_is_limited() {
    let empty = WebhookSecrets {
        current: String::new(),
        previous: None,
    };
    let header = |name: &str| (name == "x-gitlab-token").then_some("");
    let verdict = verify_webhook(ForgeKind::Gitlab, header, b"x", &empty, 0);
    assert_eq!(verdict, Err(WebhookRefusal::WrongSignature));
    let large = vec![0; WEBHOOK_BYTES_MAX + 1];
    assert_eq!(
        verify(ForgeKind::Github, &vec![], &large),
        Err(WebhookRefusal::TooLarge)
    );
    assert!(!format!("{:?}", secrets()).contains("old"));
}
