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
        flag.map(Ok)
            .or_else(|| file_flag.map(read))
            .or_else(|| variable.map(Ok))
            .or_else(|| file_variable.map(read))
            .transpose()
    }
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
        (Some(address), None) => Ok(address.to_owned()),
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
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
