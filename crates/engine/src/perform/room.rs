//! What each kind of run may see and touch. A judge reads the checkout and writes nothing but its
//! own notes; a builder writes its worktree; a check writes its throw-away checkout.

use std::fs;
use std::path::{Path, PathBuf};

use flow::policy;

use super::Trouble;
use crate::agent::{Adapter, Assignment, Role};
use crate::git::{is_replaced_by_git, remove_tree};
use crate::own_home;
use crate::private;
use crate::sandbox::{Confinement, Destination, Layered, Lent, Network, Proxied, Room, Rung};
use crate::workshop::Workshop;

/// The room of an agent; none where the policy goes without.
pub async fn of_agent(
    shop: &Workshop,
    role: Role,
    assignment: &Assignment,
    adapter: &dyn Adapter,
    own: &Path,
) -> Result<Option<Confinement>, Trouble> {
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
    let mut room = Room {
        read: Vec::new(),
        write: Vec::new(),
        shut: Vec::new(),
        layered: Vec::new(),
        lent: lent(adapter, &assignment.home, ward.rung)?,
        network: network(wanted_network(shop, role), adapter.hosts()),
        metadata: role == Role::Build,
        proof: own.join("sandbox/proof.json"),
    };
    match role {
        Role::Build => {
            write.insert(0, assignment.dir.clone());
            hidden = build_in(&mut room, (shop, ward.rung), &assignment.dir, own).await?;
        }
        Role::Review | Role::Verify => room.read = judged(shop, assignment),
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
pub fn wanted_network(shop: &Workshop, role: Role) -> &policy::Network {
    let networks = &shop.project.policy.network;
    match role {
        Role::Build => &networks.build,
        Role::Review => &networks.review,
        Role::Verify => &networks.verify,
    }
}

/// For the record: that an agent was to be held to its provider and could not be.
pub fn unknown_hosts(shop: &Workshop, role: Role, adapter: &dyn Adapter) -> &'static str {
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
    room: &mut Room,
    (shop, rung): (&Workshop, Rung),
    worktree: &Path,
    own: &Path,
) -> Result<Vec<PathBuf>, Trouble> {
    let common = shop.git.common_dir();
    let view = shop.git.builder_view().await?;
    let (changes, work) = (git_layer(own), own.join("git/overlay"));
    private::make_dir(&changes)?;
    private::make_dir(&work)?;
    room.read.clone_from(&view.alternates);
    if rung == Rung::Landlock {
        // No mount can put another configuration in the place of the person's.
        let dir = own.join("git/dir");
        shop.git.copy_for_builder(&view, worktree, &dir)?;
        let pointer = format!("gitdir: {}\n", dir.display());
        own_home::write(worktree, &worktree.join(".git"), pointer)?;
        room.read.extend([dir, common.join("objects")]);
        return Ok(Vec::new());
    }
    let mut lend = |number: usize, text: &str, to: PathBuf| -> Result<(), Trouble> {
        let from = own.join(format!("git/config-{number}"));
        private::write(&from, text)?;
        room.lent.push(Lent { from, to });
        Ok(())
    };
    lend(0, &view.config, common.join("config"))?;
    for (number, (file, text)) in view.worktree_configs.into_iter().enumerate() {
        lend(number + 1, &text, file)?;
    }
    room.read.push(common.to_owned());
    room.shut = vec![worktree.join(".git"), common.join("hooks")];
    room.layered = vec![Layered {
        dir: common.to_owned(),
        changes,
        work,
    }];
    Ok(view.hidden)
}

/// Removes what the set-up of a builder's git directory left, but for the changes themselves. The
/// kernel leaves a directory without any rights, which an ordinary user cannot remove by name.
pub fn clear_git_layer(own: &Path) -> Result<(), Trouble> {
    for name in ["git/overlay", "git/dir"] {
        remove_tree(&own.join(name))?;
    }
    Ok(())
}

/// A checkout borrows its older objects from the mirror.
fn judged(shop: &Workshop, assignment: &Assignment) -> Vec<PathBuf> {
    vec![assignment.dir.clone(), shop.mirror()]
}

/// The room of a check: the builder's code runs there, so it is the builder's room.
pub fn of_check(
    shop: &Workshop,
    checkout: &Path,
    own: &[PathBuf],
    shut: &[PathBuf],
    proof: PathBuf,
) -> Option<Confinement> {
    let ward = shop.ward.as_ref()?;
    let mut write = vec![checkout.to_owned()];
    write.extend_from_slice(own);
    Some(ward.confine(Room {
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
fn network(wanted: &policy::Network, provider: Option<Vec<Destination>>) -> Network {
    match (wanted, provider) {
        (policy::Network::On, _) | (policy::Network::Provider, None) => Network::On,
        (policy::Network::Off, _) => Network::Off,
        (policy::Network::Provider, Some(hosts)) => Network::Proxy(Proxied::to(hosts)),
        (policy::Network::Hosts(named), provider) => {
            // What is no host was refused when the policy was read; here it opens nothing.
            let named = named.iter().filter_map(|host| host.parse().ok());
            let hosts = named.chain(provider.unwrap_or_default());
            Network::Proxy(Proxied::to(hosts))
        }
    }
}

/// The agent's own credentials, at their places in its home. There must be a file to put each over;
/// without mounts it is a copy, which goes when the agent has ended.
fn lent(adapter: &dyn Adapter, home: &Path, rung: Rung) -> Result<Vec<Lent>, Trouble> {
    let mut lent = Vec::new();
    for (from, to) in adapter.credentials() {
        let to = home.join(to);
        if !from.is_file() {
            continue;
        }
        if rung == Rung::Landlock {
            own_home::clear_way(home, &to)?;
            fs::copy(&from, &to)?;
        } else {
            own_home::write(home, &to, "")?;
            lent.push(Lent { from, to });
        }
    }
    Ok(lent)
}

/// Removes the copies of credentials from an agent's home; where they were mounted, the empty files
/// that they were mounted on.
pub fn remove_credentials(adapter: &dyn Adapter, home: &Path) -> Result<(), Trouble> {
    for (_, to) in adapter.credentials() {
        if home.is_dir() {
            own_home::clear_way(home, &home.join(to))?;
        }
    }
    Ok(())
}

/// Where nothing is confined the agent's own credentials are links in its home: whatever the agent
/// renews is then renewed for the person too.
pub fn link_credentials(adapter: &dyn Adapter, home: &Path) -> Result<(), Trouble> {
    for (from, to) in adapter.credentials() {
        let to = home.join(to);
        if from.is_file() {
            own_home::clear_way(home, &to)?;
            std::os::unix::fs::symlink(&from, &to)?;
        }
    }
    Ok(())
}
