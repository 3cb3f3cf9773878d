//! Which configuration files there are, what they come to, and what is wrong with them.

use std::path::{Path, PathBuf};

use engine::git::Repository;
use flow::Policy;
use flow::policy::pattern::{self, PathPatterns};
use serde::Serialize;
use serde_json::json;

use super::{briefs, project};
use crate::failure::Failure;
use crate::settings::file::{self, NAME, ProjectSettings};
use crate::settings::layers::{self, ConfigSource, Setting};
use crate::settings::trouble::{self, ConfigProblem};
use crate::settings::{Environment, read_bounded};

/// Patterns of one file that are looked at.
const PATTERNS_MAX: usize = 100;
/// Files that are named for a pattern.
const EXAMPLES_MAX: usize = 3;
/// A larger file is no configuration.
const BYTES_MAX: usize = 1024 * 1024;

/// The files that count here, the strongest first, and the base branch they name.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    pub base: String,
    pub sources: Vec<ConfigSource>,
    pub remarks: Vec<String>,
}

/// On the base branch, else in the person's own work tree; below either, the user's own file.
pub async fn find(
    surroundings: &Environment,
    git: &Repository,
    asked: Option<&str>,
) -> Result<ConfigFiles, Failure> {
    let mut remarks = Vec::new();
    let first = match asked {
        Some(base) => base.to_owned(),
        None => git.default_base().await.map_err(Failure::usage)?,
    };
    let mut source = on_base(git, &first).await?;
    let named = source.as_ref().map(named_base).transpose()?.flatten();
    let base = asked.map(str::to_owned).or(named).unwrap_or(first.clone());
    if base != first {
        source = on_base(git, &base).await?.or(source);
    }
    if source.is_none() {
        source = in_work_tree(git)?;
        if source.is_some() {
            remarks.push(format!(
                "{base} has no {NAME}; the one in your work tree is used"
            ));
        }
    }
    if let Some(source) = &source {
        must_be_a_projects(source)?;
    }
    let sources = source.into_iter().chain(users_own(surroundings)?);
    Ok(ConfigFiles {
        base,
        sources: sources.collect(),
        remarks,
    })
}

/// What a repository may not ask for, whoever cloned it.
fn must_be_a_projects(source: &ConfigSource) -> Result<(), Failure> {
    let project = file::read(&source.name, &source.text)?;
    match project.says_what_is_the_users() {
        None => Ok(()),
        Some(what) => Err(Failure::usage(format!(
            "{}: {what} is not for a project's file: a repository would reach out in your name, or see more of your files",
            source.name
        ))
        .hint("put it into your own file, ~/.config/countersign/config.toml")),
    }
}

/// What the user's own file says.
pub fn own(surroundings: &Environment) -> Result<ProjectSettings, Failure> {
    let sources: Vec<ConfigSource> = users_own(surroundings)?.into_iter().collect();
    Ok(layers::combine(&sources)?.project)
}

fn named_base(source: &ConfigSource) -> Result<Option<String>, Failure> {
    Ok(file::read(&source.name, &source.text)?.base)
}

async fn on_base(git: &Repository, base: &str) -> Result<Option<ConfigSource>, Failure> {
    let Ok(commit) = git.base(base).await else {
        return Ok(None);
    };
    let bytes = git.file_at(&commit, NAME).await.map_err(Failure::error)?;
    let name = format!("{NAME} on {base}");
    bytes.map(|bytes| source(name, bytes)).transpose()
}

fn in_work_tree(git: &Repository) -> Result<Option<ConfigSource>, Failure> {
    let path = git.work_tree().map(|tree| tree.join(NAME));
    let path = path.filter(|path| path.is_file());
    path.map(|path| from_file(&path)).transpose()
}

fn users_own(surroundings: &Environment) -> Result<Option<ConfigSource>, Failure> {
    let path = surroundings.user_file.as_ref();
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

/// Everything that is configured here; outside of a repository, what the user's own file says.
pub async fn show(
    surroundings: &Environment,
    directory: &Path,
    asked: Option<&str>,
) -> Result<(Vec<Setting>, Vec<String>), Failure> {
    let mut settings = of_surroundings(surroundings);
    let (base, found) = match project::open(surroundings, directory).await {
        Ok(git) => {
            let found = find(surroundings, &git, asked).await?;
            let remarks = found.remarks;
            (Some(found.base), (found.sources, remarks))
        }
        Err(failure) => {
            let own = users_own(surroundings)?;
            (None, (own.into_iter().collect(), vec![failure.message]))
        }
    };
    let (sources, remarks) = found;
    let layered = layers::combine(&sources)?;
    let origin = match (asked, &layered.project.base) {
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

fn of_surroundings(surroundings: &Environment) -> Vec<Setting> {
    let origins = surroundings.origins;
    let one = |key: &str, value: String, origin: &str| Setting {
        key: key.to_owned(),
        value: json!(value),
        origin: origin.to_owned(),
    };
    vec![
        one(
            "data_dir",
            surroundings.data_dir.display().to_string(),
            origins.data_dir,
        ),
        one(
            "database",
            without_password(&surroundings.database()),
            origins.database,
        ),
        one("person", surroundings.person.clone(), origins.person),
    ]
}

/// An address as it may be shown.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => address.to_owned(),
    }
}

/// A file, and what is wrong with it.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedConfigFile {
    pub name: String,
    pub problems: Vec<ConfigProblem>,
    /// The path patterns of its policy, and what each means on the base branch today.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<PatternUse>,
}

/// A path pattern, and the files that it matches today.
#[derive(Clone, Debug, Serialize)]
pub struct PatternUse {
    /// `protected`, or `reviewers.NAME.paths`.
    pub key: String,
    pub pattern: String,
    pub files: usize,
    /// The first few of them.
    pub examples: Vec<String>,
    /// Something that the person probably did not mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Looks at the named files, else at all that count here and the one in the work tree.
pub async fn check(
    surroundings: &Environment,
    directory: &Path,
    files: &[PathBuf],
) -> Result<Vec<CheckedConfigFile>, Failure> {
    let sources = if files.is_empty() {
        all_here(surroundings, directory).await?
    } else {
        let read = files.iter().map(|path| from_file(&directory.join(path)));
        read.collect::<Result<_, _>>()?
    };
    let own = surroundings.user_file.as_ref();
    let own = own.map(|path| path.display().to_string());
    let tracked = tracked_files(surroundings, directory).await;
    let mut checked: Vec<CheckedConfigFile> = sources
        .iter()
        .map(|source| {
            let is_own = own.as_ref() == Some(&source.name);
            let mut problems = trouble::find(&source.text);
            let read = file::read(&source.name, &source.text).ok();
            let users = read
                .as_ref()
                .and_then(ProjectSettings::says_what_is_the_users);
            if let Some(what) = users.filter(|_| !is_own) {
                problems.push(trouble::of_the_users(&source.text, what));
            }
            let patterns = match (&read, &tracked) {
                (Some(project), Some((base, files))) => uses(&project.policy, base, files),
                _ => Vec::new(),
            };
            CheckedConfigFile {
                problems,
                name: source.name.clone(),
                patterns,
            }
        })
        .collect();
    for (source, checked) in sources.iter().zip(&mut checked) {
        let missing = missing_briefs(surroundings, directory, source).await?;
        checked.problems.extend(missing);
    }
    Ok(checked)
}

/// Files of `[briefs]` that the base branch does not have, or not in a form that can be used.
async fn missing_briefs(
    surroundings: &Environment,
    directory: &Path,
    source: &ConfigSource,
) -> Result<Vec<ConfigProblem>, Failure> {
    let read = file::read(&source.name, &source.text).ok();
    let git = project::open(surroundings, directory).await.ok();
    let (Some(read), Some(git)) = (read, git) else {
        return Ok(Vec::new());
    };
    let base = match read.base {
        Some(base) => base,
        None => git.default_base().await.map_err(Failure::usage)?,
    };
    if git.base(&base).await.is_err() {
        return Ok(Vec::new());
    }
    let problems = briefs::problems(&git, &base, &read.briefs).await?;
    let located = problems.iter().map(|problem| {
        let message = format!("[briefs] {}: {}", problem.role, problem.message);
        trouble::of_briefs(&source.text, problem.role, &message, &problem.hint)
    });
    Ok(located.collect())
}

/// The base branch and its files, where there is a repository with one.
async fn tracked_files(
    surroundings: &Environment,
    directory: &Path,
) -> Option<(String, Vec<String>)> {
    let git = project::open(surroundings, directory).await.ok()?;
    let base = git.default_base().await.ok()?;
    let commit = git.base(&base).await.ok()?;
    let files = git.files_at(&commit).await.ok()?;
    Some((base, files))
}

/// What each pattern of a policy means for these files.
fn uses(policy: &Policy, base: &str, files: &[String]) -> Vec<PatternUse> {
    let protected = policy.protected.iter();
    let protected = protected.map(|pattern| ("protected".to_owned(), pattern));
    let seats = policy.reviewers.iter().flat_map(|seat| {
        let key = format!("reviewers.{}.paths", seat.name);
        seat.paths.iter().map(move |pattern| (key.clone(), pattern))
    });
    protected
        .chain(seats)
        .take(PATTERNS_MAX)
        .map(|(key, pattern)| use_of(key, pattern, base, files))
        .collect()
}

fn use_of(key: String, pattern: &str, base: &str, files: &[String]) -> PatternUse {
    let list = PathPatterns::new([&pattern.trim_start_matches('!').to_owned()]);
    let protected = key == "protected";
    let means = |file: &&String| {
        if protected {
            list.protects(file)
        } else {
            list.matches(file)
        }
    };
    let matched: Vec<&String> = files.iter().filter(means).collect();
    let lost = files
        .iter()
        .find(|file| protected && !means(file) && pattern::matches_across_slashes(pattern, file));
    let warning = if matched.is_empty() {
        Some(format!("it matches no file of {base}"))
    } else {
        lost.map(|file| {
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

async fn all_here(
    surroundings: &Environment,
    directory: &Path,
) -> Result<Vec<ConfigSource>, Failure> {
    let mut sources = Vec::new();
    if let Ok(git) = project::open(surroundings, directory).await {
        let base = git.default_base().await.map_err(Failure::usage)?;
        let committed = on_base(&git, &base).await?;
        let lying = in_work_tree(&git)?;
        let changed = lying.filter(|lying| {
            committed
                .as_ref()
                .is_none_or(|committed| committed.text != lying.text)
        });
        sources.extend(committed.into_iter().chain(changed));
    }
    sources.extend(users_own(surroundings)?);
    Ok(sources)
}
