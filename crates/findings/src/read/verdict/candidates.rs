//! Finds approvals in prose, and checks that they are the reviewer's own.
//!
//! Copies of an approving phrase are everywhere in a review: in the instructions it quotes, in the
//! template it fills, in the history of the pull request. Only the reviewer's own, current
//! statement counts.

use crate::finding::ReviewClaim;

use super::super::blocks::{Block, BlockKind, Marker};
use super::super::fields;
use super::super::sections::{DETAILS, STRIDE};
use super::approval::{self, ApprovalMatch};
use super::phrases::{Phrases, TokenizedSentence};
use super::{StatedVerdict, Strength, cues};

/// An approval and its blocks.
#[derive(Clone, Debug)]
pub(super) struct ApprovalCandidate {
    pub index: usize,
    /// Last block of the approval: the one below its heading, or its own.
    pub end: usize,
    pub verdict: StatedVerdict,
}

#[derive(Debug, Default)]
pub(super) struct ApprovalScan {
    pub approvals: Vec<ApprovalCandidate>,
    /// Reason why one of them does not count; then none does.
    pub doubt: Option<&'static str>,
}

/// Maximum number of approvals in one document.
/// A real review approves once or twice. The limit bounds the work and stops a text that tries to
/// win by repetition.
const APPROVALS_MAX: usize = 16;

const REPEATED: &str = "the approval is stated too many times";
const CONDITIONAL: &str = "the approval is followed by text that may limit it";
pub(super) const NOT_OWN: &str =
    "the approval is a quotation, from another time or by someone else";
const UNTICKED: &str = "the approval is an option in a form";

/// Returns the answer after a question such as `Ready to merge? **Yes**`; empty if it is below.
pub(super) fn answer_to_question(line: &str) -> Option<&str> {
    // The question is searched from the start of the line, and a long line is no question.
    if line.len() > 4000 {
        return None;
    }
    let (question, answer) = line.split_once(['?', '？'])?;
    let question = question.trim_start_matches(['#', ' ', '-', '*', '_']);
    approval::is_question(question).then(|| answer.trim_start_matches([' ', '*', '_', ':']).trim())
}

/// Finds every approval in the blocks.
pub(super) fn find_approvals(blocks: &[Block]) -> ApprovalScan {
    let mut scan = ApprovalScan::default();
    let mut path = HeadingPath::default();
    let has_refusal_box = has_refusing_box(blocks);
    for (index, block) in blocks.iter().enumerate() {
        // One reason is enough, and too many repetitions are one.
        if scan.approvals.len() > APPROVALS_MAX {
            scan.doubt = scan.doubt.or(Some(REPEATED));
        }
        // The rest of the text cannot take a doubt back.
        if scan.doubt.is_some() {
            break;
        }
        path.enter(block);
        let next = blocks.get(index + 1);
        match &block.kind {
            // A `<details>` block is set apart by its author, often for the words of others.
            BlockKind::Heading(level) if level % STRIDE != DETAILS => {
                scan_heading(&mut scan, index, block, next);
            }
            BlockKind::Paragraph => scan_lines(&mut scan, index, block, next, true),
            BlockKind::Item(Marker::Box { ticked }) => {
                scan_box(&mut scan, index, block, *ticked && has_refusal_box);
            }
            BlockKind::Item(_) => scan_lines(&mut scan, index, block, next, false),
            BlockKind::Table(rows) => scan_rows(&mut scan, index, rows),
            BlockKind::Heading(_) | BlockKind::Code | BlockKind::Rule | BlockKind::Close(_) => {}
        }
        let own = scan
            .approvals
            .last()
            .is_some_and(|last| last.index == index);
        if own && !is_own(blocks, index, block, &path) {
            scan.doubt = scan.doubt.or(Some(NOT_OWN));
        }
    }
    scan
}

/// Returns whether the block is the reviewer's own current statement.
/// Each sign alone is enough: a quotation, a code-like indent, or a line above that ends in a colon
/// and announces somebody else's words.
fn is_own(blocks: &[Block], index: usize, block: &Block, path: &HeadingPath) -> bool {
    let announced = index
        .checked_sub(1)
        .map(|before| &blocks[before])
        .is_some_and(|before| {
            !matches!(
                before.kind,
                BlockKind::Heading(_) | BlockKind::Rule | BlockKind::Close(_)
            ) && before
                .text
                .trim_end_matches(['*', '_', ' '])
                .ends_with([':', '：', ','])
        });
    !(block.quoted || block.set_apart || block.indent >= 4 || announced || path.is_elsewhere())
}

/// The headings above a block.
#[derive(Default)]
struct HeadingPath {
    headings: Vec<(u32, bool)>,
    /// The previous block was a heading for the words of others, so the next block belongs to it.
    pending: bool,
}

impl HeadingPath {
    fn enter(&mut self, block: &Block) {
        match block.kind {
            // A heading ends the sections of its own level and below.
            BlockKind::Heading(level) => {
                self.headings.retain(|(above, _)| *above < level);
                let elsewhere = self.pending
                    || level % STRIDE == DETAILS
                    || level / STRIDE > 0
                    || is_elsewhere(&block.text, level);
                self.headings.push((level, elsewhere));
                self.pending = elsewhere;
            }
            BlockKind::Close(level) => self.headings.retain(|(above, _)| *above < level),
            BlockKind::Item(_) | BlockKind::Paragraph | BlockKind::Code | BlockKind::Table(_) => {
                self.pending = false;
            }
            BlockKind::Rule => {}
        }
    }

    fn is_elsewhere(&self) -> bool {
        self.headings.iter().any(|(_, elsewhere)| *elsewhere)
    }
}

/// Phrases that name another time, another speaker or an example.
pub(super) static ELSEWHERE: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
    Phrases::from_lists(&["
previous*, prior, earlier, former*, last round, history, historical*, changelog, example*, sample*, template*, prompt*, instruction*, expected*, format, output, appendix, quote*, quotation, log, logs, transcript, options, legend, old, initial*, original*, draft*, description, diff, author*, comments from, feedback from, conversation, discussion, thread, other reviewer*, tool*, test*, ci, how to, possible*, allowed, guidelines, rules, policy, context, input, request, task, if, when, once, after, conditional*, definition*,
frühere*, vorige*, vorherige*, beispiel*, vorlage*, verlauf, historie, protokoll, anweisung*, aufgabe, format,
précédent*, exemple*, modèle*, historique, journal, consigne*, tâche,
anterior*, previo*, ejemplo*, plantilla*, historial, registro, instrucciones, tarea,
exemplo*, modelo*, histórico, instruções, tarefa,
precedente*, esempio*, modello, cronologia, istruzioni,
предыдущ*, прежн*, пример*, шаблон*, история, журнал, инструкци*, задач*,
之前, 上一轮, 上次, 示例, 例子, 模板, 历史, 日志, 说明, 任务, 提示, 前回, 以前, 例, テンプレート, 履歴, ログ, 指示, 이전, 예시, 템플릿"])
});

/// Phrases that name a round, or something that was added later.
pub(super) static ROUND: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
    Phrases::from_lists(&["
round, rounds, iteration, pass #, attempt, update*, edit, edited, addendum, correction*, erratum, follow up round, re review, second look, postscript, ps, p s, runde, nachtrag, korrektur, update, mise à jour, correctif, tour, ronda, actualización, corrección, rodada, atualização, correção, раунд, обновление, исправление, 轮, 更新, 更正, 补充, ラウンド, 追記, 訂正, 수정"])
});

/// Returns whether a heading is for the words of others, or for those of another time.
pub(super) fn is_elsewhere(heading: &str, level: u32) -> bool {
    let sentence = TokenizedSentence::parse(heading);
    // A title names the document. Under it everything is "elsewhere" only if it begins with one of
    // a few words.
    (level > 1 && (ELSEWHERE.is_in(&sentence) || ROUND.is_in(&sentence)))
        || (level == 1
            && sentence.words.first().is_some_and(|word| {
                [
                    "example",
                    "template",
                    "prompt",
                    "instruction",
                    "sample",
                    "expected",
                ]
                .iter()
                .any(|stem| word.starts_with(stem))
            }))
}

fn has_refusing_box(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| {
        matches!(block.kind, BlockKind::Item(Marker::Box { ticked: false }))
            && super::words::whole_line_claim(&block.text) == Some(ReviewClaim::ChangesRequested)
    })
}

/// Reads a checkbox. A ticked one approves only in a form that also has an unticked refusal.
/// A single ticked box may be an item of a list of things done. Next to an unticked refusal it is a
/// choice.
fn scan_box(scan: &mut ApprovalScan, index: usize, block: &Block, chosen: bool) {
    match approval::match_whole_line(&block.text) {
        Some(ApprovalMatch::Whole) if chosen => {
            push(scan, index, index, &block.text, Strength::Mark);
        }
        Some(_) => {
            // Counted and doubted, so that it is not silently passed over as if nothing had been
            // said.
            push(scan, index, index, &block.text, Strength::Mark);
            scan.doubt = scan.doubt.or(Some(UNTICKED));
        }
        None => {}
    }
}

fn push(scan: &mut ApprovalScan, index: usize, end: usize, text: &str, strength: Strength) {
    scan.approvals.push(ApprovalCandidate {
        index,
        end,
        verdict: StatedVerdict {
            claim: ReviewClaim::Approved,
            text: crate::clean::shorten(&crate::clean::one_line(text), 160),
            strength,
        },
    });
}

/// Reads `## Verdict` with its whole answer below, `## Verdict: approve`, `# Code review —
/// approved`.
fn scan_heading(scan: &mut ApprovalScan, index: usize, block: &Block, next: Option<&Block>) {
    let heading = block.text.as_str();
    if let Some(answer) = answer_to_question(heading) {
        return take(scan, index, block, next, answer, approval::match_yes);
    }
    let end = heading.find([':', '：', '—', '–']).unwrap_or(heading.len());
    let (label, rest) = heading.split_at(end);
    let value = rest.trim_start_matches([':', '：', '—', '–', ' ', '*', '_']);
    if approval::is_label(label) {
        return take(scan, index, block, next, value, approval::match_labelled);
    }
    let level = match block.kind {
        BlockKind::Heading(level) => level,
        _ => 1,
    };
    let titled =
        end < heading.len() && level <= 2 && approval::is_title(label.trim_end_matches([' ', '-']));
    let value = if titled { value } else { heading };
    let lists =
        next.is_some_and(|next| matches!(next.kind, BlockKind::Item(_) | BlockKind::Table(_)));
    // The first line of a document may be its verdict, unless it is the heading of a list: `#
    // Approved` above names of files.
    let may_stand = titled || (index == 0 && !lists);
    if may_stand && approval::match_whole_line(value) == Some(ApprovalMatch::Whole) {
        push(scan, index, index, heading, Strength::Mark);
    }
}

/// Takes the value of a labelled heading, or of the block below it.
fn take<'a>(
    scan: &mut ApprovalScan,
    index: usize,
    block: &'a Block,
    next: Option<&'a Block>,
    value: &'a str,
    judge: fn(&'a str) -> Option<ApprovalMatch<'a>>,
) {
    let same_line = !value.trim().is_empty();
    let (value, end) = if same_line {
        (value, index)
    } else {
        let Some(below) = next.filter(|next| {
            matches!(
                next.kind,
                BlockKind::Paragraph | BlockKind::Item(Marker::Bullet)
            ) && next.indent < 4
        }) else {
            return;
        };
        // The answer below a heading has to be the reviewer's own as well.
        if below.quoted || below.set_apart {
            return;
        }
        (below.text.as_str(), index + 1)
    };
    let text = if same_line {
        block.text.as_str()
    } else {
        value
    };
    let is_unconditional = match judge(value) {
        None => return,
        Some(ApprovalMatch::Whole) => true,
        Some(ApprovalMatch::Explained(rest)) => is_explained(rest, ""),
    };
    push(scan, index, end, text, Strength::Label);
    if !is_unconditional {
        scan.doubt = scan.doubt.or(Some(CONDITIONAL));
    }
}

/// Reads labelled lines, and lines that are only an approval.
fn scan_lines(
    scan: &mut ApprovalScan,
    index: usize,
    block: &Block,
    next: Option<&Block>,
    paragraph: bool,
) {
    let text = block.text.as_str();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let (before, rest) = (&text[..start], &text[start + line.len()..]);
        start += line.len();
        let line = line.trim_end();
        // One reason is enough to stop.
        if scan.doubt.is_some() || scan.approvals.len() > APPROVALS_MAX {
            return;
        }
        let Some((value, judge, labelled)) = stated_value(line, paragraph) else {
            continue;
        };
        let below = next.filter(|next| {
            matches!(next.kind, BlockKind::Paragraph)
                && !next.quoted
                && !next.set_apart
                && next.indent < 4
        });
        // `Verdict:` with nothing behind it, and its value on the next line or in the next block.
        let bare = value.trim_matches(['*', '_', ' ']);
        let (value, rest, end) = match (bare.is_empty(), rest.trim().is_empty(), below) {
            (false, _, _) => (value, rest, index),
            (true, false, _) => (rest, "", index),
            (true, true, Some(below)) => (below.text.as_str(), "", index + 1),
            (true, true, None) => continue,
        };
        let is_unconditional = match judge(value) {
            None => continue,
            Some(ApprovalMatch::Whole) => is_explained("", rest),
            Some(ApprovalMatch::Explained(behind)) => is_explained(behind, rest),
        };
        let strength = if labelled {
            Strength::Label
        } else {
            Strength::Mark
        };
        push(scan, index, end, line, strength);
        if !(is_unconditional && leads_up(before)) {
            scan.doubt = scan.doubt.or(Some(CONDITIONAL));
        }
    }
}

type ApprovalMatcher = for<'a> fn(&'a str) -> Option<ApprovalMatch<'a>>;

/// Returns the value that a line states as a verdict, its matcher, and whether it has a label.
fn stated_value(line: &str, paragraph: bool) -> Option<(&str, ApprovalMatcher, bool)> {
    if let Some(answer) = answer_to_question(line) {
        return Some((answer, approval::match_yes, true));
    }
    if let Some((label, value)) = fields::split_label(line) {
        if approval::is_label(label) {
            return Some((value, approval::match_labelled, true));
        }
        if approval::is_question(label) && !value.is_empty() {
            return Some((value, match_yes_or_true, true));
        }
    }
    // A list item without a label is no verdict: it may be one of several options.
    (paragraph && line.len() < 4000 && approval::match_whole_line(line).is_some()).then_some((
        line,
        approval::match_whole_line as ApprovalMatcher,
        false,
    ))
}

fn match_yes_or_true(value: &str) -> Option<ApprovalMatch<'_>> {
    if value.trim() == "true" {
        return Some(ApprovalMatch::Whole);
    }
    approval::match_yes(value)
}

/// Returns whether the text after an approval in its block is understood: sentences that support
/// it, and below it such sentences or other labelled lines.
fn is_explained(behind: &str, rest: &str) -> bool {
    let (behind, below) = behind.split_once('\n').unwrap_or((behind, ""));
    let mut prose = behind.to_owned();
    for line in below.lines().chain(rest.lines()) {
        prose.push('\n');
        prose.push_str(line);
    }
    super::surroundings::is_understood_text(prose.trim_start())
}

/// Returns whether the lines above an approval in its block are complete and harmless.
fn leads_up(before: &str) -> bool {
    let Some(last) = before.lines().last() else {
        return true;
    };
    // The lines before have to end. "I would say: approve" continues into the approval.
    let bare = last.trim_end_matches(['*', '_', '`', ' ']);
    let metadata = fields::split_label(last).is_some_and(|(_, value)| !value.is_empty());
    let ended = bare.ends_with(['.', '!', '。', '！', '✅']) || metadata;
    ended && !cues::objects(before) && super::surroundings::is_understood_text(before)
}

fn scan_rows(scan: &mut ApprovalScan, index: usize, rows: &[Vec<String>]) {
    for row in rows {
        let [label, value] = row.as_slice() else {
            continue;
        };
        let answer = if approval::is_label(label.trim_end_matches([':', '：', '*'])) {
            approval::match_labelled(value)
        } else if answer_to_question(label).is_some() || approval::is_question(label) {
            approval::match_yes(value)
        } else {
            None
        };
        let is_unconditional = match answer {
            None => continue,
            Some(ApprovalMatch::Whole) => true,
            Some(ApprovalMatch::Explained(rest)) => super::harmless::is_harmless(rest),
        };
        push(scan, index, index, value, Strength::Label);
        if !is_unconditional {
            scan.doubt = scan.doubt.or(Some(CONDITIONAL));
        }
    }
}
