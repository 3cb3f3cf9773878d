//! Maps errors of `PostgreSQL` to errors of the store.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::error::Error;

/// SQLSTATE that our SQL function `assert_all` raises.
pub(super) const NOT_ALL: &str = "CS001";

pub(super) fn is_not_all(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == NOT_ALL)
}

/// Returns the message for a person: the server's own message if there is one.
fn text(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    let source = error.source().map(ToString::to_string);
    error
        .as_db_error()
        .map(|db_error| db_error.message().to_owned())
        .or(source)
        .unwrap_or_else(|| error.to_string())
}

/// Maps the error of a read, or of a write that cannot have been committed.
pub(super) fn failed(error: &tokio_postgres::Error) -> Error {
    let text = text(error);
    let Some(code) = error.code() else {
        return Error::Unreachable(text);
    };
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Error::Conflict {
            what: format!("the same rows ({text})"),
        },
        SqlState::LOCK_NOT_AVAILABLE => Error::Locked(text),
        SqlState::DISK_FULL => Error::DiskFull(text),
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => {
            Error::ReadOnly(text)
        }
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS => Error::Unreachable(text),
        _ => Error::Other(format!("the database failed: {text}")),
    }
}

/// Maps the error of a statement that commits: if its answer is lost, the outcome is unknown.
pub(super) fn failed_to_commit(error: &tokio_postgres::Error) -> Error {
    match failed(error) {
        Error::Unreachable(text) => Error::OutcomeUnknown(text),
        other => other,
    }
}

pub(super) fn no_connection(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => failed(&error),
        PoolError::Timeout(_) => Error::Unreachable("no connection became free in time".to_owned()),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            Error::Unreachable(error.to_string())
        }
    }
}
