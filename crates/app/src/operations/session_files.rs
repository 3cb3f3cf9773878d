//! Installs Countersign into the agent sessions of a person: a skill or command that runs a review,
//! and hooks that review at the end of each turn. A settings file keeps everything else in it, a
//! file that is not ours is never changed, and no link is followed.

mod settings_merge;
mod texts;

use std::path::{Path, PathBuf};

use engine::linkless_files::LinklessPath;
use serde::Serialize;

use super::agent_files::{
    self, AgentFile, FILE_MODE, InstallScope, MARKER_TEXT, cannot_write, foreign_file_error,
    refusal_kind,
};
use super::hooks::join_words;
use super::session_hook::SessionCli;
use crate::failure::{ExitKind, Failure};
use crate::settings::{Environment, agent_settings_dir};
use settings_merge::CommandHook;

/// Time limit that we set for a hook, in seconds. Ours is shorter, so that the message is ours.
const HOOK_TIMEOUT_SECS: u32 = 600;

/// Selection of what to install.
#[derive(Clone, Debug)]
pub struct SessionInstall {
    pub clis: Vec<SessionCli>,
    pub scope: InstallScope,
    /// Whether the hooks are installed in addition to the skill or command.
    pub hooks: bool,
    /// Flags of `review` in the hook's command.
    pub review_flags: Vec<String>,
}

/// Kind of a change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    Write,
    /// Our hooks are added to a settings file, or taken out of it.
    Change,
    Remove,
    Keep,
}

/// A change of one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileChange {
    #[serde(flatten)]
    pub file: AgentFile,
    pub action: FileAction,
}

/// Everything that an installation or a removal does.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    pub changes: Vec<FileChange>,
    /// Sentences for the person: what the CLI needs in addition, and what it cannot do.
    pub notes: Vec<String>,
}

/// Plans an installation. Nothing is written.
pub async fn plan_install(
    environment: &Environment,
    directory: &Path,
    install: &SessionInstall,
) -> Result<SessionPlan, Failure> {
    let root = agent_files::install_root(environment, directory, install.scope).await?;
    let mut plan = SessionPlan {
        changes: Vec::new(),
        notes: Vec::new(),
    };
    for cli in &install.clis {
        let places = CliPlaces::new(*cli, &root, install.scope);
        for file in places.own_files(install.hooks, &install.review_flags) {
            plan.changes.push(plan_own_file(file)?);
        }
        if let (true, Some(settings)) = (install.hooks, places.settings_file()) {
            plan.changes
                .push(plan_settings(settings, *cli, &install.review_flags)?);
        }
        if install.hooks {
            plan.notes
                .extend(texts::note(*cli, install.scope).map(str::to_owned));
        }
    }
    Ok(plan)
}

/// Plans the removal of everything of ours. Nothing is written.
pub async fn plan_removal(
    environment: &Environment,
    directory: &Path,
    clis: &[SessionCli],
    scope: InstallScope,
) -> Result<SessionPlan, Failure> {
    let root = agent_files::install_root(environment, directory, scope).await?;
    let mut plan = SessionPlan {
        changes: Vec::new(),
        notes: Vec::new(),
    };
    for cli in clis {
        let places = CliPlaces::new(*cli, &root, scope);
        for file in places.own_files(true, &[]) {
            match read(&file)? {
                Some(text) if text.contains(MARKER_TEXT) => plan.changes.push(FileChange {
                    file,
                    action: FileAction::Remove,
                }),
                Some(_) => plan.notes.push(format!(
                    "{} was not written by Countersign; it is left as it is",
                    file.path.display()
                )),
                None => {}
            }
        }
        if let Some(settings) = places.settings_file() {
            plan.changes.extend(plan_settings_removal(settings, *cli)?);
        }
    }
    Ok(plan)
}

/// Carries out a plan.
pub fn apply(plan: &SessionPlan) -> Result<(), Failure> {
    for FileChange { file, action } in &plan.changes {
        let place = file.place();
        let done = match action {
            FileAction::Keep => Ok(()),
            FileAction::Remove => place.remove_with_empty_parents(),
            FileAction::Write => place.write(&file.text, FILE_MODE),
            FileAction::Change => place.write(&file.text, mode_of(&place)),
        };
        done.map_err(|error| write_error(file, &error))?;
    }
    Ok(())
}

/// Returns the mode of a settings file, which may have secrets in it and be closed to others.
fn mode_of(place: &LinklessPath<'_>) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::symlink_metadata(place.path());
    metadata.map_or(FILE_MODE, |metadata| metadata.permissions().mode() & 0o777)
}

fn read(file: &AgentFile) -> Result<Option<String>, Failure> {
    file.place()
        .read()
        .map_err(|error| write_error(file, &error))
}

fn write_error(file: &AgentFile, error: &std::io::Error) -> Failure {
    Failure::new(refusal_kind(error), cannot_write(&file.path, error))
        .hint("print the files with --dry-run, and put them where you want them")
}

fn plan_own_file(file: AgentFile) -> Result<FileChange, Failure> {
    let action = match read(&file)? {
        None => FileAction::Write,
        Some(text) if text == file.text => FileAction::Keep,
        Some(text) if text.contains(MARKER_TEXT) => FileAction::Write,
        Some(_) => return Err(foreign_file_error(&file.path)),
    };
    Ok(FileChange { file, action })
}

fn plan_settings(
    file: AgentFile,
    cli: SessionCli,
    flags: &[String],
) -> Result<FileChange, Failure> {
    let old = read(&file)?;
    let hooks = command_hooks(cli, flags);
    let merged = settings_merge::add_hooks(
        old.as_deref(),
        &hooks,
        &command_prefix(cli),
        flags.is_empty(),
    );
    let text = merged.map_err(|reason| settings_error(&file.path, &reason))?;
    let action = match old {
        None => FileAction::Write,
        Some(old) if old == text => FileAction::Keep,
        Some(_) => FileAction::Change,
    };
    Ok(FileChange {
        file: AgentFile { text, ..file },
        action,
    })
}

fn plan_settings_removal(file: AgentFile, cli: SessionCli) -> Result<Option<FileChange>, Failure> {
    let Some(old) = read(&file)? else {
        return Ok(None);
    };
    let (events, prefix) = (cli.events(), command_prefix(cli));
    // A file without our command needs no reading, and may be of any form.
    if !old.contains(&prefix) {
        return Ok(None);
    }
    let left = settings_merge::remove_hooks(&old, &events, &prefix);
    let left = left.map_err(|reason| settings_error(&file.path, &reason))?;
    Ok(match left {
        None => Some(FileChange {
            file,
            action: FileAction::Remove,
        }),
        Some(text) if text == old => None,
        Some(text) => Some(FileChange {
            file: AgentFile { text, ..file },
            action: FileAction::Change,
        }),
    })
}

fn settings_error(path: &Path, reason: &str) -> Failure {
    Failure::new(
        ExitKind::Refused,
        format!(
            "{} cannot be understood: {reason}; it is left as it is",
            path.display()
        ),
    )
    .hint("correct the file, or leave out the hooks with --no-hooks")
}

fn command_prefix(cli: SessionCli) -> String {
    format!("countersign review --hook {}", cli.name())
}

fn command_hooks(cli: SessionCli, flags: &[String]) -> Vec<CommandHook> {
    let command = format!("{}{}", command_prefix(cli), join_words(flags));
    let timeout = match cli {
        SessionCli::Gemini => HOOK_TIMEOUT_SECS * 1_000,
        SessionCli::Claude | SessionCli::Codex | SessionCli::OpenCode => HOOK_TIMEOUT_SECS,
    };
    let hook = |event| CommandHook {
        event,
        command: command.clone(),
        timeout,
    };
    cli.events().map(hook).to_vec()
}

/// Directories of one CLI.
struct CliPlaces {
    cli: SessionCli,
    root: PathBuf,
    /// Directory of the CLI's settings below the root.
    settings: PathBuf,
    /// Root for files that several CLIs share.
    shared_root: PathBuf,
}

impl CliPlaces {
    fn new(cli: SessionCli, root: &Path, scope: InstallScope) -> Self {
        let (variable, project, user) = match cli {
            SessionCli::Claude => (Some("CLAUDE_CONFIG_DIR"), ".claude", ".claude"),
            SessionCli::Codex => (Some("CODEX_HOME"), ".codex", ".codex"),
            SessionCli::Gemini => (None, ".gemini", ".gemini"),
            SessionCli::OpenCode => (None, ".opencode", ".config/opencode"),
        };
        let (place, settings) = match scope {
            InstallScope::Project => (root.to_owned(), PathBuf::from(project)),
            InstallScope::User => match variable.and_then(agent_settings_dir) {
                Some(dir) => (dir, PathBuf::new()),
                None => (root.to_owned(), PathBuf::from(user)),
            },
        };
        Self {
            cli,
            root: place,
            settings,
            shared_root: root.to_owned(),
        }
    }

    fn file(&self, name: &str, text: String) -> AgentFile {
        AgentFile {
            path: self.root.join(&self.settings).join(name),
            text,
            root: self.root.clone(),
        }
    }

    /// Returns the files that are ours as a whole.
    fn own_files(&self, hooks: bool, flags: &[String]) -> Vec<AgentFile> {
        match self.cli {
            SessionCli::Claude => {
                let mut files = agent_files::claude_agents(&self.root, &self.settings);
                files.push(self.file("skills/countersign/SKILL.md", texts::skill()));
                files
            }
            SessionCli::Codex => vec![AgentFile {
                path: self.shared_root.join(".agents/skills/countersign/SKILL.md"),
                text: texts::skill(),
                root: self.shared_root.clone(),
            }],
            SessionCli::Gemini => {
                vec![self.file("commands/countersign.toml", texts::gemini_command())]
            }
            SessionCli::OpenCode => {
                let command = self.file("command/countersign.md", texts::opencode_command());
                let plugin = self.file("plugin/countersign.js", texts::opencode_plugin(flags));
                let plugin = hooks.then_some(plugin);
                std::iter::once(command).chain(plugin).collect()
            }
        }
    }

    /// Returns the settings file with the hooks; `OpenCode` has a plugin instead.
    fn settings_file(&self) -> Option<AgentFile> {
        match self.cli {
            SessionCli::Claude | SessionCli::Gemini => {
                Some(self.file("settings.json", String::new()))
            }
            SessionCli::Codex => Some(self.file("hooks.json", String::new())),
            SessionCli::OpenCode => None,
        }
    }
}
