//! Verifies single findings with an agent that neither reported them nor built the change.

use flow::EventKind;
use flow::brief::Recipient;
use flow::event::{AnswerOutcome, VerifierAnswer};

use super::review::run_judge;
use super::{JobContext, JobError, JobOutput, agent_run};
use crate::agent::AgentRole;
use crate::agent::answer::{self, VerificationOutcome};

/// Runs a verify job.
pub async fn verify(
    context: &JobContext<'_>,
    commit: &str,
    ids: &[String],
) -> Result<JobOutput, JobError> {
    let project = context.project;
    let rules = &project.config.rules;
    let brief = flow::brief::for_verifier(context.ticket, ids, rules, Recipient::Spawned);
    let limit = project.config.policy.limits.verify_secs;
    let watched = run_judge(
        context,
        commit,
        context.agent()?,
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
    let verification = match answer::parse_verifier_answers(&text) {
        Ok(verification) => verification,
        Err(why) => {
            // It quotes the agent, which knows its credentials.
            let why = agent_run::credentials_redactor(context)?.redact_text(why);
            return Err(JobError {
                usage: watched.run.usage,
                ..JobError::transient(why)
            });
        }
    };
    let answers = verification
        .answers
        .into_iter()
        .map(to_verifier_answer)
        .collect();
    let what = EventKind::Verified {
        lease: context.lease,
        commit: commit.to_owned(),
        answers,
        usage: watched.run.usage,
    };
    Ok(JobOutput {
        what,
        artefacts: watched.run.artefacts,
    })
}

fn to_verifier_answer(answer: answer::VerifiedFinding) -> VerifierAnswer {
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
