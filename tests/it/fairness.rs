//! One marketplace is slow, but answers: whoever sells there waits, and nobody else does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use mercato::marketplace::hands::{Worker, work};
use mercato::model::notification::{NewNotification, NotificationVerdict};
use mercato::model::time::Timestamp;
use mercato::model::vendor::Vendor;
use mercato::store::inbox::End;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{Market, TestApp};

/// More calls than are made.
const CALLS: u64 = 1_000_000;
/// What a machine that is busy with other things may take.
const PATIENCE: Duration = Duration::from_mins(3);

/// An organization whose marketplaces take ten minutes for each answer, and one beside it.
async fn slow_and_fast() -> (Market, Market) {
    let slow = Market::new().await;
    let fast = slow.beside().await;
    (slow, fast)
}

async fn slow_down(market: &Market) {
    market.faults(json!({ "slowAnswers": { "count": CALLS, "milliseconds": 600_000 } })).await;
}

/// A worker at its work, as in production.
struct AtWork {
    task: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl AtWork {
    fn begin<W: Worker>(worker: &Arc<W>) -> Self {
        let stop = watch::Sender::new(false);
        Self { task: tokio::spawn(work(Arc::clone(worker), stop.subscribe())), _stop: stop }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Asks again and again until it is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let asked = tokio::time::timeout(PATIENCE, async { while !is_so().await {} }).await;
    assert!(asked.is_ok(), "{what}");
}

/// The slow marketplace has been asked for something, and has not answered.
async fn is_asked(market: &Market) {
    let asked =
        async || market.world().await["faults"]["slowAnswers"]["count"].as_u64().is_some_and(|left| left < CALLS);
    until("the slow marketplace is asked", asked).await;
}

async fn submit(market: &Market, customer: &Value, dimension: &str) -> Value {
    let rows = json!([{ "dimension": dimension, "quantity": 1 }]);
    let body = json!({ "listingId": "lst_1", "details": { "customer": { "id": customer["id"] }, "usage": rows } });
    market.party.post("/api/v1/metering", &body).await.created()
}

async fn kinds(market: &Market) -> Vec<String> {
    let events = market.app.events(market.organization).await;
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn is_told(market: &Market, kind: &str) {
    until(kind, async || kinds(market).await.iter().any(|told| told == kind)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errands_of_others_go_on() {
    let (slow, fast) = slow_and_fast().await;
    let held_up = slow.customer("cloud_b", "buyer-1").await;
    slow.subscribed(&held_up).await;
    let served = fast.customer("cloud_b", "buyer-1").await;
    fast.subscribed(&served).await;
    // More than is taken up at once, and all of it more urgent than what the other has.
    for number in 0..120 {
        submit(&slow, &held_up, &format!("d{number}")).await;
    }
    slow_down(&slow).await;
    slow.app.advance(TimeDelta::minutes(1));
    let _clerk = AtWork::begin(&slow.app.app.clerk);
    is_asked(&slow).await;
    submit(&fast, &served, "calls").await;
    is_told(&fast, "metering.confirmed").await;
    assert!(!kinds(&slow).await.iter().any(|kind| kind == "metering.confirmed"));
    let taken = slow.app.rows("SELECT VALUE id FROM outbox WHERE held != NONE").await;
    assert_eq!(taken.len(), 50, "what cannot be begun within its lease is not in hand");
}

async fn buy(market: &Market, buyers: usize) {
    for buyer in 0..buyers {
        let body = json!({
            "publisher": market.organization, "offerId": "lst_1", "planId": "gold", "tenantId": format!("buyer-{buyer}"),
        });
        market.control("POST", "cloud_b/subscriptions", body).await;
    }
    let is_settled = async || market.control("POST", "settle", json!({})).await["settled"] == json!(true);
    until("all is told", is_settled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_of_others_are_applied() {
    let (slow, fast) = slow_and_fast().await;
    slow_down(&slow).await;
    // More than are in hand at once in all.
    buy(&slow, 66).await;
    let _inbox = AtWork::begin(&slow.app.app.inbox);
    is_asked(&slow).await;
    buy(&fast, 3).await;
    until("all are applied", async || {
        kinds(&fast).await.iter().filter(|kind| *kind == "entitlement.created").count() == 3
    })
    .await;
    assert_eq!(kinds(&slow).await, Vec::<String>::new());
    let waiting =
        format!("SELECT VALUE id FROM notification WHERE verdict = NONE AND organization = '{}'", slow.organization);
    let left = slow.app.rows(&waiting).await;
    assert_eq!(left.len(), 66);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_others_are_compared() {
    let (slow, mut fast) = slow_and_fast().await;
    let reconciler = &slow.app.app.reconciler;
    reconciler.run().await.expect("the first comparisons");
    fast.faults(json!({ "dropNotifications": 1 })).await;
    buy(&fast, 1).await;
    slow_down(&slow).await;
    slow.app.advance(TimeDelta::hours(1));
    fast.party.refresh().await;
    let _reconciler = AtWork::begin(reconciler);
    is_asked(&slow).await;
    let query = "{ marketplaceDifferences { vendor } }";
    until("the difference is found", async || {
        let data = fast.party.graphql(query, json!({})).await.ok();
        data["data"]["marketplaceDifferences"].as_array().is_some_and(|found| found.len() == 1)
    })
    .await;
}

fn told(id: &str, subject: &str, at: Timestamp) -> NewNotification {
    NewNotification {
        vendor: Vendor::CloudA,
        external_id: id.to_owned(),
        kind: "Renew".to_owned(),
        subject: subject.to_owned(),
        occurred_at: Some(at),
        body: "{}".to_owned(),
    }
}

/// Contracts are told of while their earlier notifications are settled. The clock stands still: whatever is put off is never
/// applied.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_while_another_is_settled_is_not_overlooked() {
    const MANY: usize = 8;
    let app = TestApp::new().await;
    let organization = app.organization("Acme").await;
    let _inbox = AtWork::begin(&app.app.inbox);
    let mut tellers = tokio::task::JoinSet::new();
    for teller in 0..MANY {
        let (tenant, inbox, at) = (app.store.tenant(organization, None), Arc::clone(&app.app.inbox), app.clock.now());
        tellers.spawn(async move {
            for number in 0..3 * MANY {
                let subject = format!("agmt-{}", (teller + number) % MANY);
                let new = told(&format!("{teller}-{number}"), &subject, at);
                assert!(tenant.keep_notification(&new).await.expect("it is kept"));
                inbox.nudge();
            }
        });
    }
    tellers.join_all().await;
    let waiting = "SELECT VALUE id FROM notification WHERE verdict = NONE";
    until("all are settled", async || app.rows(waiting).await.is_empty()).await;
    assert_eq!(app.rows("SELECT VALUE id FROM notification").await.len(), 3 * MANY * MANY);
    until("no turn is left", async || app.rows("SELECT VALUE id FROM inbox").await.is_empty()).await;
}

/// More than are looked at together wait behind the first of their subscription, which is tried again and again.
#[tokio::test(flavor = "multi_thread")]
async fn those_behind_one_that_waits_fill_no_portion() {
    const PORTION: usize = 4;
    let app = TestApp::new().await;
    let tenant = app.store.tenant(app.organization("Acme").await, None);
    for number in 0..3 * PORTION {
        let new = told(&format!("op-{number:02}"), "sub-1", app.clock.now());
        tenant.keep_notification(&new).await.expect("it is kept");
        app.advance(TimeDelta::milliseconds(1));
    }
    // The engine's indexes have a whole second after its fractions.
    app.advance(TimeDelta::seconds(1));
    for tries in 1..=4 {
        let turns = app.store.take_turns(PORTION, PORTION, HashMap::new()).await.expect("a look");
        let [turn] = turns.as_slice() else { panic!("{} turns of one contract", turns.len()) };
        let first = tenant.first_waiting(turn).await.expect("a look").expect("one waits");
        assert_eq!(first.external_id, "op-00", "nothing goes before it");
        let pause = TimeDelta::seconds(5);
        let end = if tries == 4 {
            End::Verdict(NotificationVerdict::Applied)
        } else {
            End::Again(app.clock.now().plus(pause))
        };
        tenant.settle(turn, first.id, end, String::new()).await.expect("it is settled");
        if tries < 4 {
            assert!(app.store.take_turns(PORTION, PORTION, HashMap::new()).await.expect("a look").is_empty());
            app.advance(pause);
        }
    }
    let turns = app.store.take_turns(PORTION, PORTION, HashMap::new()).await.expect("a look");
    let next = tenant.first_waiting(&turns[0]).await.expect("a look").expect("one waits");
    assert_eq!(next.external_id, "op-01");
}
