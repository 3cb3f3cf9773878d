//! Sends statements without waiting for each other's answers: a decision costs two round trips, not
//! a dozen. The server runs them in order.
//!
//! A statement after a failed one in a transaction fails too, so an error is looked for in order:
//! the first one is the cause.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use deadpool_postgres::{Client, Pool};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::Error;

use super::errors::{failed, failed_to_commit, no_connection};

pub(super) type Value = Box<dyn ToSql + Sync + Send>;

/// Builds the owned parameters of a statement.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Value),*]
    };
}
pub(super) use values;

/// Runs one statement that only reads.
pub(super) async fn read(pool: &Pool, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    one(pool, sql, values, false).await
}

/// Runs one statement that writes, as its own transaction.
pub(super) async fn change(pool: &Pool, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    one(pool, sql, values, true).await
}

async fn one(pool: &Pool, sql: &str, values: Vec<Value>, writes: bool) -> Result<Vec<Row>, Error> {
    let mut steps = Pipeline::default();
    steps.push(sql, values);
    let mut session = OpenTransaction::new(pool).await?;
    session.run(steps).await?.only(writes)
}

/// Returns the index of the request that a row answers, from its `WITH ORDINALITY`, which counts
/// from one.
pub(super) fn index(ordinality: i64) -> usize {
    usize::try_from(ordinality - 1).unwrap_or(usize::MAX)
}

/// Statements with their parameters, in the order in which the server runs them.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    steps: Vec<(String, Vec<Value>)>,
}

/// Position of a statement, and of its answer, in the pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepIndex(usize);

/// Results of a pipeline, one per statement.
#[derive(Debug)]
pub(super) struct Answers {
    answers: Vec<Result<Vec<Row>, tokio_postgres::Error>>,
}

impl Pipeline {
    pub(super) fn push(&mut self, sql: impl Into<String>, values: Vec<Value>) -> StepIndex {
        self.steps.push((sql.into(), values));
        StepIndex(self.steps.len() - 1)
    }

    pub(super) fn append(&mut self, other: Self) {
        self.steps.extend(other.steps);
    }

    /// Sends everything and waits for every answer.
    pub(super) async fn run(self, client: &Client) -> Result<Answers, Error> {
        let all = self.steps.len();
        self.run_until(all, client).await
    }

    /// Sends everything and waits for the first `count` answers. The connection discards the other
    /// answers before it serves its next user.
    async fn run_until(self, count: usize, client: &Client) -> Result<Answers, Error> {
        // Statements are prepared before any is sent: preparing waits for an answer, and would
        // split the pipeline.
        let mut statements = Vec::with_capacity(self.steps.len());
        for (sql, _) in &self.steps {
            statements.push(client.prepare_cached(sql).await.map_err(|e| failed(&e))?);
        }
        let mut sent = Vec::with_capacity(self.steps.len());
        for (statement, (_, values)) in statements.iter().zip(&self.steps) {
            let borrowed: Vec<&(dyn ToSql + Sync)> = values
                .iter()
                .map(|value| {
                    let value: &(dyn ToSql + Sync) = value.as_ref();
                    value
                })
                .collect();
            sent.push(
                Box::pin(async move { client.query(statement, &borrowed).await }) as Sent<'_>,
            );
        }
        Ok(Answers {
            answers: in_order(sent, count).await,
        })
    }
}

impl Answers {
    pub(super) fn rows(&self, step: StepIndex) -> Result<&[Row], Error> {
        match self.answers.get(step.0) {
            Some(Ok(rows)) => Ok(rows),
            // In an aborted transaction every later statement fails; the first failure, such as a
            // deadlock that is worth another try, is the one to report.
            Some(Err(error)) => Err(failed(self.first_error().unwrap_or(error))),
            None => Err(Error::Other("the statement was never sent".to_owned())),
        }
    }

    /// Returns the rows of a pipeline with one statement.
    pub(super) fn only(mut self, committing: bool) -> Result<Vec<Row>, Error> {
        // There is one statement, so its answer is the last.
        match self.answers.pop() {
            Some(Ok(rows)) => Ok(rows),
            // A connection that broke during a write leaves the outcome unknown; one that broke
            // during a read does not.
            Some(Err(error)) if committing => Err(failed_to_commit(&error)),
            Some(Err(error)) => Err(failed(&error)),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the first error, if any. `committing` is true if one of the statements commits.
    pub(super) fn check_all(&self, committing: bool) -> Result<(), Error> {
        let Some(error) = self.first_error() else {
            return Ok(());
        };
        if committing {
            return Err(failed_to_commit(error));
        }
        Err(failed(error))
    }

    pub(super) fn first_error(&self) -> Option<&tokio_postgres::Error> {
        self.answers.iter().find_map(|answer| answer.as_ref().err())
    }
}

type QueryResult = Result<Vec<Row>, tokio_postgres::Error>;
type Sent<'a> = Pin<Box<dyn Future<Output = QueryResult> + Send + 'a>>;

/// Polls the queries in order. A query is sent when its future is first polled, so this fixes the
/// order on the server.
async fn in_order(mut sent: Vec<Sent<'_>>, count: usize) -> Vec<QueryResult> {
    let mut answers: Vec<Option<QueryResult>> = sent.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, answer) in sent.iter_mut().zip(&mut answers) {
            // A finished future must not be polled again.
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().take(count).all(Option::is_some) {
            return Poll::Ready(answers.drain(..).take(count).flatten().collect());
        }
        Poll::Pending
    })
    .await
}

/// A connection with a possibly open transaction. Dropping it in the middle, also by cancelling a
/// call, closes the connection, and the server rolls back. It never returns to the pool with an
/// open transaction.
#[derive(Debug)]
pub(super) struct OpenTransaction {
    client: Option<Client>,
    open: bool,
}

impl OpenTransaction {
    pub(super) async fn new(pool: &Pool) -> Result<Self, Error> {
        let client = pool.get().await.map_err(no_connection)?;
        Ok(Self {
            client: Some(client),
            open: false,
        })
    }

    fn client(&self) -> Result<&Client, Error> {
        let gone = || Error::Unreachable("the connection is gone".to_owned());
        self.client.as_ref().ok_or_else(gone)
    }

    /// Runs statements that start with BEGIN; the transaction stays open.
    pub(super) async fn begin(&mut self, rest: Pipeline) -> Result<Answers, Error> {
        // Set before the first await: from then on a cancelled call must not return the connection.
        self.open = true;
        rest.run(self.client()?).await
    }

    /// Runs statements that leave no transaction open.
    pub(super) async fn run(&mut self, steps: Pipeline) -> Result<Answers, Error> {
        // `run` also counts as open while it is under way, because a cancelled pipeline may have
        // been sent in part.
        self.open = true;
        let answers = steps.run(self.client()?).await?;
        self.open = false;
        Ok(answers)
    }

    /// Like [`Self::run`], and sends `after` behind them without waiting for its answers.
    pub(super) async fn run_and_send(
        &mut self,
        mut steps: Pipeline,
        after: Pipeline,
    ) -> Result<Answers, Error> {
        let count = steps.steps.len();
        steps.append(after);
        self.open = true;
        let answers = steps.run_until(count, self.client()?).await?;
        self.open = false;
        Ok(answers)
    }

    /// Commits the transaction, and runs `after` behind the COMMIT.
    pub(super) async fn commit(&mut self, after: Pipeline) -> Result<(), Error> {
        let mut steps = Pipeline::default();
        let commit = steps.push("COMMIT", Vec::new());
        steps.append(after);
        let answers = steps
            .run(self.client()?)
            .await
            .map_err(|error| match error {
                // The COMMIT may have reached the server before the connection broke.
                Error::Unreachable(text) => Error::OutcomeUnknown(text),
                other => other,
            })?;
        self.open = false;
        match answers.answers.get(commit.0) {
            // Errors of `after` do not matter: the transaction is committed, and a lost
            // notification is only late.
            Some(Err(error)) => Err(failed_to_commit(error)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    pub(super) async fn roll_back(&mut self) {
        let mut steps = Pipeline::default();
        steps.push("ROLLBACK", Vec::new());
        // If it fails, dropping the connection closes it, which rolls back as well.
        let _ = self.run(steps).await;
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        if self.open
            && let Some(client) = self.client.take()
        {
            // `take` removes the connection from the pool; dropping it closes it.
            drop(Client::take(client));
        }
    }
}
