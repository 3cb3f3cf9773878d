//! Ways to run the loop: ours, and common ones of other tools.

use findings::Severity;
use flow::Policy;
use flow::policy::{Gates, MinorOnly, VerifyNewFindings, Votes};

/// A policy, and the behaviour around it that a policy does not cover.
#[derive(Clone, Debug)]
pub struct Way {
    pub name: &'static str,
    pub policy: Policy,
    /// The verifier calls everything fixed and costs nothing, as in loops without verification.
    pub nods: bool,
    /// A reviewer asks for changes as long as it has any finding.
    pub zero: bool,
    /// Outcome of an escalation.
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A person takes over, repairs the defects they find and resubmits. The second time they
    /// accept.
    Person,
    /// The change lands as it is.
    Land,
    /// The loop continues up to this many rounds; then the change lands.
    GoOn(u32),
}

/// Limit for loops without one of their own. 27 rounds were observed in practice.
const ROUNDS_WITHOUT_BOUND: u32 = 25;

impl Way {
    pub fn all() -> Vec<Self> {
        vec![
            Self::ours("ours, standard"),
            Self::preset("ours, preset `second-look`", "second-look"),
            Self::preset("ours, preset `careful`", "careful"),
            Self::first_approve(),
            Self::three_rounds(),
            Self::zero_findings(),
        ]
    }

    /// Returns the default policy, with a verifier.
    fn ours(name: &'static str) -> Self {
        let policy = Policy {
            verify: VerifyNewFindings::MustFix,
            ..Policy::default()
        };
        Self {
            name,
            policy,
            nods: false,
            zero: false,
            end: End::Person,
        }
    }

    fn preset(name: &'static str, preset: &str) -> Self {
        let mut way = Self::ours(name);
        way.policy = Policy::preset(preset).unwrap_or_default();
        way
    }

    fn trusting(name: &'static str, end: End) -> Self {
        let policy = Policy {
            verify: VerifyNewFindings::Never,
            minor_only: MinorOnly::Rework,
            gates: Gates {
                no_open_must_fix: false,
                no_blocking_issue: false,
                ..Gates::default()
            },
            max_rounds: 5,
            ..Policy::default()
        };
        Self {
            name,
            policy,
            nods: true,
            zero: false,
            end,
        }
    }

    fn first_approve() -> Self {
        Self::trusting("stop at the first approve", End::GoOn(ROUNDS_WITHOUT_BOUND))
    }

    /// Always runs three rounds: it requires one vote more than there are reviewers, so that no
    /// approval ends it early.
    fn three_rounds() -> Self {
        let mut way = Self::trusting("fixed three rounds", End::Land);
        way.policy.max_rounds = 3;
        way.policy.votes = Votes::Quorum(2);
        way
    }

    fn zero_findings() -> Self {
        let mut way = Self::trusting("until zero findings", End::GoOn(ROUNDS_WITHOUT_BOUND));
        way.policy.must_fix = vec![
            Severity::Critical,
            Severity::High,
            Severity::Medium,
            Severity::Low,
            Severity::Suggestion,
        ];
        way.policy.gates.no_open_must_fix = true;
        way.zero = true;
        way
    }
}
