//! Finds out which sandbox levels work on this machine, by running a program in each of them.
//!
//! It looks at no version numbers: distributions patch kernels, and containers, security modules
//! and sysctls forbid what the kernel could do. Only a start that worked counts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{
    NOT_CONFINED, OverlayDir, Proof, RunMounts, SandboxLevel, SandboxNetwork, SandboxProfile,
    bubblewrap, program,
};
use crate::process::{self, ProcessExit, ProcessIdentity, ShortCommand};

/// Maximum number of attempts if a probe is interrupted. A loaded machine can interrupt one probe;
/// three in a row mean that the level does not work.
const TRIES_MAX: u32 = 3;
// A start takes milliseconds; 20 seconds only pass if something hangs.
const WALL: Duration = Duration::from_secs(20);

/// Result of probing one level.
#[derive(Clone, Debug)]
pub struct LevelProbe {
    pub level: SandboxLevel,
    pub found: Result<Proof, String>,
}

/// Runs a program that does nothing in the sandbox of `profile`. `exe` has the hidden verbs, and
/// we may write in `dir`.
pub async fn probe_level(exe: &Path, dir: &Path, profile: &SandboxProfile) -> LevelProbe {
    let mut result = try_level(exe, dir, profile).await;
    for _ in 1..TRIES_MAX {
        let Err(ProbeFailure { cut_off: true, .. }) = result else {
            break;
        };
        result = try_level(exe, dir, profile).await;
    }
    let level = profile.level;
    let result = result.map_err(|failure| failure.why);
    LevelProbe {
        level,
        found: result,
    }
}

/// Cause of a failed probe. A level whose probe was interrupted may still work, so it is retried
/// before a weaker level is used.
struct ProbeFailure {
    why: String,
    cut_off: bool,
}

impl<E: std::fmt::Display> From<E> for ProbeFailure {
    fn from(why: E) -> Self {
        Self {
            why: why.to_string(),
            cut_off: false,
        }
    }
}

/// Returns a new name for the directory of a probe. The number keeps the replicas of one worker
/// apart, which probe at the same time; the pid keeps processes apart, and comes last for
/// [`remove_old_probes`].
fn probe_name(kind: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{kind}-{count}-{}", std::process::id())
}

/// Removes the directories of processes that were killed during a probe.
fn remove_old_probes(probes: &Path) {
    let entries = std::fs::read_dir(probes).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(OsStr::to_str);
        // The name ends with the pid of the probing process; a living one still uses its directory.
        let pid = name.and_then(|name| name.rsplit_once('-')?.1.parse().ok());
        if pid.is_none_or(|pid| ProcessIdentity::of(pid).is_none()) {
            // Another process may have removed it already. The kernel leaves directories of overlays
            // that deny access.
            drop(crate::git::remove_tree(&path));
        }
    }
}

async fn try_level(
    exe: &Path,
    dir: &Path,
    profile: &SandboxProfile,
) -> Result<Proof, ProbeFailure> {
    if profile.level == SandboxLevel::Bubblewrap && bubblewrap::find_bwrap().is_none() {
        return Err("bubblewrap is not installed".into());
    }
    let all = dir.join("probes");
    remove_old_probes(&all);
    let dir = all.join(probe_name(profile.level.as_str()));
    let own = dir.join("own");
    crate::private_files::make_dir(&own)?;
    let confinement = profile.sandbox_for(RunMounts {
        read: vec![exe.to_owned()],
        write: vec![own.clone()],
        read_only: Vec::new(),
        overlays: Vec::new(),
        credentials: Vec::new(),
        network: SandboxNetwork::On,
        metadata: false,
        proof: dir.join("proof/proof.json"),
    });
    let file = confinement.write()?;
    let us = std::process::id().to_string();
    let call = ShortCommand {
        program: exe.to_owned(),
        args: vec![
            "confine".into(),
            us.into(),
            file.into(),
            "--".into(),
            // A program that every machine has, with no output, files or network of its own.
            "/bin/true".into(),
        ],
        env: Vec::new(),
        cwd: own,
        stdin: Vec::new(),
        wall: WALL,
        output_bytes: 4096,
        stdout_file: None,
        launcher: None,
    };
    let output = process::run_short_command(&call).await;
    // The proof is read before its directory is removed, whatever the exit was.
    let proof = confinement.read_proof();
    drop(std::fs::remove_dir_all(&dir));
    let output = output?;
    if output.exit != ProcessExit::Code(0) {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let why = if stderr.is_empty() {
            output.exit.to_string()
        } else {
            stderr
        };
        // This code means that it could not confine itself; any other means an interruption.
        let cut_off = output.exit != ProcessExit::Code(NOT_CONFINED.into());
        return Err(ProbeFailure { why, cut_off });
    }
    Ok(proof?)
}

/// Returns whether a run of this profile can have read-only layers with its own changes on top, with
/// all of them in `dir`. It depends on the level, the kernel and the file system of `dir`.
pub async fn probe_overlays(exe: &Path, dir: &Path, profile: &SandboxProfile) -> bool {
    // That level has no mounts at all.
    if profile.level == SandboxLevel::Landlock {
        return false;
    }
    let all = dir.join("probes");
    remove_old_probes(&all);
    let dir = all.join(probe_name("overlay"));
    let works = try_overlay(exe, &dir, profile).await.unwrap_or(false);
    // A later probe removes it.
    drop(crate::git::remove_tree(&dir));
    works
}

async fn try_overlay(exe: &Path, dir: &Path, profile: &SandboxProfile) -> std::io::Result<bool> {
    let [shown, upper, lower, changes, work] =
        ["shown", "upper", "lower", "changes", "work"].map(|name| dir.join(name));
    for one in [&shown, &upper, &lower, &changes, &work] {
        // `a` is in both layers, to show that the upper one wins; `b` is deleted, to show that the
        // lower one stays untouched.
        crate::private_files::make_dir(one)?;
    }
    for (layer, name) in [(&upper, "a"), (&lower, "a"), (&lower, "b")] {
        let text = if layer == &upper { "upper" } else { "lower" };
        crate::private_files::write(&layer.join(name), text)?;
    }
    let confinement = profile.sandbox_for(RunMounts {
        read: vec![exe.to_owned()],
        write: Vec::new(),
        read_only: Vec::new(),
        overlays: vec![OverlayDir {
            dir: shown.clone(),
            lowers: vec![upper, lower.clone()],
            changes: changes.clone(),
            work,
        }],
        credentials: Vec::new(),
        network: SandboxNetwork::On,
        metadata: false,
        proof: dir.join("proof/proof.json"),
    });
    let file = confinement.write().map_err(std::io::Error::other)?;
    let script = "test \"$(cat a)\" = upper && rm b && echo new > c";
    let us = std::process::id().to_string();
    let call = ShortCommand {
        program: exe.to_owned(),
        args: ["confine", &us]
            .map(OsString::from)
            .into_iter()
            .chain([file.into()])
            .chain(["--", "/bin/sh", "-c", script].map(OsString::from))
            .collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: shown,
        stdin: Vec::new(),
        wall: WALL,
        output_bytes: 4096,
        stdout_file: None,
        launcher: None,
    };
    let output = process::run_short_command(&call).await;
    let output = output.map_err(std::io::Error::other)?;
    // The script's own success is not enough: the changes must be where we will collect them.
    let kept = lower.join("b").exists() && changes.join("c").is_file();
    Ok(output.exit == ProcessExit::Code(0) && kept)
}

/// A program to test in a sandbox.
#[derive(Clone, Debug)]
pub struct ProgramTrial<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    pub path: &'a OsStr,
    /// The person's home directory, to name missing files in it.
    pub home: Option<&'a Path>,
}

/// Exit codes of a shell or `env` that could not start a program.
const NOT_STARTED: [i32; 2] = [126, 127];
const OUTPUT_MAX: usize = 64 << 10;

/// Starts a program with `--version` in a sandbox like an agent's, without a network, and returns
/// the first line of its output. The error names the paths that are not mounted, if they are the
/// cause.
pub async fn try_program(
    (exe, dir): (&Path, &Path),
    profile: &SandboxProfile,
    trial: &ProgramTrial<'_>,
) -> Result<String, String> {
    // The files are looked up first, because a missing interpreter gives only "not found" from the
    // kernel, without its name.
    let needed = program::files_needed_by(trial.program, trial.path);
    if let Some(why) = needed.missing.first() {
        return Err(why.clone());
    }
    let all = dir.join("probes");
    remove_old_probes(&all);
    let dir = all.join(probe_name("start"));
    let own = dir.join("own");
    std::fs::create_dir_all(&own).map_err(|error| error.to_string())?;
    let result = start_once(exe, &dir, profile, trial, needed.read).await;
    drop(std::fs::remove_dir_all(&dir));
    result
}

async fn start_once(
    exe: &Path,
    dir: &Path,
    profile: &SandboxProfile,
    trial: &ProgramTrial<'_>,
    mut read: Vec<PathBuf>,
) -> Result<String, String> {
    let own = dir.join("own");
    // An agent may be a script that is passed to an interpreter, and then needs its own files too.
    for file in trial.args.iter().map(Path::new) {
        if file.is_absolute() && file.is_file() {
            read.extend(program::files_needed_by(file, trial.path).read);
        }
    }
    profile
        .prepare_home(&own)
        .map_err(|error| error.to_string())?;
    let confinement = profile.sandbox_for(RunMounts {
        read,
        write: vec![own.clone()],
        read_only: Vec::new(),
        overlays: Vec::new(),
        credentials: Vec::new(),
        network: SandboxNetwork::Off,
        metadata: false,
        proof: dir.join("proof/proof.json"),
    });
    let file = confinement.write().map_err(|error| error.to_string())?;
    let us = std::process::id().to_string();
    let mut args: Vec<OsString> = vec!["confine".into(), us.into(), file.into(), "--".into()];
    args.push(trial.program.into());
    args.extend_from_slice(trial.args);
    args.push("--version".into());
    // Many tools write a cache even for `--version`, so `HOME` and `TMPDIR` are writable.
    let mut env = profile.environment();
    env.push(("PATH".into(), trial.path.to_owned()));
    env.push(("HOME".into(), own.clone().into()));
    env.push(("TMPDIR".into(), own.clone().into()));
    let call = ShortCommand {
        program: exe.to_owned(),
        args,
        env,
        cwd: own,
        stdin: Vec::new(),
        wall: WALL,
        output_bytes: OUTPUT_MAX,
        stdout_file: None,
        launcher: None,
    };
    let output = process::run_short_command(&call).await;
    let output = output.map_err(|error| error.to_string())?;
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let not_mounted = trial.home.map_or_else(Vec::new, |home| {
        program::named_but_not_shown(&text, home, &confinement.read)
    });
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or("it printed nothing").to_owned();
    match output.exit {
        ProcessExit::Code(0) => Ok(line),
        // Some tools return an error for `--version`; they ran, and that is what the trial asks.
        ProcessExit::Code(code) if not_mounted.is_empty() && !could_not_start(code) => {
            Ok(format!("{line} ({})", output.exit))
        }
        ProcessExit::Code(_) if not_mounted.is_empty() => Err(line),
        // A program that hangs usually prints nothing: the limit that ended it is the cause.
        _ if not_mounted.is_empty() => Err(format!("{}: {line}", output.exit)),
        _ => {
            let names: Vec<String> = not_mounted
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let names = names.join(", ");
            Err(format!("{line}; not mounted: {names}"))
        }
    }
}

fn could_not_start(code: i32) -> bool {
    code == i32::from(NOT_CONFINED) || NOT_STARTED.contains(&code)
}
