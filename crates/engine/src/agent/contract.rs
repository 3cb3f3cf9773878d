//! What every agent is given, whatever it is: contract version 2, see docs/agents.md.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{AgentAssignment, Error, Invocation};
use crate::own_home;
use crate::private;
use crate::redact::Redactor;

/// The version of what an agent is given and may answer.
pub const CONTRACT: &str = "2";

/// How much of a result file is read.
const RESULT_MAX: usize = 16 << 20;

/// The brief's place, for agents that read it from a file.
pub fn brief_file(assignment: &AgentAssignment) -> PathBuf {
    assignment.scratch.join("brief.md")
}

/// Where a judge finds the change as one diff: beside its checkout.
pub fn diff_file(change: &Path) -> PathBuf {
    change.with_extension("diff")
}

/// Where an agent may leave what it spent, if it wants a file for it.
pub(super) fn accounts_file(assignment: &AgentAssignment) -> PathBuf {
    assignment.scratch.join("accounts.json")
}

/// Directories that must be there, and answers that must not: those of an
/// earlier attempt would be taken for this one's.
pub(super) fn prepare(assignment: &AgentAssignment, invocation: &Invocation) -> Result<(), Error> {
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
        private::make_dir(dir).map_err(failed(dir))?;
    }
    for answer in [&assignment.result_file, &accounts_file(assignment)] {
        match fs::remove_file(answer) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(answer)(error));
            }
            _ => {}
        }
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

/// The environment of contract version 2.
pub(super) fn environment(assignment: &AgentAssignment) -> Vec<(OsString, OsString)> {
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
    set("COUNTERSIGN_QUESTION", facts.question.as_str().into());
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
    if let Some(change) = &assignment.change {
        set("COUNTERSIGN_CHANGE", change.into());
        // Beside the change git finds no repository of somebody else's further up.
        if let Some(above) = change.parent().and_then(Path::parent) {
            set("GIT_CEILING_DIRECTORIES", above.into());
        }
    }
    if let Some(copy) = &assignment.copy {
        set("COUNTERSIGN_COPY", copy.into());
    }
    env
}

/// Those of the names that are not there.
pub(super) fn absent(dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    let paths = names.iter().map(|name| dir.join(name));
    paths
        .filter(|path| path.symlink_metadata().is_err())
        .collect()
}

/// Removes what has come since, links as links.
pub(super) fn sweep(paths: &[PathBuf]) -> Result<(), Error> {
    for path in paths.iter().filter(|path| path.symlink_metadata().is_ok()) {
        let is_dir = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let removed = if is_dir {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

/// A link is not followed: it could lead to a file that only we may read.
pub(super) fn read_bounded(path: &Path) -> Option<String> {
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

/// The answer without secrets; the file that held one is written again without it.
pub(super) fn without_secrets(
    assignment: &AgentAssignment,
    answer: Option<String>,
    redactor: &Redactor,
) -> Result<Option<String>, Error> {
    let Some(answer) = answer else {
        return Ok(None);
    };
    close_to_others(&assignment.result_file);
    let masked = redactor.text(answer.clone());
    if masked != answer {
        let path = &assignment.result_file;
        let own = path.parent().unwrap_or(&assignment.scratch);
        own_home::write(own, path, &masked).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(Some(masked))
}

/// The agent made it under its own umask. A file that has another name elsewhere is not ours alone.
fn close_to_others(path: &Path) {
    let nofollow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(nofollow.bits()).unwrap_or_default();
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path);
    if let Ok(file) = opened
        && file
            .metadata()
            .is_ok_and(|found| found.is_file() && found.nlink() == 1)
    {
        // Its directory is closed all the same.
        let _ = file.set_permissions(fs::Permissions::from_mode(private::FILE_MODE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litter_goes_and_what_was_there_before_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("kept")).unwrap();
        let litter = absent(dir.path(), &["kept", "cache", "link", "nothing"]);
        fs::create_dir_all(at("cache/deep")).unwrap();
        std::os::unix::fs::symlink(at("kept"), at("link")).unwrap();
        sweep(&litter).unwrap();
        assert!(at("kept").is_dir());
        assert!(!at("cache").exists() && at("link").symlink_metadata().is_err());
    }
}
