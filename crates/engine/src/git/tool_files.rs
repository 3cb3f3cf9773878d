//! Files that programs read automatically: agent CLIs, shells, package managers, editors, language
//! runtimes, git. A change must not configure its reviewer, so a reviewer's checkout has the base's
//! version of them.
//!
//! There are two rules: known names, by the tool that reads them; and every path with a component
//! that begins with a dot, because no list of names is complete. Names are compared by their
//! appearance: without case, without invisible characters, and with look-alike letters as the Latin
//! ones.

use crate::agent::registry;

/// Names that agents without an adapter of ours read anywhere in the tree: a name, or the beginning of
/// one (`x*`). Known agents declare theirs in `AgentCli::tool_files`.
const OTHER_AGENTS: &[&str] = &[
    "agent.md",
    "warp.md",
    "crush.md",
    "iflow.md",
    ".windsurf*",
    ".clinerules",
    ".cline*",
    ".roo*",
    ".kiro",
    ".amp",
    ".continue*",
    ".rules",
    ".crush*",
    ".junie",
    ".augment*",
];

/// Files without a leading dot that other tools read automatically.
const OTHER: &[&str] = &[
    "sitecustomize.py",
    "usercustomize.py",
    "pip.conf",
    "pip.ini",
    "mise.toml",
    "mise.local.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    "nuget.config",
    "pnpmfile.cjs",
    "_vimrc",
    "_netrc",
];

/// Returns whether a path configures an agent that works in the tree: its instructions and its
/// settings.
pub fn is_agent_configuration(path: &str) -> bool {
    let parts = normalized_components(path);
    let is_agent_file = |part: &str| {
        let known = registry::ALL.iter().flat_map(|cli| cli.tool_files);
        let mut names = known.chain(OTHER_AGENTS);
        names.any(|name| name_matches(name, part))
    };
    let (first, second) = (parts.first(), parts.get(1));
    let is_copilot_file = first.is_some_and(|first| first == ".github")
        && second.is_some_and(|second| FOR_COPILOT.contains(&second.as_str()));
    let is_editor_file = first.is_some_and(|first| first == ".vscode")
        && second.is_some_and(|second| FOR_EDITOR.contains(&second.as_str()));
    let is_review_file = matches!(parts.as_slice(), [name] if name == FOR_REVIEW);
    is_copilot_file
        || is_editor_file
        || is_review_file
        || parts.iter().any(|part| is_agent_file(part))
}

/// Instructions for reviewers, at the top only; in a directory it is an ordinary document.
const FOR_REVIEW: &str = "review.md";
/// Entries below a top-level `.github`.
const FOR_COPILOT: &[&str] = &[
    "copilot-instructions.md",
    "instructions",
    "agents",
    "prompts",
    "chatmodes",
    "skills",
    "hooks",
    "mcp.json",
];
/// Entries below a top-level `.vscode`.
const FOR_EDITOR: &[&str] = &["mcp.json", "settings.json", "tasks.json", "launch.json"];

/// Returns whether some program may read the path automatically.
pub fn is_read_by_tools(path: &str) -> bool {
    let parts = normalized_components(path);
    let dotted = parts.iter().any(|part| part.starts_with('.'));
    let is_listed = |part: &String| OTHER.iter().any(|name| name_matches(name, part));
    dotted || parts.iter().any(is_listed) || is_agent_configuration(path)
}

fn name_matches(name: &str, part: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => part.starts_with(start),
        None => part == name,
    }
}

fn normalized_components(path: &str) -> Vec<String> {
    path.split('/').map(normalize_lookalikes).collect()
}

/// Returns a component as it looks to a person, and to file systems that ignore case or drop
/// characters.
fn normalize_lookalikes(part: &str) -> String {
    let letters = part.chars().filter(|c| !is_invisible(*c)).map(to_latin);
    let text: String = letters.flat_map(char::to_lowercase).collect();
    // Combining marks are drawn over a letter that also exists without them.
    let text: String = text.chars().filter(|c| !is_mark(*c)).collect();
    // Some file systems drop these at the end; leading spaces are easily overlooked.
    let text = text.trim().trim_end_matches(['.', ' ']);
    if text.is_empty() {
        part.to_owned()
    } else {
        text.to_owned()
    }
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{061C}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    ) || c.is_control()
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{0300}'..='\u{036F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}' | '\u{FE20}'..='\u{FE2F}')
}

/// Letters of other scripts that look like each Latin character.
const ALIKE: &[(char, &str)] = &[
    ('.', "․。．｡﹒·・٠۰܁܂ꓸ"),
    ('-', "‐‑‒–—−﹣－"),
    ('_', "＿‿"),
    ('a', "аαɑàáâãäåāăąАΑ"),
    ('b', "ЬВβʙΒ"),
    ('c', "сϲⅽСϹⅭçćč"),
    ('d', "ԁⅾđ"),
    ('e', "еєèéêëēėęЕΕ"),
    ('f', "ϝғ"),
    ('g', "ɡցġğ"),
    ('h', "һНΗ"),
    ('i', "іıɩιⅰìíîïІΙ"),
    ('j', "јϳЈ"),
    ('k', "кκКΚ"),
    ('l', "ⅼӏǀłⅬ"),
    ('m', "мⅿМΜⅯ"),
    ('n', "ոηñΝп"),
    ('o', "оοσօòóôõöøОΟ"),
    ('p', "рρРΡ"),
    ('q', "ԛ"),
    ('r', "г"),
    ('s', "ѕЅśš"),
    ('t', "тτТΤ"),
    ('u', "υսùúûüц"),
    ('v', "νѵⅴ∨"),
    ('w', "ԝωш"),
    ('x', "хχⅹХΧ"),
    ('y', "уүγýÿУΥ"),
    ('z', "ᴢżźžΖ"),
];

/// Returns the Latin character that a character looks like, or the character itself.
fn to_latin(c: char) -> char {
    match c {
        // Fullwidth and mathematical forms.
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        '\u{1D400}'..='\u{1D6A3}' => {
            let at = (u32::from(c) - 0x1D400) % 52;
            let (first, at) = if at < 26 { (b'A', at) } else { (b'a', at - 26) };
            u8::try_from(at).map_or(c, |at| char::from(first + at))
        }
        _ if c.is_ascii() => c,
        _ => {
            let mut rows = ALIKE.iter();
            let row = rows.find(|(_, others)| others.contains(c));
            row.map_or(c, |(plain, _)| *plain)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_known_agent_names_the_files_that_it_reads() {
        for cli in registry::ALL {
            assert!(!cli.tool_files.is_empty(), "{}", cli.name);
            for name in cli.tool_files {
                // Paths are compared in lower case.
                assert_eq!(*name, name.to_lowercase(), "{}", cli.name);
                let path = name.replace('*', "x");
                assert!(is_agent_configuration(&path), "{path}");
            }
        }
    }

    const NAMED: &[&str] = &[
        "CLAUDE.md",
        "CLAUDE.local.md",
        "AGENTS.md",
        "AGENTS.override.md",
        "GEMINI.md",
        "QWEN.md",
        "WARP.md",
        "CONVENTIONS.md",
        ".env",
        ".env.local",
        ".envrc",
        ".mcp.json",
        ".claude/settings.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".cursor/rules/x.mdc",
        ".cursorrules",
        ".cursorignore",
        ".qwenignore",
        ".geminiignore",
        ".aider.conf.yml",
        ".aider.model.settings.yml",
        ".aiderignore",
        ".goosehints",
        "opencode.json",
        "opencode.jsonc",
        ".opencode/agent/x.md",
    ];

    const OTHERS: &[&str] = &[
        ".gitattributes",
        ".gitignore",
        ".gitmodules",
        ".gitconfig",
        ".mailmap",
        ".rgignore",
        ".ignore",
        ".npmrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".pypirc",
        ".cargo/config.toml",
        ".tool-versions",
        ".mise.toml",
        ".nvmrc",
        ".python-version",
        ".bashrc",
        ".editorconfig",
        ".vscode/extensions.json",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".gdbinit",
        ".lldbinit",
        "pip.conf",
        "mise.toml",
        "mise.local.toml",
        "sitecustomize.py",
        "usercustomize.py",
        "rust-toolchain.toml",
        "bunfig.toml",
        ".github/workflows/ci.yml",
    ];

    #[test]
    fn what_tools_read_is_known_wherever_it_is() {
        for name in NAMED {
            assert!(is_agent_configuration(name), "{name}");
        }
        for name in NAMED.iter().chain(OTHERS) {
            for path in [
                (*name).to_owned(),
                format!("a/b/{name}"),
                name.to_uppercase(),
            ] {
                assert!(is_read_by_tools(&path), "{path}");
            }
        }
        for plain in [
            "src/claude.rs",
            "docs/agents.txt",
            "codex/x",
            "src/env.rs",
            "a.b/c.d",
            "environment",
            "README.md",
            "Cargo.toml",
            "package.json",
            "gitignore",
            "mise/x",
            "src/bücher.rs",
            "src/файл.py",
            "..",
        ] {
            assert!(!is_agent_configuration(plain), "{plain}");
        }
        assert!(!is_read_by_tools("src/файл.py") && !is_read_by_tools("a.b/c.d"));
        assert!(!is_agent_configuration(".github/workflows/ci.yml"));
        assert!(is_agent_configuration("REVIEW.md") && !is_agent_configuration("docs/review.md"));
        assert!(is_agent_configuration(".github/copilot-instructions.md"));
        assert!(is_agent_configuration(".github/instructions/x.md"));
    }

    #[test]
    fn a_name_that_looks_the_same_is_the_same() {
        for name in [
            "СLAUDE.md",
            "ＣＬＡＵＤＥ.md",
            "CLAU\u{200B}DE.md",
            "CLAUDE\u{2024}md",
            "CLAUDE.md ",
            " CLAUDE.md",
            "CLAUDE.md.",
            "AGЕNTS.md",
            "𝐂𝐋𝐀𝐔𝐃𝐄.md",
            "C\u{301}LAUDE.md",
            "\u{FF0E}env",
            "\u{200B}.env",
            ".\u{200C}env",
            "\u{FEFF}.env.local",
            ".ЕNV",
        ] {
            assert!(is_agent_configuration(name), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn invisible_characters_case_and_wide_letters_hide_nothing(
            at in 0..NAMED.len(),
            place in 0_usize..40,
            invisible in prop::sample::select(vec!['\u{200B}', '\u{200D}', '\u{2060}', '\u{FEFF}', '\u{AD}', '\u{202E}', '\u{E0020}']),
            wide in any::<bool>(),
            upper in any::<bool>(),
            below in "([a-z]{1,5}/){0,3}",
        ) {
            let mut name: Vec<char> = NAMED[at].chars().collect();
            let place = place % (name.len() + 1);
            if wide && name.get(place).is_some_and(|c| c.is_ascii_graphic() && *c != '/') {
                name[place] = char::from_u32(u32::from(name[place]) + 0xFEE0).unwrap();
            }
            name.insert(place, invisible);
            let name: String = name.into_iter().collect();
            let name = if upper { name.to_uppercase() } else { name };
            let path = format!("{below}{name}");
            prop_assert!(is_read_by_tools(&path), "{path:?}");
            prop_assert!(is_agent_configuration(&path), "{path:?}");
        }

        #[test]
        fn every_path_with_a_dot_component_counts(
            before in "([a-z]{1,5}/){0,3}",
            dotted in "\\.[a-z0-9._-]{1,10}",
            after in "(/[a-z]{1,5}){0,3}",
        ) {
            let path = format!("{before}{dotted}{after}");
            prop_assert!(is_read_by_tools(&path), "{path}");
        }

        #[test]
        fn no_path_breaks_it(path in any::<String>()) {
            let named = is_agent_configuration(&path);
            prop_assert!(!named || is_read_by_tools(&path));
        }
    }
}
