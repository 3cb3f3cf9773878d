//! What each kind of run may see and touch. A judge reads the checkout and writes nothing but its
//! own notes; a builder writes its worktree; a check writes its throw-away checkout.

use std::fs;
use std::path::{Path, PathBuf};

use flow::policy;

use super::JobError;
use crate::agent::{Adapter, AgentAssignment, AgentRole};
use crate::git::{is_replaced_by_git, remove_tree};
use crate::own_home;
use crate::private;
use crate::sandbox::{
    CredentialMount, Destination, OverlayDir, ProxyRules, RunMounts, SandboxLevel, SandboxNetwork,
    SandboxSpec,
};
use crate::workshop::Project;

/// The room of an agent; none where the policy goes without.
pub async fn of_agent(
    shop: &Project,
    role: AgentRole,
    assignment: &AgentAssignment,
    adapter: &dyn Adapter,
    own: &Path,
) -> Result<Option<SandboxSpec>, JobError> {
    let Some(ward) = &shop.ward else {
        return Ok(None);
    };
    let answer = own.join("answer");
    let mut write = vec![assignment.home.clone(), assignment.scratch.clone(), answer];
    for dir in &write {
        private::make_dir(dir)?;
    }
    ward.prepare_home(&assignment.home)?;
    let mut hidden = Vec::new();
    let mut room = RunMounts {
        read: Vec::new(),
        write: Vec::new(),
        shut: Vec::new(),
        layered: Vec::new(),
        lent: lent(adapter, &assignment.home, ward.rung)?,
        network: network(wanted_network(shop, role), adapter.hosts()),
        metadata: role == AgentRole::Build,
        proof: own.join("sandbox/proof.json"),
    };
    match role {
        AgentRole::Build => {
            write.insert(0, assignment.dir.clone());
            hidden = build_in(&mut room, (shop, ward.rung), &assignment.dir, own).await?;
        }
        AgentRole::Review | AgentRole::Verify => room.read = judged(shop, assignment),
    }
    room.write = write;
    let mut confinement = ward.confine(room);
    // That they cannot be read is part of the proof.
    let stable = hidden.iter().filter(|path| !is_replaced_by_git(path));
    confinement
        .hidden
        .splice(0..0, stable.take(HIDDEN_PROVEN_MAX).cloned());
    confinement.masked.extend(hidden);
    Ok(Some(confinement))
}

/// Files of the git directory that the proof tries to read.
const HIDDEN_PROVEN_MAX: usize = 16;

/// Whether the policy lets an agent in this role reach others.
pub fn wanted_network(shop: &Project, role: AgentRole) -> &policy::Network {
    let networks = &shop.project.policy.network;
    match role {
        AgentRole::Build => &networks.build,
        AgentRole::Review => &networks.review,
        AgentRole::Verify => &networks.verify,
    }
}

/// For the record: that an agent was to be held to its provider and could not be.
pub fn unknown_hosts(shop: &Project, role: AgentRole, adapter: &dyn Adapter) -> &'static str {
    let wanted = *wanted_network(shop, role) == policy::Network::Provider;
    if wanted && adapter.hosts().is_none() {
        "; nobody knows the hosts of this agent ([agents.NAME] hosts), so its network is not held to them"
    } else {
        ""
    }
}

/// Where a builder's changes to the git directory are, instead of in it.
pub fn git_layer(own: &Path) -> PathBuf {
    own.join("git/changes")
}

/// A builder may use git as it likes: what it changes there is a layer of its own, from which the
/// commits of its branch are taken afterwards. Hooks, configuration and the pointer stay as they are.
/// Returns what of the git directory must not be seen.
async fn build_in(
    room: &mut RunMounts,
    (shop, rung): (&Project, SandboxLevel),
    worktree: &Path,
    own: &Path,
) -> Result<Vec<PathBuf>, JobError> {
    let common = shop.git.common_dir();
    let view = shop.git.builder_view().await?;
    let (changes, work) = (git_layer(own), own.join("git/overlay"));
    private::make_dir(&changes)?;
    private::make_dir(&work)?;
    room.read.clone_from(&view.alternates);
    if rung == SandboxLevel::Landlock {
        // No mount can put another configuration in the place of the person's.
        let dir = own.join("git/dir");
        shop.git.copy_for_builder(&view, worktree, &dir)?;
        let pointer = format!("gitdir: {}\n", dir.display());
        own_home::write(worktree, &worktree.join(".git"), pointer)?;
        room.read.extend([dir, common.join("objects")]);
        return Ok(Vec::new());
    }
    let mut lend = |number: usize, text: &str, to: PathBuf| -> Result<(), JobError> {
        let from = own.join(format!("git/config-{number}"));
        private::write(&from, text)?;
        room.lent.push(CredentialMount { from, to });
        Ok(())
    };
    lend(0, &view.config, common.join("config"))?;
    for (number, (file, text)) in view.worktree_configs.into_iter().enumerate() {
        lend(number + 1, &text, file)?;
    }
    room.read.push(common.to_owned());
    room.shut = vec![worktree.join(".git"), common.join("hooks")];
    room.layered = vec![OverlayDir {
        dir: common.to_owned(),
        changes,
        work,
    }];
    Ok(view.hidden)
}

/// Removes what the set-up of a builder's git directory left, but for the changes themselves. The
/// kernel leaves a directory without any rights, which an ordinary user cannot remove by name.
pub fn clear_git_layer(own: &Path) -> Result<(), JobError> {
    for name in ["git/overlay", "git/dir"] {
        remove_tree(&own.join(name))?;
    }
    Ok(())
}

/// A checkout borrows its older objects from the mirror.
fn judged(shop: &Project, assignment: &AgentAssignment) -> Vec<PathBuf> {
    vec![assignment.dir.clone(), shop.mirror()]
}

/// The room of a check: the builder's code runs there, so it is the builder's room.
pub fn of_check(
    shop: &Project,
    checkout: &Path,
    own: &[PathBuf],
    shut: &[PathBuf],
    proof: PathBuf,
) -> Option<SandboxSpec> {
    let ward = shop.ward.as_ref()?;
    let mut write = vec![checkout.to_owned()];
    write.extend_from_slice(own);
    Some(ward.confine(RunMounts {
        read: vec![shop.mirror()],
        write,
        shut: shut.to_vec(),
        layered: Vec::new(),
        lent: Vec::new(),
        network: network(&shop.project.policy.network.check, Some(Vec::new())),
        metadata: true,
        proof,
    }))
}

/// What a run may reach. `provider` are the hosts of its agent, where they are known; an agent whose
/// hosts nobody knows could not work at all without the whole network.
fn network(wanted: &policy::Network, provider: Option<Vec<Destination>>) -> SandboxNetwork {
    match (wanted, provider) {
        (policy::Network::On, _) | (policy::Network::Provider, None) => SandboxNetwork::On,
        (policy::Network::Off, _) => SandboxNetwork::Off,
        (policy::Network::Provider, Some(hosts)) => SandboxNetwork::Proxy(ProxyRules::to(hosts)),
        (policy::Network::Hosts(named), provider) => {
            // What is no host was refused when the policy was read; here it opens nothing.
            let named = named.iter().filter_map(|host| host.parse().ok());
            let hosts = named.chain(provider.unwrap_or_default());
            SandboxNetwork::Proxy(ProxyRules::to(hosts))
        }
    }
}

/// The agent's own credentials, at their places in its home. There must be a file to put each over;
/// without mounts it is a copy, which goes when the agent has ended.
fn lent(
    adapter: &dyn Adapter,
    home: &Path,
    rung: SandboxLevel,
) -> Result<Vec<CredentialMount>, JobError> {
    let mut lent = Vec::new();
    for (from, to) in adapter.credentials() {
        let to = home.join(to);
        if !from.is_file() {
            continue;
        }
        if rung == SandboxLevel::Landlock {
            own_home::clear_way(home, &to)?;
            fs::copy(&from, &to)?;
        } else {
            own_home::write(home, &to, "")?;
            lent.push(CredentialMount { from, to });
        }
    }
    Ok(lent)
}

/// Removes the copies of credentials from an agent's home; where they were mounted, the empty files
/// that they were mounted on.
pub fn remove_credentials(adapter: &dyn Adapter, home: &Path) -> Result<(), JobError> {
    for (_, to) in adapter.credentials() {
        if home.is_dir() {
            own_home::clear_way(home, &home.join(to))?;
        }
    }
    Ok(())
}

/// Where nothing is confined the agent's own credentials are links in its home: whatever the agent
/// renews is then renewed for the person too.
pub fn link_credentials(adapter: &dyn Adapter, home: &Path) -> Result<(), JobError> {
    for (from, to) in adapter.credentials() {
        let to = home.join(to);
        if from.is_file() {
            own_home::clear_way(home, &to)?;
            std::os::unix::fs::symlink(&from, &to)?;
        }
    }
    Ok(())
}
