//! Patterns for the words of approval and refusal.

use std::sync::LazyLock;

use regex::Regex;

use crate::finding::ReviewClaim;

use super::super::refusal_words as machine;
use super::Strength;
use super::approval;
use super::cue_lists;
use super::phrases::{Phrases, TokenizedSentence};

static REFUSAL_VALUES: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::from_lists(&[cue_lists::REFUSAL_VALUES]));
static REFUSAL_SENTENCES: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::from_lists(&[cue_lists::REFUSAL_SENTENCES]));

/// Returns whether the value after a verdict's label refuses: in another language, by a sign, by a
/// no.
pub(super) fn is_refusal(value: &str) -> bool {
    let head = bare_head(value);
    approval::is_no(head) || REFUSAL_VALUES.is_in(&TokenizedSentence::parse(head))
}

fn bare_head(value: &str) -> &str {
    let line = value.trim().lines().next().unwrap_or_default();
    let end = line
        .char_indices()
        .nth(120)
        .map_or(line.len(), |(at, _)| at);
    &line[..end]
}

type VerdictPattern = LazyLock<Option<Regex>>;

macro_rules! pattern {
    ($text:expr) => {
        LazyLock::new(|| Regex::new($text).ok())
    };
}

fn at(pattern: &VerdictPattern, text: &str) -> Option<(usize, usize)> {
    pattern
        .as_ref()
        .and_then(|pattern| pattern.find(text))
        .map(|matched| (matched.start(), matched.end()))
}

static REFUSED: VerdictPattern = pattern!(
    r"(?xi)\b(?:can(?:not|\s+not|['’]t) | could(?:\s+not|n['’]t) | unable\s+to | not\s+able\s+to | won['’]t | will\s+not | do(?:es)?\s+not | don['’]t | doesn['’]t | did\s+not | should\s+not | shouldn['’]t | must\s+not | is\s+not | isn['’]t | are\s+not | aren['’]t | not | never | refuse\s+to | declin(?:e|ing)\s+to | withhold(?:ing)? | hold\s+off\s+on)
        \s+(?:yet\s+|be\s+|currently\s+|recommend\s+|in\s+good\s+conscience\s+|fully\s+|this\s+|my\s+|safely\s+|a\s+|an\s+){0,3}
        (?:approv\w* | accept(?:ed|able|ing)?\b | merg\w* | pass(?:ed|ing|es)?\b | ready\b | ship(?:ped|pable)?\b | sign(?:ed|ing)?[\s-]?off | lgtm | mark(?:ed)?\b | land(?:ed)?\b | go\b | clean\b | mergeable)"
);

static NO: VerdictPattern = pattern!(
    r"(?xi)\b(?: request(?:s|ed|ing)?[\s_-]+(?:for\s+)?(?:\w+\s+)?(?:changes|revisions?)
      | changes?[\s_-]+(?:are\s+|is\s+|must\s+be\s+)?(?:requested|required|needed|necessary)
      | (?:revisions?|rework|fix(?:es)?)[\s_-]+(?:required|needed|requested)
      | needs?[\s_-]+(?:more\s+|further\s+|major\s+|minor\s+|some\s+|additional\s+)?(?:work|changes|revisions?|rework|fix(?:es|ing)?)
      | reject(?:ed|s|ing|ion)?\b | revise\b | rework\b | fail(?:ed|s|ing|ure)?\b | block(?:ed|s|ing)?\b | no[\s_-]?go\b | re-?review\b | not[\s_-]+approved | incorrect\b | return(?:ed)?\s+(?:for|to)\b | send\s+back
      | rechaz\w+ | rejeitad\w+ | reprovad\w+ | cambios\s+(?:requeridos|solicitados) | mudanças\s+(?:necessárias|solicitadas) | abgelehnt | refusé | änderungen\s+(?:nötig|erforderlich) | отклонен\w*)
      | chưa\s+đạt | không\s+đạt | 不通过 | 未通过 | 拒绝 | 需要修改 | 要修正 | 却下 | 差し戻し"
);

static YES: VerdictPattern = pattern!(
    r"(?xi)\b(?: approv(?:e|ed|es|al|ing)\b | accept(?:ed|s|able)?\b | lgtm\b | looks\s+good(?:\s+to\s+me)?\b | ship(?:\s+it)?\b | pass(?:ed|es|ing)?\b | merge(?:able)?\b
      | (?:ready|safe|good|clear|cleared|ok|okay)\s+(?:to|for)\s+(?:be\s+)?(?:merge[d]?|merging|ship|shipping|land|landing|go|integration|production|release) | good\s+to\s+go\b | go\b | clean\b | sign(?:ed)?[\s-]?off\b | correct\b
      | aprobad\w+ | aprovad\w+ | aprueb\w+ | genehmigt | angenommen | approuvé\w* | одобрен\w*)
      | \bđạt\b | 通过 | 批准 | 承認"
);

static NO_CHANGES: VerdictPattern = pattern!(
    r"(?xi)\b(?: no\s+(?:\w+\s+){0,2}(?:changes?|revisions?|rework|fix(?:es)?)\s+(?:are\s+|is\s+)?(?:requested|required|needed|necessary) | (?:nothing|not|non)[\s-]+block(?:ed|ing|s)?\b | no\s+(?:\w+\s+){0,2}(?:blockers?|blocking) | does\s+not\s+block | do\s+not\s+block | zero\s+fail\w* | (?:no|0)\s+fail\w* )"
);

static CONDITION: VerdictPattern = pattern!(
    r"(?xi)^[\s*_`.,;:—–()-]*(?:(?:only|but\s+only|it|this|the\s+pr|merge)\s+)?(?:except | unless | until | once | after | when | if | provided | pending | subject\s+to | contingent | assuming | as\s+soon\s+as | conditional\s+(?:on|upon) | as\s+long\s+as)\b"
);

static RESERVATION: VerdictPattern = pattern!(
    r"(?i)^[\s*_`.,;:—–()-]*(?:but|however|though|although|yet)\b.*\b(?:must|need|needs|required|fix|fixed|first|before|block|blocks|blocking|cannot|can't|not)\b"
);

static CONDITIONAL: VerdictPattern =
    pattern!(r"(?i)\b(?:conditional(?:ly)?|provisional(?:ly)?|tentative(?:ly)?)\W*$");

/// Words that lead up to a verdict without being one.
static LEAD: VerdictPattern = pattern!(
    r"(?xi)^(?:\W|\b(?:i|we|this|the|my|our|it|pr|mr|patch|change|changes|changeset|commit|branch|code|review|verdict|decision|recommendation|recommend|recommended|is|are|am|be|as|to|would|should|can|will|overall|final|conditional|conditionally|strong|strongly|full|fully|unconditional|ready|and|therefore|hence|so|please|status|result|now|all|work|implementation|story|ticket|a|an|of|with|round|hereby|merge|approval|\d+)\b)*$"
);

fn bare(text: &str) -> &str {
    let line = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let end = line
        .char_indices()
        .nth(220)
        .map_or(line.len(), |(at, _)| at);
    &line[..end]
}

/// Returns the claim of a verdict's value. `plain` values are verdicts by their label; in others
/// the word must also end there, so that "Merge the two loops" approves nothing.
pub(super) fn value_claim(value: &str, plain: bool) -> Option<ReviewClaim> {
    // The plain cases need no patterns.
    if approval::match_labelled(bare_head(value)) == Some(approval::ApprovalMatch::Whole) {
        return Some(ReviewClaim::Approved);
    }
    if plain && is_refusal(value) {
        return Some(ReviewClaim::ChangesRequested);
    }
    let value = bare(value);
    let line = value.lines().next().unwrap_or_default();
    let text = if line.split_whitespace().count() < 3 {
        value
    } else {
        line
    };
    let text = text.replace(['`', '*', '_'], " ");
    let text = text.trim();
    if is_choice(text) {
        return None;
    }
    let (claim, start, end) = first_claim(text)?;
    let leads = at(&LEAD, &text[..start]).is_some();
    if !leads || !(plain || ends(&text[end..])) {
        return None;
    }
    if claim == ReviewClaim::Approved {
        return after_approval(text, start, end);
    }
    Some(claim)
}

fn first_claim(text: &str) -> Option<(ReviewClaim, usize, usize)> {
    let refused =
        at(&REFUSED, text).map(|(start, end)| (ReviewClaim::ChangesRequested, start, end));
    let harmless = at(&NO_CHANGES, text).map(|(start, end)| (ReviewClaim::Approved, start, end));
    let no = at(&NO, text).map(|(start, end)| (ReviewClaim::ChangesRequested, start, end));
    let yes = at(&YES, text).map(|(start, end)| (ReviewClaim::Approved, start, end));
    // If matches start at the same position, the first pattern in this order wins.
    [refused, harmless, no, yes]
        .into_iter()
        .flatten()
        .min_by_key(|&(_, start, _)| start)
}

/// Returns the claim of an approving word, given the text after it: with a condition it refuses,
/// unless it is itself called conditional.
fn after_approval(text: &str, start: usize, end: usize) -> Option<ReviewClaim> {
    let rest = &text[end..];
    let pending = at(&CONDITION, rest).is_some();
    if pending && rest.to_lowercase().contains("pending") {
        return None;
    }
    let is_reserved = pending || at(&RESERVATION, rest).is_some();
    let conditional = at(&CONDITIONAL, &text[..start]).is_some();
    Some(if is_reserved && !conditional {
        ReviewClaim::ChangesRequested
    } else {
        ReviewClaim::Approved
    })
}

/// Returns whether a verdict's word ends here and is not the verb of a longer sentence.
fn ends(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '*', '_', '`']);
    let next: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .collect::<String>()
        .to_lowercase();
    rest.is_empty()
        || !rest.starts_with(|c: char| c.is_alphanumeric())
        || matches!(
            next.as_str(),
            "with"
                | "after"
                | "once"
                | "if"
                | "pending"
                | "until"
                | "before"
                | "because"
                | "due"
                | "for"
                | "subject"
                | "but"
                | "as"
                | "unless"
                | "except"
                | "provided"
                | "merge"
                | "and"
                | "when"
                | "this"
                | "on"
                | "the"
                | "in"
                | "pr"
                | "at"
        ) && !matches!(next.as_str(), "the" | "in" | "and" | "this")
        || next == "and" && at(&NO, rest).is_some()
}

/// Returns whether a text offers answers: `APPROVE | REQUEST_CHANGES`, `approved or rejected`.
fn is_choice(text: &str) -> bool {
    let divided = text.contains('|')
        || text.contains(" / ")
        || text.to_lowercase().contains(" or ")
        || text.contains('/');
    divided && text.chars().count() < 120 && at(&YES, text).is_some() && at(&NO, text).is_some()
}

/// Reads a line that is only a refusal.
pub(super) fn whole_line_claim(line: &str) -> Option<ReviewClaim> {
    let bare = line.trim_matches(|c: char| !c.is_alphanumeric());
    if bare.split_whitespace().count() > 5
        || bare.len() > 48
        || line.trim_end().ends_with(['?', ':'])
        || line.contains(['{', '}', '"', '=', '<'])
    {
        return None;
    }
    let folded = bare.replace(['*', '`'], "");
    let single = !folded.contains(char::is_whitespace);
    if !machine::refuses(&folded) || folded.eq_ignore_ascii_case("no") {
        return None;
    }
    // A single everyday word is a verdict only in capital letters.
    let is_uppercase =
        folded.chars().any(char::is_uppercase) && !folded.chars().any(char::is_lowercase);
    let lower = folded.to_lowercase();
    let is_distinctive = !lower.is_ascii()
        || [
            "approv", "reject", "request", "changes", "nogo", "no-go", "no_go",
        ]
        .iter()
        .any(|stem| lower.contains(stem));
    (is_distinctive || !single || is_uppercase).then_some(ReviewClaim::ChangesRequested)
}

/// Returns the strength of a verdict label; `None` if it is none.
pub(super) fn label_strength(label: &str) -> Option<Strength> {
    let lower = label.to_lowercase();
    let name = lower.trim_matches(|c: char| !c.is_alphanumeric());
    if names_a_verdict(name) || approval::is_label(name) {
        return Some(Strength::Label);
    }
    match name {
        "recommendation"
        | "overall recommendation"
        | "final recommendation"
        | "merge recommendation"
        | "recommended action"
        | "my recommendation"
        | "review recommendation"
        | "recomendación"
        | "recomendação" => Some(Strength::Label),
        "status" | "review status" | "overall status" | "final status" | "approval status"
        | "result" | "review result" | "outcome" | "review outcome" | "conclusion"
        | "overall assessment" | "assessment" | "overall" | "approval" | "sign-off" | "signoff"
        | "gate" | "quality gate" | "gate result" | "disposition" | "final" | "state"
        | "kết luận" | "conclusión" | "fazit" => Some(Strength::Mark),
        _ => None,
    }
}

pub(super) fn names_a_verdict(label: &str) -> bool {
    let lower = label.to_lowercase();
    if approval::is_label(label) && !is_advice(&lower) {
        return true;
    }
    [
        "verdict",
        "decision",
        "veredicto",
        "veredito",
        "urteil",
        "判定",
        "审查结果",
    ]
    .iter()
    .any(|word| lower.contains(word))
        && lower.split_whitespace().count() <= 4
}

/// Returns whether a label means advice: `Recommendation:` is also the label of a fix.
fn is_advice(lower: &str) -> bool {
    ["recom", "empfehl", "racco", "реком"]
        .iter()
        .any(|stem| lower.contains(stem))
}

/// Splits a heading into the strength of its verdict label and the value after it.
pub(super) fn labelled_heading(heading: &str) -> Option<(Strength, &str)> {
    let bare = heading.trim_start_matches(|c: char| !c.is_alphabetic());
    let end = bare.find([':', '：', '—', '–']).unwrap_or(bare.len());
    let label = bare[..end].split('(').next().unwrap_or_default().trim();
    let strength = label_strength(label)?;
    let value = bare[end..].trim_start_matches([':', '：', '—', '–', ' ']);
    // `## Status` alone may head any section. `## Conclusion` and `## Outcome` head the verdict,
    // which then stands on the next line.
    (strength == Strength::Label
        || !value.is_empty()
        || label.to_lowercase().contains("conclusion")
        || label.to_lowercase().contains("outcome"))
    .then_some((strength, value))
}

static INSIDE: VerdictPattern = pattern!(r"(?i)(?:^|[\s.;,(])verdict(?:\s+is)?\s*[:：=]\s*");

/// Returns the value of `… . Verdict: clean.` in the middle of a line; a quoted one does not count.
pub(super) fn verdict_inside(line: &str) -> Option<&str> {
    if !line.to_ascii_lowercase().contains("verdict") {
        return None;
    }
    let (start, end) = at(&INSIDE, line)?;
    let quoted = line[..start].matches('`').count() % 2 == 1
        || line[..start].matches('"').count() % 2 == 1
        || line[..start].matches('“').count() > line[..start].matches('”').count();
    (!quoted).then_some(&line[end..])
}

static HEDGE: VerdictPattern = pattern!(
    r"(?i)\b(?:if|whether|should\s+(?:i|we)|would|could\s+you|please|respond\s+with|reply\s+with|output|return|when\s+you|let\s+me\s+know|either|may|might|want\s+to|going\s+to|plan\s+to|before\s+i)\b"
);
static REFUSES: VerdictPattern = pattern!(
    r"(?xi)\b(?:i|we)\s+(?:\w+\s+)?(?:can(?:not|\s+not|['’]t)|could\s+not|couldn['’]t|won['’]t|will\s+not|do\s+not|don['’]t|am\s+unable\s+to|am\s+not\s+able\s+to|would\s+not)\s+(?:yet\s+|currently\s+|fully\s+)?(?:recommend\s+)?(?:approv\w*|accept\w*|sign\s+off|merg\w*|support)
      | \b(?:unable|not\s+able|not\s+willing|not\s+prepared)\s+to\s+(?:approve|accept|sign\s+off|merge)
      | \bcannot\s+(?:approve|be\s+approved|be\s+merged|sign\s+off)
      | \b(?:not|isn['’]t|aren['’]t)\s+(?:yet\s+)?(?:ready|safe|fit)\s+(?:to|for)\s+(?:be\s+)?(?:merg\w*|ship\w*|land\w*|release|production|approval)
      | \b(?:should|must)\s+not\s+(?:be\s+)?(?:merge[d]?|land(?:ed)?|ship(?:ped)?|approved)
      | \b(?:do\s+not|don['’]t)\s+(?:merge|approve|land|ship)\b
      | \b(?:i\s+am\s+|i['’]m\s+|we\s+are\s+)?requesting\s+changes\b | \bi\s+request\s+changes\b | \bchanges\s+are\s+(?:required|requested|needed)\b
      | \b(?:i|we)\s+(?:must\s+|have\s+to\s+)?reject\b | \brejecting\s+(?:this|the)\b
      | \bmust\s+be\s+(?:fixed|addressed|resolved)\s+before\s+(?:merg\w*|approv\w*|land\w*|it\s+can|this\s+can|i\s+can)"
);
static APPROVES: VerdictPattern = pattern!(
    r"(?xi)\b(?:i|we)\s+(?:hereby\s+|can\s+|do\s+|happily\s+)?(?:approve|accept)\b | \bapproving\s+(?:this|the)\b | \bapproving[.!]?$ | \blgtm\b | \blooks\s+good\s+to\s+me\b | \bgood\s+to\s+(?:go|merge)\b | \bship\s+it\b
      | \b(?:is|are|it['’]s|now)\s+(?:now\s+)?(?:ready|safe|good|clear|ok|okay)\s+(?:to|for)\s+(?:be\s+)?(?:merge[d]?|merging|ship|land|release)\b"
);
/// Matches `Approved. …`, `Approve once …`, but not `Approved requests …`.
fn opens_with_approval(sentence: &str) -> Option<(usize, usize)> {
    let len = sentence
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .count();
    let word = sentence[..len].to_lowercase();
    (matches!(word.as_str(), "approve" | "approved") && ends(&sentence[len..])).then_some((0, len))
}

/// Word beginnings; without one of them no pattern of a sentence can match.
const STEMS: [&str; 18] = [
    "approv", "accept", "sign", "merg", "support", "ready", "safe", "fit", "land", "ship",
    "request", "chang", "reject", "must", "lgtm", "look", "good", "clear",
];

/// Returns the claim of one sentence. Patterns are slow and most sentences are about other things,
/// so the words are checked first.
pub(super) fn sentence_claim(text: &str) -> (Option<ReviewClaim>, Strength) {
    let sentence = TokenizedSentence::parse(text);
    if REFUSAL_SENTENCES.is_in(&sentence) && !text.ends_with(['?', '？']) {
        return (Some(ReviewClaim::ChangesRequested), Strength::Sentence);
    }
    let mentions = sentence
        .words
        .iter()
        .any(|word| STEMS.iter().any(|stem| word.starts_with(stem)));
    if !mentions {
        return (None, Strength::Sentence);
    }
    if at(&REFUSES, text).is_some() && at(&NO_CHANGES, text).is_none() && !text.ends_with('?') {
        return (Some(ReviewClaim::ChangesRequested), Strength::Sentence);
    }
    if text.ends_with('?') || at(&HEDGE, text).is_some() {
        return (None, Strength::Sentence);
    }
    let approval = opens_with_approval(text).or_else(|| at(&APPROVES, text));
    let claim = approval.and_then(|(start, end)| after_approval(text, start, end));
    (claim, Strength::Sentence)
}
