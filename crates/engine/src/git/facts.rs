//! What cannot change, asked of git once: a commit's tree, how two commits are related, the kind of
//! hash. Objects are named by their content, so an answer about named objects stays true. Whatever
//! is about refs, files or configuration is asked anew every time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Error, Repository};

/// How many answers are kept; then all are forgotten.
const ANSWERS_MAX: usize = 4_096;
/// A longer one is not worth its memory.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Questions as they were put to git, with what it said.
#[derive(Debug, Default)]
pub(super) struct Facts(Mutex<HashMap<String, String>>);

impl Facts {
    fn known(&self, question: &str) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(question).cloned()
    }

    /// Whether git is known to say yes. A no is not kept: more history may be fetched.
    pub fn is_so(&self, args: &[&str]) -> bool {
        self.known(&args.join(" ")).is_some()
    }

    pub fn learn_so(&self, args: &[&str]) {
        self.learn(args.join(" "), "yes");
    }

    fn learn(&self, question: String, answer: &str) {
        if answer.is_empty() || answer.len() > ANSWER_BYTES_MAX {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ANSWERS_MAX {
            known.clear();
        }
        known.insert(question, answer.to_owned());
    }
}

impl Repository {
    /// What git answers about objects that are named whole. Exit code 1 is an answer as well, an
    /// empty one, and is not kept: more history may be fetched.
    pub(super) async fn fact(&self, args: &[&str]) -> Result<String, Error> {
        let question = args.join(" ");
        if let Some(known) = self.facts.known(&question) {
            return Ok(known);
        }
        let answer = self.git().args(args).answers(&[1]).text().await?;
        self.facts.learn(question, &answer);
        Ok(answer)
    }
}
