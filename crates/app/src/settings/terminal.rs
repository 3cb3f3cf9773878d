//! Reads the terminal's features from the environment.

/// Form of links to a line of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkStyle {
    #[default]
    None,
    /// The file without the line, which most terminals understand.
    File,
    /// The line as a fragment.
    Fragment,
    /// A link that the editor around the terminal opens at the line.
    Code,
}

/// Features of the terminal, read once. Other code checks whether there is a terminal at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalFeatures {
    pub colours: bool,
    /// True if lines, bars and marks may use characters beyond ASCII.
    pub unicode: bool,
    /// True if the cursor can be moved.
    pub moves: bool,
    pub links: LinkStyle,
}

impl TerminalFeatures {
    #[expect(
        clippy::disallowed_methods,
        reason = "other code must call this function instead"
    )]
    pub fn read() -> Self {
        Self::from(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).is_some();
        let moves = variable("TERM").is_some_and(|term| term != "dumb");
        Self {
            colours: !set("NO_COLOR") && variable("TERM").is_none_or(|term| term != "dumb"),
            unicode: is_utf8(&variable),
            moves,
            links: if moves {
                links(&variable)
            } else {
                LinkStyle::None
            },
        }
    }
}

/// Tells whether the locale is UTF-8. The first variable that is set decides, as in the C library.
fn is_utf8(variable: &impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(variable);
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Chooses the form of links. Only known terminals get links, because others might print the
/// address.
fn links(variable: &impl Fn(&str) -> Option<String>) -> LinkStyle {
    let set = |name: &str| variable(name).is_some();
    let program = variable("TERM_PROGRAM").unwrap_or_default();
    let term = variable("TERM").unwrap_or_default();
    let vte = variable("VTE_VERSION").and_then(|version| version.parse::<u32>().ok());
    let known = ["iTerm.app", "WezTerm", "ghostty", "Hyper", "Tabby", "rio"];
    if variable("FORCE_HYPERLINK").is_some_and(|value| value == "0") || set("NO_HYPERLINK") {
        LinkStyle::None
    } else if program == "vscode" {
        LinkStyle::Code
    } else if set("KITTY_WINDOW_ID") || term == "xterm-kitty" {
        LinkStyle::Fragment
    } else if known.contains(&program.as_str())
        || vte.is_some_and(|version| version >= 5000)
        || set("WT_SESSION")
        || set("KONSOLE_VERSION")
        || set("FORCE_HYPERLINK")
        || ["foot", "alacritty", "xterm-ghostty", "wezterm"].contains(&term.as_str())
    {
        LinkStyle::File
    } else {
        LinkStyle::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(variables: &[(&str, &str)]) -> TerminalFeatures {
        TerminalFeatures::from(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_dumb_terminal_and_none_at_all_get_plain_lines() {
        let dumb = terminal(&[("TERM", "dumb"), ("LANG", "C"), ("VTE_VERSION", "7000")]);
        assert_eq!(dumb, TerminalFeatures::default());
        assert!(!terminal(&[]).moves);
    }

    #[test]
    fn the_locale_is_read_as_the_c_library_reads_it() {
        let utf8 = |variables: &[(&str, &str)]| terminal(variables).unicode;
        assert!(utf8(&[("LANG", "en_US.UTF-8")]));
        assert!(utf8(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!utf8(&[]));
    }

    #[test]
    fn links_are_for_terminals_that_show_them() {
        let links = |variables: &[(&str, &str)]| {
            let term = [("TERM", "xterm-256color")];
            terminal(&[&term[..], variables].concat()).links
        };
        assert_eq!(links(&[]), LinkStyle::None);
        assert_eq!(links(&[("TERM_PROGRAM", "vscode")]), LinkStyle::Code);
        assert_eq!(links(&[("KITTY_WINDOW_ID", "1")]), LinkStyle::Fragment);
        assert_eq!(links(&[("VTE_VERSION", "6800")]), LinkStyle::File);
        assert_eq!(links(&[("VTE_VERSION", "4000")]), LinkStyle::None);
        let refused = [("VTE_VERSION", "6800"), ("FORCE_HYPERLINK", "0")];
        assert_eq!(links(&refused), LinkStyle::None);
    }

    #[test]
    fn no_color_takes_colours_and_nothing_else() {
        let seen = terminal(&[("TERM", "xterm"), ("NO_COLOR", "1"), ("LANG", "C.UTF-8")]);
        assert!(!seen.colours && seen.moves && seen.unicode);
    }
}
