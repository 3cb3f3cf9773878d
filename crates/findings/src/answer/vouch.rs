//! Vouches for the free text of an approving answer.
//!
//! The rule is an allow-list, because no list of refusing phrases is ever complete: "The migration
//! drops the users table" contains no word of refusal. A sentence is vouched for if one language
//! knows all of its words, and each of its clauses speaks for the change. The vocabulary has no
//! negation outside of fixed idioms ("no issues found"), and no adversative, conditional, modal or
//! time word. Its nouns are the parts of any change, and its verbs only support one, so that its
//! words cannot be put together to a defect.
//!
//! A sentence that is not vouched for does not refuse. The reviewer is asked once for the bare
//! form, so a missing word in the vocabulary costs one question and no verdict. That is why a new
//! word needs a reason: it must not be usable in a sentence about a defect.

mod asian;
mod english;
mod european;
mod places;

use std::collections::HashMap;
use std::sync::LazyLock;

/// Maximum number of words of a sentence; a longer one is not vouched for.
/// Praise is short. The limit also bounds the work on one sentence.
const SENTENCE_WORDS_MAX: usize = 60;
/// Maximum number of words that an idiom may cover.
/// Matching an idiom tries its alternatives, so the number of words is bounded.
const IDIOM_WORDS_MAX: usize = 24;
/// Stands for a file or a test. Text that contains it is not vouched for.
/// Both are from the private use area. Text from outside that contains one could pose as a harmless
/// name.
const PLACE: char = '\u{e000}';
const PLACE_WORD: &str = "\u{e000}";
/// Stands for another name in back-ticks.
const NAME: char = '\u{e001}';
const NAME_WORD: &str = "\u{e001}";

/// Words that turn the praise before them around.
/// A known idiom is matched before. Any other "clean of …" may praise an absence.
const OF: [&str; 8] = ["of", "von", "de", "des", "du", "di", "do", "del"];

/// Vocabulary of one language. Commas and line ends separate phrases; `#` is a number.
struct Vocabulary {
    /// Words that speak for a change.
    good: &'static str,
    /// Words that say nothing by themselves.
    plain: &'static str,
    /// Finite verbs among the plain words: a clause with one of them makes a statement, and has to
    /// speak for the change.
    verbs: &'static str,
    /// Words that would be an order at the start of a clause: "Follow the conventions."
    orders: &'static str,
    /// Words that would be an order before a determiner: "Clean the code."
    orders_before: (&'static str, &'static str),
    /// Conjunctions between clauses.
    joins: &'static str,
    /// Idioms that are a whole clause, one per line: slots are separated by blanks, alternatives by
    /// `/`, words of an alternative by `_`; a slot that ends in `?` may be absent.
    idioms: &'static str,
}

pub(super) use places::is_name;

/// Returns the first sentence that is not vouched for.
pub(super) fn find_unvouched(text: &str) -> Option<&str> {
    text.lines().find_map(|line| unvouched_in_line(line.trim()))
}

fn unvouched_in_line(line: &str) -> Option<&str> {
    let body = without_bullet(line);
    if body.is_empty() {
        return None;
    }
    // Not every mark can be judged sentence by sentence: emphasis and code may span several.
    let Some(plain) = without_markup(body) else {
        return Some(body);
    };
    // The markup is gone, so marks inside code cannot end a sentence.
    let sentences = split_sentences(&plain);
    let is_vouched = |sentence: &str| {
        let words = sentence.split_whitespace().count();
        words <= SENTENCE_WORDS_MAX && is_sentence_vouched(sentence)
    };
    // One sentence is enough: the reviewer is told which one.
    let failed = sentences
        .iter()
        .position(|sentence| !is_vouched(sentence))?;
    // Quote the sentence as it was written where both split alike.
    let written = split_sentences(body);
    let same = written.len() == sentences.len();
    Some(
        written
            .get(failed)
            .copied()
            .filter(|_| same)
            .unwrap_or(body)
            .trim(),
    )
}

/// Removes the mark of a list item or a heading.
fn without_bullet(line: &str) -> &str {
    let marks = ["- ", "* ", "+ ", "• ", "# ", "## ", "### ", "#### "];
    let bare = marks.iter().find_map(|mark| line.strip_prefix(mark));
    if let Some(bare) = bare {
        return bare.trim();
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=2).contains(&digits).then(|| &line[digits..]);
    numbered
        .and_then(|rest| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")))
        .map_or(line, str::trim)
}

/// Removes emphasis and replaces places by [`PLACE`]. Returns `None` if the text has a character
/// that nobody needs for praise: quotation marks, question marks, dots of omission, strike-through,
/// check boxes, invisible and combining characters.
fn without_markup(text: &str) -> Option<String> {
    // Two dots are an omission and two tildes strike something out. Both can turn a sentence
    // around.
    if text.contains("..") || text.contains("~~") {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    // Back-ticks alternate: the even parts are prose, the odd ones are code.
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 0 {
            push_prose(part, &mut out)?;
        } else if places::is_place(part) {
            out.push(PLACE);
        } else if places::is_code(part) {
            out.push(NAME);
        // Code that is neither a place nor a name could be a sentence that hides from the
        // vocabulary.
        } else {
            return None;
        }
    }
    // An odd number leaves one open, and the parts would be read the wrong way round.
    text.matches('`').count().is_multiple_of(2).then_some(out)
}

fn push_prose(text: &str, out: &mut String) -> Option<()> {
    // An odd asterisk points at a footnote, which is not next to the praise.
    if !text.matches('*').count().is_multiple_of(2) {
        return None;
    }
    let text = text.replace('*', "");
    for token in text.split_inclusive(char::is_whitespace) {
        let blank = token.len() - token.trim_end().len();
        let (token, blank) = token.split_at(token.len() - blank);
        let core = token.trim_matches(is_mark);
        if places::is_place(core) {
            let start = token.find(core).unwrap_or(0);
            out.push_str(&token[..start]);
            out.push(PLACE);
            out.push_str(&token[start + core.len()..]);
        } else if token.chars().all(is_allowed) {
            out.push_str(token);
        } else {
            return None;
        }
        // Other white space may be invisible, or look like a letter's width of nothing.
        blank.chars().all(is_blank).then_some(())?;
        out.push_str(blank);
    }
    Some(())
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\u{a0}' | '\u{202f}' | '\u{3000}')
}

/// Returns whether a character may surround a place.
fn is_mark(c: char) -> bool {
    matches!(
        c,
        '.' | ',' | ';' | ':' | '!' | '(' | ')' | '，' | '。' | '、' | '；' | '：'
    )
}

fn is_allowed(c: char) -> bool {
    c.is_alphanumeric()
        || is_mark(c)
        || matches!(
            c,
            '\'' | '’' | '-' | '–' | '—' | '%' | '&' | '！' | '（' | '）' | 'ー'
        )
        || is_cheer(c)
}

/// Returns whether a character is a picture that approves.
fn is_cheer(c: char) -> bool {
    matches!(
        c,
        '✓' | '✔' | '✅' | '👍' | '🎉' | '🚀' | '👏' | '💯' | '🙂' | '\u{fe0f}'
    )
}

/// Splits a line into sentences. A full stop ends one only before a blank or the end.
fn split_sentences(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = match c {
            '。' | '！' | '；' | ';' | '—' | '–' => true,
            // `v1.2` and `a.rs` have a dot inside, which ends nothing.
            '.' | '!' => chars.peek().is_none_or(|(_, next)| {
                next.is_whitespace() || matches!(next, '!' | ')' | '*' | '`')
            }),
            '-' => text[..at].ends_with(' ') && text[at + 1..].starts_with(' '),
            _ => false,
        };
        if ends {
            out.push(&text[start..at + c.len_utf8()]);
            start = at + c.len_utf8();
        }
    }
    out.push(&text[start..]);
    out.retain(|sentence| {
        sentence
            .chars()
            .any(|c| c.is_alphanumeric() || matches!(c, PLACE | NAME))
    });
    out
}

fn is_sentence_vouched(sentence: &str) -> bool {
    // Scripts without blanks have no words to look up; they have a rule of their own.
    if asian::has_letters(sentence) {
        return asian::is_vouched(sentence);
    }
    // A clause may hide behind praise, so each is judged by itself.
    let clauses: Vec<Vec<String>> = sentence
        .split([',', ':', '(', ')'])
        .map(words)
        .filter(|words| !words.is_empty())
        .collect();
    if clauses.iter().any(|clause| has_open_task(clause)) {
        return false;
    }
    // Pure references, such as a list of files, say nothing in any language.
    clauses.iter().all(|clause| is_reference(clause))
        // One language has to know all of it. Words of two languages together could be put together
        // to anything.
        || LANGUAGES.iter().any(|language| language.vouches(&clauses))
}

/// Returns whether a clause may note an open task. The mark is also a Spanish and Portuguese word,
/// which is followed by an article, a verb or an adjective, and not by the name of a part.
fn has_open_task(clause: &[String]) -> bool {
    clause.iter().enumerate().any(|(at, word)| {
        let next = clause.get(at + 1).map_or("", String::as_str);
        let is_part = matches!(
            next,
            "" | "test" | "tests" | "diff" | "commit" | "ticket" | PLACE_WORD | NAME_WORD
        );
        word == "todo" && is_part
    })
}

/// Returns the lower-case words of a clause.
fn words(clause: &str) -> Vec<String> {
    let lower = clause.to_lowercase().replace('’', "'");
    lower
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '.' | '%' | PLACE | NAME)))
        .map(|word| word.trim_matches(['\'', '.']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns whether a clause only refers to places: "see `tests/a.rs`, line 12".
fn is_reference(clause: &[String]) -> bool {
    let refers = |word: &str| {
        matches!(
            word,
            PLACE_WORD | "see" | "line" | "lines" | "in" | "at" | "and" | "test" | "tests" | "file"
        ) || is_count(word)
    };
    clause.iter().all(|word| refers(word))
        && clause
            .iter()
            .any(|word| word == PLACE_WORD || matches!(word.as_str(), "line" | "lines"))
}

/// Returns whether a word is a number, or a measure of time or share.
fn is_count(word: &str) -> bool {
    let digits = word.trim_end_matches("ms").trim_end_matches(['s', '%']);
    !digits.is_empty()
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

type PhraseMap = HashMap<&'static str, Vec<Vec<&'static str>>>;
/// One idiom: slots of alternatives, and whether the slot may be absent.
type Idiom = Vec<(Vec<Vec<&'static str>>, bool)>;

/// Vocabulary of one language, ready to match.
struct Language {
    good: PhraseMap,
    plain: PhraseMap,
    verbs: Vec<&'static str>,
    orders: Vec<&'static str>,
    orders_before: (Vec<&'static str>, Vec<&'static str>),
    joins: Vec<&'static str>,
    idioms: Vec<Idiom>,
}

static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    let english = Language::new(&english::ENGLISH);
    let mut languages: Vec<Language> = european::ALL.iter().map(Language::new).collect();
    for language in &mut languages {
        language.make_plain(&english.good);
    }
    languages.insert(0, english);
    languages
});

/// Contribution of a clause to its sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClauseKind {
    /// Speaks for the change.
    Good,
    /// Only names things: "the names", before "and the tests are clear".
    Bare,
    NotVouched,
}

impl Language {
    fn new(vocabulary: &Vocabulary) -> Self {
        let (orders, determiners) = vocabulary.orders_before;
        let idioms = vocabulary.idioms.lines().map(str::trim);
        Self {
            good: phrase_map(vocabulary.good),
            plain: phrase_map(vocabulary.plain),
            verbs: list(vocabulary.verbs).collect(),
            orders: list(vocabulary.orders).collect(),
            orders_before: (list(orders).collect(), list(determiners).collect()),
            joins: list(vocabulary.joins).collect(),
            idioms: idioms.filter(|line| !line.is_empty()).map(idiom).collect(),
        }
    }

    /// Makes praise plain that another language has too. "LGTM" is written in every language, so it
    /// does not show that "todo" next to it is the Spanish word and not an open task.
    fn make_plain(&mut self, shared: &PhraseMap) {
        for (first, phrases) in &mut self.good {
            let theirs = shared.get(first).map_or(&[][..], Vec::as_slice);
            let both = phrases.extract_if(.., |phrase| theirs.contains(phrase));
            self.plain.entry(*first).or_default().extend(both);
        }
    }

    /// Returns whether every clause is known, none makes another statement, and one speaks for the
    /// change.
    fn vouches(&self, clauses: &[Vec<String>]) -> bool {
        // An idiom may span several clauses: "all good, no issues found".
        let mut good = self.is_idiom(&clauses.concat());
        if good {
            return true;
        }
        for clause in clauses {
            // The whole clause goes first: "and" may be part of a phrase.
            if self.clause(clause) == ClauseKind::Good {
                good = true;
                continue;
            }
            for part in clause.split(|word| self.joins.contains(&word.as_str())) {
                match self.clause(part) {
                    ClauseKind::Good => good = true,
                    ClauseKind::Bare => {}
                    ClauseKind::NotVouched => return false,
                }
            }
        }
        // Known words alone are not enough. Something has to speak for the change.
        good
    }

    fn clause(&self, words: &[String]) -> ClauseKind {
        if words.is_empty() {
            return ClauseKind::Bare;
        }
        if self.is_idiom(words) {
            return ClauseKind::Good;
        }
        let mut may_be_order = true;
        let mut kind = ClauseKind::Bare;
        let mut has_verb = false;
        let mut at = 0;
        while at < words.len() {
            let rest = &words[at..];
            // An imperative asks for something, even if all of its words are friendly.
            if may_be_order && self.is_order(rest, at == 0) {
                return ClauseKind::NotVouched;
            }
            let good = longest(&self.good, rest);
            let plain = longest(&self.plain, rest);
            // The longer phrase wins; at equal length praise does.
            let length = match (good, plain) {
                (Some(good), plain) if plain.is_none_or(|plain| good >= plain) => {
                    // "clean of tests": praise before this word praises an absence.
                    let next = rest.get(good).map_or("", String::as_str);
                    if OF.contains(&next) {
                        return ClauseKind::NotVouched;
                    }
                    kind = ClauseKind::Good;
                    // Praise may be a sentence of its own without a full stop: "LGTM Clean the code".
                    may_be_order = true;
                    good
                }
                (_, Some(plain)) => {
                    has_verb |= self.verbs.contains(&rest[0].as_str());
                    may_be_order = false;
                    plain
                }
                _ if matches!(rest[0].as_str(), PLACE_WORD | NAME_WORD) => 1,
                // One unknown word is enough: it may be the defect.
                _ => return ClauseKind::NotVouched,
            };
            at += length;
        }
        match kind {
            // A statement without praise: "the tests are in the file". It may be the beginning of a
            // complaint.
            ClauseKind::Bare if has_verb => ClauseKind::NotVouched,
            kind => kind,
        }
    }

    /// Returns whether the words begin with an order. Only at the start of a clause is the verb
    /// enough: "clean change" has a noun that is also one.
    fn is_order(&self, words: &[String], at_start: bool) -> bool {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let (before, determiners) = &self.orders_before;
        let is_verb = self.orders.contains(&word(0));
        is_verb && at_start
            || (is_verb || before.contains(&word(0))) && determiners.contains(&word(1))
    }

    fn is_idiom(&self, words: &[String]) -> bool {
        words.len() <= IDIOM_WORDS_MAX && self.idioms.iter().any(|idiom| matches(idiom, words))
    }
}

/// Returns whether the slots of an idiom cover exactly these words.
fn matches(idiom: &[(Vec<Vec<&'static str>>, bool)], words: &[String]) -> bool {
    let Some(((alternatives, optional), rest)) = idiom.split_first() else {
        return words.is_empty();
    };
    // Alternatives of one slot may be prefixes of each other, so all are tried.
    let taken = alternatives
        .iter()
        .filter(|phrase| starts_with(words, phrase))
        .any(|phrase| matches(rest, &words[phrase.len()..]));
    taken || *optional && matches(rest, words)
}

fn starts_with(words: &[String], phrase: &[&str]) -> bool {
    let fits = |(pattern, word): (&&str, &String)| match *pattern {
        "#" => is_count(word),
        "@" => matches!(word.as_str(), PLACE_WORD | NAME_WORD),
        pattern => word == pattern,
    };
    phrase.len() <= words.len() && phrase.iter().zip(words).all(fits)
}

fn longest(map: &PhraseMap, words: &[String]) -> Option<usize> {
    let first = words.first()?.as_str();
    let listed = map.get(first).into_iter().flatten();
    let numbers = map.get("#").into_iter().flatten();
    listed
        .chain(numbers)
        .filter(|phrase| starts_with(words, phrase))
        .map(Vec::len)
        .max()
}

fn list(phrases: &'static str) -> impl Iterator<Item = &'static str> {
    let phrases = phrases.split([',', '\n']).map(str::trim);
    phrases.filter(|phrase| !phrase.is_empty())
}

fn phrase_map(phrases: &'static str) -> PhraseMap {
    let mut map = PhraseMap::new();
    for phrase in list(phrases) {
        let words: Vec<&str> = phrase.split(' ').collect();
        map.entry(words[0]).or_default().push(words);
    }
    map
}

fn idiom(line: &'static str) -> Idiom {
    line.split(' ')
        .map(|slot| {
            let (slot, optional) = slot
                .strip_suffix('?')
                .map_or((slot, false), |slot| (slot, true));
            let alternatives = slot.split('/').map(|words| words.split('_').collect());
            (alternatives.collect(), optional)
        })
        .collect()
}

#[cfg(test)]
mod tests;
