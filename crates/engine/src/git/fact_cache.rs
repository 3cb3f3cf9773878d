//! Caches answers of git that cannot change: the tree of a commit, the object format, and for two
//! commits their relation and difference. Objects are named by their content, so an answer about named
//! objects stays true. Questions about refs, files or configuration are never cached.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Error, Repository};

/// Maximum size of all questions and answers. Beyond it the cache is cleared.
const KNOWN_BYTES_MAX: usize = 8 << 20;
/// Maximum size of a cached answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct GitFactCache(Mutex<GitFacts>);

#[derive(Debug, Default)]
struct GitFacts {
    /// Arguments of git commands, with their output.
    answers: HashMap<String, String>,
    bytes: usize,
}

impl GitFactCache {
    pub fn get(&self, args: &[&str]) -> Option<String> {
        let facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        facts.answers.get(&args.join(" ")).cloned()
    }

    /// Returns whether git is known to answer yes. A no is not cached, because more history may be
    /// fetched.
    pub fn is_known_yes(&self, args: &[&str]) -> bool {
        self.get(args).is_some()
    }

    pub fn insert_yes(&self, args: &[&str]) {
        self.insert(args, "yes");
    }

    pub fn insert(&self, args: &[&str], answer: &str) {
        if answer.is_empty() || answer.len() > ANSWER_BYTES_MAX {
            return;
        }
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let question = args.join(" ");
        let bytes = question.len() + answer.len();
        if facts.bytes + bytes > KNOWN_BYTES_MAX {
            *facts = GitFacts::default();
        }
        facts.bytes += bytes;
        facts.answers.insert(question, answer.to_owned());
    }
}

impl Repository {
    /// Returns the answer of git about objects with complete names. Exit code 1 is also an answer,
    /// an empty one, and is not cached, because more history may be fetched.
    pub(super) async fn cached_answer(&self, args: &[&str]) -> Result<String, Error> {
        if let Some(answer) = self.facts.get(args) {
            return Ok(answer);
        }
        let answer = self.git().args(args).accept_codes(&[1]).text().await?;
        self.facts.insert(args, &answer);
        Ok(answer)
    }
}
