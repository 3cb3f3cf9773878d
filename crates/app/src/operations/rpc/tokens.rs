//! Tokens that workers elsewhere make for the runs of their agents: for one job that the worker
//! holds, in that job's role, for a bounded time. No other token is theirs to make, see or end.

use engine::coordinator::noted_of_token;
use engine::coordinator::wire::RunTokenRequest;
use engine::log::LogErr;
use engine::session;
use flow::Role;
use flow::remote_access::voice;
use store::{Token, TokenQuery};

use super::{Caller, No};

/// No run is longer.
const LASTS_MS_MAX: u64 = 24 * 3_600_000;
/// One run has one, and a few where its agent is started again.
const OF_LEASE_MAX: usize = 20;
/// How many tokens are looked through for one.
const TOKENS_MAX: u32 = 1000;

fn all_tokens() -> TokenQuery {
    TokenQuery {
        hash: None,
        most: TOKENS_MAX,
    }
}

impl Caller<'_> {
    /// In whose name the tokens of this worker's runs are made.
    fn maker(&self) -> String {
        let Self { speaker, .. } = self;
        format!("{} ({})", speaker.actor.agent, speaker.token)
    }

    pub async fn issue_token(&self, pass: RunTokenRequest) -> Result<(), No> {
        let by = voice(&pass.by).map_err(No::barred)?;
        let job = self.held(&pass.ticket, pass.lease).await?;
        let role = pass.by.role;
        if role == Role::Service || !session::queues_of(role).contains(&job.queue) {
            let why = format!(
                "a {} job needs no token of a {}",
                job.queue.name(),
                role.word()
            );
            return Err(No::barred(why));
        }
        if !is_hash(&pass.hash) || !pass.hash.starts_with(&pass.id) || pass.id.len() < 8 {
            return Err(No::barred("that is no hash of a secret"));
        }
        let mut made = self.office.desk.store.tokens(&all_tokens()).await?;
        made.retain(|token| token.lease == Some(pass.lease));
        made.retain(|token| token.ticket.as_ref() == Some(&pass.ticket));
        if made.len() >= OF_LEASE_MAX {
            return Err(No::barred("there are too many tokens of this run"));
        }
        let now = (self.office.desk.clock)();
        let token = Token {
            id: pass.id,
            hash: pass.hash,
            agent: by.agent,
            principal: by.principal,
            role: role.word().to_owned(),
            family: by.family,
            ticket: Some(pass.ticket),
            lease: Some(pass.lease),
            created_by: self.maker(),
            created_at: now,
            expires_at: Some(now.plus_ms(pass.lasts_ms.min(LASTS_MS_MAX))),
            revoked_at: None,
        };
        self.office.desk.store.put_token(token.clone()).await?;
        self.tell_of("token_created", &token).await;
        Ok(())
    }

    /// True where it was good until now. One that has ended may be forgotten.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, No> {
        let store = &self.office.desk.store;
        let mut tokens = store.tokens(&all_tokens()).await?.into_iter();
        let Some(token) = tokens.find(|token| token.id == id) else {
            return Ok(false);
        };
        if token.lease.is_none() || token.created_by != self.maker() {
            return Err(No::barred("that token is not of a run of yours"));
        }
        let revoked = store.revoke(id, (self.office.desk.clock)()).await?;
        if revoked {
            self.tell_of("token_revoked", &token).await;
        }
        Ok(revoked)
    }

    async fn tell_of(&self, name: &str, token: &Token) {
        let desk = &self.office.desk;
        // It is a note; what it tells of is in the store.
        let noted = noted_of_token(name, token, (desk.clock)());
        let noted = desk.store.note(noted).await;
        noted.log_err("record the use of a run token");
    }
}

fn is_hash(text: &str) -> bool {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.len() == 64 && text.chars().all(hex)
}
