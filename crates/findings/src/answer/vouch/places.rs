//! Recognises places in text: files with a line, tests, identifiers, commands of known tools.
//!
//! A place is left out of the vocabulary's judgement, so it must not be able to carry a statement.
//! `do_not_merge.rs` is a file name and a refusal. Hence the list of loud words.

/// Extensions of files that reviews name.
const EXTENSIONS: &str = "rs py js ts tsx jsx mjs cjs go java kt kts c h cc cpp hpp cs rb php swift scala sh bash zsh fish ps1 sql html htm css scss less vue svelte md rst txt toml yaml yml json jsonl xml ini cfg conf lock proto graphql tf nix lua ex exs erl hs ml mli clj dart r jl pl pm zig sol bats snap csv tsv gradle cmake mk";
/// Commands whose name may be quoted with their arguments.
const TOOLS: &str = "cargo npm npx yarn pnpm pytest python python3 go make tox ruff mypy eslint tsc jest vitest mvn gradle dotnet rspec bundle rake phpunit mix cabal stack zig bats ctest cmake git clippy";
/// Words that no identifier may carry outside of a test's name: it would be a sentence.
const LOUD: &str = "not no never dont cannot cant wont without reject rejected refuse refused block blocked blocks blocker wip todo fixme broken fail fails failed unsafe unread untested wrong bad bug revert but if until unless must should danger leak leaks nope merge approve approved";
/// Maximum length of a place, in bytes.
/// The longest path that a review quotes in practice fits.
const PLACE_BYTES_MAX: usize = 200;
/// Maximum number of words in a name that is neither a path nor a test.
/// A name of more words is a sentence with underscores.
const NAME_WORDS_MAX: usize = 4;

/// Returns whether a token without back-ticks is clearly a place: it has the extension of a file or
/// the separator of a test's name.
pub(super) fn is_place(token: &str) -> bool {
    let Some((path, rest)) = split_place(token) else {
        return false;
    };
    let named = rest.is_some_and(|name| !name.is_empty());
    let is_dir = path.ends_with('/') && path.len() > 2;
    (has_extension(path) || named || is_dir) && is_quiet(path.trim_end_matches('/'), rest)
        || is_test_name(token) && is_word(token)
}

/// Returns whether the content of back-ticks is a place, a name or a command of a known tool.
/// Ordinary words are none: back-ticks must not hide a sentence.
pub(super) fn is_code(code: &str) -> bool {
    if code.contains(' ') {
        // Only the first word names the tool. A shell operator is no allowed character, so no
        // second command follows.
        let tool = code.split(' ').next().unwrap_or_default();
        let is_argument = |c: char| c.is_ascii_alphanumeric() || " -_./=:".contains(c);
        return TOOLS.split(' ').any(|known| known == tool)
            && code.len() <= PLACE_BYTES_MAX
            && code.chars().all(is_argument)
            // Two dots may be an omission.
            && !code.contains("..")
            && code.split([' ', '_', '=', ':']).all(|word| !is_loud(word));
    }
    let bare = code.trim_end_matches("()").trim_end_matches('!');
    let Some((path, rest)) = split_place(bare) else {
        return false;
    };
    // `Config` alone is an ordinary word with a capital; `parseConfig` is an identifier.
    let is_mixed = code.contains(|c: char| c.is_ascii_uppercase())
        && code.contains(|c: char| c.is_ascii_lowercase())
        && !code[1..].chars().all(|c| c.is_ascii_lowercase());
    (is_mixed || code.contains(['_', '.', '/', ':', '(', '!'])) && is_quiet(path, rest)
}

/// Returns whether a key or a fact is a short name and not a sentence.
pub(in crate::answer) fn is_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    let words = split_words(name);
    !words.is_empty()
        && name.chars().all(is_name_char)
        && words.len() <= 2 * NAME_WORDS_MAX
        && words.iter().all(|word| !is_loud(word))
        // A long name has a number, as versions of models do.
        && (words.len() <= NAME_WORDS_MAX || name.contains(|c: char| c.is_ascii_digit()))
}

/// Splits a place into its path and the name of a test; removes the line.
fn split_place(token: &str) -> Option<(&str, Option<&str>)> {
    let is_place_char = |c: char| c.is_ascii_alphanumeric() || "_./:-#[]".contains(c);
    if token.is_empty()
        || token.len() > PLACE_BYTES_MAX
        || !token.chars().all(is_place_char)
        || !token.contains(|c: char| c.is_ascii_alphabetic())
        || token.contains("...")
    {
        return None;
    }
    let without_line =
        // `:12`, `#L12-L20` and `-14` are positions and say nothing.
        token.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, ':' | '-' | 'L' | '#'));
    let path = if without_line.is_empty() {
        token
    } else {
        without_line
    };
    Some(match path.split_once("::") {
        Some((path, name)) => (path, Some(name)),
        None => (path, None),
    })
}

fn has_extension(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(stem, extension)| {
        let known = EXTENSIONS.split(' ').any(|known| known == extension);
        known && !stem.is_empty()
    })
}

/// Returns whether a path or a name says nothing by itself. The name of a test may: it states the
/// behaviour that it proves, such as `rejects_an_empty_name`.
/// A test is named after the behaviour it proves, so loud words are usual there.
fn is_quiet(path: &str, test: Option<&str>) -> bool {
    let mut names = path
        .split(['/', ':'])
        .chain(test.filter(|_| !is_test_path(path)));
    names.all(|name| {
        let words = split_words(name);
        is_test_name(name)
            || words.len() <= NAME_WORDS_MAX && words.iter().all(|word| !is_loud(word))
    })
}

fn is_test_path(path: &str) -> bool {
    path.split('/')
        .any(|part| matches!(part, "test" | "tests" | "spec" | "__tests__") || is_test_name(part))
}

fn is_test_name(name: &str) -> bool {
    name.starts_with("test_") || name.contains("_test.") || name.ends_with("_test")
}

fn is_word(token: &str) -> bool {
    token.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let starts = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if starts || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_loud(word: &str) -> bool {
    LOUD.split(' ').any(|loud| loud.eq_ignore_ascii_case(word))
}
