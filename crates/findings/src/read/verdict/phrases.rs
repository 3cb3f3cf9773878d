//! Finds phrases of a list in a text, in one pass whatever the length of the list.

use std::collections::HashMap;

/// Phrases by the first letter of their first word. A word that ends in `*` matches by its
/// beginning, `#` matches a number; phrases without blanks in scripts that write none are found
/// anywhere.
pub(in crate::read) struct Phrases {
    by_letter: HashMap<char, Vec<Vec<&'static str>>>,
    unspaced: Vec<&'static str>,
}

impl Phrases {
    /// Reads a list with one phrase between commas or line ends.
    pub fn of(lists: &[&'static str]) -> Self {
        let mut by_letter: HashMap<char, Vec<Vec<&'static str>>> = HashMap::new();
        let mut unspaced = Vec::new();
        let phrases = lists.iter().flat_map(|list| list.split([',', '\n']));
        for phrase in phrases.map(str::trim).filter(|phrase| !phrase.is_empty()) {
            if phrase.chars().any(is_unspaced) {
                unspaced.push(phrase);
            } else if let Some(letter) = phrase.chars().next() {
                by_letter
                    .entry(letter)
                    .or_default()
                    .push(phrase.split(' ').collect());
            }
        }
        Self {
            by_letter,
            unspaced,
        }
    }

    /// Whether one of the phrases is in the sentence.
    pub fn is_in(&self, sentence: &TokenizedSentence) -> bool {
        let spaced = (0..sentence.words.len()).any(|at| self.starts(&sentence.words[at..]));
        spaced
            || (sentence.unspaced
                && self
                    .unspaced
                    .iter()
                    .any(|phrase| sentence.text.contains(phrase)))
    }

    /// Whether one of the phrases begins with the first of these words.
    pub fn starts(&self, words: &[String]) -> bool {
        self.longest(words).is_some()
    }

    /// How many words the longest phrase takes that begins with the first of these words.
    pub fn longest(&self, words: &[String]) -> Option<usize> {
        let letter = words.first()?.chars().next()?;
        let listed = |letter| self.by_letter.get(&letter).into_iter().flatten();
        listed(letter)
            .chain(listed('#').filter(|_| letter.is_ascii_digit()))
            .filter(|phrase| {
                phrase.len() <= words.len()
                    && phrase
                        .iter()
                        .zip(words)
                        .all(|(wanted, word)| fits(wanted, word))
            })
            .map(Vec::len)
            .max()
    }
}

fn fits(wanted: &str, word: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(stem) => word.starts_with(stem),
        None if wanted == "#" => word.bytes().all(|byte| byte.is_ascii_digit()),
        None => word == wanted,
    }
}

/// Scripts that put no blanks between words.
pub(in crate::read) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// One sentence as lower-case words.
#[derive(Clone, Debug, Default)]
pub(in crate::read) struct TokenizedSentence {
    pub text: String,
    pub words: Vec<String>,
    /// It has letters of a script without blanks.
    pub unspaced: bool,
}

impl TokenizedSentence {
    pub fn of(text: &str) -> Self {
        let lower = text.to_lowercase().replace('’', "'");
        let words = lower
            .split(|c: char| !(c.is_alphanumeric() || c == '\''))
            .map(|word| word.trim_matches('\''))
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        Self {
            unspaced: lower.chars().any(is_unspaced),
            text: lower,
            words,
        }
    }

    /// Roughly how many words it has, whatever the script.
    pub fn weight(&self) -> usize {
        let unspaced = if self.unspaced {
            self.text.chars().filter(|&c| is_unspaced(c)).count() / 2
        } else {
            0
        };
        self.words.len() + unspaced
    }
}

/// The sentences of a text. A full stop ends one only before a blank, so that names of files stay
/// whole; line ends inside a paragraph end none.
pub(in crate::read) fn sentences(text: &str) -> Vec<TokenizedSentence> {
    sentence_texts(text)
        .into_iter()
        .map(TokenizedSentence::of)
        .collect()
}

/// The same as they are written.
pub(in crate::read) fn sentence_texts(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut marks = text.char_indices().peekable();
    while let Some((at, c)) = marks.next() {
        let ends = match c {
            '。' | '！' | '？' | '；' | ';' | '—' => true,
            '.' | '!' | '?' => marks.peek().is_none_or(|(_, next)| {
                next.is_whitespace() || matches!(next, '*' | '_' | ')' | '"' | '”')
            }),
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            push(&text[start..end], &mut out);
            start = end;
        }
    }
    push(&text[start..], &mut out);
    out
}

fn push<'a>(text: &'a str, out: &mut Vec<&'a str>) {
    if text.chars().any(char::is_alphanumeric) {
        out.push(text);
    }
}
