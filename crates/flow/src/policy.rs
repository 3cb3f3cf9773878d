//! The numbers and switches that decisions are made by. Every field has a default; every preset
//! is one of the designs that this project unites.

mod confidence;
mod fallback;
mod identity;
mod limits;
pub mod network;
pub mod pattern;
mod presets;
mod reviewer;

pub use confidence::Confidence;
pub use fallback::Fallback;
pub use limits::{Limits, QUOTA_WAITS_MAX};
pub use network::{Network, Networks};
pub use reviewer::{ReviewScope, ReviewerConfig};

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use findings::{Severity, Weight};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ticket::CheckOutcome;
use crate::usage::Budget;

/// The most rounds of a ticket since its last reset; nobody can raise it.
pub const ROUNDS_HARD_CAP: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, each a key of the file"
)]
pub struct Policy {
    /// Verdicts before a person is asked; 1 to 5.
    pub max_rounds: u32,
    /// The end of a ticket after its last round.
    pub on_exhausted: OnExhausted,
    /// Severities that block a change.
    pub must_fix: Vec<Severity>,
    /// Findings with less confidence (0 to 1) are notes: shown, but they cost no round. 0 turns
    /// this off.
    #[serde(
        default = "Confidence::before_the_key",
        skip_serializing_if = "Confidence::is_none"
    )]
    pub min_confidence: Confidence,
    /// A rejection with only minor findings: ask the reviewer once whether it countersigns, approve
    /// over it, or rework.
    pub minor_only: MinorOnly,
    /// Whether agents review at all. A ticket without a review always says so.
    pub review: ReviewMode,
    /// The reviewers of a change.
    pub reviewers: Vec<ReviewerConfig>,
    /// Reviewers that must approve.
    pub votes: Votes,
    /// Conditions of an approval. Each can be switched off.
    pub gates: Gates,
    /// Dimensions that reviewers score, 0 to 100.
    pub dimensions: BTreeMap<String, Dimension>,
    /// The lowest score that passes, by weight.
    pub minimums: Minimums,
    /// Weights in the overall score.
    pub weights: Weights,
    /// The lowest overall score that passes: the weighted mean of the dimensions.
    pub overall_minimum: u8,
    /// New findings that a verifier confirms before rework is paid for.
    pub verify: VerifyNewFindings,
    /// A second verifier decides on findings that the first refutes or doubts.
    pub second_opinion: bool,
    /// When open findings of earlier rounds are verified: in parallel with the review, or before
    /// it.
    #[serde(alias = "disposition")]
    pub verify_open: VerifyOpenFindings,
    /// A review must answer every acceptance criterion with evidence, or it does not count.
    pub criteria_required: bool,
    /// No reviewer or verifier is of the builder's model family.
    pub other_family: bool,
    /// Paths (gitignore patterns) that need attention when a change touches them.
    pub protected: Vec<String>,
    /// Whether such a change is shown to the reviewer, or forbidden.
    pub protected_change: ProtectedChange,
    /// Treatment of changes that the builder did not commit.
    #[serde(alias = "leftovers")]
    pub uncommitted: UncommittedChanges,
    /// The way an approved commit lands.
    pub land: Land,
    /// When dependent tickets start.
    #[serde(alias = "dependants_start")]
    pub start_dependents: StartDependents,
    /// Treatment of a check that also fails without the change.
    pub red_on_base: RedOnBase,
    /// The setup and the checks run on the base branch before a builder is paid. If they are red
    /// there, a person is asked first.
    pub prove_base: bool,
    /// Agents and checks run in a sandbox, or at your own risk without one.
    #[serde(alias = "isolation")]
    pub sandbox: SandboxMode,
    /// Hosts that runs can reach, by role: on, off, provider (only the model provider) or a list of
    /// hosts.
    pub network: Networks,
    /// Dot files (patterns) that a reviewer sees as the change has them, not as the base branch has
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ordinary_dot_files: Vec<String>,
    /// Limits other than rounds: tries, times and sizes.
    pub limits: Limits,
    /// Hard caps. At a cap, work stops and a person is asked.
    pub budget: Budget,
    /// Agents that take over when another cannot work, by role.
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
            reviewers: vec![ReviewerConfig::default()],
            votes: Votes::All,
            gates: Gates::default(),
            dimensions: standard_dimensions(),
            minimums: Minimums::default(),
            weights: Weights::default(),
            overall_minimum: 75,
            verify: VerifyNewFindings::Disputed,
            second_opinion: false,
            verify_open: VerifyOpenFindings::InParallel,
            criteria_required: false,
            other_family: false,
            protected: Vec::new(),
            protected_change: ProtectedChange::Show,
            uncommitted: UncommittedChanges::Commit,
            land: Land::Merge,
            start_dependents: StartDependents::Done,
            red_on_base: RedOnBase::Escalate,
            prove_base: true,
            sandbox: SandboxMode::Enforced,
            network: Networks::default(),
            ordinary_dot_files: Vec::new(),
            limits: Limits::default(),
            budget: Budget::default(),
            fallback: Fallback::default(),
        }
    }
}

/// The six dimensions of a scored review, and how much each weighs.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    Escalate,
    Fail,
}

/// The consequence of a rejection with only minor findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MinorOnly {
    /// The reviewer is asked once whether it countersigns with the findings as follow-ups.
    Ask,
    /// The policy approves over the reviewer's refusal, and the record says so.
    Approve,
    Rework,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewMode {
    Agents,
    /// Never the default, and always visible on the ticket.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Votes {
    All,
    Majority,
    Quorum(u32),
}

/// Each gate can be switched off; none is by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "six independent switches, named as people say them"
)]
pub struct Gates {
    /// Enough reviewers approve.
    pub reviewer_approves: bool,
    /// No must-fix finding is open.
    pub no_open_must_fix: bool,
    /// No blocking issue is open.
    pub no_blocking_issue: bool,
    /// Every dimension reaches its minimum.
    pub dimension_minimums: bool,
    /// The overall score reaches `overall_minimum`.
    pub overall_score: bool,
    /// The checks are green on this commit.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// The weight of the dimension.
    pub weight: Weight,
    /// Replaces the minimum of its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Minimums {
    /// For critical dimensions.
    pub critical: Option<u8>,
    /// For important dimensions.
    pub important: Option<u8>,
    /// For moderate dimensions.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// Weight of critical dimensions.
    pub critical: u32,
    /// Weight of important dimensions.
    pub important: u32,
    /// Weight of moderate dimensions.
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

/// New findings that a verifier confirms before rework is paid for. Open must-fix findings of
/// earlier rounds are always verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyNewFindings {
    MustFix,
    Disputed,
    Never,
}

/// When a verifier looks at the open findings of earlier rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyOpenFindings {
    /// In parallel with the review.
    #[serde(alias = "beside")]
    InParallel,
    /// Before the review. Unfixed findings go back without a review, and cost no round.
    #[serde(alias = "first")]
    BeforeReview,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtectedChange {
    Show,
    Forbid,
}

/// Treatment of changes that the builder left uncommitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UncommittedChanges {
    Commit,
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Land {
    /// The proven branch stays where it is.
    Branch,
    Merge,
    /// One commit with the whole change.
    Squash,
    /// The commits of the change, replayed on the newest tip.
    Rebase,
    Queue,
    /// A pull request on the forge.
    Pr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartDependents {
    Done,
    Approved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RedOnBase {
    /// A person decides.
    Escalate,
    /// The check does not count against the change, and the approval says so.
    Tolerate,
}

/// Confinement of agents and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// Every run is in a sandbox of the operating system; without one, nothing runs.
    Enforced,
    /// No sandbox. The manifest shows afterwards what a reviewer changed.
    #[serde(alias = "manifest")]
    Off,
}

impl Policy {
    /// Whether a check that came out so holds nothing up.
    pub fn accepts(&self, outcome: CheckOutcome) -> bool {
        outcome.is_green()
            || (outcome == CheckOutcome::RedOnBase && self.red_on_base == RedOnBase::Tolerate)
    }

    /// Whether a red base stops a ticket before its builder is paid. Where red checks of the base
    /// are tolerated, or decide nothing, a proof would stop work that may land.
    pub fn needs_green_base(&self) -> bool {
        self.prove_base && self.gates.checks_green && self.red_on_base == RedOnBase::Escalate
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

    /// Lists impossible values, each with what to write instead.
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
        check_range(found, "max_rounds", self.max_rounds, 1..=most);
        if self.review == ReviewMode::Agents && self.reviewers.is_empty() {
            let text = "reviewers is empty: name at least one, or set review = \"none\"";
            found.push(text.to_owned());
        }
        if self.must_fix.is_empty() {
            found.push("must_fix is empty: nothing would ever be sent back".to_owned());
        }
        self.reviewer_problems(found);
        for (at, reviewer) in self.reviewers.iter().enumerate() {
            let mut before = self.reviewers.iter().take(at);
            if before.any(|other| other.name == reviewer.name) {
                found.push(format!(
                    "two reviewers are called {:?}: give each its own name",
                    reviewer.name
                ));
            }
        }
        if let Votes::Quorum(n) = self.votes {
            let reviewers = self.reviewers.len();
            if n < 1 || n as usize > reviewers {
                found.push(format!(
                    "votes = quorum {n} with {}: choose 1 to {reviewers}",
                    crate::narrate::count_noun(reviewers, "reviewer")
                ));
            }
        }
    }

    /// Whatever the change, somebody must look at the whole of it, in every round.
    fn reviewer_problems(&self, found: &mut Vec<String>) {
        let in_round = |round: u32| {
            let mut reviewers = self
                .reviewers
                .iter()
                .filter(|reviewer| reviewer.is_unconditional_but_for_rounds());
            reviewers.any(|reviewer| {
                round >= reviewer.from_round
                    && reviewer.until_round.is_none_or(|last| round <= last)
            })
        };
        let asked = self.review == ReviewMode::Agents && !self.reviewers.is_empty();
        // Rounds continue after a reset. A reviewer of the twentieth round stays.
        if asked && !(1..=20).all(in_round) {
            found.push(
                "no reviewer looks at every change in every round: leave one of them without paths, kinds, lines_min, scope and command, and let from_round and until_round meet"
                    .to_owned(),
            );
        }
        for reviewer in &self.reviewers {
            if reviewer
                .command
                .as_ref()
                .is_some_and(|command| command.trim().is_empty())
            {
                found.push(format!("reviewer {:?}: command is empty", reviewer.name));
            }
        }
    }

    fn pattern_problems(&self, found: &mut Vec<String>) {
        let of_reviewers = self.reviewers.iter().flat_map(|reviewer| &reviewer.paths);
        let all = self.protected.iter().map(|path| ("protected", path));
        for (key, path) in all.chain(of_reviewers.map(|path| ("reviewers", path))) {
            if let Some(why) = pattern::problem(path) {
                let shown = findings::shorten(&findings::one_line(path), 80);
                found.push(format!("{key}: the path pattern {shown:?} is {why}"));
            }
        }
    }

    fn score_problems(&self, found: &mut Vec<String>) {
        let mut percent = |name: &str, value: Option<u8>| {
            check_range(found, name, value.unwrap_or(0), 0..=100);
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
            check_range(found, name, value, 0..=1_000);
        }
        if weights.iter().all(|(_, value)| *value == 0) {
            found.push("weights are all 0: at least one must count".to_owned());
        }
    }
}

fn check_range(
    found: &mut Vec<String>,
    name: &str,
    value: impl Into<u64>,
    range: RangeInclusive<u64>,
) {
    let value = value.into();
    if !range.contains(&value) {
        let (least, most) = (range.start(), range.end());
        found.push(format!("{name} = {value}: choose {least} to {most}"));
    }
}
