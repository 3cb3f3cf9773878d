//! Tokens that remote workers create for their agents' runs: for one job that the worker holds, in
//! that job's role, for a bounded time. A worker cannot create, see or revoke any other token.
//!
//! The secret is made on the worker and never sent: the server stores its hash.

use engine::coordinator::noted_of_token;
use engine::coordinator::wire::RunTokenRequest;
use engine::log::LogErr;
use engine::session;
use flow::Role;
use flow::remote_access::recorded_actor;
use store::{Token, TokenQuery};

use super::{CallRefusal, Caller};

/// Maximum validity of a run token.
const TOKEN_TTL_MS_MAX: u64 = 24 * 3_600_000;
/// Maximum number of tokens of a lease: usually one, more if the agent is started again.
/// An agent that is restarted gets a new token each time.
const TOKENS_PER_LEASE_MAX: usize = 20;
/// Maximum number of tokens that are searched for one.
const TOKENS_MAX: u32 = 1000;

fn all_tokens() -> TokenQuery {
    TokenQuery {
        hash: None,
        kind: store::TokenKind::Bearer,
        most: TOKENS_MAX,
    }
}

impl Caller<'_> {
    /// Returns the creator's name on the tokens of this worker's runs.
    fn creator(&self) -> String {
        let Self {
            identity: speaker, ..
        } = self;
        format!("{} ({})", speaker.actor.agent, speaker.token)
    }

    /// Stores a run token for a job that this worker holds. The worker sends only the hash of the
    /// secret.
    pub async fn issue_token(&self, request: RunTokenRequest) -> Result<(), CallRefusal> {
        // A worker cannot issue a token in the name of a person.
        let by = recorded_actor(&request.by).map_err(CallRefusal::barred)?;
        let job = self.held_job(&request.ticket, request.lease).await?;
        let role = request.by.role;
        // A reviewer's job must not give out a builder's token, which could submit.
        if role == Role::Service || !session::queues_of(role).contains(&job.queue) {
            let why = format!(
                "a {} job gets no token with the role {}",
                job.queue.name(),
                role.as_str()
            );
            return Err(CallRefusal::barred(why));
        }
        // The id is the beginning of the hash, so that it cannot be chosen to look like another
        // token.
        if !is_hash(&request.hash) || !request.hash.starts_with(&request.id) || request.id.len() < 8
        {
            return Err(CallRefusal::barred(
                "the id or hash of the token is not valid",
            ));
        }
        let mut existing = self.app.coordinator.store.tokens(&all_tokens()).await?;
        existing.retain(|token| token.lease == Some(request.lease));
        existing.retain(|token| token.ticket.as_ref() == Some(&request.ticket));
        if existing.len() >= TOKENS_PER_LEASE_MAX {
            return Err(CallRefusal::barred("this run has too many tokens"));
        }
        let now = (self.app.coordinator.clock)();
        let token = Token {
            id: request.id,
            hash: request.hash,
            agent: by.agent,
            principal: by.principal,
            role: role.as_str().to_owned(),
            family: by.family,
            ticket: Some(request.ticket),
            lease: Some(request.lease),
            created_by: self.creator(),
            created_at: now,
            // Bounded also if the run is never ended properly.
            expires_at: Some(now.plus_ms(request.lasts_ms.min(TOKEN_TTL_MS_MAX))),
            revoked_at: None,
            kind: store::TokenKind::Bearer,
            parent: None,
            uses: 0,
        };
        self.app.coordinator.store.put_token(token.clone()).await?;
        self.note_token_event("token_created", &token).await;
        Ok(())
    }

    /// Revokes a token; returns whether it was valid until now. An unknown one is no error, because
    /// an ended token may have been deleted.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, CallRefusal> {
        let store = &self.app.coordinator.store;
        let mut tokens = store.tokens(&all_tokens()).await?.into_iter();
        let Some(token) = tokens.find(|token| token.id == id) else {
            return Ok(false);
        };
        // By creator and lease: a worker must not revoke tokens of people.
        if token.lease.is_none() || token.created_by != self.creator() {
            return Err(CallRefusal::barred(
                "the token does not belong to a run of yours",
            ));
        }
        let revoked = store.revoke(id, (self.app.coordinator.clock)()).await?;
        if revoked {
            self.note_token_event("token_revoked", &token).await;
        }
        Ok(revoked)
    }

    async fn note_token_event(&self, name: &str, token: &Token) {
        let coordinator = &self.app.coordinator;
        // A lost note is only logged; the token itself is in the store.
        let noted = noted_of_token(name, token, (coordinator.clock)());
        let noted = coordinator.store.note(noted).await;
        noted.log_err("record the use of a run token");
    }
}

fn is_hash(text: &str) -> bool {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.len() == 64 && text.chars().all(hex)
}
