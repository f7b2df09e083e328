//! What is served beside the operations: health, metrics, the contracts as files, and the docs page.

use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::{Side, oauth, openapi};
use crate::error::Error;
use crate::graphql::sdl;
use crate::http::Services;
use crate::http::failure::Failure;
use crate::http::request::charge_address;

pub fn router(services: &Arc<Services>, side: Side) -> Router {
    let mut pages = Router::new();
    if side != Side::Api {
        let metadata = oauth::metadata(&services.settings.auth_url);
        let metadata = page(get(move || async { Json(metadata) }));
        pages = pages.route("/.well-known/oauth-authorization-server", metadata);
    }
    if side != Side::Auth {
        pages = pages.merge(contracts(services));
    }
    let here = Arc::clone(services);
    Router::new()
        .merge(pages.route_layer(from_fn_with_state(Arc::clone(services), counted)))
        .route("/livez", page(get(|| async { "ok\n" })))
        .route("/readyz", page(get(move || ready(here))))
}

/// The contracts, the docs, and the metrics. All of them are public; who wants the metrics private keeps `/metrics` from
/// the outside at the proxy.
fn contracts(services: &Arc<Services>) -> Router {
    let here = Arc::clone(services);
    let document = served_document(services);
    Router::new()
        .route("/metrics", page(get(move || async move { metrics(&here) })))
        .route("/openapi.json", page(get(move || async { typed("application/json", document) })))
        .route("/schema.graphql", page(get(|| async { typed("text/plain; charset=utf-8", sdl().to_owned()) })))
        .route("/docs", page(get(|| async { docs_file("") })))
        .route("/docs/{*file}", page(get(|Path(file): Path<String>| async move { docs_file(&file) })))
}

/// A route that can only be read.
fn page(route: MethodRouter) -> MethodRouter {
    route.fallback(|| async { Failure::MethodNotAllowed("GET, HEAD").into_response() })
}

/// A page for everybody, and so counted by address. (The health checks are not: balancers ask often.)
async fn counted(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match charge_address(&services, &parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => Failure::from(error).into_response(),
    }
}

/// The document as the snapshot has it, with this server's addresses.
fn served_document(services: &Services) -> String {
    let settings = &services.settings;
    openapi::document(&settings.base_url, &settings.auth_url).to_string()
}

async fn ready(services: Arc<Services>) -> Response {
    match services.store.ping().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => {
            Failure::from(Error::Unavailable(error.cause().unwrap_or("no answer").to_owned())).into_response()
        }
    }
}

fn metrics(services: &Services) -> Response {
    match services.metrics.expose() {
        Ok(text) => typed("application/openmetrics-text; version=1.0.0; charset=utf-8", text),
        Err(error) => Failure::from(Error::internal(error)).into_response(),
    }
}

fn typed(kind: &'static str, text: String) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

/// The browsable docs. Scripts and styles come from this server, and the policy forbids any other source.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static DOCS: LazyLock<Arc<utoipa_swagger_ui::Config<'static>>> = LazyLock::new(|| {
    Arc::new(utoipa_swagger_ui::Config::from("/openapi.json").use_base_layout().display_request_duration(true))
});

fn docs_file(file: &str) -> Response {
    if file.is_empty() {
        // The page names its files relative to a folder.
        let page = json!({ "see": "/docs/index.html" }).to_string();
        return (StatusCode::SEE_OTHER, [(header::LOCATION, "/docs/index.html")], page).into_response();
    }
    match utoipa_swagger_ui::serve(file, Arc::clone(&DOCS)) {
        Ok(Some(found)) => {
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_str(&found.content_type)),
                (header::CONTENT_SECURITY_POLICY, Ok(HeaderValue::from_static(POLICY))),
                (header::X_CONTENT_TYPE_OPTIONS, Ok(HeaderValue::from_static("nosniff"))),
            ];
            let mut response = found.bytes.into_owned().into_response();
            for (name, value) in headers {
                if let Ok(value) = value {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
        Ok(None) => Failure::from(Error::NOT_FOUND).into_response(),
        Err(error) => Failure::from(Error::internal(error)).into_response(),
    }
}
