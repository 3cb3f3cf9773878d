//! The project's own files as the rules see them: read once, held in memory, so that a breach can
//! be planted without touching the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::layers::{self, Layers};

/// Directories that hold no text of ours: built things, and what others wrote for tests to read.
const NOT_OURS: [&str; 5] = ["target", "node_modules", "fixtures", "corpus", "snapshots"];
/// The rules and their planted breaches are full of breaches.
const OF_TIDY: &str = "crates/tidy/tests/tidy";

/// Cheap to copy, so that every planted breach gets a tree of its own.
#[derive(Clone)]
pub struct Tree {
    files: BTreeMap<String, Arc<File>>,
}

struct File {
    text: String,
    layers: Layers,
    modules: Vec<TestModule>,
}

#[derive(Clone, Copy)]
pub enum Layer {
    Code,
    Comments,
    Quoted,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Scope {
    Production,
    Tests,
    Everything,
}

/// A text file that is written by hand and read by a machine.
pub struct Source {
    pub path: String,
    file: Arc<File>,
    /// One flag a line: is it test code?
    pub in_test: Vec<bool>,
}

impl File {
    /// Rust comes in layers; anything else counts as comment and as quotation.
    fn new(path: &str, text: String) -> Self {
        let layers = if is_rust(path) {
            layers::split(&text)
        } else {
            Layers {
                code: String::new(),
                comments: text.clone(),
                quoted: text.clone(),
            }
        };
        let modules = test_modules(&layers.code);
        Self {
            text,
            layers,
            modules,
        }
    }
}

impl Tree {
    pub fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        read_into(root, "", &mut files);
        Self { files }
    }

    pub fn with(&self, path: &str, text: &str) -> Self {
        let mut planted = self.clone();
        let file = File::new(path, text.to_owned());
        planted.files.insert(path.to_owned(), Arc::new(file));
        planted
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|file| file.text.as_str())
    }

    /// Files by the end of their name.
    pub fn named(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter();
        files
            .filter(move |(path, _)| path.ends_with(end))
            .map(|(path, file)| (path.as_str(), file.text.as_str()))
    }

    pub fn holds(&self, path: &str) -> bool {
        let directory = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&directory))
    }

    pub fn sources(&self) -> Vec<Source> {
        let declared = self.declared_for_tests();
        let files = self.files.iter().filter(|(path, _)| is_source(path));
        files
            .map(|(path, file)| Source::new(path, file, is_test_file(path, &declared)))
            .collect()
    }

    /// Returns the places of modules that are declared as `#[cfg(test)] mod name;`.
    fn declared_for_tests(&self) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        for (path, file) in &self.files {
            let names = file
                .modules
                .iter()
                .filter_map(|m| m.in_its_own_file.as_ref());
            places.extend(names.map(|name| format!("{}{name}", children_of(path))));
        }
        places
    }
}

impl Source {
    fn new(path: &str, file: &Arc<File>, all_test: bool) -> Self {
        let mut in_test = vec![all_test; file.text.lines().count() + 1];
        for module in &file.modules {
            let first = line_of(&file.layers.code, module.start);
            let last = line_of(&file.layers.code, module.end);
            in_test[first - 1..last].fill(true);
        }
        Self {
            path: path.to_owned(),
            file: Arc::clone(file),
            in_test,
        }
    }

    pub fn layer(&self, layer: Layer) -> &str {
        match layer {
            Layer::Code => &self.file.layers.code,
            Layer::Comments => &self.file.layers.comments,
            Layer::Quoted => &self.file.layers.quoted,
        }
    }

    pub fn test_modules(&self) -> &[TestModule] {
        &self.file.modules
    }

    /// The lines, counted from 1, where the pattern begins to match.
    pub fn find(&self, layer: Layer, scope: Scope, pattern: &Regex) -> Vec<usize> {
        let text = self.layer(layer);
        let in_scope = |line: &usize| match scope {
            Scope::Everything => true,
            Scope::Tests => self.in_test[line - 1],
            Scope::Production => !self.in_test[line - 1],
        };
        pattern
            .find_iter(text)
            .map(|hit| line_of(text, hit.start()))
            .filter(in_scope)
            .collect()
    }
}

pub fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "rs")
}

fn is_source(path: &str) -> bool {
    let is_script = path == "check" || path.starts_with("scripts/") || path.starts_with(".ci/");
    is_script
        || [".rs", ".sql", ".toml"]
            .iter()
            .any(|end| path.ends_with(end))
}

pub struct TestModule {
    pub start: usize,
    end: usize,
    in_its_own_file: Option<String>,
}

/// The test modules of one file's code, from their attribute to their closing brace.
fn test_modules(code: &str) -> Vec<TestModule> {
    static DECLARED: LazyLock<Regex> = LazyLock::new(|| {
        let text =
            r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])";
        Regex::new(text).expect("a fixed pattern")
    });
    DECLARED
        .captures_iter(code)
        .map(|found| {
            let (whole, inline) = (found.get_match(), &found[2] == "{");
            TestModule {
                start: whole.start(),
                end: if inline {
                    closing_brace(code, whole.end())
                } else {
                    whole.end()
                },
                in_its_own_file: (!inline).then(|| found[1].to_owned()),
            }
        })
        .collect()
}

fn closing_brace(code: &str, from: usize) -> usize {
    let mut depth = 1_usize;
    for (at, c) in code[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return from + at;
        }
    }
    code.len()
}

pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// `src/foo.rs` keeps its modules in `src/foo/`, `src/lib.rs` in `src/`.
fn children_of(path: &str) -> String {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" => format!("{directory}/"),
        _ => format!("{}/", path.trim_end_matches(".rs")),
    }
}

fn is_test_file(path: &str, declared: &BTreeSet<String>) -> bool {
    let aside = ["tests", "benches", "examples", "tests.rs"];
    path.split('/').any(|part| aside.contains(&part))
        || declared.iter().any(|place| is_in_room(path, place))
}

/// `crates/engine/src/process` is the room of `process.rs` and of everything in `process/`; a place
/// that ends in a slash is a directory, and one with an ending is that file.
pub fn is_in_room(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| {
        rest.is_empty() || rest == ".rs" || rest.starts_with('/') || place.ends_with('/')
    })
}

fn read_into(directory: &Path, prefix: &str, files: &mut BTreeMap<String, Arc<File>>) {
    for entry in fs::read_dir(directory).expect("the project's directory can be read") {
        let entry = entry.expect("an entry of a readable directory");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let hidden = name.starts_with('.') && ![".ci", ".github"].contains(&name.as_str());
        if hidden || NOT_OURS.contains(&name.as_str()) || is_in_room(&path, OF_TIDY) {
            continue;
        }
        if entry.path().is_dir() {
            read_into(&entry.path(), &format!("{path}/"), files);
        } else {
            let bytes = fs::read(entry.path()).expect("a file of the project can be read");
            let file = File::new(&path, String::from_utf8_lossy(&bytes).into_owned());
            files.insert(path, Arc::new(file));
        }
    }
}

#[test]
fn a_module_declared_for_tests_is_test_code_wherever_it_lives() {
    let tree = Tree {
        files: BTreeMap::new(),
    }
    .with(
        "crates/flow/src/lib.rs",
        "mod advance;\n#[cfg(test)]\nmod model;\nfn real() {}\n",
    )
    .with("crates/flow/src/model/search.rs", "fn search() {}\n")
    .with(
        "crates/flow/src/advance.rs",
        "fn f() {}\n#[cfg(test)]\nmod tests {\n}\nfn g() {}\n",
    );
    let flags = |end: &str| {
        let sources = tree
            .sources()
            .into_iter()
            .filter(|source| source.path.ends_with(end));
        sources.map(|source| source.in_test).next()
    };
    assert_eq!(flags("search.rs"), Some(vec![true, true]));
    assert_eq!(
        flags("advance.rs"),
        Some(vec![false, true, true, true, false, false])
    );
    assert_eq!(flags("lib.rs"), Some(vec![false, true, true, false, false]));
}
