use proptest::prelude::*;

use super::*;

#[test]
fn patterns_mean_what_gitignore_means_by_them() {
    let rows = [
        ("tests/", "tests/a/b.py", true),
        ("tests/", "src/tests/b.py", true),
        ("tests/", "tests", false),
        ("/tests/", "src/tests/b.py", false),
        ("*.lock", "Cargo.lock", true),
        ("*.lock", "a/b/yarn.lock", true),
        ("/*.lock", "a/yarn.lock", false),
        ("src/*.rs", "src/a.rs", true),
        ("src/*.rs", "src/a/b.rs", false),
        ("src/*.rs", "x/src/a.rs", false),
        ("src/**/*.rs", "src/a.rs", true),
        ("src/**/*.rs", "src/a/b/c.rs", true),
        ("src/**", "src/a/b.rs", true),
        ("src/**", "src", false),
        ("src", "src/a/b.rs", true),
        ("**/auth/**", "src/auth/token.rs", true),
        ("**/auth/**", "auth/token.rs", true),
        ("**/auth/**", "src/author/token.rs", false),
        ("a?c*e", "x/abcxde", true),
        ("[!a]b", "ab", false),
        ("[!a]b", "cb", true),
        ("[[:digit:]]x", "7x", true),
        ("{a,b}", "a", false),
        ("{a,b}", "{a,b}", true),
        ("\\!x", "!x", true),
        ("x\\ ", "x ", true),
        ("x  ", "x", true),
        ("**", "a/b", true),
        (".github/**", ".github/workflows/ci.yml", true),
    ];
    for (pattern, path, expected) in rows {
        assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
    }
}

#[test]
fn the_last_line_that_matches_decides_but_not_below_a_matched_directory() {
    let list = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        PathPatterns::new(&lines)
    };
    let but_one = list(&["*.sql", "!seed.sql"]);
    assert!(but_one.matches("db/a.sql") && !but_one.matches("db/seed.sql"));
    assert!(list(&["!seed.sql", "*.sql"]).matches("seed.sql"));
    assert!(list(&["db/", "!db/seed.sql"]).matches("db/seed.sql"));
    assert!(!list(&["db/*", "!db/seed.sql"]).matches("db/seed.sql"));
    assert!(!list(&[]).matches("a"));
}

#[test]
fn what_can_match_nothing_is_named() {
    for bad in ["", "  ", "#x", "[a", "a\\", "/", "//", &"x".repeat(2000)] {
        let empty = PathPatterns::new([&bad.to_owned()]);
        assert!(problem(bad).is_some() || bad == "//", "{bad}");
        assert!(!empty.matches("x") && !empty.matches("a"), "{bad}");
    }
    for good in ["tests/", "*.lock", "\\#x", "!x", "[a-z]"] {
        assert_eq!(problem(good), None, "{good}");
    }
}

/// Patterns of documents, examples and presets before `.gitignore` was the model, read by the matcher
/// of that time: what each protected stays protected.
#[test]
fn patterns_of_before_protect_no_less() {
    let patterns = [
        ".github/**",
        "tests/**",
        "test.sh",
        "src/auth/**",
        "**/auth/**",
        "**/*.sql",
        "migrations/**",
        "Cargo.toml",
        "src/",
        "ci.yml",
        "src/**/*.rs",
        "AGENTS.md",
    ];
    let paths = [
        ".github/workflows/ci.yml",
        "tests/a.py",
        "tests/a/b/c.py",
        "test.sh",
        "src/auth/x.rs",
        "src/auth/deep/x.rs",
        "lib/auth/x.rs",
        "a.sql",
        "db/x/a.sql",
        "migrations/1/up.sql",
        "Cargo.toml",
        "src/a.rs",
        "src/b/c.rs",
        "ci.yml",
        "AGENTS.md",
    ];
    for pattern in patterns {
        let before = paths.iter().filter(|path| legacy::matches(pattern, path));
        let before: Vec<_> = before.collect();
        assert!(!before.is_empty(), "{pattern}");
        for path in before {
            assert!(matches(pattern, path), "{pattern} on {path}");
        }
    }
}

proptest! {
    #[test]
    fn every_pattern_ends_quickly_and_without_a_panic(
        pattern in "[a-c*?/\\[\\]!^\\\\-]{0,40}", path in "[a-c/]{0,60}"
    ) {
        let _ = matches(&pattern, &path);
        let _ = problem(&pattern);
    }

    #[test]
    fn a_literal_path_matches_itself_and_all_below(
        path in "[a-z]{1,4}(/[a-z]{1,4}){0,3}", below in "[a-z]{1,4}"
    ) {
        let anchored = format!("/{path}");
        prop_assert!(matches(&anchored, &path));
        let inner = format!("{path}/{below}");
        prop_assert!(matches(&path, &inner));
        let directory = format!("{path}/");
        prop_assert!(matches(&directory, &inner));
    }

    /// A submodule, a file or a link in the place of a protected directory is protected too.
    #[test]
    fn a_protected_directory_is_protected_itself(
        path in "[a-z]{1,4}(/[a-z]{1,4}){0,3}", below in "[a-z]{1,4}"
    ) {
        let list = PathPatterns::new([&format!("{path}/")]);
        prop_assert!(list.protects(&path));
        let inner = format!("{path}/{below}");
        prop_assert!(list.protects(&inner));
        let sibling = format!("{path}_");
        prop_assert!(!list.protects(&sibling));
        prop_assert!(!list.matches(&path));
    }

    #[test]
    fn many_stars_on_a_long_name_take_no_time(stars in 1..200usize) {
        let pattern = "*a".repeat(stars) + "b";
        prop_assert!(!matches(&pattern, &"a".repeat(4000)));
        let deep = "**/a/".repeat(stars.min(150)) + "b";
        prop_assert!(!matches(&deep, &"a/".repeat(1000)));
    }
}
