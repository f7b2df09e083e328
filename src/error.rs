//! What can go wrong, in the domain's words. No HTTP and no GraphQL here: each facade translates at its edge.

use serde::{Deserialize, Serialize};

use crate::model::environment::Astray;
use crate::model::scope::Scope;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One thing that is wrong with one field of the input. `field` is a dotted path in the caller's own (camelCase) names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// A refusal that follows from the request and the state it met. Exactly these are remembered under an idempotency key
/// (`contract.md` §6): repeating the request would be refused in the same words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The id in the path is unknown, malformed or another organization's. One answer for the three.
    NotFound,
    /// Clash with the current state (409).
    Conflict(String),
    /// Understood, but breaks rules; every broken one is listed (422).
    Invalid(Vec<FieldError>),
}

/// Why a bearer token was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenProblem {
    Missing,
    Expired,
    Invalid,
    /// It is a token of another environment.
    Astray(Astray),
}

impl std::fmt::Display for TokenProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Expired => f.write_str("Token expired"),
            Self::Missing | Self::Invalid => f.write_str("Invalid or revoked token"),
            Self::Astray(astray) => write!(f, "It is a token {astray}"),
        }
    }
}

/// Why an answer is not what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not understandable: bad JSON, wrong types, unknown fields or parameters (400).
    #[error("Invalid request parameters")]
    Malformed(Vec<FieldError>),
    #[error("{0}")]
    Unauthenticated(TokenProblem),
    /// The caller lacks this scope (403).
    #[error("Insufficient scope for this endpoint")]
    InsufficientScope(Scope),
    /// The caller may not do this, whatever its scopes (403). The words say who may.
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("{}", match .0 {
        Refusal::NotFound => "Resource not found",
        Refusal::Conflict(message) => message,
        Refusal::Invalid(_) => "Validation failed",
    })]
    Refused(Refusal),
    /// The events after a point are past their retention (410).
    #[error("The events after this point are no longer kept; the oldest one that is kept has the sequence {oldest}")]
    EventsExpired { oldest: i64 },
    /// What was asked for exists in other environments (404). The words say in which.
    #[error("{0}")]
    NotHere(&'static str),
    /// A request with the same idempotency key is still running (409 with `Retry-After`).
    #[error("A request with this idempotency key is still running; retry shortly")]
    KeyInFlight,
    /// `retry_after` in seconds (429).
    #[error("Rate limit exceeded")]
    RateLimited { retry_after: u64 },
    /// As much is open as may be: something has to end before the next begins (429). The words say what.
    #[error("{0}")]
    Crowded(&'static str),
    /// Worth a retry soon (503). The text is for the log.
    #[error("Service temporarily unavailable")]
    Unavailable(String),
    /// A defect or a broken database (500). The text is for the log, never for the caller.
    #[error("Internal server error")]
    Internal(String),
}

impl Error {
    pub const NOT_FOUND: Self = Self::Refused(Refusal::NotFound);

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Refused(Refusal::Conflict(message.into()))
    }

    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Refused(Refusal::Invalid(vec![FieldError::new(field, message)]))
    }

    pub fn malformed(field: &str, message: impl Into<String>) -> Self {
        Self::Malformed(vec![FieldError::new(field, message)])
    }

    pub fn internal(cause: impl std::fmt::Display) -> Self {
        Self::Internal(cause.to_string())
    }

    /// What only the log may hear.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Unavailable(cause) | Self::Internal(cause) => Some(cause),
            _ => None,
        }
    }

    /// The list that goes into `errors[]`.
    pub fn fields(&self) -> &[FieldError] {
        match self {
            Self::Malformed(fields) | Self::Refused(Refusal::Invalid(fields)) => fields,
            _ => &[],
        }
    }

    /// `error.type` and `error.code` of `contract.md` §3, and the HTTP status that both facades report.
    pub fn class(&self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Malformed(_) => (400, "validation_error", "INVALID_PARAMS"),
            Self::Unauthenticated(_) => (401, "authentication_error", "UNAUTHORIZED"),
            Self::InsufficientScope(_) | Self::Forbidden(_) => (403, "permission_error", "INSUFFICIENT_SCOPE"),
            Self::Refused(Refusal::NotFound) | Self::NotHere(_) => (404, "not_found_error", "NOT_FOUND"),
            Self::Refused(Refusal::Conflict(_)) | Self::KeyInFlight => (409, "conflict_error", "CONFLICT"),
            Self::EventsExpired { .. } => (410, "not_found_error", "EVENTS_EXPIRED"),
            Self::Refused(Refusal::Invalid(_)) => (422, "validation_error", "INVALID_PARAMS"),
            Self::RateLimited { .. } | Self::Crowded(_) => (429, "rate_limit_error", "RATE_LIMITED"),
            Self::Internal(_) => (500, "api_error", "INTERNAL"),
            Self::Unavailable(_) => (503, "api_error", "UNAVAILABLE"),
        }
    }

    /// Seconds to wait before a retry can succeed, where waiting helps.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after } => Some(*retry_after),
            Self::Crowded(_) | Self::KeyInFlight | Self::Unavailable(_) => Some(1),
            _ => None,
        }
    }
}
