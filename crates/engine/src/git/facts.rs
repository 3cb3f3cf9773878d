//! What cannot change, asked of git once: a commit's tree, how two commits are related and differ,
//! the kind of hash. Objects are named by their content, so an answer about named objects stays true. Whatever
//! is about refs, files or configuration is asked anew every time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Error, Repository};

/// How much is kept, with the questions; then all is forgotten.
const KNOWN_BYTES_MAX: usize = 8 << 20;
/// A longer answer is not worth its memory.
const ANSWER_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct GitFactCache(Mutex<GitFacts>);

#[derive(Debug, Default)]
struct GitFacts {
    /// Questions as they were put to git, with what it said.
    answers: HashMap<String, String>,
    bytes: usize,
}

impl GitFactCache {
    pub fn known(&self, args: &[&str]) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.answers.get(&args.join(" ")).cloned()
    }

    /// Whether git is known to say yes. A no is not kept: more history may be fetched.
    pub fn is_so(&self, args: &[&str]) -> bool {
        self.known(args).is_some()
    }

    pub fn learn_so(&self, args: &[&str]) {
        self.learn(args, "yes");
    }

    pub fn learn(&self, args: &[&str], answer: &str) {
        if answer.is_empty() || answer.len() > ANSWER_BYTES_MAX {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let question = args.join(" ");
        let bytes = question.len() + answer.len();
        if known.bytes + bytes > KNOWN_BYTES_MAX {
            *known = GitFacts::default();
        }
        known.bytes += bytes;
        known.answers.insert(question, answer.to_owned());
    }
}

impl Repository {
    /// What git answers about objects that are named whole. Exit code 1 is an answer as well, an
    /// empty one, and is not kept: more history may be fetched.
    pub(super) async fn fact(&self, args: &[&str]) -> Result<String, Error> {
        if let Some(known) = self.facts.known(args) {
            return Ok(known);
        }
        let answer = self.git().args(args).answers(&[1]).text().await?;
        self.facts.learn(args, &answer);
        Ok(answer)
    }
}
