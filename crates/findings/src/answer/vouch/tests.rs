use super::*;

fn is_vouched(text: &str) -> bool {
    find_unvouched(text).is_none()
}

#[test]
fn short_praise_is_vouched_for_in_eight_languages() {
    for text in [
        "",
        "Looks good.",
        "All tests pass.",
        "The change is correct and well tested.",
        "No issues found.",
        "LGTM, clean implementation with good tests",
        "Gut getestet, sauberer Code.",
        "Keine Befunde.",
        "Alle Tests sind grün.",
        "Aucun problème trouvé. Code propre et bien testé.",
        "Ningún problema encontrado. Código limpio.",
        "Nenhum problema encontrado. Os testes passam.",
        "Nessun problema trovato. Codice pulito.",
        "Замечаний нет. Тесты проходят.",
        "代码清晰，测试通过。没有发现问题。",
        "問題ありません。テストは通ります。",
        "문제가 없습니다. 코드가 명확합니다.",
        "tests/test_x.py::test_y",
        "src/a.rs:12",
        "see `tests/limits.rs`",
        "- All tests pass.\n- The names are clear.\n\n**Approved.** ✅",
        "`cargo test` passes.",
    ] {
        assert!(is_vouched(text), "{text}: {:?}", find_unvouched(text));
    }
}

#[test]
fn orders_in_neutral_words_are_not_vouched_for() {
    for text in [
        "Clean the code.",
        "Correct the names.",
        "Complete tests and documentation.",
        "Good, test the change.",
        "Nice, follow the conventions.",
        "Good code, fix the tests.",
        "Approved with changes.",
        "Ready for the tests.",
        "The code is good, the tests are code.",
        "The tests.",
        "`not reviewed`",
        "`garbage`",
        "do_not_merge",
        "`do_not_merge` is good.",
        "3 of 5 criteria are met.",
        "All tests pass?",
        "\"Looks good.\"",
        "Looks good...",
        "[ ] All tests pass.",
        "~~Looks good.~~",
        "Lo\u{200b}oks good.",
        "L\u{43e}oks good.",
        "Looks good\u{336}.",
        "Looks good*",
        "> Looks good.",
        "❌ Tests pass.",
        "👎",
    ] {
        assert!(!is_vouched(text), "{text}");
    }
}
