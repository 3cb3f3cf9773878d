//! The ledger: a ticket's findings over all rounds. A must-fix finding leaves it only by proof
//! (verified fixed), by refutation, or by a named person's waiver; silence closes nothing.

mod evolution;

pub use evolution::{RoundFindings, table as evolution_table};

use std::collections::BTreeSet;

use findings::{Finding, KnownFinding, LineMap, Severity, fingerprint, track};
use serde::{Deserialize, Serialize};

use crate::event::{AnswerOutcome, FindingReport, ReportedOutcome, VerifierAnswer};
use crate::policy::Policy;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger {
    pub entries: Vec<LedgerEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Short and stable: `F3`.
    pub id: String,
    pub fingerprint: String,
    /// In the words of whoever reported it last; its lines are those of the newest submission.
    pub finding: Finding,
    pub reported_by: BTreeSet<String>,
    pub first_round: u32,
    pub last_round: u32,
    pub status: FindingStatus,
    /// The reviewer said that nothing may land with it (002's blocking issue).
    pub blocking: bool,
    /// On lines that the change did not touch.
    pub untouched: bool,
    /// A note: every report of it was under the policy's threshold of confidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub low_confidence: bool,
    /// What the builder, the verifier or a person said last.
    pub note: Option<FindingNote>,
    /// What a first verifier said, while a second is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opinion: Option<AnswerOutcome>,
    pub history: Vec<StatusChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    Open,
    /// Verified.
    Fixed,
    /// The last reviewer did not mention it: still open.
    NotRepeated,
    /// It was fixed and is back.
    Reopened,
    Refuted,
    /// The builder disputes it: still open.
    Disputed,
    Waived,
    Duplicate,
}

impl FindingStatus {
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Open | Self::NotRepeated | Self::Reopened | Self::Disputed
        )
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Fixed => "fixed",
            Self::NotRepeated => "not repeated",
            Self::Reopened => "reopened",
            Self::Refuted => "refuted",
            Self::Disputed => "disputed",
            Self::Waived => "waived",
            Self::Duplicate => "duplicate",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingNote {
    pub by: String,
    pub round: u32,
    pub text: String,
}

/// One line of an entry's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatusChange {
    pub round: u32,
    pub status: FindingStatus,
}

impl LedgerEntry {
    pub fn is_must_fix(&self, policy: &Policy) -> bool {
        self.blocking || (self.costs_a_round() && policy.must_fix.contains(&self.severity()))
    }

    /// Praise and notes never do, nor do small things on lines that the change did not touch.
    pub fn costs_a_round(&self) -> bool {
        let beside_the_change = self.untouched && self.severity() >= Severity::Low;
        self.finding.actionable && !self.low_confidence && !beside_the_change
    }

    /// The status as people read it: `open`, or `note (30 %)` for a finding of low confidence.
    pub fn status_text(&self) -> String {
        match self.finding.confidence {
            Some(percent) if self.low_confidence && self.status.is_open() => {
                format!("note ({percent} %)")
            }
            Some(_) | None => self.status.word().to_owned(),
        }
    }

    pub fn severity(&self) -> Severity {
        self.finding.rating.severity
    }

    pub fn came_back_in(&self, round: u32) -> bool {
        self.history
            .iter()
            .any(|turn| turn.round == round && turn.status == FindingStatus::Reopened)
    }

    /// A verifier refuted it on an earlier commit, and somebody reports it on this one.
    pub fn was_refuted_before(&self, round: u32) -> bool {
        let mut turns = self.history.iter().rev();
        let now = turns.next();
        let before = turns.next();
        now.is_some_and(|turn| turn.round == round && turn.status == FindingStatus::Open)
            && before
                .is_some_and(|turn| turn.round < round && turn.status == FindingStatus::Refuted)
    }

    /// `src/a.rs:12`, or nothing.
    pub fn place(&self) -> String {
        match (&self.finding.file, self.finding.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => String::new(),
        }
    }

    fn turn(&mut self, round: u32, status: FindingStatus) {
        if self.status != status {
            self.history.push(StatusChange { round, status });
        }
        self.status = status;
    }
}

/// A finding as it comes in from one review.
#[derive(Debug)]
pub struct IncomingFinding<'a> {
    pub finding: &'a Finding,
    pub blocking: bool,
    /// The policy makes it a note.
    pub low_confidence: bool,
}

impl Ledger {
    /// Whether a ledger id could be one of ours: checked before an agent's word is looked up.
    pub fn get(&self, id: &str) -> Option<&LedgerEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    pub fn open_must_fix(&self, policy: &Policy) -> Vec<&LedgerEntry> {
        self.entries
            .iter()
            .filter(|e| e.status.is_open() && e.is_must_fix(policy))
            .collect()
    }

    /// Open findings that do not hold the ticket up.
    pub fn follow_ups(&self, policy: &Policy) -> Vec<&LedgerEntry> {
        let kept = |e: &&LedgerEntry| {
            let open = e.status.is_open() && e.finding.actionable;
            open && !e.low_confidence && !e.is_must_fix(policy)
        };
        self.entries.iter().filter(kept).collect()
    }

    /// Findings that nobody was sure enough of: shown to people, asked of nobody.
    pub fn notes(&self) -> Vec<&LedgerEntry> {
        let kept =
            |e: &&LedgerEntry| e.status.is_open() && e.finding.actionable && e.low_confidence;
        self.entries.iter().filter(kept).collect()
    }

    /// Moves every finding's lines to where they are in the newest submission.
    pub fn follow(&mut self, moved: &LineMap) {
        for entry in &mut self.entries {
            moved.follow(&mut entry.finding);
        }
    }

    /// Takes in what one reviewer reported in `round`; says which entries it spoke of.
    pub fn absorb(
        &mut self,
        round: u32,
        reviewer: &str,
        incoming: &[IncomingFinding<'_>],
        touched: &LineMap,
    ) -> BTreeSet<String> {
        let known: Vec<KnownFinding<'_>> = self
            .entries
            .iter()
            .map(|entry| KnownFinding {
                id: &entry.id,
                finding: &entry.finding,
            })
            .collect();
        let new: Vec<Finding> = incoming.iter().map(|one| one.finding.clone()).collect();
        let links = track(&known, &new, &LineMap::default());
        let mut spoken = BTreeSet::new();
        for (at, one) in incoming.iter().enumerate() {
            let untouched = is_untouched(one.finding, touched);
            let mut known: Vec<usize> = links
                .iter()
                .filter(|link| link.new == at)
                .filter_map(|link| self.entries.iter().position(|entry| entry.id == link.id))
                .collect();
            let same = known.clone();
            known.retain(|index| self.is_repeated_by(*index, one));
            if known.is_empty() {
                known.push(self.begin(round, one, untouched));
            }
            if !one.low_confidence {
                self.close_notes(round, reviewer, &same, &known);
            }
            for index in known {
                if let Some(entry) = self.entries.get_mut(index) {
                    entry.repeat(round, reviewer, one, untouched);
                    spoken.insert(entry.id.clone());
                }
            }
        }
        spoken
    }

    /// Whether a report of the same defect speaks of this entry. A note and a finding stay two
    /// entries; a doubtful report repeats a finding that is open, and does not bring a closed one back.
    fn is_repeated_by(&self, index: usize, one: &IncomingFinding<'_>) -> bool {
        let Some(entry) = self.entries.get(index) else {
            return false;
        };
        match (one.low_confidence, entry.low_confidence) {
            (true, true) | (false, false) => true,
            (true, false) => entry.status.is_open(),
            (false, true) => false,
        }
    }

    /// Somebody is sure now of what was a note: the finding takes its place.
    fn close_notes(&mut self, round: u32, by: &str, same: &[usize], instead: &[usize]) {
        let ids: Vec<String> = instead
            .iter()
            .filter_map(|index| Some(self.entries.get(*index)?.id.clone()))
            .collect();
        for index in same {
            let entry = self.entries.get_mut(*index);
            let Some(note) = entry.filter(|e| e.low_confidence && e.status.is_open()) else {
                continue;
            };
            note.note = Some(FindingNote {
                by: by.to_owned(),
                round,
                text: format!("reported with confidence as {}", ids.join(", ")),
            });
            note.turn(round, FindingStatus::Duplicate);
        }
    }

    fn begin(&mut self, round: u32, one: &IncomingFinding<'_>, untouched: bool) -> usize {
        let finding = one.finding.clone();
        self.entries.push(LedgerEntry {
            id: format!("F{}", self.entries.len() + 1),
            fingerprint: fingerprint(&finding),
            finding,
            reported_by: BTreeSet::new(),
            first_round: round,
            last_round: round,
            status: FindingStatus::Open,
            blocking: false,
            untouched,
            low_confidence: one.low_confidence,
            note: None,
            opinion: None,
            history: vec![StatusChange {
                round,
                status: FindingStatus::Open,
            }],
        });
        self.entries.len() - 1
    }

    /// The builder's word: a dispute is noted, a claim to have fixed it proves nothing.
    pub fn hear_builder(&mut self, round: u32, by: &str, report: &FindingReport) {
        let Some(entry) = self.find_open(&report.finding) else {
            return;
        };
        entry.note = Some(FindingNote {
            by: by.to_owned(),
            round,
            text: report.note.clone(),
        });
        if report.outcome == ReportedOutcome::Disputed {
            entry.turn(round, FindingStatus::Disputed);
        }
    }

    /// The verifier's word. Uncertain counts as confirmed. Where a second is to be heard, what
    /// the first refutes or is not sure of is kept back: false says so.
    pub fn hear_verifier(
        &mut self,
        round: u32,
        by: &str,
        answer: &VerifierAnswer,
        second: bool,
    ) -> bool {
        let Some(entry) = self.find_open(&answer.finding) else {
            return true;
        };
        entry.note = Some(FindingNote {
            by: by.to_owned(),
            round,
            text: answer.evidence.clone(),
        });
        let outcome = match entry.opinion.take() {
            Some(first) => together(first, answer.outcome),
            None if second && leaves_doubt(answer.outcome) => {
                entry.opinion = Some(answer.outcome);
                return false;
            }
            None => answer.outcome,
        };
        match outcome {
            AnswerOutcome::Fixed => entry.turn(round, FindingStatus::Fixed),
            AnswerOutcome::Refuted => entry.turn(round, FindingStatus::Refuted),
            AnswerOutcome::Confirmed | AnswerOutcome::Uncertain => {
                entry.last_round = round;
                if entry.status != FindingStatus::Reopened {
                    entry.turn(round, FindingStatus::Open);
                }
            }
        }
        true
    }

    /// A person takes the risk in their own name. False where there is nothing open to waive.
    pub fn waive(&mut self, round: u32, by: &str, id: &str, why: &str) -> bool {
        let Some(entry) = self.find_open(id) else {
            return false;
        };
        entry.note = Some(FindingNote {
            by: by.to_owned(),
            round,
            text: why.to_owned(),
        });
        entry.turn(round, FindingStatus::Waived);
        true
    }

    /// Before the verdict: what nobody spoke of in this round is still open, and says so.
    pub fn end_round(&mut self, round: u32) {
        for entry in &mut self.entries {
            if entry.status == FindingStatus::Open && entry.last_round < round {
                entry.turn(round, FindingStatus::NotRepeated);
            }
        }
    }

    fn find_open(&mut self, id: &str) -> Option<&mut LedgerEntry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.id == id && entry.status.is_open())
    }
}

fn leaves_doubt(outcome: AnswerOutcome) -> bool {
    matches!(outcome, AnswerOutcome::Refuted | AnswerOutcome::Uncertain)
}

/// Two verifiers: who is sure goes before who is not, and where they contradict each other, the
/// finding stands.
fn together(first: AnswerOutcome, second: AnswerOutcome) -> AnswerOutcome {
    match (first, second) {
        (AnswerOutcome::Uncertain, second) => second,
        (first, AnswerOutcome::Uncertain) => first,
        (first, second) if first == second => first,
        (_, _) => AnswerOutcome::Confirmed,
    }
}

fn is_untouched(finding: &Finding, touched: &LineMap) -> bool {
    match (&finding.file, finding.line) {
        (Some(file), Some(line)) => !touched.wrote(file, line, finding.end_line),
        (Some(_) | None, _) => false,
    }
}

impl LedgerEntry {
    /// Somebody reports it (again).
    fn repeat(&mut self, round: u32, reviewer: &str, one: &IncomingFinding<'_>, untouched: bool) {
        self.reported_by.insert(reviewer.to_owned());
        self.last_round = round;
        self.blocking |= one.blocking;
        self.untouched &= untouched;
        // A doubtful report neither rewords a finding nor makes it graver.
        if self.low_confidence || !one.low_confidence {
            self.hear(one.finding);
        }
        match self.status {
            // Fixed in one mouth and there in another, on the same commit: that is open.
            FindingStatus::Fixed if self.fixed_in(round) => self.turn(round, FindingStatus::Open),
            FindingStatus::Fixed => self.turn(round, FindingStatus::Reopened),
            // Another commit than the one that it was refuted on: somebody looks again.
            FindingStatus::Refuted if !self.refuted_in(round) => {
                self.turn(round, FindingStatus::Open)
            }
            FindingStatus::NotRepeated => self.turn(round, FindingStatus::Open),
            FindingStatus::Open
            | FindingStatus::Reopened
            | FindingStatus::Disputed
            | FindingStatus::Refuted
            | FindingStatus::Waived
            | FindingStatus::Duplicate => {}
        }
    }

    /// Takes over the newest words, but of two severities the graver: a must-fix finding does not
    /// leave by being called something milder.
    fn hear(&mut self, finding: &Finding) {
        if !finding.actionable {
            return;
        }
        let known = &self.finding;
        let graver = known.actionable && known.rating.severity < finding.rating.severity;
        let lines = if finding.line.is_some() {
            finding
        } else {
            known
        };
        let (line, end_line) = (lines.line, lines.end_line);
        self.finding = Finding {
            rating: if graver {
                &known.rating
            } else {
                &finding.rating
            }
            .clone(),
            file: finding.file.clone().or_else(|| known.file.clone()),
            line,
            end_line,
            ..finding.clone()
        };
    }

    fn fixed_in(&self, round: u32) -> bool {
        self.last_turned(round, FindingStatus::Fixed)
    }

    fn refuted_in(&self, round: u32) -> bool {
        self.last_turned(round, FindingStatus::Refuted)
    }

    fn last_turned(&self, round: u32, status: FindingStatus) -> bool {
        let last = self.history.last();
        last.is_some_and(|turn| turn.round == round && turn.status == status)
    }
}
