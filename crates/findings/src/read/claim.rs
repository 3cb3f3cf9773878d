//! The word of a machine field as a claim. Prose has rules of its own, in `verdict`.

use crate::finding::Claim;

use super::keys::fold;

/// What a field such as `verdict`, `decision` or `status` says; `None` where it is no verdict.
pub(super) fn of_word(word: &str) -> Option<Claim> {
    let folded = fold(word);
    if YES.contains(&folded.as_str()) {
        return Some(Claim::Approved);
    }
    if NO.contains(&folded.as_str()) {
        return Some(Claim::ChangesRequested);
    }
    None
}

const YES: &[&str] = &[
    "approve",
    "approved",
    "approves",
    "accept",
    "accepted",
    "pass",
    "passed",
    "passes",
    "lgtm",
    "shipit",
    "ship",
    "go",
    "clean",
    "merge",
    "mergeable",
    "readytomerge",
    "ok",
    "okay",
    "success",
    "green",
    "patchiscorrect",
    "correct",
    "approvewithcomments",
    "approvedwithcomments",
    "approvewithsuggestions",
    "approvedwithsuggestions",
    "approvewithnits",
    "approvedwithnits",
    "approvewithminorchanges",
    "approvewithminorfixes",
    "passwithnotes",
    "passwithwarnings",
    "passwithcomments",
    "passwithconcerns",
    "approvedwithconditions",
    "conditionalapproval",
    "conditionalapprove",
    "acceptwithnits",
    "acceptwithcomments",
    "signedoff",
    "countersigned",
    "aprobado",
    "aprovado",
    "通过",
    "批准",
];

const NO: &[&str] = &[
    "requestchanges",
    "requestschanges",
    "changesrequested",
    "changesrequired",
    "requestedchanges",
    "changesneeded",
    "needschanges",
    "needchanges",
    "needswork",
    "needsrevision",
    "needsrework",
    "needsfix",
    "needsfixes",
    "revise",
    "revision",
    "rework",
    "reject",
    "rejected",
    "rejects",
    "fail",
    "failed",
    "fails",
    "block",
    "blocked",
    "blocks",
    "blocking",
    "nogo",
    "notapproved",
    "notready",
    "donotmerge",
    "dontmerge",
    "hold",
    "patchisincorrect",
    "incorrect",
    "red",
    "denied",
    "deny",
    "declined",
    "unapproved",
    "notapprove",
    "mustfix",
    "fixrequired",
    "fixesrequired",
    "rechazado",
    "rejeitado",
    "不通过",
    "拒绝",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_words_are_read_whatever_their_spelling() {
        for word in [
            "APPROVED",
            "approve",
            "Pass",
            "LGTM",
            "patch is correct",
            "ship-it",
        ] {
            assert_eq!(of_word(word), Some(Claim::Approved), "{word}");
        }
        for word in [
            "REQUEST_CHANGES",
            "changes requested",
            "fail",
            "NO-GO",
            "needs_revision",
            "patch is incorrect",
        ] {
            assert_eq!(of_word(word), Some(Claim::ChangesRequested), "{word}");
        }
        for word in ["comment", "pending", "reviewed", ""] {
            assert_eq!(of_word(word), None, "{word}");
        }
    }
}
