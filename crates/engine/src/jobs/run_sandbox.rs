//! Mounts and network of each kind of run. A reviewer reads the checkout and writes only its own
//! notes; a builder writes its worktree; a check writes its throw-away checkout.

use std::fs;
use std::path::{Path, PathBuf};

use flow::policy;

use super::JobError;
use super::checkout_site::CheckoutSite;
use crate::agent::{Adapter, AgentAssignment, AgentRole};
use crate::agent_home;
use crate::git::{is_replaced_by_git, remove_tree};
use crate::private_files;
use crate::project::Project;
use crate::sandbox::{
    CredentialMount, Destination, OverlayDir, ProxyRules, RunMounts, SandboxLevel, SandboxNetwork,
    SandboxSpec,
};

/// Builds the sandbox of an agent; `None` if the policy switches the sandbox off.
pub async fn sandbox_for_agent(
    project: &Project,
    role: AgentRole,
    assignment: &AgentAssignment,
    adapter: &dyn Adapter,
    (own, site): (&Path, Option<&CheckoutSite>),
) -> Result<Option<SandboxSpec>, JobError> {
    let Some(profile) = &project.sandbox_profile else {
        return Ok(None);
    };
    let answer = own.join("answer");
    let mut write = vec![assignment.home.clone(), assignment.scratch.clone(), answer];
    for dir in &write {
        private_files::make_dir(dir)?;
    }
    profile.prepare_home(&assignment.home)?;
    let mut hidden = Vec::new();
    let mut mounts = RunMounts {
        read: Vec::new(),
        write: Vec::new(),
        read_only: Vec::new(),
        overlays: Vec::new(),
        credentials: credential_mounts(adapter, &assignment.home, profile.level)?,
        network: sandbox_network(network_policy(project, role), adapter.access().hosts),
        metadata: role == AgentRole::Build,
        proof: own.join("sandbox/proof.json"),
    };
    match role {
        AgentRole::Build => {
            write.insert(0, assignment.dir.clone());
            hidden =
                mount_git_for_builder(&mut mounts, (project, profile.level), &assignment.dir, own)
                    .await?;
        }
        AgentRole::Review | AgentRole::Verify => mounts.read = paths_judged(project, assignment),
    }
    mounts.write = write;
    if let Some(site) = site {
        mounts.overlays.extend(site.overlays()?);
    }
    let mut confinement = profile.sandbox_for(mounts);
    // The proof of the sandbox includes that these files cannot be read.
    let stable = hidden.iter().filter(|path| !is_replaced_by_git(path));
    confinement
        .hidden
        .splice(0..0, stable.take(HIDDEN_PROVEN_MAX).cloned());
    confinement.masked.extend(hidden);
    Ok(Some(confinement))
}

/// Number of hidden files in the git directory that the proof tries to read.
const HIDDEN_PROVEN_MAX: usize = 16;

/// Returns the network policy for an agent in this role.
pub fn network_policy(project: &Project, role: AgentRole) -> &policy::Network {
    let networks = &project.config.policy.network;
    match role {
        AgentRole::Build => &networks.build,
        AgentRole::Review => &networks.review,
        AgentRole::Verify => &networks.verify,
    }
}

/// Returns a remark for the record if an agent could not be limited to the hosts of its provider.
pub fn unknown_hosts_note(
    project: &Project,
    role: AgentRole,
    adapter: &dyn Adapter,
) -> &'static str {
    let provider_only = *network_policy(project, role) == policy::Network::Provider;
    if provider_only && adapter.access().hosts.is_none() {
        "; the hosts of this agent are unknown (set hosts in [agents.NAME]), so its network is not limited"
    } else {
        ""
    }
}

/// Returns the directory that receives a builder's changes to the git directory.
pub fn git_overlay_dir(own: &Path) -> PathBuf {
    own.join("git/changes")
}

/// Mounts the git directory for a builder. The builder may use git freely: its changes go to a
/// layer of its own, from which the commits of its branch are taken afterwards. Hooks,
/// configuration and the `.git` pointer stay as they are. Returns the paths of the git directory
/// that must be hidden.
async fn mount_git_for_builder(
    mounts: &mut RunMounts,
    (project, level): (&Project, SandboxLevel),
    worktree: &Path,
    own: &Path,
) -> Result<Vec<PathBuf>, JobError> {
    let common = project.git.common_dir();
    let view = project.git.builder_view().await?;
    let (changes, work) = (git_overlay_dir(own), own.join("git/overlay"));
    private_files::make_dir(&changes)?;
    private_files::make_dir(&work)?;
    mounts.read.clone_from(&view.alternates);
    if level == SandboxLevel::Landlock {
        // Landlock cannot mount, so the builder gets a copy instead of the user's configuration.
        let dir = own.join("git/dir");
        project.git.copy_for_builder(&view, worktree, &dir)?;
        let pointer = format!("gitdir: {}\n", dir.display());
        agent_home::write(worktree, &worktree.join(".git"), pointer)?;
        mounts.read.extend([dir, common.join("objects")]);
        return Ok(Vec::new());
    }
    let mut mount_config = |number: usize, text: &str, to: PathBuf| -> Result<(), JobError> {
        let from = own.join(format!("git/config-{number}"));
        private_files::write(&from, text)?;
        mounts.credentials.push(CredentialMount { from, to });
        Ok(())
    };
    mount_config(0, &view.config, common.join("config"))?;
    for (number, (file, text)) in view.worktree_configs.into_iter().enumerate() {
        mount_config(number + 1, &text, file)?;
    }
    mounts.read.push(common.to_owned());
    mounts.read_only = vec![worktree.join(".git"), common.join("hooks")];
    mounts.overlays = vec![OverlayDir {
        dir: common.to_owned(),
        lowers: Vec::new(),
        changes,
        work,
    }];
    Ok(view.hidden)
}

/// Removes the set-up of a builder's git directory, except for the changes themselves. The kernel
/// leaves a directory without any permissions, which an ordinary user cannot remove by name.
pub fn clear_git_overlay(own: &Path) -> Result<(), JobError> {
    for name in ["git/overlay", "git/dir"] {
        remove_tree(&own.join(name))?;
    }
    Ok(())
}

/// Returns the paths that a reviewer reads. A checkout borrows its older objects from the mirror.
fn paths_judged(project: &Project, assignment: &AgentAssignment) -> Vec<PathBuf> {
    vec![assignment.dir.clone(), project.mirror_dir()]
}

/// Builds the sandbox of a check. It runs the builder's code, so it gets the same limits as a
/// builder.
pub fn sandbox_for_check(
    project: &Project,
    site: &CheckoutSite,
    proof: PathBuf,
) -> Result<Option<SandboxSpec>, JobError> {
    let Some(profile) = &project.sandbox_profile else {
        return Ok(None);
    };
    let mut write = vec![site.home.clone(), site.tmp.clone()];
    if !site.is_layered() {
        write.push(site.dir.clone());
    }
    Ok(Some(profile.sandbox_for(RunMounts {
        read: vec![project.mirror_dir()],
        write,
        read_only: site.shut.clone(),
        overlays: site.overlays()?,
        credentials: Vec::new(),
        network: sandbox_network(&project.config.policy.network.check, Some(Vec::new())),
        metadata: true,
        proof,
    })))
}

/// Returns the network of a run. `provider` holds the hosts of its agent, if they are known; an
/// agent with unknown hosts could not work at all without the whole network.
fn sandbox_network(rule: &policy::Network, provider: Option<Vec<Destination>>) -> SandboxNetwork {
    match (rule, provider) {
        (policy::Network::On, _) | (policy::Network::Provider, None) => SandboxNetwork::On,
        (policy::Network::Off, _) => SandboxNetwork::Off,
        (policy::Network::Provider, Some(hosts)) => {
            SandboxNetwork::Proxy(ProxyRules::for_hosts(hosts))
        }
        (policy::Network::Hosts(listed), provider) => {
            // Invalid hosts were refused when the policy was read; here they allow nothing.
            let listed = listed.iter().filter_map(|host| host.parse().ok());
            let hosts = listed.chain(provider.unwrap_or_default());
            SandboxNetwork::Proxy(ProxyRules::for_hosts(hosts))
        }
    }
}

/// Returns mounts for the agent's own credentials in its home. A mount needs an existing file as
/// its target. Without mounts each is a copy, which is removed when the agent has ended.
fn credential_mounts(
    adapter: &dyn Adapter,
    home: &Path,
    level: SandboxLevel,
) -> Result<Vec<CredentialMount>, JobError> {
    let mut credentials = Vec::new();
    for (from, to) in adapter.access().credentials {
        let to = home.join(to);
        if !from.is_file() {
            continue;
        }
        if level == SandboxLevel::Landlock {
            agent_home::clear_path(home, &to)?;
            fs::copy(&from, &to)?;
        } else {
            agent_home::write(home, &to, "")?;
            credentials.push(CredentialMount { from, to });
        }
    }
    Ok(credentials)
}

/// Removes the copies of credentials from an agent's home, or the empty files that were mount
/// targets.
pub fn remove_credentials(adapter: &dyn Adapter, home: &Path) -> Result<(), JobError> {
    for (_, to) in adapter.access().credentials {
        if home.is_dir() {
            agent_home::clear_path(home, &home.join(to))?;
        }
    }
    Ok(())
}

/// Links the agent's credentials into its home if there is no sandbox, so that a renewed credential
/// is also renewed for the user.
pub fn link_credentials(adapter: &dyn Adapter, home: &Path) -> Result<(), JobError> {
    for (from, to) in adapter.access().credentials {
        let to = home.join(to);
        if from.is_file() {
            agent_home::clear_path(home, &to)?;
            std::os::unix::fs::symlink(&from, &to)?;
        }
    }
    Ok(())
}
