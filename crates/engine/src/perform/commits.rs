//! Checks of the house's own on the commits themselves: their objects, what is secret in them, and what
//! their texts hide. They run whether or not the project has checks.

use std::time::Instant;

use flow::ticket::{CheckOutcome, CheckResult};

use super::{Held, Trouble, agents};
use crate::git::{Error, Oid, Scanned};

pub async fn check(held: &Held<'_>, base: &Oid, head: &Oid) -> Result<Vec<CheckResult>, Trouble> {
    let mut results = Vec::new();
    let began = Instant::now();
    let red = |name: &str, tail: String| CheckResult {
        name: name.to_owned(),
        outcome: CheckOutcome::Failed,
        tail,
        wall_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
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
                "These commits have characters in their message or names that are not shown or turn the text around; write them anew without: {}",
                scanned.hidden.join(", ")
            ),
        ));
    }
    Ok(results)
}

/// Looks through the commits for secrets, and for what agents were lent.
pub async fn scan(held: &Held<'_>, base: &Oid, head: &Oid) -> Result<Scanned, Trouble> {
    let lent = agents::lent(held)?;
    let git = &held.shop.git;
    Ok(git.scan((base, head), &lent, &held.dir()).await?)
}
