//! How the simulator is driven (`docs/marketplaces.md`, "Control of the simulator").

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use bytes::Bytes;
use chrono::TimeDelta;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use url::Url;

use super::Sim;
use super::agreements::{Agreement, NewAgreement};
use super::answer::{Answer, Wrong, read};
use super::faults::Faults;
use super::keys::SigningKey;
use super::offers::Acceptance;
use super::subscriptions::{Change, NewSubscription, Subscription};
use super::world::{Publisher, Usage, World};

/// The furthest that the clock is moved at once, and in all, in seconds: ten and a hundred years.
const FURTHEST: i64 = 315_576_000;
const FURTHEST_IN_ALL: i64 = 3_155_760_000;
/// How long a settling may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Notifications that are held at once to be reordered.
const HELD: u32 = 1_000;
/// How long one trusts that nothing happened without being told.
const GLANCE: Duration = Duration::from_millis(50);

pub fn routes() -> Router<Sim> {
    Router::new()
        .route("/control", get(everything))
        .route("/control/advance", post(advance))
        .route("/control/settle", post(settle))
        .route("/control/publishers/{name}", put(put_publisher))
        .route("/control/dimensions", put(put_dimensions))
        .route("/control/faults", put(put_faults))
        .route("/control/keys/rotate", post(rotate))
        .route("/control/notifications/{id}/resend", post(resend))
        .route("/control/cloud_b/subscriptions", post(subscribe))
        .route("/control/cloud_b/subscriptions/{id}/{action}", post(act))
        .route("/control/cloud_a/agreements", post(agree))
        .route("/control/cloud_a/agreements/{id}/{action}", post(act_on_agreement))
        .route("/control/offers/{id}/{action}", post(decide))
        .route("/control/offers/private-offer/{id}/{action}", post(decide))
}

async fn everything(State(sim): State<Sim>) -> Json<Value> {
    let world = sim.world();
    Json(json!({
        "now": world.now,
        "faults": world.faults,
        "publishers": world.publishers,
        "dimensions": world.dimensions,
        "offers": world.offers.values().collect::<Vec<_>>(),
        "changeSets": world.change_sets.values().map(|it| it.json(&world)).collect::<Vec<_>>(),
        "jobs": world.jobs.values().map(|it| it.json(&world)).collect::<Vec<_>>(),
        "subscriptions": world.subscriptions.values().map(with_operations).collect::<Vec<_>>(),
        "agreements": world.agreements.values().map(Agreement::json).collect::<Vec<_>>(),
        "usage": world.usage.values().collect::<Vec<&Usage>>(),
        "notifications": world.queue.list(),
    }))
}

fn with_operations(subscription: &Subscription) -> Value {
    let mut shown = subscription.json();
    let operations = subscription.operations.values().map(|it| subscription.operation_json(it));
    shown["operations"] = operations.collect();
    shown["publisher"] = json!(subscription.publisher);
    shown
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    seconds: i64,
}

async fn advance(State(sim): State<Sim>, body: Bytes) -> Answer {
    let Advance { seconds } = read(&body).map_err(Wrong::plainly)?;
    let mut world = sim.world();
    let in_all = world.offset.num_seconds().saturating_add(seconds);
    if !(0..=FURTHEST).contains(&seconds) || in_all > FURTHEST_IN_ALL {
        return Err(Wrong::bad(format!("seconds must be from 0 to {FURTHEST}")).plainly());
    }
    world.offset += TimeDelta::seconds(seconds);
    world.catch_up();
    sim.wake.notify_one();
    Ok(Json(json!({"now": world.now})))
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settle {
    retries: bool,
}

/// Waits until nothing is to be sent now; with `retries`, until nothing waits for another attempt either.
async fn settle(State(sim): State<Sim>, body: Bytes) -> Answer {
    let Settle { retries } = read(&body).map_err(Wrong::plainly)?;
    let until = Instant::now() + PATIENCE;
    loop {
        let attempted = sim.attempted.notified();
        let (backlog, now) = {
            let world = sim.world();
            (world.queue.backlog(world.now), world.now)
        };
        let settled = backlog.waiting == 0 && (!retries || backlog.retrying == 0);
        if settled || Instant::now() >= until {
            return Ok(Json(json!({"now": now, "settled": settled, "backlog": backlog})));
        }
        // Whether it was told or the time is over: it looks again.
        drop(timeout(GLANCE, attempted).await);
    }
}

async fn put_publisher(State(sim): State<Sim>, Path(name): Path<String>, body: Bytes) -> Answer {
    let publisher: Publisher = read(&body).map_err(Wrong::plainly)?;
    check_publisher(&publisher).map_err(Wrong::plainly)?;
    let shown = json!(publisher);
    let mut world = sim.world();
    if !world.publishers.contains_key(&name) {
        world.room(world.publishers.len(), "publishers").map_err(Wrong::plainly)?;
    }
    world.publishers.insert(name, publisher);
    Ok(Json(shown))
}

fn check_publisher(publisher: &Publisher) -> Result<(), Wrong> {
    let urls = [
        publisher.cloud_b.as_ref().map(|account| &account.notification_url),
        publisher.cloud_a.as_ref().map(|account| &account.notification_url),
    ];
    for url in urls.into_iter().flatten() {
        if !Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
            return Err(Wrong::bad("notificationUrl must be an http or https URL"));
        }
    }
    Ok(())
}

async fn put_dimensions(State(sim): State<Sim>, body: Bytes) -> Answer {
    let dimensions: BTreeMap<String, Vec<String>> = read(&body).map_err(Wrong::plainly)?;
    sim.world().dimensions.clone_from(&dimensions);
    Ok(Json(json!(dimensions)))
}

async fn put_faults(State(sim): State<Sim>, body: Bytes) -> Answer {
    let faults: Faults = read(&body).map_err(Wrong::plainly)?;
    if faults.reorder_notifications > HELD {
        return Err(Wrong::bad(format!("reorderNotifications must be at most {HELD}")).plainly());
    }
    let mut world = sim.world();
    world.faults = faults;
    // What was held for others that will not be held any more would be held for ever.
    world.queue.release();
    Ok(Json(json!(world.faults)))
}

async fn rotate(State(sim): State<Sim>) -> Answer {
    let key = tokio::task::spawn_blocking(SigningKey::generate).await;
    let key = key.map_err(|error| Wrong::conflict(format!("no key was made: {error}")).plainly())?;
    let kid = key.kid().to_owned();
    sim.world().key = key;
    Ok(Json(json!({"kid": kid})))
}

async fn resend(State(sim): State<Sim>, Path(id): Path<String>) -> Answer {
    let id = id.parse().map_err(|_| Wrong::unknown("there is no such notification").plainly())?;
    let mut world = sim.world();
    let now = world.now;
    let notification = world.queue.resend(id, now).map_err(Wrong::plainly)?;
    Ok(Json(json!(notification)))
}

async fn subscribe(State(sim): State<Sim>, body: Bytes) -> Answer {
    let new: NewSubscription = read(&body).map_err(Wrong::plainly)?;
    let mut world = sim.world();
    let (id, token) = world.subscribe(new).map_err(Wrong::plainly)?;
    let subscription = world.subscriptions.get(&id).map(Subscription::json);
    Ok(Json(json!({"subscription": subscription, "token": token})))
}

async fn act(State(sim): State<Sim>, Path((id, action)): Path<(String, String)>, body: Bytes) -> Answer {
    let change: Change = read(&body).map_err(Wrong::plainly)?;
    let mut world = sim.world();
    world.room(world.agenda.len(), "things to come").map_err(Wrong::plainly)?;
    let operation = world.act(&id, &action, &change).map_err(Wrong::plainly)?;
    Ok(Json(json!({"operationId": operation})))
}

async fn agree(State(sim): State<Sim>, body: Bytes) -> Answer {
    let new: NewAgreement = read(&body).map_err(Wrong::plainly)?;
    let mut world = sim.world();
    let id = world.agree(new, "NEW").map_err(Wrong::plainly)?;
    Ok(Json(shown_agreement(&world, &id)))
}

fn shown_agreement(world: &World, id: &str) -> Value {
    world.agreements.get(id).map_or(Value::Null, Agreement::json)
}

async fn act_on_agreement(State(sim): State<Sim>, Path((id, action)): Path<(String, String)>, body: Bytes) -> Answer {
    let fields: NewAgreement = read(&body).map_err(Wrong::plainly)?;
    sim.world().act_on_agreement(&id, &action, fields).map(Json).map_err(Wrong::plainly)
}

async fn decide(State(sim): State<Sim>, Path((id, action)): Path<(String, String)>, body: Bytes) -> Answer {
    let acceptance: Acceptance = read(&body).map_err(Wrong::plainly)?;
    let mut world = sim.world();
    let decided = match action.as_str() {
        "accept" => world.accept_offer(&id, acceptance),
        "expire" => world.expire_offer(&id),
        _ => Err(Wrong::unknown(format!("nothing is known of {action:?}"))),
    };
    decided.map(Json).map_err(Wrong::plainly)
}
