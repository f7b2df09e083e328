//! The OAuth endpoints that take client credentials. Their errors carry both contracts, ours and RFC 6749's
//! (`contract.md` §4): a body with only `code` and `message` makes common OAuth clients take the error for a token.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::auth::credentials::Form;
use crate::auth::oauth;
use crate::auth::oauth_error::OAuthError;
use crate::http::Services;
use crate::http::failure::Failure;
use crate::http::request::{authorization, charge_address, is_media_type, read_body};
use crate::model::operation::Operation;
use crate::model::scope::Scope;

/// Runs one of the three. No answer of these may be cached (RFC 6749 §5.1).
pub async fn answer(services: &Services, operation: Operation, parts: &Parts, body: Body) -> Response {
    uncached(match run(services, operation, parts, body).await {
        Ok(body) => Json(body).into_response(),
        Err(Problem::OAuth(error)) => oauth_failure(&error),
        Err(Problem::Http(failure)) => http_failure(&failure),
    })
}

/// A method that these paths do not have.
pub fn method_not_allowed(services: &Services, parts: &Parts, allowed: &'static str) -> Response {
    let charged = charge_address(services, parts).map_err(Failure::from);
    uncached(http_failure(&charged.err().unwrap_or(Failure::MethodNotAllowed(allowed))))
}

fn uncached(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

enum Problem {
    OAuth(OAuthError),
    Http(Failure),
}

impl From<OAuthError> for Problem {
    fn from(error: OAuthError) -> Self {
        match error {
            OAuthError::Other(error) => Self::Http(error.into()),
            other => Self::OAuth(other),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Http(failure)
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

async fn run(services: &Services, operation: Operation, parts: &Parts, body: Body) -> Result<Value, Problem> {
    charge_address(services, parts).map_err(Failure::from)?;
    let bytes = read_body(&services.settings, body).await?;
    if !is_media_type(&parts.headers, FORM) {
        return Err(Failure::UnsupportedMediaType(FORM).into());
    }
    if parts.uri.query().is_some_and(|query| !query.is_empty()) {
        return Err(OAuthError::InvalidRequest("Parameters belong into the form, never into the URL".to_owned()).into());
    }
    let form = Form::parse(&bytes)?;
    let authorization = authorization(&parts.headers);
    let store = &services.store;
    let value = match operation {
        Operation::TokenIssue => json!(oauth::issue(store, &services.limiter, authorization, &form).await?),
        Operation::TokenRevoke => {
            oauth::revoke(store, authorization, &form).await?;
            json!({})
        }
        Operation::TokenIntrospect => json!(oauth::introspect(store, authorization, &form).await?),
        other => unreachable!("{} needs a caller", other.spec().name),
    };
    Ok(value)
}

fn oauth_failure(error: &OAuthError) -> Response {
    let (code, text) = error.describe();
    let status = match error {
        OAuthError::InvalidClient | OAuthError::ClientAstray(_) => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_REQUEST,
    };
    let body = json!({ "code": status.as_u16(), "message": text, "error": code, "error_description": text });
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Basic realm=\"mercato\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// What went wrong as everywhere, in the body of both contracts: here `error` is a word of RFC 6749.
fn http_failure(failure: &Failure) -> Response {
    failure.log();
    let retry = matches!(failure.status().as_u16(), 429 | 500..);
    let mut body = failure.body();
    body["error"] = json!(if retry { "temporarily_unavailable" } else { "invalid_request" });
    body["error_description"] = body["message"].clone();
    let mut response = (failure.status(), Json(body)).into_response();
    response.headers_mut().extend(failure.headers());
    response
}

/// `/.well-known/oauth-authorization-server` (RFC 8414).
pub fn metadata(auth_url: &str) -> Value {
    let at = |path: &str| format!("{auth_url}{path}");
    let methods = ["client_secret_basic", "client_secret_post"];
    json!({
        "issuer": auth_url,
        "token_endpoint": at(Operation::TokenIssue.route().path),
        "revocation_endpoint": at(Operation::TokenRevoke.route().path),
        "introspection_endpoint": at(Operation::TokenIntrospect.route().path),
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
        "scopes_supported": Scope::ALL,
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "introspection_endpoint_auth_methods_supported": methods,
    })
}
