//! Tests of the repository forms in which a change lands.

use super::*;

pub(super) const SERVED: &[(&str, Make)] = &[
    ("plain", |root| configured(root, &[])),
    ("below the top", |root| {
        Form::at(&configured(root, &[]).dir.join("sub"))
    }),
    ("separate git directory", |root| separate(root, "elsewhere")),
    ("separate git directory x.git", |root| {
        separate(root, "x.git")
    }),
    (".git is a symbolic link", |root| {
        let form = configured(root, &[]);
        fs::rename(form.dir.join(".git"), root.join("real")).unwrap();
        symlink("../real", form.dir.join(".git")).unwrap();
        form
    }),
    ("relative git file", |root| {
        let form = configured(root, &[["core.worktree", ".."]]);
        fs::rename(form.dir.join(".git"), form.dir.join(".real")).unwrap();
        write(&form.dir.join(".real/info/exclude"), ".real\n");
        write(&form.dir.join(".git"), "gitdir: .real\n");
        form
    }),
    ("relative git file, nothing configured", |root| {
        let form = configured(root, &[]);
        fs::rename(form.dir.join(".git"), root.join("real")).unwrap();
        write(&form.dir.join(".git"), "gitdir: ../real\n");
        form
    }),
    ("core.worktree", |root| {
        let form = configured(root, &[]);
        let tree = root.join("tree");
        fs::create_dir(&tree).unwrap();
        write(&form.dir.join("a.txt"), "nobody's\n");
        git(&form.dir, &["config", "core.worktree", "../../tree"]);
        let words = ["--git-dir=../repo/.git", "--work-tree=."].map(str::to_owned);
        git(
            &tree,
            &[&words[0], &words[1], "checkout", "-q", "-f", "main"],
        );
        Form {
            dir: form.dir,
            words: vec!["-C".into(), "../tree".into(), words[0].clone()],
        }
    }),
    ("submodule", in_submodule),
    ("submodule of a submodule", |root| {
        let inner = root.join("inner");
        start(&inner, &[]);
        let outer = in_submodule(root);
        submodule(&outer.dir, &inner, "deep");
        Form::at(&outer.dir.join("deep"))
    }),
    ("worktree of a submodule", |root| {
        link(&in_submodule(root).dir, &root.join("tree"))
    }),
    (
        "submodule with a worktree and its own configuration",
        |root| {
            let form = in_submodule(root);
            git(&form.dir, &["config", "extensions.worktreeConfig", "true"]);
            let tree = git(&form.dir, &["config", "core.worktree"]);
            git(&form.dir, &["config", "--worktree", "core.worktree", &tree]);
            git(&form.dir, &["config", "--unset", "core.worktree"]);
            let other = root.join("tree");
            let other = other.to_str().unwrap();
            git(&form.dir, &["worktree", "add", "-q", "-b", "other", other]);
            form
        },
    ),
    ("submodule in a worktree", |root| {
        let form = in_submodule(root);
        let tree = root.join("tree");
        git(
            &root.join("repo"),
            &[
                "worktree",
                "add",
                "-q",
                "-b",
                "side",
                tree.to_str().unwrap(),
            ],
        );
        let allow = ["-c", "protocol.file.allow=always"];
        git(
            &tree,
            &[&allow[..], &["submodule", "--quiet", "update", "--init"]].concat(),
        );
        git(&tree.join("lib"), &["checkout", "-q", "main"]);
        drop(form);
        Form::at(&tree.join("lib"))
    }),
    ("submodule that was not absorbed", |root| {
        let dir = root.join("repo");
        start(&dir, &[]);
        start(&dir.join("lib"), &[]);
        git(&dir, &["add", "lib"]);
        git(&dir, &["commit", "-q", "-m", "a submodule"]);
        Form::at(&dir.join("lib"))
    }),
    ("linked worktree", |root| {
        link(&configured(root, &[]).dir, &root.join("tree"))
    }),
    ("linked worktree of a separate git directory", |root| {
        link(&separate(root, "elsewhere").dir, &root.join("tree"))
    }),
    ("linked worktree with worktreeConfig", |root| {
        let form = configured(root, &[["extensions.worktreeConfig", "true"]]);
        let linked = link(&form.dir, &root.join("tree"));
        git(
            &linked.dir,
            &["config", "--worktree", "core.filemode", "true"],
        );
        linked
    }),
    ("linked worktree that was moved", |root| {
        let form = link(&configured(root, &[]).dir, &root.join("tree"));
        fs::rename(&form.dir, root.join("moved")).unwrap();
        Form::at(&root.join("moved"))
    }),
    ("beside a linked worktree on another branch", |root| {
        let form = configured(root, &[]);
        let other = root.join("tree");
        let other = other.to_str().unwrap();
        git(&form.dir, &["worktree", "add", "-q", "-b", "other", other]);
        form
    }),
    ("on main twice", |root| {
        let form = configured(root, &[]);
        let other = root.join("tree");
        let other = other.to_str().unwrap();
        git(&form.dir, &["worktree", "add", "-q", "-f", other, "main"]);
        form
    }),
    ("worktree of a bare repository", |root| {
        bare_with_worktree(root, &root.join("bare.git"))
    }),
    ("worktree of a bare repository named .git", |root| {
        bare_with_worktree(root, &root.join("project/.git"))
    }),
    ("worktree of a bare repository behind a git file", |root| {
        let form = bare_with_worktree(root, &root.join("project/.bare"));
        write(&root.join("project/.git"), "gitdir: ./.bare\n");
        form
    }),
    ("SHA-256", |root| {
        let dir = root.join("repo");
        start(&dir, &["--object-format=sha256"]);
        Form::at(&dir)
    }),
    ("reftable", |root| {
        let dir = root.join("repo");
        start(&dir, &["--ref-format=reftable"]);
        Form::at(&dir)
    }),
    ("reftable, linked worktree", |root| {
        let dir = root.join("repo");
        start(&dir, &["--ref-format=reftable"]);
        link(&dir, &root.join("tree"))
    }),
    ("reftable, separate git directory", |root| {
        let dir = root.join("repo");
        let elsewhere = root.join("elsewhere");
        let option = format!("--separate-git-dir={}", elsewhere.display());
        start(&dir, &["--ref-format=reftable", &option]);
        Form::at(&dir)
    }),
    ("sparse checkout", |root| {
        let form = configured(root, &[]);
        git(&form.dir, &["sparse-checkout", "set", "other"]);
        form
    }),
    ("sparse checkout and index", |root| {
        let form = configured(root, &[]);
        git(
            &form.dir,
            &["sparse-checkout", "set", "--sparse-index", "other"],
        );
        form
    }),
    ("split index", |root| {
        let form = configured(root, &[["core.splitIndex", "true"]]);
        git(&form.dir, &["update-index", "--split-index"]);
        form
    }),
    ("untracked cache", |root| {
        let form = configured(root, &[["core.untrackedCache", "true"]]);
        git(&form.dir, &["update-index", "--untracked-cache"]);
        git(&form.dir, &["status"]);
        form
    }),
    ("file system monitor", |root| {
        configured(root, &[["core.fsmonitor", "/bin/false"]])
    }),
    ("index version 4", |root| {
        let form = configured(root, &[["index.version", "4"]]);
        git(&form.dir, &["update-index", "--index-version", "4"]);
        form
    }),
    ("packed refs and a commit graph", |root| {
        let form = configured(root, &[]);
        git(&form.dir, &["gc", "-q"]);
        form
    }),
    ("HEAD is a symbolic link", |root| {
        let form = configured(root, &[]);
        let head = form.dir.join(".git/HEAD");
        fs::remove_file(&head).unwrap();
        symlink("refs/heads/main", &head).unwrap();
        form
    }),
    ("HEAD by another name of the branch", |root| {
        let form = configured(root, &[]);
        git(
            &form.dir,
            &["symbolic-ref", "refs/heads/alias", "refs/heads/main"],
        );
        git(&form.dir, &["symbolic-ref", "HEAD", "refs/heads/alias"]);
        form
    }),
    ("reached through a symbolic link", |root| {
        let form = configured(root, &[]);
        symlink(&form.dir, root.join("link")).unwrap();
        Form::at(&root.join("link"))
    }),
    (
        "separate git directory reached through symbolic links",
        |root| {
            fs::create_dir(root.join("real")).unwrap();
            symlink(root.join("real"), root.join("link")).unwrap();
            let form = separate(&root.join("link"), "elsewhere");
            symlink(&form.dir, root.join("again")).unwrap();
            Form::at(&root.join("again"))
        },
    ),
    ("a path with spaces and other letters", |root| {
        let root = root.join("ein Weg\u{fc} ' \"");
        fs::create_dir(&root).unwrap();
        separate(&root, "git dir")
    }),
    ("shallow", |root| {
        let form = configured(root, &[]);
        let url = format!("file://{}", form.dir.display());
        let dir = root.join("clone");
        git(
            root,
            &["clone", "-q", "--depth", "1", &url, dir.to_str().unwrap()],
        );
        Form::at(&dir)
    }),
    ("objects of another repository", |root| {
        let form = configured(root, &[]);
        let (from, dir) = (form.dir.to_str().unwrap(), root.join("clone"));
        git(
            root,
            &["clone", "-q", "--shared", from, dir.to_str().unwrap()],
        );
        Form::at(&dir)
    }),
    ("a copy of a repository that has worktrees", |root| {
        let form = configured(root, &[]);
        let tree = root.join("tree");
        let tree = tree.to_str().unwrap();
        git(&form.dir, &["worktree", "add", "-q", "-f", tree, "main"]);
        let copy = root.join("copy");
        let copied = attempt(root, &["clone", "-q", "--no-local", "repo", "copy"]);
        assert!(copied.status.success());
        let theirs = copy.join(".git/worktrees/tree");
        fs::create_dir_all(&theirs).unwrap();
        for name in ["HEAD", "commondir", "gitdir", "index"] {
            let from = form.dir.join(".git/worktrees/tree").join(name);
            fs::copy(from, theirs.join(name)).unwrap();
        }
        Form::at(&copy)
    }),
];
