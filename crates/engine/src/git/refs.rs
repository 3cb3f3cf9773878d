//! Reads refs from their files: most questions are about the tip of a branch, and a git process for
//! it takes longer than everything else that is done with the answer. Anything but a hash in a
//! file, or a line in `packed-refs`, is left to git itself.

use std::fs;
use std::io;
use std::path::Path;

use super::{Error, Oid, Repository};

/// Maximum size of `packed-refs` that we read; git reads larger ones.
const PACKED_BYTES_MAX: u64 = 1 << 20;

/// Result of reading the files of a ref.
#[derive(Debug, PartialEq, Eq)]
enum RefLookup {
    Is(Option<Oid>),
    /// Only git can answer.
    Unclear,
}

impl Repository {
    /// Returns the object that a ref (`refs/…`) names, if the ref exists.
    pub async fn read_ref(&self, name: &str) -> Result<Option<Oid>, Error> {
        match look_up_ref(&self.common, name) {
            RefLookup::Is(oid) => Ok(oid),
            RefLookup::Unclear => self.ask_for_ref(name).await,
        }
    }

    /// Returns false if the files show that there is no such ref.
    pub(super) fn may_have_ref(&self, name: &str) -> bool {
        look_up_ref(&self.common, name) != RefLookup::Is(None)
    }

    async fn ask_for_ref(&self, name: &str) -> Result<Option<Oid>, Error> {
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", name];
        let run = self.git().args(args).accept_codes(&[1, 128]);
        Ok(Oid::parse(&run.output().await?.text()))
    }
}

/// Reads the ref's own file first and then the packed refs, as git does: it packs before it
/// removes.
fn look_up_ref(common: &Path, name: &str) -> RefLookup {
    let plain = name.starts_with("refs/") && !name.split('/').any(|part| part.starts_with('.'));
    if !plain || !common.join("refs").is_dir() || common.join("reftable").exists() {
        return RefLookup::Unclear;
    }
    match fs::read_to_string(common.join(name)) {
        Ok(text) => match text.strip_suffix('\n').and_then(Oid::parse) {
            Some(oid) => RefLookup::Is(Some(oid)),
            None => RefLookup::Unclear,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => look_up_packed_ref(common, name),
        Err(_) => RefLookup::Unclear,
    }
}

fn look_up_packed_ref(common: &Path, name: &str) -> RefLookup {
    let file = common.join("packed-refs");
    match fs::metadata(&file) {
        Ok(meta) if meta.len() > PACKED_BYTES_MAX => return RefLookup::Unclear,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return RefLookup::Is(None),
        Err(_) => return RefLookup::Unclear,
    }
    let Ok(text) = fs::read_to_string(&file) else {
        return RefLookup::Unclear;
    };
    let line = text
        .lines()
        .find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
    match line.map(Oid::parse) {
        None => RefLookup::Is(None),
        Some(Some(oid)) => RefLookup::Is(Some(oid)),
        Some(None) => RefLookup::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_is_read_from_its_file_or_from_the_packed_ones() {
        let dir = tempfile::TempDir::new().unwrap();
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let oid = |text: &str| RefLookup::Is(Some(Oid::parse(text).unwrap()));
        let put = |name: &str, text: &str| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let found = |name: &str| look_up_ref(dir.path(), name);
        assert_eq!(found("refs/heads/main"), RefLookup::Unclear);
        put("refs/heads/main", &format!("{one}\n"));
        assert_eq!(found("refs/heads/main"), oid(&one));
        assert_eq!(found("refs/heads/other"), RefLookup::Is(None));
        let header = "# pack-refs with: peeled fully-peeled sorted\n";
        put(
            "packed-refs",
            &format!("{header}{two} refs/heads/main\n{two} refs/heads/other\n^{one}\n"),
        );
        assert_eq!(found("refs/heads/main"), oid(&one));
        assert_eq!(found("refs/heads/other"), oid(&two));
        assert_eq!(found("refs/heads/the"), RefLookup::Is(None));
        assert_eq!(found("heads/other"), RefLookup::Unclear);
    }

    #[test]
    fn what_is_not_plain_is_git_s_to_answer() {
        let dir = tempfile::TempDir::new().unwrap();
        let heads = dir.path().join("refs/heads");
        fs::create_dir_all(heads.join("dir")).unwrap();
        for (name, text) in [
            ("points", "ref: refs/heads/main\n"),
            ("empty", ""),
            ("half", "1111\n"),
        ] {
            fs::write(heads.join(name), text).unwrap();
        }
        for name in ["points", "empty", "half", "dir", "../../config", ".hidden"] {
            let name = format!("refs/heads/{name}");
            assert_eq!(look_up_ref(dir.path(), &name), RefLookup::Unclear, "{name}");
        }
        fs::create_dir(dir.path().join("reftable")).unwrap();
        assert_eq!(
            look_up_ref(dir.path(), "refs/heads/none"),
            RefLookup::Unclear
        );
    }
}
