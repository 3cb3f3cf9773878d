//! Recognises text that does not contradict an approval. The rule is an allow-list: a sentence is
//! harmless only if it is understood, whatever its language; any other one makes the approval
//! doubtful.
//!
//! Longer sentences get more tolerance than short ones, because they describe the change in words
//! of the project. Irony, withdrawals and conditions are short.

use std::sync::LazyLock;

use super::cues::{self, StrippedSentence};
use super::harmless_lists as lists;
use super::phrases::{Phrases, TokenizedSentence, is_unspaced, sentence_texts};
use super::signs;

static PRAISE: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::PRAISE]));
static DOES: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::DOES]));
static PLAIN: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::PLAIN]));
static NEUTRAL: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::NEUTRAL]));
static DARK: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::DARK]));
static SENSITIVE: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::SENSITIVE]));
static BETWEEN: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[cues::BETWEEN_WORDS]));

/// Maximum number of words of a curt sentence. In it every word must be known, because irony and
/// withdrawals are short.
const CURT_WORDS: usize = 7;
/// Maximum number of words of a clause that may be only a noun.
const NOUN_WORDS: usize = 4;

/// Returns whether every sentence of a text is understood and has no reservation.
pub(super) fn is_harmless(text: &str) -> bool {
    // Each of these marks can turn a sentence around or point somewhere else: a question, a
    // quotation, an omission, a footnote, a template.
    if text.contains([
        '?', '？', '~', '|', '<', '…', '{', '"', '“', '«', '「', '„', '*', '¹', '²', '†',
    ]) && !is_only_emphasised(text)
        || text.contains("...")
        || text.contains("[^")
        || signs::has_doubtful(text)
        || signs::has_vote(text)
    {
        return false;
    }
    if !text.contains(char::is_alphanumeric) {
        return signs::is_empty_talk(text);
    }
    let plain = without_code(text);
    sentence_texts(&plain).into_iter().all(is_harmless_sentence)
}

/// Returns whether every word of a title, a label or a cell is known, and none names a defect.
pub(super) fn is_known(text: &str) -> bool {
    let sentence = TokenizedSentence::parse(&without_code(text));
    if sentence.unspaced {
        // Without blanks there are no words, so the text has to be a chain of known pieces.
        return is_made_of_pieces(&sentence);
    }
    let rest = cues::without_harmless(sentence);
    !text.contains(['?', '~', '<', '{'])
        && !signs::has_doubtful(text)
        && !cues::is_objection(&rest)
        && !DARK.is_in(&rest.sentence)
        && known(&rest.sentence.words) == rest.sentence.words.len()
}

/// Returns whether a longer text has a short sentence that is not understood.
pub(super) fn has_curt_stranger(text: &str) -> bool {
    let plain = without_code(text);
    sentence_texts(&plain).into_iter().any(|sentence| {
        let words = TokenizedSentence::parse(sentence).words;
        words.len() <= CURT_WORDS
            // Half of the words unknown, and few of them: a curt remark that may mean anything.
            && known(&words) * 2 < words.len()
            && !is_harmless_sentence(sentence)
    })
}

/// Returns whether at least half of the words of each sentence are known, and a sentence about
/// something that a defect harms has praise.
pub(super) fn is_mostly_known(text: &str) -> bool {
    let plain = without_code(text);
    sentence_texts(&plain).into_iter().all(|text| {
        let sentence = TokenizedSentence::parse(text);
        if sentence.unspaced {
            return is_made_of_pieces(&sentence);
        }
        known_in_description(&sentence.words) * 2 >= sentence.words.len()
            // A sentence about passwords or data needs praise. A neutral description of it may be
            // the defect.
            && (!SENSITIVE.is_in(&sentence) || PRAISE.is_in(&sentence))
    })
}

/// Returns whether every sentence of a longer remark supports or describes the change, as far as
/// its words are known.
pub(super) fn is_supporting(text: &str) -> bool {
    let plain = without_code(text);
    is_mostly_known(text)
        && !signs::has_doubtful(text)
        && !signs::has_vote(text)
        && sentence_texts(&plain)
            .into_iter()
            .all(|text| speaks(&cues::without_harmless(TokenizedSentence::parse(text))))
}

/// Returns whether all asterisks are emphasis: in pairs they are, a single one points at a note.
fn is_only_emphasised(text: &str) -> bool {
    let others = [
        '?', '？', '~', '|', '<', '…', '{', '"', '“', '«', '「', '„', '¹', '²', '†',
    ];
    !text.contains(others) && text.matches('*').count().is_multiple_of(2)
}

/// Replaces code, paths, addresses and numbers by `0`, because names have no meaning here.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('`').enumerate() {
        // Ordinary words in back-ticks are judged like others; anything else is a name.
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
            // The mark behind a name ends the sentence, so it is kept.
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
    let sentence = TokenizedSentence::parse(text);
    if sentence.unspaced {
        return is_made_of_pieces(&sentence);
    }
    // Numbers say nothing, so they do not make a sentence long.
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
        // Many verbs are also nouns, so a verb counts only after a subject.
        let has_subject = words.len() > 2 && PLAIN.starts(words) && !DOES.starts(words);
        let praised = rest.denies || rest.harmless || PRAISE.is_in(&rest.sentence);
        return known == words.len() && speaks && (praised || has_subject);
    }
    // A description can be that of a defect, so all of its words must be known; praise may be about
    // things with names of their own.
    let known = known_in_description(words);
    let praised = rest.denies || rest.harmless || PRAISE.is_in(&rest.sentence);
    let sensitive = SENSITIVE.is_in(&rest.sentence);
    let all_known = known == words.len() && (praised || !sensitive);
    speaks
        && all_known
        && clauses(text).all(is_clause)
        && (praised || crate::answer::is_vouched(text))
}

fn speaks(rest: &StrippedSentence) -> bool {
    rest.denies || rest.harmless || PRAISE.is_in(&rest.sentence) || DOES.is_in(&rest.sentence)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Counts the known words.
fn known(words: &[String]) -> usize {
    known_in(words, &[&PRAISE, &DOES, &PLAIN, &BETWEEN])
}

/// Counts the known words of a longer sentence, which may also describe the change.
fn known_in_description(words: &[String]) -> usize {
    known_in(words, &[&PRAISE, &DOES, &PLAIN, &BETWEEN, &NEUTRAL])
}

fn known_in(words: &[String], lists: &[&LazyLock<Phrases>]) -> usize {
    let mut known = 0;
    let mut at = 0;
    while at < words.len() {
        let rest = &words[at..];
        let count = lists
            .iter()
            .filter_map(|list| list.longest(rest))
            .max()
            .or_else(|| is_number(&rest[0]).then_some(1));
        known += count.unwrap_or(0);
        at += count.unwrap_or(1);
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

/// Returns whether a clause is understood: it supports the change, is short, or has only known
/// words.
fn is_clause(text: &str) -> bool {
    let rest = cues::without_harmless(TokenizedSentence::parse(text));
    let words = rest.sentence.words.len();
    // A short clause is a noun phrase and states nothing.
    words <= NOUN_WORDS || speaks(&rest) || known_in_description(&rest.sentence.words) == words
}

/// Returns whether a sentence consists only of known pieces; removes the longest one from the front
/// until nothing is left.
fn is_made_of_pieces(sentence: &TokenizedSentence) -> bool {
    let mut rest = sentence.text.as_str();
    while let Some(first) = rest.chars().next() {
        let piece = lists::PIECES
            .iter()
            .filter(|piece| rest.starts_with(**piece))
            .map(|piece| piece.len())
            .max();
        let length = match piece {
            Some(length) => length,
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
        rest = &rest[length..];
    }
    true
}
