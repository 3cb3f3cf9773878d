//! How agents are confined on this machine: the strongest rung that holds.

use std::path::{Path, PathBuf};

use engine::sandbox::{LevelProbe, SandboxLevel, SandboxProfile, probe};
use flow::policy::SandboxMode;

use super::config;
use crate::failure::Failure;
use crate::settings::Environment;

/// Said at the start of a run whose policy goes without a sandbox.
pub const GOES_WITHOUT: &str = "isolation = \"manifest\": agents run with your own rights, and what a reviewer changes is found out afterwards";

const WHAT_HELPS: &str = "allow user namespaces, install bubblewrap, or use Linux 6.12 or newer; docs/sandbox.md says how";

/// What a policy asks for.
pub async fn ward_for(
    isolation: SandboxMode,
    surroundings: &Environment,
) -> Result<Option<SandboxProfile>, Failure> {
    match isolation {
        SandboxMode::Enforced => ward(surroundings).await.map(Some),
        SandboxMode::Manifest => Ok(None),
    }
}

/// The first rung that holds; an error where none does, because nothing runs unconfined unasked.
async fn ward(surroundings: &Environment) -> Result<SandboxProfile, Failure> {
    let mut tried = Vec::new();
    let shown = shown(surroundings)?;
    for rung in SandboxLevel::ALL {
        let ward = ward_on(rung, surroundings, &shown);
        let probed = stand(&ward, surroundings).await;
        if probed.found.is_ok() {
            return Ok(ward);
        }
        tried.push(probed);
    }
    let mut failure =
        Failure::error("agents cannot be confined on this machine, so none is started");
    for probed in tried {
        if let Err(why) = probed.found {
            failure = failure.hint(format!("{}: {why}", probed.rung));
        }
    }
    Err(failure
        .hint(WHAT_HELPS)
        .hint("or go without, at your own risk: isolation = \"manifest\" in [policy]"))
}

/// Every rung of this machine, in one sentence; an error if none holds.
pub async fn examine(surroundings: &Environment) -> Result<String, String> {
    let mut lines = Vec::new();
    let mut best = None;
    let shown = shown(surroundings).map_err(|failure| failure.message)?;
    for rung in SandboxLevel::ALL {
        let probed = stand(&ward_on(rung, surroundings, &shown), surroundings).await;
        lines.push(match &probed.found {
            Ok(proof) => format!("{rung} holds (Landlock {})", proof.landlock_abi),
            Err(why) => format!(
                "{rung} does not: {}",
                why.lines().next().unwrap_or_default()
            ),
        });
        best = best.or_else(|| probed.found.is_ok().then_some(rung));
    }
    let lines = lines.join("; ");
    match best {
        Some(rung) => Ok(format!("agents run on the rung {rung}: {lines}")),
        None => Err(format!("agents cannot be confined: {lines}; {WHAT_HELPS}")),
    }
}

async fn stand(ward: &SandboxProfile, surroundings: &Environment) -> LevelProbe {
    probe(&surroundings.program, &surroundings.data_dir, ward).await
}

fn ward_on(rung: SandboxLevel, surroundings: &Environment, shown: &[PathBuf]) -> SandboxProfile {
    let private: Vec<PathBuf> = [
        Some(surroundings.data_dir.clone()),
        surroundings.user_file.clone(),
        Some(PathBuf::from(surroundings.database())),
    ]
    .into_iter()
    .flatten()
    .filter(|path| path.is_absolute())
    .collect();
    let home = surroundings.home.as_deref();
    let mut ward = SandboxProfile::new(rung, home, &surroundings.path, &private, shown);
    ward.read.push(surroundings.program.clone());
    ward
}

/// What `[sandbox] show` of the user's own file names. A home as a whole, what is around it, and our
/// own data are never shown.
fn shown(surroundings: &Environment) -> Result<Vec<PathBuf>, Failure> {
    let own = config::own(surroundings)?;
    let mut shown = Vec::new();
    for name in &own.sandbox.show {
        let refuse = |why: &str| {
            Err(Failure::usage(format!("[sandbox] show = {name:?}: {why}"))
                .hint("name a file or a directory: \"~/sdk\", \"/srv/data\""))
        };
        let path = match (name.strip_prefix("~/"), &surroundings.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(name),
        };
        if !path.is_absolute() {
            return refuse("it is neither absolute nor below your home");
        }
        let real = match engine::sandbox::resolve(&path) {
            Ok(found) => found.real,
            Err(error) => return refuse(&error.to_string()),
        };
        let around = |inner: &Path| {
            let inner = engine::sandbox::resolve(inner).map(|found| found.real);
            inner.is_ok_and(|inner| inner.starts_with(&real))
        };
        if surroundings.home.as_deref().is_some_and(around) {
            return refuse("it is your whole home, or around it");
        }
        if around(&surroundings.data_dir) {
            return refuse("Countersign's own data is in it");
        }
        shown.push(path);
    }
    Ok(shown)
}
