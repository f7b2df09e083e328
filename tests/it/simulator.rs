//! The simulator of the marketplaces, over its own wire (`docs/marketplaces.md`).
//!
//! [`Stage`] is a simulator on a manual clock with one publisher at both marketplaces, and a receiver of its notifications.

mod cloud_a;
mod cloud_b;
mod control;
mod offers;
mod usage;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use axum::Router;
use axum::extract::State;
use bytes::Bytes;
use chrono::TimeDelta;
use http::{HeaderMap, StatusCode};
use mercato::clock::Clock;
use mercato::http::server::{Limits, serve};
use mercato::marketplace::simulator::{MOST, Simulator, SimulatorSettings};
use mercato::model::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

const TENANT: &str = "11111111-1111-1111-1111-111111111111";
const CLIENT: &str = "22222222-2222-2222-2222-222222222222";
const ACCOUNT: &str = "123456789012";
const SAAS: &str = "api-version=2018-08-31";

/// What was received, and how the next requests are answered: 200 when nothing is said.
#[derive(Clone, Default)]
struct Receiver {
    received: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
    answers: Arc<Mutex<VecDeque<u16>>>,
}

impl Receiver {
    fn answer(&self, headers: HeaderMap, body: &[u8]) -> StatusCode {
        let body = serde_json::from_slice(body).expect("JSON");
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push((headers, body));
        let status = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(200);
        StatusCode::from_u16(status).expect("a status")
    }

    fn take(&self) -> Vec<(HeaderMap, Value)> {
        std::mem::take(&mut *self.received.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer_next(&self, statuses: &[u16]) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).extend(statuses);
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    receiver.answer(headers, &body)
}

struct Stage {
    simulator: Simulator,
    clock: Clock,
    http: reqwest::Client,
    receiver: Receiver,
    bearer: String,
    _receiving: watch::Sender<bool>,
}

impl Stage {
    async fn new() -> Self {
        Self::of(MOST).await
    }

    /// Whose lists hold so much.
    async fn of(most: usize) -> Self {
        let clock = Clock::manual();
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let settings = SimulatorSettings { listen, publish: TimeDelta::seconds(60), clock: clock.clone(), most };
        let simulator = Simulator::start(settings).await.expect("the simulator starts");
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_mins(1)).build().expect("a client");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let hook = format!("http://{}", listener.local_addr().expect("an address"));
        let receiver = Receiver::default();
        let router = Router::new().fallback(receive).with_state(receiver.clone());
        let (receiving, stop) = watch::channel(false);
        tokio::spawn(serve(listener, router, Limits::default(), Arc::default(), stop));
        let mut stage = Self { simulator, clock, http, receiver, bearer: String::new(), _receiving: receiving };
        stage.control(Method::PUT, "publishers/acme", publisher(&hook)).await.ok();
        stage.bearer = stage.fresh_bearer().await;
        stage
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answered {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("text");
        Answered { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::Null) }
    }

    async fn control(&self, method: Method, path: &str, body: Value) -> Answered {
        self.send(self.http.request(method, format!("{}/control/{path}", self.simulator.url())).json(&body)).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.control(Method::POST, path, body).await.ok()
    }

    async fn state(&self) -> Value {
        self.send(self.http.get(format!("{}/control", self.simulator.url()))).await.ok()
    }

    async fn faults(&self, faults: Value) {
        self.control(Method::PUT, "faults", faults).await.ok();
    }

    async fn advance(&self, by: TimeDelta) {
        self.post("advance", json!({"seconds": by.num_seconds()})).await;
    }

    /// The simulator's time, with what was advanced.
    async fn now(&self) -> Timestamp {
        self.state().await["now"].as_str().expect("a time").parse().expect("a moment")
    }

    /// Everything that was told since the last time, once all is told.
    async fn told(&self) -> Vec<Value> {
        let settled = self.post("settle", json!({})).await;
        assert_eq!(settled["settled"], json!(true), "{settled}");
        self.receiver.take().into_iter().map(|(_, body)| body).collect()
    }

    /// The kinds of what was told since the last time.
    async fn kinds(&self) -> Vec<String> {
        let kind = |body: &Value| body.get("action").or(body.get("detail-type")).cloned();
        let told = self.told().await;
        told.iter().map(|body| kind(body).expect("a kind").as_str().expect("a text").to_owned()).collect()
    }

    async fn token(&self, secret: &str) -> Answered {
        let url = format!("{}/cloud_b/{TENANT}/oauth2/v2.0/token", self.simulator.url());
        let form =
            format!("grant_type=client_credentials&client_id={CLIENT}&client_secret={secret}&scope=x%2F.default");
        self.send(self.http.post(url).header("content-type", "application/x-www-form-urlencoded").body(form)).await
    }

    async fn fresh_bearer(&self) -> String {
        let answer = self.token("s3cret").await.ok();
        answer["access_token"].as_str().expect("a token").to_owned()
    }

    fn b(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let separator = if path.contains('?') { '&' } else { '?' };
        let url = format!("{}/cloud_b/{path}{separator}{SAAS}", self.simulator.url());
        self.http.request(method, url).bearer_auth(&self.bearer)
    }

    /// A subscription of two seats, not yet activated.
    async fn bought(&self) -> (String, String) {
        let new =
            json!({"publisher": "acme", "offerId": "suite", "planId": "gold", "quantity": 2, "tenantId": "buyer"});
        let made = self.post("cloud_b/subscriptions", new).await;
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        (text(&made["subscription"]["id"]), text(&made["token"]))
    }

    async fn activate(&self, id: &str, body: Value) -> u16 {
        let path = format!("api/saas/subscriptions/{id}/activate");
        self.send(self.b(Method::POST, &path).json(&body)).await.status
    }

    async fn subscribed(&self) -> String {
        let (id, _) = self.bought().await;
        assert_eq!(self.activate(&id, json!({"planId": "gold", "quantity": 2})).await, 200);
        assert_eq!(self.kinds().await, ["Subscribe"]);
        id
    }

    async fn subscription(&self, id: &str) -> Value {
        self.send(self.b(Method::GET, &format!("api/saas/subscriptions/{id}"))).await.ok()
    }

    async fn act(&self, id: &str, action: &str, change: Value) -> String {
        let done = self.post(&format!("cloud_b/subscriptions/{id}/{action}"), change).await;
        done["operationId"].as_str().expect("an id").to_owned()
    }

    async fn operation(&self, id: &str, operation: &str) -> Value {
        self.send(self.b(Method::GET, &format!("api/saas/subscriptions/{id}/operations/{operation}"))).await.ok()
    }

    async fn settle(&self, id: &str, operation: &str, status: &str) -> u16 {
        let path = format!("api/saas/subscriptions/{id}/operations/{operation}");
        self.send(self.b(Method::PATCH, &path).json(&json!({"status": status}))).await.status
    }

    async fn usage(&self, events: &[Value]) -> Answered {
        self.send(self.b(Method::POST, "api/batchUsageEvent").json(&json!({"request": events}))).await
    }

    /// A signed call of cloud_a.
    async fn a(&self, call: A<'_>) -> Answered {
        let url = format!("{}/cloud_a/{}", self.simulator.url(), call.path);
        let body = call.body.map(ToString::to_string).unwrap_or_default();
        let mut headers = vec![("content-type", "application/x-amz-json-1.1")];
        headers.extend(call.target.map(|target| ("x-amz-target", target)));
        let identity = Credentials::new(call.key, call.secret, None, None, "test").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("aws-marketplace")
            .time(SystemTime::from((self.clock.now().plus(call.late)).as_datetime()))
            .settings(SigningSettings::default())
            .build()
            .expect("params")
            .into();
        let method = if call.body.is_some() { Method::POST } else { Method::GET };
        let signed = SignableBody::Bytes(body.as_bytes());
        let request = SignableRequest::new(method.as_str(), &url, headers.iter().copied(), signed).expect("a request");
        let (instructions, _) = sign(request, &params).expect("a signature").into_parts();
        let mut request = self.http.request(method, &url);
        for (name, value) in headers.into_iter().chain(instructions.headers()) {
            request = request.header(name, value);
        }
        let sent = if call.tampered { body.replace("prod-1", "prod-2") } else { body };
        self.send(request.body(sent)).await
    }

    async fn batch(&self, records: &[Value]) -> Answered {
        let body = json!({"ProductCode": "code-1", "UsageRecords": records});
        self.a(A { target: Some("AWSMPMeteringService.BatchMeterUsage"), ..A::post("", &body) }).await
    }

    async fn agreed(&self, more: Value) -> Value {
        let mut new =
            json!({"publisher": "acme", "accountId": ACCOUNT, "productId": "prod-1", "productCode": "code-1"});
        for (field, value) in more.as_object().expect("an object") {
            new[field] = value.clone();
        }
        self.post("cloud_a/agreements", new).await
    }

    /// The id of a change set that makes an offer and releases it.
    async fn submitted(&self, first: Value, token: &str) -> String {
        let mut changes = vec![first];
        for (kind, details) in [
            ("UpdateTargeting", json!({"PositiveTargeting": {"BuyerAccounts": [ACCOUNT]}})),
            ("UpdatePricingTerms", json!({"DiscountPercentage": "10", "DurationMonths": 12, "CurrencyCode": "USD"})),
            ("UpdateLegalTerms", json!({})),
            ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-02-01"})),
            ("ReleaseOffer", json!({})),
        ] {
            changes.push(change(kind, details));
        }
        let reply = self.change_set(token, changes).await;
        reply.ok()["ChangeSetId"].as_str().expect("an id").to_owned()
    }

    async fn change_set(&self, token: &str, changes: Vec<Value>) -> Answered {
        let body = json!({"Catalog": "AWSMarketplace", "ChangeSetName": "our-1", "ClientRequestToken": token, "ChangeSet": changes});
        self.a(A::post("StartChangeSet", &body)).await
    }

    async fn described(&self, id: &str) -> Value {
        let path = format!("DescribeChangeSet?catalog=AWSMarketplace&changeSetId={id}");
        self.a(A { path: &path, ..A::default() }).await.ok()
    }
}

/// A call of cloud_a: as it should be, unless told otherwise.
struct A<'a> {
    path: &'a str,
    target: Option<&'a str>,
    body: Option<&'a Value>,
    key: &'a str,
    secret: &'a str,
    late: TimeDelta,
    tampered: bool,
}

impl Default for A<'_> {
    fn default() -> Self {
        let late = TimeDelta::zero();
        Self { path: "", target: None, body: None, key: "AKIA1", secret: "hush", late, tampered: false }
    }
}

impl<'a> A<'a> {
    fn post(path: &'a str, body: &'a Value) -> Self {
        Self { path, body: Some(body), ..Self::default() }
    }
}

struct Answered {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answered {
    #[track_caller]
    fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.body);
        self.body
    }

    /// The kind of a refusal of cloud_a.
    #[track_caller]
    fn refused(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{}", self.body);
        self.body["__type"].as_str().and_then(|kind| kind.split('#').nth(1)).expect("a kind")
    }
}

fn publisher(hook: &str) -> Value {
    json!({
        "cloudB": {"tenantId": TENANT, "clientId": CLIENT, "clientSecret": "s3cret", "publisherId": "acme-inc",
            "notificationUrl": format!("{hook}/b")},
        "cloudA": {"accessKeyId": "AKIA1", "secretAccessKey": "hush", "region": "us-east-1",
            "notificationUrl": format!("{hook}/a"), "secret": "shared"},
    })
}

fn change(kind: &str, details: Value) -> Value {
    json!({"ChangeType": kind, "Entity": {"Type": "Offer@1.0"}, "DetailsDocument": details})
}

fn create_offer() -> Value {
    change("CreateOffer", json!({"ProductId": "prod-1", "Name": "An offer"}))
}

fn event(resource: &str, at: Timestamp, quantity: Value) -> Value {
    json!({"resourceId": resource, "quantity": quantity, "dimension": "calls", "effectiveStartTime": at, "planId": "gold"})
}

fn record(at: Timestamp, dimension: &str, quantity: Value) -> Value {
    json!({"Timestamp": at.as_seconds(), "CustomerAWSAccountId": ACCOUNT, "Dimension": dimension, "Quantity": quantity})
}

fn statuses(body: &Value) -> Vec<&str> {
    let results = body.get("result").or(body.get("Results")).and_then(Value::as_array).expect("results");
    let status = |row: &'_ Value| row.get("status").or(row.get("Status")).cloned();
    assert!(results.iter().all(|row| status(row).is_some()));
    results.iter().filter_map(|row| row.get("status").or(row.get("Status"))?.as_str()).collect()
}
