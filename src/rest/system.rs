//! What is served beside the operations: health, metrics, the contracts as files, and the docs page.

use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::{Side, oauth, openapi};
use crate::error::Error;
use crate::http::Services;
use crate::http::failure::Failure;

pub fn router(services: &Arc<Services>, side: Side) -> Router {
    let mut router = Router::new().route("/livez", page(get(|| async { "ok\n" })));
    let here = Arc::clone(services);
    router = router.route("/readyz", page(get(move || ready(here))));
    if side != Side::Api {
        let metadata = oauth::metadata(&services.settings.auth_url);
        let metadata = page(get(move || async { Json(metadata) }));
        router = router.route("/.well-known/oauth-authorization-server", metadata);
    }
    if side == Side::Auth {
        return router;
    }
    let here = Arc::clone(services);
    let document = served_document(services);
    router
        .route("/metrics", page(get(move || async move { metrics(&here) })))
        .route("/openapi.json", page(get(move || async { typed("application/json", document) })))
        .route("/schema.graphql", page(get(|| async { typed("text/plain; charset=utf-8", crate::graphql::sdl()) })))
        .route("/docs", page(get(|| async { docs_file("") })))
        .route("/docs/{*file}", page(get(|Path(file): Path<String>| async move { docs_file(&file) })))
}

/// A route that can only be read.
fn page(route: MethodRouter) -> MethodRouter {
    route.fallback(|| async { Failure::MethodNotAllowed("GET, HEAD").into_response() })
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
