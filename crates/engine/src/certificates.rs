//! Passes the person's certificate authorities to runs. Networks that inspect TLS need them: without
//! them package managers and agents refuse every connection.
//!
//! The variables name files. A file is shown in the sandbox only if it has certificates and no key.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Variables of OpenSSL, Node, Python, curl, git, cargo, Deno and pip that name a file or directory
/// with certificate authorities.
pub const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
];
/// Largest file that is looked at; bundles of all public authorities have 0.3 MB.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Directories that every run sees.
const SYSTEM: [&str; 2] = ["/etc", "/usr"];

/// Certificate authorities that runs get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Variables for the environment of a run.
    pub variables: Vec<(OsString, OsString)>,
    /// Files to show, because no run sees them otherwise.
    pub files: Vec<PathBuf>,
}

impl Certificates {
    /// Keeps those of the person's variables that a run may have.
    pub fn select(variables: Vec<(OsString, OsString)>) -> Self {
        let mut selected = Self::default();
        for (name, value) in variables {
            let path = Path::new(&value);
            let Ok(real) = fs::canonicalize(path) else {
                continue;
            };
            if !path.is_absolute() {
                continue;
            }
            let is_system = |path: &Path| SYSTEM.iter().any(|dir| path.starts_with(dir));
            if real.is_file() && has_only_certificates(&real) {
                let shown = [path.to_owned(), real];
                selected
                    .files
                    .extend(shown.into_iter().filter(|path| !is_system(path)));
            } else if !(real.is_dir() && is_system(path) && is_system(&real)) {
                continue;
            }
            selected.variables.push((name, value));
        }
        selected.files.sort();
        selected.files.dedup();
        selected
    }
}

/// Whether the file has certificates and no private key: people keep both in one file.
fn has_only_certificates(file: &Path) -> bool {
    let mut text = Vec::new();
    let read =
        fs::File::open(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
    let has = |words: &[u8]| text.windows(words.len()).any(|part| part == words);
    read.is_ok()
        && text.len() as u64 <= FILE_BYTES_MAX
        && has(b"BEGIN CERTIFICATE")
        && !has(b"PRIVATE KEY")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

    #[test]
    fn a_file_with_certificates_only_is_passed_and_shown() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path.into_os_string()
        };
        let key = format!("{CERTIFICATE}-----BEGIN PRIVATE KEY-----\n");
        let good = put("ca.pem", CERTIFICATE);
        let link = dir.path().join("link.pem");
        std::os::unix::fs::symlink(&good, &link).unwrap();
        let selected = Certificates::select(vec![
            ("SSL_CERT_FILE".into(), good.clone()),
            ("CURL_CA_BUNDLE".into(), link.clone().into()),
            ("NODE_EXTRA_CA_CERTS".into(), put("both.pem", &key)),
            ("PIP_CERT".into(), put("notes.txt", "hello")),
            ("REQUESTS_CA_BUNDLE".into(), "/nowhere/ca.pem".into()),
            ("DENO_CERT".into(), "ca.pem".into()),
            ("SSL_CERT_DIR".into(), dir.path().into()),
        ]);
        let names: Vec<_> = selected.variables.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["SSL_CERT_FILE", "CURL_CA_BUNDLE"]);
        let mut files = vec![PathBuf::from(good), link];
        files.sort();
        assert_eq!(selected.files, files);
    }

    #[test]
    fn a_system_directory_is_passed_and_needs_no_mount() {
        let selected = Certificates::select(vec![("SSL_CERT_DIR".into(), "/etc".into())]);
        assert_eq!(selected.variables.len(), 1);
        assert_eq!(selected.files, Vec::<PathBuf>::new());
    }
}
