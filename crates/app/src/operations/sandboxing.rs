//! Chooses the sandbox for agents on this machine: the strongest level that works.

use std::path::{Path, PathBuf};

use engine::sandbox::{LevelProbe, SandboxLevel, SandboxProfile, probe_level};
use flow::policy::SandboxMode;

use super::config;
use crate::failure::Failure;
use crate::settings::{Environment, certificates};

/// Warning at the start of a run whose policy turns the sandbox off.
pub const NO_SANDBOX_WARNING: &str = "sandbox = \"off\": agents run with your own rights, and a reviewer's changes are detected only afterwards";

const SANDBOX_HINT: &str = "allow user namespaces, install bubblewrap, or use Linux 6.12 or newer; docs/sandbox.md says how";

/// Returns the sandbox that a policy requires, or `None` if it turns the sandbox off.
pub async fn sandbox_for(
    mode: SandboxMode,
    environment: &Environment,
) -> Result<Option<SandboxProfile>, Failure> {
    match mode {
        SandboxMode::Enforced => strongest_sandbox(environment).await.map(Some),
        SandboxMode::Off => Ok(None),
    }
}

/// Returns the first level that works. It fails if none does, because agents run without a sandbox
/// only if the policy says so.
async fn strongest_sandbox(environment: &Environment) -> Result<SandboxProfile, Failure> {
    let mut failed = Vec::new();
    let extra_paths = user_paths(environment)?;
    for level in SandboxLevel::ALL {
        let profile = profile_at(level, environment, &extra_paths);
        let probed = probe_profile(&profile, environment).await;
        if probed.found.is_ok() {
            return Ok(profile);
        }
        failed.push(probed);
    }
    let mut failure = Failure::error("no sandbox works on this machine, so no agent is started");
    for probed in failed {
        if let Err(why) = probed.found {
            failure = failure.hint(format!("{}: {why}", probed.level));
        }
    }
    Err(failure
        .hint(SANDBOX_HINT)
        .hint("or run agents without a sandbox, at your own risk: sandbox = \"off\" in [policy]"))
}

/// Describes every sandbox level of this machine in one sentence; an error if none works.
pub async fn describe_levels(environment: &Environment) -> Result<String, String> {
    let mut lines = Vec::new();
    let mut best = None;
    let extra_paths = user_paths(environment).map_err(|failure| failure.message)?;
    for level in SandboxLevel::ALL {
        let probed =
            probe_profile(&profile_at(level, environment, &extra_paths), environment).await;
        lines.push(match &probed.found {
            Ok(proof) => format!("{level} works (Landlock {})", proof.landlock_abi),
            Err(why) => format!(
                "{level} does not: {}",
                why.lines().next().unwrap_or_default()
            ),
        });
        best = best.or_else(|| probed.found.is_ok().then_some(level));
    }
    let lines = lines.join("; ");
    match best {
        Some(level) => Ok(format!("agents run at the sandbox level {level}: {lines}")),
        None => Err(format!("no sandbox works: {lines}; {SANDBOX_HINT}")),
    }
}

async fn probe_profile(profile: &SandboxProfile, environment: &Environment) -> LevelProbe {
    probe_level(&environment.program, &environment.data_dir, profile).await
}

fn profile_at(
    level: SandboxLevel,
    environment: &Environment,
    extra_paths: &[PathBuf],
) -> SandboxProfile {
    let private: Vec<PathBuf> = [
        Some(environment.data_dir.clone()),
        environment.user_file.clone(),
        Some(PathBuf::from(environment.database())),
    ]
    .into_iter()
    .flatten()
    .filter(|path| path.is_absolute())
    .collect();
    let home = environment.home.as_deref();
    let mut profile = SandboxProfile::new(level, home, &environment.path, &private, extra_paths);
    profile.read.push(environment.program.clone());
    profile.read.extend(certificates().files);
    profile
}

/// Returns the paths of `[sandbox] show` in the user's own file. The whole home directory, its
/// parents, and our own data are refused.
fn user_paths(environment: &Environment) -> Result<Vec<PathBuf>, Failure> {
    let settings = config::load_user_settings(environment)?;
    let mut paths = Vec::new();
    for name in &settings.sandbox.show {
        let refuse = |why: &str| {
            Err(Failure::usage(format!("[sandbox] show = {name:?}: {why}"))
                .hint("name a file or a directory: \"~/sdk\", \"/srv/data\""))
        };
        let path = match (name.strip_prefix("~/"), &environment.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(name),
        };
        if !path.is_absolute() {
            return refuse("it is neither an absolute path nor below your home directory");
        }
        let real = match engine::sandbox::resolve(&path) {
            Ok(found) => found.real,
            Err(error) => return refuse(&error.to_string()),
        };
        let contains = |inner: &Path| {
            let inner = engine::sandbox::resolve(inner).map(|found| found.real);
            inner.is_ok_and(|inner| inner.starts_with(&real))
        };
        if environment.home.as_deref().is_some_and(contains) {
            return refuse("it is your whole home directory or a parent of it");
        }
        if contains(&environment.data_dir) {
            return refuse("Countersign's own data is in it");
        }
        paths.push(path);
    }
    Ok(paths)
}
