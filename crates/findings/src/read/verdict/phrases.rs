//! Finds phrases of a list in a text, in one pass, whatever the length of the list.
//!
//! Reading time must be linear in the text, whatever a reviewer writes. So phrases are found by
//! their first letter, and the text is not searched once per phrase.

use std::collections::HashMap;

/// Phrases by the first letter of their first word. A word that ends in `*` matches by its
/// beginning, `#` matches a number. Phrases of scripts without blanks are found anywhere.
pub(in crate::read) struct Phrases {
    by_letter: HashMap<char, Vec<Vec<&'static str>>>,
    unspaced: Vec<&'static str>,
}

impl Phrases {
    /// Reads lists in which commas or line ends separate the phrases.
    pub fn from_lists(lists: &[&'static str]) -> Self {
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

    /// Returns whether one of the phrases is in the sentence.
    pub fn is_in(&self, sentence: &TokenizedSentence) -> bool {
        let spaced = (0..sentence.words.len()).any(|at| self.starts(&sentence.words[at..]));
        spaced
            || (sentence.unspaced
                && self
                    .unspaced
                    .iter()
                    .any(|phrase| sentence.text.contains(phrase)))
    }

    /// Returns whether one of the phrases is at the start of these words.
    pub fn starts(&self, words: &[String]) -> bool {
        self.longest(words).is_some()
    }

    /// Returns the number of words of the longest phrase at the start of these words.
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
                        .all(|(pattern, word)| fits(pattern, word))
            })
            .map(Vec::len)
            .max()
    }
}

fn fits(pattern: &str, word: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => word.starts_with(stem),
        None if pattern == "#" => word.bytes().all(|byte| byte.is_ascii_digit()),
        None => word == pattern,
    }
}

/// Returns whether a character belongs to a script without blanks between words.
pub(in crate::read) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// One sentence as lower-case words.
#[derive(Clone, Debug, Default)]
pub(in crate::read) struct TokenizedSentence {
    pub text: String,
    pub words: Vec<String>,
    /// Whether the sentence has letters of a script without blanks.
    pub unspaced: bool,
}

impl TokenizedSentence {
    pub fn parse(text: &str) -> Self {
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

    /// Returns the approximate number of words, whatever the script.
    pub fn weight(&self) -> usize {
        let unspaced = if self.unspaced {
            self.text.chars().filter(|&c| is_unspaced(c)).count() / 2
        } else {
            0
        };
        self.words.len() + unspaced
    }
}

/// Splits a text into sentences. A full stop ends one only before a blank, so that file names stay
/// whole; line ends inside a paragraph end none.
pub(in crate::read) fn sentences(text: &str) -> Vec<TokenizedSentence> {
    sentence_texts(text)
        .into_iter()
        .map(TokenizedSentence::parse)
        .collect()
}

/// Like [`sentences`], as they are written.
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
