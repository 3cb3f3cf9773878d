//! The ledger: a ticket's findings over all rounds. A must-fix finding is closed only if a verifier
//! finds it fixed or refutes it, or a named person waives it. Silence closes nothing.
//!
//! The rules lean to the open side. A reviewer that forgets a finding, a builder that says it is
//! done and a verifier that is not sure all leave it open, because none of that proves a fix.

mod by_round;

pub use by_round::{RoundFindings, findings_by_round_table};

use std::collections::BTreeSet;

use findings::{Finding, KnownFinding, LineMap, Severity, fingerprint, track};
use serde::{Deserialize, Serialize};

use crate::event::{AnswerOutcome, FindingReport, ReportedOutcome, VerifierAnswer};
use crate::policy::Policy;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Ledger {
    pub entries: Vec<LedgerEntry>,
}

/// One finding, with its state over all rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LedgerEntry {
    /// Short, stable id: `F3`.
    pub id: String,
    pub fingerprint: String,
    /// Text of the last report. Its lines are those of the newest submission.
    pub finding: Finding,
    pub reported_by: BTreeSet<String>,
    pub first_round: u32,
    pub last_round: u32,
    pub status: FindingStatus,
    /// A reviewer reported it as a blocking issue: nothing may land with it.
    pub blocking: bool,
    /// Whether the finding is on lines that the change did not touch.
    pub untouched: bool,
    /// Whether this is a note: every report of it was under the policy's threshold of confidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub low_confidence: bool,
    /// Last statement of the builder, the verifier or a person.
    pub note: Option<FindingNote>,
    /// Answer of the first verifier, while a second one is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opinion: Option<AnswerOutcome>,
    pub history: Vec<StatusChange>,
}

/// State of a finding.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    Open,
    /// A verifier found it fixed.
    Fixed,
    /// The last review did not mention it. It is still open.
    NotRepeated,
    /// The finding was fixed, and was reported again later.
    Reopened,
    Refuted,
    /// The builder disputes it. It is still open.
    Disputed,
    Waived,
    Duplicate,
}

/// `NotRepeated` and `Disputed` are open: neither the silence of a reviewer nor the word of the
/// builder closes anything.
impl FindingStatus {
    pub fn is_open(self) -> bool {
        matches!(
            self,
            Self::Open | Self::NotRepeated | Self::Reopened | Self::Disputed
        )
    }

    pub fn as_str(self) -> &'static str {
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

/// Statement of the builder, a verifier or a person on a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FindingNote {
    pub by: String,
    pub round: u32,
    pub text: String,
}

/// One status change in an entry's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StatusChange {
    pub round: u32,
    pub status: FindingStatus,
}

impl LedgerEntry {
    pub fn is_must_fix(&self, policy: &Policy) -> bool {
        self.blocking || (self.costs_a_round() && policy.must_fix.contains(&self.severity()))
    }

    /// Whether it can cost a round. Praise, notes, and minor findings on lines that the change did
    /// not touch never do.
    pub fn costs_a_round(&self) -> bool {
        // A severe defect counts wherever it is. A minor one on old lines is no reason to hold up
        // this change.
        let is_unrelated = self.untouched && self.severity() >= Severity::Low;
        self.finding.actionable && !self.low_confidence && !is_unrelated
    }

    /// Status as shown to people: `open`, or `note (30 %)` for a finding of low confidence.
    pub fn status_text(&self) -> String {
        match self.finding.confidence {
            Some(percent) if self.low_confidence && self.status.is_open() => {
                format!("note ({percent} %)")
            }
            Some(_) | None => self.status.as_str().to_owned(),
        }
    }

    pub fn severity(&self) -> Severity {
        self.finding.rating.severity
    }

    // The history is searched and not the status: the entry may have been verified again since.
    pub fn reopened_in(&self, round: u32) -> bool {
        self.history
            .iter()
            .any(|turn| turn.round == round && turn.status == FindingStatus::Reopened)
    }

    /// Whether a verifier refuted it on an earlier commit and a reviewer reports it on this one.
    pub fn was_refuted_before(&self, round: u32) -> bool {
        // The last two changes have to be exactly these. An older refutation was followed by
        // something else that already decided.
        let mut turns = self.history.iter().rev();
        let now = turns.next();
        let before = turns.next();
        now.is_some_and(|turn| turn.round == round && turn.status == FindingStatus::Open)
            && before
                .is_some_and(|turn| turn.round < round && turn.status == FindingStatus::Refuted)
    }

    /// Location: `src/a.rs:12`, or an empty text.
    pub fn location(&self) -> String {
        match (&self.finding.file, self.finding.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => String::new(),
        }
    }

    fn set_status(&mut self, round: u32, status: FindingStatus) {
        // A repeated status adds no line, so that the history has changes only.
        if self.status != status {
            self.history.push(StatusChange { round, status });
        }
        self.status = status;
    }
}

/// A finding of one review, before it is in the ledger.
#[derive(Debug)]
pub struct IncomingFinding<'a> {
    pub finding: &'a Finding,
    pub blocking: bool,
    /// Whether its confidence is under the policy's threshold, which makes it a note.
    pub low_confidence: bool,
}

impl Ledger {
    /// Looks up an entry by its id. Ids from agents are untrusted.
    pub fn get(&self, id: &str) -> Option<&LedgerEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    pub fn open_must_fix(&self, policy: &Policy) -> Vec<&LedgerEntry> {
        self.entries
            .iter()
            .filter(|e| e.status.is_open() && e.is_must_fix(policy))
            .collect()
    }

    /// Counts the open findings as critical, important (high) and minor ones, without notes.
    pub fn open_counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        let open = |e: &&LedgerEntry| e.status.is_open() && e.finding.actionable;
        for entry in self.entries.iter().filter(open) {
            let [critical, important, minor] = &mut counts;
            match entry.severity() {
                _ if entry.low_confidence => {}
                Severity::Critical => *critical += 1,
                Severity::High => *important += 1,
                Severity::Medium | Severity::Low | Severity::Suggestion => *minor += 1,
            }
        }
        counts
    }

    /// Open findings that do not block the ticket.
    pub fn follow_ups(&self, policy: &Policy) -> Vec<&LedgerEntry> {
        let is_follow_up = |e: &&LedgerEntry| {
            let open = e.status.is_open() && e.finding.actionable;
            open && !e.low_confidence && !e.is_must_fix(policy)
        };
        self.entries.iter().filter(is_follow_up).collect()
    }

    /// Open findings of low confidence. They are shown to people, and no builder has to fix them.
    pub fn notes(&self) -> Vec<&LedgerEntry> {
        let is_note =
            |e: &&LedgerEntry| e.status.is_open() && e.finding.actionable && e.low_confidence;
        self.entries.iter().filter(is_note).collect()
    }

    /// Moves the lines of every finding to their place in the newest submission.
    pub fn move_lines(&mut self, moved: &LineMap) {
        for entry in &mut self.entries {
            moved.move_finding(&mut entry.finding);
        }
    }

    /// Records the findings of one review, and returns the ids of their entries.
    pub fn record_review(
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
        // No map of moved lines: `move_lines` has already brought the known findings to this
        // commit.
        let links = track(&known, &new, &LineMap::default());
        // One report can match several entries, and several reports one entry. Each is looked up by
        // itself.
        let mut reported = BTreeSet::new();
        for (at, one) in incoming.iter().enumerate() {
            let untouched = is_untouched(one.finding, touched);
            let mut indices: Vec<usize> = links
                .iter()
                .filter(|link| link.new == at)
                .filter_map(|link| self.entries.iter().position(|entry| entry.id == link.id))
                .collect();
            let linked = indices.clone();
            // Linked entries that this report may not touch are dropped, so the report gets an
            // entry of its own.
            indices.retain(|index| self.is_repeated_by(*index, one));
            if indices.is_empty() {
                indices.push(self.add_entry(round, one, untouched));
            }
            // Done for a confident report only: a doubt must not close another doubt.
            if !one.low_confidence {
                self.close_notes(round, reviewer, &linked, &indices);
            }
            for index in indices {
                if let Some(entry) = self.entries.get_mut(index) {
                    entry.report_again(round, reviewer, one, untouched);
                    reported.insert(entry.id.clone());
                }
            }
        }
        reported
    }

    /// Whether a report of the same defect repeats this entry. A note and a finding stay two
    /// entries. A report of low confidence repeats an open finding, but reopens no closed one.
    fn is_repeated_by(&self, index: usize, one: &IncomingFinding<'_>) -> bool {
        let Some(entry) = self.entries.get(index) else {
            return false;
        };
        match (one.low_confidence, entry.low_confidence) {
            (true, true) | (false, false) => true,
            // A doubt supports an open finding, but it must not bring a closed one back.
            (true, false) => entry.status.is_open(),
            // A confident finding never continues a note: the note keeps its history, and is closed
            // as a duplicate.
            (false, true) => false,
        }
    }

    /// Closes notes on a defect that is now reported with confidence, as duplicates of the finding.
    fn close_notes(&mut self, round: u32, by: &str, linked: &[usize], findings: &[usize]) {
        let ids: Vec<String> = findings
            .iter()
            .filter_map(|index| Some(self.entries.get(*index)?.id.clone()))
            .collect();
        for index in linked {
            let entry = self.entries.get_mut(*index);
            let Some(note) = entry.filter(|e| e.low_confidence && e.status.is_open()) else {
                continue;
            };
            // The reason names the new id, so that a reader of the note finds the finding.
            note.note = Some(FindingNote {
                by: by.to_owned(),
                round,
                text: format!("reported with confidence as {}", ids.join(", ")),
            });
            note.set_status(round, FindingStatus::Duplicate);
        }
    }

    fn add_entry(&mut self, round: u32, one: &IncomingFinding<'_>, untouched: bool) -> usize {
        let finding = one.finding.clone();
        self.entries.push(LedgerEntry {
            // Entries are never removed, so the length gives an id that was never used.
            id: format!("F{}", self.entries.len() + 1),
            fingerprint: fingerprint(&finding),
            finding,
            reported_by: BTreeSet::new(),
            first_round: round,
            last_round: round,
            status: FindingStatus::Open,
            // `report_again` sets it, with the rest of the report.
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

    /// Records the builder's report. A dispute changes the status; a claim of a fix proves nothing.
    pub fn apply_builder_report(&mut self, round: u32, by: &str, report: &FindingReport) {
        // An unknown id of a builder is ignored. It must not create or reopen anything.
        let Some(entry) = self.find_open(&report.finding) else {
            return;
        };
        entry.note = Some(FindingNote {
            by: by.to_owned(),
            round,
            text: report.note.clone(),
        });
        // `Fixed` stays a note: the builder's word is the claim that the verifier has to test.
        if report.outcome == ReportedOutcome::Disputed {
            entry.set_status(round, FindingStatus::Disputed);
        }
    }

    /// Records a verifier's answer. Uncertain counts as confirmed. With `second`, a first answer
    /// that refutes or is uncertain waits for another verifier's answer, and the result is false.
    pub fn apply_verifier_answer(
        &mut self,
        round: u32,
        by: &str,
        answer: &VerifierAnswer,
        second: bool,
    ) -> bool {
        // The finding may be closed since, for example waived by a person while the verifier read.
        // Then the answer changes nothing.
        let Some(entry) = self.find_open(&answer.finding) else {
            return true;
        };
        entry.note = Some(FindingNote {
            by: by.to_owned(),
            round,
            text: answer.evidence.clone(),
        });
        // The first answer is taken out: the pair is decided now, and a later round begins with a
        // first one again.
        let outcome = match entry.opinion.take() {
            Some(first) => combine_outcomes(first, answer.outcome),
            // A refutation closes a must-fix finding, so it is worth a second run. A confirmation
            // is not: the builder has to look in any case.
            None if second && leaves_doubt(answer.outcome) => {
                entry.opinion = Some(answer.outcome);
                return false;
            }
            None => answer.outcome,
        };
        match outcome {
            AnswerOutcome::Fixed => entry.set_status(round, FindingStatus::Fixed),
            AnswerOutcome::Refuted => entry.set_status(round, FindingStatus::Refuted),
            // Not sure counts as confirmed. A wrong finding costs one rework; a defect that is
            // waved through lands.
            AnswerOutcome::Confirmed | AnswerOutcome::Uncertain => {
                entry.last_round = round;
                // Reopened is kept, because it decides that a person looks at the loop.
                if entry.status != FindingStatus::Reopened {
                    entry.set_status(round, FindingStatus::Open);
                }
            }
        }
        true
    }

    /// Waives a finding in a person's name. Returns false if the finding is not open.
    pub fn waive(&mut self, round: u32, by: &str, id: &str, why: &str) -> bool {
        // A waiver of a closed finding is refused, so that nobody reads it as the reason why it is
        // closed.
        let Some(entry) = self.find_open(id) else {
            return false;
        };
        entry.note = Some(FindingNote {
            by: by.to_owned(),
            round,
            text: why.to_owned(),
        });
        entry.set_status(round, FindingStatus::Waived);
        true
    }

    /// Opens closed findings that a person reports again: a person's word stands above a
    /// verifier's, and takes an earlier waiver back.
    pub fn reopen(&mut self, round: u32, ids: &BTreeSet<String>) {
        for entry in &mut self.entries {
            if ids.contains(&entry.id) && !entry.status.is_open() {
                entry.set_status(round, FindingStatus::Open);
            }
        }
    }

    /// Marks open findings that no reviewer repeated in this round. It runs before the verdict.
    pub fn end_round(&mut self, round: u32) {
        for entry in &mut self.entries {
            // Only plain open ones. A disputed or reopened finding has a reason of its own, which
            // this mark would hide.
            if entry.status == FindingStatus::Open && entry.last_round < round {
                entry.set_status(round, FindingStatus::NotRepeated);
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

/// Combines the answers of two verifiers. A certain answer beats an uncertain one; if they
/// contradict each other, the finding is confirmed.
fn combine_outcomes(first: AnswerOutcome, second: AnswerOutcome) -> AnswerOutcome {
    match (first, second) {
        (AnswerOutcome::Uncertain, second) => second,
        (first, AnswerOutcome::Uncertain) => first,
        (first, second) if first == second => first,
        // One confirms and one refutes. The safe side is the open one.
        (_, _) => AnswerOutcome::Confirmed,
    }
}

fn is_untouched(finding: &Finding, touched: &LineMap) -> bool {
    match (&finding.file, finding.line) {
        // A finding without a line may be about anything in the file, so it counts as touched.
        (Some(file), Some(line)) => !touched.wrote_lines(file, line, finding.end_line),
        (Some(_) | None, _) => false,
    }
}

impl LedgerEntry {
    /// Records one report of this finding, first or repeated.
    fn report_again(
        &mut self,
        round: u32,
        reviewer: &str,
        one: &IncomingFinding<'_>,
        untouched: bool,
    ) {
        self.reported_by.insert(reviewer.to_owned());
        self.last_round = round;
        // A blocking report stays blocking, whatever a later reviewer thinks of it.
        self.blocking |= one.blocking;
        // Touched once is touched: the line map of a later commit may no longer show it.
        self.untouched &= untouched;
        // A report of low confidence neither rewords a finding nor makes it more severe.
        if self.low_confidence || !one.low_confidence {
            self.merge_finding(one.finding);
        }
        match self.status {
            // Both answers are about the same commit, and the reviewer showed a place. The
            // contradiction stays open.
            // A verifier calls it fixed and a reviewer reports it, on the same commit: it is open.
            FindingStatus::Fixed if self.fixed_in(round) => {
                self.set_status(round, FindingStatus::Open);
            }
            FindingStatus::Fixed => self.set_status(round, FindingStatus::Reopened),
            // It was refuted on another commit, so it has to be verified again.
            FindingStatus::Refuted if !self.refuted_in(round) => {
                self.set_status(round, FindingStatus::Open);
            }
            FindingStatus::NotRepeated => self.set_status(round, FindingStatus::Open),
            FindingStatus::Open
            | FindingStatus::Reopened
            | FindingStatus::Disputed
            | FindingStatus::Refuted
            | FindingStatus::Waived
            | FindingStatus::Duplicate => {}
        }
    }

    /// Takes the newest text, but keeps the higher severity: a must-fix finding is not closed by a
    /// milder rating.
    fn merge_finding(&mut self, finding: &Finding) {
        // Praise on the same lines must not replace the text of a defect.
        if !finding.actionable {
            return;
        }
        let earlier = &self.finding;
        // The worst severity orders first.
        let was_graver = earlier.actionable && earlier.rating.severity < finding.rating.severity;
        // A repetition without a line keeps the known place.
        let lines = if finding.line.is_some() {
            finding
        } else {
            earlier
        };
        let (line, end_line) = (lines.line, lines.end_line);
        self.finding = Finding {
            rating: if was_graver {
                &earlier.rating
            } else {
                &finding.rating
            }
            .clone(),
            file: finding.file.clone().or_else(|| earlier.file.clone()),
            line,
            end_line,
            ..finding.clone()
        };
    }

    fn fixed_in(&self, round: u32) -> bool {
        self.last_changed_to(round, FindingStatus::Fixed)
    }

    fn refuted_in(&self, round: u32) -> bool {
        self.last_changed_to(round, FindingStatus::Refuted)
    }

    fn last_changed_to(&self, round: u32, status: FindingStatus) -> bool {
        let last = self.history.last();
        last.is_some_and(|turn| turn.round == round && turn.status == status)
    }
}
