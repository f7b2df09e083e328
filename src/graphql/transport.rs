//! GraphQL over HTTP: POST and GET, conformant (the "GraphQL over HTTP" draft). The library's own integration answers 200
//! to everything and runs mutations over GET, so the handler is ours and stands on `Schema::execute`.

use std::sync::Arc;

use async_graphql::Response as GraphResponse;
use async_graphql::parser::types::OperationType;
use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};

use super::answer::{Refused, ran, refuse, render, result_json};
use super::document::{check_source, understand};
use super::negotiate::{Form, takes_stream};
use super::parameters::Parameters;
use super::stream::NotBegun;
use super::{Endpoint, socket, sse, stream};
use crate::auth::meter::Meter;
use crate::call::{Call, Caller};
use crate::error::Error;
use crate::http::failure::Failure;
use crate::http::json;
use crate::http::request::{Operated, identify, is_media_type, once, read_body, seal};

/// Everything that arrives at `/graphql`.
pub async fn answer(endpoint: Arc<Endpoint>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = Form::accepted(&parts.headers);
    let told = form.unwrap_or(Form::Json);
    let mut response = if socket::is_wanted(&parts) {
        socket::upgrade(endpoint, parts).await.unwrap_or_else(|refused| refuse(told, &refused))
    } else {
        match identify(&endpoint.services, &parts).await {
            Err(error) => refuse(told, &error.into()),
            Ok((caller, meter)) => {
                let meter = Arc::new(meter);
                let mut call = None;
                let result = run(&endpoint, form, &parts, body, (&caller, &meter), &mut call).await;
                // A document that never came to be admitted costs one unit.
                let charged = if meter.state().is_none() { meter.charge(1) } else { Ok(()) };
                let response = match charged.map_err(Refused::from).and(result) {
                    Ok(response) => response,
                    Err(refused) => refuse(told, &refused),
                };
                seal(response, &meter, call.as_ref(), caller)
            }
        }
    };
    response.extensions_mut().insert(Operated("graphql"));
    response
}

async fn run(
    endpoint: &Arc<Endpoint>,
    form: Option<Form>,
    parts: &Parts,
    body: axum::body::Body,
    (caller, meter): (&Caller, &Arc<Meter>),
    call_made: &mut Option<Call>,
) -> Result<Response, Refused> {
    let services = &endpoint.services;
    let is_get = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_get && parts.method != Method::POST {
        return Err(Failure::MethodNotAllowed("GET, HEAD, POST").into());
    }
    let Some(form) = form else {
        let text = "must allow application/graphql-response+json, application/json or text/event-stream";
        return Err(Refused::with_status(Error::malformed("Accept", text), StatusCode::NOT_ACCEPTABLE));
    };
    let (parameters, once) = if is_get {
        (Parameters::from_query(parts.uri.query().unwrap_or_default())?, None)
    } else {
        if !is_media_type(&parts.headers, "application/json") {
            return Err(Failure::UnsupportedMediaType("application/json").into());
        }
        let parsed = json::parse(&read_body(&services.settings, body).await?);
        let once = once(&parts.headers, caller, "POST", parts.uri.path(), &parsed)?;
        (Parameters::from_body(parsed)?, once)
    };
    check_source(&parameters.query)?;
    let mut request = parameters.into_request();
    match understand(&mut request) {
        Ok(Some(OperationType::Mutation)) if is_get => return Err(Failure::MethodNotAllowed("POST").into()),
        Ok(Some(OperationType::Subscription)) => return subscribe(endpoint, parts, request, (caller, meter)).await,
        Ok(_) => {}
        Err(error) => return Ok(render(form, &GraphResponse::from_errors(vec![error]))),
    }
    let call = Call::new(services.store.clone(), caller.clone(), once);
    *call_made = Some(call.clone());
    let response = endpoint.execute(call, meter, request).await;
    Ok(if form == Form::Stream && ran(&response) {
        sse::once(&result_json(&response)?)
    } else {
        render(form, &response)
    })
}

/// A subscription is answered as an event stream, wherever in `Accept` that stands.
async fn subscribe(
    endpoint: &Arc<Endpoint>,
    parts: &Parts,
    request: async_graphql::Request,
    (caller, meter): (&Caller, &Meter),
) -> Result<Response, Refused> {
    if !takes_stream(&parts.headers) {
        let text =
            "must allow text/event-stream for a subscription; or subscribe over a WebSocket (graphql-transport-ws)";
        return Err(Refused::with_status(Error::malformed("Accept", text), StatusCode::NOT_ACCEPTABLE));
    }
    match stream::follow(endpoint, (caller, meter), request, sse::resumed(&parts.headers)?).await {
        Ok(followed) => Ok(sse::stream(endpoint, &parts.headers, followed, caller).await?),
        Err(NotBegun::Failed(error)) => Err(error.into()),
        Err(NotBegun::Invalid(errors)) => Ok(render(Form::Stream, &GraphResponse::from_errors(errors))),
    }
}
