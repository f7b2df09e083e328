//! Deliveries (`contract.md` §14): to a real HTTPS receiver, on a manual clock.

use std::io::Write;

use chrono::TimeDelta;
use mercato::config::ListenOptions;
use serde_json::{Value, json};

use crate::harness::receiver::{Authority, Certificate, Manner, Receiver};
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
