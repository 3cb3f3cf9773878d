//! Paths that our documents name: a recipe or the code map that points to a file of yesterday costs
//! a newcomer more than none.

use std::collections::BTreeSet;

use regex::Regex;

use super::rules::Breach;
use super::tree::{Layer, Source, Tree};

/// Parts of paths whose files the tree leaves out.
const NOT_READ: [&str; 2] = ["/fixtures/", "/schema"];
const OPERATIONS: &str = "crates/app/src/operations";
const OPERATIONS_DIR: &str = "crates/app/src/operations/";

/// Paths and names in backticks under "Recipes" of `CONTRIBUTING.md`.
pub fn recipes(tree: &Tree) -> Vec<Breach> {
    const PATH: &str = "CONTRIBUTING.md";
    let name = Regex::new(r"^[A-Za-z][A-Za-z_]{3,}$").expect("a fixed pattern");
    let sources = tree.sources();
    let mut breaches = Vec::new();
    for (line, quoted) in quoted_below(tree, PATH, "## Recipes") {
        let mut item = Item::new(tree, vec!["crates/".to_owned(), String::new()]);
        for text in quoted {
            let is_known = match (is_path(&text), name.is_match(&text)) {
                (true, _) => item.finds(&text),
                (false, true) => is_in_code(&sources, &text),
                (false, false) => true,
            };
            if !is_known {
                breaches.push(Breach::new(PATH, line, text));
            }
        }
    }
    breaches
}

/// Paths in backticks in the code map, and modules of the operations that it does not name.
pub fn code_map(tree: &Tree) -> Vec<Breach> {
    const PATH: &str = "ARCHITECTURE.md";
    let heading = Regex::new(r"^crates/\S+$").expect("a fixed pattern");
    let mut base = String::new();
    let mut breaches = Vec::new();
    let mut named = BTreeSet::new();
    for (line, quoted) in quoted_below(tree, PATH, "## Code map") {
        if let [only] = quoted.as_slice()
            && heading.is_match(only)
        {
            base = format!("{only}/");
        }
        let mut item = Item::new(
            tree,
            vec![base.clone(), "crates/".to_owned(), String::new()],
        );
        for text in &quoted {
            if is_path(text) && !item.finds(text) {
                breaches.push(Breach::new(PATH, line, text));
            }
        }
        named.extend(item.found);
        let modules = quoted
            .iter()
            .filter_map(|text| text.strip_prefix("app::operations::"));
        named.extend(modules.map(|module| {
            let module = module.trim_end_matches('*');
            format!("{OPERATIONS}/{module}.rs")
        }));
    }
    let text = tree.text(&format!("{OPERATIONS}.rs")).unwrap_or_default();
    let module = Regex::new(r"(?m)^(?:pub(?:\(\w+\))? )?mod (\w+);").expect("a fixed pattern");
    for found in module.captures_iter(text) {
        if !named.contains(&format!("{OPERATIONS}/{}.rs", &found[1])) {
            let what = format!("the map lacks operations/{}.rs", &found[1]);
            breaches.push(Breach::new(PATH, 1, what));
        }
    }
    breaches
}

/// Returns the texts in backticks, line by line, from a heading to the next of its level.
fn quoted_below(tree: &Tree, path: &str, heading: &str) -> Vec<(usize, Vec<String>)> {
    let quoted = Regex::new("`([^`]+)`").expect("a fixed pattern");
    let text = tree.text(path).unwrap_or_default();
    let lines = text.lines().enumerate();
    let below = lines.skip_while(|(_, line)| *line != heading).skip(1);
    below
        .take_while(|(_, line)| !line.starts_with("## "))
        .map(|(at, line)| {
            let texts = quoted.captures_iter(line).map(|found| found[1].to_owned());
            (at + 1, texts.collect())
        })
        .collect()
}

/// Commands, macros, Rust paths and addresses of routes are none.
fn is_path(text: &str) -> bool {
    let marks = [' ', ':', '(', '[', '<', '#', '$'];
    let ends = [".rs", ".md", ".py", ".toml", ".json", "*", "/"];
    let is_plain = !text.contains(marks) && !text.starts_with('/');
    is_plain && (text.contains('/') || ends.iter().any(|end| text.ends_with(end)))
}

fn is_in_code(sources: &[Source], name: &str) -> bool {
    let word = Regex::new(&format!(r"\b{name}\b")).expect("a plain word");
    let mut code = sources.iter().map(|source| source.layer(Layer::Code));
    code.any(|code| word.is_match(code))
}

/// One line of a document. A short path stands below a directory of a longer one before it.
struct Item<'a> {
    tree: &'a Tree,
    bases: Vec<String>,
    /// Operations that it names.
    found: BTreeSet<String>,
}

impl<'a> Item<'a> {
    fn new(tree: &'a Tree, bases: Vec<String>) -> Self {
        Self {
            tree,
            bases,
            found: BTreeSet::new(),
        }
    }

    fn finds(&mut self, text: &str) -> bool {
        let mut is_known = true;
        for one in alternatives(text) {
            let bases = self.bases.iter();
            let paths = bases.map(|base| format!("{base}{one}"));
            let Some((path, files)) = paths
                .map(|path| (matching(self.tree, &path), path))
                .find_map(|(files, path)| files.map(|files| (path, files)))
            else {
                is_known = false;
                continue;
            };
            // `operations*` names the directory, not each file.
            if path.starts_with(OPERATIONS_DIR) {
                self.found.extend(files);
            }
            self.bases.extend(directories(&path));
        }
        is_known
    }
}

/// `web/{a,b}.rs` names two.
fn alternatives(text: &str) -> Vec<String> {
    match text.split_once('{').zip(text.split_once('}')) {
        Some(((before, _), (_, after))) => {
            let inner = &text[before.len() + 1..text.len() - after.len() - 1];
            let parts = inner.split(',');
            parts.map(|part| format!("{before}{part}{after}")).collect()
        }
        None => vec![text.to_owned()],
    }
}

/// The files of a path in which `*` and `NAME` stand for any part of a name.
fn matching(tree: &Tree, path: &str) -> Option<BTreeSet<String>> {
    if NOT_READ.iter().any(|part| path.contains(part)) {
        let fixed = path.split("NAME").next().unwrap_or_default();
        return super::root().join(fixed).exists().then(BTreeSet::new);
    }
    let path = path.replace("NAME", "*");
    let pattern = regex::escape(path.trim_end_matches('/')).replace(r"\*", "[^/]*");
    let pattern = Regex::new(&format!("^{pattern}(?:/|$)")).expect("an escaped pattern");
    let files = tree.paths().filter(|file| pattern.is_match(file));
    let files: BTreeSet<String> = files.map(str::to_owned).collect();
    (!files.is_empty()).then_some(files)
}

/// Directories above a path, and the one that a module keeps its own modules in.
fn directories(path: &str) -> Vec<String> {
    let stem = path.trim_end_matches("*.rs").trim_end_matches(".rs");
    let own = stem.trim_end_matches('*').trim_end_matches('/');
    let above = own.match_indices('/').map(|(at, _)| own[..=at].to_owned());
    let mut all: Vec<String> = above.filter(|directory| directory != "crates/").collect();
    all.push(format!("{own}/"));
    // The nearest first.
    all.reverse();
    all
}

#[test]
fn a_short_path_stands_below_a_longer_one_before_it() {
    let tree = Tree::read(super::root());
    let mut item = Item::new(&tree, vec!["crates/".to_owned()]);
    assert!(item.finds("forge/src/{github,gitlab}.rs"));
    assert!(item.finds("gitlab/*.rs") && item.finds("webhook.rs"));
    assert!(!item.finds("gitlab/nowhere.rs") && !item.finds("policy.rs"));
    assert!(item.finds("flow/src/policy.rs") && item.finds("policy/limits.rs"));
}
