//! How agents are confined on this machine: the strongest rung that holds.

use std::path::PathBuf;

use engine::sandbox::{Probed, Rung, Ward, probe};
use flow::policy::Isolation;

use crate::failure::Failure;
use crate::settings::Surroundings;

/// Said at the start of a run whose policy goes without a sandbox.
pub const GOES_WITHOUT: &str = "isolation = \"manifest\": agents run with your own rights, and what a reviewer changes is found out afterwards";

const WHAT_HELPS: &str = "allow user namespaces, install bubblewrap, or use Linux 6.12 or newer; docs/sandbox.md says how";

/// What a policy asks for.
pub async fn ward_for(
    isolation: Isolation,
    surroundings: &Surroundings,
) -> Result<Option<Ward>, Failure> {
    match isolation {
        Isolation::Enforced => ward(surroundings).await.map(Some),
        Isolation::Manifest => Ok(None),
    }
}

/// The first rung that holds; an error where none does, because nothing runs unconfined unasked.
async fn ward(surroundings: &Surroundings) -> Result<Ward, Failure> {
    let mut tried = Vec::new();
    for rung in Rung::ALL {
        let ward = ward_on(rung, surroundings);
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
pub async fn examine(surroundings: &Surroundings) -> Result<String, String> {
    let mut lines = Vec::new();
    let mut best = None;
    for rung in Rung::ALL {
        let probed = stand(&ward_on(rung, surroundings), surroundings).await;
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

async fn stand(ward: &Ward, surroundings: &Surroundings) -> Probed {
    probe(&surroundings.program, &surroundings.data_dir, ward).await
}

fn ward_on(rung: Rung, surroundings: &Surroundings) -> Ward {
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
    let mut ward = Ward::new(rung, home, &surroundings.path, &private);
    ward.read.push(surroundings.program.clone());
    ward
}
