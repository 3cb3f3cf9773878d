//! Approvals in prose: where one may stand, and what in the document speaks against it.

use crate::finding::Claim;
use crate::severity::Severity;

use super::super::blocks::{Block, Kind, Marker};
use super::super::degree;
use super::super::fields;
use super::super::label;
use super::super::sections::{DETAILS, STRIDE};
use super::super::topic::{self, Topic};
use super::approval::{self, Answer};
use super::phrases::{Phrases, Sentence};
use super::{SHORT_WORDS, Strength, Verdict, cues};

/// An approval, and the blocks that it takes up.
#[derive(Clone, Debug)]
pub(super) struct Approval {
    pub index: usize,
    /// The last of its blocks: the one below its heading, or its own.
    pub end: usize,
    pub verdict: Verdict,
    /// A line of its own, without a label.
    alone: bool,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub approvals: Vec<Approval>,
    /// Why one of them does not count, and so none does.
    pub doubt: Option<&'static str>,
}

/// Nobody states a verdict more often than this.
const APPROVALS_MAX: usize = 16;

const REPEATED: &str = "the approval is stated again and again";
const CONDITIONAL: &str = "the approval has something behind it";
const NOT_OWN: &str = "the approval is quoted, of another time or somebody else's";
const RESERVED: &str = "the text around the approval takes it back or sets a condition";
const UNFINISHED: &str = "the text forbids the approval or says that the review is not finished";
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
pub(super) fn find(blocks: &[Block]) -> Found {
    let mut found = Found::default();
    let mut path = Path::default();
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
            Kind::Heading(level) if level % STRIDE != DETAILS => {
                of_heading(&mut found, index, block, next);
            }
            Kind::Paragraph => of_lines(&mut found, index, block, next, true),
            Kind::Item(Marker::Box { ticked }) => of_box(&mut found, index, block, *ticked && form),
            Kind::Item(_) => of_lines(&mut found, index, block, next, false),
            Kind::Table(rows) => of_rows(&mut found, index, rows),
            Kind::Heading(_) | Kind::Code | Kind::Rule | Kind::Close(_) => {}
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
fn is_own(blocks: &[Block], index: usize, block: &Block, path: &Path) -> bool {
    let announced = index
        .checked_sub(1)
        .map(|before| &blocks[before])
        .is_some_and(|before| {
            !matches!(before.kind, Kind::Heading(_) | Kind::Rule | Kind::Close(_))
                && before
                    .text
                    .trim_end_matches(['*', '_', ' '])
                    .ends_with([':', '：', ','])
        });
    !(block.quoted || block.apart || block.indent >= 4 || announced || path.is_elsewhere())
}

/// The headings above a block.
#[derive(Default)]
struct Path {
    headings: Vec<(u32, bool)>,
    /// The block before was a heading under which others speak: what follows belongs to it.
    pending: bool,
}

impl Path {
    fn enter(&mut self, block: &Block) {
        match block.kind {
            Kind::Heading(level) => {
                self.headings.retain(|(above, _)| *above < level);
                let elsewhere = self.pending
                    || level % STRIDE == DETAILS
                    || level / STRIDE > 0
                    || is_elsewhere(&block.text, level);
                self.headings.push((level, elsewhere));
                self.pending = elsewhere;
            }
            Kind::Close(level) => self.headings.retain(|(above, _)| *above < level),
            Kind::Item(_) | Kind::Paragraph | Kind::Code | Kind::Table(_) => self.pending = false,
            Kind::Rule => {}
        }
    }

    fn is_elsewhere(&self) -> bool {
        self.headings.iter().any(|(_, elsewhere)| *elsewhere)
    }
}

static ELSEWHERE: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
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

/// What says that a finding of an earlier round is still there.
static STILL_OPEN: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
    Phrases::of(&["
not fixed, not resolved, not addressed, not been fixed, not been resolved, not been addressed, isn't fixed, unresolved, unfixed, still open, still broken, still present, still fails, still there, remains open, remains broken, remains unfixed, reopened, regressed, nicht behoben, non corrigé*, no corregid*, não corrigid*, не исправлен*, 未修复, 未解决, 未修正"])
});

static ROUND: std::sync::LazyLock<Phrases> = std::sync::LazyLock::new(|| {
    Phrases::of(&["
round, rounds, iteration, pass #, attempt, update*, edit, edited, addendum, correction*, erratum, follow up round, re review, second look, postscript, ps, p s, runde, nachtrag, korrektur, update, mise à jour, correctif, tour, ronda, actualización, corrección, rodada, atualização, correção, раунд, обновление, исправление, 轮, 更新, 更正, 补充, ラウンド, 追記, 訂正, 수정"])
});

/// A heading under which others speak, or the reviewer of another time.
fn is_elsewhere(heading: &str, level: u32) -> bool {
    let sentence = Sentence::of(heading);
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
        matches!(block.kind, Kind::Item(Marker::Box { ticked: false }))
            && super::words::alone(&block.text) == Some(Claim::ChangesRequested)
    })
}

/// A ticked box approves only in a form that also offers the refusal, unticked.
fn of_box(found: &mut Found, index: usize, block: &Block, chosen: bool) {
    match approval::alone(&block.text) {
        Some(Answer::Whole) if chosen => {
            push(found, index, index, &block.text, Strength::Mark, false)
        }
        Some(_) => {
            push(found, index, index, &block.text, Strength::Mark, false);
            found.doubt = found.doubt.or(Some(UNTICKED));
        }
        None => {}
    }
}

fn push(found: &mut Found, index: usize, end: usize, text: &str, strength: Strength, alone: bool) {
    found.approvals.push(Approval {
        index,
        end,
        verdict: Verdict {
            claim: Claim::Approved,
            text: crate::clean::shorten(&crate::clean::one_line(text), 160),
            strength,
        },
        alone,
    });
}

/// `## Verdict` with its whole answer below, `## Verdict: approve`, `# Code review — approved`.
fn of_heading(found: &mut Found, index: usize, block: &Block, next: Option<&Block>) {
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
        Kind::Heading(level) => level,
        _ => 1,
    };
    let titled =
        end < heading.len() && level <= 2 && approval::is_title(label.trim_end_matches([' ', '-']));
    let value = if titled { value } else { heading };
    let lists = next.is_some_and(|next| matches!(next.kind, Kind::Item(_) | Kind::Table(_)));
    let may_stand = titled || (index == 0 && !lists);
    if may_stand && approval::alone(value) == Some(Answer::Whole) {
        push(found, index, index, heading, Strength::Mark, !titled);
    }
}

/// Takes the value of a labelled heading, or of the block below it.
fn take<'a>(
    found: &mut Found,
    index: usize,
    block: &'a Block,
    next: Option<&'a Block>,
    value: &'a str,
    judge: fn(&'a str) -> Option<Answer<'a>>,
) {
    let beside = !value.trim().is_empty();
    let (value, end) = if beside {
        (value, index)
    } else {
        let Some(below) = next.filter(|next| {
            matches!(next.kind, Kind::Paragraph | Kind::Item(Marker::Bullet)) && next.indent < 4
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
        Some(Answer::Whole) => true,
        Some(Answer::Explained(rest)) => is_explained(rest, ""),
    };
    push(found, index, end, text, Strength::Label, false);
    if !sound {
        found.doubt = found.doubt.or(Some(CONDITIONAL));
    }
}

/// Labelled lines, and lines that are nothing but an approval.
fn of_lines(found: &mut Found, index: usize, block: &Block, next: Option<&Block>, paragraph: bool) {
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
            matches!(next.kind, Kind::Paragraph) && !next.quoted && !next.apart && next.indent < 4
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
            Some(Answer::Whole) => is_explained("", rest),
            Some(Answer::Explained(behind)) => is_explained(behind, rest),
        };
        let strength = if labelled {
            Strength::Label
        } else {
            Strength::Mark
        };
        push(found, index, end, line, strength, !labelled);
        if !(sound && leads_up(before, labelled)) {
            found.doubt = found.doubt.or(Some(CONDITIONAL));
        }
    }
}

type Judge = for<'a> fn(&'a str) -> Option<Answer<'a>>;

/// The value that a line states as a verdict, how it is judged, and whether it has a label.
fn stated(line: &str, paragraph: bool) -> Option<(&str, Judge, bool)> {
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
        approval::alone as Judge,
        false,
    ))
}

fn affirmed_or_true(value: &str) -> Option<Answer<'_>> {
    if value.trim() == "true" {
        return Some(Answer::Whole);
    }
    approval::affirmed(value)
}

/// What follows an approval in its block: sentences behind it that speak for it, and below it such
/// sentences or other labelled lines.
fn is_explained(behind: &str, rest: &str) -> bool {
    let (behind, below) = behind.split_once('\n').unwrap_or((behind, ""));
    let mut prose = behind.to_owned();
    for line in below.lines().chain(rest.lines()) {
        let metadata = fields::split_label(line).is_some_and(|(label, _)| is_metadata(label));
        if metadata && prose.is_empty() {
            if cues::objects(line) {
                return false;
            }
        } else {
            prose.push(' ');
            prose.push_str(line);
        }
    }
    cues::vouches(&prose)
}

/// Whether the lines above an approval in its block end before it.
fn leads_up(before: &str, labelled: bool) -> bool {
    let Some(last) = before.lines().last() else {
        return true;
    };
    let bare = last.trim_end_matches(['*', '_', '`', ' ']);
    let metadata = fields::split_label(last).is_some_and(|(_, value)| !value.is_empty());
    let ended = bare.ends_with(['.', '!', '。', '！', '✅']) || metadata;
    ended && !cues::objects(before) && (labelled || cues::vouches(before) || metadata)
}

fn of_rows(found: &mut Found, index: usize, rows: &[Vec<String>]) {
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
            Some(Answer::Whole) => true,
            Some(Answer::Explained(rest)) => cues::vouches(rest),
        };
        push(found, index, index, value, Strength::Label, false);
        if !sound {
            found.doubt = found.doubt.or(Some(CONDITIONAL));
        }
    }
}

/// What in the rest of the document speaks against the approval.
pub(super) fn doubt(blocks: &[Block], approval: &Approval) -> Option<&'static str> {
    let others = |(index, _): &(usize, &Block)| *index != approval.index && *index != approval.end;
    doubt_of(blocks, approval.end, others, approval.alone)
}

/// The same for an approval that does not stand in the prose.
pub(super) fn doubt_in_prose(blocks: &[Block]) -> Option<&'static str> {
    let announced = blocks
        .windows(2)
        .any(|pair| pair[1].kind == Kind::Code && is_example(&pair[0]));
    let set_apart = blocks.iter().any(|block| {
        let elsewhere =
            matches!(block.kind, Kind::Heading(level) if is_elsewhere(&block.text, level));
        block.quoted || block.apart || elsewhere
    });
    if announced || set_apart {
        return Some(NOT_OWN);
    }
    doubt_of(blocks, usize::MAX, |_| true, false)
}

fn doubt_of(
    blocks: &[Block],
    end: usize,
    others: impl Fn(&(usize, &Block)) -> bool,
    alone: bool,
) -> Option<&'static str> {
    let words: usize = blocks
        .iter()
        .map(|block| Sentence::of(&text_of(block)).weight())
        .sum();
    let short = words <= SHORT_WORDS;
    let mut harmless_heading = false;
    let mut earlier = false;
    let mut same_section = true;
    for (index, block) in blocks.iter().enumerate().filter(others) {
        if let Kind::Heading(level) = block.kind {
            let minor = degree::degree_heading(&block.text).and_then(|word| Severity::of(&word));
            harmless_heading = minor.is_some_and(|severity| !severity.is_must_fix());
            same_section &= index < end;
            earlier = topic::topic(&block.text) == Topic::Earlier;
            let filled = blocks.get(index + 1).is_some_and(|next| {
                !matches!(next.kind, Kind::Heading(_) | Kind::Rule | Kind::Close(_))
                    && !topic::is_nothing(&next.text)
            });
            if filled && !earlier && cues::demands(&block.text) {
                return Some("the text lists changes that are required");
            }
            if index > end && !earlier && level > 1 && ROUND.is_in(&Sentence::of(&block.text)) {
                return Some(NOT_OWN);
            }
        }
        let offered = matches!(block.kind, Kind::Item(Marker::Box { ticked: false }))
            && super::words::alone(&block.text).is_some();
        if block.kind == Kind::Code || offered {
            continue;
        }
        let text = text_of(block);
        if cues::forbids(&text) {
            return Some(UNFINISHED);
        }
        // What a heading announces is judged by what stands under it.
        let announces =
            matches!(block.kind, Kind::Heading(_)) && topic::topic(&block.text) != Topic::Open;
        if is_grave(block) {
            return Some("a must-fix finding stands beside the approval");
        }
        let minor = harmless_heading || announces || is_minor(&block.text);
        let near = index > end && same_section && matches!(block.kind, Kind::Paragraph);
        let reserved = if earlier {
            STILL_OPEN.is_in(&Sentence::of(&text))
        } else if short && !minor {
            is_reserved(block, &text, alone)
        } else {
            near && cues::turns(&text)
        };
        if reserved && !(block.quoted && index < end && !short) {
            return Some(RESERVED);
        }
    }
    ends_in_mid_sentence(blocks, end).then_some("the text ends in the middle of a sentence")
}

/// A line that announces code which is not the answer: `The format is:`.
fn is_example(block: &Block) -> bool {
    const OWN: [&str; 8] = [
        "my ", "here is", "here's", "review", "verdict", "result", "final", "summary",
    ];
    let line = block.text.lines().last().unwrap_or_default();
    let announces = line
        .trim_end_matches(['*', '_', ' '])
        .ends_with([':', '：']);
    let lower = line.to_lowercase();
    announces
        && (ELSEWHERE.is_in(&Sentence::of(line)) || !OWN.iter().any(|word| lower.contains(word)))
}

/// In a short document every block is judged; beside an approval without a label it also has to
/// speak for the change.
fn is_reserved(block: &Block, text: &str, alone: bool) -> bool {
    let prose = matches!(block.kind, Kind::Paragraph);
    let metadata = block.text.lines().all(|line| {
        fields::split_label(line)
            .is_some_and(|(label, value)| !value.is_empty() && is_metadata(label))
    });
    if alone && prose && !metadata {
        return !cues::vouches(&text.replace('\n', " "));
    }
    cues::objects(text)
}

/// Labels of what a report says about itself.
fn is_metadata(label: &str) -> bool {
    matches!(
        label.to_lowercase().as_str(),
        "reviewer"
            | "date"
            | "commit"
            | "branch"
            | "ticket"
            | "task"
            | "pr"
            | "files"
            | "scope"
            | "model"
            | "tests"
            | "version"
            | "summary"
            | "reviewed commit"
            | "range"
    )
}

/// An item or paragraph that carries the degree of a must-fix finding, wherever it stands.
fn is_grave(block: &Block) -> bool {
    if !matches!(block.kind, Kind::Item(_) | Kind::Paragraph) {
        return false;
    }
    let (_, text) = label::ordinal(&block.text);
    label::leading(text).is_some_and(|label| {
        label.plain == label::Plain::Strong
            && Severity::of(&label.raw).is_some_and(Severity::is_must_fix)
            && label.rest.chars().filter(|c| c.is_alphabetic()).count() > 4
            && !topic::is_nothing(label.rest)
            && !topic::is_settled(label.rest)
            && !matches!(block.kind, Kind::Item(Marker::Box { ticked: true }))
    })
}

fn is_minor(text: &str) -> bool {
    label::leading(text)
        .and_then(|label| Severity::of(&label.raw))
        .is_some_and(|severity| !severity.is_must_fix())
}

fn text_of(block: &Block) -> String {
    match &block.kind {
        Kind::Table(rows) => rows
            .iter()
            .map(|row| row.join(". "))
            .collect::<Vec<_>>()
            .join(". "),
        Kind::Code | Kind::Rule | Kind::Close(_) => String::new(),
        Kind::Heading(_) | Kind::Item(_) | Kind::Paragraph => block.text.clone(),
    }
}

/// A last paragraph that stops without an end was cut.
fn ends_in_mid_sentence(blocks: &[Block], end: usize) -> bool {
    let Some((index, last)) = blocks
        .iter()
        .enumerate()
        .rfind(|(_, block)| !matches!(block.kind, Kind::Rule | Kind::Close(_)))
    else {
        return false;
    };
    let line = last.text.lines().last().unwrap_or_default();
    matches!(last.kind, Kind::Paragraph)
        && index != end
        && fields::split_label(line).is_none()
        && line
            .trim_end()
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, ',' | '-' | '–' | '('))
}
