//! Turns the files of an agent framework into settings of this project and of the user, and writes
//! them if asked.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::project;
use crate::failure::Failure;
use crate::settings::config_merge::{MergedConfig, ProposedSetting, merge};
use crate::settings::file::NAME;
use crate::settings::import::ImportReport;
use crate::settings::import::agent_framework::{self, FrameworkProposal};
use crate::settings::{Environment, read_bounded};

/// Maximum size of a configuration file.
const CONFIG_BYTES_MAX: usize = 1 << 20;

/// The configuration that imported files become.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedConfig {
    /// The project's file, and the user's own; a file without new settings is not listed.
    pub files: Vec<ConfigChange>,
    /// Commands that serve the queues.
    pub workers: Vec<String>,
    pub report: ImportReport,
}

/// A configuration file with the imported settings.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigChange {
    pub file: PathBuf,
    /// False if the file is new.
    pub exists: bool,
    pub settings: Vec<ProposedSetting>,
    #[serde(flatten)]
    pub merged: MergedConfig,
}

/// Reads the files and proposes the configuration for the project in the directory.
pub async fn propose(
    environment: &Environment,
    directory: &Path,
    files: &[(String, Vec<u8>)],
) -> Result<ImportedConfig, Failure> {
    let FrameworkProposal {
        project,
        user,
        workers,
        report,
    } = agent_framework::propose(files)?;
    let git = project::open_repository(environment, directory).await?;
    let Some(root) = git.work_tree() else {
        return Err(
            Failure::usage("this repository has no work tree to write into")
                .hint("run it in a clone"),
        );
    };
    let mut changes = vec![change(root.join(NAME), project)?];
    match &environment.user_file {
        Some(file) => changes.push(change(file.clone(), user)?),
        None if user.is_empty() => {}
        None => {
            return Err(Failure::usage(
                "no place for your own settings: HOME and XDG_CONFIG_HOME are not set",
            ));
        }
    }
    changes.retain(|change| !change.settings.is_empty());
    Ok(ImportedConfig {
        files: changes,
        workers,
        report,
    })
}

fn change(file: PathBuf, settings: Vec<ProposedSetting>) -> Result<ConfigChange, Failure> {
    let name = file.display().to_string();
    let exists = file.exists();
    let text = if exists {
        let bytes = read_bounded(&file, "the configuration", CONFIG_BYTES_MAX)?;
        if bytes.len() > CONFIG_BYTES_MAX {
            return Err(Failure::usage(format!("{name} is larger than 1 MiB")));
        }
        String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{name} is not text in UTF-8")))?
    } else {
        String::new()
    };
    Ok(ConfigChange {
        merged: merge(&name, &text, &settings)?,
        file,
        exists,
        settings,
    })
}

/// Writes the files that get new settings.
pub fn write(config: &ImportedConfig) -> Result<(), Failure> {
    for change in &config.files {
        if !change.merged.added.is_empty() {
            write_file(change).map_err(|error| {
                Failure::error(format!(
                    "{} cannot be written: {error}",
                    change.file.display()
                ))
            })?;
        }
    }
    Ok(())
}

fn write_file(change: &ConfigChange) -> std::io::Result<()> {
    // A configuration that is a symbolic link stays one.
    let path = change
        .file
        .canonicalize()
        .unwrap_or_else(|_| change.file.clone());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // Written under another name and renamed, so that a crash leaves the old file whole.
    let part = path.with_extension("toml.part");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&part)?;
    let written = file
        .write_all(change.merged.text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| match std::fs::metadata(&path) {
            Ok(old) => std::fs::set_permissions(&part, old.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| std::fs::rename(&part, &path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&part);
    }
    written
}
