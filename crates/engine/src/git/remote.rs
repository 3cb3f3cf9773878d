//! Another repository, to fetch from and to put results into. The one place where git goes beyond this
//! machine: only with the protocol that the address has, never by force, and what arrives counts by
//! its hash and not by the name it came under.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::lock::Lock;
use super::run::Run;
use super::{Error, Oid, Repository, Tool};

const FETCH: [&str; 5] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--",
];
/// Longer is no address.
const URL_CHARS_MAX: usize = 2_000;
/// Keys that are there; a question to a person would be waited for without end.
const SSH: &str = "core.sshCommand=ssh -oBatchMode=yes";

/// The address of a repository, in one of the forms that run no program of the address's choice.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    url: String,
    protocol: &'static str,
}

/// Without what may be a password.
impl std::fmt::Debug for Remote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Remote({})", self.protocol)
    }
}

impl Remote {
    /// `https://…`, `ssh://…`, `user@host:path`, or a directory that several machines share.
    pub fn parse(text: &str) -> Result<Self, String> {
        let protocol = match text.split_once("://") {
            Some(("https", _)) => Some("https"),
            Some(("ssh", _)) => Some("ssh"),
            Some(_) => None,
            None if Path::new(text).is_absolute() => Some("file"),
            None => is_of_ssh(text).then_some("ssh"),
        };
        let plain = text.len() <= URL_CHARS_MAX && !text.contains(|c: char| c.is_control());
        match protocol.filter(|_| plain && !text.starts_with('-')) {
            Some(protocol) => Ok(Self {
                url: text.to_owned(),
                protocol,
            }),
            None => Err(format!(
                "{text:?} is no address to fetch from: https://…, ssh://…, user@host:path and a directory are"
            )),
        }
    }

    fn of<'a>(&self, run: Run<'a>) -> Run<'a> {
        let mut settings: Vec<OsString> = vec![
            "-c".into(),
            format!("protocol.{}.allow=always", self.protocol).into(),
            "-c".into(),
            "fetch.fsckObjects=true".into(),
        ];
        if self.protocol == "ssh" {
            settings.extend(["-c".into(), SSH.into()]);
        }
        run.settings(settings)
    }
}

/// `user@host:path`, and nothing that git would take for another helper (`ext::…`).
fn is_of_ssh(text: &str) -> bool {
    let Some((host, path)) = text.split_once(':') else {
        return false;
    };
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    !path.is_empty() && !path.starts_with(':') && host.contains('@') && host.chars().all(sound)
}

impl Tool {
    /// A bare repository at `dir` for what another one has, with this branch of it; made where there is
    /// none, and brought up to date.
    pub async fn follow(&self, remote: &Remote, branch: &str, dir: &Path) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        let _lock = Lock::take(&dir.with_extension("lock")).await?;
        let made = dir.join("followed");
        if !made.exists() {
            super::remove_tree(dir).map_err(Error::file(dir))?;
            self.empty(branch, dir).await?;
        }
        // What we have of the branch is the remote's own word from before.
        let spec = format!("+refs/heads/{branch}:refs/heads/{branch}");
        let fetch = remote.of(Run::new(self, dir).with_git_dir(dir));
        fetch.args(FETCH).args([&remote.url, &spec]).done().await?;
        fs::write(&made, b"").map_err(Error::file(&made))
    }
}

impl Repository {
    pub async fn has_commit(&self, commit: &Oid) -> Result<bool, Error> {
        let name = format!("{commit}^{{commit}}");
        let run = self.git().args(["cat-file", "-e", &name]);
        Ok(run.answers(&[1, 128]).said().await?.code == 0)
    }

    /// Brings a commit, which the remote has under that name, with all that it needs.
    pub async fn fetch_commit(
        &self,
        remote: &Remote,
        name: &str,
        commit: &Oid,
    ) -> Result<(), Error> {
        let spec = format!("{name}:{name}");
        self.fetch(remote, &spec).await?;
        match self.read_ref(name).await? {
            Some(found) if found == *commit => Ok(()),
            Some(_) | None => Err(Error::UnknownRevision {
                rev: commit.to_string(),
            }),
        }
    }

    /// Brings a branch of the remote under a name of ours; where it is now.
    pub async fn fetch_branch(
        &self,
        remote: &Remote,
        branch: &str,
        name: &str,
    ) -> Result<Oid, Error> {
        let spec = format!("+refs/heads/{branch}:{name}");
        self.fetch(remote, &spec).await?;
        let found = self.read_ref(name).await?;
        found.ok_or_else(|| Error::UnknownRevision {
            rev: branch.to_owned(),
        })
    }

    async fn fetch(&self, remote: &Remote, spec: &str) -> Result<(), Error> {
        let run = remote.of(self.git()).args(FETCH);
        run.args([remote.url.as_str(), spec]).done().await
    }

    /// Where a branch of the remote is.
    pub async fn remote_branch(&self, remote: &Remote, branch: &str) -> Result<Option<Oid>, Error> {
        let name = format!("refs/heads/{branch}");
        let run = remote.of(self.git()).args(["ls-remote", "--quiet", "--"]);
        let said = run.args([&remote.url, &name]).text().await?;
        let line = said.lines().find(|line| line.ends_with(&name));
        Ok(line.and_then(|line| Oid::parse(line.split('\t').next()?)))
    }

    /// Puts a commit there under a name. False where that would take something from what is there.
    pub async fn push(&self, remote: &Remote, commit: &Oid, name: &str) -> Result<bool, Error> {
        let spec = format!("{commit}:{name}");
        let run = remote.of(self.git());
        let run = run.args(["push", "--quiet", "--porcelain", "--no-verify", "--"]);
        let said = run.args([&remote.url, &spec]).answers(&[1]).said().await?;
        Ok(said.code == 0)
    }

    /// Where the repository itself came from, if it says so.
    pub async fn origin(&self) -> Result<Option<String>, Error> {
        let args = ["config", "--local", "--get", "remote.origin.url"];
        let said = self.git().args(args).answers(&[1]).text().await?;
        Ok((!said.is_empty()).then_some(said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_runs_a_program_of_its_choice() {
        for fine in [
            "https://h/x.git",
            "ssh://git@h/x",
            "git@h.example:x/y.git",
            "/srv/repos/x",
        ] {
            assert!(Remote::parse(fine).is_ok(), "{fine}");
        }
        let wrong = [
            "",
            "ext::sh -c evil",
            "ext::x@y:z",
            "file:///etc",
            "git://h/x",
            "http://h/x",
            "--upload-pack=evil",
            "fd::3",
            "-oProxyCommand=evil@h:x",
            "git@h::x",
            "https://h/\nx",
        ];
        for wrong in wrong {
            assert!(Remote::parse(wrong).is_err(), "{wrong}");
        }
    }
}
