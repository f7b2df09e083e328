//! What the marketplaces tell us (`docs/marketplaces.md`): who may, that it is kept once, what becomes of it, in any order.

mod agreements;
mod doors;
mod limits;
mod orders;
mod renewals;
mod retention;
mod subscriptions;

use chrono::TimeDelta;
use mercato::model::entitlement::Entitlement;
use mercato::model::filter::{Filter, Order};
use mercato::model::notification::{Notification, NotificationFilter, NotificationVerdict};
use mercato::model::page::{PageRequest, Window};
use mercato::resolvers::notifications;
use mercato::store::Tenant;
use serde_json::{Value, json};

use crate::harness::{Market, Reply, TestApp};

fn tenant(market: &Market) -> Tenant {
    market.app.tenant(market.organization)
}

/// Everything that was told is in, and applied as far as it can be now.
async fn settle(market: &Market) {
    let settled = market.control("POST", "settle", json!({ "retries": true })).await;
    assert_eq!(settled["settled"], json!(true), "{settled}");
    market.app.app.inbox.run().await.expect("the inbox's work");
}

/// Time passes, on both sides; what is told of it is applied.
async fn pass(market: &Market, time: TimeDelta) {
    market.app.advance(time);
    market.control("POST", "advance", json!({ "seconds": 0 })).await;
    settle(market).await;
}

/// The notifications of an organization, newest first.
async fn kept(app: &TestApp, market: &Market) -> Vec<Notification> {
    let call = app.operator(market.organization);
    let page = PageRequest::from_arguments(Some(100), None);
    notifications::list(&call, NotificationFilter::default(), page).await.expect("a list").items
}

/// What became of the newest notification of a kind.
async fn verdict(market: &Market, kind: &str) -> (Option<NotificationVerdict>, String) {
    let found = kept(&market.app, market).await.into_iter().find(|kept| kept.kind == kind);
    let found = found.unwrap_or_else(|| panic!("there is no {kind}"));
    (found.verdict, found.reason.unwrap_or_default())
}

#[track_caller]
fn assert_applied(verdict: &(Option<NotificationVerdict>, String)) {
    assert_eq!(verdict.0, Some(NotificationVerdict::Applied), "{}", verdict.1);
}

/// All entitlements, oldest first.
async fn entitlements(market: &Market) -> Vec<Entitlement> {
    let window = Window { limit: 100, after: None };
    let listed = tenant(market).list_entitlements(&Filter::default(), Order::Oldest, window).await;
    listed.expect("a list").items
}

/// The only one.
async fn entitlement(market: &Market) -> Entitlement {
    let mut all = entitlements(market).await;
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn seats(entitlement: &Entitlement) -> Option<String> {
    entitlement.dimensions.iter().find(|dimension| dimension.key == "seats").map(|seats| seats.value.to_string())
}

/// The kinds of all events, in order.
async fn events(market: &Market) -> Vec<String> {
    let events = market.app.events(market.organization).await;
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn subscribe(market: &Market, changed: Value) -> Value {
    let mut body = json!({
        "publisher": market.organization, "offerId": "lst_1", "planId": "gold", "quantity": 5, "tenantId": "buyer-1",
        "email": "ann@northwind.example",
    });
    for (name, value) in changed.as_object().expect("an object") {
        body[name] = value.clone();
    }
    market.control("POST", "cloud_b/subscriptions", body).await
}

async fn act(market: &Market, subscription: &str, action: &str, change: Value) -> String {
    let done = market.control("POST", &format!("cloud_b/subscriptions/{subscription}/{action}"), change).await;
    done["operationId"].as_str().expect("an id").to_owned()
}

async fn agree(market: &Market, changed: Value) -> String {
    let mut body = json!({
        "publisher": market.organization, "accountId": "123456789012", "productId": "lst_1",
        "dimensions": [{ "key": "seats", "value": 5 }],
    });
    for (name, value) in changed.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let agreement = market.control("POST", "cloud_a/agreements", body).await;
    agreement["id"].as_str().expect("an id").to_owned()
}

async fn act_on(market: &Market, agreement: &str, action: &str, fields: Value) -> Value {
    market.control("POST", &format!("cloud_a/agreements/{agreement}/{action}"), fields).await
}

fn path(market: &Market, vendor: &str) -> String {
    format!("{}/marketplace/{vendor}/{}", market.app.app.base_url, market.organization)
}

/// Tells something in the name of `cloud_a`.
async fn tell_a(market: &Market, body: &Value) -> Reply {
    let request = market.app.http.post(path(market, "cloud_a")).header("x-mercato-secret", "told").json(body);
    Reply::of(request).await
}
