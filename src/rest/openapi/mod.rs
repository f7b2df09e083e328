//! The OpenAPI 3.1 document, made from the catalogue: what is the same for all operations (statuses, headers, errors)
//! is said once here; what each takes and gives is in `schemas`, the records of each resource in a file of their own.

mod analytics;
mod applications;
mod customers;
mod entitlements;
mod events;
mod metering;
mod oauth;
mod offers;
mod parts;
mod schemas;
mod webhooks;

use serde_json::{Map, Value, json};

use crate::model::operation::{Access, Method, Operation};
use crate::model::page::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::model::scope::Scope;

/// The document for a server at these addresses.
pub fn document(base_url: &str, auth_url: &str) -> Value {
    let mut paths = Map::new();
    for operation in Operation::ALL.iter().copied() {
        let Some(route) = operation.spec().route else { continue };
        let item = paths.entry(route.path).or_insert_with(|| path_item(route.path, auth_url));
        item[route.method.as_str().to_ascii_lowercase()] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "mercato",
            "version": "1.0.0",
            "description": INTRODUCTION,
        },
        "servers": [{ "url": base_url }],
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "headers": headers(),
            "responses": responses(),
            "securitySchemes": security_schemes(auth_url),
        },
    })
}

const INTRODUCTION: &str = "Private offers, customers, entitlements, usage metering and contract analytics across cloud \
    marketplaces. Get a token from `/oauth/token`, send it as `Authorization: Bearer <token>`. Every answer carries \
    `x-request-id`; name it when you ask us about a request. Retry 429 and 5xx with exponential backoff, and send an \
    `Idempotency-Key` with every write so that a retry is safe.";

fn path_item(path: &str, auth_url: &str) -> Value {
    if path.starts_with("/oauth/") { json!({ "servers": [{ "url": auth_url }] }) } else { json!({}) }
}

fn describe(operation: Operation) -> Value {
    let spec = operation.spec();
    let mut text = spec.summary.to_owned() + ".";
    if let Access::Scope(scope) = spec.access {
        text += &format!(" Needs the scope `{scope}`.");
    }
    if spec.access == Access::Events {
        text += " Needs the scope that reads the resource, for each kind of event that it is about.";
    }
    for event in spec.events {
        text += &format!(" Emits `{event}`.");
    }
    let mut described = json!({
        "operationId": spec.name,
        "tags": [spec.resource()],
        "summary": spec.summary,
        "description": text,
        "parameters": parameters(operation),
        "responses": statuses(operation),
        "security": security(spec.access),
    });
    if let Some(body) = schemas::request_body(operation) {
        described["requestBody"] = body;
    }
    described
}

fn parameters(operation: Operation) -> Vec<Value> {
    let route = operation.route();
    let mut parameters = Vec::new();
    if route.takes_id() {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "An id, as an earlier answer gave it.",
        }));
    }
    if operation.spec().is_list() {
        parameters.push(json!({
            "name": "limit", "in": "query",
            "schema": { "type": "integer", "minimum": 1, "default": DEFAULT_LIMIT },
            "description": format!("How many items; above {MAX_LIMIT} means {MAX_LIMIT}."),
        }));
        parameters.push(json!({
            "name": "cursor", "in": "query", "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]{22,}$" },
            "description": "`nextCursor` of the previous page. It never expires.",
        }));
    }
    if operation == Operation::EventsList {
        parameters.push(events::after());
    }
    if operation == Operation::AnalyticsContracts {
        parameters.extend(analytics::parameters());
    }
    if route.takes_key() {
        for name in ["Idempotency-Key", "X-Idempotency-Key"] {
            parameters.push(json!({
                "name": name, "in": "header",
                "schema": { "type": "string", "pattern": "^([!#-~]{1,255}|\"[!#-~]{1,255}\")$" },
                "description": "Makes a retry safe: the same key and request give the first answer again, for 24 hours. \
                    The two names mean the same; send one.",
            }));
        }
    }
    parameters
}

fn security(access: Access) -> Value {
    match access {
        Access::Public => json!([{ "client": [] }, {}]),
        Access::Scope(scope) => json!([{ "oauth2": [scope] }]),
        Access::Caller | Access::Administrator | Access::Itself | Access::Events => json!([{ "oauth2": [] }]),
    }
}

/// The statuses that an operation can answer with, besides its success.
fn failures(operation: Operation) -> Vec<u16> {
    let (access, route) = (operation.access(), operation.route());
    if access == Access::Public {
        return vec![400, 401, 405, 408, 413, 415, 429, 500, 503];
    }
    let mut statuses = vec![400, 401, 405, 429, 500, 503];
    if access != Access::Caller {
        statuses.push(403);
    }
    if route.takes_id() {
        statuses.push(404);
    }
    if route.method != Method::Get {
        statuses.extend([408, 413]);
    }
    if schemas::request_body(operation).is_some() {
        statuses.extend([415, 422]);
    }
    if operation == Operation::EventsList {
        // A point that is no longer kept; one that is still ahead.
        statuses.extend([410, 422]);
    }
    if matches!(operation, Operation::WebhooksReplay | Operation::DeliveriesResend) {
        // What is no longer kept.
        statuses.push(410);
    }
    if operation == Operation::AnalyticsContracts {
        // A moment that is not UTC.
        statuses.push(422);
    }
    if route.takes_key() {
        statuses.push(409);
        if !statuses.contains(&422) {
            // An idempotency key that was used with another request.
            statuses.push(422);
        }
    }
    statuses.sort_unstable();
    statuses
}

fn statuses(operation: Operation) -> Value {
    let spec = operation.spec();
    let mut statuses = Map::new();
    let media_type = if spec.is_export() { "text/csv" } else { "application/json" };
    let success = json!({
        "description": "Success.",
        "headers": answer_headers(operation),
        "content": { media_type: schemas::success(operation) },
    });
    statuses.insert(operation.route().status.to_string(), success);
    let prefix = if spec.access == Access::Public { "OAuth" } else { "" };
    for status in failures(operation) {
        let shared = json!({ "$ref": format!("#/components/responses/{prefix}{status}") });
        statuses.insert(status.to_string(), shared);
    }
    statuses.into()
}

fn answer_headers(operation: Operation) -> Value {
    let mut names = vec!["x-request-id"];
    if operation.access() != Access::Public {
        names.extend(["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"]);
    }
    if operation.route().takes_key() {
        names.push("Idempotent-Replayed");
    }
    names.into_iter().map(|name| (name.to_owned(), header_ref(name))).collect::<Map<_, _>>().into()
}

fn header_ref(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

fn headers() -> Value {
    let integer = json!({ "type": "integer" });
    let string = json!({ "type": "string" });
    json!({
        "x-request-id": { "description": "Names this request in our logs.", "schema": string },
        "X-RateLimit-Limit": { "description": "Requests that the window admits.", "schema": integer },
        "X-RateLimit-Remaining": { "description": "Requests left in the window that has fewer left.", "schema": integer },
        "X-RateLimit-Reset": { "description": "When the next request returns to it: Unix seconds.", "schema": integer },
        "Retry-After": { "description": "Seconds to wait.", "schema": integer },
        "WWW-Authenticate": { "description": "What to authenticate with (RFC 6750).", "schema": string },
        "Allow": { "description": "The methods of this path.", "schema": string },
        "Idempotent-Replayed": {
            "description": "`true` when this is the first answer again, under the same idempotency key.",
            "schema": { "type": "string", "const": "true" },
        },
    })
}

/// Status, words, `error.type`, `error.code`, and the headers of that status alone.
const FAILURES: [(u16, &str, &str, &str, &[&str]); 14] = [
    (400, "Invalid request parameters", "validation_error", "INVALID_PARAMS", &[]),
    (401, "Invalid or revoked token", "authentication_error", "UNAUTHORIZED", &["WWW-Authenticate"]),
    (403, "Insufficient scope for this endpoint", "permission_error", "INSUFFICIENT_SCOPE", &["WWW-Authenticate"]),
    (404, "Resource not found", "not_found_error", "NOT_FOUND", &[]),
    (405, "Method not allowed; use GET, HEAD, POST", "validation_error", "METHOD_NOT_ALLOWED", &["Allow"]),
    (408, "The request body did not arrive in time", "validation_error", "REQUEST_TIMEOUT", &[]),
    (409, "A customer with this vendor and identifier exists already", "conflict_error", "CONFLICT", &[]),
    (
        410,
        "The events after this point are no longer kept; the oldest one that is kept has the sequence 4711",
        "not_found_error",
        "EVENTS_EXPIRED",
        &[],
    ),
    (413, "The request body is larger than 1 MiB", "validation_error", "BODY_TOO_LARGE", &[]),
    (415, "Content-Type must be application/json", "validation_error", "UNSUPPORTED_MEDIA_TYPE", &[]),
    (422, "Validation failed", "validation_error", "INVALID_PARAMS", &[]),
    (429, "Rate limit exceeded", "rate_limit_error", "RATE_LIMITED", &["Retry-After"]),
    (500, "Internal server error", "api_error", "INTERNAL", &[]),
    (503, "Service temporarily unavailable", "api_error", "UNAVAILABLE", &["Retry-After"]),
];

/// The answers that all operations share; those of the OAuth endpoints have the OAuth body where RFC 6749 names one.
fn responses() -> Value {
    let mut responses = Map::new();
    for (status, message, kind, code, names) in FAILURES {
        let mut example = json!({
            "code": status, "message": message,
            "error": { "type": kind, "message": message, "code": code },
        });
        if matches!(status, 400 | 422) {
            let errors = json!([{ "field": "companyName", "message": "is required" }]);
            example["errors"] = errors.clone();
            example["error"]["errors"] = errors;
        }
        if status == 429 {
            example["retryAfter"] = json!(60);
        }
        let mut shown: Map<String, Value> = Map::new();
        for name in names.iter().chain(&["x-request-id"]) {
            shown.insert((*name).to_owned(), header_ref(name));
        }
        let plain = |schema: &str, example: &Value| {
            json!({
                "description": message, "headers": shown,
                "content": { "application/json": {
                    "schema": { "$ref": format!("#/components/schemas/{schema}") }, "example": example,
                } },
            })
        };
        responses.insert(status.to_string(), plain("Error", &example));
        let oauth = match status {
            400 => Some(("grant_type is required", "invalid_request")),
            401 => Some(("Invalid client credentials", "invalid_client")),
            429 | 500 | 503 => Some((message, "temporarily_unavailable")),
            405 | 408 | 413 | 415 => Some((message, "invalid_request")),
            _ => None,
        };
        let (schema, example) = match oauth {
            None => ("Error", example),
            Some((text, error)) => {
                ("OAuthError", json!({ "code": status, "message": text, "error": error, "error_description": text }))
            }
        };
        responses.insert(format!("OAuth{status}"), plain(schema, &example));
    }
    responses.into()
}

fn security_schemes(auth_url: &str) -> Value {
    let scopes: Map<String, Value> =
        Scope::ALL.iter().map(|scope| (scope.to_string(), json!(scope.describe()))).collect();
    let client = json!({
        "type": "http", "scheme": "basic",
        "description": "Client id and secret, instead of the form fields `client_id` and `client_secret`.",
    });
    json!({ "client": client, "oauth2": {
        "type": "oauth2",
        "description": "OAuth 2.0 client credentials (RFC 6749 §4.4). Tokens live for 3600 seconds.",
        "flows": { "clientCredentials": { "tokenUrl": format!("{auth_url}/oauth/token"), "scopes": scopes } },
    } })
}
