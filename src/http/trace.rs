//! Around every request: its id, its time limit, a net under panics, one log line, one observation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue};
use tracing::Instrument;

use super::Services;
use super::failure::Failure;
use super::request::{AnsweredTo, Operated};
use crate::error::Error;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The outermost layer.
pub async fn trace(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let started = tokio::time::Instant::now();
    let id = request_id(&services, &request);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", |path| path.as_str()).to_owned();
    let span = tracing::info_span!("request", request_id = %id);
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    let limited = tokio::time::timeout(services.settings.answer_timeout, answer);
    let mut response = async {
        match limited.await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Failure::from(Error::internal("a handler panicked")).into_response(),
            Err(_) => Failure::from(Error::Unavailable("the answer took too long".to_owned())).into_response(),
        }
    }
    .instrument(span)
    .await;
    let took = started.elapsed();
    let operation = response.extensions().get::<Operated>().map_or("none", |operated| operated.0);
    let status = response.status().as_u16();
    services.metrics.observe(operation, status, took);
    let caller = response.extensions().get::<AnsweredTo>().map(|answered| &answered.0);
    tracing::info!(
        request_id = %id,
        %method,
        route,
        operation,
        status,
        micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        organization = caller.map(|caller| tracing::field::display(caller.organization())),
        caller = caller.map(|caller| tracing::field::display(caller.name())),
        "answered",
    );
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The caller's own id where it is harmless, else a fresh one.
fn request_id(services: &Services, request: &Request) -> String {
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let harmless = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    given.filter(harmless).map_or_else(|| format!("req_{}", services.store.clock().mint()), str::to_owned)
}
