//! Which rungs this machine has, found out by standing on each of them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    NOT_CONFINED, Proof, RunMounts, SandboxLevel, SandboxNetwork, SandboxProfile, bubblewrap,
    program,
};
use crate::process::{self, ProcessExit, ProcessIdentity, ShortCommand};

/// How often a try that was cut off is made again.
const TRIES_MAX: u32 = 3;
const WALL: Duration = Duration::from_secs(20);

/// What came of trying one rung.
#[derive(Clone, Debug)]
pub struct LevelProbe {
    pub rung: SandboxLevel,
    pub found: Result<Proof, String>,
}

/// Confines a program that does nothing on the rung of `ward`. `exe` has the hidden verbs; `dir`
/// is ours to write in.
pub async fn probe(exe: &Path, dir: &Path, ward: &SandboxProfile) -> LevelProbe {
    let mut found = stand(exe, dir, ward).await;
    for _ in 1..TRIES_MAX {
        let Err(ProbeFailure { cut_off: true, .. }) = found else {
            break;
        };
        found = stand(exe, dir, ward).await;
    }
    let rung = ward.rung;
    let found = found.map_err(|missed| missed.why);
    LevelProbe { rung, found }
}

/// Why a rung was not stood on. One whose try was cut off may hold: nobody shall be put on a weaker
/// one for that.
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

/// Removes what those left who were killed in the middle of a probe.
fn clear(probes: &Path) {
    let entries = std::fs::read_dir(probes).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().and_then(OsStr::to_str);
        let pid = name.and_then(|name| name.rsplit_once('-')?.1.parse().ok());
        if pid.is_none_or(|pid| ProcessIdentity::of(pid).is_none()) {
            // It may be gone already: somebody else clears as well.
            drop(std::fs::remove_dir_all(path));
        }
    }
}

async fn stand(exe: &Path, dir: &Path, ward: &SandboxProfile) -> Result<Proof, ProbeFailure> {
    if ward.rung == SandboxLevel::Bubblewrap && bubblewrap::find().is_none() {
        return Err("bubblewrap is not installed".into());
    }
    let all = dir.join("probes");
    clear(&all);
    let dir = all.join(format!("{}-{}", ward.rung, std::process::id()));
    let own = dir.join("own");
    crate::private::make_dir(&own)?;
    let confinement = ward.confine(RunMounts {
        read: vec![exe.to_owned()],
        write: vec![own.clone()],
        shut: Vec::new(),
        layered: Vec::new(),
        lent: Vec::new(),
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
    let ran = process::output(&call).await;
    let proven = confinement.proven();
    drop(std::fs::remove_dir_all(&dir));
    let ran = ran?;
    if ran.exit != ProcessExit::Code(0) {
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        let why = if said.is_empty() {
            ran.exit.to_string()
        } else {
            said
        };
        // Where it could not confine itself it says so by this code.
        let cut_off = ran.exit != ProcessExit::Code(NOT_CONFINED.into());
        return Err(ProbeFailure { why, cut_off });
    }
    Ok(proven?)
}

/// A program to be tried inside of a sandbox.
#[derive(Clone, Debug)]
pub struct ProgramTrial<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    pub path: &'a OsStr,
    /// The person's, to name what is missing of it.
    pub home: Option<&'a Path>,
}

/// Codes by which a shell, or `env`, says that there is nothing to start.
const NOT_STARTED: [i32; 2] = [126, 127];
const OUTPUT_MAX: usize = 64 << 10;

/// Starts a program in a sandbox as agents are, without a network, and gives the first line that it
/// says. The error names what is not mounted, where that is the cause.
pub async fn try_program(
    (exe, dir): (&Path, &Path),
    ward: &SandboxProfile,
    trial: &ProgramTrial<'_>,
) -> Result<String, String> {
    let needed = program::needed(trial.program, trial.path);
    if let Some(why) = needed.missing.first() {
        return Err(why.clone());
    }
    let all = dir.join("probes");
    clear(&all);
    let dir = all.join(format!("start-{}", std::process::id()));
    let own = dir.join("own");
    std::fs::create_dir_all(&own).map_err(|error| error.to_string())?;
    let tried = start_once(exe, &dir, ward, trial, needed.read).await;
    drop(std::fs::remove_dir_all(&dir));
    tried
}

async fn start_once(
    exe: &Path,
    dir: &Path,
    ward: &SandboxProfile,
    trial: &ProgramTrial<'_>,
    mut read: Vec<PathBuf>,
) -> Result<String, String> {
    let own = dir.join("own");
    for file in trial.args.iter().map(Path::new) {
        if file.is_absolute() && file.is_file() {
            read.extend(program::needed(file, trial.path).read);
        }
    }
    ward.prepare_home(&own).map_err(|error| error.to_string())?;
    let confinement = ward.confine(RunMounts {
        read,
        write: vec![own.clone()],
        shut: Vec::new(),
        layered: Vec::new(),
        lent: Vec::new(),
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
    let mut env = ward.environment();
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
    let ran = process::output(&call).await;
    let ran = ran.map_err(|error| error.to_string())?;
    let said = [ran.stdout.as_slice(), ran.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let lost = trial.home.map_or_else(Vec::new, |home| {
        program::named_but_not_shown(&said, home, &confinement.read)
    });
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.unwrap_or("it said nothing").to_owned();
    match ran.exit {
        ProcessExit::Code(0) => Ok(line),
        ProcessExit::Code(code) if lost.is_empty() && !could_not_start(code) => {
            Ok(format!("{line} ({})", ran.exit))
        }
        _ if lost.is_empty() => Err(line),
        _ => {
            let names: Vec<String> = lost.iter().map(|path| path.display().to_string()).collect();
            let names = names.join(", ");
            Err(format!("{line}; not mounted: {names}"))
        }
    }
}

fn could_not_start(code: i32) -> bool {
    code == i32::from(NOT_CONFINED) || NOT_STARTED.contains(&code)
}
