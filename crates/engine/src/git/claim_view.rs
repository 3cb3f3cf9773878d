//! Bare repositories that show one claim's refs and nothing else, and git's own HTTP backend on
//! them.
//!
//! A view has its own object store. It borrows the history below the base from the mirror, never
//! from the repository: since protocol version 2 git serves any object that it finds, also without
//! a ref to it. A push goes into a view first, so no ref of the repository moves before we have
//! looked at it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::command::GitCommand;
use super::lock::RepositoryLock;
use super::mirror::borrow_from;
use super::{Error, GitProgram, Oid, Repository};

/// Maximum size of a pushed pack, unpacked request included.
pub const PUSH_BYTES_MAX: usize = 64 << 20;

/// Refs of a view.
#[derive(Clone, Copy, Debug)]
pub struct ClaimView<'a> {
    pub base_branch: &'a str,
    pub base: &'a Oid,
    /// Branch that a clone checks out.
    pub branch: &'a str,
    pub head: &'a Oid,
    /// Whether the commits between base and head are shown. Without them the view ends at the
    /// head, like a shallow clone: a reviewer sees the code and not its history.
    pub with_history: bool,
}

/// One request for git's HTTP backend.
#[derive(Clone, Debug, Default)]
pub struct BackendRequest {
    pub method: &'static str,
    /// Path below the view, such as `info/refs`.
    pub path: &'static str,
    pub query: String,
    pub content_type: String,
    pub gzip: bool,
    /// Version of the protocol that the client asks for.
    pub protocol: Option<String>,
    pub body: Vec<u8>,
}

impl Repository {
    /// Creates a view at `dir`, unless there is one.
    pub async fn create_view(
        &self,
        view: &ClaimView<'_>,
        mirror: &Path,
        dir: &Path,
    ) -> Result<(), Error> {
        if dir.join("HEAD").exists() {
            return Ok(());
        }
        let parent = dir.parent().unwrap_or(Path::new("/"));
        crate::private_files::make_dir(parent).map_err(Error::file(parent))?;
        let _lock = RepositoryLock::take(&dir.with_extension("lock")).await?;
        if dir.join("HEAD").exists() {
            return Ok(());
        }
        self.update_mirror(mirror, view.base).await?;
        // Renamed when it is whole, because a request may read it at any time.
        let part = dir.with_extension("part");
        super::remove_tree(&part).map_err(Error::file(&part))?;
        self.init(&part, &["--bare"]).await?;
        borrow_from(mirror, &part)?;
        if view.with_history {
            self.copy_objects(view.head, std::slice::from_ref(view.base), &part)
                .await?;
        } else {
            self.copy_without_history(view, &part).await?;
        }
        let git = || GitCommand::new(&self.tool, &part).with_git_dir(&part);
        let refs = [(view.base_branch, view.base), (view.branch, view.head)];
        for (name, oid) in refs {
            let name = format!("refs/heads/{name}");
            git()
                .args(["update-ref", &name, oid.as_str()])
                .run()
                .await?;
        }
        let head = format!("refs/heads/{}", view.branch);
        git().args(["symbolic-ref", "HEAD", &head]).run().await?;
        super::remove_tree(dir).map_err(Error::file(dir))?;
        fs::rename(&part, dir).map_err(Error::file(dir))
    }

    /// Copies the head and its files to the view, and marks it as the end of the history.
    async fn copy_without_history(&self, view: &ClaimView<'_>, dir: &Path) -> Result<(), Error> {
        let (head, not_base) = (view.head.as_str(), format!("^{}", view.base));
        let list = ["rev-list", "--objects", "--max-count=1", head, &not_base];
        let listed = self.git().args(list).args(["--"]).text().await?;
        let oids: Vec<Oid> = listed
            .lines()
            .filter_map(|line| Oid::parse(line.split(' ').next()?))
            .collect();
        // An empty change, or a head that the base contains: the mirror has it.
        if oids.is_empty() {
            return Ok(());
        }
        let pack = dir.join(format!("objects/pack/pack-{head}.pack"));
        let args = ["pack-objects", "--stdout", "--delta-base-offset", "-q"];
        let oids: Vec<&str> = oids.iter().map(Oid::as_str).collect();
        let run = self.git().args(args).stdin(oids.join("\n") + "\n");
        run.stdout_to(&pack).run().await?;
        let index = GitCommand::new(&self.tool, dir).with_git_dir(dir);
        index.args(["index-pack"]).args([&pack]).run().await?;
        let file = dir.join("shallow");
        fs::write(&file, format!("{head}\n")).map_err(Error::file(&file))
    }

    /// Takes over a branch from a view into which it was pushed. Moves the branch only forward, and
    /// only from `old`. Returns false if it has moved meanwhile, or would lose commits.
    pub async fn accept_push(
        &self,
        view: &Path,
        (branch, new): (&str, &Oid),
        (base, old): (&Oid, Option<&Oid>),
    ) -> Result<bool, Error> {
        let _lock = RepositoryLock::take(&self.common.join("countersign-bundles.lock")).await?;
        let name = format!("refs/heads/{branch}");
        if self.read_ref(&name).await?.as_ref() != old {
            return Ok(false);
        }
        let pack = view.join("pushed.pack");
        let pushed = self.tool.repository_at(view);
        let args = ["pack-objects", "--revs", "--stdout", "-q"];
        let have = old.unwrap_or(base);
        let run = pushed
            .git()
            .args(args)
            .stdin(format!("{new}\n^{base}\n^{have}\n"));
        run.stdout_to(&pack).run().await?;
        let size = fs::metadata(&pack).map_err(Error::file(&pack))?.len();
        if size > PUSH_BYTES_MAX as u64 {
            return Err(Error::TooLarge("push".to_owned()));
        }
        let bytes = fs::read(&pack).map_err(Error::file(&pack))?;
        // `--strict` refuses crafted objects.
        let args = ["index-pack", "--stdin", "--strict", "--fix-thin"];
        self.git().args(args).stdin(bytes).run().await?;
        let complete = [
            "rev-list",
            "--objects",
            "--quiet",
            new.as_str(),
            "--not",
            "--all",
            "--",
        ];
        self.git().args(complete).run().await?;
        if let Some(old) = old
            && !self.is_ancestor(old, new).await?
        {
            return Ok(false);
        }
        self.share_ref(&name, new, old).await
    }
}

impl GitProgram {
    /// Runs `git http-backend` on the view at `dir`, and writes its answer (headers, an empty line,
    /// the body) to a file.
    pub async fn http_backend(
        &self,
        dir: &Path,
        request: BackendRequest,
        answer: &Path,
    ) -> Result<(), Error> {
        let parent = dir.parent().unwrap_or(Path::new("/"));
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let size = format!("receive.maxInputSize={PUSH_BYTES_MAX}");
        let settings = [
            "http.receivepack=true",
            "http.getanyfile=false",
            "transfer.fsckObjects=true",
            "receive.denyDeletes=true",
            "receive.denyNonFastForwards=true",
            "receive.autogc=false",
            "uploadpack.allowFilter=false",
            &size,
        ];
        let settings = settings
            .into_iter()
            .flat_map(|setting| [OsString::from("-c"), OsString::from(setting)])
            .collect();
        let mut run = GitCommand::new(self, parent)
            .settings(settings)
            .env("GIT_PROJECT_ROOT", parent)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", format!("/{name}/{}", request.path))
            .env("REQUEST_METHOD", request.method)
            .env("QUERY_STRING", request.query)
            .env("CONTENT_TYPE", request.content_type)
            .env("CONTENT_LENGTH", request.body.len().to_string());
        if request.gzip {
            run = run.env("HTTP_CONTENT_ENCODING", "gzip");
        }
        if let Some(protocol) = request.protocol {
            run = run.env("GIT_PROTOCOL", protocol);
        }
        let run = run.args(["http-backend"]).stdin(request.body);
        // An exit code of git is in its answer too: the client reads why.
        run.accept_codes(&[1, 128]).stdout_to(answer).run().await
    }
}
