//! Deliveries (`contract.md` §14): to a real HTTPS receiver, on a manual clock.

mod again;
mod failing;

use std::io::Write;

use chrono::TimeDelta;
use mercato::config::ListenOptions;
use serde_json::{Value, json};

use crate::harness::receiver::{Authority, Manner, Receiver};
use crate::harness::{Party, TestApp, listen_options};

/// An app that trusts a test authority, and the authority.
pub async fn app() -> (TestApp, Authority) {
    app_with(|_| ()).await
}

pub async fn app_with(change: impl Fn(&mut ListenOptions)) -> (TestApp, Authority) {
    let authority = Authority::new();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(authority.pem().as_bytes()).expect("written");
    let mut options = listen_options();
    options.webhooks.webhook_extra_ca = Some(file.path().to_owned());
    change(&mut options);
    (TestApp::with(options).await, authority)
}

/// A webhook for everything about customers; the answer with its secret.
pub async fn webhook(party: &Party, url: &str) -> Value {
    let events = ["customer.created", "customer.updated", "customer.deleted"];
    party.post("/api/v1/webhook", &json!({ "name": "Test", "url": url, "events": events })).await.created()
}

fn id(record: &Value) -> &str {
    record["id"].as_str().expect("an id")
}

async fn read(party: &Party, webhook: &Value) -> Value {
    party.get(&format!("/api/v1/webhook/{}", id(webhook))).await.data()
}

async fn deliveries(party: &Party, webhook: &Value) -> Vec<Value> {
    let page = party.get(&format!("/api/v1/webhook/{}/deliveries?limit=100", id(webhook))).await.data();
    page["items"].as_array().expect("a list").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_delivered_signed_and_logged() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    party.customer("1").await;
    assert_eq!(app.settle().await, 1);
    let inbox = receiver.take();
    let [only] = &inbox[..] else { panic!("one delivery, not {}", inbox.len()) };
    let event = app.events(party.organization()).await.remove(0);
    assert_eq!(only.json(), event);
    assert_eq!(only.header("webhook-id"), event["id"]);
    assert_eq!(only.header("content-type"), "application/json");
    let pulled = party.get(&format!("/api/v1/events/{}", id(&event))).await;
    assert!(pulled.text.contains(std::str::from_utf8(&only.body).expect("UTF-8")), "{}", pulled.text);
    let read = read(&party, &hook).await;
    assert_eq!((&read["failureCount"], &read["lastSequence"]), (&json!(0), &json!(1)));
    assert_eq!(read["lastTriggeredAt"], json!("2026-01-05T10:00:00.000Z"));
    let logged = deliveries(&party, &hook).await;
    assert_eq!(logged.len(), 1);
    assert_eq!((&logged[0]["status"], &logged[0]["attemptCount"]), (&json!("delivered"), &json!(1)));
    assert_eq!(app.settle().await, 0);
}

/// Deliveries go with their events; those of a webhook that is gone, with the next sweep.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_forgotten_with_their_events_and_their_webhooks() {
    let (app, authority) = app().await;
    let mut party = app.party().await;
    let (receiver, dead) = (Receiver::start(&authority).await, Receiver::start(&authority).await);
    dead.behave(Manner::Answer(410));
    let hooks = [webhook(&party, &receiver.url()).await, webhook(&party, &dead.url()).await];
    let retention = TimeDelta::days(30);
    for account in 0..3 {
        party.customer(&account.to_string()).await;
        app.settle().await;
        app.advance(TimeDelta::days(14));
        party.refresh().await;
    }
    let rows = async |table: &str| app.rows(&format!("SELECT * FROM {table}")).await.len();
    assert_eq!([rows("delivered").await, rows("delivery").await, rows("undelivered").await], [3; 3]);
    let swept = app.store.sweep(retention).await.expect("the sweep runs");
    assert_eq!((swept.events, swept.deliveries), (1, 2));
    assert_eq!([rows("delivered").await, rows("delivery").await, rows("undelivered").await], [2; 3]);
    party.delete(&format!("/api/v1/webhook/{}", id(&hooks[1]))).await.ok();
    assert_eq!(app.store.sweep(retention).await.expect("the sweep runs").deliveries, 2);
    for table in ["delivery", "undelivered", "retry", "discarded"] {
        assert_eq!(rows(table).await, 0, "{table}");
    }
    assert_eq!((rows("dispatch").await, deliveries(&party, &hooks[0]).await.len()), (1, 2));
}

/// Most deliveries succeed at once and are kept many in a row; who reads them cannot tell.
#[tokio::test(flavor = "multi_thread")]
async fn many_deliveries_are_read_back_one_by_one() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    let mut waiting = 0;
    for account in 0..90 {
        receiver.behave(Manner::Answer(if account % 9 == 4 { 500 } else { 200 }));
        party.customer(&account.to_string()).await;
        waiting += usize::from(account % 9 == 4);
        if account % 5 == 0 {
            app.settle().await;
        }
    }
    app.settle().await;
    assert!(waiting > 0);
    let path = format!("/api/v1/webhook/{}/deliveries", id(&hook));
    let (mut cursor, mut seen) = (String::new(), Vec::new());
    loop {
        let page = party.get(&format!("{path}?limit=7{cursor}")).await.data();
        seen.extend(page["items"].as_array().expect("a list").iter().cloned());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let sequences: Vec<i64> = seen.iter().map(|delivery| delivery["sequence"].as_i64().unwrap_or_default()).collect();
    assert_eq!(sequences, (1..=90).rev().collect::<Vec<_>>());
    for delivery in &seen {
        assert_eq!(&party.get(&format!("/api/v1/deliveries/{}", id(delivery))).await.data(), delivery);
    }
    let counted = async |status: &str| {
        let query = "query ($id: ID!, $status: DeliveryStatus) {
            deliveries(webhookId: $id, status: $status, first: 100) { nodes { sequence status } } }";
        let data = party.graphql(query, json!({ "id": id(&hook), "status": status })).await.ok();
        data["data"]["deliveries"]["nodes"].as_array().map_or(0, Vec::len)
    };
    let (delivered, pending) = (counted("DELIVERED").await, counted("PENDING").await);
    assert_eq!(delivered + pending, 90);
    // One that succeeded at once is sent again: from then on it stands for itself.
    let chosen = seen.iter().find(|delivery| delivery["status"] == "delivered").expect("one was delivered");
    receiver.behave(Manner::Answer(500));
    let resend = format!("/api/v1/deliveries/{}/resend", id(chosen));
    assert_eq!(party.request(reqwest::Method::POST, &resend).send().await.expect("an answer").status().as_u16(), 200);
    assert_eq!((counted("DELIVERED").await, counted("PENDING").await), (delivered - 1, pending + 1));
    app.settle().await;
    let read = party.get(&format!("/api/v1/deliveries/{}", id(chosen))).await.data();
    assert_eq!((&read["status"], &read["attemptCount"]), (&json!("pending"), &json!(2)));
}

/// What a webhook was sent before its kinds were narrowed is still guarded by its own scope.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_needs_the_scope_of_its_own_kind() {
    use mercato::model::scope::Scope;
    let (app, authority) = app().await;
    let organization = app.organization("A").await;
    let all = app.party_in(organization, Scope::ALL).await;
    let few = app.party_in(organization, &[Scope::ReadCustomers]).await;
    let receiver = Receiver::start(&authority).await;
    receiver.behave(Manner::Answer(500));
    let body = json!({
        "name": "x", "url": receiver.url(), "events": ["customer.created", "private_offer.created"],
    });
    let hook = all.post("/api/v1/webhook", &body).await.created();
    let customer = all.customer("1").await;
    all.post("/api/v1/private-offers", &crate::harness::new_offer(id(&customer))).await.created();
    app.settle().await;
    let path = format!("/api/v1/webhook/{}", id(&hook));
    all.put(&path, &json!({ "events": ["customer.created"] })).await.ok();
    let seen = deliveries(&few, &hook).await;
    assert_eq!(seen.iter().map(|delivery| &delivery["eventType"]).collect::<Vec<_>>(), ["customer.created"]);
    let hidden = deliveries(&all, &hook).await.remove(0);
    assert_eq!(hidden["eventType"], "private_offer.created");
    few.get(&format!("/api/v1/deliveries/{}", id(&hidden))).await.refused(403, "INSUFFICIENT_SCOPE");
    let resend = format!("/api/v1/deliveries/{}/resend", id(&hidden));
    for (party, status) in [(&few, 403), (&all, 409)] {
        let reply = party.request(reqwest::Method::POST, &resend).send().await.expect("an answer");
        assert_eq!(reply.status().as_u16(), status);
    }
    let query = "query ($id: ID!) { webhook(id: $id) { deliveries { nodes { eventType } } } }";
    let nested = few.graphql(query, json!({ "id": hook["id"] })).await.ok();
    assert_eq!(nested["data"]["webhook"]["deliveries"]["nodes"], json!([{ "eventType": "CUSTOMER_CREATED" }]));
    // What still waited is not sent any more.
    receiver.take();
    app.advance(TimeDelta::minutes(10));
    app.settle().await;
    let kinds: Vec<Value> = receiver.take().iter().map(|received| received.json()["type"].clone()).collect();
    assert_eq!(kinds, [json!("customer.created")]);
}
