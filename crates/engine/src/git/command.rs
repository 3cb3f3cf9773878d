//! The only runner of git commands. All settings and environment variables that git gets are listed
//! here.
//!
//! A repository's configuration can name programs, and an agent can write configuration. So nothing
//! is inherited: not the environment, not the user's configuration, not hooks. It refuses to wait
//! for a person: every prompt fails.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CommitIdentity, Error, GitProgram, Oid, Repository, WorkTreeDirs};
use crate::process::{ProcessExit, ShortCommand, run_short_command};

/// Time limit of a git command. A pack of a large repository takes minutes; nothing that we run
/// takes longer.
const WALL: Duration = Duration::from_secs(600);
/// Maximum output of a git command. Output is held in memory, so it has a cap. A caller that needs
/// all of it must check `cut`.
const OUTPUT_MAX: usize = 64 << 20;

/// Settings that override any configuration file. Those that name a program name `false`, or
/// nothing, so that a command that needs it fails.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.editor=false",
    "core.pager=cat",
    "core.quotePath=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    "core.logAllRefUpdates=true",
    // A reverse index is derived data, and git does not check the one that it finds.
    "pack.writeReverseIndex=false",
    "sequence.editor=false",
    "credential.helper=",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "log.showSignature=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    // Git LFS: a checkout has the pointer that the commit has.
    "filter.lfs.process=",
    "filter.lfs.clean=",
    "filter.lfs.smudge=",
    "filter.lfs.required=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "worktree.useRelativePaths=false",
    "advice.graftFileDeprecated=false",
];

/// Settings for data that must survive a power cut: git syncs everything to disk before it gets its
/// name. The caller also syncs the file system before it records a result.
const DURABLE: &[&str] = &["core.fsync=all", "core.fsyncMethod=batch"];

/// Settings for data that is recreated, not read, after a power cut.
const NOT_DURABLE: &[&str] = &["core.fsync=none"];

/// Environment of every command. Replaced objects, grafts and lazy fetches would show us a
/// different history than the one that lands, or run a program to get it.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LC_ALL", "C.UTF-8"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PROTOCOL_FROM_USER", "0"),
];

/// Variable that becomes a setting, with options appended.
pub(super) const SSH: &str = "GIT_SSH_COMMAND";

/// A git command that is being built.
#[derive(Debug)]
pub(super) struct GitCommand<'a> {
    tool: &'a GitProgram,
    cwd: PathBuf,
    place: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    stdout_file: Option<PathBuf>,
    durable: bool,
    /// Exit codes besides 0 that are answers and not failures.
    answers: &'static [i32],
}

/// Output of git.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub code: i32,
    pub out: Vec<u8>,
    pub cut: bool,
}

impl GitOutput {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).trim_end().to_owned()
    }

    /// Returns the fields of NUL-separated output.
    pub fn fields(&self) -> Vec<String> {
        let mut fields: Vec<String> = self
            .out
            .split(|&byte| byte == 0)
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect();
        // The last field ends with a NUL too, which leaves an empty one behind it.
        if fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        fields
    }
}

impl Repository {
    /// Returns a command for the repository as a whole: objects and refs.
    pub(super) fn git(&self) -> GitCommand<'_> {
        // Durable by default: forgetting it loses data in a power cut, while adding it costs
        // milliseconds.
        let run = GitCommand::new(&self.tool, &self.common).with_git_dir(&self.common);
        self.writing_apart(run.durable())
    }

    fn writing_apart<'a>(&self, run: GitCommand<'a>) -> GitCommand<'a> {
        match &self.quarantine_objects {
            Some(objects) => run.env("GIT_OBJECT_DIRECTORY", objects),
            None => run,
        }
    }

    /// Returns a command for one work tree. The common directory is given too: the file in the
    /// worktree's git directory that points to it is as writable as any other.
    pub(super) fn git_at(&self, place: &WorkTreeDirs) -> GitCommand<'_> {
        let mut work_tree = OsString::from("--work-tree=");
        work_tree.push(&place.path);
        let mut run = GitCommand::new(&self.tool, &place.path).with_git_dir(&place.git_dir);
        run.place.push(work_tree);
        // Otherwise a changed `commondir` could point refs and objects at another repository.
        self.writing_apart(run.env("GIT_COMMON_DIR", &self.common).durable())
    }
}

impl<'a> GitCommand<'a> {
    pub fn new(tool: &'a GitProgram, cwd: &Path) -> Self {
        Self {
            tool,
            cwd: cwd.to_owned(),
            place: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            stdout_file: None,
            durable: false,
            answers: &[],
        }
    }

    pub fn with_git_dir(mut self, git_dir: &Path) -> Self {
        let mut arg = OsString::from("--git-dir=");
        arg.push(git_dir);
        self.place.push(arg);
        self
    }

    /// Makes writes durable, for a repository that outlives the run.
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Adds settings after our own, so that they override them. Git takes the last value of a
    /// setting, so the order on the command line decides.
    pub fn settings(mut self, settings: Vec<OsString>) -> Self {
        self.place.extend(settings);
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Adds the environment for connections to other machines.
    pub fn network_env(mut self) -> Self {
        let own = self.tool.network_env.iter().filter(|(name, _)| name != SSH);
        self.env.extend(own.cloned());
        self
    }

    /// Returns the user's ssh command, if it is set.
    pub fn ssh_command(&self) -> Option<&OsStr> {
        let mut own = self.tool.network_env.iter();
        own.find(|(name, _)| name == SSH).map(|(_, value)| &**value)
    }

    pub fn index(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    pub fn identity(self, identity: &CommitIdentity) -> Self {
        self.env("GIT_AUTHOR_NAME", &identity.name)
            .env("GIT_AUTHOR_EMAIL", &identity.email)
            .env("GIT_COMMITTER_NAME", &identity.name)
            .env("GIT_COMMITTER_EMAIL", &identity.email)
    }

    /// Sets another author than the committer.
    pub fn author(self, author: &CommitIdentity) -> Self {
        self.env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_AUTHOR_EMAIL", &author.email)
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub fn stdout_to(mut self, path: &Path) -> Self {
        self.stdout_file = Some(path.to_owned());
        self
    }

    /// Sets exit codes besides 0 that are answers and not failures.
    pub fn accept_codes(mut self, codes: &'static [i32]) -> Self {
        self.answers = codes;
        self
    }

    /// Runs the command. An exit code that is neither 0 nor an answer is an error.
    pub async fn output(self) -> Result<GitOutput, Error> {
        let verb = self
            .args
            .first()
            .map(|verb| verb.to_string_lossy().into_owned());
        let verb = verb.unwrap_or_default();
        let answers = self.answers;
        let dir = self.cwd.clone();
        let output = run_short_command(&self.into_short_command()).await?;
        match output.exit {
            // Some commands answer by exit code: 1 for "no" and 128 for "there is none".
            ProcessExit::Code(code) if code == 0 || answers.contains(&code) => Ok(GitOutput {
                code,
                out: output.stdout,
                cut: output.cut,
            }),
            ProcessExit::Code(_) => Err(Error::Failed {
                verb,
                dir,
                detail: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
            // Nothing is known about the effect of a command that was cut off, so it is an error of
            // its own.
            ProcessExit::Signal(_)
            | ProcessExit::WallLimit
            | ProcessExit::IdleLimit
            | ProcessExit::DiskLimit { .. }
            | ProcessExit::Cancelled
            | ProcessExit::Dismissed => Err(Error::CutOff {
                verb,
                dir,
                how: output.exit.to_string(),
            }),
        }
    }

    /// Runs the command and returns its complete output as text.
    pub async fn text(self) -> Result<String, Error> {
        Ok(self.full_output().await?.text())
    }

    pub async fn fields(self) -> Result<Vec<String>, Error> {
        Ok(self.full_output().await?.fields())
    }

    pub async fn oid(self) -> Result<Oid, Error> {
        let verb = self
            .args
            .first()
            .map(|verb| verb.to_string_lossy().into_owned());
        let dir = self.cwd.clone();
        let text = self.text().await?;
        Oid::parse(&text).ok_or_else(|| Error::Failed {
            verb: verb.unwrap_or_default(),
            dir,
            detail: format!("`{text}` is not an object name"),
        })
    }

    /// Runs the command for its effect.
    pub async fn run(self) -> Result<(), Error> {
        self.output().await.map(drop)
    }

    async fn full_output(self) -> Result<GitOutput, Error> {
        let verb = self
            .args
            .first()
            .map(|verb| verb.to_string_lossy().into_owned());
        let output = self.output().await?;
        // Half of a list must never be taken for all of it.
        if output.cut {
            Err(Error::TooLarge(verb.unwrap_or_default()))
        } else {
            Ok(output)
        }
    }

    fn into_short_command(self) -> ShortCommand {
        let mut args: Vec<OsString> = vec!["--no-pager".into()];
        args.extend(
            SETTINGS
                .iter()
                .chain(if self.durable { DURABLE } else { NOT_DURABLE })
                .flat_map(|setting| ["-c".into(), OsString::from(setting)]),
        );
        args.extend(self.place);
        args.extend(self.args);
        let fixed = ENVIRONMENT
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        ShortCommand {
            program: self.tool.program.clone(),
            args,
            env: fixed.chain(self.env).collect(),
            cwd: self.cwd,
            stdin: self.stdin,
            wall: WALL,
            output_bytes: OUTPUT_MAX,
            stdout_file: self.stdout_file,
            launcher: self.tool.launcher.clone(),
        }
    }
}
