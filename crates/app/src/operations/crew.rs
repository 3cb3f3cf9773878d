//! Who works on the project: a builder, reviewers in their seats, a verifier, and who stands in for
//! each. Somebody who is not there is replaced before the start where the policy names another.

use std::path::Path;

use engine::workshop::{AgentConfig, ProjectAgents};
use flow::Role;

use super::agents::{AgentFinder, forms};
use crate::failure::Failure;
use crate::settings::Environment;
use crate::settings::file::{self, ProjectSettings as Written};

/// Everybody.
pub const ALL: [Role; 3] = [Role::Builder, Role::Reviewer, Role::Verifier];

/// Finds everybody that is named for these roles. What changes by who is missing is said in the remarks.
pub async fn crew(
    written: &mut Written,
    (surroundings, directory): (&Environment, &Path),
    roles: &[Role],
    remarks: &mut Vec<String>,
) -> Result<ProjectAgents, Failure> {
    if roles.is_empty() {
        return Ok(ProjectAgents::default());
    }
    let names = RoleNames::of(written, roles)?;
    let said = written.clone();
    let finder = AgentFinder {
        written: &said,
        surroundings,
        directory,
    };
    let mut others = fallbacks(&finder, written, roles, remarks).await;
    must_leave_a_judge(written, &names)?;
    let mut found = RoleResolver {
        finder: &finder,
        builder: names.builder.as_deref().unwrap_or_default(),
        remarks,
    };
    let fallback = &written.policy.fallback;
    let mut crew = ProjectAgents {
        builder: found
            .of_role(
                Role::Builder,
                names.builder.as_deref(),
                fallback.build.as_deref(),
            )
            .await?,
        reviewer: found
            .of_role(
                Role::Reviewer,
                names.reviewer.as_deref(),
                fallback.review.as_deref(),
            )
            .await?,
        verifier: found
            .of_role(
                Role::Verifier,
                names.verifier.as_deref(),
                fallback.verify.as_deref(),
            )
            .await?,
        others: Vec::new(),
    };
    if roles.contains(&Role::Reviewer) {
        others.extend(found.seated(written).await?);
    }
    for (role, member) in others {
        join(&mut crew, role, member);
    }
    Ok(crew)
}

fn must_leave_a_judge(written: &Written, names: &RoleNames) -> Result<(), Failure> {
    let (Some(reviewer), Some(verifier)) = (&names.reviewer, &names.verifier) else {
        return Ok(());
    };
    match written.policy.nobody_left_to_judge(reviewer, verifier) {
        Some(problem) => Err(Failure::usage(problem).hint("docs/policy.md, [policy.fallback]")),
        None => Ok(()),
    }
}

/// Those who sit in the policy's seats, and nobody to build: for a change that is only looked at.
pub async fn judges(
    written: &Written,
    surroundings: &Environment,
    directory: &Path,
) -> Result<ProjectAgents, Failure> {
    let finder = AgentFinder {
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
    let first = members.first().cloned();
    let verifier = match &written.verifier {
        Some(name) if !members.is_empty() => Some(finder.member(name, "verifier").await?),
        Some(_) | None => first.clone(),
    };
    let mut crew = ProjectAgents {
        builder: None,
        reviewer: first,
        verifier,
        others: Vec::new(),
    };
    for member in members {
        join(&mut crew, Role::Reviewer, member);
    }
    Ok(crew)
}

/// Who has each role, as written; only the roles that are asked for.
struct RoleNames {
    builder: Option<String>,
    reviewer: Option<String>,
    verifier: Option<String>,
}

impl RoleNames {
    fn of(written: &Written, roles: &[Role]) -> Result<Self, Failure> {
        let in_a_seat = || {
            let mut seats = written.policy.reviewers.iter();
            seats.find_map(|seat| seat.agent.as_ref())
        };
        let reviewer = written.reviewers.first().or_else(in_a_seat);
        let who = |role: Role, name: Option<&String>, word: &str| {
            let wanted = roles.contains(&role);
            wanted.then(|| named(name, word)).transpose()
        };
        let verifier = written.verifier.as_ref().or(reviewer);
        Ok(Self {
            builder: who(Role::Builder, written.builder.as_ref(), "builder")?,
            reviewer: who(Role::Reviewer, reviewer, "reviewer")?,
            verifier: who(Role::Verifier, verifier, "reviewer")?,
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
    finder: &AgentFinder<'_>,
    written: &mut Written,
    roles_wanted: &[Role],
    remarks: &mut Vec<String>,
) -> Vec<(Role, AgentConfig)> {
    let policy = &mut written.policy;
    let seats = policy.reviewers.iter_mut();
    let seats = seats.map(|seat| (Role::Reviewer, &mut seat.fallback));
    let roles = [
        (Role::Builder, &mut policy.fallback.build),
        (Role::Reviewer, &mut policy.fallback.review),
        (Role::Verifier, &mut policy.fallback.verify),
    ];
    let mut found = Vec::new();
    let all = roles.into_iter().chain(seats);
    for (role, place) in all.filter(|(role, _)| roles_wanted.contains(role)) {
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
struct RoleResolver<'a> {
    finder: &'a AgentFinder<'a>,
    builder: &'a str,
    remarks: &'a mut Vec<String>,
}

impl RoleResolver<'_> {
    /// Nobody where nobody was asked for.
    async fn of_role(
        &mut self,
        role: Role,
        name: Option<&str>,
        stand_in: Option<&str>,
    ) -> Result<Option<AgentConfig>, Failure> {
        match name {
            Some(name) => Ok(Some(self.usual(name, role, stand_in).await?)),
            None => Ok(None),
        }
    }

    /// Those whom the policy's seats name.
    async fn seated(&mut self, written: &mut Written) -> Result<Vec<(Role, AgentConfig)>, Failure> {
        let general = written.policy.fallback.review.clone();
        let mut seated = Vec::new();
        for seat in &mut written.policy.reviewers {
            let Some(agent) = seat.agent.clone() else {
                continue;
            };
            let stand_in = seat.fallback.clone().or_else(|| general.clone());
            let member = self
                .usual(&agent, Role::Reviewer, stand_in.as_deref())
                .await?;
            seat.agent = Some(member.written.clone());
            seated.push((Role::Reviewer, member));
        }
        Ok(seated)
    }

    /// Whoever is named; where that one is not there, who stands in for it, unless that is who
    /// builds what it would judge.
    async fn usual(
        &mut self,
        name: &str,
        role: Role,
        stand_in: Option<&str>,
    ) -> Result<AgentConfig, Failure> {
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
fn join(crew: &mut ProjectAgents, role: Role, mut member: AgentConfig) {
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
