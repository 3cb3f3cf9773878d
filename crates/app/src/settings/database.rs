//! Address of the database: from a flag, a file or the environment. A file and the environment keep
//! a password out of the list of processes, which all users of a machine can read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::read_bounded;
use crate::failure::Failure;

/// Longest accepted address.
const ADDRESS_BYTES_MAX: usize = 16 * 1024;
/// Permission bits of users other than the owner and the group.
const OTHERS_MODE: u32 = 0o007;

/// Flags and variables that name a database. Earlier fields win.
#[derive(Debug, Default)]
pub struct DatabaseSources {
    pub flag: Option<String>,
    pub file_flag: Option<PathBuf>,
    pub variable: Option<String>,
    pub file_variable: Option<PathBuf>,
}

impl DatabaseSources {
    pub fn by_flag(&self) -> bool {
        self.flag.is_some() || self.file_flag.is_some()
    }

    pub fn by_variable(&self) -> bool {
        self.variable.is_some() || self.file_variable.is_some()
    }

    /// Returns whether the command line has a password in it.
    pub fn exposes_password(&self) -> bool {
        self.flag.as_deref().is_some_and(has_password)
    }

    /// Returns the address, or `None` for the database in the data directory.
    pub fn resolve(self) -> Result<Option<String>, Failure> {
        let Self {
            flag,
            file_flag,
            variable,
            file_variable,
        } = self;
        let read = |path: PathBuf| read_address(&path);
        let address = flag
            .map(Ok)
            .or_else(|| file_flag.map(read))
            .or_else(|| variable.map(Ok))
            .or_else(|| file_variable.map(read))
            .transpose()?;
        address.as_deref().map(normalize_address).transpose()
    }
}

/// Returns the address with its scheme in lower case. A scheme that is not PostgreSQL's is refused:
/// it would be the name of a new and empty `SQLite` file, with the password in it.
fn normalize_address(address: &str) -> Result<String, Failure> {
    let address = address.trim();
    let is_word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
    };
    if let Some((scheme, rest)) = address.split_once("://").filter(|(word, _)| is_word(word)) {
        let scheme = scheme.to_ascii_lowercase();
        return match scheme.as_str() {
            "postgres" | "postgresql" => Ok(format!("{scheme}://{rest}")),
            _ => Err(unknown_address(&format!("{scheme}://…"))),
        };
    }
    // The other form that PostgreSQL's own tools take: `host=db.example user=app`.
    let parameters = [
        "host=",
        "hostaddr=",
        "user=",
        "dbname=",
        "port=",
        "password=",
    ];
    let first = address.split_whitespace().next().unwrap_or_default();
    if let Some(name) = parameters.iter().find(|name| first.starts_with(*name)) {
        return Err(unknown_address(&format!("{name}…")));
    }
    Ok(address.to_owned())
}

fn unknown_address(shown: &str) -> Failure {
    Failure::usage(format!("{shown} is no address of a database"))
        .hint("PostgreSQL: postgres://USER:PASSWORD@HOST/DATABASE; SQLite: the path of a file")
}

/// Reads the address from the first line of a file that others cannot read.
fn read_address(path: &Path) -> Result<String, Failure> {
    let refuse = |why: &str| Failure::usage(format!("the database file {} {why}", path.display()));
    let bytes = read_bounded(path, "the database file", ADDRESS_BYTES_MAX)?;
    if bytes.len() > ADDRESS_BYTES_MAX {
        return Err(refuse("is too long for an address"));
    }
    // Read first, so that a missing file gives the usual message.
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & OTHERS_MODE != 0) {
        return Err(
            refuse("is readable by everybody").hint(format!("chmod 600 {}", path.display()))
        );
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("is not text"))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next()) {
        // Anything else would be the name of a new and empty SQLite file in the working directory.
        (Some(address), None) if address.contains("://") || address.starts_with('/') => {
            Ok(address.to_owned())
        }
        (Some(_), None) => Err(refuse("has no address in it")
            .hint("write it as postgres://USER:PASSWORD@HOST/DATABASE")),
        (None, _) => Err(refuse("is empty").hint("write the address into it: postgres://…")),
        (Some(_), Some(_)) => Err(refuse("has more than one line")),
    }
}

/// Returns whether an address contains a password.
pub fn has_password(address: &str) -> bool {
    let Some((_, rest)) = address.split_once("://") else {
        return false;
    };
    let user = rest.rsplit_once('@').map(|(user, _)| user);
    let parameters = rest.split_once('?').map_or("", |(_, query)| query);
    user.is_some_and(|user| user.contains(':')) || parameters.split('&').any(is_password)
}

fn is_password(parameter: &str) -> bool {
    parameter.starts_with("password=")
}

/// Hides the user and the password in an address.
pub fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => rest.to_owned(),
    };
    let (place, query) = rest
        .split_once('?')
        .map_or((rest.as_str(), None), |(place, query)| (place, Some(query)));
    let hide = |parameter| {
        if is_password(parameter) {
            "password=…"
        } else {
            parameter
        }
    };
    let query = query.map(|query| query.split('&').map(hide).collect::<Vec<_>>().join("&"));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{place}{query}")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_found_and_hidden() {
        for (address, shown) in [
            ("postgres://ada:pw@db/x", "postgres://…@db/x"),
            (
                "postgres://db/x?user=ada&password=pw&sslmode=require",
                "postgres://db/x?user=ada&password=…&sslmode=require",
            ),
        ] {
            assert!(has_password(address), "{address}");
            assert_eq!(without_password(address), shown);
        }
        for address in [
            "postgres://ada@db/x",
            "postgres://db:5432/x",
            "/data/a:b@c.db",
            "postgres://db/x?sslmode=require",
        ] {
            assert!(!has_password(address), "{address}");
        }
    }

    #[test]
    fn the_address_comes_from_a_private_file_of_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("database");
        let read = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let sources = DatabaseSources {
                file_flag: Some(path.clone()),
                variable: Some("postgres://other/x".to_owned()),
                ..DatabaseSources::default()
            };
            assert!(sources.by_flag() && !sources.exposes_password());
            sources.resolve()
        };
        let found = read("\n postgres://ada:pw@db/x \n", 0o640).unwrap();
        assert_eq!(found.as_deref(), Some("postgres://ada:pw@db/x"));
        for (text, mode, why) in [
            ("postgres://db/x\n", 0o644, "readable by everybody"),
            ("\n", 0o600, "is empty"),
            ("a\nb\n", 0o600, "more than one line"),
            ("countersign\n", 0o600, "has no address in it"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let found = read("/data/countersign.db\n", 0o600).unwrap();
        assert_eq!(found.as_deref(), Some("/data/countersign.db"));
    }

    #[test]
    fn an_address_that_is_not_of_postgresql_never_becomes_the_name_of_a_file() {
        let resolve = |address: &str| {
            DatabaseSources {
                flag: Some(address.to_owned()),
                ..DatabaseSources::default()
            }
            .resolve()
        };
        for (address, expected) in [
            ("POSTGRES://ada:pw@db/x", "postgres://ada:pw@db/x"),
            (" PostgreSQL://db/x\n", "postgresql://db/x"),
            ("data/my db.db", "data/my db.db"),
            ("/data/a:b@c.db", "/data/a:b@c.db"),
        ] {
            assert_eq!(resolve(address).unwrap().as_deref(), Some(expected));
        }
        for address in [
            "postgre://ada:hunter2@db/x",
            "mysql://ada:hunter2@db/x",
            "host=db user=ada password=hunter2",
            "password=hunter2 host=db",
        ] {
            let error = resolve(address).unwrap_err().to_string();
            assert!(error.contains("is no address of a database"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
