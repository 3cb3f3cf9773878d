//! Proves the base before a builder starts: runs the setup and the checks on it, in the sandbox of a
//! check.
//!
//! A green result is remembered by content and configuration, on this machine: the next ticket on
//! the same base starts at once, and so does a ticket on a base that landed after green checks. A red
//! result is not kept. The cause may be outside the repository, such as a program that is not
//! installed, so each ticket that asks gets a fresh answer.

use std::fs;
use std::path::{Path, PathBuf};

use flow::ticket::{CheckOutcome, CheckResult};
use flow::{EventKind, Usage};
use store::Artefact;

use super::{JobContext, JobError, JobOutput, cache_setup, check, finished_run};
use crate::git::Oid;
use crate::likely_fix::{self, RedCheck, SetupFacts};
use crate::log::removed;
use crate::private_files;
use crate::project::Project;

/// Prefix of the files that stand for a proof, next to the layers of the repository.
const PREFIX: &str = "proof-";
/// Configuration file of a project, at the root of its tree.
const CONFIG_FILE: &str = "countersign.toml";
/// Lock that one process holds while it proves a base of the repository.
const LOCK: &str = "base-proof";
/// Result of the last red proof, for jobs that waited for it.
const RED_FILE: &str = "base-proof.red.json";
/// Maximum number of remembered proofs for one repository.
const PROOFS_KEPT: usize = 200;

/// Results of the setup and the checks on a base.
#[derive(Clone, Debug, Default)]
pub struct BaseProof {
    /// Empty if an earlier proof was remembered, or if there is nothing to run.
    pub results: Vec<CheckResult>,
    pub artefacts: Vec<Artefact>,
    /// Likely fix if something is red.
    pub hint: String,
}

impl BaseProof {
    pub fn is_green(&self) -> bool {
        self.results.iter().all(|result| result.outcome.is_green())
    }
}

/// Proves the base of a ticket that has no commit yet. Returns the report of a red base; then no
/// builder starts.
pub async fn prove_before_build(context: &JobContext<'_>) -> Result<Option<JobOutput>, JobError> {
    let config = &context.project.config;
    if !may_need_proof(context) {
        return Ok(None);
    }
    // A builder that finished before is paid already; only its report was lost.
    if finished_run::newest_finished_run(context).is_some() {
        return Ok(None);
    }
    let base = context.project.git.base_tip(&config.base_branch).await?;
    let proof = prove(context, &base).await?;
    if proof.is_green() {
        return Ok(None);
    }
    let wall_ms = proof.results.iter().map(|result| result.wall_ms).sum();
    let what = EventKind::BaseRed {
        lease: context.lease,
        base: base.to_string(),
        results: proof.results,
        hint: proof.hint,
        usage: Usage {
            wall_ms,
            ..Usage::default()
        },
    };
    let artefacts = proof.artefacts;
    Ok(Some(JobOutput { what, artefacts }))
}

/// Returns whether this build waits for a proof of its base that nobody has made yet.
pub async fn needs_proof(context: &JobContext<'_>) -> Result<bool, JobError> {
    if !may_need_proof(context) {
        return Ok(false);
    }
    let project = context.project;
    let base = project.git.base_tip(&project.config.base_branch).await?;
    Ok(!proof_path(context.project, &base).await?.exists())
}

fn may_need_proof(context: &JobContext<'_>) -> bool {
    let config = &context.project.config;
    let is_first = context.ticket.submission.is_none();
    is_first && config.policy.needs_green_base() && !config.checks.is_empty()
}

/// Proves a base, unless a proof is remembered. Jobs that need a proof at the same time wait for
/// one of them, and take over its result.
async fn prove(context: &JobContext<'_>, base: &Oid) -> Result<BaseProof, JobError> {
    let store = context.project.cache_layers();
    let proof_file = proof_path(context.project, base).await?;
    if proof_file.exists() {
        return Ok(BaseProof::default());
    }
    let before = red_record(context);
    let _lock = cache_setup::lock_making(context, &store, LOCK).await?;
    if proof_file.exists() {
        return Ok(BaseProof::default());
    }
    // A record that appeared while we waited is as fresh as one of our own.
    if let Some(red) = red_record(context).filter(|red| before.as_ref() != Some(red))
        && red.file == proof_file
    {
        return Ok(BaseProof {
            results: red.results,
            hint: red.hint,
            artefacts: Vec::new(),
        });
    }
    let proof = prove_now(context, base).await?;
    if !proof.is_green() {
        let record = RedRecord {
            file: proof_file,
            // Two records with the same results are still two.
            by: format!("{}.{}", context.ticket.id, context.lease.fence),
            results: proof.results.clone(),
            hint: proof.hint.clone(),
        };
        let text = serde_json::to_vec(&record).map_err(JobError::permanent)?;
        private_files::write(&context.project.proofs_dir().join(RED_FILE), text)?;
    }
    Ok(proof)
}

/// A red result, for jobs that wait for the same proof.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct RedRecord {
    file: PathBuf,
    by: String,
    results: Vec<CheckResult>,
    hint: String,
}

fn red_record(context: &JobContext<'_>) -> Option<RedRecord> {
    let file = context.project.proofs_dir().join(RED_FILE);
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Runs the setup and the checks on a base, whatever is remembered.
pub async fn prove_now(context: &JobContext<'_>, base: &Oid) -> Result<BaseProof, JobError> {
    let mut proof = BaseProof::default();
    if let Some(tail) = Box::pin(cache_setup::prove_setup(context, base)).await? {
        let name = context.project.config.setup.command.as_ref();
        proof.results.push(CheckResult {
            name: name.map_or_else(String::new, |setup| setup.name.clone()),
            outcome: CheckOutcome::Failed,
            tail,
            wall_ms: 0,
        });
    } else {
        let checked = Box::pin(check::run_checks(context, base, base)).await?;
        (proof.results, proof.artefacts) = checked;
    }
    if !proof.is_green() {
        proof.hint = suggest_fix(context, base, &proof.results).await?;
    }
    Ok(proof)
}

/// Returns the likely fix of the first red result for which one is known.
pub async fn suggest_fix(
    context: &JobContext<'_>,
    base: &Oid,
    results: &[CheckResult],
) -> Result<String, JobError> {
    let project = context.project;
    let config = &project.config;
    let files = project.git.files_at(base).await?;
    let facts = SetupFacts {
        files: &files,
        setup: &config.setup,
        network: &config.policy.network.check,
        missing_submodules: &project.git.missing_submodules(base).await?,
    };
    let commands = config.checks.iter().chain(&config.setup.command);
    let commands: Vec<_> = commands.collect();
    let red = results.iter().filter(|result| !result.outcome.is_green());
    let hints = red.filter_map(|result| {
        let check = commands.iter().find(|check| check.name == result.name);
        likely_fix::likely_fix(
            &RedCheck {
                name: &result.name,
                command: check.map_or("", |check| check.command.as_str()),
                timed_out: result.outcome == CheckOutcome::TimedOut,
                tail: &result.tail,
            },
            &facts,
        )
    });
    Ok(hints.into_iter().next().unwrap_or_default())
}

/// Remembers that the setup and the checks are green on a commit's content.
pub async fn remember_green(project: &Project, commit: &Oid) -> Result<(), JobError> {
    let file = proof_path(project, commit).await?;
    let dir = project.proofs_dir();
    private_files::make_dir(&dir)?;
    private_files::write(&file, "")?;
    trim(&dir);
    Ok(())
}

/// Returns the file that stands for a proof of a commit: its files, and everything of the
/// configuration that the setup and the checks depend on. The configuration file itself is left
/// out, so the proof of `init` holds for the commit that adds the file.
async fn proof_path(project: &Project, commit: &Oid) -> Result<PathBuf, JobError> {
    let config = &project.config;
    let tree = project.git.tree_without(commit, CONFIG_FILE).await?;
    let level = project.sandbox_profile.as_ref().map(|one| one.level);
    let text = format!(
        "{tree} {:?} {:?} {:?} {level:?}",
        config.checks, config.setup, config.policy.network.check
    );
    let hash = crate::hash::short_sha256(text.as_bytes());
    Ok(project.proofs_dir().join(format!("{PREFIX}{hash}")))
}

/// Removes the oldest proofs beyond the limit. A removed one costs another run of the checks.
fn trim(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut proofs: Vec<_> = entries
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(PREFIX.as_bytes())
        })
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    proofs.sort();
    let excess = proofs.len().saturating_sub(PROOFS_KEPT);
    for (_, path) in proofs.into_iter().take(excess) {
        removed(&path, fs::remove_file(&path));
    }
}
