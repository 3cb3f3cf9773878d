//! What each kind of run may see and touch. A judge reads the checkout and writes nothing but its
//! own notes; a builder writes its worktree; a check writes its throw-away checkout.

use std::fs;
use std::path::{Path, PathBuf};

use flow::policy;

use super::Trouble;
use crate::agent::{Adapter, Assignment, Role};
use crate::sandbox::{Confinement, Lent, Network, Room};
use crate::workshop::Workshop;

/// The room of an agent; none where the policy goes without.
pub fn of_agent(
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
        fs::create_dir_all(dir)?;
    }
    let networks = &shop.project.policy.network;
    let (read, shut, on) = match role {
        Role::Build => {
            write.insert(0, assignment.dir.clone());
            let shut = vec![assignment.dir.join(".git")];
            let git = vec![shop.git.common_dir().to_owned()];
            (git, shut, networks.build)
        }
        Role::Review => (judged(shop, assignment), Vec::new(), networks.review),
        Role::Verify => (judged(shop, assignment), Vec::new(), networks.verify),
    };
    Ok(Some(ward.confine(Room {
        read,
        write,
        shut,
        layered: Vec::new(),
        lent: lent(adapter, &assignment.home)?,
        network: network(on),
        metadata: role == Role::Build,
        proof: own.join("sandbox/proof.json"),
    })))
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
    proof: PathBuf,
) -> Option<Confinement> {
    let ward = shop.ward.as_ref()?;
    let mut write = vec![checkout.to_owned()];
    write.extend_from_slice(own);
    Some(ward.confine(Room {
        read: vec![shop.mirror()],
        write,
        shut: Vec::new(),
        layered: Vec::new(),
        lent: Vec::new(),
        network: network(shop.project.policy.network.check),
        metadata: true,
        proof,
    }))
}

fn network(wanted: policy::Network) -> Network {
    match wanted {
        policy::Network::On => Network::On,
        policy::Network::Off => Network::Off,
    }
}

/// The agent's own credentials, at their places in its home. There must be a file to put each over.
fn lent(adapter: &dyn Adapter, home: &Path) -> Result<Vec<Lent>, Trouble> {
    let mut lent = Vec::new();
    for (from, to) in adapter.credentials() {
        let to = home.join(to);
        fs::create_dir_all(to.parent().unwrap_or(home))?;
        if from.is_file() {
            fs::OpenOptions::new().create(true).append(true).open(&to)?;
            lent.push(Lent { from, to });
        }
    }
    Ok(lent)
}
