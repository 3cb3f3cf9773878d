//! The text of a first `countersign.toml`: detected values as keys, and other useful keys as
//! comments, so that it can be understood without the documentation.

use std::fmt::Write as _;

use engine::agent::registry;

use super::{ConfigProposal, SETUP_NAME};
use crate::settings::file::quoted;

/// Characters of a comment line.
const LINE_MAX: usize = 98;

const HEAD: &str = "\
# How Countersign builds, checks and reviews changes to this project.
# It is read from the base branch, never from the branch under review: commit it there.
#   countersign config check    is anything wrong in here?
#   countersign config show     every value, and where it comes from
";

const POLICY: &str = "
# When a change is approved, and what happens then. The defaults are shown; remove the # to change
# one.
[policy]
# max_rounds = 3                    # verdicts before a person is asked (1 to 5)
# must_fix = [\"critical\", \"high\"]   # findings of these severities block a change
# land = \"merge\"                    # or \"squash\", \"rebase\", \"branch\", \"queue\", \"pr\"
# protected = [\".github/**\"]        # paths that reviewers must look at with extra care
# sandbox = \"enforced\"              # agents run in a sandbox, or not at all

# Hard limits: at one of them work stops and a person is asked.
# [policy.budget.ticket]
# usd = 5.00                        # dollars for one ticket
# [policy.budget.day]
# usd = 50.00                       # dollars for a day, over all tickets

# A linter as a reviewer: its output (SARIF, JSON, text) is read as findings. Reviewers in this file
# replace the default one, so the first entry is the agent.
# [[policy.reviewers]]
# name = \"reviewer\"
# [[policy.reviewers]]
# name = \"linter\"
# command = \"my-linter --format sarif\"
";

pub fn text(proposal: &ConfigProposal) -> String {
    let mut out = HEAD.to_owned();
    out.push_str(&agents(proposal));
    out.push_str(&rules());
    out.push_str(&checks(proposal));
    out.push_str(&setup(proposal));
    out.push_str(POLICY);
    out
}

fn agents(proposal: &ConfigProposal) -> String {
    let mut out = format!(
        "\n# The branch that work starts from and lands on. Detected; set it if that is wrong.\n# base = {}\n",
        quoted(&proposal.base)
    );
    let names = registry::names().join(", ");
    out.push('\n');
    out.push_str(&comment(&format!(
        "The agents that build and review: {names} (with a model: \"claude@MODEL\"), \
         \"command:PROGRAM ARGS\" for your own, \"acp:PROGRAM\". The reviewer starts fresh and sees \
         only the change; use another model than the builder's."
    )));
    for (role, agent, usual) in [
        ("builder", proposal.builder, "claude"),
        ("reviewer", proposal.reviewer, "codex"),
    ] {
        let _ = match agent {
            Some(name) => writeln!(out, "{role} = {}", quoted(name)),
            None => writeln!(
                out,
                "# {role} = {}    # none was found on this machine",
                quoted(usual)
            ),
        };
    }
    out
}

/// Wraps a text into comment lines of at most 100 characters.
fn comment(text: &str) -> String {
    let mut out = String::new();
    let mut line = "#".to_owned();
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > LINE_MAX {
            let _ = writeln!(out, "{line}");
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
    out
}

fn rules() -> String {
    "\n# Rules for every agent, one sentence each.\nrules = [\n    # \"Public functions have a test.\",\n]\n"
        .to_owned()
}

fn checks(proposal: &ConfigProposal) -> String {
    let mut out =
        "\n# Commands that must succeed on the exact commit before it is reviewed.\n[checks]\n"
            .to_owned();
    for (name, command) in &proposal.detected.checks {
        let line = format!("{name} = {}\n", quoted(command));
        out.push_str(&unless_red(proposal, name, &line));
    }
    if proposal.detected.checks.is_empty() {
        out.push_str("# test = \"make test\"                # no test command was found\n");
    }
    out.push_str("# slow = { run = \"make integration\", timeout_secs = 1800, parallel = true }\n");
    out
}

fn setup(proposal: &ConfigProposal) -> String {
    let detected = &proposal.detected;
    let mut out =
        "\n# Prepares a fresh checkout: a command, and directories to keep between runs.\n"
            .to_owned();
    if detected.setup.is_none() && detected.caches.is_empty() {
        out.push_str("# [setup]\n# run = \"npm ci\"\n# caches = [\"node_modules\"]\n");
        return out;
    }
    let mut section = "[setup]\n".to_owned();
    if let Some(run) = &detected.setup {
        let _ = writeln!(section, "run = {}", quoted(run));
    }
    let caches: Vec<String> = detected.caches.iter().map(|cache| quoted(cache)).collect();
    let _ = writeln!(section, "caches = [{}]", caches.join(", "));
    out.push_str(&unless_red(proposal, SETUP_NAME, &section));
    out
}

/// Returns the lines of a setup or a check, as comments if it did not work on the base.
fn unless_red(proposal: &ConfigProposal, name: &str, lines: &str) -> String {
    let Some(proof) = &proposal.proof else {
        return lines.to_owned();
    };
    let why = match proof.line(name) {
        Some(line) if line.green => return lines.to_owned(),
        Some(line) => {
            let fix = match line.hint.as_str() {
                "" => String::new(),
                hint => format!(" Likely fix: {hint}."),
            };
            format!("Red on {} when init ran it.{fix}", proposal.base)
        }
        // A green setup has no line of its own.
        None if name == SETUP_NAME => return lines.to_owned(),
        None => "Not tried, because the setup is red.".to_owned(),
    };
    let mut out = comment(&why);
    for line in lines.lines() {
        let _ = writeln!(out, "# {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config_problems;
    use crate::settings::detect::DetectedProject;

    fn proposal(detected: DetectedProject) -> ConfigProposal {
        ConfigProposal {
            file: "countersign.toml".into(),
            base: "main".to_owned(),
            detected,
            agents: Vec::new(),
            builder: None,
            reviewer: None,
            proof: None,
            text: String::new(),
        }
    }

    /// Turns every commented key into a real one.
    fn awake(text: &str) -> String {
        let awake = |line: &str| {
            let rest = line.trim_start().strip_prefix("# ")?;
            let word = rest.split([' ', '=']).next()?;
            let key = word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let named = key && rest[word.len()..].trim_start().starts_with('=');
            (named || rest.starts_with('[') || rest.starts_with('"')).then(|| rest.to_owned())
        };
        let lines = text.lines();
        let lines = lines.map(|line| awake(line).unwrap_or_else(|| line.to_owned()));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_shown_as_a_comment_could_be_written_too() {
        let node = DetectedProject {
            checks: vec![("test".to_owned(), "say \"hi\" 'x'".to_owned())],
            setup: Some("npm ci".to_owned()),
            caches: vec!["node_modules".to_owned()],
            ..DetectedProject::default()
        };
        for detected in [DetectedProject::default(), node] {
            let text = text(&proposal(detected));
            assert_eq!(config_problems::find_problems(&text), [], "{text}");
            let long = text.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None);
            let awake = awake(&text);
            assert!(awake.contains("\nmax_rounds = 3"), "{awake}");
            assert_eq!(config_problems::find_problems(&awake), [], "{awake}");
        }
    }
}
