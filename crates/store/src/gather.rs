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
pub(crate) trait Question<S>: Clone + Send + Sync + 'static {
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

/// Where askers of one kind come together.
pub(crate) struct Gather<S: Source, Q: Question<S>> {
    source: S,
    line: Arc<Line<S, Q>>,
}

struct Line<S, Q: Question<S>>(Mutex<Standing<S, Q>>);

struct Standing<S, Q: Question<S>> {
    askers: VecDeque<Asker<S, Q>>,
    /// Somebody is carrying questions, and takes those who come now along next time.
    carried: bool,
}

struct Asker<S, Q: Question<S>> {
    question: Q,
    answer: oneshot::Sender<Result<Q::Answer, Error>>,
}

impl<S: Source, Q: Question<S>> Gather<S, Q> {
    pub(crate) fn new(source: S) -> Self {
        let standing = Standing {
            askers: VecDeque::new(),
            carried: false,
        };
        Self {
            source,
            line: Arc::new(Line(Mutex::new(standing))),
        }
    }

    pub(crate) async fn ask(&self, question: Q) -> Result<Q::Answer, Error> {
        let (answer, answered) = oneshot::channel();
        if self.line.join(Asker { question, answer }) {
            let carrier = Carrier {
                line: Arc::clone(&self.line),
                is_done: false,
            };
            // Not within the asker's own call, which may be given up: others wait for it too.
            tokio::spawn(carrier.carry(self.source.clone()));
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

impl<S, Q: Question<S>> Line<S, Q> {
    fn lock(&self) -> MutexGuard<'_, Standing<S, Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a carrier is needed.
    fn join(&self, asker: Asker<S, Q>) -> bool {
        let mut standing = self.lock();
        standing.askers.push_back(asker);
        !std::mem::replace(&mut standing.carried, true)
    }

    /// Those who travel next; where there are none, nobody carries any more.
    fn next(&self) -> Vec<Asker<S, Q>> {
        let mut standing = self.lock();
        let most = standing.askers.len().min(Q::MOST);
        standing.carried = most > 0;
        standing.askers.drain(..most).collect()
    }
}

struct Carrier<S, Q: Question<S>> {
    line: Arc<Line<S, Q>>,
    is_done: bool,
}

impl<S: Source, Q: Question<S>> Carrier<S, Q> {
    async fn carry(mut self, source: S) {
        loop {
            let askers = self.line.next();
            if askers.is_empty() {
                self.is_done = true;
                return;
            }
            answer(&source, askers).await;
        }
    }
}

impl<S, Q: Question<S>> Drop for Carrier<S, Q> {
    /// Cut short: whoever stands in the line is told, and whoever comes next is carried again.
    fn drop(&mut self) {
        if !self.is_done {
            let mut standing = self.line.lock();
            standing.carried = false;
            standing.askers.clear();
        }
    }
}

/// What one of them is refused is not the others' fault: then each is put alone.
async fn answer<S: Source, Q: Question<S>>(source: &S, askers: Vec<Asker<S, Q>>) {
    let (questions, waiting): (Vec<Q>, Vec<_>) = askers
        .into_iter()
        .map(|asker| (asker.question, asker.answer))
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
    for (asker, answer) in waiting.into_iter().zip(answers) {
        // Who has stopped waiting needs no answer.
        let _ = asker.send(answer);
    }
}

/// One for each.
async fn together<S: Source, Q: Question<S>>(
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

impl<S: Source, Q: Question<S>> fmt::Debug for Gather<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.line.lock().askers.len();
        f.debug_struct("Gather")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
