//! Judges the words around an approval: whether they contradict it, and whether they support it.

use std::sync::LazyLock;

use super::cue_lists as lists;
use super::phrases::{Phrases, TokenizedSentence, sentences};

type Cues = LazyLock<Phrases>;

static OBJECTS: Cues = LazyLock::new(|| {
    Phrases::from_lists(&[
        lists::RESERVES,
        lists::DEMANDS,
        lists::REFUSES,
        lists::DOUBTS,
        lists::QUOTES,
        lists::UNFINISHED,
    ])
});
static DEFECTS: Cues = LazyLock::new(|| Phrases::from_lists(&[lists::DEFECTS]));
static SETTLES: Cues = LazyLock::new(|| Phrases::from_lists(&[lists::SETTLES]));
static PRAISES: Cues = LazyLock::new(|| Phrases::from_lists(&[lists::PRAISES]));
static HARD: Cues = LazyLock::new(|| Phrases::from_lists(&[lists::HARD]));
static TURNS: Cues = LazyLock::new(|| Phrases::from_lists(&[lists::TURNS]));

/// Nouns whose denial supports the change: no issues, no objections.
static NOTHING_OF: Cues = LazyLock::new(|| {
    Phrases::from_lists(&["
issue*, problem, problems, concern*, finding*, bug, bugs, blocker*, defect*, regression*, objection*, comment*, change*, reservation*, error, errors, warning*, failure*, vulnerabilit*, remark*, nit, nits, note, notes, complaint*, question*, feedback, blocking, longer, surprises, doubt, doubts, caveat*, condition, conditions, vulnerabilities, fix, fixes,
probleme, befund*, fehler*, einwänd*, anmerkung*, änderung*, beanstandung*, bedenken, mängel,
problème*, remarque*, erreur*, défaut*, réserve*, objection*, modification*,
problema*, hallazgo*, error*, observacion*, objeci*, reserva*, cambio*, comentario*,
achado*, erro*, observaç*, ressalva*, objeç*, mudança*, alteraç*, comentário*,
problemi, rilievi, errori, obiezioni, modifiche, riserve,
замечан*, проблем*, ошибок, вопросов, возражений, изменений, правок"])
});
/// Words that may be between "no" and its noun.
pub(super) const BETWEEN_WORDS: &str = "
new, further, other, additional, remaining, open, outstanding, critical*, major, minor, high, medium, low, important, blocking, significant, security, serious, must, fix, severity, performance, correctness, discrete, actionable, unresolved, known, or, and, any, real, obvious, functional, code, such, more, big, severe, of, the, behavioral, logic, test, style, integrity, contract, coverage, combination,
weiteren, neuen, offenen, kritischen, größeren, autre, nouveau, nouveaux, nouvelle, nouvelles, majeur*, bloquant*, nuevos, otros, más, crític*, outros, novos, mais, altri, nuovi, critici, новых, других, критических, больше, bloqueante*, alguna, alguno, ningún, ninguna, nenhum, nenhuma, aucun, aucune, alcun, nessun";
static BETWEEN: Cues = LazyLock::new(|| Phrases::from_lists(&[BETWEEN_WORDS]));
static NO: Cues = LazyLock::new(|| {
    Phrases::from_lists(&["
no, zero, 0, none, nothing, without, kein, keine, keinen, keinerlei, ohne, aucun, aucune, sans, sin, ningún, ninguna, ningun, sem, nenhum, nenhuma, não há, no hay, pas de, nessun, nessuna, senza, нет, никаких, без"])
});
static SEES_NOTHING: Cues = LazyLock::new(|| {
    Phrases::from_lists(&["
not find, not found, not see, not spot, not identify, not have, not detect, not uncover, n't find, didn't find, didn't see, don't see, don't have, couldn't find, can't find, cannot find, could not find, did not find, do not see, do not have, see no, found no, no encontré, no encontramos, no he encontrado, no veo, não encontrei, não encontramos, não vi, non ho trovato, non abbiamo trovato, не нашёл, не нашел, не нашла, не обнаружил*, не вижу, nicht gefunden, n'ai trouvé, n'ai vu"])
});
/// Negations that do not contradict an approval.
static HARMLESS: Cues = LazyLock::new(|| {
    Phrases::from_lists(&["
not block*, non block*, nothing blocks, doesn't block, does not block, do not block, don't block, but do not block, but does not block, no longer, not only, as expected, no need, nothing else, nothing to add, nothing to fix, nothing to change, nothing blocking, nothing more, fixed before, if any, not affect*, not change*, not break*, does not break, doesn't break, does not change, doesn't change, does not affect, doesn't affect, not introduce*, does not introduce, doesn't introduce, separation of concerns, error handling, error path*, error case*, regression test*, with the rest of, does what the ticket asks for, what the ticket asks for, what the ticket asks, exactly what it should, todo el, toda la, todo lo, no new dependencies, no new dependency, no breaking changes, no breaking change, no secrets, замечаний нет, проблем нет, вопросов нет"])
});

/// Phrases of scripts without blanks that support the change with a negation.
const HARMLESS_UNSPACED: [&str; 22] = [
    "没有发现任何问题",
    "没有发现问题",
    "未发现任何问题",
    "未发现问题",
    "没有任何问题",
    "没有问题",
    "无问题",
    "无需修改",
    "不需要修改",
    "無需修改",
    "没有其他意见",
    "没有意见",
    "問題は見つかりませんでした",
    "問題はありませんでした",
    "問題はありません",
    "問題ありません",
    "問題なし",
    "指摘事項はありません",
    "指摘なし",
    "修正不要",
    "修正の必要はありません",
    "문제 없습니다",
];

/// Returns whether words near an approval contradict it or attribute it to someone else.
pub(super) fn objects(text: &str) -> bool {
    if is_afterthought(text) {
        return true;
    }
    sentences(text).into_iter().any(|sentence| {
        let asks = sentence.text.trim_end().ends_with(['?', '？']);
        asks || is_objection(&without_harmless(sentence))
    })
}

/// Returns whether the text starts like an afterthought, which is rarely praise.
fn is_afterthought(text: &str) -> bool {
    const OPENINGS: [&str; 6] = ["p.s", "ps:", "ps.", "ps ", "n.b", "nb:"];
    let head: String = text.trim_start().chars().take(3).collect();
    OPENINGS.contains(&head.to_lowercase().as_str())
}

/// Returns whether every sentence of an explanation supports the change.
pub(super) fn vouches(text: &str) -> bool {
    if text.contains(['?', '？', '"', '“', '«', '「', '„', '~', '|', '<', '…', '{'])
        || text.contains("...")
    {
        return false;
    }
    sentences(text).into_iter().all(|sentence| {
        let rest = without_harmless(sentence);
        !is_objection(&rest) && (rest.denies || rest.harmless || PRAISES.is_in(&rest.sentence))
    })
}

static GRAVE: Cues = LazyLock::new(|| {
    Phrases::from_lists(&["
critical bug*, critical issue*, critical vulnerab*, critical problem*, critical flaw*, critical defect*, critical error*, critical security, critical sql, a critical, is critical, sql injection, command injection, remote code execution, data loss, auth bypass, authentication bypass, security hole*, must be fixed, must be resolved, must be addressed, must fix, is a blocker, blocks merg*, blocks the merge, showstopper*, high severity, plain text password*, password in plain*, passwords in plain*, logged in plain*,
kritischer fehler, kritische lücke, faille critique, erreur critique, vulnerabilidad crítica, error crítico, falha crítica, vulnerabilidade crítica, критическая ошибка, критическая уязвимость, 严重漏洞, 严重错误, 致命的, 重大な脆弱性, 致命的な"])
});

/// Returns whether a sentence, without its denials, names a severe defect.
pub(super) fn is_grave(sentence: &TokenizedSentence) -> bool {
    GRAVE.is_in(sentence) && !SETTLES.is_in(sentence)
}

/// Returns whether a sentence names a severe defect that is not settled.
pub(super) fn accuses(text: &str) -> bool {
    sentences(text).into_iter().any(|sentence| {
        let rest = without_harmless(sentence);
        GRAVE.is_in(&rest.sentence) && !SETTLES.is_in(&rest.sentence) && !rest.harmless
    })
}

/// Returns whether the text contradicts an approval at any distance.
pub(super) fn forbids(text: &str) -> bool {
    sentences(text).into_iter().any(|sentence| {
        let rest = without_harmless(sentence);
        HARD.is_in(&rest.sentence)
    })
}

static BLOCKING: Cues = LazyLock::new(|| {
    Phrases::from_lists(&["
required change*, required fix*, required action*, must fix, must be fixed, must change, blocking, blocker*, changes requested, changes required, requested changes, before merg*, action required, to fix, needs fix*, notwendige änderungen, erforderliche änderungen, changements requis, modifications requises, cambios requeridos, alterações necessárias, modifiche richieste, требуемые изменения, 必须修复, 必须修改, 要修正, 必須"])
});

/// Returns whether a heading announces changes that are required before an approval.
pub(super) fn demands(heading: &str) -> bool {
    let rest = without_harmless(TokenizedSentence::parse(heading));
    BLOCKING.is_in(&rest.sentence) && !rest.harmless
}

/// Returns whether a sentence of the text starts with a reservation.
pub(super) fn turns(text: &str) -> bool {
    if is_afterthought(text) {
        return true;
    }
    sentences(text).into_iter().any(|sentence| {
        let rest = without_harmless(sentence);
        TURNS.starts(&rest.sentence.words)
    })
}

/// A sentence without the phrases that only sound like an objection.
pub(super) struct StrippedSentence {
    pub sentence: TokenizedSentence,
    /// The sentence contained "no issues" or similar.
    pub denies: bool,
    /// The sentence contained "does not block" or similar.
    pub harmless: bool,
}

pub(super) fn is_objection(rest: &StrippedSentence) -> bool {
    let sentence = &rest.sentence;
    let opens_with_trouble = sentence.words.first().is_some_and(|word| {
        matches!(
            word.as_str(),
            "error"
                | "errors"
                | "exception"
                | "warning"
                | "traceback"
                | "if"
                | "when"
                | "once"
                | "after"
        )
    });
    let last_first = sentence.words.last().is_some_and(|word| {
        matches!(
            word.as_str(),
            "first" | "not" | "zuerst" | "primero" | "primeiro" | "d'abord" | "сначала"
        )
    });
    opens_with_trouble
        || (last_first && (sentence.words.len() > 1 || sentence.words[0] == "not"))
        || is_condition(sentence)
        || counts_short(sentence)
        || OBJECTS.is_in(sentence)
        || (DEFECTS.is_in(sentence) && !SETTLES.is_in(sentence) && !rest.harmless)
}

/// Returns whether a sentence counts less than all: "2 of 14 files", "9/12 tests".
pub(super) fn counts_short(sentence: &TokenizedSentence) -> bool {
    const COUNTED: [&str; 8] = [
        "file", "test", "check", "criteri", "commit", "case", "item", "hunk",
    ];
    let number = |word: &String| word.parse::<u64>().ok();
    let short = |few: &String, all: &String| matches!((number(few), number(all)), (Some(few), Some(all)) if few < all);
    let has_of = sentence.words.windows(3).any(|words| {
        matches!(words[1].as_str(), "of" | "von" | "sur" | "de" | "из" | "di")
            && short(&words[0], &words[2])
    });
    has_of
        || sentence.words.windows(3).any(|words| {
            short(&words[0], &words[1])
                && COUNTED.iter().any(|stem| words[2].starts_with(stem))
                && sentence
                    .text
                    .contains(&format!("{}/{}", words[0], words[1]))
        })
}

/// Returns whether a sentence has `if` or similar, and a word of approval, repair or tests.
fn is_condition(sentence: &TokenizedSentence) -> bool {
    let conditional = sentence
        .words
        .iter()
        .any(|word| matches!(word.as_str(), "if" | "when" | "once" | "after" | "whenever"));
    conditional
        && sentence.words.iter().any(|word| {
            [
                "approv", "merg", "land", "ship", "lgtm", "accept", "verdict", "sign", "fix",
                "address", "resolv", "correct", "rework", "rebase", "ci", "green", "test", "pass",
                "review", "you", "happy", "ok", "okay", "good", "done", "clean",
            ]
            .iter()
            .any(|stem| word.starts_with(stem))
        })
}

/// Removes "no issues found" and similar phrases from a sentence.
pub(super) fn without_harmless(mut sentence: TokenizedSentence) -> StrippedSentence {
    let (mut denies, mut harmless) = (false, false);
    if sentence.unspaced {
        for phrase in HARMLESS_UNSPACED {
            if sentence.text.contains(phrase) {
                sentence.text = sentence.text.replace(phrase, " ");
                denies = true;
            }
        }
    }
    let words = std::mem::take(&mut sentence.words);
    let mut at = 0;
    while at < words.len() {
        if let Some(end) = denial(&words[at..]) {
            denies = true;
            at += end;
        } else if let Some(count) = HARMLESS.longest(&words[at..]) {
            harmless = true;
            at += count;
        } else {
            sentence.words.push(words[at].clone());
            at += 1;
        }
    }
    StrippedSentence {
        sentence,
        denies,
        harmless,
    }
}

/// Returns the number of words of a denial such as "no new issues", if one starts here.
fn denial(words: &[String]) -> Option<usize> {
    let mut at = SEES_NOTHING.longest(words).or_else(|| NO.longest(words))?;
    let most = words.len().min(at + 9);
    while at < most {
        if NOTHING_OF.starts(&words[at..]) && !matches!(words[at].as_str(), "fix" | "blocking") {
            // A list of nouns is denied as a whole: "no issues or concerns".
            at += 1;
            while at + 1 < words.len()
                && matches!(
                    words[at].as_str(),
                    "or" | "and" | "nor" | "oder" | "ni" | "ou" | "o" | "и" | "или"
                )
                && NOTHING_OF.starts(&words[at + 1..])
            {
                at += 2;
            }
            return Some(at);
        }
        if !BETWEEN.starts(&words[at..]) {
            return None;
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_an_approval_back_is_seen_in_every_language() {
        for text in [
            "but the password is logged",
            "once the race is fixed",
            "The author claims so.",
            "sobald der Fehler behoben ist",
            "sous réserve des tests",
            "cuando pasen las pruebas",
            "desde que os testes passem",
            "修复后再合并",
            "ただし修正が必要です",
            "если тесты пройдут",
            "Fix the SQL injection first.",
            "No one has addressed the critical issues.",
        ] {
            assert!(objects(text), "{text}");
        }
        for text in [
            "All tests pass and I found no issues.",
            "The leak is fixed.",
            "I did not find any discrete correctness issues.",
            "No HIGH or CRITICAL issues.",
            "Die Tests laufen durch, keine Befunde.",
            "没有发现问题。",
            "問題ありません。",
            "Works as expected.",
        ] {
            assert!(!objects(text), "{text}");
        }
        assert!(vouches("All findings are verified as fixed. Tests pass."));
        assert!(!vouches("The password is logged."));
        assert!(!vouches("See the ticket."));
    }
}
