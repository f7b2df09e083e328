//! What comes of an execution, as JSON, and as an answer over HTTP.

use async_graphql::{Response as GraphResponse, ServerError};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use super::negotiate::Form;
use super::{errors, limits};
use crate::error::Error;
use crate::http::failure::Failure;

/// A request that ended before or instead of running: the status counts in both forms.
pub struct Refused {
    failure: Failure,
    status: StatusCode,
}

impl Refused {
    pub fn with_status(error: Error, status: StatusCode) -> Self {
        Self { failure: error.into(), status }
    }
}

impl<E: Into<Failure>> From<E> for Refused {
    fn from(error: E) -> Self {
        let failure = error.into();
        Self { status: failure.status(), failure }
    }
}

/// A GraphQL answer. Serialized as it stands, because the order of the fields is the document's.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a async_graphql::Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [ServerError],
}

/// Whether anything ran. An error without a path is a request error: nothing ran, so there is no `data`.
pub fn ran(response: &GraphResponse) -> bool {
    response.errors.iter().all(|error| !error.path.is_empty())
}

/// An execution result on one line.
pub fn result_json(response: &GraphResponse) -> Result<String, Error> {
    let body = Body { data: ran(response).then_some(&response.data), errors: listed(&response.errors) };
    serde_json::to_string(&body).map_err(Error::internal)
}

/// An execution result that consists of errors.
pub fn errors_json(errors: &[ServerError]) -> String {
    json!({ "errors": listed(errors) }).to_string()
}

/// The errors that an answer lists.
pub fn listed(errors: &[ServerError]) -> &[ServerError] {
    &errors[..errors.len().min(limits::ERRORS)]
}

/// The answer of an execution.
pub fn render(form: Form, response: &GraphResponse) -> Response {
    let own_status = response.errors.iter().find_map(own_status);
    let status = match (ran(response), form) {
        (true, _) => StatusCode::OK,
        (false, Form::Json) => own_status.unwrap_or(StatusCode::OK),
        (false, Form::Response | Form::Stream) => own_status.unwrap_or(StatusCode::BAD_REQUEST),
    };
    let mut answer = match result_json(response) {
        Ok(text) => json_response(form, status, text),
        Err(error) => return refuse(form, &error.into()),
    };
    if let Some(seconds) = response.errors.iter().find_map(|error| number(error, "retryAfter")) {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// The status of a request error that is ours (a rate limit), rather than the document's.
fn own_status(error: &ServerError) -> Option<StatusCode> {
    number(error, "status").and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok())
}

fn number(error: &ServerError, name: &str) -> Option<u64> {
    match error.extensions.as_ref()?.get(name)? {
        async_graphql::Value::Number(number) => number.as_u64(),
        _ => None,
    }
}

/// A request error that the document is not to blame for.
pub fn refuse(form: Form, refused: &Refused) -> Response {
    let failure = &refused.failure;
    failure.log();
    let mut extensions = match failure {
        Failure::Domain(error) => json!(errors::extensions(error)),
        other => json!({ "code": other.class().2 }),
    };
    extensions["status"] = json!(refused.status.as_u16());
    let body = json!({ "errors": [{ "message": failure.message(), "extensions": extensions }] });
    let mut response = json_response(form, refused.status, body.to_string());
    response.headers_mut().extend(failure.headers());
    response
}

/// JSON in the form that was asked for. What fails before a stream begins is told in the form where the status counts.
fn json_response(form: Form, status: StatusCode, body: String) -> Response {
    let form = if form == Form::Stream { Form::Response } else { form };
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static(form.content_type()))], body).into_response()
}
