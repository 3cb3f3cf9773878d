//! A bare repository outside of a world, as a forge has it: the remote of the world's repository.

use std::path::{Path, PathBuf};

use super::World;
use super::github::git;
use crate::fakes::FakeRepository;

/// The file that the tickets of the stories add.
const FILE: &str = "greet.sh";

pub struct BareRepository {
    pub path: PathBuf,
    _place: tempfile::TempDir,
}

impl BareRepository {
    /// Makes it the remote of a world, whose configuration gets `landing` into `[landing]`.
    pub fn of(world: &World, landing: &str) -> Self {
        // Outside of the world, in which a run changes nothing but its own.
        let place = tempfile::tempdir().unwrap();
        let path = std::fs::canonicalize(place.path()).unwrap().join("r.git");
        let settings = format!("{}\n[landing]\n{landing}\n", super::SETTINGS);
        world.write("countersign.toml", &settings);
        world.commit("Land as pull requests");
        let (from, to) = (world.repository.to_str().unwrap(), path.to_str().unwrap());
        world.git(&["clone", "--quiet", "--bare", from, to]);
        world.git(&["remote", "add", "origin", to]);
        Self {
            path,
            _place: place,
        }
    }

    /// The same repository for a fake that serves it.
    pub fn for_fake(&self) -> Box<dyn FakeRepository> {
        Box::new(Bare(self.path.clone()))
    }

    /// Commit of a branch; empty if there is none.
    pub fn branch(&self, name: &str) -> String {
        head(&self.path, name)
    }
}

#[derive(Debug)]
struct Bare(PathBuf);

fn head(path: &Path, branch: &str) -> String {
    git(path, &["rev-parse", "--verify", "--quiet", branch])
}

impl FakeRepository for Bare {
    fn head(&self, branch: &str) -> String {
        head(&self.0, branch)
    }

    fn lines(&self, commit: &str) -> u64 {
        let text = git(&self.0, &["show", &format!("{commit}:{FILE}")]);
        text.lines().count() as u64
    }

    fn merge(&self, commit: &str) {
        git(&self.0, &["update-ref", "refs/heads/main", commit]);
    }
}
