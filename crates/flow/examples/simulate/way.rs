//! Ways to run the loop: ours, and those that one meets elsewhere.

use findings::Severity;
use flow::Policy;
use flow::policy::{Gates, MinorOnly, VerifyNewFindings, Votes};

/// A policy, and what those around it do where the policy alone does not say.
#[derive(Clone, Debug)]
pub struct Way {
    pub name: &'static str,
    pub policy: Policy,
    /// Silence is taken for a repair: the verifier nods, and costs nothing.
    pub nods: bool,
    /// A reviewer asks for changes as long as it has anything to say.
    pub zero: bool,
    /// What an escalation comes to.
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A person takes over, repairs what they see, and puts it forward; the second time they accept.
    Person,
    /// It lands as it is.
    Land,
    /// The loop goes on, up to so many rounds; then it lands.
    GoOn(u32),
}

/// Loops that have no bound of their own are ended here; 27 rounds have been seen in the wild.
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

    /// The default policy, with a verifier at hand.
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

    /// Nobody's word ends it early: one vote more is wanted than there are seats.
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
