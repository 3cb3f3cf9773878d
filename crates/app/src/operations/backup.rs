//! Copies the database to a file while it is in use, and puts a copy back.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{data_dir, server_lock};
use crate::failure::{ExitKind, Failure};
use crate::settings::Environment;

/// A written copy of the database.
#[derive(Clone, Debug, Serialize)]
pub struct BackupReport {
    pub file: PathBuf,
    pub bytes: u64,
    pub events: u64,
    pub schema: i64,
}

/// A restored database.
#[derive(Clone, Debug, Serialize)]
pub struct RestoreReport {
    pub database: PathBuf,
    pub bytes: u64,
    pub events: u64,
    pub schema: i64,
    /// Path under which the previous database is kept, if there was one.
    pub replaced: Option<PathBuf>,
}

/// Writes a copy of the database to a private file. Servers and workers go on meanwhile.
pub async fn save(
    environment: &Environment,
    file: PathBuf,
    replace: bool,
) -> Result<BackupReport, Failure> {
    let database = database_file(environment, "pg_dump --format=custom --file=FILE ADDRESS")?;
    if file.exists() && !replace {
        return Err(refused(format!("{} exists already", file.display()))
            .hint("name another file, or pass --replace"));
    }
    let copy = blocking({
        let file = file.clone();
        move || store::backup(&database, &file, replace)
    });
    let copy = copy.await?;
    Ok(BackupReport {
        file,
        bytes: copy.bytes,
        events: copy.events,
        schema: copy.schema,
    })
}

/// Puts a copy in the place of the database. Fails if a server or any other program uses it, and if
/// there is one already, unless `replace` is set.
pub async fn restore(
    environment: &Environment,
    file: PathBuf,
    replace: bool,
) -> Result<RestoreReport, Failure> {
    let how = "pg_restore --clean --if-exists --single-transaction --dbname=ADDRESS FILE";
    let database = database_file(environment, how)?;
    data_dir::prepare(&environment.data_dir)?;
    // Held until the end, so that no server starts in the middle.
    let Some(_lock) = server_lock::try_acquire(&environment.data_dir)? else {
        return Err(server_lock::in_use(environment).hint("stop it first: SIGTERM, or Ctrl-C"));
    };
    let has_content = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
    if has_content(&database) && !replace {
        let why = format!("there is a database at {} already", database.display());
        return Err(refused(why).hint("pass --replace: the old one is kept next to it"));
    }
    let copy = blocking({
        let database = database.clone();
        move || store::restore(&file, &database, replace)
    });
    let copy = copy.await?;
    Ok(RestoreReport {
        database,
        bytes: copy.bytes,
        events: copy.events,
        schema: copy.schema,
        replaced: copy.replaced,
    })
}

/// Returns the path of the database. `PostgreSQL` has tools of its own.
fn database_file(environment: &Environment, how: &str) -> Result<PathBuf, Failure> {
    let database = environment.database();
    if database.contains("://") {
        return Err(
            Failure::usage("this command is for SQLite, and the database is PostgreSQL")
                .hint(format!("use its own tool: {how}"))
                .hint("docs/operations.md says how"),
        );
    }
    Ok(PathBuf::from(database))
}

fn refused(why: String) -> Failure {
    Failure::new(ExitKind::Refused, why)
}

/// Runs the copy on a thread of its own, because it reads and writes whole files.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> store::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(Failure::error)??)
}
