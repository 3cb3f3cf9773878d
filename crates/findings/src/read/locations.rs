//! Reads locations: paths and lines as people and tools write them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    pub file: Option<String>,
    pub line: Option<u32>,
    pub end_line: Option<u32>,
}

/// Matches a path and, right after it, its lines in one of the usual spellings.
static LOCATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        (?P<path>
            (?:[A-Za-z]:)?[/\\]?(?:[A-Za-z0-9_.@~$+%\-\[\](){}*]+[/\\])+[A-Za-z0-9_.@~$+%\-\[\]{}*]*[A-Za-z0-9_\]}*]
          | [A-Za-z0-9_.@~$+%\-\[\]]*[A-Za-z0-9_\]]\.[A-Za-z][A-Za-z0-9]{0,11}
          | \.[a-z][A-Za-z0-9_.\-]+
          | \b(?:Makefile|Dockerfile|Containerfile|Jenkinsfile|Justfile|justfile|Gemfile|Rakefile|Procfile|LICENSE|CODEOWNERS|Vagrantfile|Brewfile|BUILD|WORKSPACE)\b
        )
        (?:
            [`*]{0,3}(?::|\#|@)L?(?P<l1>[0-9]{1,7})(?::[0-9]+)?(?:[-–—]L?(?P<e1>[0-9]{1,7})(?::[0-9]+)?)?
          | [`*]{0,3}\#L(?P<l2>[0-9]{1,7})(?:C[0-9]+)?(?:-L?(?P<e2>[0-9]{1,7}))?
          | [`*)\]]{0,3}[\s,:]{0,3}[(\[`]?(?:(?:at|on|around|near|~)\s)?(?:lines?|Lines?|LINES?|ln|L|líneas?|linhas?|Zeilen?|lignes?)[\s.:~\#]{0,3}[`*]{0,2}L?~?(?P<l3>[0-9]{1,7})(?:\s{0,2}(?:[-–—]|to)\s{0,2}L?(?P<e3>[0-9]{1,7}))?
          | \s?[(\[](?P<l4>[0-9]{1,7})(?:[-–](?P<e4>[0-9]{1,7})|,[0-9]{1,7})?[)\]]
        )?",
    )
    .ok()
});

/// Files without an extension that [`LOCATION`] knows; `file` covers `Makefile` and similar names.
const BARE_NAMES: [&str; 5] = ["file", "LICENSE", "CODEOWNERS", "BUILD", "WORKSPACE"];

/// Matches lines without a path: `line 12`, `lines 3-9`, `L12`, `12行`.
static LINES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        (?i:\b(?:lines?|ln|líneas?|linhas?|zeilen?|lignes?|строк[аи])[\s.:~\#]{0,3}[`*]{0,2}~?L?)(?P<l1>[0-9]{1,7})(?:\s{0,2}(?:[-–—]|to)\s{0,2}L?(?P<e1>[0-9]{1,7}))?
      | (?:[(\[`]|\bat\s|\baround\s|\bsee\s)L(?P<l2>[0-9]{1,7})(?:\s?[-–—]\s?L?(?P<e2>[0-9]{1,7}))?\b
      | (?P<l3>[0-9]{1,7})(?:[-–—](?P<e3>[0-9]{1,7}))?\s?行
      | (?:^|[\s(\[`])[:](?P<l4>[0-9]{1,7})(?:[-–—](?P<e4>[0-9]{1,7}))?\b",
    )
    .ok()
});

/// Matches a citation of Codex: `【F:src/a.rs†L220-L258】`.
static CITATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"【F:(?P<path>[^†】\n]{1,300})†L?(?P<line>[0-9]{1,7})(?:[-–—]L?(?P<end>[0-9]{1,7}))?[^】\n]{0,40}】").ok()
});

/// Turns citations into ordinary locations: `` `src/a.rs:220-258` ``.
fn plain_citations(text: &str) -> Cow<'_, str> {
    if !text.contains("【F:") {
        return Cow::Borrowed(text);
    }
    let Some(pattern) = CITATION.as_ref() else {
        return Cow::Borrowed(text);
    };
    pattern.replace_all(text, |citation: &Captures<'_>| {
        let end = citation
            .name("end")
            .map(|end| format!("-{}", end.as_str()))
            .unwrap_or_default();
        format!(" `{}:{}{end}` ", citation["path"].trim(), &citation["line"])
    })
}

/// Removes the citations from a title: they name the location, not the problem.
pub(super) fn without_citations(title: &str) -> Cow<'_, str> {
    if !title.contains("【F:") {
        return Cow::Borrowed(title);
    }
    let Some(pattern) = CITATION.as_ref() else {
        return Cow::Borrowed(title);
    };
    let bare = pattern.replace_all(title, "");
    if bare.chars().any(char::is_alphanumeric) {
        bare
    } else {
        Cow::Borrowed(title)
    }
}

const EXTENSIONS: &str = " rs ts tsx js jsx mjs cjs mts cts py pyi ipynb go java kt kts scala clj cljs ex exs erl hs ml mli fs fsx cs vb c h cc cpp cxx hh hpp hxx m mm swift rb erb php pl pm lua r jl dart zig nim v sv vhd sol move cairo sh bash zsh fish ps1 psm1 bat cmd sql psql prisma graphql gql proto thrift avsc html htm css scss sass less vue svelte astro hbs ejs pug j2 jinja tmpl tpl md mdx rst adoc txt tex json jsonc json5 jsonl ndjson yaml yml toml ini cfg conf config env properties xml xsd xsl plist gradle cmake mk bazel bzl nix tf tfvars hcl dockerfile lock sum mod work csv tsv snap svg wasm wat asm s diff patch log service socket timer desktop csproj sln vcxproj xcodeproj pbxproj gemspec podspec cabal editorconfig gitignore gitattributes dockerignore npmrc nvmrc eslintrc prettierrc babelrc example sample template lst storyboard xib strings resx razor cshtml lean coq agda el lisp scm rkt groovy pro qml ui f90 f pas d cr elm res resi re rei http rest mdc sarif bicep cue rego feature spec robot ";

fn known_extension(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        (!stem.is_empty() || extension.len() > 2)
            && EXTENSIONS.contains(&format!(" {} ", extension.to_ascii_lowercase()))
    })
}

fn any_extension(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        (1..=12).contains(&extension.len())
            && extension.starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

/// Returns whether the text around a match makes it a web address and not a path.
fn is_address(text: &str, start: usize, path: &str) -> bool {
    let before = text[..start].trim_end_matches('/');
    before.ends_with("http:")
        || before.ends_with("https:")
        || before.ends_with('@')
        || path.starts_with("www.")
        || path.contains("http:")
        || path.contains("https:")
}

fn number(captures: &Captures<'_>, names: &[&str]) -> Option<u32> {
    names
        .iter()
        .find_map(|name| captures.name(name))
        .and_then(|digits| digits.as_str().parse().ok())
        .filter(|&line| line > 0)
}

fn is_path(path: &str, has_line: bool) -> bool {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    if path.contains(['/', '\\']) {
        let numeric = path
            .chars()
            .all(|c| c.is_ascii_digit() || c == '/' || c == '.');
        return !numeric
            && (has_line
                || known_extension(name)
                || (any_extension(name) && path.matches('/').count() > 1)
                || (name.starts_with('.') && name.len() > 2));
    }
    match name.split_once('.') {
        None => true,
        Some(("", _)) => known_extension(name) || (has_line && name.len() > 3),
        Some(_) => known_extension(name),
    }
}

/// Finds every location in the text, in order, with its byte offset.
pub(super) fn find_locations(text: &str) -> Vec<(usize, Location)> {
    // Most texts have no location, and the pattern is expensive to compile.
    let may_name_one =
        text.contains(['.', '/', '\\']) || BARE_NAMES.iter().any(|name| text.contains(name));
    if !may_name_one {
        return Vec::new();
    }
    let Some(pattern) = LOCATION.as_ref() else {
        return Vec::new();
    };
    pattern
        .captures_iter(text)
        .filter_map(|captures| {
            let matched = captures.name("path")?;
            let line = number(&captures, &["l1", "l2", "l3", "l4"]);
            let path = tidy(matched.as_str());
            (is_path(path, line.is_some()) && !is_address(text, matched.start(), path)).then(|| {
                let end_line = number(&captures, &["e1", "e2", "e3", "e4"])
                    .filter(|end| line.is_some_and(|line| line < *end));
                (
                    matched.start(),
                    Location {
                        file: Some(path.to_owned()),
                        line,
                        end_line,
                    },
                )
            })
        })
        .take(2000)
        .collect()
}

/// Returns the location of a text: the first path with a line, else the first path with a line from
/// elsewhere in the text.
pub(super) fn find_location(text: &str) -> Location {
    let text = &*plain_citations(text);
    if let Some(spaced) = spaced(text) {
        return spaced;
    }
    let all = find_locations(text);
    let chosen = all
        .iter()
        .find(|(_, place)| place.line.is_some())
        .or_else(|| all.first())
        .map(|(_, place)| place.clone());
    match chosen {
        Some(place) if place.line.is_some() => place,
        chosen => {
            let (line, end_line) = find_lines(text);
            Location {
                file: chosen.and_then(|place| place.file),
                line,
                end_line,
            }
        }
    }
}

/// Reads a path with blanks, which is recognisable only in back-ticks.
fn spaced(text: &str) -> Option<Location> {
    let (_, rest) = text.split_once('`')?;
    let (inner, _) = rest.split_once('`')?;
    let (path, lines) = match inner.rsplit_once(':') {
        Some((path, lines)) if lines.starts_with(|c: char| c.is_ascii_digit()) => {
            (path, Some(lines))
        }
        _ => (inner, None),
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_spaced = path.contains(' ')
        && path.contains('/')
        && path.len() < 300
        && !path.contains(['(', '=', ';', '"', ','])
        && known_extension(name);
    let (line, end_line) = lines.map(parse_line_range).unwrap_or_default();
    is_spaced.then(|| Location {
        file: Some(path.to_owned()),
        line,
        end_line,
    })
}

/// Reads a field that contains only locations: the first one counts, and any name is a path.
pub(super) fn parse_location_field(text: &str) -> Location {
    let text = &*plain_citations(text);
    if let Some(spaced) = spaced(text) {
        return spaced;
    }
    let trimmed = text.trim().trim_matches(['`', '*', '"', '\'', ' ']);
    let all = find_locations(trimmed);
    if let Some((_, first)) = all.first() {
        let own = trimmed[..all.get(1).map_or(trimmed.len(), |(at, _)| *at)].to_owned();
        let (line, end_line) = if first.line.is_some() {
            (first.line, first.end_line)
        } else {
            find_lines(&own)
        };
        return Location {
            line,
            end_line,
            ..first.clone()
        };
    }
    let (line, end_line) = find_lines(trimmed);
    let lines_only = Location {
        file: None,
        line,
        end_line,
    };
    let name = trimmed
        .split([' ', ':', '(', ','])
        .next()
        .unwrap_or_default();
    let plausible = !name.is_empty()
        && name.len() < 300
        && (name.contains(['/', '.', '_', '\\']) && !name.contains("://"));
    if !plausible {
        return lines_only;
    }
    let line = lines_only.line.or_else(|| {
        trimmed[name.len()..]
            .trim_start_matches([':', ' ', '('])
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse().ok())
    });
    Location {
        file: Some(name.trim_matches('`').to_owned()),
        line,
        end_line: lines_only.end_line,
    }
}

/// Reads lines that the text names without a path.
pub(super) fn find_lines(text: &str) -> (Option<u32>, Option<u32>) {
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return (None, None);
    }
    let Some(captures) = LINES.as_ref().and_then(|pattern| pattern.captures(text)) else {
        return (None, None);
    };
    let line = number(&captures, &["l1", "l2", "l3", "l4"]);
    let end = number(&captures, &["e1", "e2", "e3", "e4"])
        .filter(|end| line.is_some_and(|line| line < *end));
    (line, end)
}

/// Reads a field with only a range: `7`, `7-8`, `L7–L9`, `7:3`, `7, 12`.
pub(super) fn parse_line_range(text: &str) -> (Option<u32>, Option<u32>) {
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty() && digits.len() < 8)
        .filter_map(|digits| digits.parse().ok())
        .filter(|&line| line > 0);
    let line: Option<u32> = numbers.next();
    let spans = text.contains(['-', '–', '—', '.']) || text.contains("to");
    let end = numbers
        .next()
        .filter(|end| spans && line.is_some_and(|line| line < *end));
    (line, end)
}

/// Removes punctuation of the sentence and unbalanced brackets.
fn tidy(path: &str) -> &str {
    let mut path = path
        .trim_end_matches(['.', ',', '*'])
        .trim_start_matches('*');
    if known_extension(path) {
        path = path.trim_start_matches('@');
    }
    for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
        if path.starts_with(open) && !path.contains(close) {
            path = &path[1..];
        }
        if path.ends_with(close) && !path.contains(open) {
            path = &path[..path.len() - 1];
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> (Option<String>, Option<u32>, Option<u32>) {
        let place = find_location(text);
        (place.file, place.line, place.end_line)
    }

    fn here(file: &str, line: u32, end: u32) -> (Option<String>, Option<u32>, Option<u32>) {
        (
            Some(file.to_owned()),
            (line > 0).then_some(line),
            (end > 0).then_some(end),
        )
    }

    #[test]
    fn the_usual_spellings_of_a_location_are_read() {
        assert_eq!(at("see src/a.rs:12."), here("src/a.rs", 12, 0));
        assert_eq!(at("`src/a.rs:12-20`"), here("src/a.rs", 12, 20));
        assert_eq!(at("src/a.rs:12:5: error"), here("src/a.rs", 12, 0));
        assert_eq!(at("(src/a.rs#L12-L20)"), here("src/a.rs", 12, 20));
        assert_eq!(at("`a.rs` lines 3–9"), here("a.rs", 3, 9));
        assert_eq!(at("`src/a.rs` (line 7)"), here("src/a.rs", 7, 0));
        assert_eq!(at("**`src/a.rs`**:7"), here("src/a.rs", 7, 0));
        assert_eq!(
            at("src/app/[id]/page.tsx L44"),
            here("src/app/[id]/page.tsx", 44, 0)
        );
        assert_eq!(
            at("a/media.$type.$id.tsx:22"),
            here("a/media.$type.$id.tsx", 22, 0)
        );
        assert_eq!(at("on line 9 of main.go"), here("main.go", 9, 0));
        assert_eq!(at("修改 src/lib.rs:88 中"), here("src/lib.rs", 88, 0));
    }

    #[test]
    fn words_with_slashes_and_addresses_are_no_paths() {
        for text in [
            "and/or",
            "read/write path",
            "https://example.com/a.html",
            "e.g. this",
            "v1.2.3",
            "score 7/10",
            "obj.method()",
            "127.0.0.1:80",
        ] {
            assert_eq!(find_location(text).file, None, "{text}");
        }
    }
}
