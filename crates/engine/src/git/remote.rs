//! A remote repository, to fetch from and push results to. This is the only place where git
//! connects to other machines: only with the protocol of the address, never by force, and a fetched
//! commit counts by its hash and not by its name.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::address::RemoteAddress;
use super::command::{GitCommand, SSH};
use super::lock::RepositoryLock;
use super::{Error, GitProgram, Oid, Repository};

const FETCH: [&str; 5] = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--",
];
/// Options of ssh. Without them, ssh would wait forever for a prompt, or for a machine that does
/// not answer.
const SSH_OPTIONS: &str = "-oBatchMode=yes -oConnectTimeout=20";
/// Variables of the user's environment that git gets for connections to other machines, and only
/// for those.
pub const NETWORK_VARIABLES: [&str; 10] = [
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
/// Messages of git and ssh that mean a missing login.
const AUTH_FAILURES: [&str; 5] = [
    "could not read Username",
    "could not read Password",
    "Authentication failed",
    "Permission denied (",
    "HTTP Basic: Access denied",
];

/// A remote repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote(RemoteAddress);

impl Remote {
    /// Parses `https://…`, `ssh://…`, `user@host:path`, or a directory that several machines share.
    pub fn parse(text: &str) -> Result<Self, String> {
        RemoteAddress::parse(text).map(Self)
    }

    /// Returns the address without a password.
    pub fn address(&self) -> String {
        self.0.url.clone()
    }

    /// Adds an `Authorization` header, unless the address has its own credentials or another
    /// protocol than HTTPS.
    #[must_use]
    pub fn with_header(mut self, header: String) -> Self {
        if self.0.protocol == "https" && self.0.header.is_none() {
            self.0.header = Some(header);
        }
        self
    }

    fn url(&self) -> &str {
        &self.0.url
    }

    /// Adds the settings and credentials for this remote to a command.
    fn apply_to<'a>(&self, run: GitCommand<'a>) -> GitCommand<'a> {
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
            ssh.push(run.ssh_command().unwrap_or(OsStr::new("ssh")));
            ssh.push(" ");
            ssh.push(SSH_OPTIONS);
            set(ssh);
        }
        if header.is_some() {
            // Send the header only to the host that it is for.
            set("http.followRedirects=false".into());
        }
        let run = run.settings(settings).network_env();
        match header {
            // Other users of this machine can see arguments, but not the environment.
            Some(header) => run
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", "http.extraHeader")
                .env("GIT_CONFIG_VALUE_0", header),
            None => run,
        }
    }
}

/// Adds advice to the error of a missing login.
fn explain_auth_failure(error: Error) -> Error {
    let Error::Failed { verb, dir, detail } = error else {
        return error;
    };
    let is_contained = |words: &&str| detail.contains(*words);
    let detail = if AUTH_FAILURES.iter().any(is_contained) {
        format!(
            "{detail}; git cannot prompt here: for https add the host to ~/.netrc, for ssh provide a key that ssh finds"
        )
    } else {
        detail
    };
    Error::Failed { verb, dir, detail }
}

impl GitProgram {
    /// Updates a bare repository at `dir` with a branch of the remote, and creates it if it is
    /// missing.
    pub async fn fetch_into_bare(
        &self,
        remote: &Remote,
        branch: &str,
        dir: &Path,
    ) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private_files::make_dir(parent).map_err(Error::file(parent))?;
        let _lock = RepositoryLock::take(&dir.with_extension("lock")).await?;
        let marker = dir.join("followed");
        if !marker.exists() {
            super::remove_tree(dir).map_err(Error::file(dir))?;
            self.create_bare(branch, dir).await?;
        }
        // Our version of the branch is an earlier state of the remote, so force is safe.
        let spec = format!("+refs/heads/{branch}:refs/heads/{branch}");
        let fetch = remote.apply_to(GitCommand::new(self, dir).with_git_dir(dir).durable());
        let fetched = fetch.args(FETCH).args([remote.url(), &spec]).run().await;
        fetched.map_err(explain_auth_failure)?;
        if marker.exists() {
            return Ok(());
        }
        super::state::sync(dir).await?;
        super::landing::write_durably(&marker, b"")
    }
}

impl Repository {
    pub async fn has_commit(&self, commit: &Oid) -> Result<bool, Error> {
        let name = format!("{commit}^{{commit}}");
        let run = self.git().args(["cat-file", "-e", &name]);
        Ok(run.accept_codes(&[1, 128]).output().await?.code == 0)
    }

    /// Fetches a commit, which the remote has under that name, with everything it needs.
    pub async fn fetch_commit(
        &self,
        remote: &Remote,
        name: &str,
        commit: &Oid,
    ) -> Result<(), Error> {
        let spec = format!("{name}:{name}");
        self.fetch(remote, &spec).await?;
        match self.read_ref(name).await? {
            Some(fetched) if fetched == *commit => Ok(()),
            Some(_) | None => Err(Error::UnknownRevision {
                rev: commit.to_string(),
            }),
        }
    }

    /// Fetches a branch of the remote to a ref of ours, and returns its commit.
    pub async fn fetch_branch(
        &self,
        remote: &Remote,
        branch: &str,
        name: &str,
    ) -> Result<Oid, Error> {
        let spec = format!("+refs/heads/{branch}:{name}");
        self.fetch(remote, &spec).await?;
        let fetched = self.read_ref(name).await?;
        fetched.ok_or_else(|| Error::UnknownRevision {
            rev: branch.to_owned(),
        })
    }

    async fn fetch(&self, remote: &Remote, spec: &str) -> Result<(), Error> {
        let run = remote.apply_to(self.git()).args(FETCH);
        let fetched = run.args([remote.url(), spec]).run().await;
        fetched.map_err(explain_auth_failure)
    }

    /// Fetches the objects of refs without writing a ref of ours.
    pub async fn fetch_objects(&self, remote: &Remote, names: &[String]) -> Result<(), Error> {
        let run = remote.apply_to(self.git()).args(FETCH);
        let fetched = run.args([remote.url()]).args(names).run().await;
        fetched.map_err(explain_auth_failure)
    }

    /// Returns the commit of a branch on the remote.
    pub async fn remote_branch(&self, remote: &Remote, branch: &str) -> Result<Option<Oid>, Error> {
        self.remote_ref(remote, &format!("refs/heads/{branch}"))
            .await
    }

    /// Returns the commit of a ref on the remote.
    pub async fn remote_ref(&self, remote: &Remote, name: &str) -> Result<Option<Oid>, Error> {
        let run = remote
            .apply_to(self.git())
            .args(["ls-remote", "--quiet", "--"]);
        let output = run.args([remote.url(), name]).text().await;
        let output = output.map_err(explain_auth_failure)?;
        // Git matches the end of a name, so another ref may be listed too.
        let mut lines = output.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.find(|(_, listed)| *listed == name);
        Ok(found.and_then(|(commit, _)| Oid::parse(commit)))
    }

    /// Pushes a commit to a ref. Returns false if that would remove commits from it.
    pub async fn push(&self, remote: &Remote, commit: &Oid, name: &str) -> Result<bool, Error> {
        let spec = format!("{commit}:{name}");
        let run = remote.apply_to(self.git());
        let run = run.args(["push", "--quiet", "--porcelain", "--no-verify", "--"]);
        let output = run
            .args([remote.url(), &spec])
            .accept_codes(&[1])
            .output()
            .await;
        Ok(output.map_err(explain_auth_failure)?.code == 0)
    }

    /// Sets a branch of ours on the remote, if it is where we saw it. `expected` is the commit that we
    /// pushed last; `None`: the branch must not exist. Returns false if it has moved.
    pub async fn push_over(
        &self,
        remote: &Remote,
        commit: &Oid,
        (name, expected): (&str, Option<&Oid>),
    ) -> Result<bool, Error> {
        let expected = expected.map_or("", Oid::as_str);
        // The remote compares the old value, so a commit of somebody else is never lost.
        let lease = format!("--force-with-lease={name}:{expected}");
        let spec = format!("{commit}:{name}");
        let run = remote.apply_to(self.git());
        let run = run.args([
            "push",
            "--quiet",
            "--porcelain",
            "--no-verify",
            &lease,
            "--",
        ]);
        let output = run
            .args([remote.url(), &spec])
            .accept_codes(&[1])
            .output()
            .await;
        Ok(output.map_err(explain_auth_failure)?.code == 0)
    }

    /// Returns the address that the repository was cloned from, if it is configured.
    pub async fn origin_url(&self) -> Result<Option<String>, Error> {
        let args = ["config", "--local", "--get", "remote.origin.url"];
        let output = self.git().args(args).accept_codes(&[1]).text().await?;
        Ok((!output.is_empty()).then_some(output))
    }

    /// Returns the addresses of all remotes, `origin` first.
    pub async fn remote_urls(&self) -> Result<Vec<String>, Error> {
        let args = ["config", "--local", "--get-regexp", r"^remote\..*\.url$"];
        let output = self.git().args(args).accept_codes(&[1]).text().await?;
        let pairs = output.lines().filter_map(|line| line.split_once(' '));
        let (origin, others): (Vec<_>, Vec<_>) =
            pairs.partition(|(key, _)| *key == "remote.origin.url");
        let all = origin.into_iter().chain(others);
        Ok(all.map(|(_, url)| url.to_owned()).collect())
    }
}
