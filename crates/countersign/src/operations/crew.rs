//! Who works on the project: a builder, reviewers in their seats, a verifier, and who stands in for
//! each. Somebody who is not there is replaced before the start where the policy names another.

use std::path::Path;

use engine::workshop::{Crew, Member};
use flow::Role;

use super::agents::{Finder, forms};
use crate::failure::Failure;
use crate::settings::Surroundings;
use crate::settings::file::{self, Project as Written};

/// Finds everybody that is named. What changes by who is missing is said in the remarks.
pub async fn crew(
    written: &mut Written,
    surroundings: &Surroundings,
    directory: &Path,
    remarks: &mut Vec<String>,
) -> Result<Crew, Failure> {
    let names = Names::of(written)?;
    let said = written.clone();
    let finder = Finder {
        written: &said,
        surroundings,
        directory,
    };
    let mut others = fallbacks(&finder, written, remarks).await;
    let problem = written
        .policy
        .nobody_left_to_judge(&names.reviewer, &names.verifier);
    if let Some(problem) = problem {
        return Err(Failure::usage(problem).hint("docs/policy.md, [policy.fallback]"));
    }
    let fallback = &written.policy.fallback;
    let mut found = Found {
        finder: &finder,
        builder: &names.builder,
        remarks,
    };
    let builder = found
        .usual(&names.builder, Role::Builder, fallback.build.as_deref())
        .await?;
    let reviewer = found
        .usual(&names.reviewer, Role::Reviewer, fallback.review.as_deref())
        .await?;
    let verifier = found
        .usual(&names.verifier, Role::Verifier, fallback.verify.as_deref())
        .await?;
    let general = fallback.review.clone();
    for seat in &mut written.policy.reviewers {
        let Some(agent) = seat.agent.clone() else {
            continue;
        };
        let stand_in = seat.fallback.clone().or_else(|| general.clone());
        let member = found
            .usual(&agent, Role::Reviewer, stand_in.as_deref())
            .await?;
        seat.agent = Some(member.written.clone());
        others.push((Role::Reviewer, member));
    }
    let mut crew = Crew {
        builder,
        reviewer,
        verifier,
        others: Vec::new(),
    };
    for (role, member) in others {
        join(&mut crew, role, member);
    }
    Ok(crew)
}

/// Those who sit in the policy's seats, and nobody to build: for a change that is only looked at.
pub async fn judges(
    written: &Written,
    surroundings: &Surroundings,
    directory: &Path,
) -> Result<Crew, Failure> {
    let finder = Finder {
        written,
        surroundings,
        directory,
    };
    let mut members = Vec::new();
    for name in written
        .policy
        .reviewers
        .iter()
        .filter_map(|seat| seat.agent.as_ref())
    {
        members.push(finder.member(name, "reviewer").await?);
    }
    let first = members.first().cloned().unwrap_or_else(Member::nobody);
    let verifier = match &written.verifier {
        Some(name) if !members.is_empty() => finder.member(name, "verifier").await?,
        Some(_) | None => first.clone(),
    };
    let mut crew = Crew {
        builder: Member::nobody(),
        reviewer: first,
        verifier,
        others: Vec::new(),
    };
    for member in members {
        join(&mut crew, Role::Reviewer, member);
    }
    Ok(crew)
}

/// Who has each role, as written.
struct Names {
    builder: String,
    reviewer: String,
    verifier: String,
}

impl Names {
    fn of(written: &Written) -> Result<Self, Failure> {
        let in_a_seat = || {
            let mut seats = written.policy.reviewers.iter();
            seats.find_map(|seat| seat.agent.as_ref())
        };
        let reviewer = written.reviewers.first().or_else(in_a_seat);
        let reviewer = named(reviewer, "reviewer")?;
        Ok(Self {
            builder: named(written.builder.as_ref(), "builder")?,
            verifier: written.verifier.clone().unwrap_or_else(|| reviewer.clone()),
            reviewer,
        })
    }
}

pub fn named(name: Option<&String>, role: &str) -> Result<String, Failure> {
    name.cloned().ok_or_else(|| {
        Failure::usage(format!("no {role} is named"))
            .hint(format!(
                "say who with --{role} AGENT, or `{role} = \"…\"` in {}",
                file::NAME
            ))
            .hint(forms())
    })
}

/// Those who stand in. One that is not there is left out, and said so: it would help nobody.
async fn fallbacks(
    finder: &Finder<'_>,
    written: &mut Written,
    remarks: &mut Vec<String>,
) -> Vec<(Role, Member)> {
    let policy = &mut written.policy;
    let seats = policy.reviewers.iter_mut();
    let seats = seats.map(|seat| (Role::Reviewer, &mut seat.fallback));
    let roles = [
        (Role::Builder, &mut policy.fallback.build),
        (Role::Reviewer, &mut policy.fallback.review),
        (Role::Verifier, &mut policy.fallback.verify),
    ];
    let mut found = Vec::new();
    for (role, place) in roles.into_iter().chain(seats) {
        let Some(name) = place.clone() else { continue };
        match finder.member(&name, role.word()).await {
            Ok(member) => found.push((role, member)),
            Err(failure) => {
                remarks.push(format!("nobody stands in: {}", failure.message));
                *place = None;
            }
        }
    }
    found
}

/// Finding those who have the roles.
struct Found<'a> {
    finder: &'a Finder<'a>,
    builder: &'a str,
    remarks: &'a mut Vec<String>,
}

impl Found<'_> {
    /// Whoever is named; where that one is not there, who stands in for it, unless that is who
    /// builds what it would judge.
    async fn usual(
        &mut self,
        name: &str,
        role: Role,
        stand_in: Option<&str>,
    ) -> Result<Member, Failure> {
        let failure = match self.finder.member(name, role.word()).await {
            Ok(member) => return Ok(member),
            Err(failure) => failure,
        };
        let may = |other: &&str| role == Role::Builder || *other != self.builder;
        let Some(other) = stand_in.filter(may) else {
            return Err(failure);
        };
        let member = self.finder.member(other, role.word()).await?;
        self.remarks
            .push(format!("{}; {other} stands in", failure.message));
        Ok(member)
    }
}

/// One more in a role, under a name that nobody else has in it.
fn join(crew: &mut Crew, role: Role, mut member: Member) {
    if crew.who(role, Some(&member.written)).is_some() {
        return;
    }
    let name = member.name.trim_end_matches(')').to_owned();
    for number in 2..100 {
        if crew.who(role, Some(&member.name)).is_none() {
            break;
        }
        member.name = format!("{name} {number})");
    }
    crew.others.push((role, member));
}
