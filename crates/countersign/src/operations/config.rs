//! Which configuration files there are, what they come to, and what is wrong with them.

use std::path::{Path, PathBuf};

use engine::git::Repository;
use serde::Serialize;
use serde_json::json;

use super::project;
use crate::failure::Failure;
use crate::settings::file::{self, NAME, Project};
use crate::settings::layers::{self, Setting, Source};
use crate::settings::trouble::{self, Problem};
use crate::settings::{Surroundings, read_bounded};

/// A larger file is no configuration.
const BYTES_MAX: usize = 1024 * 1024;

/// The files that count here, the strongest first, and the base branch they name.
#[derive(Clone, Debug)]
pub struct Found {
    pub base: String,
    pub sources: Vec<Source>,
    pub remarks: Vec<String>,
}

/// On the base branch, else in the person's own work tree; below either, the user's own file.
pub async fn find(
    surroundings: &Surroundings,
    git: &Repository,
    asked: Option<&str>,
) -> Result<Found, Failure> {
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
    Ok(Found {
        base,
        sources: sources.collect(),
        remarks,
    })
}

/// What a repository may not ask for, whoever cloned it.
fn must_be_a_projects(source: &Source) -> Result<(), Failure> {
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
pub fn own(surroundings: &Surroundings) -> Result<Project, Failure> {
    let sources: Vec<Source> = users_own(surroundings)?.into_iter().collect();
    Ok(layers::combine(&sources)?.project)
}

fn named_base(source: &Source) -> Result<Option<String>, Failure> {
    Ok(file::read(&source.name, &source.text)?.base)
}

async fn on_base(git: &Repository, base: &str) -> Result<Option<Source>, Failure> {
    let Ok(commit) = git.base(base).await else {
        return Ok(None);
    };
    let bytes = git.file_at(&commit, NAME).await.map_err(Failure::error)?;
    let name = format!("{NAME} on {base}");
    bytes.map(|bytes| source(name, bytes)).transpose()
}

fn in_work_tree(git: &Repository) -> Result<Option<Source>, Failure> {
    let path = git.work_tree().map(|tree| tree.join(NAME));
    let path = path.filter(|path| path.is_file());
    path.map(|path| from_file(&path)).transpose()
}

fn users_own(surroundings: &Surroundings) -> Result<Option<Source>, Failure> {
    let path = surroundings.user_file.as_ref();
    let path = path.filter(|path| path.is_file());
    path.map(|path| from_file(path)).transpose()
}

fn from_file(path: &Path) -> Result<Source, Failure> {
    let bytes = read_bounded(path, "the configuration", BYTES_MAX)?;
    source(path.display().to_string(), bytes)
}

fn source(name: String, bytes: Vec<u8>) -> Result<Source, Failure> {
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not text")))?;
    Ok(Source { name, text })
}

/// Everything that is configured here; outside of a repository, what the user's own file says.
pub async fn show(
    surroundings: &Surroundings,
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

fn of_surroundings(surroundings: &Surroundings) -> Vec<Setting> {
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
pub struct Checked {
    pub name: String,
    pub problems: Vec<Problem>,
}

/// Looks at the named files, else at all that count here and the one in the work tree.
pub async fn check(
    surroundings: &Surroundings,
    directory: &Path,
    files: &[PathBuf],
) -> Result<Vec<Checked>, Failure> {
    let sources = if files.is_empty() {
        all_here(surroundings, directory).await?
    } else {
        let read = files.iter().map(|path| from_file(&directory.join(path)));
        read.collect::<Result<_, _>>()?
    };
    Ok(sources
        .into_iter()
        .map(|source| Checked {
            problems: trouble::find(&source.text),
            name: source.name,
        })
        .collect())
}

async fn all_here(surroundings: &Surroundings, directory: &Path) -> Result<Vec<Source>, Failure> {
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
