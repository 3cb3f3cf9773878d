//! The numbers and switches that decisions are made by. Every field has a default; every preset
//! is one of the designs that this project unites.

mod confidence;
mod fallback;
mod limits;
pub mod network;
pub mod pattern;
mod seat;

pub use confidence::Confidence;
pub use fallback::Fallback;
pub use limits::Limits;
pub use network::{Network, Networks};
pub use seat::{ReviewScope, SeatSpec};

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use findings::{Severity, Weight};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ticket::CheckOutcome;
use crate::usage::Budget;

/// No ticket has more rounds than this since its last reset, whoever asks.
pub const ROUNDS_HARD_CAP: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub max_rounds: u32,
    pub on_exhausted: OnExhausted,
    pub must_fix: Vec<Severity>,
    /// Findings of less confidence are notes: they hold nothing up and cost no round.
    #[serde(
        default = "Confidence::before_the_key",
        skip_serializing_if = "Confidence::is_none"
    )]
    pub min_confidence: Confidence,
    pub minor_only: MinorOnly,
    pub review: ReviewMode,
    /// One seat a reviewer.
    pub reviewers: Vec<SeatSpec>,
    pub votes: Votes,
    pub gates: Gates,
    pub dimensions: BTreeMap<String, Dimension>,
    pub minimums: Minimums,
    pub weights: Weights,
    pub overall_minimum: u8,
    pub verify: VerifyNewFindings,
    /// What one verifier refutes or is not sure of is put to a second; only what both refute goes.
    pub second_opinion: bool,
    pub disposition: VerifyOpenFindings,
    /// Every acceptance criterion must be answered with evidence, or it was no review.
    pub criteria_required: bool,
    /// Nobody of the builder's model family judges.
    pub other_family: bool,
    pub protected: Vec<String>,
    pub protected_change: ProtectedChange,
    pub leftovers: UncommittedChanges,
    pub land: Land,
    pub dependants_start: StartDependents,
    pub red_on_base: RedOnBase,
    pub isolation: SandboxMode,
    pub network: Networks,
    /// Dot files (patterns) that a reviewer's checkout has as the change has them, and not as the
    /// base has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ordinary_dot_files: Vec<String>,
    pub limits: Limits,
    pub budget: Budget,
    #[serde(skip_serializing_if = "Fallback::is_empty")]
    pub fallback: Fallback,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_rounds: 3,
            on_exhausted: OnExhausted::Escalate,
            must_fix: vec![Severity::Critical, Severity::High],
            min_confidence: Confidence::STANDARD,
            minor_only: MinorOnly::Ask,
            review: ReviewMode::Agents,
            reviewers: vec![SeatSpec::default()],
            votes: Votes::All,
            gates: Gates::default(),
            dimensions: standard_dimensions(),
            minimums: Minimums::default(),
            weights: Weights::default(),
            overall_minimum: 75,
            verify: VerifyNewFindings::Disputed,
            second_opinion: false,
            disposition: VerifyOpenFindings::Beside,
            criteria_required: false,
            other_family: false,
            protected: Vec::new(),
            protected_change: ProtectedChange::Show,
            leftovers: UncommittedChanges::Commit,
            land: Land::Merge,
            dependants_start: StartDependents::Done,
            red_on_base: RedOnBase::Escalate,
            isolation: SandboxMode::Enforced,
            network: Networks::default(),
            ordinary_dot_files: Vec::new(),
            limits: Limits::default(),
            budget: Budget::default(),
            fallback: Fallback::default(),
        }
    }
}

/// For a change of some size; a few lines are seen whole by one.
fn second_look() -> SeatSpec {
    SeatSpec {
        name: "second-look".to_owned(),
        confirms: true,
        lines_min: 20,
        ..SeatSpec::default()
    }
}

fn lens(name: &str) -> SeatSpec {
    SeatSpec {
        name: name.to_owned(),
        lens: Some(name.to_owned()),
        ..SeatSpec::default()
    }
}

/// 002's six dimensions and how much each weighs.
fn standard_dimensions() -> BTreeMap<String, Dimension> {
    [
        ("requirement_adherence", Weight::Critical),
        ("coordination_compliance", Weight::Critical),
        ("code_quality", Weight::Important),
        ("pattern_consistency", Weight::Important),
        ("test_quality", Weight::Important),
        ("security_performance", Weight::Moderate),
    ]
    .into_iter()
    .map(|(name, weight)| {
        (
            name.to_owned(),
            Dimension {
                weight,
                minimum: None,
            },
        )
    })
    .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    Escalate,
    Fail,
}

/// What a rejection comes to that names only minor findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MinorOnly {
    /// The reviewer is asked once whether it countersigns with the findings as follow-ups.
    Ask,
    /// The policy approves over the reviewer's refusal, and the record says so.
    Approve,
    Rework,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewMode {
    Agents,
    /// Never the default, and always visible on the ticket.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Votes {
    All,
    Majority,
    Quorum(u32),
}

/// Each gate can be switched off; none is by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "six independent switches, named as people say them"
)]
pub struct Gates {
    pub reviewer_approves: bool,
    pub no_open_must_fix: bool,
    pub no_blocking_issue: bool,
    pub dimension_minimums: bool,
    pub overall_score: bool,
    pub checks_green: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            reviewer_approves: true,
            no_open_must_fix: true,
            no_blocking_issue: true,
            dimension_minimums: true,
            overall_score: true,
            checks_green: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    pub weight: Weight,
    /// Takes the place of the weight's own minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Minimums {
    pub critical: Option<u8>,
    pub important: Option<u8>,
    pub moderate: Option<u8>,
}

impl Default for Minimums {
    fn default() -> Self {
        Self {
            critical: Some(90),
            important: Some(70),
            moderate: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    pub critical: u32,
    pub important: u32,
    pub moderate: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            critical: 3,
            important: 2,
            moderate: 1,
        }
    }
}

/// Which new findings are put to a verifier before rework is paid for. The disposition of open
/// must-fix findings runs always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyNewFindings {
    MustFix,
    Disputed,
    Never,
}

/// When a verifier looks at what earlier rounds left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyOpenFindings {
    /// While the reviewers read.
    Beside,
    /// Before them: what was not fixed goes back without a review, and without a round.
    First,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtectedChange {
    Show,
    Forbid,
}

/// What becomes of changes that the builder left uncommitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncommittedChanges {
    Commit,
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Land {
    /// The proven branch stays where it is.
    Branch,
    Merge,
    Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartDependents {
    Done,
    Approved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedOnBase {
    /// A person decides.
    Escalate,
    /// Not held against the change, and said so in the approval.
    Tolerate,
}

/// What keeps agents from what is not their business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// The operating system; where it cannot, nothing runs.
    Enforced,
    /// Nothing: what a reviewer changed is found out afterwards.
    Manifest,
}

impl Policy {
    /// The names that [`Policy::preset`] knows.
    pub const PRESETS: [&'static str; 8] = [
        "standard",
        "second-look",
        "careful",
        "sergeant",
        "queue",
        "scored",
        "supervisor",
        "story",
    ];

    /// A named set of limits: `sergeant` is seed 000, `queue` 001, `scored` 002, `supervisor`
    /// 003 (three reworks, so four reviews), `story` 004. `careful` is our own: three pairs of
    /// eyes at once, and nothing comes or goes on one verifier's word. `second-look` is between
    /// that and the standard: what one reviewer would let through another reads before it is.
    pub fn preset(name: &str) -> Option<Self> {
        let standard = Self::default();
        Some(match name {
            "standard" | "queue" => standard,
            "second-look" => Self {
                reviewers: vec![SeatSpec::default(), second_look()],
                verify: VerifyNewFindings::MustFix,
                disposition: VerifyOpenFindings::First,
                ..standard
            },
            "careful" => Self {
                reviewers: ["correctness", "requirements", "tests"].map(lens).to_vec(),
                verify: VerifyNewFindings::MustFix,
                second_opinion: true,
                disposition: VerifyOpenFindings::First,
                ..standard
            },
            "sergeant" => Self {
                minor_only: MinorOnly::Rework,
                ..standard
            },
            "scored" => Self {
                on_exhausted: OnExhausted::Fail,
                limits: Limits {
                    review_secs: 120,
                    ..standard.limits
                },
                ..standard
            },
            "supervisor" => Self {
                max_rounds: 4,
                ..standard
            },
            "story" => Self {
                land: Land::Branch,
                ..standard
            },
            _ => return None,
        })
    }

    /// A short name made of the content: two equal policies have the same one.
    pub fn id(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text)
            .iter()
            .take(6)
            .fold(String::new(), |out, byte| format!("{out}{byte:02x}"))
    }

    /// Whether a check that came out so holds nothing up.
    pub fn accepts(&self, outcome: CheckOutcome) -> bool {
        outcome.is_green()
            || (outcome == CheckOutcome::RedOnBase && self.red_on_base == RedOnBase::Tolerate)
    }

    /// How many verdicts a ticket may have had before a person is asked.
    pub fn rounds_allowed(&self, granted: u32) -> u32 {
        self.max_rounds.saturating_add(granted).min(ROUNDS_HARD_CAP)
    }

    pub fn minimum(&self, dimension: &str, weight: Weight) -> Option<u8> {
        let own = self
            .dimensions
            .get(dimension)
            .and_then(|known| known.minimum);
        own.or(match weight {
            Weight::Critical => self.minimums.critical,
            Weight::Important => self.minimums.important,
            Weight::Moderate => self.minimums.moderate,
        })
    }

    pub fn weight_of(&self, weight: Weight) -> u32 {
        match weight {
            Weight::Critical => self.weights.critical,
            Weight::Important => self.weights.important,
            Weight::Moderate => self.weights.moderate,
        }
    }

    /// What is impossible in it, each with what to write instead.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.panel_problems(&mut found);
        self.score_problems(&mut found);
        self.limits.problems(&mut found);
        self.pattern_problems(&mut found);
        self.network.problems(&mut found);
        found
    }

    fn panel_problems(&self, found: &mut Vec<String>) {
        let most = u64::from(ROUNDS_HARD_CAP);
        within(found, "max_rounds", self.max_rounds, 1..=most);
        if self.review == ReviewMode::Agents && self.reviewers.is_empty() {
            let text = "reviewers is empty: name at least one, or set review = \"none\"";
            found.push(text.to_owned());
        }
        if self.must_fix.is_empty() {
            found.push("must_fix is empty: nothing would ever be sent back".to_owned());
        }
        self.seat_problems(found);
        for (at, seat) in self.reviewers.iter().enumerate() {
            let mut before = self.reviewers.iter().take(at);
            if before.any(|other| other.name == seat.name) {
                found.push(format!(
                    "two reviewers are called {:?}: give each its own name",
                    seat.name
                ));
            }
        }
        if let Votes::Quorum(n) = self.votes {
            let seats = self.reviewers.len();
            if n < 1 || n as usize > seats {
                found.push(format!(
                    "votes = quorum {n} with {seats} reviewer(s): choose 1 to {seats}"
                ));
            }
        }
    }

    /// Whatever the change, somebody must look at the whole of it, in every round.
    fn seat_problems(&self, found: &mut Vec<String>) {
        let in_round = |round: u32| {
            let mut seats = self.reviewers.iter().filter(|seat| seat.is_whole_agent());
            seats.any(|seat| {
                round >= seat.from_round && seat.until_round.is_none_or(|last| round <= last)
            })
        };
        let asked = self.review == ReviewMode::Agents && !self.reviewers.is_empty();
        // Rounds go on after a reset; whoever sits in the twentieth stays.
        if asked && !(1..=20).all(in_round) {
            found.push(
                "no reviewer looks at every change in every round: leave one of them without paths, kinds, lines_min, scope and command, and let from_round and until_round meet"
                    .to_owned(),
            );
        }
        for seat in &self.reviewers {
            if seat
                .command
                .as_ref()
                .is_some_and(|command| command.trim().is_empty())
            {
                found.push(format!("reviewer {:?}: command is empty", seat.name));
            }
        }
    }

    fn pattern_problems(&self, found: &mut Vec<String>) {
        let of_seats = self.reviewers.iter().flat_map(|seat| &seat.paths);
        let all = self.protected.iter().map(|path| ("protected", path));
        for (key, path) in all.chain(of_seats.map(|path| ("reviewers", path))) {
            if let Some(why) = pattern::problem(path) {
                let shown = findings::shorten(&findings::one_line(path), 80);
                found.push(format!("{key}: the path pattern {shown:?} is {why}"));
            }
        }
    }

    fn score_problems(&self, found: &mut Vec<String>) {
        let mut percent = |name: &str, value: Option<u8>| {
            within(found, name, value.unwrap_or(0), 0..=100);
        };
        percent("overall_minimum", Some(self.overall_minimum));
        percent("minimums.critical", self.minimums.critical);
        percent("minimums.important", self.minimums.important);
        percent("minimums.moderate", self.minimums.moderate);
        for (name, dimension) in &self.dimensions {
            percent(&format!("dimensions.{name}.minimum"), dimension.minimum);
        }
        let weights = [
            ("weights.critical", self.weights.critical),
            ("weights.important", self.weights.important),
            ("weights.moderate", self.weights.moderate),
        ];
        for (name, value) in weights {
            within(found, name, value, 0..=1_000);
        }
        if weights.iter().all(|(_, value)| *value == 0) {
            found.push("weights are all 0: at least one must count".to_owned());
        }
    }
}

fn within(found: &mut Vec<String>, name: &str, value: impl Into<u64>, range: RangeInclusive<u64>) {
    let value = value.into();
    if !range.contains(&value) {
        let (least, most) = (range.start(), range.end());
        found.push(format!("{name} = {value}: choose {least} to {most}"));
    }
}
