//! Another repository, to fetch from and to put results into. The one place where git goes beyond this
//! machine: only with the protocol that the address has, never by force, and what arrives counts by
//! its hash and not by the name it came under.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::address::RemoteAddress;
use super::lock::RepositoryLock;
use super::run::{GitCommand, SSH};
use super::{Error, GitProgram, Oid, Repository};

const FETCH: [&str; 5] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--",
];
/// Keys that are there; a question to a person would be waited for without end, and so would a
/// machine that does not answer.
const SSH_OPTIONS: &str = "-oBatchMode=yes -oConnectTimeout=20";
/// What git is given of a person's environment for its way beyond this machine, and only for that.
pub const ABROAD: [&str; 10] = [
    "HOME",
    "SSH_AUTH_SOCK",
    SSH,
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "NO_PROXY",
    "no_proxy",
];
/// What git and ssh say where somebody would have to be asked.
const WANTS_A_PASSWORD: [&str; 5] = [
    "could not read Username",
    "could not read Password",
    "Authentication failed",
    "Permission denied (",
    "HTTP Basic: Access denied",
];

/// Another repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote(RemoteAddress);

impl Remote {
    /// `https://…`, `ssh://…`, `user@host:path`, or a directory that several machines share.
    pub fn parse(text: &str) -> Result<Self, String> {
        RemoteAddress::parse(text).map(Self)
    }

    /// Without a password.
    pub fn address(&self) -> String {
        self.0.url.clone()
    }

    fn url(&self) -> &str {
        &self.0.url
    }

    fn of<'a>(&self, run: GitCommand<'a>) -> GitCommand<'a> {
        let RemoteAddress {
            protocol, header, ..
        } = &self.0;
        let mut settings: Vec<OsString> = Vec::new();
        let mut set = |setting: OsString| settings.extend(["-c".into(), setting]);
        set(format!("protocol.{protocol}.allow=always").into());
        set("fetch.fsckObjects=true".into());
        set("http.lowSpeedLimit=1000".into());
        set("http.lowSpeedTime=60".into());
        if *protocol == "ssh" {
            let mut ssh = OsString::from("core.sshCommand=");
            ssh.push(run.ssh().unwrap_or(OsStr::new("ssh")));
            ssh.push(" ");
            ssh.push(SSH_OPTIONS);
            set(ssh);
        }
        if header.is_some() {
            // To nobody but the host that it is for.
            set("http.followRedirects=false".into());
        }
        let run = run.settings(settings).abroad();
        match header {
            // Others on this machine see arguments, and no environment.
            Some(header) => run
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", "http.extraHeader")
                .env("GIT_CONFIG_VALUE_0", header),
            None => run,
        }
    }
}

/// What to do about it, where somebody would have had to be asked.
fn explained(error: Error) -> Error {
    let Error::Failed { verb, dir, detail } = error else {
        return error;
    };
    let wants = |words: &&str| detail.contains(*words);
    let detail = if WANTS_A_PASSWORD.iter().any(wants) {
        format!(
            "{detail}; git asks nobody here: for https put the host into ~/.netrc, for ssh a key where ssh finds it"
        )
    } else {
        detail
    };
    Error::Failed { verb, dir, detail }
}

impl GitProgram {
    /// A bare repository at `dir` for what another one has, with this branch of it; made where there is
    /// none, and brought up to date.
    pub async fn follow(&self, remote: &Remote, branch: &str, dir: &Path) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private::make_dir(parent).map_err(Error::file(parent))?;
        let _lock = RepositoryLock::take(&dir.with_extension("lock")).await?;
        let made = dir.join("followed");
        if !made.exists() {
            super::remove_tree(dir).map_err(Error::file(dir))?;
            self.empty(branch, dir).await?;
        }
        // What we have of the branch is the remote's own word from before.
        let spec = format!("+refs/heads/{branch}:refs/heads/{branch}");
        let fetch = remote.of(GitCommand::new(self, dir).with_git_dir(dir).durable());
        let fetched = fetch.args(FETCH).args([remote.url(), &spec]).done().await;
        fetched.map_err(explained)?;
        if made.exists() {
            return Ok(());
        }
        super::state::sync(dir).await?;
        super::landing::write_durably(&made, b"")
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
        let fetched = run.args([remote.url(), spec]).done().await;
        fetched.map_err(explained)
    }

    /// Where a branch of the remote is.
    pub async fn remote_branch(&self, remote: &Remote, branch: &str) -> Result<Option<Oid>, Error> {
        let name = format!("refs/heads/{branch}");
        let run = remote.of(self.git()).args(["ls-remote", "--quiet", "--"]);
        let said = run.args([remote.url(), &name]).text().await;
        let said = said.map_err(explained)?;
        let line = said.lines().find(|line| line.ends_with(&name));
        Ok(line.and_then(|line| Oid::parse(line.split('\t').next()?)))
    }

    /// Puts a commit there under a name. False where that would take something from what is there.
    pub async fn push(&self, remote: &Remote, commit: &Oid, name: &str) -> Result<bool, Error> {
        let spec = format!("{commit}:{name}");
        let run = remote.of(self.git());
        let run = run.args(["push", "--quiet", "--porcelain", "--no-verify", "--"]);
        let said = run.args([remote.url(), &spec]).answers(&[1]).said().await;
        Ok(said.map_err(explained)?.code == 0)
    }

    /// Where the repository itself came from, if it says so.
    pub async fn origin(&self) -> Result<Option<String>, Error> {
        let args = ["config", "--local", "--get", "remote.origin.url"];
        let said = self.git().args(args).answers(&[1]).text().await?;
        Ok((!said.is_empty()).then_some(said))
    }
}
