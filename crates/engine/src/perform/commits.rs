//! Checks of the house's own on the commits themselves: their objects, what is secret in them, and what
//! their texts hide. They run whether or not the project has checks.

use flow::ticket::{CheckOutcome, CheckResult};

use super::{JobContext, JobError, agents};
use crate::git::{Error, Oid, Scanned, Search};

pub async fn check(
    held: &JobContext<'_>,
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
    let sound = held.shop.git.must_be_sound(base, head, &held.dir()).await;
    match sound {
        Ok(()) => {}
        Err(error @ Error::Unsound { .. }) => results.push(red("objects", error.to_string())),
        Err(error) => return Err(error.into()),
    }
    let scanned = scan(held, base, head).await?;
    let mut found: Vec<String> = scanned
        .secrets
        .iter()
        .map(|secret| format!("{}: looks like a {}", secret.place, secret.kind))
        .collect();
    found.dedup();
    if !found.is_empty() {
        let first = "Take these out of the change, and out of its commits:";
        found.insert(0, first.to_owned());
    }
    let unread = scanned
        .unread
        .map(|why| format!("Not all was looked through: {why}"));
    found.extend(unread);
    if !found.is_empty() {
        results.push(red("secrets", found.join("\n")));
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

/// Looks through the commits for secrets, and for what agents were lent.
pub async fn scan(held: &JobContext<'_>, base: &Oid, head: &Oid) -> Result<Scanned, JobError> {
    let search = Search {
        lent: agents::lent(held)?,
        is_hidden: is_deceptive,
    };
    let git = &held.shop.git;
    Ok(git.scan((base, head), &search, &held.dir()).await?)
}

/// Characters of other scripts and of emoji need joiners; what steers a terminal or turns a text
/// around is for nobody's commit.
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
