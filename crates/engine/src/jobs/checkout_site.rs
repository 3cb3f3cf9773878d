//! A checkout with its own home and temporary directory, in which a check, a linter or an agent
//! runs.
//!
//! With overlays in the sandbox, a checkout is a stack of read-only layers: the tree, which all
//! jobs on the same commit share, and below it the caches of the project. Changes go to a directory
//! of the site and vanish with it. Elsewhere the checkout is a real one, and caches are copied.
//!
//! It refuses to reuse a directory of an earlier run: what a check left there could change the next
//! result.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{JobContext, JobError};
use crate::agent_home;
use crate::caches::CacheDir;
use crate::git::{CheckoutPurpose, Oid, remove_tree};
use crate::layers::{LayerLease, LayerStore};
use crate::private_files;
use crate::process::boot_and_pid_namespace;
use crate::sandbox::OverlayDir;

/// Maximum number of trees of one ticket that stay on disk without a user.
const TREES_KEPT: usize = 2;

/// A checkout with its own home and temporary directory, and nothing of the user.
#[derive(Debug)]
pub struct CheckoutSite {
    pub root: PathBuf,
    pub dir: PathBuf,
    pub home: PathBuf,
    pub tmp: PathBuf,
    /// Paths in `dir` that must not be written.
    pub shut: Vec<PathBuf>,
    /// Directory of the changes to the layers.
    changes: PathBuf,
    layers: Vec<SiteLayers>,
    /// Keep the layers on disk.
    leases: Vec<Arc<LayerLease>>,
}

/// A directory of the site that consists of layers.
#[derive(Clone, Debug)]
struct SiteLayers {
    dir: PathBuf,
    lowers: Vec<PathBuf>,
}

impl CheckoutSite {
    /// Creates a fresh checkout of the commit and replaces an existing one.
    pub async fn for_check(
        context: &JobContext<'_>,
        head: &Oid,
        base: &Oid,
        name: &str,
    ) -> Result<Self, JobError> {
        let root = context.run_dir().join(name);
        let site = Self {
            home: root.join("home"),
            tmp: root.join("tmp"),
            shut: Vec::new(),
            dir: root.join("checkout"),
            changes: root.join("changes"),
            layers: Vec::new(),
            leases: Vec::new(),
            root,
        };
        site.fill(context, head, base, CheckoutPurpose::Check).await
    }

    /// Creates a reviewer's own copy, with the home that the reviewer will have.
    pub async fn for_judge_copy(
        context: &JobContext<'_>,
        head: &Oid,
        base: &Oid,
    ) -> Result<Self, JobError> {
        let own = context.run_dir();
        let root = own.join("scratch/copy");
        let site = Self {
            home: own.join("home"),
            tmp: root.join("tmp"),
            shut: Vec::new(),
            dir: root.join("checkout"),
            // Outside of everything that the reviewer can write by another name.
            changes: own.join("copy-changes"),
            layers: Vec::new(),
            leases: Vec::new(),
            root,
        };
        site.fill(context, head, base, CheckoutPurpose::Trial).await
    }

    /// Creates a checkout of the base in a layer under construction. It has no layers itself: what
    /// the setup writes there is kept.
    pub async fn for_layer(
        context: &JobContext<'_>,
        base: &Oid,
        part: &Path,
    ) -> Result<Self, JobError> {
        let (root, inside) = (context.run_dir().join("base-setup"), part.join(SITE_DIR));
        private_files::make_dir(&root)?;
        let site = Self {
            home: inside.join("home"),
            tmp: inside.join("tmp"),
            shut: Vec::new(),
            dir: inside.join("checkout"),
            changes: inside.join("changes"),
            layers: Vec::new(),
            leases: Vec::new(),
            root,
        };
        let (git, mirror) = (&context.project.git, context.project.mirror_dir());
        let checkout = git.checkout(base, base, CheckoutPurpose::Check, &mirror, &site.dir);
        checkout.await?;
        Ok(site)
    }

    /// Describes a builder's worktree, with the home that the builder will have.
    pub fn for_worktree(context: &JobContext<'_>, worktree: &Path, home: PathBuf) -> Self {
        let own = context.run_dir();
        Self {
            dir: worktree.to_owned(),
            home,
            tmp: own.join("tmp"),
            // The pointer decides which repository git uses, so the agent must not change it.
            shut: vec![worktree.join(".git")],
            changes: context
                .project
                .ticket_files(&context.ticket.id)
                .caches_dir(),
            layers: Vec::new(),
            leases: Vec::new(),
            root: own,
        }
    }

    async fn fill(
        mut self,
        context: &JobContext<'_>,
        head: &Oid,
        base: &Oid,
        purpose: CheckoutPurpose<'_>,
    ) -> Result<Self, JobError> {
        let project = context.project;
        private_files::make_dir(&self.root)?;
        // Changes of an earlier attempt would show through in the new one.
        remove_tree(&self.changes)?;
        if project.supports_layers().await {
            let tree = Box::pin(lease_tree(context, head, base, purpose)).await?;
            remove_tree(&self.dir)?;
            private_files::make_dir(&self.dir)?;
            self.layers.push(SiteLayers {
                dir: self.dir.clone(),
                lowers: vec![tree.dir.join(TREE)],
            });
            self.leases.push(Arc::new(tree));
        } else {
            let mirror = project.mirror_dir();
            let checkout = project
                .git
                .checkout(head, base, purpose, &mirror, &self.dir);
            checkout.await?;
        }
        Ok(self)
    }

    /// Returns whether the whole checkout consists of layers.
    pub fn is_layered(&self) -> bool {
        self.layers.iter().any(|layers| layers.dir == self.dir)
    }

    /// Shows a cache of a layer in this site. A directory that the checkout itself has is left
    /// alone: the cache belongs to another version of it. Returns whether the cache is shown.
    pub fn add_cache(
        &mut self,
        cache: &CacheDir,
        below: &Path,
        lease: &Arc<LayerLease>,
    ) -> io::Result<bool> {
        let tree = self
            .layers
            .iter_mut()
            .find(|layers| layers.dir == self.dir)
            .filter(|_| matches!(cache, CacheDir::Checkout(_)));
        if let Some(tree) = tree {
            // The upper layer wins, and a cache below a directory of the tree would mix with its
            // files.
            let has_own = |lower: &PathBuf| lower.join(cache.below()).symlink_metadata().is_ok();
            if tree.lowers.iter().any(has_own) {
                return Ok(false);
            }
            tree.lowers.push(below.to_owned());
        } else {
            let Some(dir) = cache.path_in(&self.dir, &self.home).ensure_dir()? else {
                return Ok(false);
            };
            // Something is there already: an earlier run has filled it.
            if fs::read_dir(&dir)?.next().is_some() {
                return Ok(false);
            }
            self.layers.push(SiteLayers {
                dir,
                lowers: vec![below.join(cache.below())],
            });
        }
        // The lease is held as long as the site, so that no cleanup removes a layer in use.
        self.leases.push(Arc::clone(lease));
        Ok(true)
    }

    /// Returns the overlays for the next run, each with an empty directory for the kernel: it
    /// refuses one that an earlier mount has used.
    pub fn overlays(&self) -> io::Result<Vec<OverlayDir>> {
        self.clear_overlays()?;
        let mut overlays = Vec::new();
        for (number, layers) in self.layers.iter().enumerate() {
            let overlay = OverlayDir {
                dir: layers.dir.clone(),
                lowers: layers.lowers.clone(),
                changes: self.changes.join(number.to_string()),
                work: self.changes.join(format!("{WORK_PREFIX}{number}")),
            };
            // Every directory of an overlay must exist before it is mounted.
            for dir in [&overlay.dir, &overlay.changes, &overlay.work] {
                private_files::make_dir(dir)?;
            }
            overlays.push(overlay);
        }
        Ok(overlays)
    }

    /// Removes the directories of the kernel after a run. They contain one without any permissions,
    /// which an ordinary user could not remove by hand.
    pub fn clear_overlays(&self) -> io::Result<()> {
        for number in 0..self.layers.len() {
            remove_tree(&self.changes.join(format!("{WORK_PREFIX}{number}")))?;
        }
        Ok(())
    }

    /// Returns the directories that count towards the disk quota.
    pub fn dirs(&self) -> Vec<PathBuf> {
        [&self.root, &self.dir, &self.home, &self.changes]
            .map(Clone::clone)
            .to_vec()
    }

    pub fn changes_dir(&self) -> PathBuf {
        self.changes.clone()
    }

    /// Frees the space of a run that was stopped for its disk use. A builder's worktree is not ours
    /// to empty.
    pub fn clear(&self) -> io::Result<()> {
        remove_tree(&self.tmp)?;
        if self.dir.starts_with(&self.root) {
            remove_tree(&self.dir)?;
            remove_tree(&self.changes)?;
        }
        Ok(())
    }

    /// Removes the checkout, its home and its temporary directory once nothing runs in it any more.
    /// Build results of one check take gigabytes in some projects, and an open ticket may be checked
    /// dozens of times. The output of the commands stays.
    pub async fn discard(self) -> io::Result<()> {
        let removing = tokio::task::spawn_blocking(move || {
            for dir in [&self.dir, &self.home, &self.tmp, &self.changes] {
                if dir.starts_with(&self.root) {
                    remove_tree(dir)?;
                }
            }
            Ok(())
        });
        removing.await.map_err(io::Error::other)?
    }

    pub fn environment(
        &self,
        context: &JobContext<'_>,
    ) -> Result<Vec<(OsString, OsString)>, JobError> {
        private_files::make_dir(&self.home)?;
        private_files::make_dir(&self.tmp)?;
        if let Some(profile) = &context.project.sandbox_profile {
            profile.prepare_home(&self.home)?;
        }
        let mut env = context.project.base_environment();
        let home = agent_home::variables(&self.home).into_iter();
        env.extend(home.map(|(name, value)| (name.into(), value)));
        env.extend([
            ("TMPDIR".into(), self.tmp.clone().into()),
            // Many tools ask no questions and print no progress bars if this is set.
            ("CI".into(), "true".into()),
        ]);
        Ok(env)
    }
}

/// Directory in a layer under construction in which the setup runs.
pub const SITE_DIR: &str = "site";
const WORK_PREFIX: &str = "work-";
/// Name of the checkout in its layer.
const TREE: &str = "tree";

/// Returns the tree of a commit as a layer, checked out if no job of this ticket has done so.
async fn lease_tree(
    context: &JobContext<'_>,
    head: &Oid,
    base: &Oid,
    purpose: CheckoutPurpose<'_>,
) -> Result<LayerLease, JobError> {
    let project = context.project;
    let store = LayerStore::new(project.ticket_files(&context.ticket.id).trees_dir());
    // After a power cut, files of a tree may be empty. It is not worth a sync: the name includes
    // the boot, so that a tree from before it is not found.
    let text = format!("{head} {base} {purpose:?} {:?}", boot_and_pid_namespace());
    let name = crate::hash::short_sha256(text.as_bytes());
    if let Some(lease) = store.lease(&name)? {
        return Ok(lease);
    }
    // Parallel checks of one job all need the same tree.
    let _making = super::cache_setup::lock_making(context, &store, &name).await?;
    if let Some(lease) = store.lease(&name)? {
        return Ok(lease);
    }
    let part = store.begin(&name)?;
    let mirror = project.mirror_dir();
    let tree = part.join(TREE);
    project
        .git
        .checkout(head, base, purpose, &mirror, &tree)
        .await?;
    store.publish(&part, &name)?;
    let lease = store.lease(&name)?;
    // Trimming comes after our own lease, so it cannot remove the tree that was just made.
    store.trim("", TREES_KEPT);
    lease.ok_or_else(|| JobError::transient("the checkout vanished while it was made"))
}
