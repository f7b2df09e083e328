//! What the engine says, in our words. The engine tells a unique violation only by its text; that is read here and
//! nowhere else, and pinned by a test.

use surrealdb::types::{ErrorDetails, QueryError};

use crate::error::Error;

/// Why a database could not be opened. The text is one sentence for a person, with what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

/// A failed read.
pub(super) fn read(error: surrealdb::Error) -> Error {
    match error.details() {
        ErrorDetails::Connection(_) => Error::Unavailable(error.to_string()),
        ErrorDetails::Query(Some(QueryError::TransactionConflict | QueryError::TimedOut { .. })) => {
            Error::Unavailable(error.to_string())
        }
        _ => Error::Internal(error.to_string()),
    }
}

/// What a failed write means to the write helper.
pub(super) enum WriteFailure {
    /// Somebody else changed what we read: plan again.
    Conflict,
    /// The idempotency row exists: another process was first.
    AlreadyDone,
    Final(Error),
}

/// What a block throws when a record moved between the plan and the transaction.
pub(super) const MOVED: &str = "moved";

pub(super) fn write(error: surrealdb::Error) -> WriteFailure {
    let text = error.message();
    match error.details() {
        ErrorDetails::Query(Some(QueryError::TransactionConflict)) => WriteFailure::Conflict,
        ErrorDetails::Thrown if text.ends_with(MOVED) => WriteFailure::Conflict,
        ErrorDetails::AlreadyExists(_) if text.contains("`idempotency:") => WriteFailure::AlreadyDone,
        _ => WriteFailure::Final(unique(text).unwrap_or_else(|| read(error))),
    }
}

/// Whether a read-and-write failed because a unique index has its row already.
pub(super) fn is_taken(error: &Error, index: &str) -> bool {
    let text = error.cause().unwrap_or_default();
    text.strip_prefix("Database index `").and_then(|rest| rest.split('`').next()) == Some(index)
}

/// The unique indexes that a caller can violate, and what it is told.
fn unique(text: &str) -> Option<Error> {
    let index = text.strip_prefix("Database index `")?.split('`').next()?;
    match index {
        "customer_account" => Some(Error::conflict("A customer with this vendor and identifier exists already")),
        _ => None,
    }
}
