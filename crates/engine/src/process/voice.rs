//! What we say to a program: its input, and where it converses, the answers to its lines.

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::LineReaction;
use super::spawn::KnownChild;

/// How many answers may wait for a program that does not read them.
const UNREAD_MAX: usize = 1024;

/// Hands the input over in the background: a program that reads nothing must not
/// keep us from reading it.
pub(super) struct StdinWriter {
    words: Option<mpsc::Sender<Vec<u8>>>,
    speaking: Option<JoinHandle<()>>,
    farewell: Option<Vec<u8>>,
    pub over: bool,
}

impl StdinWriter {
    pub fn new(known: &mut KnownChild, first: Vec<u8>, stays_open: bool) -> Self {
        let (words, mut to_say) = mpsc::channel::<Vec<u8>>(UNREAD_MAX);
        let stdin = known.child.stdin.take();
        let speaking = stdin.map(|mut stdin| {
            tokio::spawn(async move {
                // A program that does not want its input says so by closing it.
                let _ = stdin.write_all(&first).await;
                while let Some(bytes) = to_say.recv().await {
                    // As above.
                    let _ = stdin.write_all(&bytes).await;
                }
            })
        });
        Self {
            words: stays_open.then_some(words),
            speaking,
            farewell: None,
            over: false,
        }
    }

    pub fn react(&mut self, reaction: LineReaction) {
        self.say(reaction.say);
        if reaction.farewell.is_some() {
            self.farewell = reaction.farewell;
        }
        if reaction.over {
            self.over = true;
            self.words = None;
        }
    }

    /// Whoever lets so many answers lie does not get another one.
    fn say(&mut self, bytes: Vec<u8>) {
        let full = |words: &mpsc::Sender<Vec<u8>>| words.try_send(bytes.clone()).is_err();
        if !bytes.is_empty() && self.words.as_ref().is_some_and(full) {
            self.words = None;
        }
    }

    /// Says the last thing there is to say, if there is any, and closes the input.
    pub fn say_farewell(&mut self) -> bool {
        let Some(last) = self.farewell.take().filter(|_| self.words.is_some()) else {
            return false;
        };
        self.say(last);
        self.words = None;
        true
    }

    pub fn end(&mut self) {
        self.words = None;
        if let Some(task) = self.speaking.take() {
            task.abort();
        }
    }
}
