//! Verifying: somebody who reported nothing and built nothing looks at single findings.

use flow::EventKind;
use flow::brief::Recipient;
use flow::event::{AnswerOutcome, VerifierAnswer};

use super::review::watch;
use super::{JobContext, JobError, JobOutput};
use crate::agent::AgentRole;
use crate::agent::answer::{self, VerificationOutcome};

pub async fn verify(
    held: &JobContext<'_>,
    commit: &str,
    ids: &[String],
) -> Result<JobOutput, JobError> {
    let shop = held.shop;
    let house = &shop.project.house;
    let brief = flow::brief::verify(held.ticket, ids, house, Recipient::Spawned);
    let limit = shop.project.policy.limits.verify_secs;
    let watched = watch(
        held,
        commit,
        held.member()?,
        AgentRole::Verify,
        &brief,
        limit,
    )
    .await?;
    if let Some(why) = watched.tampered {
        return Err(JobError {
            usage: watched.run.usage,
            ..JobError::transient(why)
        });
    }
    let text = watched.run.result.unwrap_or_default();
    let said = answer::verified(&text).map_err(|why| JobError {
        usage: watched.run.usage,
        ..JobError::transient(why)
    })?;
    let answers = said.answers.into_iter().map(heard).collect();
    let what = EventKind::Verified {
        lease: held.lease,
        commit: commit.to_owned(),
        answers,
        usage: watched.run.usage,
    };
    Ok(JobOutput {
        what,
        artefacts: watched.run.artefacts,
    })
}

fn heard(answer: answer::VerifiedFinding) -> VerifierAnswer {
    VerifierAnswer {
        finding: answer.finding,
        outcome: match answer.outcome {
            VerificationOutcome::Fixed => AnswerOutcome::Fixed,
            VerificationOutcome::Confirmed => AnswerOutcome::Confirmed,
            VerificationOutcome::Refuted => AnswerOutcome::Refuted,
            VerificationOutcome::Uncertain => AnswerOutcome::Uncertain,
        },
        evidence: findings::clean(&answer.evidence),
    }
}
