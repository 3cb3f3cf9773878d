//! Words of a machine field that refuse. The words that approve are a closed list in `verdict`.

use super::keys::fold;

/// Returns whether the value of a field such as `verdict`, `decision` or `status` refuses.
pub(super) fn refuses(word: &str) -> bool {
    NO.contains(&fold(word).as_str())
}

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
    "no",
    "disapprove",
    "disapproved",
    "declines",
    "decline",
    "withheld",
    "approvaldenied",
    "approvalwithheld",
    "cannotapprove",
    "cantapprove",
    "changerequested",
    "requestchange",
    "reworkneeded",
    "reworkrequired",
    "abgelehnt",
    "ablehnen",
    "nichtgenehmigt",
    "änderungenerforderlich",
    "refusé",
    "rejeté",
    "nonapprouvé",
    "modificationsrequises",
    "rechazado",
    "rechazada",
    "noaprobado",
    "cambiossolicitados",
    "cambiosrequeridos",
    "rejeitado",
    "rejeitada",
    "reprovado",
    "nãoaprovado",
    "mudançassolicitadas",
    "alteraçõesnecessárias",
    "respinto",
    "rifiutato",
    "отклонено",
    "отклонить",
    "неодобрено",
    "требуютсяизменения",
    "不通过",
    "未通过",
    "不批准",
    "拒绝",
    "驳回",
    "需要修改",
    "却下",
    "差し戻し",
    "要修正",
    "不承認",
    "거부",
    "반려",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_words_are_read_whatever_their_spelling() {
        for word in [
            "REQUEST_CHANGES",
            "changes requested",
            "fail",
            "NO-GO",
            "needs_revision",
            "patch is incorrect",
            "Rejeté",
            "驳回",
        ] {
            assert!(refuses(word), "{word}");
        }
        for word in ["comment", "pending", "reviewed", "", "approve", "pass"] {
            assert!(!refuses(word), "{word}");
        }
    }
}
