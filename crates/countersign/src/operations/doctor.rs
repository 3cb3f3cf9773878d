//! What is here and what is missing: the ground that every run needs, and the agents.

use std::path::Path;

use serde::Serialize;

use super::agents::{self, Seen};
use super::project::{git_tool, open};
use super::{Office, confinement};
use crate::settings::Surroundings;

/// Less free space than this, and a run may be ended half way.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Examined {
    pub what: &'static str,
    pub fine: bool,
    pub found: String,
}

/// Everything that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Examination {
    /// Without these nothing runs.
    pub examined: Vec<Examined>,
    /// Any of them will do, and a command of your own as well.
    pub agents: Vec<Seen>,
}

impl Examination {
    pub fn holds(&self) -> bool {
        self.examined.iter().all(|one| one.fine)
    }
}

pub async fn examine(surroundings: &Surroundings, directory: &Path) -> Examination {
    let mut examined = Vec::new();
    let mut say = |what, found: Result<String, String>| {
        let (fine, found) = match found {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        examined.push(Examined { what, fine, found });
    };
    say("git", version(surroundings, directory).await);
    say("repository", repository(surroundings, directory).await);
    say("database", database(surroundings).await);
    say("data", Ok(surroundings.data_dir.display().to_string()));
    say("disk", disk(&surroundings.data_dir));
    say("sandbox", confinement::examine(surroundings).await);
    Examination {
        examined,
        agents: agents::look(surroundings, directory).await,
    }
}

async fn version(surroundings: &Surroundings, directory: &Path) -> Result<String, String> {
    let tool = git_tool(surroundings, directory).map_err(|failure| failure.message)?;
    tool.version().await.map_err(|error| error.to_string())
}

async fn repository(surroundings: &Surroundings, directory: &Path) -> Result<String, String> {
    let git = open(surroundings, directory).await;
    let git = git.map_err(|failure| failure.message)?;
    Ok(git.common_dir().display().to_string())
}

async fn database(surroundings: &Surroundings) -> Result<String, String> {
    let office = Office::open(surroundings.clone()).await;
    let office = office.map_err(|failure| failure.message)?;
    let described = office.desk.store.describe().await;
    described.map_err(|error| error.to_string())
}

fn disk(data_dir: &Path) -> Result<String, String> {
    let free = engine::process::free_bytes(data_dir)
        .map_err(|error| format!("{}: {error}", data_dir.display()))?;
    let found = format!("{} MiB free", free >> 20);
    if free >= DISK_BYTES_MIN {
        Ok(found)
    } else {
        Err(format!("{found}; make room, or use another --data-dir"))
    }
}

/// In a sentence, for people.
pub fn describe(seen: &Seen) -> String {
    let mut parts = Vec::new();
    match (&seen.version, &seen.path) {
        (Some(version), Some(path)) => parts.push(format!("{version} at {}", path.display())),
        (None, Some(path)) => parts.push(path.display().to_string()),
        (_, None) => parts.push("not installed".to_owned()),
    }
    if !seen.missing_flags.is_empty() {
        parts.push(format!("has no {}", seen.missing_flags.join(", ")));
    }
    if seen.path.is_some() {
        parts.push(match &seen.login {
            Some(login) => format!("login by {login}"),
            None => "no login found".to_owned(),
        });
    }
    parts.extend(seen.advice.iter().cloned());
    parts.join("; ")
}

/// Whether it could be used as it is.
pub fn is_ready(seen: &Seen) -> bool {
    seen.path.is_some() && seen.advice.is_empty()
}
