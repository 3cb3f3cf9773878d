//! The format of a script: a list of steps per role and round.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the script {} cannot be read: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the script {} is not valid: {reason}; see docs/agents.md for the format", path.display())]
    Form { path: PathBuf, reason: String },
    #[error("{0} is not set: Countersign plays scripts; `play` cannot be run by hand")]
    NoContract(&'static str),
    #[error("the script has nothing for the role {role} in round {round}, slot {slot}")]
    NothingToPlay { role: String, round: u32, slot: u32 },
    #[error("step {number} ({step}) failed: {reason}")]
    Step {
        number: usize,
        step: String,
        reason: String,
    },
}

/// A whole script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    version: u32,
    build: Option<RoleScript>,
    review: Option<RoleScript>,
    /// Steps of a reviewer that is asked for its answer in the contract's form; without them,
    /// `review`.
    review_form: Option<RoleScript>,
    /// Steps of a reviewer that is asked whether it countersigns; without them, `review`.
    review_countersign: Option<RoleScript>,
    verify: Option<RoleScript>,
}

/// Steps of one role: always the same, or per round, or per slot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleScript {
    always: Option<Vec<ScriptStep>>,
    rounds: Option<Vec<Vec<ScriptStep>>>,
    /// Whether later rounds repeat the last round's steps.
    #[serde(default = "yes")]
    repeat_last: bool,
    slots: Option<Vec<RoleScript>>,
}

fn yes() -> bool {
    true
}

/// One step of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum ScriptStep {
    Write {
        path: PathBuf,
        text: String,
    },
    /// Replaces a text once. It succeeds too if the text was already replaced.
    Replace {
        path: PathBuf,
        find: String,
        with: String,
    },
    Delete {
        path: PathBuf,
    },
    /// Runs a shell command. A failure fails the script, unless `may_fail` is set.
    Run {
        command: String,
        #[serde(default)]
        may_fail: bool,
    },
    /// Prints a line on stdout.
    Say(String),
    /// Commits everything as an agent would. It succeeds if there is nothing to commit.
    Commit {
        message: String,
    },
    WaitMs(u64),
    /// Writes the result file: a string as it is, anything else as JSON.
    Result(Value),
    Usage(Value),
    /// Exits at once.
    Exit(u8),
}

impl Script {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|reason| Error::Form {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let script: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if script.version != 1 {
            return Err(format!(
                "it has version {}, but only version 1 is supported",
                script.version
            ));
        }
        let parts = [
            ("build", &script.build),
            ("review", &script.review),
            ("review_form", &script.review_form),
            ("review_countersign", &script.review_countersign),
            ("verify", &script.verify),
        ];
        for (role, part) in parts {
            part.as_ref()
                .map_or(Ok(()), RoleScript::check)
                .map_err(|reason| format!("{role}: {reason}"))?;
        }
        Ok(script)
    }

    /// Returns the steps for a role and a question in a round, or `None` if the script has none.
    pub(super) fn steps(
        &self,
        (role, question): (&str, &str),
        round: u32,
        slot: u32,
    ) -> Option<&[ScriptStep]> {
        let part = match role {
            "build" => self.build.as_ref(),
            "review" => match question {
                "form" => self.review_form.as_ref(),
                "countersign" => self.review_countersign.as_ref(),
                _ => None,
            }
            .or(self.review.as_ref()),
            "verify" => self.verify.as_ref(),
            _ => None,
        };
        part?.steps(round, slot)
    }
}

impl RoleScript {
    fn check(&self) -> Result<(), String> {
        let given = [
            self.always.is_some(),
            self.rounds.is_some(),
            self.slots.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err("give exactly one of `always`, `rounds` and `slots`".to_owned());
        }
        if self.rounds.as_ref().is_some_and(Vec::is_empty) {
            return Err("`rounds` is empty".to_owned());
        }
        let slots = self.slots.iter().flatten();
        slots.clone().try_for_each(|part| {
            if part.slots.is_some() {
                return Err("`slots` inside `slots`".to_owned());
            }
            part.check()
        })
    }

    fn steps(&self, round: u32, slot: u32) -> Option<&[ScriptStep]> {
        if let Some(slots) = &self.slots {
            return slots.get(index(slot))?.steps(round, 1);
        }
        if let Some(steps) = &self.always {
            return Some(steps);
        }
        let rounds = self.rounds.as_ref()?;
        let last = rounds.last().filter(|_| self.repeat_last);
        rounds.get(index(round)).or(last).map(Vec::as_slice)
    }
}

/// Converts a round or slot, which count from 1, to an index.
fn index(number: u32) -> usize {
    number.saturating_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_round_repeats_unless_the_script_says_otherwise() {
        let count = |repeat: &str, round| {
            let text = format!(
                r#"{{"version": 1, "build": {{"rounds": [[], [{{"say": "x"}}]] {repeat}}}}}"#
            );
            Script::parse(&text)
                .unwrap()
                .steps(("build", "work"), round, 1)
                .map(<[ScriptStep]>::len)
        };
        assert_eq!(
            [count("", 1), count("", 2), count("", 9)],
            [Some(0), Some(1), Some(1)]
        );
        assert_eq!(count(", \"repeat_last\": false", 3), None);
    }

    #[test]
    fn slots_have_parts_of_their_own() {
        let text = r#"{"version": 1, "review": {"slots": [
            {"always": [{"say": "a"}, {"say": "b"}]}, {"always": []}]}}"#;
        let script = Script::parse(text).unwrap();
        let count = |slot| {
            script
                .steps(("review", "work"), 1, slot)
                .map(<[ScriptStep]>::len)
        };
        assert_eq!([count(1), count(2), count(3)], [Some(2), Some(0), None]);
        assert!(script.steps(("build", "work"), 1, 1).is_none());
    }

    #[test]
    fn a_script_with_a_mistake_says_where() {
        for (text, said) in [
            (r#"{"version": 2}"#, "version 2"),
            (r#"{"version": 1, "bild": {}}"#, "bild"),
            (r#"{"version": 1, "build": {}}"#, "exactly one"),
            (
                r#"{"version": 1, "build": {"always": [], "rounds": [[]]}}"#,
                "exactly one",
            ),
            (r#"{"version": 1, "build": {"rounds": []}}"#, "empty"),
            (
                r#"{"version": 1, "build": {"always": [{"wrote": {}}]}}"#,
                "wrote",
            ),
            (
                r#"{"version": 1, "build": {"always": [{"write": {"path": "x"}}]}}"#,
                "text",
            ),
            ("not json", "line 1"),
        ] {
            let error = Script::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
