//! The domain's errors in GraphQL. What REST calls 409 and 422 is an expected outcome and goes into `userErrors`; the
//! rest are top-level errors with `extensions.code` and `extensions.status` (`contract.md` §15).

use async_graphql::{ErrorExtensionValues, SimpleObject, Value};

use crate::error::{Error, FieldError, Refusal, Result};

/// One reason why a mutation did not happen.
#[derive(SimpleObject, Clone, Debug)]
pub struct UserError {
    /// The path of the input field, if one is to blame.
    field: Option<String>,
    message: String,
    /// `CONFLICT` or `INVALID_PARAMS`.
    code: &'static str,
}

/// Splits a resolver's result into what a payload shows and what is a top-level error.
pub fn settle<T>(result: Result<T>) -> async_graphql::Result<(Option<T>, Vec<UserError>)> {
    let error = match result {
        Ok(value) => return Ok((Some(value), Vec::new())),
        Err(error) => error,
    };
    let code = error.class().2;
    match &error {
        Error::Refused(Refusal::Conflict(_)) | Error::KeyInFlight => {
            Ok((None, vec![UserError { field: None, message: error.to_string(), code }]))
        }
        Error::Refused(Refusal::Invalid(fields)) => {
            let blame = |FieldError { field, message }: &FieldError| UserError {
                field: Some(field.clone()),
                message: message.clone(),
                code,
            };
            Ok((None, fields.iter().map(blame).collect()))
        }
        _ => Err(fault(error)),
    }
}

/// A top-level error.
pub fn fault(error: Error) -> async_graphql::Error {
    if let Some(cause) = error.cause() {
        tracing::error!(cause, "field failed");
    }
    let mut fault = async_graphql::Error::new(error.to_string());
    fault.extensions = Some(extensions(&error));
    fault
}

/// `code`, `status`, and what REST says in the body beside them.
pub fn extensions(error: &Error) -> ErrorExtensionValues {
    let (status, _, code) = error.class();
    let mut values = ErrorExtensionValues::default();
    values.set("code", code);
    values.set("status", status);
    if let Some(seconds) = error.retry_after() {
        values.set("retryAfter", seconds);
    }
    if let Error::EventsExpired { oldest } = error {
        values.set("oldestSequence", *oldest);
    }
    if !error.fields().is_empty() {
        let fields =
            error.fields().iter().map(|problem| Value::from_json(serde_json::json!(problem)).unwrap_or_default());
        values.set("errors", Value::List(fields.collect()));
    }
    values
}
