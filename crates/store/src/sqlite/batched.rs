//! Batched reads: one reader answers all requests of a batch in one run.

use std::sync::Arc;

use rusqlite::Connection;

use crate::batched::{HasOpenJobs, HeldJobs, TokenByHash, UnreadMessages};
use crate::batcher::BatchRequest;
use crate::error::Error;
use crate::job::Job;
use crate::record::Message;
use crate::token::Token;

use super::readers::Readers;
use super::{jobs, records, tokens};

impl BatchRequest<Readers> for TokenByHash {
    type Answer = Option<Token>;

    async fn put(readers: &Readers, requests: Arc<[Self]>) -> Result<Vec<Option<Token>>, Error> {
        each(readers, requests, |db, secret| {
            tokens::by_hash(db, &secret.0)
        })
        .await
    }
}

impl BatchRequest<Readers> for HasOpenJobs {
    type Answer = bool;

    async fn put(readers: &Readers, requests: Arc<[Self]>) -> Result<Vec<bool>, Error> {
        each(readers, requests, |db, queues| {
            jobs::any_open(db, &queues.0)
        })
        .await
    }
}

impl BatchRequest<Readers> for HeldJobs {
    type Answer = Vec<Job>;

    async fn put(readers: &Readers, requests: Arc<[Self]>) -> Result<Vec<Vec<Job>>, Error> {
        each(readers, requests, jobs::held_jobs).await
    }
}

impl BatchRequest<Readers> for UnreadMessages {
    type Answer = Vec<Message>;
    /// Answers with many messages are large, so the batch is smaller.
    const MOST: usize = 64;

    async fn put(readers: &Readers, requests: Arc<[Self]>) -> Result<Vec<Vec<Message>>, Error> {
        each(readers, requests, records::messages).await
    }
}

async fn each<Q: Send + Sync + 'static, A: Send + 'static>(
    readers: &Readers,
    requests: Arc<[Q]>,
    answer: fn(&Connection, &Q) -> Result<A, Error>,
) -> Result<Vec<A>, Error> {
    readers
        .run(move |db| requests.iter().map(|request| answer(db, request)).collect())
        .await
}
