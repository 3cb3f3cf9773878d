//! Batches concurrent requests of many callers into one statement. A request that arrives while a
//! batch is in flight joins the next batch. So no answer is older than its request, and two hundred
//! concurrent agents cost a few round trips.
//!
//! There is no timer: a lone request is sent at once, and batches form only under load. It refuses
//! to mix kinds, because one statement answers one kind.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::Error;

/// A kind of request that `S` answers for many callers at once.
pub(crate) trait BatchRequest<S>: Clone + Send + Sync + 'static {
    type Answer: Send + 'static;

    /// Maximum number of requests per batch. Bounds the statement's size and the time for which a
    /// caller waits for others.
    const MOST: usize = 256;

    /// True if the request writes: then its outcome is unknown without an answer.
    const WRITES: bool = false;

    /// Returns one answer per request, in the same order.
    fn put(
        source: &S,
        requests: Arc<[Self]>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

/// A database handle that answers batches.
pub(crate) trait Source: Clone + Send + Sync + 'static {}
impl<S: Clone + Send + Sync + 'static> Source for S {}

/// Collects requests of one kind and sends them in batches.
pub(crate) struct Batcher<S: Source, Q: BatchRequest<S>> {
    source: S,
    queue: Arc<RequestQueue<S, Q>>,
}

struct RequestQueue<S, Q: BatchRequest<S>>(Mutex<QueueState<S, Q>>);

struct QueueState<S, Q: BatchRequest<S>> {
    pending: VecDeque<PendingRequest<S, Q>>,
    /// A batch is in flight; new requests join the next one.
    running: bool,
}

struct PendingRequest<S, Q: BatchRequest<S>> {
    request: Q,
    answer: oneshot::Sender<Result<Q::Answer, Error>>,
}

impl<S: Source, Q: BatchRequest<S>> Batcher<S, Q> {
    pub(crate) fn new(source: S) -> Self {
        let state = QueueState {
            pending: VecDeque::new(),
            running: false,
        };
        Self {
            source,
            queue: Arc::new(RequestQueue(Mutex::new(state))),
        }
    }

    pub(crate) async fn ask(&self, request: Q) -> Result<Q::Answer, Error> {
        // A bounded queue is not needed: each caller has at most one request in it.
        let (answer, receiver) = oneshot::channel();
        if self.queue.join(PendingRequest { request, answer }) {
            let runner = BatchRunner {
                queue: Arc::clone(&self.queue),
                is_done: false,
            };
            // A separate task: the caller may be cancelled while others wait for the same batch.
            tokio::spawn(runner.run(self.source.clone()));
        }
        receiver.await.unwrap_or_else(|_| {
            let why = "the request was cancelled".to_owned();
            Err(if Q::WRITES {
                Error::OutcomeUnknown(why)
            } else {
                Error::Unreachable(why)
            })
        })
    }
}

impl<S, Q: BatchRequest<S>> RequestQueue<S, Q> {
    fn lock(&self) -> MutexGuard<'_, QueueState<S, Q>> {
        // A poisoned lock is used all the same: the queue is consistent between statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request; true if no runner is active yet and the caller must start one.
    fn join(&self, request: PendingRequest<S, Q>) -> bool {
        let mut state = self.lock();
        state.pending.push_back(request);
        // The flag is read and set under the lock that guards the queue. So a request is never left
        // behind by a runner that has just decided to stop.
        !std::mem::replace(&mut state.running, true)
    }

    /// Takes the next batch; an empty batch ends the runner.
    fn next(&self) -> Vec<PendingRequest<S, Q>> {
        let mut state = self.lock();
        let most = state.pending.len().min(Q::MOST);
        // Cleared in the same lock in which the queue was found empty.
        state.running = most > 0;
        state.pending.drain(..most).collect()
    }
}

struct BatchRunner<S, Q: BatchRequest<S>> {
    queue: Arc<RequestQueue<S, Q>>,
    is_done: bool,
}

impl<S: Source, Q: BatchRequest<S>> BatchRunner<S, Q> {
    async fn run(mut self, source: S) {
        loop {
            let pending = self.queue.next();
            if pending.is_empty() {
                self.is_done = true;
                return;
            }
            // The next batch is taken only after this one is answered, so an answer is never older
            // than its request.
            answer(&source, pending).await;
        }
    }
}

impl<S, Q: BatchRequest<S>> Drop for BatchRunner<S, Q> {
    /// If cancelled, fails the queued callers; the next request starts a new runner.
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.queue.lock();
            state.running = false;
            // Dropping the senders gives every waiting caller an error instead of silence.
            state.pending.clear();
        }
    }
}

/// Sends a batch. After an error that is not transient, sends each request alone, so that one bad
/// request does not fail the others.
async fn answer<S: Source, Q: BatchRequest<S>>(source: &S, pending: Vec<PendingRequest<S, Q>>) {
    let (requests, senders): (Vec<Q>, Vec<_>) = pending
        .into_iter()
        .map(|request| (request.request, request.answer))
        .unzip();
    let requests: Arc<[Q]> = requests.into();
    let mut answers = together(source, Arc::clone(&requests)).await;
    // A transient error would hit each request again, and for writes the outcome may be unknown.
    if let [Err(error), _, ..] = answers.as_slice()
        && !error.is_transient()
    {
        answers.clear();
        for request in requests.iter() {
            answers.extend(together(source, Arc::new([request.clone()])).await);
        }
    }
    for (sender, answer) in senders.into_iter().zip(answers) {
        // The caller may have stopped waiting.
        let _ = sender.send(answer);
    }
}

/// Sends requests as one statement; returns one answer per request.
async fn together<S: Source, Q: BatchRequest<S>>(
    source: &S,
    requests: Arc<[Q]>,
) -> Vec<Result<Q::Answer, Error>> {
    let count = requests.len();
    let failed = |error: Error| (0..count).map(|_| Err(error.clone())).collect();
    match Q::put(source, requests).await {
        // An implementation that drops a row would give answers to the wrong callers, so all fail.
        Ok(answers) if answers.len() == count => answers.into_iter().map(Ok).collect(),
        Ok(_) => failed(Error::Other(
            "not every request of a batch was answered".to_owned(),
        )),
        Err(error) => failed(error),
    }
}

impl<S: Source, Q: BatchRequest<S>> fmt::Debug for Batcher<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.queue.lock().pending.len();
        f.debug_struct("Batcher")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
