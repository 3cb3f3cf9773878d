//! Approvals in prose: where one may stand, and whose it is.

use crate::finding::ReviewClaim;

use super::super::blocks::{Block, BlockKind, Marker};
use super::super::fields;
use super::super::sections::{DETAILS, STRIDE};
use super::approval::{self, ApprovalMatch};
use super::phrases::{Phrases, TokenizedSentence};
use super::{StatedVerdict, Strength, cues};

/// An approval, and the blocks that it takes up.
#[derive(Clone, Debug)]
pub(super) struct ApprovalCandidate {
    pub index: usize,
    /// The last of its blocks: the one below its heading, or its own.
    pub end: usize,
    pub verdict: StatedVerdict,
}

#[derive(Debug, Default)]
pub(super) struct ApprovalScan {
    pub approvals: Vec<ApprovalCandidate>,
    /// Why one of them does not count, and so none does.
    pub doubt: Option<&'static str>,
}

/// Nobody states a verdict more often than this.
const APPROVALS_MAX: usize = 16;

const REPEATED: &str = "the approval is stated again and again";
const CONDITIONAL: &str = "the approval has something behind it";
pub(super) const NOT_OWN: &str = "the approval is quoted, of another time or somebody else's";
const UNTICKED: &str = "the approval is a choice in a form";

/// The answer behind a question such as `Ready to merge? **Yes**`; empty where it stands below.
pub(super) fn asked(line: &str) -> Option<&str> {
    if line.len() > 4000 {
        return None;
    }
    let (question, answer) = line.split_once(['?', '？'])?;
    let question = question.trim_start_matches(['#', ' ', '-', '*', '_']);
    approval::is_question(question).then(|| answer.trim_start_matches([' ', '*', '_', ':']).trim())
}

/// Every approval that the blocks state.
pub(super) fn find(blocks: &[Block]) -> ApprovalScan {
    let mut found = ApprovalScan::default();
    let mut path = HeadingPath::default();
    let form = has_refusing_box(blocks);
    for (index, block) in blocks.iter().enumerate() {
        // One reason is enough, and stating it again and again is one.
        if found.approvals.len() > APPROVALS_MAX {
            found.doubt = found.doubt.or(Some(REPEATED));
        }
        if found.doubt.is_some() {
            break;
        }
        path.enter(block);
        let next = blocks.get(index + 1);
        match &block.kind {
            BlockKind::Heading(level) if level % STRIDE != DETAILS => {
                of_heading(&mut found, index, block, next);
            }
            BlockKind::Paragraph => of_lines(&mut found, index, block, next, true),
            BlockKind::Item(Marker::Box { ticked }) => {
                of_box(&mut found, index, block, *ticked && form)
            }
            BlockKind::Item(_) => of_lines(&mut found, index, block, next, false),
            BlockKind::Table(rows) => of_rows(&mut found, index, rows),
            BlockKind::Heading(_) | BlockKind::Code | BlockKind::Rule | BlockKind::Close(_) => {}
        }
        let own = found
            .approvals
            .last()
            .is_some_and(|last| last.index == index);
        if own && !is_own(blocks, index, block, &path) {
            found.doubt = found.doubt.or(Some(NOT_OWN));
        }
    }
    found
}

/// Whether the reviewer itself speaks here, and now.
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
    !(block.quoted || block.apart || block.indent >= 4 || announced || path.is_elsewhere())
}

/// The headings above a block.
#[derive(Default)]
struct HeadingPath {
    headings: Vec<(u32, bool)>,
    /// The block before was a heading under which others speak: what follows belongs to it.
    pending: bool,
}

impl HeadingPath {
    fn enter(&mut self, block: &Block) {
        match block.kind {
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
                self.pending = false
            }
            BlockKind::Rule => {}
        }
    }

    fn is_elsewhere(&self) -> bool {
        self.headings.iter().any(|(_, elsewhere)| *elsewhere)
    }
}

/// What names another time, another speaker or an example.
pub(super) static ELSEWHERE: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
    Phrases::of(&["
previous*, prior, earlier, former*, last round, history, historical*, changelog, example*, sample*, template*, prompt*, instruction*, expected*, format, output, appendix, quote*, quotation, log, logs, transcript, options, legend, old, initial*, original*, draft*, description, diff, author*, comments from, feedback from, conversation, discussion, thread, other reviewer*, tool*, test*, ci, how to, possible*, allowed, guidelines, rules, policy, context, input, request, task, if, when, once, after, conditional*, definition*,
frühere*, vorige*, vorherige*, beispiel*, vorlage*, verlauf, historie, protokoll, anweisung*, aufgabe, format,
précédent*, exemple*, modèle*, historique, journal, consigne*, tâche,
anterior*, previo*, ejemplo*, plantilla*, historial, registro, instrucciones, tarea,
exemplo*, modelo*, histórico, instruções, tarefa,
precedente*, esempio*, modello, cronologia, istruzioni,
предыдущ*, прежн*, пример*, шаблон*, история, журнал, инструкци*, задач*,
之前, 上一轮, 上次, 示例, 例子, 模板, 历史, 日志, 说明, 任务, 提示, 前回, 以前, 例, テンプレート, 履歴, ログ, 指示, 이전, 예시, 템플릿"])
});

/// What names a round, or something that was added later.
pub(super) static ROUND: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
    Phrases::of(&["
round, rounds, iteration, pass #, attempt, update*, edit, edited, addendum, correction*, erratum, follow up round, re review, second look, postscript, ps, p s, runde, nachtrag, korrektur, update, mise à jour, correctif, tour, ronda, actualización, corrección, rodada, atualização, correção, раунд, обновление, исправление, 轮, 更新, 更正, 补充, ラウンド, 追記, 訂正, 수정"])
});

/// A heading under which others speak, or the reviewer of another time.
pub(super) fn is_elsewhere(heading: &str, level: u32) -> bool {
    let sentence = TokenizedSentence::of(heading);
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
            && super::words::alone(&block.text) == Some(ReviewClaim::ChangesRequested)
    })
}

/// A ticked box approves only in a form that also offers the refusal, unticked.
fn of_box(found: &mut ApprovalScan, index: usize, block: &Block, chosen: bool) {
    match approval::alone(&block.text) {
        Some(ApprovalMatch::Whole) if chosen => {
            push(found, index, index, &block.text, Strength::Mark);
        }
        Some(_) => {
            push(found, index, index, &block.text, Strength::Mark);
            found.doubt = found.doubt.or(Some(UNTICKED));
        }
        None => {}
    }
}

fn push(found: &mut ApprovalScan, index: usize, end: usize, text: &str, strength: Strength) {
    found.approvals.push(ApprovalCandidate {
        index,
        end,
        verdict: StatedVerdict {
            claim: ReviewClaim::Approved,
            text: crate::clean::shorten(&crate::clean::one_line(text), 160),
            strength,
        },
    });
}

/// `## Verdict` with its whole answer below, `## Verdict: approve`, `# Code review — approved`.
fn of_heading(found: &mut ApprovalScan, index: usize, block: &Block, next: Option<&Block>) {
    let heading = block.text.as_str();
    if let Some(answer) = asked(heading) {
        return take(found, index, block, next, answer, approval::affirmed);
    }
    let end = heading.find([':', '：', '—', '–']).unwrap_or(heading.len());
    let (label, rest) = heading.split_at(end);
    let value = rest.trim_start_matches([':', '：', '—', '–', ' ', '*', '_']);
    if approval::is_label(label) {
        return take(found, index, block, next, value, approval::labelled);
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
    let may_stand = titled || (index == 0 && !lists);
    if may_stand && approval::alone(value) == Some(ApprovalMatch::Whole) {
        push(found, index, index, heading, Strength::Mark);
    }
}

/// Takes the value of a labelled heading, or of the block below it.
fn take<'a>(
    found: &mut ApprovalScan,
    index: usize,
    block: &'a Block,
    next: Option<&'a Block>,
    value: &'a str,
    judge: fn(&'a str) -> Option<ApprovalMatch<'a>>,
) {
    let beside = !value.trim().is_empty();
    let (value, end) = if beside {
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
        if below.quoted || below.apart {
            return;
        }
        (below.text.as_str(), index + 1)
    };
    let text = if beside { block.text.as_str() } else { value };
    let sound = match judge(value) {
        None => return,
        Some(ApprovalMatch::Whole) => true,
        Some(ApprovalMatch::Explained(rest)) => is_explained(rest, ""),
    };
    push(found, index, end, text, Strength::Label);
    if !sound {
        found.doubt = found.doubt.or(Some(CONDITIONAL));
    }
}

/// Labelled lines, and lines that are nothing but an approval.
fn of_lines(
    found: &mut ApprovalScan,
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
        if found.doubt.is_some() || found.approvals.len() > APPROVALS_MAX {
            return;
        }
        let Some((value, judge, labelled)) = stated(line, paragraph) else {
            continue;
        };
        let below = next.filter(|next| {
            matches!(next.kind, BlockKind::Paragraph)
                && !next.quoted
                && !next.apart
                && next.indent < 4
        });
        let bare = value.trim_matches(['*', '_', ' ']);
        let (value, rest, end) = match (bare.is_empty(), rest.trim().is_empty(), below) {
            (false, _, _) => (value, rest, index),
            (true, false, _) => (rest, "", index),
            (true, true, Some(below)) => (below.text.as_str(), "", index + 1),
            (true, true, None) => continue,
        };
        let sound = match judge(value) {
            None => continue,
            Some(ApprovalMatch::Whole) => is_explained("", rest),
            Some(ApprovalMatch::Explained(behind)) => is_explained(behind, rest),
        };
        let strength = if labelled {
            Strength::Label
        } else {
            Strength::Mark
        };
        push(found, index, end, line, strength);
        if !(sound && leads_up(before)) {
            found.doubt = found.doubt.or(Some(CONDITIONAL));
        }
    }
}

type ApprovalMatcher = for<'a> fn(&'a str) -> Option<ApprovalMatch<'a>>;

/// The value that a line states as a verdict, how it is judged, and whether it has a label.
fn stated(line: &str, paragraph: bool) -> Option<(&str, ApprovalMatcher, bool)> {
    if let Some(answer) = asked(line) {
        return Some((answer, approval::affirmed, true));
    }
    if let Some((label, value)) = fields::split_label(line) {
        if approval::is_label(label) {
            return Some((value, approval::labelled, true));
        }
        if approval::is_question(label) && !value.is_empty() {
            return Some((value, affirmed_or_true, true));
        }
    }
    (paragraph && line.len() < 4000 && approval::alone(line).is_some()).then_some((
        line,
        approval::alone as ApprovalMatcher,
        false,
    ))
}

fn affirmed_or_true(value: &str) -> Option<ApprovalMatch<'_>> {
    if value.trim() == "true" {
        return Some(ApprovalMatch::Whole);
    }
    approval::affirmed(value)
}

/// What follows an approval in its block: sentences behind it that speak for it, and below it such
/// sentences or other labelled lines.
fn is_explained(behind: &str, rest: &str) -> bool {
    let (behind, below) = behind.split_once('\n').unwrap_or((behind, ""));
    let mut prose = behind.to_owned();
    for line in below.lines().chain(rest.lines()) {
        prose.push('\n');
        prose.push_str(line);
    }
    super::surroundings::is_understood_text(prose.trim_start())
}

/// Whether the lines above an approval in its block end before it.
fn leads_up(before: &str) -> bool {
    let Some(last) = before.lines().last() else {
        return true;
    };
    let bare = last.trim_end_matches(['*', '_', '`', ' ']);
    let metadata = fields::split_label(last).is_some_and(|(_, value)| !value.is_empty());
    let ended = bare.ends_with(['.', '!', '。', '！', '✅']) || metadata;
    ended && !cues::objects(before) && super::surroundings::is_understood_text(before)
}

fn of_rows(found: &mut ApprovalScan, index: usize, rows: &[Vec<String>]) {
    for row in rows {
        let [label, value] = row.as_slice() else {
            continue;
        };
        let answer = if approval::is_label(label.trim_end_matches([':', '：', '*'])) {
            approval::labelled(value)
        } else if asked(label).is_some() || approval::is_question(label) {
            approval::affirmed(value)
        } else {
            None
        };
        let sound = match answer {
            None => continue,
            Some(ApprovalMatch::Whole) => true,
            Some(ApprovalMatch::Explained(rest)) => super::harmless::is_harmless(rest),
        };
        push(found, index, index, value, Strength::Label);
        if !sound {
            found.doubt = found.doubt.or(Some(CONDITIONAL));
        }
    }
}
