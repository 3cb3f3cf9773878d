//! What each kind of run may see and touch. A judge reads the checkout and writes nothing but its
//! own notes; a builder writes its worktree; a check writes its throw-away checkout.

use std::fs;
use std::path::{Path, PathBuf};

use flow::policy;

use super::Trouble;
use crate::agent::{Adapter, Assignment, Role};
use crate::own_home;
use crate::sandbox::{Confinement, Destination, Layered, Lent, Network, Proxied, Room};
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
    let mut room = Room {
        read: Vec::new(),
        write: Vec::new(),
        shut: Vec::new(),
        layered: Vec::new(),
        lent: lent(adapter, &assignment.home)?,
        network: network(wanted_network(shop, role), adapter.hosts()),
        metadata: role == Role::Build,
        proof: own.join("sandbox/proof.json"),
    };
    match role {
        Role::Build => {
            write.insert(0, assignment.dir.clone());
            build_in(&mut room, shop, &assignment.dir, own)?;
        }
        Role::Review | Role::Verify => room.read = judged(shop, assignment),
    }
    room.write = write;
    Ok(Some(ward.confine(room)))
}

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
fn build_in(room: &mut Room, shop: &Workshop, worktree: &Path, own: &Path) -> Result<(), Trouble> {
    let common = shop.git.common_dir();
    let (changes, work) = (git_layer(own), own.join("git/work"));
    fs::create_dir_all(&changes)?;
    fs::create_dir_all(&work)?;
    let config = own.join("git/config");
    let known = fs::read_to_string(common.join("config"))?;
    fs::write(&config, without_secrets(&known))?;
    room.lent.push(Lent {
        from: config,
        to: common.join("config"),
    });
    room.read = vec![common.to_owned()];
    room.shut = vec![worktree.join(".git"), common.join("hooks")];
    room.layered = vec![Layered {
        dir: common.to_owned(),
        changes,
        work,
    }];
    Ok(())
}

/// The configuration without passwords: none in addresses, no headers, no helpers.
fn without_secrets(config: &str) -> String {
    let mut kept = String::new();
    for line in config.lines() {
        let key = line.split('=').next().unwrap_or_default().to_lowercase();
        let secret = [
            "extraheader",
            "helper",
            "password",
            "token",
            "proxy",
            "cookie",
        ]
        .iter()
        .any(|word| key.contains(word));
        if secret {
            continue;
        }
        kept.push_str(&without_user(line));
        kept.push('\n');
    }
    kept
}

fn without_user(line: &str) -> String {
    let Some((before, rest)) = line.split_once("://") else {
        return line.to_owned();
    };
    let end = rest.find(['/', '"']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{before}://{}", &rest[at + 1..]),
        None => line.to_owned(),
    }
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

/// The agent's own credentials, at their places in its home. There must be a file to put each over.
fn lent(adapter: &dyn Adapter, home: &Path) -> Result<Vec<Lent>, Trouble> {
    let mut lent = Vec::new();
    for (from, to) in adapter.credentials() {
        let to = home.join(to);
        if from.is_file() {
            own_home::write(home, &to, "")?;
            lent.push(Lent { from, to });
        }
    }
    Ok(lent)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_sees_no_password_of_the_repository() {
        let config = "[remote \"origin\"]\n\turl = https://me:s3cret@forge.example/a.git\n\tfetch = +refs/heads/*\n[http \"https://forge.example/\"]\n\textraheader = AUTHORIZATION: basic abc\n[url \"https://x:tok@forge.example/\"]\n\tinsteadOf = git@forge.example:\n[core]\n\tbare = false\n";
        let kept = without_secrets(config);
        for secret in ["s3cret", "tok@", "basic abc"] {
            assert!(!kept.contains(secret), "{kept}");
        }
        assert!(kept.contains("url = https://forge.example/a.git"));
        assert!(kept.contains("[url \"https://forge.example/\"]"));
        assert!(kept.contains("bare = false"));
    }
}
