//! Finds the configuration files, shows the merged settings, and checks the files for problems.

use std::path::{Path, PathBuf};

use engine::git::Repository;
use flow::Policy;
use flow::policy::pattern::{self, PathPatterns};
use serde::Serialize;
use serde_json::json;

use super::{briefs, project};
use crate::failure::Failure;
use crate::settings::config_problems::{self, ConfigProblem};
use crate::settings::file::{self, NAME, ProjectSettings};
use crate::settings::layers::{self, ConfigSource, Setting};
use crate::settings::{Environment, database, read_bounded, renamed_keys};

/// Maximum number of patterns of one file that are checked.
const PATTERNS_MAX: usize = 100;
/// Number of example files for a pattern.
const EXAMPLES_MAX: usize = 3;
/// Maximum size of a configuration file.
const BYTES_MAX: usize = 1024 * 1024;

/// The files that apply, strongest first, and the base branch that they name.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    pub base: String,
    pub sources: Vec<ConfigSource>,
    pub remarks: Vec<String>,
}

/// Finds the project's file on the base branch, else in the work tree, and after it the user's own
/// file.
pub async fn find_files(
    environment: &Environment,
    git: &Repository,
    requested: Option<&str>,
) -> Result<ConfigFiles, Failure> {
    let mut remarks = Vec::new();
    let first = match requested {
        Some(base) => base.to_owned(),
        None => git.default_base().await.map_err(Failure::usage)?,
    };
    let mut source = base_branch_source(git, &first).await?;
    let configured = source.as_ref().map(named_base).transpose()?.flatten();
    let base = requested
        .map(str::to_owned)
        .or(configured)
        .unwrap_or(first.clone());
    if base != first {
        source = base_branch_source(git, &base).await?.or(source);
    }
    if source.is_none() {
        source = work_tree_source(git)?;
        if source.is_some() {
            remarks.push(format!(
                "{base} has no {NAME}; the one in your work tree is used"
            ));
        }
    }
    if let Some(source) = &source {
        reject_user_only_keys(source)?;
    }
    let sources: Vec<ConfigSource> = source
        .into_iter()
        .chain(user_source(environment)?)
        .collect();
    for source in &sources {
        remarks.extend(renamed_keys::warnings(&source.name, &source.text));
    }
    Ok(ConfigFiles {
        base,
        sources,
        remarks,
    })
}

/// Refuses keys that a repository must not set for everybody who clones it.
fn reject_user_only_keys(source: &ConfigSource) -> Result<(), Failure> {
    let project = file::read(&source.name, &source.text)?;
    match project.user_only_keys().first() {
        None => Ok(()),
        Some(what) => Err(Failure::usage(format!(
            "{}: {what} is not allowed in a project's file: a repository could act in your name or read more of your files",
            source.name
        ))
        .hint("put it into your own file, ~/.config/countersign/config.toml")),
    }
}

/// Loads the settings of the user's own file.
pub fn load_user_settings(environment: &Environment) -> Result<ProjectSettings, Failure> {
    let sources: Vec<ConfigSource> = user_source(environment)?.into_iter().collect();
    Ok(layers::combine(&sources)?.project)
}

fn named_base(source: &ConfigSource) -> Result<Option<String>, Failure> {
    Ok(file::read(&source.name, &source.text)?.base)
}

async fn base_branch_source(git: &Repository, base: &str) -> Result<Option<ConfigSource>, Failure> {
    let Ok(commit) = git.base_tip(base).await else {
        return Ok(None);
    };
    let bytes = git.file_at(&commit, NAME).await.map_err(Failure::error)?;
    let name = format!("{NAME} on {base}");
    bytes.map(|bytes| source(name, bytes)).transpose()
}

fn work_tree_source(git: &Repository) -> Result<Option<ConfigSource>, Failure> {
    let path = git.work_tree().map(|tree| tree.join(NAME));
    let path = path.filter(|path| path.is_file());
    path.map(|path| from_file(&path)).transpose()
}

fn user_source(environment: &Environment) -> Result<Option<ConfigSource>, Failure> {
    let path = environment.user_file.as_ref();
    let path = path.filter(|path| path.is_file());
    path.map(|path| from_file(path)).transpose()
}

fn from_file(path: &Path) -> Result<ConfigSource, Failure> {
    let bytes = read_bounded(path, "the configuration", BYTES_MAX)?;
    source(path.display().to_string(), bytes)
}

fn source(name: String, bytes: Vec<u8>) -> Result<ConfigSource, Failure> {
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not text")))?;
    Ok(ConfigSource { name, text })
}

/// Lists all settings with their origins. Outside a repository only the user's own file applies.
pub async fn show(
    environment: &Environment,
    directory: &Path,
    requested: Option<&str>,
) -> Result<(Vec<Setting>, Vec<String>), Failure> {
    let mut settings = environment_settings(environment);
    let (base, files) = match project::open_repository(environment, directory).await {
        Ok(git) => {
            let files = find_files(environment, &git, requested).await?;
            let remarks = files.remarks;
            (Some(files.base), (files.sources, remarks))
        }
        Err(failure) => {
            let user_file = user_source(environment)?;
            (
                None,
                (user_file.into_iter().collect(), vec![failure.message]),
            )
        }
    };
    let (sources, remarks) = files;
    let layered = layers::combine(&sources)?;
    let origin = match (requested, &layered.project.base) {
        (Some(_), _) => "flag",
        (None, Some(_)) => NAME,
        (None, None) => "found",
    };
    settings.push(Setting {
        key: "base".to_owned(),
        value: json!(base),
        origin: origin.to_owned(),
    });
    settings.extend(layered.settings());
    Ok((settings, remarks))
}

fn environment_settings(environment: &Environment) -> Vec<Setting> {
    let origins = environment.origins;
    let setting = |key: &str, value: String, origin: &str| Setting {
        key: key.to_owned(),
        value: json!(value),
        origin: origin.to_owned(),
    };
    vec![
        setting(
            "data_dir",
            environment.data_dir.display().to_string(),
            origins.data_dir,
        ),
        setting(
            "database",
            database::without_password(&environment.database()),
            origins.database,
        ),
        setting("person", environment.person.clone(), origins.person),
    ]
}

/// A checked file with its problems.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedConfigFile {
    pub name: String,
    pub problems: Vec<ConfigProblem>,
    /// Keys that have a new name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Path patterns of its policy, with the files of the base branch that each matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<PatternUse>,
}

/// A path pattern, and the files that it matches.
#[derive(Clone, Debug, Serialize)]
pub struct PatternUse {
    /// `protected`, or `reviewers.NAME.paths`.
    pub key: String,
    pub pattern: String,
    pub files: usize,
    /// The first few of them.
    pub examples: Vec<String>,
    /// Likely mistake in the pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Checks the named files, else all that apply here and the one in the work tree.
pub async fn check(
    environment: &Environment,
    directory: &Path,
    files: &[PathBuf],
) -> Result<Vec<CheckedConfigFile>, Failure> {
    let sources = if files.is_empty() {
        all_sources(environment, directory).await?
    } else {
        let read = files.iter().map(|path| from_file(&directory.join(path)));
        read.collect::<Result<_, _>>()?
    };
    let user_file = environment.user_file.as_ref();
    let user_file = user_file.map(|path| path.display().to_string());
    let tracked = tracked_files(environment, directory).await;
    let mut checked: Vec<CheckedConfigFile> = sources
        .iter()
        .map(|source| {
            let is_user_file = user_file.as_ref() == Some(&source.name);
            let mut problems = config_problems::find_problems(&source.text);
            let read = file::read(&source.name, &source.text).ok();
            let user_keys = read.as_ref().map(ProjectSettings::user_only_keys);
            for what in user_keys.into_iter().flatten().filter(|_| !is_user_file) {
                problems.push(config_problems::user_only_problem(&source.text, what));
            }
            let patterns = match (&read, &tracked) {
                (Some(project), Some((base, files))) => pattern_uses(&project.policy, base, files),
                _ => Vec::new(),
            };
            CheckedConfigFile {
                problems,
                warnings: renamed_keys::warnings(&source.name, &source.text),
                name: source.name.clone(),
                patterns,
            }
        })
        .collect();
    for (source, checked) in sources.iter().zip(&mut checked) {
        let missing = missing_briefs(environment, directory, source).await?;
        checked.problems.extend(missing);
    }
    Ok(checked)
}

/// Lists `[briefs]` files that are missing on the base branch or cannot be used.
async fn missing_briefs(
    environment: &Environment,
    directory: &Path,
    source: &ConfigSource,
) -> Result<Vec<ConfigProblem>, Failure> {
    let read = file::read(&source.name, &source.text).ok();
    let git = project::open_repository(environment, directory).await.ok();
    let (Some(read), Some(git)) = (read, git) else {
        return Ok(Vec::new());
    };
    let base = match read.base {
        Some(base) => base,
        None => git.default_base().await.map_err(Failure::usage)?,
    };
    if git.base_tip(&base).await.is_err() {
        return Ok(Vec::new());
    }
    let problems = briefs::problems(&git, &base, &read.briefs).await?;
    let located = problems.iter().map(|problem| {
        let message = format!("[briefs] {}: {}", problem.role, problem.message);
        config_problems::brief_problem(&source.text, problem.role, &message, &problem.hint)
    });
    Ok(located.collect())
}

/// Returns the base branch and its files, if there is a repository with one.
async fn tracked_files(
    environment: &Environment,
    directory: &Path,
) -> Option<(String, Vec<String>)> {
    let git = project::open_repository(environment, directory)
        .await
        .ok()?;
    let base = git.default_base().await.ok()?;
    let commit = git.base_tip(&base).await.ok()?;
    let files = git.files_at(&commit).await.ok()?;
    Some((base, files))
}

/// Matches each pattern of a policy with the files.
fn pattern_uses(policy: &Policy, base: &str, files: &[String]) -> Vec<PatternUse> {
    let protected = policy.protected.iter();
    let protected = protected.map(|pattern| ("protected".to_owned(), pattern));
    let reviewers = policy.reviewers.iter().flat_map(|reviewer| {
        let key = format!("reviewers.{}.paths", reviewer.name);
        reviewer
            .paths
            .iter()
            .map(move |pattern| (key.clone(), pattern))
    });
    protected
        .chain(reviewers)
        .take(PATTERNS_MAX)
        .map(|(key, pattern)| pattern_use(key, pattern, base, files))
        .collect()
}

fn pattern_use(key: String, pattern: &str, base: &str, files: &[String]) -> PatternUse {
    let list = PathPatterns::new([&pattern.trim_start_matches('!').to_owned()]);
    let protected = key == "protected";
    let is_match = |file: &&String| {
        if protected {
            list.protects(file)
        } else {
            list.matches(file)
        }
    };
    let matched: Vec<&String> = files.iter().filter(is_match).collect();
    let missed = files.iter().find(|file| {
        protected && !is_match(file) && pattern::matches_across_slashes(pattern, file)
    });
    let warning = if matched.is_empty() {
        Some(format!("it matches no file of {base}"))
    } else {
        missed.map(|file| {
            format!("it does not match {file}: `*` stays inside a directory, `**/` goes deeper")
        })
    };
    PatternUse {
        files: matched.len(),
        examples: matched.into_iter().take(EXAMPLES_MAX).cloned().collect(),
        key,
        pattern: pattern.to_owned(),
        warning,
    }
}

async fn all_sources(
    environment: &Environment,
    directory: &Path,
) -> Result<Vec<ConfigSource>, Failure> {
    let mut sources = Vec::new();
    if let Ok(git) = project::open_repository(environment, directory).await {
        let base = git.default_base().await.map_err(Failure::usage)?;
        let committed = base_branch_source(&git, &base).await?;
        let in_work_tree = work_tree_source(&git)?;
        let changed = in_work_tree.filter(|in_work_tree| {
            committed
                .as_ref()
                .is_none_or(|committed| committed.text != in_work_tree.text)
        });
        sources.extend(committed.into_iter().chain(changed));
    }
    sources.extend(user_source(environment)?);
    Ok(sources)
}
