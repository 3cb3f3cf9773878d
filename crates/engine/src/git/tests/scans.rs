//! Tests that a secret is found anywhere in the commits that would land, in every encoding that we
//! know.

use std::ffi::OsString;

use super::*;
use crate::redact::Redactor;

const LENT: &str = "correct horse/battery+staple==";

/// Builds the token here, so that no scanner reports this file as a leak.
fn token() -> String {
    format!("ghp_{}", "a1B2".repeat(9))
}

fn credentials() -> Redactor {
    let env = [
        ("PROVIDER_API_KEY", LENT),
        ("EDITOR", "a plain value of some length"),
    ];
    let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Redactor::for_environment(&env)
}

impl GitFixture {
    async fn scan(&self, base: &Oid) -> Scanned {
        let search = Search {
            credentials: credentials(),
            is_hidden: |c| c.is_control() && !c.is_whitespace() || c == '\u{202e}',
        };
        let (head, scratch) = (self.main().await, self.dir.path().join("scratch"));
        let scanned = self.repository.scan((base, &head), &search, &scratch).await;
        assert_eq!(fs::read_dir(&scratch).map_or(0, Iterator::count), 0);
        scanned.unwrap()
    }

    fn commit(&self, message: &str, more: &[&str]) {
        self.git(&["add", "-A"]);
        let args = [
            "commit",
            "-q",
            "--allow-empty",
            "--cleanup=verbatim",
            "-m",
            message,
        ];
        self.git(&[&args[..], more].concat());
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn wide(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

type Plant = fn(&GitFixture, &str);

/// Places for a secret; the last one ends with a clean tree.
const PLACES: &[(&str, Plant)] = &[
    ("x.txt:2", |ground, secret| {
        ground.put("x.txt", format!("one\nkey = {secret}\n").as_bytes());
        ground.commit("add", &[]);
    }),
    ("image.png:1", |ground, secret| {
        let bytes = [b"\x89PNG\0\xff", secret.as_bytes(), b"\0\x01\xfe"].concat();
        ground.put("image.png", &bytes);
        ground.commit("add", &[]);
    }),
    ("little.txt:1", |ground, secret| {
        ground.put(
            "little.txt",
            &wide(&format!("\u{feff}{secret}"), u16::to_le_bytes),
        );
        ground.commit("add", &[]);
    }),
    ("big.txt:1", |ground, secret| {
        ground.put(
            "big.txt",
            &wide(&format!("\u{feff}{secret}"), u16::to_be_bytes),
        );
        ground.commit("add", &[]);
    }),
    ("hidden.txt:1", |ground, secret| {
        ground.put(".gitattributes", b"*.txt -diff\n");
        ground.put("hidden.txt", secret.as_bytes());
        ground.commit("add", &[]);
    }),
    ("README:1 in commit", |ground, secret| {
        ground.put("README", secret.as_bytes());
        ground.commit("add", &[]);
        ground.put("README", b"two\n");
        ground.commit("and away", &[]);
    }),
    ("gone.txt:1 in commit", |ground, secret| {
        ground.put("gone.txt", secret.as_bytes());
        ground.commit("add", &[]);
        ground.git(&["rm", "-q", "gone.txt"]);
        ground.commit("and away", &[]);
    }),
    ("side.txt:1 in commit", |ground, secret| {
        ground.git(&["checkout", "-q", "-b", "side"]);
        ground.put("side.txt", secret.as_bytes());
        ground.commit("aside", &[]);
        ground.git(&["rm", "-q", "side.txt"]);
        ground.commit("away", &[]);
        ground.git(&["checkout", "-q", "main"]);
        ground.commit("meanwhile", &[]);
        ground.git(&["merge", "-q", "--no-ff", "side", "-m", "merge"]);
    }),
    ("its message, or a name in it", |ground, secret| {
        ground.commit(&format!("subject\n\nbody {secret} goes on"), &[]);
    }),
    ("its message, or a name in it", |ground, secret| {
        let author = format!("{secret} <a@example.org>");
        ground.commit("by somebody", &["--author", &author]);
    }),
    ("its message, or a name in it", |ground, secret| {
        let author = format!("Somebody <{secret}>");
        ground.commit("by somebody", &["--author", &author]);
    }),
];

#[tokio::test]
async fn a_secret_is_found_wherever_it_is_in_the_commits() {
    use base64::Engine;
    let code = base64::engine::general_purpose::STANDARD.encode(LENT);
    let hex = crate::hash::hex(LENT.as_bytes());
    let secrets = [token(), LENT.to_owned(), code, hex];
    for secret in &secrets {
        for (place, plant) in PLACES {
            let ground = GitFixture::new().await;
            let base = ground.main().await;
            plant(&ground, secret);
            let scanned = ground.scan(&base).await;
            let places: Vec<&str> = scanned.secrets.iter().map(|one| &one.place[..]).collect();
            let found = places.iter().any(|found| found.contains(place));
            assert!(found, "{secret} at {place}: {scanned:?}");
            assert!(!format!("{scanned:?}").contains(&secret[..]), "{place}");
        }
    }
}

#[tokio::test]
async fn a_secret_in_a_file_s_name_is_found_and_not_repeated() {
    let ground = GitFixture::new().await;
    let base = ground.main().await;
    let secret = token();
    ground.put(&format!("dir/{secret}.txt"), b"x\n");
    ground.commit("add", &[]);
    ground.git(&["rm", "-q", "-r", "dir"]);
    ground.commit("and away", &[]);
    let scanned = ground.scan(&base).await;
    assert_eq!(scanned.secrets.len(), 1, "{scanned:?}");
    assert!(!format!("{scanned:?}").contains(&secret));
}

#[tokio::test]
async fn what_was_there_before_or_only_moves_is_no_new_secret() {
    let ground = GitFixture::new().await;
    ground.put("fixture.txt", format!("one\n{}\n", token()).as_bytes());
    ground.put(
        "old.txt",
        format!("{}\n", token().replace("a1", "c3")).as_bytes(),
    );
    ground.commit("fixtures", &[]);
    let base = ground.main().await;
    ground.put(
        "fixture.txt",
        format!("two\n{}\nthree\n", token()).as_bytes(),
    );
    ground.git(&["mv", "old.txt", "new.txt"]);
    ground.put("plain.bin", &[0, 159, 146, 150]);
    ground.commit("edit", &[]);
    assert_eq!(ground.scan(&base).await, Scanned::default());
}

#[tokio::test]
async fn characters_that_are_not_shown_or_turn_a_text_around_are_told_by_commit() {
    for (text, hides) in [
        ("fix \u{1b}[2Kapproved", true),
        ("fix \u{202e}txt.exe", true),
        ("fix\u{7}", true),
        (
            "f\u{fc}r alle \u{1f469}\u{200d}\u{1f4bb} \u{645}\u{6cc}\u{200c}\u{62e}",
            false,
        ),
        ("plain\n\n\tbody\r\n", false),
    ] {
        let ground = GitFixture::new().await;
        let base = ground.main().await;
        ground.put("x", b"x");
        ground.commit(text, &[]);
        let scanned = ground.scan(&base).await;
        assert_eq!(!scanned.hidden.is_empty(), hides, "{text:?}");
    }
}

#[tokio::test]
async fn what_is_too_large_to_look_through_says_so() {
    let ground = GitFixture::new().await;
    let base = ground.main().await;
    let file = fs::File::create(ground.repo().join("huge")).unwrap();
    file.set_len(129 << 20).unwrap();
    ground.commit("huge", &[]);
    let scanned = ground.scan(&base).await;
    let why = scanned.unread.unwrap();
    assert!(why.contains("huge has 129 MiB"), "{why}");
}
