//! What is sent more than once: by hand, after a crash, when it is due again.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{app, deliveries, id, read, webhook};
use crate::harness::receiver::{Manner, Receiver};

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_can_be_sent_again_and_a_range_replayed() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    for account in 0..4 {
        party.customer(&account.to_string()).await;
    }
    app.settle().await;
    let first = receiver.take();
    let second = deliveries(&party, &hook).await.remove(2);
    let resend = format!("/api/v1/deliveries/{}/resend", id(&second));
    let waiting = party.request(reqwest::Method::POST, &resend).send().await.expect("an answer");
    assert_eq!(waiting.status().as_u16(), 200);
    app.settle().await;
    let again = receiver.take();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].header("webhook-id"), &again[0].body), (first[1].header("webhook-id"), &first[1].body));
    let read = party.get(&format!("/api/v1/deliveries/{}", id(&second))).await.data();
    assert_eq!((&read["attemptCount"], &read["attemptsInSeries"]), (&json!(2), &json!(1)));
    assert_eq!(read["attempts"].as_array().map(Vec::len), Some(2));
    let replay = format!("/api/v1/webhook/{}/replay", id(&hook));
    let begun = party.post(&replay, &json!({ "fromSequence": 2, "toSequence": 3 })).await.data();
    assert_eq!((&begun["fromSequence"], &begun["toSequence"]), (&json!(2), &json!(3)));
    party.post(&replay, &json!({ "fromSequence": 1 })).await.refused(409, "CONFLICT");
    app.settle().await;
    assert_eq!(receiver.sequences(), [2, 3]);
    receiver.take();
    party.post(&replay, &json!({ "fromSequence": 1, "onlyUndelivered": true })).await.data();
    app.settle().await;
    assert!(receiver.take().is_empty());
    for (body, status) in [
        (json!({}), 400),
        (json!({ "fromSequence": "1" }), 400),
        (json!({ "fromSequence": 0 }), 422),
        (json!({ "fromSequence": 5 }), 422),
        (json!({ "fromSequence": 3, "toSequence": 2 }), 422),
        (json!({ "fromSequence": 1, "from": 1 }), 400),
    ] {
        assert_eq!(party.post(&replay, &body).await.status, status, "{body}");
    }
    app.advance(TimeDelta::days(31));
    let mut party = party;
    party.refresh().await;
    app.store.sweep(TimeDelta::days(30)).await.expect("the sweep runs");
    party.post(&replay, &json!({ "fromSequence": 1 })).await.refused(410, "EVENTS_EXPIRED");
}

/// A process that dies with its lease: the next one begins at the cursor, with the same bytes.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_process_did_not_write_down_is_done_again() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    for account in 0..3 {
        party.customer(&account.to_string()).await;
    }
    app.settle().await;
    let first = receiver.take();
    let key = mercato::model::id::WebhookId::parse(id(&hook)).expect("an id").key();
    let dispatch = format!("dispatch:['{}', '{key}']", party.organization());
    // As if only the second one had been written down.
    app.rows(&format!("UPDATE {dispatch} SET cursor = 0, holder = 'dead', lease_until = d'2026-01-05T11:00:00Z'"))
        .await;
    let written = app.rows("SELECT * FROM delivered").await;
    let body: Vec<Value> = serde_json::from_str(written[0]["body"].as_str().expect("a body")).expect("JSON");
    let second = json!(body.iter().filter(|success| success[0] == 2).collect::<Vec<_>>());
    let place = mercato::model::event::Sequence::MAX - 2;
    let record = format!("delivered:['{}', '{key}', {place}]", party.organization());
    app.rows(&format!("DELETE delivered; CREATE {record} SET body = '{second}'")).await;
    app.settle().await;
    let again = receiver.take();
    let ids = |received: &[crate::harness::receiver::Received]| {
        received.iter().map(|one| (one.header("webhook-id").to_owned(), one.body.clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(&again), [ids(&first)[0].clone(), ids(&first)[2].clone()]);
    assert_eq!(read(&party, &hook).await["lastSequence"], 3);
}

/// A replay takes over what was due again, so nothing is sent a second time for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_takes_the_place_of_a_retry() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    receiver.behave(Manner::Answer(500));
    party.customer("1").await;
    app.settle().await;
    receiver.behave(Manner::Answer(200));
    party.post(&format!("/api/v1/webhook/{}/replay", id(&hook)), &json!({ "fromSequence": 1 })).await.data();
    app.settle().await;
    app.advance(TimeDelta::minutes(2));
    assert_eq!(app.settle().await, 0);
    assert_eq!(receiver.take().len(), 2);
}

/// A retry that outlives its event: the sweep takes both, and the webhook goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_whose_event_is_forgotten_stops_nobody() {
    let (app, authority) = app().await;
    let mut party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    webhook(&party, &receiver.url()).await;
    receiver.behave(Manner::Answer(500));
    party.customer("1").await;
    app.settle().await;
    app.advance(TimeDelta::days(31));
    party.refresh().await;
    app.store.sweep(TimeDelta::days(30)).await.expect("the sweep runs");
    receiver.behave(Manner::Answer(200));
    receiver.take();
    party.customer("2").await;
    app.settle().await;
    assert_eq!(receiver.sequences(), [2]);
    assert!(app.rows("SELECT * FROM retry").await.is_empty());
}
