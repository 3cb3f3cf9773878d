//! Recognises what may stand beside an approval. The rule is an allow-list: a sentence counts as
//! harmless only if it is understood, whatever its language; every other one makes the approval
//! doubtful.

use std::sync::LazyLock;

use super::cues::{self, StrippedSentence};
use super::harmless_lists as lists;
use super::phrases::{Phrases, TokenizedSentence, is_unspaced, sentence_texts};

static PRAISE: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[lists::PRAISE]));
static DOES: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[lists::DOES]));
static PLAIN: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[lists::PLAIN]));
static DARK: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[lists::DARK]));
static BETWEEN: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[cues::BETWEEN_WORDS]));

/// In a sentence of at most so many words every word has to be known: there irony and withdrawal live.
const CURT_WORDS: usize = 7;
/// A piece of a sentence of at most so many words may be a mere noun.
const NOUN_WORDS: usize = 4;

/// Whether every sentence of a text is understood and takes nothing back.
pub(super) fn is_harmless(text: &str) -> bool {
    if text.contains([
        '?', '？', '~', '|', '<', '…', '{', '"', '“', '«', '「', '„', '*', '¹', '²', '†',
    ]) && !is_only_emphasised(text)
        || text.contains("...")
        || text.contains("[^")
    {
        return false;
    }
    let plain = without_code(text);
    sentence_texts(&plain).into_iter().all(is_harmless_sentence)
}

/// Whether every word of a title, a label or a cell is known, and none accuses.
pub(super) fn is_known(text: &str) -> bool {
    let sentence = TokenizedSentence::of(&without_code(text));
    if sentence.unspaced {
        return is_made_of_pieces(&sentence);
    }
    let rest = cues::without_harmless(sentence);
    !text.contains(['?', '~', '<', '{'])
        && !cues::is_objection(&rest)
        && !DARK.is_in(&rest.sentence)
        && known(&rest.sentence.words) == rest.sentence.words.len()
}

/// Whether a short sentence of a longer text is not understood.
pub(super) fn has_curt_stranger(text: &str) -> bool {
    let plain = without_code(text);
    sentence_texts(&plain).into_iter().any(|sentence| {
        let words = TokenizedSentence::of(sentence).words;
        words.len() <= CURT_WORDS
            && known(&words) * 2 < words.len()
            && !is_harmless_sentence(sentence)
    })
}

/// Asterisks in pairs emphasise; a lone one points at a note.
fn is_only_emphasised(text: &str) -> bool {
    let others = [
        '?', '？', '~', '|', '<', '…', '{', '"', '“', '«', '「', '„', '¹', '²', '†',
    ];
    !text.contains(others) && text.matches('*').count().is_multiple_of(2)
}

/// Puts a mark in the place of code, paths, addresses and numbers: names say nothing.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        // Words between back-ticks are judged like others: only what is no word is a name.
        let name = index % 2 == 1 && part.contains(|c: char| !c.is_alphabetic() && c != ' ');
        if name {
            out.push_str(" 0 ");
            continue;
        }
        for (at, word) in part.split(' ').enumerate() {
            if at > 0 {
                out.push(' ');
            }
            out.push_str(if is_name(word) { "0" } else { word });
            if is_name(word) && word.ends_with(['.', '!', ';', ',', '。']) {
                out.extend(word.chars().next_back());
            }
        }
    }
    out
}

fn is_name(word: &str) -> bool {
    let inner = word.trim_matches(|c: char| !c.is_alphanumeric());
    let dotted = inner.contains(['_', '.', ':', '\\', '#', '@', '='])
        && inner.chars().any(char::is_alphabetic);
    let numbered =
        inner.chars().any(|c| c.is_ascii_digit()) && inner.chars().any(char::is_alphabetic);
    let shouted = inner.chars().count() > 1
        && inner
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        && inner.chars().any(|c| c.is_ascii_digit())
        && inner.chars().any(|c| c.is_ascii_uppercase());
    inner.is_ascii() && !word.contains('\n') && (dotted || numbered || shouted)
}

fn is_harmless_sentence(text: &str) -> bool {
    let sentence = TokenizedSentence::of(text);
    if sentence.unspaced {
        return is_made_of_pieces(&sentence);
    }
    let total = sentence
        .words
        .iter()
        .filter(|word| !is_number(word))
        .count();
    let rest = cues::without_harmless(sentence);
    if cues::is_objection(&rest) || DARK.is_in(&rest.sentence) {
        return false;
    }
    let words = &rest.sentence.words;
    let known = known(words);
    let speaks = speaks(&rest);
    if total <= CURT_WORDS {
        // Many verbs are nouns as well, so a verb counts only behind a subject.
        let told = words.len() > 2 && PLAIN.starts(words) && !DOES.starts(words);
        let praised = rest.denies || rest.harmless || PRAISE.is_in(&rest.sentence);
        return known == words.len() && speaks && (praised || told);
    }
    speaks && known * 2 >= words.len() && clauses(text).all(is_clause)
}

fn speaks(rest: &StrippedSentence) -> bool {
    rest.denies || rest.harmless || PRAISE.is_in(&rest.sentence) || DOES.is_in(&rest.sentence)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// How many of the words are known.
fn known(words: &[String]) -> usize {
    let mut known = 0;
    let mut at = 0;
    while at < words.len() {
        let rest = &words[at..];
        let taken = [&PRAISE, &DOES, &PLAIN, &BETWEEN]
            .iter()
            .filter_map(|list| list.longest(rest))
            .max()
            .or_else(|| is_number(&rest[0]).then_some(1));
        known += taken.unwrap_or(0);
        at += taken.unwrap_or(1);
    }
    known
}

fn clauses(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ':', '(', ')', '\n'])
        .flat_map(|part| part.split(" and "))
        .flat_map(|part| part.split(" which "))
        .flat_map(|part| part.split(" while "))
        .flat_map(|part| part.split(" und "))
        .flat_map(|part| part.split(" et "))
        .flat_map(|part| part.split(" y "))
        .flat_map(|part| part.split(" и "))
}

/// A clause says something that is understood, or it is a short list of known or unknown things.
fn is_clause(text: &str) -> bool {
    let rest = cues::without_harmless(TokenizedSentence::of(text));
    let words = rest.sentence.words.len();
    words <= NOUN_WORDS || speaks(&rest) || known(&rest.sentence.words) == words
}

/// Takes the longest known piece from the front again and again; nothing may be left.
fn is_made_of_pieces(sentence: &TokenizedSentence) -> bool {
    let mut rest = sentence.text.as_str();
    while let Some(first) = rest.chars().next() {
        let piece = lists::PIECES
            .iter()
            .filter(|piece| rest.starts_with(**piece))
            .map(|piece| piece.len())
            .max();
        let taken = match piece {
            Some(taken) => taken,
            None if !is_unspaced(first) && !first.is_alphabetic() => first.len_utf8(),
            None if first.is_ascii_alphabetic() => {
                let end = rest
                    .find(|c: char| !c.is_ascii_alphanumeric())
                    .unwrap_or(rest.len());
                if known(&[rest[..end].to_owned()]) == 0 {
                    return false;
                }
                end
            }
            None => return false,
        };
        rest = &rest[taken..];
    }
    true
}
