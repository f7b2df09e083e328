//! Deliveries (`contract.md` §14): to a real HTTPS receiver, on a manual clock.

use std::io::Write;

use chrono::TimeDelta;
use mercato::config::ListenOptions;
use serde_json::{Value, json};

use crate::harness::receiver::{Authority, Certificate, Manner, Receiver};
use crate::harness::{Party, TestApp, listen_options, new_customer};

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
    let received = receiver.take();
    let [received] = &received[..] else { panic!("one delivery, not {}", received.len()) };
    let event = app.events(party.organization()).await.remove(0);
    assert_eq!(received.json(), event);
    assert_eq!(received.header("webhook-id"), event["id"]);
    assert_eq!(received.header("content-type"), "application/json");
    let pulled = party.get(&format!("/api/v1/events/{}", id(&event))).await;
    assert!(pulled.text.contains(std::str::from_utf8(&received.body).expect("UTF-8")), "{}", pulled.text);
    let read = read(&party, &hook).await;
    assert_eq!((&read["failureCount"], &read["lastSequence"]), (&json!(0), &json!(1)));
    assert_eq!(read["lastTriggeredAt"], json!("2026-01-05T10:00:00.000Z"));
    let logged = deliveries(&party, &hook).await;
    assert_eq!(logged.len(), 1);
    assert_eq!((&logged[0]["status"], &logged[0]["attemptCount"]), (&json!("delivered"), &json!(1)));
    assert_eq!(app.settle().await, 0);
}
