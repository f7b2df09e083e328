//! An error as REST tells it: one body that serves both documented forms (`contract.md` §3).

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::error::{Error, FieldError, TokenProblem};

/// What can go wrong with a request: the domain's errors, and those that only HTTP knows.
#[derive(Clone, Debug)]
pub enum Failure {
    Domain(Error),
    /// 405, with the methods that are allowed.
    MethodNotAllowed(&'static str),
    /// 408: the body did not arrive in time.
    BodyTimeout,
    /// 413
    BodyTooLarge,
    /// 415, with what is expected.
    UnsupportedMediaType(&'static str),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Domain(error)
    }
}

impl Failure {
    /// Status, `error.type`, `error.code`.
    pub fn class(&self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Domain(error) => error.class(),
            Self::MethodNotAllowed(_) => (405, "validation_error", "METHOD_NOT_ALLOWED"),
            Self::BodyTimeout => (408, "validation_error", "REQUEST_TIMEOUT"),
            Self::BodyTooLarge => (413, "validation_error", "BODY_TOO_LARGE"),
            Self::UnsupportedMediaType(_) => (415, "validation_error", "UNSUPPORTED_MEDIA_TYPE"),
        }
    }

    pub fn message(&self) -> String {
        match self {
            Self::Domain(error) => error.to_string(),
            Self::MethodNotAllowed(allowed) => format!("Method not allowed; use {allowed}"),
            Self::BodyTimeout => "The request body did not arrive in time".to_owned(),
            Self::BodyTooLarge => "The request body is larger than 1 MiB".to_owned(),
            Self::UnsupportedMediaType(expected) => format!("Content-Type must be {expected}"),
        }
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.class().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body of `contract.md` §3.
    pub fn body(&self) -> Value {
        let (status, kind, code) = self.class();
        let message = self.message();
        let fields: &[FieldError] = match self {
            Self::Domain(error) => error.fields(),
            _ => &[],
        };
        let mut body = json!({
            "code": status,
            "message": message,
            "error": { "type": kind, "message": message, "code": code },
        });
        if !fields.is_empty() {
            body["errors"] = json!(fields);
            body["error"]["errors"] = json!(fields);
        }
        if let Self::Domain(Error::EventsExpired { oldest }) = self {
            body["oldestSequence"] = json!(oldest);
        }
        if let Self::Domain(error @ (Error::RateLimited { .. } | Error::Crowded(_))) = self {
            body["retryAfter"] = json!(error.retry_after());
        }
        body
    }

    /// The headers that go with the status, whatever the body's form.
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        if let Self::Domain(error) = self {
            if let Some(seconds) = error.retry_after() {
                headers.push((header::RETRY_AFTER, HeaderValue::from(seconds)));
            }
            if let Some(challenge) = challenge(error) {
                headers.push((header::WWW_AUTHENTICATE, challenge));
            }
        }
        match self {
            Self::MethodNotAllowed(allowed) => headers.push((header::ALLOW, HeaderValue::from_static(allowed))),
            Self::BodyTimeout | Self::BodyTooLarge => {
                headers.push((header::CONNECTION, HeaderValue::from_static("close")));
            }
            _ => {}
        }
        headers
    }

    /// Writes the cause of a 5xx to the log, where the request id joins it with the answer.
    pub fn log(&self) {
        if let Self::Domain(error) = self
            && let Some(cause) = error.cause()
        {
            tracing::error!(cause, "request failed");
        }
    }
}

/// `WWW-Authenticate` of RFC 6750 §3. A request without credentials gets no error code (§3.1).
fn challenge(error: &Error) -> Option<HeaderValue> {
    let text = match error {
        Error::Unauthenticated(TokenProblem::Missing) => "Bearer realm=\"mercato\"".to_owned(),
        Error::Unauthenticated(_) => {
            format!("Bearer realm=\"mercato\", error=\"invalid_token\", error_description=\"{error}\"")
        }
        Error::InsufficientScope(scope) => {
            format!("Bearer realm=\"mercato\", error=\"insufficient_scope\", scope=\"{scope}\"")
        }
        Error::Forbidden(_) => "Bearer realm=\"mercato\", error=\"insufficient_scope\"".to_owned(),
        _ => return None,
    };
    HeaderValue::from_str(&text).ok()
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.log();
        let mut response = (self.status(), axum::Json(self.body())).into_response();
        response.headers_mut().extend(self.headers());
        response
    }
}
