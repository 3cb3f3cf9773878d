//! Verifying: somebody who reported nothing and built nothing looks at single findings.

use flow::What;
use flow::brief::Recipient;
use flow::event::{Answer, AnswerOutcome};

use super::review::watch;
use super::{Brought, Held, Trouble};
use crate::agent::Role;
use crate::agent::answer::{self, Verification};

pub async fn verify(held: &Held<'_>, commit: &str, ids: &[String]) -> Result<Brought, Trouble> {
    let shop = held.shop;
    let house = &shop.project.house;
    let brief = flow::brief::verify(held.ticket, ids, house, Recipient::Spawned);
    let limit = shop.project.policy.limits.verify_secs;
    let watched = watch(held, commit, held.member()?, Role::Verify, &brief, limit).await?;
    if let Some(why) = watched.tampered {
        return Err(Trouble {
            usage: watched.run.usage,
            ..Trouble::transient(why)
        });
    }
    let text = watched.run.result.unwrap_or_default();
    let said = answer::verified(&text).map_err(|why| Trouble {
        usage: watched.run.usage,
        ..Trouble::transient(why)
    })?;
    let answers = said.answers.into_iter().map(heard).collect();
    let what = What::Verified {
        lease: held.lease,
        commit: commit.to_owned(),
        answers,
        usage: watched.run.usage,
    };
    Ok(Brought {
        what,
        artefacts: watched.run.artefacts,
    })
}

fn heard(answer: answer::Answer) -> Answer {
    Answer {
        finding: answer.finding,
        outcome: match answer.outcome {
            Verification::Fixed => AnswerOutcome::Fixed,
            Verification::Confirmed => AnswerOutcome::Confirmed,
            Verification::Refuted => AnswerOutcome::Refuted,
            Verification::Uncertain => AnswerOutcome::Uncertain,
        },
        evidence: findings::clean(&answer.evidence),
    }
}
