//! Connects this machine to a forge: keeps the token in a file of its own, writes `[forge]` into the
//! user's own configuration, and checks what the token may do. A section that is there stays as it is.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use engine::private_files;
use forge::address::ForgeKind;

use super::doctor::DoctorCheck;
use super::{config, forge_connection};
use crate::failure::Failure;
use crate::settings::forge::{ForgeKindName, ForgeSection};
use crate::settings::forge_text::parse_section;
use crate::settings::{Environment, read_bounded};

const CONFIG_BYTES_MAX: usize = 1 << 20;
/// Name of the token's file, next to the user's configuration.
const TOKEN_FILE: &str = "forge-token";

/// Facts about the forge that a person names.
#[derive(Clone, Debug, Default)]
pub struct ForgeSetup {
    pub kind: Option<String>,
    pub url: Option<String>,
    pub repository: Option<String>,
    pub token_env: Option<String>,
    pub token_file: Option<PathBuf>,
    /// The token itself, to be kept in a file.
    pub token: Option<String>,
}

/// Result of connecting.
#[derive(Clone, Debug)]
pub struct ForgeSetupReport {
    pub written: Vec<PathBuf>,
    pub checks: Vec<DoctorCheck>,
}

impl ForgeSetup {
    fn is_empty(&self) -> bool {
        let named = [&self.kind, &self.url, &self.repository, &self.token_env];
        named.iter().all(|one| one.is_none()) && self.token.is_none() && self.token_file.is_none()
    }
}

/// Writes what the person named, then checks the connection of the directory's repository.
pub async fn connect(
    environment: &Environment,
    directory: &Path,
    setup: &ForgeSetup,
) -> Result<ForgeSetupReport, Failure> {
    let written = if setup.is_empty() {
        Vec::new()
    } else {
        write_section(environment, setup)?
    };
    let checks = forge_connection::check_forge(environment, directory).await;
    Ok(ForgeSetupReport { written, checks })
}

fn write_section(environment: &Environment, setup: &ForgeSetup) -> Result<Vec<PathBuf>, Failure> {
    let file = environment.user_file.clone().ok_or_else(|| {
        Failure::usage("there is no place for your configuration: HOME is not set")
    })?;
    let existing = config::load_user_settings(environment)?.forge;
    if let Some(path) = replaced_token_file(&existing, &file, setup) {
        let token = setup.token.as_deref().unwrap_or_default().trim();
        let written = private_files::write(&path, format!("{token}\n"));
        written.map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
        return Ok(vec![path]);
    }
    if existing != ForgeSection::default() {
        return Err(Failure::usage(format!(
            "{} has a section [forge] already; nothing was changed",
            file.display()
        ))
        .hint("edit it there, then: countersign forge connect"));
    }
    let dir = file.parent().unwrap_or(Path::new("/")).to_owned();
    let token_file = match &setup.token {
        Some(_) => Some(dir.join(TOKEN_FILE)),
        None => setup.token_file.clone(),
    };
    let text = section_text(setup, token_file.as_deref())?;
    let fail = |error: std::io::Error| Failure::error(format!("{}: {error}", file.display()));
    private_files::make_dir(&dir).map_err(fail)?;
    let mut written = Vec::new();
    if let (Some(token), Some(path)) = (&setup.token, &token_file) {
        if path.exists() {
            return Err(Failure::usage(format!(
                "{} exists already; nothing was changed",
                path.display()
            ))
            .hint("remove it, or name it with --token-file"));
        }
        private_files::write(path, format!("{}\n", token.trim())).map_err(fail)?;
        written.push(path.clone());
    }
    let before = if file.exists() {
        let bytes = read_bounded(&file, "your configuration", CONFIG_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(Failure::usage)?
    } else {
        String::new()
    };
    let gap = if before.is_empty() { "" } else { "\n" };
    let part = file.with_extension("part");
    private_files::write(&part, format!("{before}{gap}{text}"))
        .and_then(|()| std::fs::rename(&part, &file))
        .map_err(fail)?;
    written.push(file);
    Ok(written)
}

/// Returns the file of the token if only a new token is given, and the section has the file that an
/// earlier `forge connect` wrote.
fn replaced_token_file(
    existing: &ForgeSection,
    file: &Path,
    setup: &ForgeSetup,
) -> Option<PathBuf> {
    setup.token.as_ref()?;
    let own = file.parent()?.join(TOKEN_FILE);
    let is_own = existing.token_file.as_deref().map(Path::new) == Some(own.as_path());
    let is_same =
        |given: &Option<String>, known: &Option<String>| given.is_none() || given == known;
    let kind = existing.kind.map(ForgeKindName::kind);
    let is_same_kind = |word: &String| ForgeKind::parse(word) == kind;
    let is_same_forge = setup.kind.as_ref().is_none_or(is_same_kind)
        && is_same(&setup.url, &existing.url)
        && is_same(&setup.repository, &existing.repository);
    (is_own && is_same_forge).then_some(own)
}

/// Writes the section, and refuses one that could not be used.
fn section_text(setup: &ForgeSetup, token_file: Option<&Path>) -> Result<String, Failure> {
    let kind = setup.kind.clone().unwrap_or_else(|| "github".to_owned());
    let token_file = token_file.map(|path| path.to_string_lossy().into_owned());
    let mut text = "[forge]\n".to_owned();
    let keys = [
        ("kind", Some(kind)),
        ("url", setup.url.clone()),
        ("repository", setup.repository.clone()),
        ("token_env", setup.token_env.clone()),
        ("token_file", token_file),
    ];
    for (key, value) in keys {
        if let Some(value) = value {
            // A string of JSON is a string of TOML.
            let value = serde_json::Value::String(value);
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    let body = text.trim_start_matches("[forge]\n");
    let section = parse_section(body)?;
    match section.problems().first() {
        Some(problem) => Err(Failure::usage(problem)),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_replaces_the_old_one_and_changes_nothing_else() {
        let file = Path::new("/home/ada/.config/countersign/config.toml");
        let own = "/home/ada/.config/countersign/forge-token";
        let section = |token_file: &str| {
            let text = format!("kind = \"github\"\ntoken_file = {token_file:?}\n");
            parse_section(&text).unwrap()
        };
        let setup = |kind: Option<&str>, url: Option<&str>| ForgeSetup {
            kind: kind.map(str::to_owned),
            url: url.map(str::to_owned),
            token: Some("new".to_owned()),
            ..ForgeSetup::default()
        };
        let plain = setup(None, None);
        let replaced = replaced_token_file(&section(own), file, &plain);
        assert_eq!(replaced.as_deref(), Some(Path::new(own)));
        let same = setup(Some("github"), None);
        assert!(replaced_token_file(&section(own), file, &same).is_some());
        for other in [
            setup(Some("gitlab"), None),
            setup(None, Some("https://git.example")),
        ] {
            assert_eq!(replaced_token_file(&section(own), file, &other), None);
        }
        assert_eq!(
            replaced_token_file(&section("/srv/token"), file, &plain),
            None
        );
        let none = ForgeSetup::default();
        assert_eq!(replaced_token_file(&section(own), file, &none), None);
    }

    #[test]
    fn a_section_is_written_only_if_it_can_be_used() {
        let setup = |url: &str| ForgeSetup {
            url: Some(url.to_owned()),
            ..ForgeSetup::default()
        };
        let file = Path::new("/home/a \"b\"/token");
        let text = section_text(&setup("https://git.example"), Some(file)).unwrap();
        assert!(
            text.contains(r#"token_file = "/home/a \"b\"/token""#),
            "{text}"
        );
        for bad in ["http://git.example", "x\ny"] {
            assert!(section_text(&setup(bad), Some(file)).is_err(), "{bad}");
        }
        assert!(section_text(&setup("https://git.example"), None).is_err());
    }
}
