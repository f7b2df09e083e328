//! Receivers that fail, in every way: what the attempt says, how they are spared, when they are given up.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{app, app_with, deliveries, id, read, webhook};
use crate::harness::receiver::{Certificate, Manner, Receiver};

/// A receiver that is down: each failure waits longer, from the third on one attempt at a time probes, at ten the webhook
/// is disabled and what comes is held.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_receiver_is_probed_then_disabled_and_loses_nothing() {
    let (app, authority) = app().await;
    let mut party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    receiver.behave(Manner::Answer(503));
    for account in 0..5 {
        party.customer(&account.to_string()).await;
    }
    app.settle().await;
    // All five were under way before the first failure was counted.
    assert_eq!((receiver.take().len(), read(&party, &hook).await["failureCount"].clone()), (5, json!(1)));
    app.advance(TimeDelta::seconds(4));
    assert_eq!(app.settle().await, 0);
    let mut counts = Vec::new();
    for pause in [6, 70, 330, 2000, 4000, 12_000, 24_000, 48_000, 96_000] {
        app.advance(TimeDelta::seconds(pause));
        party.refresh().await;
        app.settle().await;
        counts.push((receiver.take().len(), read(&party, &hook).await["failureCount"].as_i64().unwrap_or_default()));
    }
    // The second time all five again; from the third on one of them.
    assert_eq!(counts, [(5, 2), (5, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 8), (1, 9), (1, 10)]);
    party.customer("late").await;
    app.settle().await;
    assert!(receiver.take().is_empty());
    let off = read(&party, &hook).await;
    assert_eq!((&off["status"], off["disabledAt"].is_string()), (&json!("disabled"), true));
    let held = deliveries(&party, &hook).await;
    assert_eq!(held.iter().filter(|delivery| delivery["status"] == "held").count(), 6, "{held:#?}");
    let path = format!("/api/v1/webhook/{}", id(&hook));
    party.post(&format!("{path}/replay"), &json!({ "fromSequence": 1 })).await.refused(409, "CONFLICT");
    receiver.behave(Manner::Answer(200));
    let on = party.put(&path, &json!({ "status": "active" })).await.data();
    assert_eq!((&on["failureCount"], &on["disabledAt"]), (&json!(0), &Value::Null));
    assert_eq!(app.settle().await, 0);
    party.post(&format!("{path}/replay"), &json!({ "fromSequence": 1 })).await.data();
    app.settle().await;
    assert_eq!(receiver.sequences(), [1, 2, 3, 4, 5, 6]);
    assert!(deliveries(&party, &hook).await.iter().all(|delivery| delivery["status"] == "delivered"));
}

/// When the receiver is back, nothing waits for its own time any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_back_gets_everything_at_once() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    receiver.behave(Manner::Reset);
    for account in 0..3 {
        party.customer(&account.to_string()).await;
        app.settle().await;
    }
    assert_eq!(read(&party, &hook).await["failureCount"], 3);
    party.customer("waits").await;
    assert_eq!(app.settle().await, 0);
    assert_eq!(receiver.take().len(), 3);
    receiver.behave(Manner::Answer(204));
    app.advance(TimeDelta::seconds(331));
    app.settle().await;
    assert_eq!(receiver.sequences(), [1, 2, 3, 4]);
    assert_eq!(read(&party, &hook).await["failureCount"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_disables_at_once() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    receiver.behave(Manner::Answer(410));
    party.customer("1").await;
    app.settle().await;
    party.customer("2").await;
    app.settle().await;
    assert_eq!(receiver.take().len(), 1);
    assert_eq!(read(&party, &hook).await["status"], "disabled");
    let states: Vec<_> = deliveries(&party, &hook).await.iter().map(|delivery| delivery["status"].clone()).collect();
    assert_eq!(states, ["held", "failed"]);
}

/// `Retry-After` makes a pause longer, never shorter, and never longer than the longest of the schedule.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_may_ask_to_wait() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    let mut pauses = Vec::new();
    for (account, asked) in ["120", "1", "999999999", "Mon, 05 Jan 2026 10:02:00 GMT", "soon", "-5"].iter().enumerate()
    {
        receiver.behave(Manner::AnswerWith(429, vec![("retry-after", (*asked).to_owned())], "wait".to_owned()));
        party.customer(&account.to_string()).await;
        app.settle().await;
        let last = deliveries(&party, &hook).await.remove(0);
        assert_eq!(last["attempts"][0]["answer"], "wait");
        let next = last["nextAttemptAt"].as_str().and_then(|at| at.parse::<mercato::model::time::Timestamp>().ok());
        pauses.push((next.expect("a retry").as_datetime() - app.clock.now().as_datetime()).num_seconds());
        party.put(&format!("/api/v1/webhook/{}", id(&hook)), &json!({ "status": "disabled" })).await.ok();
        app.settle().await;
        party.put(&format!("/api/v1/webhook/{}", id(&hook)), &json!({ "status": "active" })).await.ok();
    }
    let short = |pause: &i64| (4..=5).contains(pause);
    assert!(pauses[0] == 120 && short(&pauses[1]) && pauses[2] == 86_400 && pauses[3] == 120, "{pauses:?}");
    assert!(short(&pauses[4]) && short(&pauses[5]), "{pauses:?}");
}

/// Whatever a receiver does, the attempt ends within its time, and its class says why.
#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_has_its_class() {
    let (app, authority) = app_with(|options| {
        options.webhooks.webhook_timeout = std::time::Duration::from_millis(1500);
        options.webhooks.webhook_retries = Vec::new();
    })
    .await;
    let party = app.party().await;
    let other = Receiver::start(&authority).await;
    let redirect = Manner::AnswerWith(307, vec![("location", other.url())], String::new());
    let ways = [
        (Manner::Silent, "timeout", None),
        (Manner::Reset, "connect", None),
        (Manner::Answer(500), "http", Some(500)),
        (redirect, "http", Some(307)),
        (Manner::Answer(304), "http", Some(304)),
    ];
    let mut expected = Vec::new();
    for (manner, class, status) in ways {
        let receiver = Receiver::start(&authority).await;
        receiver.behave(manner);
        expected.push((webhook(&party, &receiver.url()).await, class, status));
    }
    for certificate in [Certificate::Expired, Certificate::WrongHost, Certificate::SelfSigned] {
        let receiver = Receiver::with(&authority, certificate).await;
        expected.push((webhook(&party, &receiver.url()).await, "tls", None));
    }
    expected.push((webhook(&party, "https://127.0.0.1:1/").await, "connect", None));
    expected.push((webhook(&party, "https://nowhere.invalid/").await, "dns", None));
    let (flood, trickle) = (Receiver::start(&authority).await, Receiver::start(&authority).await);
    flood.behave(Manner::Flood);
    trickle.behave(Manner::Trickle);
    expected.push((webhook(&party, &flood.url()).await, "http", Some(500)));
    // It has answered 200; how slowly it goes on does not matter.
    let patient = webhook(&party, &trickle.url()).await;
    party.customer("1").await;
    let started = std::time::Instant::now();
    assert_eq!(app.settle().await, expected.len() + 1);
    assert_eq!(deliveries(&party, &patient).await[0]["status"], "delivered");
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "all attempts ended in time");
    for (hook, class, status) in &expected {
        let delivery = deliveries(&party, hook).await.remove(0);
        let attempt = &delivery["attempts"][0];
        assert_eq!((&attempt["error"], &attempt["statusCode"]), (&json!(class), &json!(status)), "{}", hook["url"]);
        assert_eq!(delivery["status"], "failed");
        assert!(attempt["answer"].as_str().unwrap_or_default().len() <= 16 * 1024);
    }
    assert!(other.received().is_empty(), "redirects are not followed");
}

/// A name that pointed outside when it was checked and inside when it was connected to: the connector is only ever given
/// what was checked.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_allowed_is_never_connected_to() {
    let (app, authority) = app_with(|options| options.webhooks.webhook_allow_subnet = Vec::new()).await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let refused = json!({ "name": "Test", "url": receiver.url(), "events": ["customer.created"] });
    party.post("/api/v1/webhook", &refused).await.refused(422, "INVALID_PARAMS");
    let hook = webhook(&party, "https://hooks.example.com/").await;
    // Somebody else changed the row, or the name: the attempt checks again.
    let key = mercato::model::id::WebhookId::parse(id(&hook)).expect("an id").key();
    let organization = party.organization();
    app.rows(&format!("UPDATE webhook:['{organization}', '{key}'] SET url = '{}'", receiver.url())).await;
    party.customer("1").await;
    app.settle().await;
    assert!(receiver.received().is_empty());
    assert_eq!(deliveries(&party, &hook).await[0]["attempts"][0]["error"], "blocked");
    let reply = party.post("/api/webhook/test", &json!({ "webhookId": id(&hook) })).await.data();
    assert_eq!((&reply["success"], &reply["error"]), (&json!(false), &json!("blocked")));
}

/// A slow receiver holds nobody up, and no more attempts are under way than one webhook may have.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_receiver_holds_up_nobody_else() {
    let (app, authority) =
        app_with(|options| options.webhooks.webhook_timeout = std::time::Duration::from_secs(2)).await;
    let party = app.party().await;
    let (slow, quick) = (Receiver::start(&authority).await, Receiver::start(&authority).await);
    slow.behave(Manner::Silent);
    webhook(&party, &slow.url()).await;
    webhook(&party, &quick.url()).await;
    for account in 0..40 {
        party.customer(&account.to_string()).await;
    }
    let app = crate::harness::shared(app);
    let settling = tokio::spawn({
        let app = std::sync::Arc::clone(&app);
        async move { app.settle().await }
    });
    quick.wait_for(40).await;
    assert!(slow.received().len() <= 16, "{} under way", slow.received().len());
    settling.await.expect("it settles");
    assert_eq!(quick.sequences(), (1..=40).collect::<Vec<_>>());
}

/// Enabled again while it was disabling itself, or disabled and enabled between two looks: its count begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_enabled_begins_anew() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    let path = format!("/api/v1/webhook/{}", id(&hook));
    receiver.behave(Manner::Answer(410));
    party.customer("1").await;
    app.settle().await;
    receiver.behave(Manner::Answer(200));
    for status in ["active", "disabled", "active"] {
        assert_eq!(party.put(&path, &json!({ "status": status })).await.data()["status"], *status);
    }
    party.customer("2").await;
    app.settle().await;
    assert_eq!(receiver.sequences(), [1, 2]);
    let read = read(&party, &hook).await;
    assert_eq!((&read["status"], &read["failureCount"]), (&json!("active"), &json!(0)));
}
