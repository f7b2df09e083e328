//! GraphQL over HTTP: POST and GET, conformant (the "GraphQL over HTTP" draft). The library's own integration answers 200
//! to everything and runs mutations over GET, so the handler is ours and stands on `Schema::execute`.

use std::sync::Arc;

use async_graphql::parser::types::OperationType;
use async_graphql::{Response as GraphResponse, ServerError, Variables};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::document::{check, check_source};
use super::errors;
use super::negotiate::Form;
use super::{Graph, limits};
use crate::auth::meter::Meter;
use crate::call::{Call, Caller};
use crate::error::Error;
use crate::graphql::loaders::loaders;
use crate::http::Services;
use crate::http::failure::Failure;
use crate::http::json;
use crate::http::request::{Operated, identify, is_media_type, once, read_body, seal};

/// A request that ended before or instead of running: the status counts in both forms.
struct Refused {
    failure: Failure,
    status: StatusCode,
}

impl<E: Into<Failure>> From<E> for Refused {
    fn from(error: E) -> Self {
        let failure = error.into();
        Self { status: failure.status(), failure }
    }
}

/// Everything that arrives at `/graphql`.
pub async fn answer(services: Arc<Services>, graph: Graph, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = Form::accepted(&parts.headers);
    let mut response = match identify(&services, &parts).await {
        Err(error) => refuse(form.unwrap_or(Form::Json), &error.into()),
        Ok((caller, meter)) => {
            let meter = Arc::new(meter);
            let mut call = None;
            let result = run(&services, &graph, form, &parts, body, (&caller, &meter), &mut call).await;
            // A document that never came to be admitted costs one unit.
            let charged = if meter.state().is_none() { meter.charge(1) } else { Ok(()) };
            let response = match charged.map_err(Refused::from).and(result) {
                Ok(response) => response,
                Err(refused) => refuse(form.unwrap_or(Form::Json), &refused),
            };
            seal(response, &meter, call.as_ref(), caller)
        }
    };
    response.extensions_mut().insert(Operated("graphql"));
    response
}

async fn run(
    services: &Services,
    graph: &Graph,
    form: Option<Form>,
    parts: &Parts,
    body: axum::body::Body,
    (caller, meter): (&Caller, &Arc<Meter>),
    call_made: &mut Option<Call>,
) -> Result<Response, Refused> {
    let is_get = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_get && parts.method != Method::POST {
        return Err(Failure::MethodNotAllowed("GET, HEAD, POST").into());
    }
    let Some(form) = form else {
        let failure = Error::malformed("Accept", "must allow application/graphql-response+json or application/json");
        return Err(Refused { failure: failure.into(), status: StatusCode::NOT_ACCEPTABLE });
    };
    let (parameters, once) = if is_get {
        (from_query(parts.uri.query().unwrap_or_default())?, None)
    } else {
        if !is_media_type(&parts.headers, "application/json") {
            return Err(Failure::UnsupportedMediaType("application/json").into());
        }
        let parsed = json::parse(&read_body(&services.settings, body).await?);
        let once = once(&parts.headers, caller, "POST", parts.uri.path(), &parsed)?;
        (from_body(parsed)?, once)
    };
    check_source(&parameters.query)?;
    let call = Call::new(services.store.clone(), caller.clone(), once);
    *call_made = Some(call.clone());
    let (loaders, batches) = loaders(call.clone());
    let mut request =
        parameters.into_request().data(loaders).data(call).data(Arc::clone(meter)).data(services.courier.clone());
    match understand(&mut request) {
        Ok(Some(OperationType::Mutation)) if is_get => Err(Failure::MethodNotAllowed("POST").into()),
        Ok(_) => Ok(render(form, &batches.drive(graph.execute(request)).await)),
        Err(error) => Ok(render(form, &GraphResponse::from_errors(vec![error]))),
    }
}

/// Parses and checks the document, once; the execution takes what was parsed.
fn understand(request: &mut async_graphql::Request) -> Result<Option<OperationType>, ServerError> {
    let (name, variables) = (request.operation_name.clone(), request.variables.clone());
    check(request.parsed_query()?, name.as_deref(), &variables)
}

/// The four parameters of a GraphQL request.
struct Parameters {
    query: String,
    operation_name: Option<String>,
    variables: Map<String, Value>,
}

impl Parameters {
    fn into_request(self) -> async_graphql::Request {
        let mut request =
            async_graphql::Request::new(self.query).variables(Variables::from_json(Value::Object(self.variables)));
        request.operation_name = self.operation_name;
        request
    }
}

fn from_body(parsed: Result<Value, String>) -> Result<Parameters, Error> {
    let body = parsed.map_err(|reason| Error::malformed("body", reason))?;
    let Value::Object(mut body) = body else {
        return Err(Error::malformed("body", "must be a JSON object; batches are not supported"));
    };
    let query = body.remove("query");
    let name = body.remove("operationName");
    build(query, name, body.remove("variables"), body.remove("extensions"))
}

fn from_query(query: &str) -> Result<Parameters, Error> {
    let mut fields: Map<String, Value> = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        fields.insert(name.into_owned(), Value::String(value.into_owned()));
    }
    let mut parsed = |name: &'static str| match fields.remove(name) {
        Some(Value::String(text)) if !text.is_empty() => {
            json::parse(text.as_bytes()).map(Some).map_err(|reason| Error::malformed(name, reason))
        }
        _ => Ok(None),
    };
    let (variables, extensions) = (parsed("variables")?, parsed("extensions")?);
    let name = fields.remove("operationName").filter(|name| name.as_str() != Some(""));
    build(fields.remove("query"), name, variables, extensions)
}

/// Checks the types of the parameters. Others than the four are ignored, as the draft demands.
fn build(
    query: Option<Value>,
    name: Option<Value>,
    variables: Option<Value>,
    extensions: Option<Value>,
) -> Result<Parameters, Error> {
    let mut problems = crate::model::input::Problems::default();
    let query = match query {
        Some(Value::String(query)) => query,
        None | Some(Value::Null) => {
            problems.malformed("query", "is required");
            String::new()
        }
        Some(_) => {
            problems.malformed("query", "must be a string");
            String::new()
        }
    };
    let operation_name = match name {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => {
            problems.malformed("operationName", "must be a string");
            None
        }
    };
    let mut object = |field: &str, value: Option<Value>| match value {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(object)) => object,
        Some(_) => {
            problems.malformed(field, "must be an object");
            Map::new()
        }
    };
    let variables = object("variables", variables);
    object("extensions", extensions);
    problems.raise()?;
    Ok(Parameters { query, operation_name, variables })
}

/// A GraphQL answer. Serialized as it stands, because the order of the fields is the document's.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a async_graphql::Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [ServerError],
}

/// The answer of an execution. An error without a path is a request error: nothing ran, so there is no `data`.
fn render(form: Form, response: &GraphResponse) -> Response {
    let ran = response.errors.iter().all(|error| !error.path.is_empty());
    let own_status = response.errors.iter().find_map(own_status);
    let status = match (ran, form) {
        (true, _) => StatusCode::OK,
        (false, Form::Json) => own_status.unwrap_or(StatusCode::OK),
        (false, Form::Response) => own_status.unwrap_or(StatusCode::BAD_REQUEST),
    };
    let listed = response.errors.len().min(limits::ERRORS);
    let body = Body { data: ran.then_some(&response.data), errors: &response.errors[..listed] };
    let mut answer = match serde_json::to_string(&body) {
        Ok(text) => json_response(form, status, text),
        Err(error) => return refuse(form, &Error::internal(error).into()),
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
fn refuse(form: Form, refused: &Refused) -> Response {
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

fn json_response(form: Form, status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static(form.content_type()))], body).into_response()
}
