//! Connects to `PostgreSQL`: the pool, migrations, and clear errors if it cannot be used.
//!
//! It refuses a server that is too old and a schema of a newer version.

use std::str::FromStr;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Transaction};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::Error;
use crate::settings::Settings;

use super::errors::{failed, no_connection};
use super::tls::{PgTls, TlsSettings};

/// Minimum server version: `xid8`, which the order of the event log needs, exists since 13.
const SERVER_MIN: i32 = 130_000;

/// Maximum silence of a server that should answer. A server that was cut off would otherwise hold a
/// caller for the kernel's default of many minutes.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Migrations in order; the schema version is the number of applied ones.
const MIGRATIONS: [&str; 11] = [
    include_str!("../../migrations/postgres/0001_first.sql"),
    include_str!("../../migrations/postgres/0002_tokens.sql"),
    include_str!("../../migrations/postgres/0003_bookmarks.sql"),
    include_str!("../../migrations/postgres/0004_parcels.sql"),
    include_str!("../../migrations/postgres/0005_run_tokens.sql"),
    include_str!("../../migrations/postgres/0006_provider_limits.sql"),
    include_str!("../../migrations/postgres/0007_callers.sql"),
    include_str!("../../migrations/postgres/0008_claims.sql"),
    include_str!("../../migrations/postgres/0009_statements.sql"),
    include_str!("../../migrations/postgres/0010_sessions.sql"),
    include_str!("../../migrations/postgres/0011_forge_states.sql"),
];

/// Session settings. Every statement walks an index and joins by keys, and is prepared once. The
/// generic plan avoids planning at each call, which took longer than the work. Without sequential
/// scans, hash and merge joins, a plan made while a table was small stays good when it grows. A
/// bitmap scan would not mark the dead index entries that it passes, and a queue has many. The idle
/// timeout ends the locks of a stopped program.
const SESSION: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off \
    -c idle_in_transaction_session_timeout=60000";

/// An address with its TLS settings, from which connections are made.
#[derive(Clone, Debug)]
pub(super) struct PgAddress {
    pub(super) config: Config,
    pub(super) tls: PgTls,
}

pub(super) fn address(url: &str, settings: &Settings) -> Result<PgAddress, Error> {
    let (url, tls) = TlsSettings::split_from(url)?;
    let mut config = config(&url, settings)?;
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    // A socket file does not leave the machine, and PostgreSQL has no TLS on it.
    if config.get_hosts().iter().all(is_socket) {
        config.ssl_mode(SslMode::Disable);
    } else {
        config.ssl_mode(tls.ssl_mode());
    }
    let tls = tls.connector()?;
    Ok(PgAddress { config, tls })
}

fn config(url: &str, settings: &Settings) -> Result<Config, Error> {
    let mut config = Config::from_str(url)
        .map_err(|error| Error::Other(format!("this is not a PostgreSQL URL: {error}")))?;
    // Options from the URL come first, so that ours override them.
    let url_options = config.get_options().unwrap_or_default();
    // A lock that is held for longer belongs to a stuck program; an error is better than a hang.
    let lock_ms = settings.busy_timeout.as_millis();
    config.options(format!("{url_options} {SESSION} -c lock_timeout={lock_ms}").trim());
    config.application_name("countersign");
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(settings.connect_timeout);
    }
    // A cut network link sends no error, so a request without an answer ends after this time.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    config.keepalives_idle(SILENCE_MAX);
    Ok(config)
}

/// Returns `host:port/database`, without user or password.
pub(super) fn name(config: &Config) -> String {
    let host = config.get_hosts().first().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().unwrap_or_default();
    format!("{}:{port}/{database}", host.unwrap_or_default())
}

pub(super) fn pool(address: &PgAddress, settings: &Settings, most: usize) -> Result<Pool, Error> {
    let recycling = ManagerConfig {
        // Fast: a broken connection is noticed by the next statement, so a check would only cost a
        // round trip.
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_config(address.config.clone(), address.tls.clone(), recycling);
    Pool::builder(manager)
        .max_size(most.max(1))
        // A caller waits for a connection no longer than for a lock.
        .wait_timeout(Some(settings.busy_timeout))
        .create_timeout(Some(settings.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| Error::Other(format!("could not create the connection pool: {error}")))
}

/// Brings the schema up to date and returns its name. If several programs start at the same time,
/// an advisory lock lets one of them do it.
pub(super) async fn migrate(pool: &Pool) -> Result<String, Error> {
    let mut client = pool.get().await.map_err(no_connection)?;
    // Checks and migrations are one transaction: a failure leaves the old schema.
    let tx = client.transaction().await.map_err(|e| failed(&e))?;
    let schema = check_server(&tx).await?;
    apply(&tx).await?;
    tx.commit().await.map_err(|e| failed(&e))?;
    Ok(schema)
}

async fn check_server(tx: &Transaction<'_>) -> Result<String, Error> {
    let row = tx
        .query_one(
            "SELECT current_setting('server_version_num')::integer, current_schema()::text",
            &[],
        )
        .await
        .map_err(|e| failed(&e))?;
    if row.get::<_, i32>(0) < SERVER_MIN {
        return Err(Error::Other(
            "this PostgreSQL is older than 13; use a newer one".to_owned(),
        ));
    }
    row.get::<_, Option<String>>(1).ok_or_else(|| {
        Error::Other("the connection's search_path names no schema that exists".to_owned())
    })
}

async fn apply(tx: &Transaction<'_>) -> Result<(), Error> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    // The lock is taken before the version is read, so a second program sees the first one's
    // result.
    run(
        tx,
        "SELECT pg_advisory_xact_lock(hashtext('countersign schema ' || current_schema()));
        CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL);",
    )
    .await?;
    let rows = tx
        .query("SELECT version FROM schema_version", &[])
        .await
        .map_err(|e| failed(&e))?;
    let found = rows.first().map_or(0, |row| row.get(0));
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    if found == known {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        run(tx, migration).await?;
    }
    run(
        tx,
        &format!("DELETE FROM schema_version; INSERT INTO schema_version VALUES ({known})"),
    )
    .await
}

async fn run(tx: &Transaction<'_>, sql: &str) -> Result<(), Error> {
    tx.batch_execute(sql).await.map_err(|e| failed(&e))
}
