//! Finds the tool that a shell command runs last, because we see only its exit code.

/// The tool at the end of a shell command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinterCommand<'a> {
    /// Name without a path, such as `eslint`, or with its verb if the verb is the tool, such as
    /// `go vet`.
    pub tool: Option<&'a str>,
    /// Words after the tool's name.
    pub arguments: Vec<&'a str>,
    /// Whether it is the only command: no pipe, no `;`, no `||`.
    pub is_alone: bool,
}

/// Programs that run another one and pass on its exit code.
const WRAPPERS: [&str; 24] = [
    "npx", "bunx", "pnpx", "uvx", "pnpm", "yarn", "npm", "bun", "bundle", "poetry", "uv", "pipx",
    "hatch", "pdm", "rye", "env", "exec", "time", "nice", "node", "php", "ruby", "python",
    "python3",
];
/// Words between a wrapper and the program.
const WRAPPER_VERBS: [&str; 6] = ["exec", "dlx", "run", "x", "tool", "--"];

impl<'a> LinterCommand<'a> {
    pub fn parse(command: &'a str) -> Self {
        let segments = segments(command);
        let is_alone = segments.len() == 1;
        let words = segments
            .last()
            .map(|last| split_words(last))
            .unwrap_or_default();
        let is_setting = |word: &&str| {
            word.split_once('=')
                .is_some_and(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        };
        let mut rest: Vec<&str> = words.into_iter().skip_while(is_setting).collect();
        let mut wrapped = false;
        while let Some(first) = rest.first().copied() {
            let is_wrapper = WRAPPERS.contains(&program_name(first))
                || (wrapped && (WRAPPER_VERBS.contains(&first) || first.starts_with('-')))
                || (wrapped && is_setting(&first));
            if !is_wrapper {
                break;
            }
            wrapped = true;
            rest.remove(0);
        }
        let name = rest.first().map(|first| program_name(first));
        let arguments: Vec<&str> = rest.get(1..).unwrap_or_default().to_vec();
        let verb = arguments
            .iter()
            .copied()
            .find(|word| !word.starts_with(['-', '+']));
        let tool = match (name, verb) {
            (Some("cargo"), Some("clippy")) => Some("clippy"),
            (Some("go"), Some("vet")) => Some("go vet"),
            (Some("cargo" | "go"), _) => None,
            (name, _) => name,
        };
        Self {
            tool,
            arguments,
            is_alone,
        }
    }
}

/// Returns the name of a program without its path and ending.
fn program_name(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    [".js", ".cjs", ".mjs", ".phar", ".exe", ".cmd", ".py", ".sh"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name)
}

/// Splits a shell command into its simple commands, in order.
fn segments(command: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let mut start = 0;
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in command.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ';' | '|' | '&' | '\n' | '(' | ')' | '`') => {
                // `2>&1` and `&>file` join streams, not commands.
                let joins_streams = c == '&'
                    && (command[..at].ends_with('>') || command[at + 1..].starts_with('>'));
                if !joins_streams {
                    segments.push(&command[start..at]);
                    start = at + c.len_utf8();
                }
            }
            _ => {}
        }
    }
    segments.push(&command[start..]);
    segments.retain(|segment| !segment.trim().is_empty());
    segments
}

fn split_words(segment: &str) -> Vec<&str> {
    segment
        .split_whitespace()
        .map(|word| word.trim_matches(['"', '\'']))
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(command: &str) -> (Option<&str>, bool) {
        let parsed = LinterCommand::parse(command);
        (parsed.tool, parsed.is_alone)
    }

    #[test]
    fn the_last_tool_of_a_command_is_found() {
        for (command, name) in [
            ("eslint -f json .", "eslint"),
            ("npx --yes eslint .", "eslint"),
            ("node_modules/.bin/eslint .", "eslint"),
            ("node ./node_modules/.bin/eslint.js .", "eslint"),
            ("pnpm exec eslint .", "eslint"),
            ("CI=1 NO_COLOR=1 ruff check .", "ruff"),
            ("uv run ruff check .", "ruff"),
            ("python3 -m pylint src", "pylint"),
            ("bundle exec rubocop --format json", "rubocop"),
            ("php vendor/bin/phpstan analyse", "phpstan"),
            ("cargo clippy --message-format=json", "clippy"),
            ("cargo +nightly clippy", "clippy"),
            ("go vet ./...", "go vet"),
            ("shellcheck -f json *.sh 2>&1", "shellcheck"),
        ] {
            assert_eq!(tool(command), (Some(name), true), "{command}");
        }
        assert_eq!(tool("eslint . || true"), (Some("true"), false));
        assert_eq!(tool("cd web && eslint ."), (Some("eslint"), false));
        assert_eq!(tool("eslint . | tee out"), (Some("tee"), false));
        assert_eq!(tool("grep 'a;b|c' x"), (Some("grep"), true));
        assert_eq!(tool("cargo test"), (None, true));
        assert_eq!(tool(""), (None, false));
    }
}
