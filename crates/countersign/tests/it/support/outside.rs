//! Looks after everything around a story: a story fails if a run changes the person's home,
//! the files next to the repository, or more of the repository than what it lands.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{World, told};

/// Verbs that start agents or checks; the others write for the person who asks.
const WATCHED: [&str; 4] = ["run", "review", "worker", "doctor"];
/// A file to which every watched call adds a line: `outside: FILES watched, N changed`.
const TALLY: &str = "COUNTERSIGN_OUTSIDE_TALLY";
/// Parts of a git directory that no run changes.
const GIT_KEPT: [&str; 3] = ["config", "hooks", "info"];
const BYTES_MAX: u64 = 64 << 20;

type Inventory = BTreeMap<PathBuf, u64>;

/// State of the surroundings of a story.
pub struct Outside {
    files: Inventory,
    head: String,
}

impl Outside {
    /// `None` where the story is allowed to change anything: nothing confines its agents, or it
    /// calls something else than a run.
    pub fn before(world: &World, words: &[&str]) -> Option<Self> {
        let verb = words.iter().find(|word| WATCHED.contains(word))?;
        let first = words.iter().find(|word| !word.starts_with('-'))?;
        if verb != first || world.is_unconfined() {
            return None;
        }
        Some(Self::now(world))
    }

    fn now(world: &World) -> Self {
        let mut files = Inventory::new();
        let own = [Some(world.data.clone()), database(world)];
        // The world may be reached through a link.
        let real = |path: PathBuf| match (path.parent().map(fs::canonicalize), path.file_name()) {
            (Some(Ok(dir)), Some(name)) => dir.join(name),
            _ => path,
        };
        let own: Vec<PathBuf> = own.into_iter().flatten().map(real).collect();
        look(&world.root(), &own, &mut files);
        Self {
            files,
            head: head(&world.repository),
        }
    }

    /// Fails where anything outside is not as it was.
    pub fn must_be_as_before(&self, world: &World) {
        let changed = self.changed(world);
        tally(self.files.len(), changed.len());
        assert!(
            changed.is_empty(),
            "files outside that changed: {changed:#?}"
        );
    }

    fn changed(&self, world: &World) -> Vec<PathBuf> {
        let mut after = Self::now(world);
        let mut before = self.files.clone();
        if after.head != self.head {
            // It landed: the work tree went along.
            for files in [&mut before, &mut after.files] {
                let repository = fs::canonicalize(&world.repository).unwrap();
                let git = repository.join(".git");
                files.retain(|path, _| !path.starts_with(&repository) || path.starts_with(&git));
            }
        }
        let is_new = |path: &&PathBuf| !before.contains_key(*path);
        let made = after.files.keys().filter(is_new).cloned();
        let differs = |(path, hash): &(&PathBuf, &u64)| after.files.get(*path) != Some(hash);
        let differing = before.iter().filter(differs).map(|(path, _)| path.clone());
        differing.chain(made).collect()
    }
}

fn tally(watched: usize, changed: usize) {
    let Some(file) = told(TALLY) else {
        return;
    };
    let line = format!("outside: {watched} watched, {changed} changed\n");
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.unwrap().write_all(line.as_bytes()).unwrap();
}

fn database(world: &World) -> Option<PathBuf> {
    let name = world.database.as_deref()?;
    Some(PathBuf::from(name)).filter(|path| path.is_absolute())
}

fn head(repository: &Path) -> String {
    let git = repository.join(".git");
    let text = fs::read_to_string(git.join("HEAD")).unwrap_or_default();
    let named = text.trim().strip_prefix("ref: ").map(|name| git.join(name));
    let at = named.map(|file| fs::read_to_string(file).unwrap_or_default());
    let packed = fs::read_to_string(git.join("packed-refs")).unwrap_or_default();
    format!("{text}{}{packed}", at.unwrap_or_default())
}

fn look(dir: &Path, own: &[PathBuf], files: &mut Inventory) {
    let is_git = dir.join("HEAD").is_file() && dir.join("objects").is_dir();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // The output of a program that is called, and the database next to the data directory.
        let ours = own.iter().any(|own| {
            let beside = own.parent() == path.parent();
            let own = own.file_name().unwrap_or_default().to_string_lossy();
            beside && name.starts_with(&*own)
        });
        let said = name.starts_with("said-");
        if ours || said || (is_git && !GIT_KEPT.contains(&&*name)) {
            continue;
        }
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        files.insert(path.clone(), fingerprint(&path, &meta));
        if meta.is_dir() {
            look(&path, own, files);
        }
    }
}

/// Kind, mode, owner and content; of a directory not the content, which is looked at by itself.
fn fingerprint(path: &Path, meta: &fs::Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    (meta.permissions().mode(), meta.uid(), meta.gid()).hash(&mut hasher);
    if meta.is_symlink() {
        fs::read_link(path).ok().hash(&mut hasher);
    } else if meta.is_file() && meta.len() <= BYTES_MAX {
        fs::read(path).ok().hash(&mut hasher);
    } else if meta.is_file() {
        meta.len().hash(&mut hasher);
    }
    hasher.finish()
}

#[test]
fn a_file_beside_the_repository_that_is_emptied_fails_the_story() {
    let world = World::new();
    let beside = world.put("agent.sh", "#!/bin/sh\n");
    for change in ["emptied", "made", "removed", "mode", "hook", "work tree"] {
        let before = Outside::before(&world, &["run", "x"]).unwrap();
        match change {
            "emptied" => fs::write(&beside, "").unwrap(),
            "made" => fs::write(world.root().join("home/new"), "").unwrap(),
            "removed" => fs::remove_file(world.root().join("home/new")).unwrap(),
            "mode" => fs::set_permissions(&beside, fs::Permissions::from_mode(0o700)).unwrap(),
            "hook" => fs::write(world.repository.join(".git/hooks/pre-push"), "").unwrap(),
            _ => world.write("README.md", "other"),
        }
        assert_eq!(before.changed(&world).len(), 1, "{change}");
    }
    let before = Outside::before(&world, &["run", "x"]).unwrap();
    world.commit("A landing");
    assert_eq!(before.changed(&world), Vec::<PathBuf>::new());
    assert!(Outside::before(&world, &["init"]).is_none());
}
