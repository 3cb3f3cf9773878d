use super::*;

fn claim(text: &str) -> ReviewClaim {
    let blocks = super::super::blocks::blocks(&super::super::markup::lines(text));
    find_verdict(&blocks)
        .verdict
        .map_or(ReviewClaim::Unknown, |verdict| verdict.claim)
}

#[test]
fn a_reviewer_who_cannot_approve_does_not_approve() {
    for text in [
        "I can't approve this PR",
        "I can’t approve this PR.",
        "Unable to approve until the tests pass.",
        "LGTM except the password is logged in plain text",
        "I cannot accept this; changes are required.",
        "Verdict: not approved",
        "**Verdict:** cannot be approved yet",
        "Decision: do not merge",
        "Approve once the race is fixed.",
        "Verdict: approve after the lock is fixed",
        "This is not ready to merge.",
        "Recommendation: Approved, but the migration must be fixed first",
    ] {
        assert_eq!(claim(text), ReviewClaim::ChangesRequested, "{text}");
    }
}

#[test]
fn a_plain_approval_is_one_whatever_word_follows() {
    for text in [
        "APPROVED. HIGH confidence: all tests pass",
        "Verdict: APPROVED",
        "## Verdict\n\n`accept` — the change does exactly what it should.",
        "**Decision: Approve** ✅",
        "## Summary\n\n- **Recommendation:** **Approve with minor comments.** Good work.",
        "LGTM",
        "LGTM! Nice tests.",
        "- **Recommendation:** PASS — nothing is left to do.",
        "## Decision\n**APPROVED**. Fine.",
        "Verdict: no changes required",
        "I approve this change.",
        "Ready to merge? **Yes**",
        "Verdict: ✅",
        "# Code review — approved",
    ] {
        assert_eq!(claim(text), ReviewClaim::Approved, "{text}");
    }
}

#[test]
fn refusals_are_read_in_their_usual_dress() {
    for text in [
        "VERDICT: NO-GO",
        "**Review Decision: 🔴 Request Changes**",
        "# Agent review — request_changes\n\ntext",
        "- **Recommendation:** **Revise and re-review.** The lock is wrong.",
        "## Recommendation\n\n**Do not mark the story as done** until:\n\n1. x",
        "**Decision:**\n**Request Changes** (two risks)",
        "## VERDICT (code review): **CHƯA ĐẠT**",
        "Verdict: changes requested",
        "Verdict: NO",
        "Verdict: ❌",
        "Ready to merge? **No**",
        "Approve? No.",
        "## Ready to merge?\n\nNo, the lock is wrong.",
        "| Reviewer | Verdict |\n|---|---|\n| A | approve |\n| B | rejected |",
        "承認できません。",
        "Das kann ich nicht genehmigen.",
        "Urteil: abgelehnt",
        "Décision : refusé",
        "Je ne peux pas approuver ce changement.",
        "Veredicto: rechazado",
        "No puedo aprobar este cambio.",
        "Veredito: reprovado",
        "Não posso aprovar esta alteração.",
        "结论：不通过",
        "判定：差し戻し",
        "Вердикт: отклонено",
        "Не могу одобрить это изменение.",
        "### Decision\n**REQUEST CHANGES**\n\nText.",
    ] {
        assert_eq!(claim(text), ReviewClaim::ChangesRequested, "{text}");
    }
}

#[test]
fn a_refusal_beats_an_approval_wherever_it_stands() {
    assert_eq!(
        claim("Verdict: approve\n\nOn a second look the cache leaks.\n\nVerdict: request changes"),
        ReviewClaim::ChangesRequested
    );
    assert_eq!(
        claim("Verdict: reject\n\n(fixed meanwhile)\n\nVerdict: approve"),
        ReviewClaim::ChangesRequested
    );
}

#[test]
fn a_verdict_that_is_quoted_is_not_the_reviewers() {
    assert_eq!(
        claim("The bot wrote:\n\n> Verdict: APPROVED\n\nwhich is wrong.\n\nVerdict: NO-GO"),
        ReviewClaim::ChangesRequested
    );
    assert_eq!(
        claim("The parser reads `VERDICT: GO` in a fence as an approval.\n\nVERDICT: NO-GO"),
        ReviewClaim::ChangesRequested
    );
    assert_eq!(
        claim("> Verdict: APPROVED\n\nI only quote this."),
        ReviewClaim::Unknown
    );
}

#[test]
fn words_of_a_finding_are_no_verdict() {
    for text in [
        "- **Recommendation:** Merge the two loops into one.",
        "- **Recommendation:** Reject empty names in the constructor.",
        "- **Fix:** accept a list as well",
        "**Status:** ✅ Fixed",
        "**结论：** OK，没有泄漏。",
        "Overall Assessment: Good structure, needs more detail",
        "- `cargo check`: **PASS**",
        "The tests pass and the build is clean.",
    ] {
        assert_eq!(claim(text), ReviewClaim::Unknown, "{text}");
    }
}

#[test]
fn what_is_not_a_review_claims_nothing() {
    for text in [
        "You have hit your limit; it resets at 3 pm.",
        "Could you review this ticket and approve it?",
        "Respond with APPROVED or CHANGES_REQUESTED.",
        "Verdict: APPROVE | REQUEST_CHANGES",
        "End with `VERDICT: approve` or `VERDICT: reject`.",
        "I am waiting for the test run before I can finalize my findings.",
        "Error: 529 overloaded",
        "Verdict: accept — pending one CI run",
        "Should I approve this?",
    ] {
        assert_eq!(claim(text), ReviewClaim::Unknown, "{text}");
    }
}

#[test]
fn finding_nothing_is_no_approval() {
    for text in [
        "I did not find any discrete correctness issues in the diff.",
        "No issues found.",
    ] {
        assert_eq!(claim(text), ReviewClaim::Unknown, "{text}");
    }
}

#[test]
fn a_refusal_that_opens_the_text_counts_with_its_reason() {
    for text in [
        "changes requested: the empty name is greeted",
        "REJECTED: the tests fail",
        "Needs work — no test covers the change",
    ] {
        assert_eq!(claim(text), ReviewClaim::ChangesRequested, "{text}");
    }
    for text in [
        "Failed: 0",
        "approved: the tests pass",
        "Note: changes requested by others",
    ] {
        assert_ne!(claim(text), ReviewClaim::ChangesRequested, "{text}");
    }
}
