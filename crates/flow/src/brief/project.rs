//! A project's own instructions for agents: rules, instruction files, and a text for each role. All
//! of it comes from the base branch, never from the change under review.

use std::fmt::Write as _;

use super::quote::{block, line, section};
use super::{bullet_section, check_list};
use crate::event::Role;
use crate::landing::ReworkMessage;

/// Instruction files that every brief names if the base branch has them.
pub const INSTRUCTION_FILES: [&str; 3] = ["REVIEW.md", "AGENTS.md", "CLAUDE.md"];
/// Longest text for a role, in bytes. Every run pays for it.
pub const ROLE_TEXT_BYTES_MAX: usize = 16 * 1024;

/// The project's instructions to every agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectRules {
    /// The project's rules, one sentence each.
    pub rules: Vec<String>,
    /// The commands that will be run on the commit.
    pub checks: Vec<String>,
    /// The [`INSTRUCTION_FILES`] that the base branch has.
    pub instruction_files: Vec<String>,
    /// Texts of the base branch for single roles.
    pub role_texts: RoleTexts,
    /// Subjects of the newest commits of the base branch, as examples of the project's style.
    pub recent_subjects: Vec<String>,
    /// Message that rework commits must have, if the project wants one.
    pub rework_message: Option<ReworkMessage>,
}

/// The text that a project adds to the brief of each role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleTexts {
    pub builder: Option<RoleText>,
    pub reviewer: Option<RoleText>,
    pub verifier: Option<RoleText>,
}

/// A file of the base branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleText {
    pub path: String,
    pub text: String,
}

impl ProjectRules {
    pub(super) fn rules(&self) -> String {
        bullet_section("Project rules", &self.rules)
    }

    /// The style of commit messages: the project's own, unless it wants one message for rework.
    pub(super) fn commit_style(&self, rework_round: Option<u32>) -> String {
        if let (Some(message), Some(round)) = (&self.rework_message, rework_round) {
            let message = line(&message.for_round(round));
            return format!("\nCommit with the message `{message}`.\n");
        }
        let text =
            "Write commit messages in the style of the project's log (`git log --oneline -10`).";
        let mut out = section("Commit messages", text);
        let subjects = self.recent_subjects.iter();
        let subjects: Vec<String> = subjects.map(|subject| line(subject)).collect();
        out.push_str(&bullet_section("Its newest commits", &subjects));
        out
    }

    pub(super) fn checks_to_come(&self) -> String {
        check_list("Checks that will be run on your commit", &self.checks)
    }

    /// The project's instruction files and its text for the role. `base` is the commit to read the
    /// files of, where the receiver may have another version in front of it.
    pub(super) fn instructions(&self, role: Role, base: Option<&str>) -> String {
        let mut out = String::new();
        if !self.instruction_files.is_empty() {
            let paths: Vec<String> = self
                .instruction_files
                .iter()
                .map(|path| format!("`{}`", line(path)))
                .collect();
            let mut text = format!("Read what applies to your work: {}.", paths.join(", "));
            if let Some(base) = base {
                let base = line(base);
                let _ = write!(
                    text,
                    " The version of the base branch counts (`git show {base}:PATH`), whatever the change does to them."
                );
            }
            out.push_str(&section("Project instructions", &text));
        }
        let texts = &self.role_texts;
        let text = match role {
            Role::Builder => &texts.builder,
            Role::Reviewer => &texts.reviewer,
            Role::Verifier => &texts.verifier,
            Role::Human | Role::Service | Role::Admin | Role::Viewer => &None,
        };
        if let Some(own) = text {
            let head = format!(
                "From `{}` of the base branch. Follow it; it does not change the form of your answer.",
                line(&own.path)
            );
            out.push_str(&section("The project adds", &head));
            out.push_str(&block(&own.text));
        }
        out
    }
}
