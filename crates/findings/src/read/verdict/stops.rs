//! Finds words that prevent an approval: a condition, an incomplete reading, a demand, a failure, a
//! withdrawal. Ordinary prose that is only not understood is allowed here; `harmless` is the
//! stricter rule.
//!
//! These phrases are searched in text that need not be understood as a whole: reports of agents
//! outside their answer, and minor findings. So they have to be precise; a word such as "if" alone
//! stops nothing.

use std::sync::LazyLock;

use super::cues;
use super::phrases::{Phrases, TokenizedSentence, sentence_texts};
use super::stop_lists as lists;

/// Reason why words prevent an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopKind {
    Condition,
    Unread,
    Demand,
    Failure,
    Withdrawal,
}

impl StopKind {
    /// Returns the description for a message.
    pub fn says(self) -> &'static str {
        match self {
            Self::Condition => "sets a condition",
            Self::Unread => "says that not everything was read",
            Self::Demand => "asks for a change",
            Self::Failure => "says that something does not work",
            Self::Withdrawal => "withdraws the approval",
        }
    }
}

macro_rules! phrases {
    ($($name:ident)*) => {
        $(static $name: LazyLock<Phrases> = LazyLock::new(|| Phrases::from_lists(&[lists::$name]));)*
    };
}
phrases! { IF ONCE CONDITION GATE REPAIR YES UNREAD READ ASK ORDER MUST FAILS FAILS_NOW WORK DIES UNLESS_SAID NOTHING DONE RETRACTS BLOCKS }

/// Returns the first sentence that prevents an approval, and the reason.
pub(crate) fn find(text: &str) -> Option<(StopKind, &str)> {
    // Struck-out text is a withdrawal, whatever it says.
    if text.contains("~~") {
        return Some((StopKind::Withdrawal, text));
    }
    // Sentence by sentence and also over line ends: a reservation may be wrapped.
    text.lines()
        .flat_map(sentence_texts)
        .chain(
            text.contains('\n')
                .then_some(text)
                .into_iter()
                .flat_map(sentence_texts),
        )
        .find_map(|sentence| stop(sentence).map(|stop| (stop, sentence)))
}

/// Returns whether a finding says that it must be fixed before the merge.
pub(crate) fn blocks(text: &str) -> bool {
    sentence_texts(text).into_iter().any(|text| {
        let sentence = TokenizedSentence::parse(text);
        // "Nothing blocks the merge" contains the phrase and says the opposite.
        BLOCKS.is_in(&sentence) && !NOTHING.is_in(&sentence)
    })
}

/// Returns whether the words of a minor finding describe something that is not minor.
pub(super) fn is_disaster(text: &str) -> bool {
    blocks(text)
        || sentence_texts(text).into_iter().any(|text| {
            let sentence = cues::without_harmless(TokenizedSentence::parse(text)).sentence;
            let at = |at: usize| destroys(&sentence.words[at..]) || opens(&sentence.words[at..]);
            RETRACTS.is_in(&sentence) || (0..sentence.words.len()).any(at)
        })
}

fn stop(text: &str) -> Option<StopKind> {
    let sentence = TokenizedSentence::parse(&without_code(text));
    let whole = sentence.words.join(" ");
    if lists::DENIALS.contains(&whole.as_str()) {
        return Some(StopKind::Withdrawal);
    }
    // Harmless phrases go first. "no need to change" is no demand.
    let rest = cues::without_harmless(sentence).sentence;
    if RETRACTS.is_in(&rest) {
        return Some(StopKind::Withdrawal);
    }
    // A failure in the past is a story: "the test failed before the fix".
    let past = UNLESS_SAID.is_in(&rest);
    if is_condition(&rest) {
        return Some(StopKind::Condition);
    }
    if is_unread(&rest) {
        return Some(StopKind::Unread);
    }
    // "Nothing to fix" has the words of a demand.
    if !NOTHING.is_in(&rest) && is_demand(&rest) {
        return Some(StopKind::Demand);
    }
    (FAILS_NOW.is_in(&rest) || !past && is_failure(&rest)).then_some(StopKind::Failure)
}

/// Replaces names in back-ticks by `0`, because they have no meaning here; ordinary words stay.
fn without_code(text: &str) -> String {
    text.split('`')
        .enumerate()
        .map(|(index, part)| {
            let name = index % 2 == 1 && part.contains(|c: char| !c.is_alphabetic() && c != ' ');
            if name { " 0 " } else { part }
        })
        .collect()
}

fn positions<'a>(
    list: &'a Phrases,
    sentence: &'a TokenizedSentence,
) -> impl Iterator<Item = usize> + 'a {
    (0..sentence.words.len()).filter(|at| list.starts(&sentence.words[*at..]))
}

fn is_condition(sentence: &TokenizedSentence) -> bool {
    if CONDITION.is_in(sentence) {
        return true;
    }
    let opens_with_yes = YES.starts(&sentence.words);
    let hangs = |at: usize, lists: &[&LazyLock<Phrases>]| {
        let tail = &sentence.words[at + 1..];
        (0..tail.len()).any(|from| lists.iter().any(|list| list.starts(&tail[from..])))
    };
    let led = |at: usize| (0..at).any(|from| GATE.starts(&sentence.words[from..]));
    positions(&IF, sentence).any(|at| {
        // "If" is a condition only where a gate hangs on it: "approve if the tests pass", but not
        // "returns early if empty".
        hangs(at, &[&GATE]) || led(at) || (opens_with_yes && at > 0 && hangs(at, &[&REPAIR]))
    }) || positions(&ONCE, sentence).any(|at| {
        led(at) || hangs(at, &[&GATE]) || hangs(at, &[&REPAIR]) && !is_description(sentence)
    })
}

/// Returns whether a sentence is a description and not a condition: "The file is renamed after it
/// was written". Such a sentence has a subject and a verb before the conjunction.
fn is_description(sentence: &TokenizedSentence) -> bool {
    let at = positions(&ONCE, sentence).next().unwrap_or(0);
    at >= 3 && !YES.starts(&sentence.words)
}

fn is_negation(word: &str) -> bool {
    matches!(
        word,
        "not"
            | "never"
            | "cannot"
            | "can't"
            | "won't"
            | "don't"
            | "doesn't"
            | "didn't"
            | "haven't"
            | "hasn't"
            | "couldn't"
            | "wouldn't"
            | "isn't"
            | "aren't"
            | "wasn't"
            | "weren't"
            | "fails"
            | "failed"
            | "fail"
            | "failing"
            | "unable"
            | "refuses"
    )
}

/// Returns whether a sentence reports an incomplete reading: "did not read", "was never opened",
/// "only looked at", "2 of 14 files".
fn is_unread(sentence: &TokenizedSentence) -> bool {
    if UNREAD.is_in(sentence) || cues::counts_short(sentence) {
        return true;
    }
    let words = &sentence.words;
    let speaker = words.iter().any(|word| {
        matches!(
            word.as_str(),
            "i" | "we" | "i've" | "we've" | "was" | "were" | "been"
        )
    });
    (0..words.len()).any(|at| {
        let near =
            |from: usize| (from..words.len().min(from + 3)).any(|next| READ.starts(&words[next..]));
        // "Only" restricts the reading only with a speaker: "I only looked at …", but not "only
        // reads the file".
        let restricted = matches!(words[at].as_str(), "only" | "just" | "merely" | "barely")
            && near(at + 1)
            && words
                .iter()
                .any(|word| matches!(word.as_str(), "i" | "we" | "i've" | "we've"));
        restricted || (speaker && is_negation(&words[at]) && near(at + 1))
    })
}

fn is_demand(sentence: &TokenizedSentence) -> bool {
    if ASK.is_in(sentence) || (ORDER.starts(&sentence.words) && sentence.words.len() > 1) {
        return true;
    }
    !DONE.is_in(sentence)
        // "Should be fixed now" reports a fix.
        && positions(&MUST, sentence).any(|at| {
            let count = MUST.longest(&sentence.words[at..]).unwrap_or(1);
            let tail = &sentence.words[(at + count).min(sentence.words.len())..];
            let next = usize::from(tail.first().is_some_and(|word| word == "not"));
            let tail = &tail[next.min(tail.len())..];
            ORDER.starts(tail) || REPAIR.starts(tail)
        })
}

fn is_failure(sentence: &TokenizedSentence) -> bool {
    if FAILS.is_in(sentence) || cues::is_grave(sentence) {
        return true;
    }
    let words = &sentence.words;
    (0..words.len()).any(|at| {
        let near = |list: &Phrases, reach: usize| {
            (at + 1..words.len().min(at + 1 + reach)).any(|next| list.starts(&words[next..]))
        };
        let negated = is_negation(&words[at]) && near(&WORK, 2);
        // "Does not crash" denies it.
        let denied = at > 0 && is_negation(&words[at - 1]);
        let dies = !denied && DIES.starts(&words[at..]);
        let thing = matches!(
            words[at].as_str(),
            "test"
                | "tests"
                | "build"
                | "ci"
                | "pipeline"
                | "suite"
                | "check"
                | "checks"
                | "compilation"
                | "login"
        );
        let red = |word: &String| {
            matches!(
                word.as_str(),
                "fail" | "fails" | "failed" | "failing" | "red" | "broken"
            )
        };
        let failing = thing
            && (at + 1..words.len().min(at + 4)).any(|next| {
                red(&words[next])
                    // "0 tests failed" and "tests not failing" are good news.
                    && !matches!(words[next - 1].as_str(), "0" | "no" | "not" | "zero")
            });
        negated || dies || failing || destroys(&words[at..]) || opens(&words[at..])
    })
}

/// Returns whether the words describe lost data: "drops the users table".
fn destroys(words: &[String]) -> bool {
    let verb = matches!(
        words[0].as_str(),
        "drops" | "deletes" | "wipes" | "erases" | "destroys" | "truncates" | "overwrites"
    );
    let near = &words[1..words.len().min(6)];
    // Deleting its own temporary files is ordinary work.
    let own = |word: &String| {
        matches!(
            word.as_str(),
            "own" | "temporary" | "test" | "temp" | "scratch" | "oldest"
        )
    };
    let valuable = |word: &String| {
        matches!(
            word.as_str(),
            "users"
                | "user"
                | "production"
                | "database"
                | "table"
                | "tables"
                | "data"
                | "disk"
                | "customers"
                | "everything"
                | "all"
                | "backups"
                | "home"
        )
    };
    verb && near.iter().any(valuable) && !near.iter().any(own)
}

/// Returns whether the words describe open access: "everybody can log in".
fn opens(words: &[String]) -> bool {
    let is_anyone = matches!(
        words[0].as_str(),
        "anyone" | "anybody" | "everyone" | "everybody" | "attackers" | "strangers"
    );
    is_anyone
        && words
            .get(1)
            .is_some_and(|word| matches!(word.as_str(), "can" | "could" | "may" | "is"))
}
