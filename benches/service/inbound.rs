//! Notifications: how long a marketplace waits for the answer, at a rate that is kept whatever the answers take, while the
//! worker applies what came before. The floor is the bare commit of rows of that size, at the same rate. `cloud_b` stands in this process, with
//! its own keys: each of its notifications carries a real JWT, and applying it asks for the subscription.

use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use clap::Parser;
use mercato::app::{App, Workers};
use mercato::call::{Call, Caller};
use mercato::config::{Command, CommandLine, ListenOptions};
use mercato::model::id::OrganizationId;
use mercato::model::notification::NotificationFilter;
use mercato::model::page::PageRequest;
use mercato::model::vendor::Vendor;
use mercato::resolvers::{marketplaces, notifications};
use serde_json::{Value, json};
use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::types::RecordId;

use crate::place::Place;
use crate::report::Line;
use crate::scale::Scale;

/// Notifications a second, half of them of each marketplace.
const RATE: u32 = 200;
/// How often each contract is told of.
const TOLD: usize = 5;
/// What was promised, in milliseconds.
const BOUND: f64 = 100.0;
const MARKETPLACE: &str = "20e940b3-4c77-4b0b-9a53-9e16a1b010a7";

pub async fn measure(scale: &Scale) -> Vec<Line> {
    let floor = bare(scale.notifications).await;
    let (keys, token) = keys_and_token();
    let cloud = serve_cloud_b(keys).await;
    let place = Place::new();
    let store = place.store().await;
    let organization = store.create_organization("Bench").await.expect("an organization can be made");
    let app = App::start(store.clone(), &options(), Workers::Running).await.expect("a free port can be had");
    let call = Call::new(store.clone(), Caller::Operator { organization }, None);
    for (vendor, account) in accounts(&cloud) {
        marketplaces::connect(&call, vendor, &account.to_string()).await.expect("the account is kept");
    }
    let (took, began) = (tell_all(&app, organization, &token, scale.notifications).await, Instant::now());
    wait_until_applied(&call).await;
    let applied =
        Line::note("  from the last answer until all were applied", format!("{:.1} s", began.elapsed().as_secs_f64()));
    app.stop().await;
    vec![
        against("answering a notification, 200 a second, p50", &floor, &took, 500),
        against("answering a notification, 200 a second, p99", &floor, &took, 990),
        applied,
    ]
}

fn against(what: &str, floor: &[Duration], ours: &[Duration], share: usize) -> Line {
    let at = |took: &[Duration]| took[took.len() * share / 1000].as_secs_f64() * 1000.0;
    Line {
        floor: format!("{:.1} ms", at(floor)),
        ratio: format!("{:.2}", at(ours) / at(floor)),
        ..Line::at_most(what, at(ours), BOUND, "ms")
    }
}

/// How long each commit of a bare row took, sorted.
async fn bare(count: usize) -> Vec<Duration> {
    let place = Place::new();
    drop(place.store().await);
    let db = place.raw().await;
    let body = picture(0, "floor", 0).to_string();
    at_rate((0..count).map(|number| {
        let (db, body) = (db.clone(), body.clone());
        async move {
            let record = RecordId::new("bare", i64::try_from(number).expect("it is small"));
            // Commits of the same moment may collide; whoever lost commits again.
            while let Err(error) = commit(&db, &record, &body).await {
                assert!(error.to_string().contains("can be retried"), "the row is new: {error}");
            }
        }
    }))
    .await
}

async fn commit(db: &Surreal<Any>, record: &RecordId, body: &str) -> Result<(), surrealdb::Error> {
    const KEEP: &str = "CREATE ONLY $record CONTENT { body: $body } RETURN NONE";
    let written = db.query(KEEP).bind(("record", record.clone())).bind(("body", body.to_owned())).await;
    written.and_then(surrealdb::IndexedResults::check).map(drop)
}

/// How long each took from the moment when it should have begun, sorted.
async fn at_rate<F>(requests: impl Iterator<Item = F>) -> Vec<Duration>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut ticks, mut senders) = (tokio::time::interval(Duration::from_secs(1) / RATE), tokio::task::JoinSet::new());
    for request in requests {
        let due = ticks.tick().await;
        senders.spawn(async move {
            request.await;
            due.elapsed()
        });
    }
    let mut took = senders.join_all().await;
    took.sort_unstable();
    took
}

/// How long each answer took, sorted.
async fn tell_all(app: &App, organization: OrganizationId, token: &str, count: usize) -> Vec<Duration> {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let contracts = count / TOLD;
    at_rate((0..count).map(|number| {
        let (contract, time) = (number % contracts, number / contracts);
        let id = format!("{contract}-{time}");
        let told = |vendor: &str| client.post(format!("{}/marketplace/{vendor}/{organization}", app.base_url));
        let request = if contract.is_multiple_of(2) {
            told("cloud_a").header("x-mercato-secret", "told").json(&picture(contract, &id, time))
        } else {
            told("cloud_b").bearer_auth(token).json(&reason_to_ask(contract, &id))
        };
        async move {
            let answer = request.send().await.expect("the service answers");
            assert_eq!(answer.status(), 200);
            drop(answer.bytes().await.expect("the answer is whole"));
        }
    }))
    .await
}

async fn wait_until_applied(call: &Call) {
    let filter = NotificationFilter { waiting: Some(true), ..NotificationFilter::default() };
    loop {
        let page = PageRequest::from_arguments(Some(1), None);
        let waiting = notifications::list(call, filter.clone(), page).await.expect("the list can be read");
        if waiting.items.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn picture(agreement: usize, id: &str, time: usize) -> Value {
    let kind = if time == 0 { "Purchase Agreement Created" } else { "Purchase Agreement Amended" };
    json!({
        "version": "0", "id": id, "detail-type": kind, "source": "aws.agreement-marketplace", "time": now(),
        "detail": {
            "agreement": { "id": format!("agmt-{agreement}"), "intent": "NEW", "status": "ACTIVE",
                           "acceptanceTime": "2026-01-01T00:00:00Z", "startTime": "2026-01-01T00:00:00Z" },
            "acceptor": { "accountId": format!("buyer-{agreement}") }, "product": { "id": "lst_1", "code": "code-1" },
            "license": { "arn": "arn:licence" }, "dimensions": [{ "key": "seats", "value": time + 1 }],
        },
    })
}

fn reason_to_ask(subscription: usize, id: &str) -> Value {
    json!({ "id": id, "action": "Renew", "subscriptionId": format!("sub-{subscription}"), "publisherId": "publisher-1",
            "offerId": "lst_1", "planId": "gold", "timeStamp": now(), "status": "Succeeded" })
}

fn now() -> Value {
    json!(mercato::clock::Clock::system().now())
}

fn accounts(cloud: &str) -> [(Vendor, Value); 2] {
    let a = json!({
        "vendor": "cloud_a", "accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "secret", "region": "us-east-1",
        "meteringUrl": cloud, "catalogUrl": cloud, "agreementsUrl": cloud, "notificationSecret": "told",
    });
    let b = json!({
        "vendor": "cloud_b", "tenantId": "tenant-1", "clientId": "client-1", "clientSecret": "secret",
        "tokenUrl": format!("{cloud}/token"), "baseUrl": cloud, "ingestionUrl": cloud,
        "keysUrl": format!("{cloud}/keys"), "audience": "client-1", "publisherId": "publisher-1",
    });
    [(Vendor::CloudA, a), (Vendor::CloudB, b)]
}

/// A set of keys, and a token that is good by it for an hour.
fn keys_and_token() -> (Value, String) {
    let pair = KeyPair::generate(KeySize::Rsa2048).expect("a key");
    // RFC 8017's form: after nine bytes the modulus, and the exponent at the end.
    let der = pair.public_key().as_ref();
    let (modulus, exponent) = (BASE64.encode(&der[9..9 + 256]), BASE64.encode(&der[der.len() - 3..]));
    let set = json!({ "keys": [{ "kty": "RSA", "use": "sig", "kid": "k1", "n": modulus, "e": exponent }] });
    let expires = mercato::clock::Clock::system().now().as_seconds() + 3600;
    let header = json!({ "alg": "RS256", "kid": "k1", "typ": "JWT" });
    let claims = json!({ "aud": "client-1", "tid": "tenant-1", "appid": MARKETPLACE, "exp": expires });
    let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).expect("a signature");
    (set, format!("{text}.{}", BASE64.encode(signature)))
}

/// The other side: keys, bearer tokens, and every subscription in force. Its address.
async fn serve_cloud_b(keys: Value) -> String {
    let subscription = |Path(id): Path<String>| async move {
        Json(json!({
            "id": id, "name": id, "publisherId": "publisher-1", "offerId": "lst_1", "planId": "gold", "quantity": 5,
            "beneficiary": { "emailId": "ann@northwind.example", "tenantId": format!("tenant-of-{id}") },
            "purchaser": {}, "autoRenew": true, "isTest": false, "saasSubscriptionStatus": "Subscribed",
            "term": { "startDate": "2026-01-01T00:00:00Z", "endDate": "2099-01-01T00:00:00Z", "termUnit": "P1M" },
        }))
    };
    let granted = json!({ "access_token": "token", "token_type": "Bearer", "expires_in": 3600 });
    let router = Router::new()
        .route("/keys", get(move || std::future::ready(Json(keys.clone()))))
        .route("/token", post(move || std::future::ready(Json(granted.clone()))))
        .route("/api/saas/subscriptions/{id}", get(subscription));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port can be had");
    let address = listener.local_addr().expect("a bound listener has an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// As `serve` has them, on a free port, with `cloud_b` on this machine.
fn options() -> ListenOptions {
    let words = ["mercato", "serve", "--listen", "127.0.0.1:0", "--marketplace-allow-subnet", "127.0.0.0/8"];
    match CommandLine::try_parse_from(words).expect("the command line is valid").command {
        Command::Serve(options) => options.listen,
        other => unreachable!("{other:?} is not serve"),
    }
}
