//! What happens to every REST request around its shim: caller, limiter, body, idempotency key, answer, headers. In this
//! order, so that nobody learns anything or spends anything before he is known.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;

use super::answer::Answer;
use super::{dispatch, oauth};
use crate::call::{Call, Caller};
use crate::courier::Courier;
use crate::error::Error;
use crate::http::Services;
use crate::http::failure::Failure;
use crate::http::json;
use crate::http::request::{Operated, charge_address, identify, is_media_type, once, read_body, seal};
use crate::model::filter::Order;
use crate::model::operation::{Method, Operation};
use crate::model::page::{CursorScope, ListName, PageRequest};

/// A request whose caller is known and whose parts are read; what a shim decodes.
pub struct Ask {
    pub call: Call,
    pub courier: Courier,
    operation: Operation,
    id: String,
    query: String,
    body: Option<Result<Value, String>>,
}

impl Ask {
    /// The `{id}` of the path. What it names, and whether, is the resolver's question.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn body(&mut self) -> Result<Value, String> {
        self.body.take().unwrap_or_else(|| Err("is required".to_owned()))
    }

    /// A body that may be absent.
    pub fn optional_body(&mut self) -> Option<Result<Value, String>> {
        self.body.take()
    }

    pub fn page(&self) -> PageRequest {
        PageRequest::from_query(&self.query)
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.operation.route().status).unwrap_or(StatusCode::OK)
    }

    pub fn query(&self) -> &str {
        &self.query
    }

    /// What makes the cursors of a list of this caller: REST's lists are all newest first.
    pub fn cursor_scope(&self, list: ListName) -> CursorScope<'_> {
        self.call.cursor_scope(list, Order::Newest)
    }
}

/// Whether the operation's request has a JSON body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Body,
    PerhapsBody,
}

fn takes(operation: Operation) -> Takes {
    match operation {
        Operation::ApplicationsRegenerateSecret | Operation::DeliveriesResend | Operation::PrivateOffersPublish => {
            Takes::Nothing
        }
        Operation::WebhooksRotateSecret => Takes::PerhapsBody,
        _ if matches!(operation.route().method, Method::Post | Method::Put) => Takes::Body,
        _ => Takes::Nothing,
    }
}

/// An operation that needs a caller.
pub async fn authenticated(services: Arc<Services>, operation: Operation, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut response = match identify(&services, &parts).await {
        Err(error) => Failure::from(error).into_response(),
        Ok((caller, meter)) => {
            let mut call = None;
            let result = async {
                meter.charge(1)?;
                let ask = read(&services, operation, &mut parts, body, caller.clone()).await?;
                call = Some(ask.call.clone());
                dispatch(operation, ask).await
            };
            let response = result.await.into_response();
            seal(response, &meter, call.as_ref(), caller)
        }
    };
    response.extensions_mut().insert(Operated(operation.spec().name));
    response
}

async fn read(
    services: &Services,
    operation: Operation,
    parts: &mut Parts,
    body: axum::body::Body,
    caller: Caller,
) -> Result<Ask, Failure> {
    let query = parts.uri.query().unwrap_or_default().to_owned();
    if !operation.spec().is_list() && operation != Operation::AnalyticsContracts {
        refuse_query(&query)?;
    }
    let bytes = match operation.route().method {
        Method::Get => Bytes::new(),
        Method::Post | Method::Put | Method::Delete => read_body(&services.settings, body).await?,
    };
    let takes = takes(operation);
    let body = if takes == Takes::Body || (takes == Takes::PerhapsBody && !bytes.is_empty()) {
        if !is_media_type(&parts.headers, "application/json") {
            return Err(Failure::UnsupportedMediaType("application/json"));
        }
        Some(json::parse(&bytes))
    } else if bytes.is_empty() {
        None
    } else {
        return Err(Error::malformed("body", "is not taken by this operation").into());
    };
    let once = if operation.route().takes_key() {
        let canonical = body.clone().unwrap_or(Ok(Value::Null));
        once(&parts.headers, &caller, operation.route().method.as_str(), parts.uri.path(), &canonical)?
    } else {
        None
    };
    let id = path_id(parts).await;
    let call = Call::new(services.store.clone(), caller, once);
    Ok(Ask { call, courier: services.courier.clone(), operation, id, query, body })
}

/// Lists take parameters; whatever else comes is refused rather than ignored.
fn refuse_query(query: &str) -> Result<(), Error> {
    let unknown = form_urlencoded::parse(query.as_bytes())
        .map(|(name, _)| crate::error::FieldError::new(name, "is not a known query parameter"))
        .collect::<Vec<_>>();
    if unknown.is_empty() { Ok(()) } else { Err(Error::Malformed(unknown)) }
}

/// The path's `{id}`; what cannot be decoded is as unknown as any other id.
async fn path_id(parts: &mut Parts) -> String {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    params.ok().and_then(|params| params.iter().next().map(|(_, value)| value.to_owned())).unwrap_or_default()
}

/// An operation that brings its client credentials along. Counted by address.
pub async fn public(services: Arc<Services>, operation: Operation, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let mut response = oauth::answer(&services, operation, &parts, body).await;
    response.extensions_mut().insert(Operated(operation.spec().name));
    response
}

/// An unknown path (404) or a method that a path does not have (405). Under `/api/` and `/oauth/applications` the caller
/// comes first, as everywhere.
pub async fn answer_failure(services: Arc<Services>, request: Request, allowed: Option<&'static str>) -> Response {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path();
    let failure = allowed.map_or(Failure::Domain(Error::NOT_FOUND), Failure::MethodNotAllowed);
    if !path.starts_with("/api/") && !path.starts_with("/oauth/applications") {
        let charged = charge_address(&services, &parts).map_err(Failure::from);
        return charged.err().unwrap_or(failure).into_response();
    }
    match identify(&services, &parts).await {
        Err(error) => Failure::from(error).into_response(),
        Ok((caller, meter)) => {
            let failure = meter.charge(1).map_err(Failure::from).err().unwrap_or(failure);
            seal(failure.into_response(), &meter, None, caller)
        }
    }
}

/// The `Allow` header of a path.
pub fn allowed(operations: &[Operation]) -> &'static str {
    let has = |method| operations.iter().any(|operation| operation.route().method == method);
    match (has(Method::Get), has(Method::Post), has(Method::Put), has(Method::Delete)) {
        (true, true, false, false) => "GET, HEAD, POST",
        (true, false, true, true) => "GET, HEAD, PUT, DELETE",
        (true, false, false, false) => "GET, HEAD",
        (false, true, false, false) => "POST",
        other => unreachable!("no path has the methods {other:?} yet; name them here"),
    }
}

impl Answer {
    /// One record with the status that the catalogue promises.
    pub fn of(ask: &Ask, data: impl serde::Serialize) -> Result<Self, Failure> {
        Ok(Self::one(ask.status(), data)?)
    }
}
