use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;

use super::*;

fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    let pair = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
    pairs.iter().map(pair).collect()
}

fn token() -> String {
    format!("{TOKEN_PREFIX}{}", "7f".repeat(TOKEN_DIGITS / 2))
}

#[test]
fn secrets_are_found_by_the_names_of_their_variables() {
    let redactor = Redactor::for_environment(&env(&[
        ("ANTHROPIC_API_KEY", "sk-ant/abc+def=="),
        ("PATH", "/usr/bin:/bin"),
        ("OPENAI_BASE_URL", "https://example.test"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
        ("SHORT_KEY", "abc"),
    ]));
    let masked = redactor.redact_text(format!(
        "sk-ant/abc+def== /usr/bin:/bin https://example.test /home/me/key.json abc {}",
        token()
    ));
    assert_eq!(
        masked,
        "[redacted] /usr/bin:/bin https://example.test /home/me/key.json abc [redacted]"
    );
}

#[test]
fn files_are_scrubbed_in_place_and_links_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("home/deep")).unwrap();
    let text = format!("a {} b", token());
    for name in ["home/deep/x", "elsewhere", "home/first"] {
        fs::write(at(name), &text).unwrap();
    }
    std::os::unix::fs::symlink(at("elsewhere"), at("home/link")).unwrap();
    fs::hard_link(at("home/first"), at("second")).unwrap();
    let redactor = Redactor::for_token(&env(&[(TOKEN, &token())])).unwrap();
    redactor.scrub_dirs(&[at("home")]);
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    assert_eq!(
        read("home/deep/x"),
        format!("a {} b", "*".repeat(token().len()))
    );
    assert_eq!((read("elsewhere"), read("second")), (text.clone(), text));
    assert!(Redactor::for_token(&env(&[])).is_none());
}

proptest! {
    #[test]
    fn no_form_of_a_secret_is_left(
        secret in "[!-~]{12,80}", before in "[a-z]{0,7}", after in "[a-z ]{0,7}"
    ) {
        let redactor = Redactor::for_environment(&env(&[("MY_TOKEN", &secret)]));
        let whole = format!("{before}{secret}{after}");
        let standard = STANDARD.encode(&whole);
        let written = [
            whole.clone(),
            standard.clone(),
            URL_SAFE.encode(&whole),
            hex(whole.as_bytes()),
            serde_json::Value::from(whole.as_str()).to_string(),
            String::from_utf8(percent_encode(whole.as_bytes(), true, |_| false)).unwrap(),
        ];
        for text in written {
            let masked = redactor.redact_text(text.clone());
            prop_assert!(masked.contains("[redacted]"), "{}", text);
            prop_assert!(!masked.contains(&secret));
        }
        // The rest of the base64 does not reveal the secret.
        let rest = redactor.redact_text(standard).replace("[redacted]", "");
        prop_assert!(rest.len() < before.len() + after.len() + 24);
    }
}

/// Ways to print a secret that nobody can tell from the plain one, or that everybody can undo.
fn disguises(secret: &str) -> Vec<(String, String)> {
    let joined = |between: &str| {
        let parts: Vec<String> = secret.chars().map(String::from).collect();
        parts.join(between)
    };
    let (head, tail) = secret.split_at(secret.len() / 2);
    let mut all = Vec::new();
    let separators = [
        "\u{1b}[31m",
        "\u{1b}[0;38;5;12m",
        "\u{9b}1m",
        "\u{1b}]8;;http://x\u{7}",
        "\u{1b}(B",
        "\u{200b}",
        "\u{200d}",
        "\u{2060}",
        "\u{feff}",
        "\u{ad}",
        "\u{202e}",
        "\u{e0041}",
        "\u{8}",
        "\u{1}",
        "\0",
        "\n",
        "\r\n",
        "\r",
        "\u{2028}",
        "\n    ",
        " ",
        "\t",
        "\u{a0}",
        " │\n│ ",
        "\n| ",
        "\n> ",
        "\u{fffd}",
    ];
    for between in separators {
        all.push((
            format!("{between:?} once"),
            format!("{head}{between}{tail}"),
        ));
        all.push((format!("{between:?} everywhere"), joined(between)));
        // The same inside of a JSON string, and of JSON in a JSON string.
        for text in [format!("{head}{between}{tail}"), joined(between)] {
            let once = serde_json::Value::from(text).to_string();
            let twice = serde_json::Value::from(once.as_str()).to_string();
            all.push((format!("{between:?} in JSON"), once));
            all.push((format!("{between:?} in JSON in JSON"), twice));
        }
    }
    let escaped = |form: &dyn Fn(u8) -> String| secret.bytes().map(form).collect::<String>();
    all.push(("upper case".into(), secret.to_uppercase()));
    all.push(("lower case".into(), secret.to_lowercase()));
    all.push((
        "\\u escapes".into(),
        escaped(&|byte| format!("\\u{byte:04x}")),
    ));
    all.push((
        "\\x escapes".into(),
        escaped(&|byte| format!("\\x{byte:02X}")),
    ));
    all.push(("spaced hex".into(), escaped(&|byte| format!("{byte:02x} "))));
    all.push(("percent".into(), escaped(&|byte| format!("%{byte:02x}"))));
    let some = |byte: u8| match byte {
        b'0'..=b'9' => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    all.push(("some percent".into(), escaped(&some)));
    let wrapped: Vec<String> = STANDARD
        .encode(secret)
        .as_bytes()
        .chunks(10)
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    all.push(("wrapped base64".into(), wrapped.join("\n")));
    all
}

#[test]
fn a_disguised_secret_is_found_in_every_disguise() {
    let secret = "sk-ant-api03-Ab9_x-Kq71zzT0";
    let spaced = "correct horse|battery>staple";
    for secret in [secret.to_owned(), token(), spaced.to_owned()] {
        let redactor = Redactor::for_environment(&env(&[("MY_API_KEY", &secret)]));
        for (disguise, text) in disguises(&secret) {
            for text in [text.clone(), format!("the key is {text} as you see")] {
                let masked = redactor.redact_bytes(text.as_bytes()).into_owned();
                let masked = String::from_utf8_lossy(&masked);
                let shown = findings::clean(&masked);
                let squeezed: String = shown.split_whitespace().collect();
                let plain = squeezed.to_lowercase();
                assert!(shown.contains("[redacted]"), "{disguise}: {shown}");
                let rest = secret[secret.len() - 8..].to_lowercase();
                assert!(!plain.contains(&rest), "{disguise}: {shown}");
                assert!(
                    !plain.contains(&secret[..8].to_lowercase()),
                    "{disguise}: {shown}"
                );
            }
        }
    }
}

#[test]
fn text_beside_a_disguised_secret_stays() {
    let redactor = Redactor::for_environment(&env(&[("MY_API_KEY", "sk-0123456789")]));
    let text = "one\ntwo \u{1b}[1msk-0123\u{1b}[0m\n456789 three\nfour";
    assert_eq!(
        redactor.redact_text(text.to_owned()),
        "one\ntwo \u{1b}[1m[redacted] three\nfour"
    );
    for harmless in ["sk-012345678", "SK 0123 45678 x9", "a\\nb%41\u{200b}c", ""] {
        assert_eq!(redactor.redact_text(harmless.to_owned()), harmless);
    }
}

#[test]
fn a_long_text_is_searched_in_windows_without_a_gap() {
    let secret = "sk-0123456789";
    let redactor = Redactor::for_environment(&env(&[("MY_API_KEY", secret)]));
    for at in [
        WINDOW - OVERLAP - 7,
        WINDOW - 7,
        WINDOW,
        2 * WINDOW - OVERLAP - 20,
    ] {
        let mut text = "x".repeat(at);
        text.push_str("sk-01\u{200b}2345\n6789");
        text.push_str(&"y".repeat(2 * WINDOW));
        let mut found = redactor.find(text.as_bytes());
        assert_eq!(found.next(), Some(at..at + secret.len() + 4), "{at}");
        assert_eq!(found.next(), None, "{at}");
    }
}

proptest! {
    #[test]
    fn bytes_of_any_kind_are_searched_without_failing(bytes: Vec<u8>, cut in 0..64_usize) {
        let redactor = Redactor::for_environment(&env(&[("MY_TOKEN", "s\\u00e9cret%41")]));
        let masked = redactor.redact_bytes(&bytes);
        prop_assert!(masked.len() <= bytes.len() + 10 * MASK.len());
        let begun = redactor.unfinished_secret(&bytes[..cut.min(bytes.len())]);
        prop_assert!(begun.is_none_or(|at| at < bytes.len()));
    }
}
