//! Measures the cost of the sandbox: runs a program that does nothing, bare, held, and in every
//! sandbox level of this machine, in turns. Prints medians.
//!
//!     cargo run --release -p countersign-engine --example spawn [REPEATS]
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, starts programs and prints figures"
)]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use engine::sandbox::{self, RunMounts, SandboxLevel, SandboxNetwork, SandboxProfile, SandboxSpec};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failed> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let verb = args.first().and_then(|verb| verb.to_str());
    match verb {
        Some("hold") => match engine::process::exec_tied_to_parent(&args[1..])? {},
        Some("confine") => return Ok(sandbox::run_confined(&args[1..])?.into()),
        Some("confined") => return Ok(sandbox::run_inside(&args[1..])?.into()),
        _ => {}
    }
    let repeats = verb.and_then(|word| word.parse().ok()).unwrap_or(100);
    let dir = tempfile::TempDir::new()?;
    let exe = std::env::current_exe()?;
    let mut ways = vec![Way::bare(), Way::held(&exe)];
    let plain = Way::plain_bubblewrap();
    match plain.time() {
        Ok(_) => ways.push(plain),
        Err(error) => println!("skipped: {}: {error}", plain.name),
    }
    for level in SandboxLevel::ALL {
        let way = Way::confined(&exe, dir.path(), level)?;
        match way.time() {
            Ok(_) => ways.push(way),
            Err(error) => println!("skipped: {level}: {error}"),
        }
    }
    let mut taken = vec![Vec::new(); ways.len()];
    for _ in 0..repeats {
        for (way, times) in ways.iter().zip(&mut taken) {
            times.push(way.time()?);
        }
    }
    println!("{repeats} spawns each, in turns; median and 95th percentile");
    for (way, times) in ways.iter().zip(&mut taken) {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!("{:<12} {:>9.2?} {:>9.2?}", way.name, at(50), at(95));
    }
    Ok(ExitCode::SUCCESS)
}

struct Way {
    name: String,
    words: Vec<OsString>,
    confinement: Option<SandboxSpec>,
}

impl Way {
    fn bare() -> Self {
        Self {
            name: "bare".to_owned(),
            words: vec!["/bin/true".into()],
            confinement: None,
        }
    }

    /// Bubblewrap as in its manual: the machine's root, read-only.
    fn plain_bubblewrap() -> Self {
        let flags = "--unshare-user --unshare-pid --unshare-ipc --die-with-parent --cap-drop ALL \
                     --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --tmpfs /run --";
        let words = std::iter::once("/usr/bin/bwrap").chain(flags.split_ascii_whitespace());
        let words = words.map(OsString::from);
        Self {
            name: "plain bwrap".to_owned(),
            words: words.chain(Self::bare().words).collect(),
            confinement: None,
        }
    }

    fn held(exe: &Path) -> Self {
        let us = std::process::id().to_string();
        let words = [exe.into(), "hold".into(), us.into(), "--".into()];
        Self {
            name: "held".to_owned(),
            words: words.into_iter().chain(Self::bare().words).collect(),
            confinement: None,
        }
    }

    fn confined(exe: &Path, dir: &Path, level: SandboxLevel) -> Result<Self, Failed> {
        let dir = dir.join(level.as_str());
        let (own, checkout) = (dir.join("own"), dir.join("checkout"));
        std::fs::create_dir_all(&own)?;
        std::fs::create_dir_all(&checkout)?;
        let mut profile = SandboxProfile::new(level, None, &"/usr/bin:/bin".into(), &[], &[]);
        profile.read.push(exe.to_owned());
        let confinement = profile.sandbox_for(RunMounts {
            read: vec![checkout],
            write: vec![own],
            read_only: Vec::new(),
            overlays: Vec::new(),
            credentials: Vec::new(),
            network: SandboxNetwork::On,
            metadata: false,
            proof: dir.join("sandbox/proof.json"),
        });
        let us = std::process::id().to_string();
        let file = confinement.write()?;
        let words = [
            exe.into(),
            "confine".into(),
            us.into(),
            file.into(),
            "--".into(),
        ];
        Ok(Self {
            name: level.to_string(),
            words: words.into_iter().chain(Self::bare().words).collect(),
            confinement: Some(confinement),
        })
    }

    fn time(&self) -> Result<Duration, Failed> {
        if let Some(confinement) = &self.confinement {
            confinement.write()?;
        }
        let began = Instant::now();
        let status = Command::new(&self.words[0])
            .args(&self.words[1..])
            .env_clear()
            .current_dir("/usr")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        let elapsed = began.elapsed();
        if !status.success() {
            return Err(format!("{status}").into());
        }
        if let Some(confinement) = &self.confinement {
            confinement.read_proof()?;
        }
        Ok(elapsed)
    }
}
