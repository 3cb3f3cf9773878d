//! What many callers ask in the same moment travels to the database as one. Whoever asks while one is
//! on its way goes with the next, which begins after that: so an answer is never older than its
//! question, and two hundred agents that ask together cost a few trips instead of two hundred.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::Error;

/// A kind of question that `S` can be asked for many at once.
pub(crate) trait BatchRequest<S>: Clone + Send + Sync + 'static {
    type Answer: Send + 'static;

    /// How many travel together.
    const MOST: usize = 256;

    /// Something is written: who gets no answer does not know whether it was.
    const WRITES: bool = false;

    /// An answer for each, in their order.
    fn put(
        source: &S,
        asked: Arc<[Self]>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

/// Where the answers come from, for as long as anybody asks.
pub(crate) trait Source: Clone + Send + Sync + 'static {}
impl<S: Clone + Send + Sync + 'static> Source for S {}

/// Where pending of one kind come together.
pub(crate) struct Batcher<S: Source, Q: BatchRequest<S>> {
    source: S,
    queue: Arc<RequestQueue<S, Q>>,
}

struct RequestQueue<S, Q: BatchRequest<S>>(Mutex<QueueState<S, Q>>);

struct QueueState<S, Q: BatchRequest<S>> {
    pending: VecDeque<PendingRequest<S, Q>>,
    /// Somebody is carrying questions, and takes those who come now along next time.
    running: bool,
}

struct PendingRequest<S, Q: BatchRequest<S>> {
    question: Q,
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

    pub(crate) async fn ask(&self, question: Q) -> Result<Q::Answer, Error> {
        let (answer, answered) = oneshot::channel();
        if self.queue.join(PendingRequest { question, answer }) {
            let runner = BatchRunner {
                queue: Arc::clone(&self.queue),
                is_done: false,
            };
            // Not within the request's own call, which may be given up: others wait for it too.
            tokio::spawn(runner.run(self.source.clone()));
        }
        answered.await.unwrap_or_else(|_| {
            let why = "the question was broken off".to_owned();
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a runner is needed.
    fn join(&self, request: PendingRequest<S, Q>) -> bool {
        let mut state = self.lock();
        state.pending.push_back(request);
        !std::mem::replace(&mut state.running, true)
    }

    /// Those who travel next; where there are none, nobody carries any more.
    fn next(&self) -> Vec<PendingRequest<S, Q>> {
        let mut state = self.lock();
        let most = state.pending.len().min(Q::MOST);
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
            answer(&source, pending).await;
        }
    }
}

impl<S, Q: BatchRequest<S>> Drop for BatchRunner<S, Q> {
    /// Cut short: whoever stands in the queue is told, and whoever comes next is running again.
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.queue.lock();
            state.running = false;
            state.pending.clear();
        }
    }
}

/// What one of them is refused is not the others' fault: then each is put alone.
async fn answer<S: Source, Q: BatchRequest<S>>(source: &S, pending: Vec<PendingRequest<S, Q>>) {
    let (questions, waiting): (Vec<Q>, Vec<_>) = pending
        .into_iter()
        .map(|request| (request.question, request.answer))
        .unzip();
    let questions: Arc<[Q]> = questions.into();
    let mut answers = together(source, Arc::clone(&questions)).await;
    if let [Err(error), _, ..] = answers.as_slice()
        && !error.is_transient()
    {
        answers.clear();
        for question in questions.iter() {
            answers.extend(together(source, Arc::new([question.clone()])).await);
        }
    }
    for (request, answer) in waiting.into_iter().zip(answers) {
        // Who has stopped waiting needs no answer.
        let _ = request.send(answer);
    }
}

/// One for each.
async fn together<S: Source, Q: BatchRequest<S>>(
    source: &S,
    questions: Arc<[Q]>,
) -> Vec<Result<Q::Answer, Error>> {
    let count = questions.len();
    let failed = |error: Error| (0..count).map(|_| Err(error.clone())).collect();
    match Q::put(source, questions).await {
        Ok(answers) if answers.len() == count => answers.into_iter().map(Ok).collect(),
        Ok(_) => failed(Error::Other("not every question was answered".to_owned())),
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
