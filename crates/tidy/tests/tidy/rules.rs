//! A rule and how a breach of it is found: by a pattern in one layer of the sources, or by a look at the
//! whole tree.

use regex::Regex;

use super::tree::{Layer, Scope, Tree, is_in_room, is_rust, line_of};

pub struct Rule {
    pub fact: &'static str,
    pub instead: &'static str,
    pub checks: &'static [Check],
    /// Files that break the rule, planted by the tests.
    pub planted: &'static [(&'static str, &'static str)],
    /// Files that look as if they did.
    pub fine: &'static [(&'static str, &'static str)],
}

pub enum Check {
    Pattern(Pattern),
    Whole(fn(&Tree) -> Vec<Breach>),
}

/// A pattern that may not be found within some places, except in the rooms that own it.
pub struct Pattern {
    pub layer: Layer,
    scope: Scope,
    pub within: Places,
    pub except: Places,
    pub regex: &'static str,
}

/// The longest a file may be without its tests.
pub const FILE_LINES_MAX: usize = 600;

pub struct Breach {
    pub path: String,
    pub line: usize,
    pub what: String,
}

impl Breach {
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl Rule {
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.checks.iter().filter_map(|check| match check {
            Check::Pattern(pattern) => Some(pattern),
            Check::Whole(_) => None,
        })
    }

    pub fn breaches(&self, tree: &Tree) -> Vec<Breach> {
        self.checks
            .iter()
            .flat_map(|check| match check {
                Check::Pattern(pattern) => pattern.breaches(tree),
                Check::Whole(find) => find(tree),
            })
            .collect()
    }
}

type Places = &'static [&'static str];

pub const fn code(scope: Scope, within: Places, except: Places, regex: &'static str) -> Check {
    Check::Pattern(Pattern {
        layer: Layer::Code,
        scope,
        within,
        except,
        regex,
    })
}

pub const fn comments(scope: Scope, within: Places, except: Places, regex: &'static str) -> Check {
    Check::Pattern(Pattern {
        layer: Layer::Comments,
        scope,
        within,
        except,
        regex,
    })
}

pub const fn quoted(scope: Scope, within: Places, except: Places, regex: &'static str) -> Check {
    Check::Pattern(Pattern {
        layer: Layer::Quoted,
        scope,
        within,
        except,
        regex,
    })
}

impl Pattern {
    fn breaches(&self, tree: &Tree) -> Vec<Breach> {
        let pattern = Regex::new(self.regex).expect("a fixed pattern");
        let is_among = |path: &str, places: &[&str]| places.iter().any(|p| is_in_room(path, p));
        let mut breaches = Vec::new();
        for source in tree.sources() {
            if !is_among(&source.path, self.within) || is_among(&source.path, self.except) {
                continue;
            }
            let text = tree.text(&source.path).unwrap_or_default();
            for line in source.find(self.layer, self.scope, &pattern) {
                let what = text.lines().nth(line - 1).unwrap_or_default().trim();
                breaches.push(Breach::new(&source.path, line, what));
            }
        }
        breaches
    }
}

pub fn sql_files_outside_store(tree: &Tree) -> Vec<Breach> {
    tree.named(".sql")
        .filter(|(path, _)| !path.starts_with("crates/store/"))
        .map(|(path, _)| Breach::new(path, 1, "an SQL file"))
        .collect()
}

/// `let _ =` on anything that can fail, without a comment above it that says why that is right.
/// Writing to a `String` cannot fail, and what ends in `?` is passed on.
pub fn dropped_results(tree: &Tree) -> Vec<Breach> {
    let dropped = Regex::new(r"\blet _ =\s*(\S*)").expect("a fixed pattern");
    let mut breaches = Vec::new();
    let sources = tree.sources().into_iter();
    for source in sources.filter(|source| source.path.starts_with("crates/")) {
        let code: Vec<&str> = source.layer(Layer::Code).lines().collect();
        let comments: Vec<&str> = source.layer(Layer::Comments).lines().collect();
        for (at, line) in code.iter().enumerate() {
            let Some(found) = dropped.captures(line) else {
                continue;
            };
            let text = found[1].to_owned() + code.get(at + 1).unwrap_or(&"");
            let is_passed_on = line.trim_end().ends_with("?;");
            let is_text = text.contains("write!") || text.contains("writeln!");
            // Several in a row share their reason.
            let mut above = at;
            while above > 0 && dropped.is_match(code[above - 1]) {
                above -= 1;
            }
            let is_explained = above > 0 && comments[above - 1].trim_start().starts_with("//");
            if !source.in_test[at] && !is_text && !is_passed_on && !is_explained {
                breaches.push(Breach::new(&source.path, at + 1, line.trim()));
            }
        }
    }
    breaches
}

pub fn mod_files(tree: &Tree) -> Vec<Breach> {
    tree.named("/mod.rs")
        .map(|(path, _)| Breach::new(path, 1, "a mod.rs"))
        .collect()
}

pub fn names_of_files(tree: &Tree) -> Vec<Breach> {
    let empty = Regex::new(
        "^(?:core|common|utils?|types|helpers?|misc|managers?|processors?|handlers?|imp)$",
    )
    .expect("a fixed pattern");
    let says_nothing = |path: &&str| {
        let code = path.starts_with("crates/") && !path.contains("/templates/");
        code && path
            .split('/')
            .any(|part| empty.is_match(part.trim_end_matches(".rs")))
    };
    tree.paths()
        .filter(says_nothing)
        .map(|path| Breach::new(path, 1, "its name"))
        .collect()
}

pub fn long_files(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in tree.sources() {
        // The flags have one more than the file has lines, for an empty last one.
        let lines = source
            .in_test
            .iter()
            .filter(|in_test| !**in_test)
            .count()
            .saturating_sub(1);
        if is_rust(&source.path) && lines > FILE_LINES_MAX {
            breaches.push(Breach::new(
                &source.path,
                FILE_LINES_MAX,
                format!("{lines} lines"),
            ));
        }
    }
    breaches
}

/// Every mention of `test` in a `cfg`, but for the attribute of a test module.
pub fn test_hooks(tree: &Tree) -> Vec<Breach> {
    let mention =
        Regex::new(r"#?!?\[?\bcfg(?:_attr)?!?\s*\([^\]{]*\btest\b").expect("a fixed pattern");
    let mut breaches = Vec::new();
    for source in tree.sources() {
        let code = source.layer(Layer::Code);
        let is_module = |at| {
            source
                .test_modules()
                .iter()
                .any(|module| module.start == at)
        };
        for found in mention
            .find_iter(code)
            .filter(|found| !is_module(found.start()))
        {
            breaches.push(Breach::new(
                &source.path,
                line_of(code, found.start()),
                found.as_str(),
            ));
        }
    }
    breaches
}
