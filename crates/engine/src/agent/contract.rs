//! Provides the directories, files and variables that every agent gets: contract version 2
//! (docs/agents.md).

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{AgentAssignment, Error, Invocation};
use crate::agent_home;
use crate::private_files;
use crate::redact::Redactor;

/// Version of the contract between Countersign and agents.
pub const CONTRACT: &str = "2";

/// Maximum size of a result file that is read.
const RESULT_MAX: usize = 16 << 20;

/// Returns the path of the brief, for agents that read it from a file.
pub fn brief_file(assignment: &AgentAssignment) -> PathBuf {
    assignment.scratch.join("brief.md")
}

/// Returns the path of the change as one diff, next to the checkout.
pub fn diff_file(change: &Path) -> PathBuf {
    change.with_extension("diff")
}

/// Returns the path of the usage file, for agents that write one.
pub(super) fn usage_file(assignment: &AgentAssignment) -> PathBuf {
    assignment.scratch.join("accounts.json")
}

/// Creates the directories and files of a run, and removes answers of an earlier attempt, which
/// would be taken for this run's.
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
        private_files::make_dir(dir).map_err(failed(dir))?;
    }
    for answer in [&assignment.result_file, &usage_file(assignment)] {
        match fs::remove_file(answer) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(answer)(error));
            }
            _ => {}
        }
    }
    let brief = (brief_file(assignment), assignment.brief.clone());
    for (path, text) in invocation.files.iter().chain([&brief]) {
        // An earlier run of the agent could write in both directories, so their content is
        // untrusted.
        let own = [&assignment.home, &assignment.scratch];
        let own = own.into_iter().find(|dir| path.starts_with(dir));
        let own = own.unwrap_or(&assignment.scratch);
        agent_home::write(own, path, text).map_err(failed(path))?;
    }
    Ok(())
}

/// Returns the environment of contract version 2.
pub(super) fn environment(assignment: &AgentAssignment) -> Vec<(OsString, OsString)> {
    let mut env = assignment.env.clone();
    let mut set = |name: &str, value: OsString| {
        env.retain(|(existing, _)| existing != name);
        env.push((name.into(), value));
    };
    let facts = &assignment.facts;
    for (name, value) in agent_home::variables(&assignment.home) {
        set(name, value);
    }
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
        // Outside of the checkout, git must not find a foreign repository in a parent directory.
        if let Some(above) = change.parent().and_then(Path::parent) {
            set("GIT_CEILING_DIRECTORIES", above.into());
        }
    }
    if let Some(copy) = &assignment.copy {
        set("COUNTERSIGN_COPY", copy.into());
    }
    env
}

/// Returns the paths of the names that do not exist yet.
pub(super) fn missing_names(dir: &Path, names: &[&str]) -> Vec<PathBuf> {
    let paths = names.iter().map(|name| dir.join(name));
    paths
        .filter(|path| path.symlink_metadata().is_err())
        .collect()
}

/// Removes the paths that exist now. It removes links without following them.
pub(super) fn remove_leftovers(paths: &[PathBuf]) -> Result<(), Error> {
    for path in paths.iter().filter(|path| path.symlink_metadata().is_ok()) {
        let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let result = if is_dir {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        result.map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Reads a file up to the limit. It does not follow a link, which could lead to a file that only
/// we may read.
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

/// Removes secrets from the answer, and rewrites the result file if it contained one.
pub(super) fn redact_answer(
    assignment: &AgentAssignment,
    answer: Option<String>,
    redactor: &Redactor,
) -> Result<Option<String>, Error> {
    let Some(answer) = answer else {
        return Ok(None);
    };
    make_private(&assignment.result_file);
    let masked = redactor.redact_text(answer.clone());
    if masked != answer {
        let path = &assignment.result_file;
        let own = path.parent().unwrap_or(&assignment.scratch);
        agent_home::write(own, path, &masked).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
    }
    Ok(Some(masked))
}

/// Restricts the mode of a file that the agent created under its own umask. A file with another
/// hard link is left alone, because it may be someone else's.
fn make_private(path: &Path) {
    let nofollow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(nofollow.bits()).unwrap_or_default();
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path);
    if let Ok(file) = opened
        && file
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.nlink() == 1)
    {
        // If this fails, the mode of its directory still protects it.
        let _ = file.set_permissions(fs::Permissions::from_mode(private_files::FILE_MODE));
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
        let litter = missing_names(dir.path(), &["kept", "cache", "link", "nothing"]);
        fs::create_dir_all(at("cache/deep")).unwrap();
        std::os::unix::fs::symlink(at("kept"), at("link")).unwrap();
        remove_leftovers(&litter).unwrap();
        assert!(at("kept").is_dir());
        assert!(!at("cache").exists() && at("link").symlink_metadata().is_err());
    }
}
