//! What many callers ask in the same moment travels as one statement. Whoever asks while one is on
//! its way goes with the next, which begins after that: so an answer is never older than its
//! question, and two hundred agents that ask together cost a few trips instead of two hundred.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_postgres::Pool;
use tokio::sync::oneshot;

use crate::error::Error;

/// A kind of question that one statement answers for many.
pub(super) trait Question: Send + Sync + 'static {
    type Answer: Send + 'static;

    /// How many travel together.
    const MOST: usize;

    /// An answer for each, in their order.
    fn put(
        pool: &Pool,
        asked: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send
    where
        Self: Sized;
}

/// Which question it was, from a row's `WITH ORDINALITY`, which counts from one.
pub(super) fn index(place: i64) -> usize {
    usize::try_from(place - 1).unwrap_or(usize::MAX)
}

/// Where askers of one kind come together.
pub(super) struct Gather<Q: Question> {
    line: Arc<Line<Q>>,
}

struct Line<Q: Question>(Mutex<Standing<Q>>);

struct Standing<Q: Question> {
    askers: VecDeque<Asker<Q>>,
    /// Somebody is carrying questions, and takes those who come now along next time.
    carried: bool,
}

struct Asker<Q: Question> {
    question: Q,
    answer: oneshot::Sender<Result<Q::Answer, Error>>,
}

impl<Q: Question> Gather<Q> {
    pub(super) async fn ask(&self, pool: &Pool, question: Q) -> Result<Q::Answer, Error> {
        let (answer, answered) = oneshot::channel();
        if self.line.join(Asker { question, answer }) {
            let carrier = Carrier {
                line: Arc::clone(&self.line),
                is_done: false,
            };
            // Not within the asker's own call, which may be given up: others wait for it too.
            tokio::spawn(carrier.carry(pool.clone()));
        }
        let given_up = |_| Error::Unreachable("the program is ending".to_owned());
        answered.await.map_err(given_up)?
    }
}

impl<Q: Question> Line<Q> {
    fn lock(&self) -> MutexGuard<'_, Standing<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a carrier is needed.
    fn join(&self, asker: Asker<Q>) -> bool {
        let mut standing = self.lock();
        standing.askers.push_back(asker);
        !std::mem::replace(&mut standing.carried, true)
    }

    /// Those who travel next; where there are none, nobody carries any more.
    fn next(&self) -> Vec<Asker<Q>> {
        let mut standing = self.lock();
        let most = standing.askers.len().min(Q::MOST);
        standing.carried = most > 0;
        standing.askers.drain(..most).collect()
    }
}

struct Carrier<Q: Question> {
    line: Arc<Line<Q>>,
    is_done: bool,
}

impl<Q: Question> Carrier<Q> {
    async fn carry(mut self, pool: Pool) {
        loop {
            let askers = self.line.next();
            if askers.is_empty() {
                self.is_done = true;
                return;
            }
            answer(&pool, askers).await;
        }
    }
}

impl<Q: Question> Drop for Carrier<Q> {
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
async fn answer<Q: Question>(pool: &Pool, askers: Vec<Asker<Q>>) {
    let (questions, waiting): (Vec<Q>, Vec<_>) = askers
        .into_iter()
        .map(|asker| (asker.question, asker.answer))
        .unzip();
    let mut answers = together(pool, &questions).await;
    if let [Err(error), _, ..] = answers.as_slice()
        && !error.is_transient()
    {
        answers.clear();
        for question in &questions {
            answers.extend(together(pool, slice::from_ref(question)).await);
        }
    }
    for (asker, answer) in waiting.into_iter().zip(answers) {
        // Who has stopped waiting needs no answer.
        let _ = asker.send(answer);
    }
}

/// One for each.
async fn together<Q: Question>(pool: &Pool, questions: &[Q]) -> Vec<Result<Q::Answer, Error>> {
    let failed = |error: Error| questions.iter().map(|_| Err(error.clone())).collect();
    match Q::put(pool, questions).await {
        Ok(answers) if answers.len() == questions.len() => answers.into_iter().map(Ok).collect(),
        Ok(_) => failed(Error::Other("not every question was answered".to_owned())),
        Err(error) => failed(error),
    }
}

impl<Q: Question> Default for Gather<Q> {
    fn default() -> Self {
        let standing = Standing {
            askers: VecDeque::new(),
            carried: false,
        };
        Self {
            line: Arc::new(Line(Mutex::new(standing))),
        }
    }
}

impl<Q: Question> fmt::Debug for Gather<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.line.lock().askers.len();
        f.debug_struct("Gather").field("waiting", &waiting).finish()
    }
}
