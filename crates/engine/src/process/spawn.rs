//! Creates processes, all through one call.
//!
//! A parent-death signal fires when the *thread* that forked ends, and a runtime starts and ends
//! threads at any time. So one thread, which lives as long as the program, forks all children.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use super::{Error, Launcher};

type SpawnTask = Box<dyn FnOnce() + Send>;

/// Returns the pids of our own children that have not been reaped yet. The lock is held during the
/// fork, so that a child is always listed here before it is seen in `/proc`. A poisoned lock is
/// used all the same: a set of numbers has no half-changed state.
pub(super) fn known_children() -> MutexGuard<'static, HashSet<i32>> {
    static KNOWN: OnceLock<Mutex<HashSet<i32>>> = OnceLock::new();
    KNOWN
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

fn spawn_thread() -> &'static mpsc::Sender<SpawnTask> {
    static THREAD: OnceLock<mpsc::Sender<SpawnTask>> = OnceLock::new();
    THREAD.get_or_init(|| {
        let (sender, tasks) = mpsc::channel::<SpawnTask>();
        let work = move || tasks.into_iter().for_each(|task| task());
        // If the thread cannot start, the channel is closed and every spawn fails.
        drop(
            std::thread::Builder::new()
                .name("spawner".to_owned())
                .spawn(work),
        );
        sender
    })
}

/// A child that is listed in [`known`] until it is dropped. Drop it only after it was waited for:
/// otherwise it is taken for an orphan.
pub(super) struct KnownChild {
    pub child: Child,
    pub pid: i32,
}

impl Drop for KnownChild {
    fn drop(&mut self) {
        known_children().remove(&self.pid);
    }
}

pub(super) async fn spawn(mut command: Command) -> io::Result<KnownChild> {
    let runtime = tokio::runtime::Handle::current();
    let (reply, answer) = oneshot::channel();
    let fork = move || {
        // `tokio` registers the child with its signal driver, which needs the runtime's context.
        let _inside = runtime.enter();
        let mut children = known_children();
        let child = command.spawn().map(|child| {
            let pid = child
                .id()
                .and_then(|pid| i32::try_from(pid).ok())
                // A child that has already been reaped has no pid; zero matches no process.
                .unwrap_or(0);
            children.insert(pid);
            KnownChild { child, pid }
        });
        // The lock is released only after the pid is listed: a scan that runs in between would take
        // the child for an orphan and end it.
        drop(children);
        // The caller may have been cancelled; the child is then dropped here.
        drop(reply.send(child));
    };
    drop(spawn_thread().send(Box::new(fork)));
    answer
        .await
        .map_err(|_| io::Error::other("the thread that starts processes is gone"))?
}

/// Parts of a command line; the launcher, if any, is put in front.
pub(super) struct SpawnRecipe<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    pub env: &'a [(OsString, OsString)],
    pub cwd: &'a Path,
    pub launcher: Option<&'a Launcher>,
}

impl SpawnRecipe<'_> {
    /// Returns a command with piped streams, a cleared environment and its own process group.
    #[expect(clippy::disallowed_methods, reason = "this is the module that spawns")]
    pub fn command(&self) -> Command {
        let mut command = match self.launcher {
            Some(launcher) => {
                let mut command = Command::new(&launcher.program);
                command.args(&launcher.args).arg("--").arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        command
            .args(self.args)
            // An inherited variable could carry a token, or change how a tool behaves.
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.cwd)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            // A group of its own: a signal to our terminal's group (Ctrl-C) must not reach it, and
            // we can signal all of it at once.
            .process_group(0);
        command
    }
}

/// Finds a program as a shell would, but before anything is started, so that "not installed" is an
/// error of its own. The returned path has no `.` and no `..`: the directories that they lead
/// through may be missing in a sandbox. The file name is not resolved, because programs may behave
/// according to it.
pub fn find_program(program: &OsStr, path: &OsStr, cwd: &Path) -> Result<PathBuf, Error> {
    let runnable = |candidate: &Path| {
        candidate
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    let missing = |searched: String| Error::NotInstalled {
        program: program.to_string_lossy().into_owned(),
        searched,
    };
    // As in a shell: a name with a slash is a path and is not looked up.
    if Path::new(program).components().count() > 1 || Path::new(program).is_absolute() {
        let file = cwd.join(program);
        return if runnable(&file) {
            Ok(normalize_program_path(file))
        } else {
            Err(missing(file.display().to_string()))
        };
    }
    std::env::split_paths(path)
        // A relative entry of PATH is relative to the directory of the run, not to ours.
        .map(|dir| cwd.join(dir).join(program))
        .find(|candidate| runnable(candidate))
        .map(normalize_program_path)
        .ok_or_else(|| missing(format!("PATH ({})", path.to_string_lossy())))
}

/// Canonicalises the directory of a path that contains `.` or `..`.
pub fn normalize_program_path(file: PathBuf) -> PathBuf {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if file.components().all(is_plain) {
        return file.components().collect();
    }
    // If the directory cannot be resolved, the kernel's own error will name the file.
    let dir = file.parent().and_then(|dir| dir.canonicalize().ok());
    match (dir, file.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => file,
    }
}
