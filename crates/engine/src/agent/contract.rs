//! What every agent is given, whatever it is: contract version 1, see docs/agents.md.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Assignment, Error, Invocation};
use crate::own_home;

/// The version of what an agent is given and may answer.
pub const CONTRACT: &str = "1";

/// How much of a result file is read.
const RESULT_MAX: usize = 16 << 20;

/// The brief's place, for agents that read it from a file.
pub fn brief_file(assignment: &Assignment) -> PathBuf {
    assignment.scratch.join("brief.md")
}

/// Directories that must be there, and a result that must not: one of an
/// earlier attempt would be taken for this one's.
pub(super) fn prepare(assignment: &Assignment, invocation: &Invocation) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    };
    let parent = assignment
        .result_file
        .parent()
        .unwrap_or(&assignment.scratch);
    for dir in [
        &assignment.home,
        &assignment.scratch.join("tmp"),
        &parent.to_owned(),
    ] {
        fs::create_dir_all(dir).map_err(failed(dir))?;
    }
    match fs::remove_file(&assignment.result_file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed(&assignment.result_file)(error));
        }
        _ => {}
    }
    let brief = (brief_file(assignment), assignment.brief.clone());
    for (path, text) in invocation.files.iter().chain([&brief]) {
        // Both were the agent's own, if it was started here before.
        let own = [&assignment.home, &assignment.scratch];
        let own = own.into_iter().find(|dir| path.starts_with(dir));
        let own = own.unwrap_or(&assignment.scratch);
        own_home::write(own, path, text).map_err(failed(path))?;
    }
    Ok(())
}

/// The environment of contract version 1.
pub(super) fn environment(assignment: &Assignment) -> Vec<(OsString, OsString)> {
    let mut env = assignment.env.clone();
    let mut set = |name: &str, value: OsString| {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value));
    };
    let facts = &assignment.facts;
    set("HOME", assignment.home.clone().into());
    set("TMPDIR", assignment.scratch.join("tmp").into());
    set("COUNTERSIGN_CONTRACT", CONTRACT.into());
    set("COUNTERSIGN_ROLE", assignment.role.as_str().into());
    set("COUNTERSIGN_TICKET", assignment.ticket.clone().into());
    set("COUNTERSIGN_ROUND", assignment.round.to_string().into());
    set("COUNTERSIGN_SLOT", assignment.slot.to_string().into());
    set("COUNTERSIGN_BRIEF_FILE", brief_file(assignment).into());
    set(
        "COUNTERSIGN_RESULT_FILE",
        assignment.result_file.clone().into(),
    );
    let optional = [
        ("COUNTERSIGN_COMMIT", &facts.commit),
        ("COUNTERSIGN_BASE", &facts.base),
        ("COUNTERSIGN_BRANCH", &facts.branch),
        ("COUNTERSIGN_MODEL", &assignment.model),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            set(name, value.into());
        }
    }
    if let Some(copy) = &assignment.copy {
        set("COUNTERSIGN_COPY", copy.into());
    }
    env
}

/// A link is not followed: it could lead to a file that only we may read.
pub(super) fn read_result(path: &Path) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(RESULT_MAX as u64)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{FFFD}");
    (!text.trim().is_empty()).then_some(text)
}
