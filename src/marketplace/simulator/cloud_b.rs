//! cloud_b's calls about subscriptions, and its tokens and keys.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::Sim;
use super::answer::{Answer, Refusal, Wrong, lean, query, read, refuse_b};
use super::metering_b;
use super::subscriptions::{OperationStatus, Subscription};
use super::world::{BEARER_SECONDS, CloudB, World};

const PAGE: usize = 100;
const ROOT: &str = "/cloud_b/api/saas/subscriptions";

pub fn routes() -> Router<Sim> {
    Router::new()
        .route(ROOT, get(list))
        .route(&format!("{ROOT}/resolve"), post(resolve))
        .route(&format!("{ROOT}/{{id}}"), get(one))
        .route(&format!("{ROOT}/{{id}}/activate"), post(activate))
        .route(&format!("{ROOT}/{{id}}/operations"), get(operations))
        .route(&format!("{ROOT}/{{id}}/operations/{{operation}}"), get(operation).patch(settle))
        .merge(metering_b::routes())
}

/// Who one is, and how that is known: these are not in the way of faults.
pub fn identity_routes() -> Router<Sim> {
    Router::new().route("/cloud_b/{tenant}/oauth2/v2.0/token", post(token)).route("/cloud_b/keys", get(keys))
}

async fn keys(State(sim): State<Sim>) -> Json<Value> {
    Json(sim.world().key.set())
}

async fn token(State(sim): State<Sim>, Path(tenant): Path<String>, body: Bytes) -> Answer {
    let fields: HashMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let refuse = |status, error: &str| Refusal { status, body: json!({"error": error}) };
    if field("grant_type") != "client_credentials" {
        return Err(refuse(StatusCode::BAD_REQUEST, "unsupported_grant_type"));
    }
    if field("scope").is_empty() {
        return Err(refuse(StatusCode::BAD_REQUEST, "invalid_request"));
    }
    let mut world = sim.world();
    let knows = |account: &CloudB| {
        let secret = account.client_secret.as_bytes().ct_eq(field("client_secret").as_bytes());
        account.tenant_id == tenant && account.client_id == field("client_id") && secret.into()
    };
    let mut publishers = world.publishers.iter();
    let found = publishers.find(|(_, publisher)| publisher.cloud_b.as_ref().is_some_and(knows));
    let publisher = found.map(|(name, _)| name.clone());
    let publisher = publisher.ok_or_else(|| refuse(StatusCode::UNAUTHORIZED, "invalid_client"))?;
    let access_token = world.issue_bearer(&publisher).map_err(Wrong::for_cloud_b)?;
    Ok(Json(json!({"access_token": access_token, "token_type": "Bearer", "expires_in": BEARER_SECONDS})))
}

/// The publisher that calls; the version of the protocol is asked for in `parameter`.
pub fn admit(world: &World, headers: &HeaderMap, uri: &Uri, parameter: &str, version: &str) -> Result<String, Refusal> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let Some(token) = authorization.strip_prefix("Bearer ") else {
        return Err(refuse_b(StatusCode::UNAUTHORIZED, "a bearer token is needed"));
    };
    let publisher = world.bearer(token.trim());
    let publisher =
        publisher.ok_or_else(|| refuse_b(StatusCode::FORBIDDEN, "the bearer token is unknown or expired"))?;
    if query(uri).get(parameter).is_none_or(|given| given != version) {
        return Err(refuse_b(StatusCode::BAD_REQUEST, &format!("{parameter} must be {version}")));
    }
    Ok(publisher)
}

pub fn admit_saas(world: &World, headers: &HeaderMap, uri: &Uri) -> Result<String, Refusal> {
    admit(world, headers, uri, "api-version", "2018-08-31")
}

/// A subscription of this publisher; another's is as unknown as one that never was.
fn own<'a>(world: &'a World, publisher: &str, id: &str) -> Result<&'a Subscription, Refusal> {
    let subscription = world.subscriptions.get(id).filter(|subscription| subscription.publisher == publisher);
    subscription.ok_or_else(|| Wrong::unknown("there is no such subscription").for_cloud_b())
}

async fn resolve(State(sim): State<Sim>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    let token = headers.get("x-ms-marketplace-token").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = world.resolve(token).filter(|subscription| subscription.publisher == publisher);
    let found = found.ok_or_else(|| Wrong::bad("the purchase token is unknown or too old").for_cloud_b())?;
    let subscription = found.json();
    Ok(Json(lean(json!({
        "id": found.id,
        "subscriptionName": subscription["name"],
        "offerId": found.offer_id,
        "planId": found.plan_id,
        "quantity": found.quantity,
        "subscription": subscription,
    }))))
}

async fn list(State(sim): State<Sim>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    let after = query(&uri).remove("continuationToken").unwrap_or_default();
    let mut rest = world.subscriptions.values().filter(|it| it.publisher == publisher && it.id > after);
    let page: Vec<&Subscription> = rest.by_ref().take(PAGE).collect();
    let next = page.last().filter(|_| rest.next().is_some()).map(|last| {
        let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        format!("http://{host}{ROOT}?api-version=2018-08-31&continuationToken={}", last.id)
    });
    let subscriptions: Vec<Value> = page.into_iter().map(Subscription::json).collect();
    Ok(Json(lean(json!({"subscriptions": subscriptions, "@nextLink": next}))))
}

async fn one(State(sim): State<Sim>, Path(id): Path<String>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    Ok(Json(own(&world, &publisher, &id)?.json()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Activation {
    plan_id: String,
    quantity: Option<i64>,
}

async fn activate(
    State(sim): State<Sim>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Result<Response, Refusal> {
    let mut world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    own(&world, &publisher, &id)?;
    let activation: Activation = read(&body).map_err(Wrong::for_cloud_b)?;
    world.activate(&id, &activation.plan_id, activation.quantity).map_err(Wrong::for_cloud_b)?;
    Ok(StatusCode::OK.into_response())
}

/// Those that wait for the publisher's word.
async fn operations(State(sim): State<Sim>, Path(id): Path<String>, headers: HeaderMap, uri: Uri) -> Answer {
    let world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    let subscription = own(&world, &publisher, &id)?;
    let waiting = subscription.operations.values().filter(|operation| operation.status == OperationStatus::InProgress);
    let operations: Vec<Value> = waiting.map(|operation| subscription.operation_json(operation)).collect();
    Ok(Json(json!({"operations": operations})))
}

async fn operation(
    State(sim): State<Sim>,
    Path((id, operation)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    let subscription = own(&world, &publisher, &id)?;
    let found = subscription.operations.get(&operation);
    let found = found.ok_or_else(|| Wrong::unknown("there is no such operation").for_cloud_b())?;
    Ok(Json(subscription.operation_json(found)))
}

#[derive(Deserialize)]
struct Settlement {
    status: String,
}

async fn settle(
    State(sim): State<Sim>,
    Path((id, operation)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Result<Response, Refusal> {
    let mut world = sim.world();
    let publisher = admit_saas(&world, &headers, &uri)?;
    own(&world, &publisher, &id)?;
    let settlement: Settlement = read(&body).map_err(Wrong::for_cloud_b)?;
    let success = match settlement.status.as_str() {
        "Success" => true,
        "Failure" => false,
        _ => return Err(Wrong::bad("status must be Success or Failure").for_cloud_b()),
    };
    world.settle_operation(&id, &operation, success).map_err(Wrong::for_cloud_b)?;
    Ok(StatusCode::OK.into_response())
}
