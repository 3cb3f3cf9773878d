//! Tests of every known form of repository. After a landing, branch, index and files agree
//! according to the user's own git, or the form is refused before anything is changed.

use std::os::unix::fs::symlink;

use super::*;

mod served;

use served::SERVED;

/// A repository in some form.
struct Form {
    /// Directory that the user is in.
    dir: PathBuf,
    /// Arguments for the user's git to find the repository from there, if it needs any.
    words: Vec<String>,
}

impl Form {
    fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            words: Vec::new(),
        }
    }

    fn git(&self, args: &[&str]) -> String {
        let words = self.words.iter().map(String::as_str);
        let args: Vec<&str> = words.chain(args.iter().copied()).collect();
        git(&self.dir, &args)
    }

    fn top(&self) -> PathBuf {
        PathBuf::from(self.git(&["rev-parse", "--show-toplevel"]))
    }
}

fn start(dir: &Path, options: &[&str]) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &[&["init", "-q", "-b", "main"], options].concat());
    fill(dir);
}

fn fill(dir: &Path) {
    for (name, text) in [("a.txt", "one\n"), ("sub/b.txt", "one\n"), ("gone", "x\n")] {
        write(&dir.join(name), text);
    }
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "first"]);
}

fn submodule(of: &Path, from: &Path, name: &str) {
    let allow = ["-c", "protocol.file.allow=always"];
    let add = ["submodule", "--quiet", "add", from.to_str().unwrap(), name];
    git(of, &[&allow[..], &add].concat());
    git(of, &["commit", "-q", "-m", "a submodule"]);
    git(&of.join(name), &["checkout", "-q", "main"]);
}

/// Returns the git that created the repository: an older one may not know its form.
#[expect(clippy::disallowed_methods, reason = "the test's own search path")]
fn same_git() -> GitProgram {
    let path = std::env::var_os("PATH").unwrap();
    let program = process::find_program("git".as_ref(), &path, "/".as_ref());
    GitProgram {
        program: program.unwrap(),
        ..tool()
    }
}

type Make = fn(&Path) -> Form;

fn configured(root: &Path, settings: &[[&str; 2]]) -> Form {
    let dir = root.join("repo");
    start(&dir, &[]);
    for [key, value] in settings {
        git(&dir, &["config", key, value]);
    }
    Form::at(&dir)
}

fn separate(root: &Path, name: &str) -> Form {
    let dir = root.join("repo");
    let option = format!("--separate-git-dir={}", root.join(name).display());
    start(&dir, &[&option]);
    Form::at(&dir)
}

fn in_submodule(root: &Path) -> Form {
    let (library, dir) = (root.join("library"), root.join("repo"));
    start(&library, &[]);
    start(&dir, &[]);
    submodule(&dir, &library, "lib");
    Form::at(&dir.join("lib"))
}

fn bare_with_worktree(root: &Path, bare: &Path) -> Form {
    let (first, tree) = (root.join("first"), root.join("tree"));
    start(&first, &[]);
    let (from, to) = (first.to_str().unwrap(), bare.to_str().unwrap());
    git(root, &["clone", "-q", "--bare", from, to]);
    git(
        bare,
        &["worktree", "add", "-q", tree.to_str().unwrap(), "main"],
    );
    Form::at(&tree)
}

/// Creates a linked worktree on main; the repository itself is on another branch.
fn link(dir: &Path, tree: &Path) -> Form {
    git(dir, &["checkout", "-q", "-b", "other"]);
    git(
        dir,
        &["worktree", "add", "-q", tree.to_str().unwrap(), "main"],
    );
    Form::at(tree)
}

/// Asserts that it is refused before any work, with a reason.
const REFUSED: &[(&str, &str, Make)] = &[
    ("core.bare by mistake", "core.bare is true", |root| {
        configured(root, &[["core.bare", "true"]])
    }),
    (
        "core.bare by mistake, separate",
        "core.bare is true",
        |root| {
            let form = separate(root, "elsewhere");
            git(&form.dir, &["config", "core.bare", "true"]);
            form
        },
    ),
    (
        "separate git directory named .git",
        "with one index",
        |root| {
            fs::create_dir(root.join("other")).unwrap();
            separate(root, "other/.git")
        },
    ),
    (
        ".git is a symbolic link to another .git",
        "with one index",
        |root| {
            let form = configured(root, &[]);
            fs::create_dir(root.join("real")).unwrap();
            fs::rename(form.dir.join(".git"), root.join("real/.git")).unwrap();
            symlink("../real/.git", form.dir.join(".git")).unwrap();
            form
        },
    ),
    (
        "core.worktree without a directory",
        "which is not a directory",
        |root| {
            let form = configured(root, &[]);
            let file = form.dir.join("a.txt");
            git(
                &form.dir,
                &["config", "core.worktree", file.to_str().unwrap()],
            );
            form
        },
    ),
    ("core.worktree that is gone", "core.worktree", |root| {
        configured(root, &[["core.worktree", "/nonexistent/tree"]])
    }),
    ("two work trees with one index", "with one index", |root| {
        let form = configured(root, &[]);
        let copy = root.join("copy");
        let text = format!("gitdir: {}\n", form.dir.join(".git").display());
        write(&copy.join(".git"), &text);
        Form::at(&copy)
    }),
    (
        "refs of another repository",
        "refs is a symbolic link",
        |root| {
            let form = configured(root, &[]);
            let dir = root.join("work");
            fs::create_dir_all(dir.join(".git")).unwrap();
            for name in ["refs", "objects", "config"] {
                symlink(
                    form.dir.join(".git").join(name),
                    dir.join(".git").join(name),
                )
                .unwrap();
            }
            for name in ["HEAD", "index"] {
                fs::copy(
                    form.dir.join(".git").join(name),
                    dir.join(".git").join(name),
                )
                .unwrap();
            }
            Form::at(&dir)
        },
    ),
];

/// Creates a commit on the tip of main that changes, adds and removes files, and moves no ref.
fn next(form: &Form, number: u32) -> (Oid, Oid) {
    let dir = TempDir::new().unwrap();
    let index = dir.path().join("index");
    let old = form.git(&["rev-parse", "main"]);
    let dir_of_form = match form.words[..] {
        [] => form.top(),
        [..] => form.dir.clone(),
    };
    let run = |args: &[&str]| {
        let words = form.words.iter().map(String::as_str);
        let args: Vec<&str> = words.chain(args.iter().copied()).collect();
        let output = attempt_with(&dir_of_form, &args, &[("GIT_INDEX_FILE", &index)]);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    run(&["read-tree", "main"]);
    let file = dir.path().join("file");
    write(&file, &format!("{number}\n"));
    let blob = run(&["hash-object", "-w", "--no-filters", file.to_str().unwrap()]);
    for name in ["a.txt", "sub/b.txt", "new/deep.txt", &format!("n{number}")] {
        let info = format!("100644,{blob},{name}");
        run(&["update-index", "--add", "--cacheinfo", &info]);
    }
    run(&["update-index", "--force-remove", "gone"]);
    let tree = run(&["write-tree"]);
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    let commit = ["commit-tree", &tree, "-p", "main", "-m", "next"];
    let new = run(&[&identity[..], &commit].concat());
    (Oid::parse(&old).unwrap(), Oid::parse(&new).unwrap())
}

fn must_agree(form: &Form, name: &str, number: u32) {
    assert_eq!(form.git(&["status", "--porcelain"]), "", "{name}");
    form.git(&["fsck", "--strict", "--no-dangling"]);
    let top = form.top();
    let text = fs::read_to_string(top.join("a.txt")).unwrap();
    assert_eq!(text, format!("{number}\n"), "{name}");
    assert!(!top.join("gone").exists(), "{name}");
    let trees = form.git(&["worktree", "list", "--porcelain"]);
    for tree in trees
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
    {
        if !Path::new(tree).join(".git").exists() {
            continue;
        }
        let inside = attempt(Path::new(tree), &["rev-parse", "--is-inside-work-tree"]);
        if inside.stdout == b"true\n" {
            let status = ["status", "--porcelain", "--ignore-submodules"];
            assert_eq!(git(Path::new(tree), &status), "", "{name}: {tree}");
        }
    }
}

async fn lands(name: &str, make: Make) {
    let root = TempDir::new().unwrap();
    let real = fs::canonicalize(root.path()).unwrap();
    let form = make(&real);
    let surroundings = format!("{name} in {}", real.display());
    let (old, new) = next(&form, 1);
    let repository = Repository::open(same_git(), &form.dir)
        .await
        .expect(&surroundings);
    repository.must_serve("main").await.expect(&surroundings);
    let landed = repository
        .land("main", &new, &old)
        .await
        .expect(&surroundings);
    assert!(
        matches!(&landed, LandingOutcome::Done { forwarded } if !forwarded.is_empty()),
        "{name}: {landed:?}"
    );
    must_agree(&form, name, 1);
    // Open it as a worker does: by the git directory that a ticket names.
    let (old, new) = next(&form, 2);
    let again = Repository::open(same_git(), repository.common_dir())
        .await
        .expect(&surroundings);
    let landed = again.land("main", &new, &old).await.expect(&surroundings);
    assert!(
        matches!(&landed, LandingOutcome::Done { forwarded } if !forwarded.is_empty()),
        "{name}: {landed:?}"
    );
    must_agree(&form, name, 2);
}

#[tokio::test]
async fn branch_index_and_files_agree_after_a_landing_in_every_form_of_repository() {
    let landing: Vec<_> = SERVED
        .iter()
        .map(|(name, make)| (name, tokio::spawn(lands(name, *make))))
        .collect();
    let mut failed = Vec::new();
    for (name, task) in landing {
        if task.await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn a_form_that_cannot_be_served_is_refused_with_its_reason_and_nothing_changes() {
    for (name, reason, make) in REFUSED {
        let root = TempDir::new().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let form = make(&real);
        let refused = Repository::open(same_git(), &form.dir).await;
        let said = refused.expect_err(name).to_string();
        assert!(said.contains(reason), "{name}: {said}");
    }
}

/// The work tree is unknown if only the git directory is given. A landing then waits for a person,
/// and the branch stays.
#[tokio::test]
async fn a_work_tree_that_nobody_has_told_us_about_holds_the_landing() {
    let root = TempDir::new().unwrap();
    let real = fs::canonicalize(root.path()).unwrap();
    let form = separate(&real, "elsewhere");
    let (old, new) = next(&form, 1);
    let repository = Repository::open(same_git(), &real.join("elsewhere"))
        .await
        .unwrap();
    let refused = repository.must_serve("main").await.unwrap_err().to_string();
    assert!(
        refused.contains("run countersign once in that work tree"),
        "{refused}"
    );
    let landed = repository.land("main", &new, &old).await.unwrap();
    assert!(
        matches!(landed, LandingOutcome::Blocked { .. }),
        "{landed:?}"
    );
    assert_eq!(form.git(&["rev-parse", "main"]), old.as_str());
    assert_eq!(form.git(&["status", "--porcelain"]), "");
}

/// A locked worktree may come back with its index; a removed one does not.
#[tokio::test]
async fn a_worktree_that_is_away_holds_the_landing_only_while_it_is_locked() {
    let root = TempDir::new().unwrap();
    let real = fs::canonicalize(root.path()).unwrap();
    let (dir, tree) = (real.join("repo"), real.join("tree"));
    start(&dir, &[]);
    let form = link(&dir, &tree);
    git(&dir, &["worktree", "lock", tree.to_str().unwrap()]);
    let (old, new) = next(&form, 1);
    fs::rename(&tree, real.join("away")).unwrap();
    let repository = Repository::open(same_git(), &dir).await.unwrap();
    let landed = repository.land("main", &new, &old).await.unwrap();
    assert!(
        matches!(landed, LandingOutcome::Blocked { .. }),
        "{landed:?}"
    );
    git(&dir, &["worktree", "unlock", tree.to_str().unwrap()]);
    let landed = repository.land("main", &new, &old).await.unwrap();
    assert!(matches!(landed, LandingOutcome::Done { .. }), "{landed:?}");
}
