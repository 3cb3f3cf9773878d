//! A landing that was killed between the branch and the work tree on it.
//!
//! Before the branch moves, a note says from where to where. Whoever finds the note brings the
//! work tree along, if each of its files holds what one of the two commits has: a person's own
//! work is never written over.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::stale::is_open;
use super::{Error, Oid, Place, Repository};

/// A path's content in the two commits; None where it has none.
type Versions = HashMap<String, [Option<Oid>; 2]>;

impl Repository {
    pub(super) fn note_landing(&self, branch: &str, old: &Oid, new: &Oid) -> Result<(), Error> {
        let note = self.landing_note(branch);
        let dir = note.parent().unwrap_or(&self.common);
        fs::create_dir_all(dir).map_err(Error::file(dir))?;
        fs::write(&note, format!("{old} {new}\n")).map_err(Error::file(&note))
    }

    pub(super) fn landing_is_over(&self, branch: &str) {
        // A note that stays says only what is true already.
        let _ = fs::remove_file(self.landing_note(branch));
    }

    /// Finishes a landing on the branch that somebody began and did not finish. What cannot be
    /// finished safely is left as it is.
    pub async fn catch_up(&self, branch: &str) -> Result<(), Error> {
        let text = fs::read_to_string(self.landing_note(branch)).unwrap_or_default();
        let mut words = text.split_whitespace().filter_map(Oid::parse);
        let (Some(old), Some(new)) = (words.next(), words.next()) else {
            return Ok(());
        };
        if self.branch(branch).await?.as_ref() == Some(&new) {
            for place in self.places_on(branch).await? {
                self.catch_up_at(&place, &old, &new).await?;
            }
        }
        self.landing_is_over(branch);
        Ok(())
    }

    async fn catch_up_at(&self, place: &Place, old: &Oid, new: &Oid) -> Result<(), Error> {
        let versions = self.versions(old, new).await?;
        let changed = self.changed_at(place).await?;
        for path in self.dirty_at(place).await? {
            let beside_it = !changed.contains(&path) && !touches(&versions, &path);
            if !beside_it && !self.is_one_of(place, &path, versions.get(&path)).await? {
                return Ok(());
            }
        }
        let lock = place.git_dir.join("index.lock");
        if lock.exists() && !is_open(&lock) {
            // A git that was killed with the landing left it.
            fs::remove_file(&lock).map_err(Error::file(&lock))?;
        }
        let args = ["read-tree", "--reset", "-u", new.as_str()];
        self.git_at(place).args(args).done().await
    }

    async fn versions(&self, old: &Oid, new: &Oid) -> Result<Versions, Error> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
        ];
        let run = self.git().args(args).args([old.as_str(), new.as_str()]);
        let fields = run.fields().await?;
        let known = |word: Option<&str>| {
            word.and_then(Oid::parse)
                .filter(|oid| oid.as_str() != oid.zero())
        };
        let pair = |change: &String| {
            let mut words = change.split(' ').skip(2);
            [known(words.next()), known(words.next())]
        };
        let entries = fields.chunks_exact(2);
        Ok(entries
            .map(|entry| (entry[1].clone(), pair(&entry[0])))
            .collect())
    }

    async fn is_one_of(
        &self,
        place: &Place,
        path: &str,
        versions: Option<&[Option<Oid>; 2]>,
    ) -> Result<bool, Error> {
        let Some(versions) = versions else {
            return Ok(false);
        };
        let found = match fs::symlink_metadata(place.path.join(path)) {
            Ok(meta) if meta.is_file() => {
                let args = ["hash-object", "--no-filters", "--", path];
                Some(self.git_at(place).args(args).oid().await?)
            }
            Ok(_) => return Ok(false),
            Err(_) => None,
        };
        Ok(versions.contains(&found))
    }

    fn landing_note(&self, branch: &str) -> PathBuf {
        let name = crate::hash::short(branch.as_bytes());
        self.common.join("countersign-landing").join(name)
    }
}

/// Whether a path is one of these, or is above or below one.
fn touches(versions: &Versions, path: &str) -> bool {
    let path = Path::new(path);
    let mut known = versions.keys().map(Path::new);
    known.any(|one| one.starts_with(path) || path.starts_with(one))
}
