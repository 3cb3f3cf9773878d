//! Writes the stdin of a program: its input and, if stdin stays open, the replies to its lines.

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::LineReaction;
use super::spawn::KnownChild;

/// Maximum number of replies that wait for a program that does not read them. A program that leaves
/// a thousand replies unread has stopped reading.
const UNREAD_MAX: usize = 1024;

/// Writes the input in the background: a program that does not read must not keep us from reading
/// its output.
pub(super) struct StdinWriter {
    words: Option<mpsc::Sender<Vec<u8>>>,
    speaking: Option<JoinHandle<()>>,
    farewell: Option<Vec<u8>>,
    pub over: bool,
}

impl StdinWriter {
    pub fn new(spawned: &mut KnownChild, first: Vec<u8>, stays_open: bool) -> Self {
        let (words, mut replies) = mpsc::channel::<Vec<u8>>(UNREAD_MAX);
        let stdin = spawned.child.stdin.take();
        let speaking = stdin.map(|mut stdin| {
            tokio::spawn(async move {
                // A program may close its input without reading it; that is no error.
                let _ = stdin.write_all(&first).await;
                // The loop ends when the sender is dropped. Then stdin is dropped too, which is its
                // end of file.
                while let Some(bytes) = replies.recv().await {
                    // As above.
                    let _ = stdin.write_all(&bytes).await;
                }
            })
        });
        Self {
            // Without replies the channel is closed at once, so the program sees the end of its
            // input.
            words: stays_open.then_some(words),
            speaking,
            farewell: None,
            over: false,
        }
    }

    pub fn apply_reaction(&mut self, reaction: LineReaction) {
        self.queue_write(reaction.say);
        if reaction.farewell.is_some() {
            self.farewell = reaction.farewell;
        }
        if reaction.over {
            self.over = true;
            self.words = None;
        }
    }

    /// Queues a reply. If the queue is full, the program does not read, and stdin is closed.
    fn queue_write(&mut self, bytes: Vec<u8>) {
        // `try_send` never waits: this runs while output is read, and a full queue must not stop
        // that.
        let full = |words: &mpsc::Sender<Vec<u8>>| words.try_send(bytes.clone()).is_err();
        if !bytes.is_empty() && self.words.as_ref().is_some_and(full) {
            self.words = None;
        }
    }

    /// Writes the farewell, if there is one, and closes stdin. Returns whether there was one.
    pub fn write_farewell_and_close(&mut self) -> bool {
        let Some(last) = self.farewell.take().filter(|_| self.words.is_some()) else {
            return false;
        };
        self.queue_write(last);
        self.words = None;
        true
    }

    // Aborting is needed because a write into a full pipe would wait for ever.
    pub fn close(&mut self) {
        self.words = None;
        if let Some(task) = self.speaking.take() {
            task.abort();
        }
    }
}
