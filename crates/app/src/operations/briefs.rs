//! The project's own parts of the briefs: names of instruction files, and a text for each role.
//! Both come from the base branch, so that a change under review cannot alter what its reviewer
//! reads.

use engine::git::Repository;
use flow::brief::{INSTRUCTION_FILES, ROLE_TEXT_BYTES_MAX, RoleText, RoleTexts};

use crate::failure::Failure;
use crate::settings::file::Briefs;

/// A file of `[briefs]` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BriefProblem {
    /// The key in `[briefs]`.
    pub role: &'static str,
    pub message: String,
    pub hint: String,
}

/// Loads the names of the base branch's instruction files, and the text for each role.
pub async fn load(
    git: &Repository,
    base: &str,
    briefs: &Briefs,
) -> Result<(Vec<String>, RoleTexts), Failure> {
    let commit = git.base_tip(base).await.map_err(Failure::error)?;
    let files = git.named_files_at(&commit, &INSTRUCTION_FILES).await;
    let files = files.map_err(Failure::error)?.into_iter();
    let mut texts = RoleTexts::default();
    for (role, path) in roles(briefs) {
        let read = read(git, base, (role, path)).await?;
        let text = Some(read.map_err(|problem| {
            Failure::usage(format!("[briefs] {role}: {}", problem.message)).hint(problem.hint)
        })?);
        match role {
            "builder" => texts.builder = text,
            "reviewer" => texts.reviewer = text,
            _ => texts.verifier = text,
        }
    }
    Ok((files.map(|file| file.path).collect(), texts))
}

/// Lists all problems of the `[briefs]` files on a base branch.
pub async fn problems(
    git: &Repository,
    base: &str,
    briefs: &Briefs,
) -> Result<Vec<BriefProblem>, Failure> {
    let mut problems = Vec::new();
    for (role, path) in roles(briefs) {
        problems.extend(read(git, base, (role, path)).await?.err());
    }
    Ok(problems)
}

fn roles(briefs: &Briefs) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [
        ("builder", &briefs.builder),
        ("reviewer", &briefs.reviewer),
        ("verifier", &briefs.verifier),
    ];
    all.into_iter()
        .filter_map(|(role, path)| Some((role, path.as_deref()?)))
}

async fn read(
    git: &Repository,
    base: &str,
    (role, path): (&'static str, &str),
) -> Result<Result<RoleText, BriefProblem>, Failure> {
    let shown = findings::shorten(&findings::one_line(path), 120);
    let problem = |message: String, hint: &str| {
        Ok(Err(BriefProblem {
            role,
            message,
            hint: hint.to_owned(),
        }))
    };
    if findings::confine(path).as_deref() != Some(path) {
        return problem(
            format!("{shown:?} is not a path inside the repository"),
            "name it relative to the top of the repository, such as docs/review-notes.md",
        );
    }
    let commit = git.base_tip(base).await.map_err(Failure::error)?;
    let files = git.named_files_at(&commit, &[path]).await;
    let files = files.map_err(Failure::error)?;
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return problem(
            format!("{shown} is not on {base}"),
            "commit the file there, correct the path, or remove the key",
        );
    };
    if file.is_link {
        return problem(
            format!("{shown} is a symbolic link on {base}"),
            "name the file that it points to",
        );
    }
    if file.bytes > ROLE_TEXT_BYTES_MAX as u64 {
        let most = ROLE_TEXT_BYTES_MAX / 1024;
        return problem(
            format!(
                "{shown} has {} bytes on {base}; the limit is {most} KiB",
                file.bytes
            ),
            "shorten it: every run of the role reads it",
        );
    }
    let bytes = git.file_at(&commit, path).await.map_err(Failure::error)?;
    match String::from_utf8(bytes.unwrap_or_default()) {
        Ok(text) => Ok(Ok(RoleText {
            path: path.to_owned(),
            text,
        })),
        Err(_) => problem(
            format!("{shown} is not UTF-8 text on {base}"),
            "save it as UTF-8",
        ),
    }
}
