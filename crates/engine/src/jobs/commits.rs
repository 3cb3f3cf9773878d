//! Countersign's own checks on the commits: their objects, secrets in them, and hidden characters
//! in their texts. They run even if the project has no checks.

use flow::ticket::{CheckOutcome, CheckResult};

use super::{JobContext, JobError, agent_run};
use crate::git::{Error, Oid, Scanned, Search};

pub async fn check(
    context: &JobContext<'_>,
    base: &Oid,
    head: &Oid,
) -> Result<Vec<CheckResult>, JobError> {
    let mut results = Vec::new();
    let red = |name: &str, tail: String| CheckResult {
        name: name.to_owned(),
        outcome: CheckOutcome::Failed,
        tail: findings::clean(&tail),
        wall_ms: 0,
    };
    let sound = context
        .project
        .git
        .must_be_sound(base, head, &context.run_dir())
        .await;
    match sound {
        Ok(()) => {}
        Err(error @ Error::Unsound { .. }) => results.push(red("objects", error.to_string())),
        Err(error) => return Err(error.into()),
    }
    let scanned = scan(context, base, head).await?;
    let mut lines: Vec<String> = scanned
        .secrets
        .iter()
        .map(|secret| format!("{}: looks like a {}", secret.place, secret.kind))
        .collect();
    lines.dedup();
    if !lines.is_empty() {
        let first = "Remove these from the change and from its commits:";
        lines.insert(0, first.to_owned());
    }
    let unread = scanned
        .unread
        .map(|why| format!("The scan is incomplete: {why}"));
    lines.extend(unread);
    if !lines.is_empty() {
        results.push(red("secrets", lines.join("\n")));
    }
    if !scanned.hidden.is_empty() {
        results.push(red(
            "commit text",
            format!(
                "These commits have characters in their message or names that are invisible or reverse the text; rewrite these commits without them: {}",
                scanned.hidden.join(", ")
            ),
        ));
    }
    Ok(results)
}

/// Scans the commits for secrets and for the credentials of agents.
pub async fn scan(context: &JobContext<'_>, base: &Oid, head: &Oid) -> Result<Scanned, JobError> {
    let search = Search {
        credentials: agent_run::credentials_redactor(context)?,
        is_hidden: is_deceptive,
    };
    let git = &context.project.git;
    Ok(git.scan((base, head), &search, &context.run_dir()).await?)
}

/// Returns whether a character can deceive a reader. Other scripts and emoji need joiners; a
/// character that steers a terminal or reverses text has no place in a commit.
pub fn is_deceptive(c: char) -> bool {
    let joins = matches!(
        c,
        '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
    );
    findings::is_hidden(c) && c != '\r' && !joins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_needs_is_not_deceptive() {
        let hides = |text: &str| text.contains(is_deceptive);
        for text in [
            "fix \u{1b}[2K",
            "\u{202e}txt.exe",
            "fix\u{200b}",
            "\u{7}",
            "\u{2066}",
            "\u{9b}31m",
        ] {
            assert!(hides(text), "{text:?}");
        }
        let emoji = "f\u{fc}r \u{1f469}\u{200d}\u{1f4bb} \u{645}\u{6cc}\u{200c}\u{62e}\u{fe0f}";
        for text in [emoji, "plain\n\n\tbody\r\n"] {
            assert!(!hides(text), "{text:?}");
        }
    }
}
