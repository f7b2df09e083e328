//! The simulator of the marketplaces, over its own wire (`docs/marketplaces.md`).
//!
//! [`Stage`] is a simulator on a manual clock with one publisher at both marketplaces, and a receiver of its notifications.

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
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_resolved_and_activated() {
    let stage = Stage::new().await;
    let (id, token) = stage.bought().await;
    let resolve = |token: String| {
        stage.send(stage.b(Method::POST, "api/saas/subscriptions/resolve").header("x-ms-marketplace-token", token))
    };
    let resolved = resolve(token.clone()).await.ok();
    assert_eq!(resolved["id"], json!(id));
    assert_eq!(resolved["quantity"], json!(2));
    assert_eq!(resolved["subscription"]["saasSubscriptionStatus"], json!("PendingFulfillmentStart"));
    assert_eq!(resolve("wrong".to_owned()).await.status, 400);

    assert_eq!(stage.activate(&id, json!({"planId": "silver", "quantity": 2})).await, 400);
    assert_eq!(stage.activate(&id, json!({"planId": "gold", "quantity": 3})).await, 400);
    assert_eq!(stage.activate("nobody", json!({"planId": "gold"})).await, 404);
    assert_eq!(stage.activate(&id, json!({"planId": "gold", "quantity": 2})).await, 200);
    assert_eq!(stage.activate(&id, json!({"planId": "gold", "quantity": 2})).await, 200);
    let subscription = stage.subscription(&id).await;
    assert_eq!(subscription["saasSubscriptionStatus"], json!("Subscribed"));
    assert_eq!(subscription["term"]["termUnit"], json!("P1M"));
    assert_eq!(subscription["term"]["endDate"], json!("2026-02-05T10:00:00.000Z"));

    stage.advance(TimeDelta::hours(25)).await;
    assert_eq!(resolve(token).await.status, 400, "a token is good for 24 hours");
    let all = stage.send(stage.b(Method::GET, "api/saas/subscriptions")).await.ok();
    assert_eq!(all["subscriptions"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_of_cloud_b_need_a_token_that_is_good() {
    let mut stage = Stage::new().await;
    let refused = stage.token("wrong").await;
    assert_eq!((refused.status, &refused.body["error"]), (401, &json!("invalid_client")));
    let url = format!("{}/cloud_b/api/saas/subscriptions?{SAAS}", stage.simulator.url());
    assert_eq!(stage.send(stage.http.get(&url)).await.status, 401);
    assert_eq!(stage.send(stage.http.get(&url).bearer_auth("wrong")).await.status, 403);
    assert_eq!(stage.send(stage.http.get(&url).bearer_auth(&stage.bearer)).await.status, 200);
    stage.advance(TimeDelta::hours(25)).await;
    assert_eq!(
        stage.send(stage.http.get(&url).bearer_auth(&stage.bearer)).await.status,
        200,
        "the machine's clock counts"
    );
    stage.clock.advance(TimeDelta::hours(1));
    assert_eq!(stage.send(stage.http.get(&url).bearer_auth(&stage.bearer)).await.status, 403);
    stage.bearer = stage.fresh_bearer().await;
    assert_eq!(stage.send(stage.http.get(&url).bearer_auth(&stage.bearer)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_wait_for_the_publisher_or_ten_seconds() {
    let stage = Stage::new().await;
    let id = stage.subscribed().await;
    let plan = stage.act(&id, "ChangePlan", json!({"planId": "silver"})).await;
    let told = stage.told().await;
    assert_eq!((&told[0]["id"], &told[0]["action"]), (&json!(plan), &json!("ChangePlan")));
    assert_eq!((&told[0]["planId"], &told[0]["subscription"]["planId"]), (&json!("silver"), &json!("gold")));
    assert_eq!(told[0]["status"], json!("InProgress"));
    let path = format!("cloud_b/subscriptions/{id}/ChangeQuantity");
    let again = stage.control(Method::POST, &path, json!({"quantity": 5})).await;
    assert_eq!(again.status, 409, "one operation at a time");
    assert_eq!(stage.subscription(&id).await["planId"], json!("gold"));
    assert_eq!(stage.settle(&id, &plan, "Success").await, 200);
    assert_eq!(stage.settle(&id, &plan, "Failure").await, 409);
    assert_eq!(stage.subscription(&id).await["planId"], json!("silver"));

    let refused = stage.act(&id, "ChangeQuantity", json!({"quantity": 9})).await;
    assert_eq!(stage.settle(&id, &refused, "Failure").await, 200);
    stage.advance(TimeDelta::seconds(11)).await;
    assert_eq!(stage.operation(&id, &refused).await["status"], json!("Failed"));
    assert_eq!(stage.subscription(&id).await["quantity"], json!(2));

    let silent = stage.act(&id, "ChangeQuantity", json!({"quantity": 7})).await;
    stage.advance(TimeDelta::seconds(9)).await;
    assert_eq!(stage.operation(&id, &silent).await["status"], json!("InProgress"));
    stage.advance(TimeDelta::seconds(1)).await;
    assert_eq!(stage.operation(&id, &silent).await["status"], json!("Succeeded"));
    assert_eq!(stage.subscription(&id).await["quantity"], json!(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_suspended_reinstated_renewed_and_ended() {
    let stage = Stage::new().await;
    let id = stage.subscribed().await;
    stage.act(&id, "Suspend", json!({})).await;
    assert_eq!(stage.subscription(&id).await["saasSubscriptionStatus"], json!("Suspended"));
    let operation = stage.act(&id, "Reinstate", json!({})).await;
    stage.advance(TimeDelta::minutes(10)).await;
    assert_eq!(stage.subscription(&id).await["saasSubscriptionStatus"], json!("Suspended"), "it waits for the word");
    assert_eq!(stage.settle(&id, &operation, "Success").await, 200);
    assert_eq!(stage.subscription(&id).await["saasSubscriptionStatus"], json!("Subscribed"));
    assert_eq!(stage.kinds().await, ["Suspend", "Reinstate"]);

    stage.act(&id, "Renew", json!({})).await;
    assert_eq!(stage.subscription(&id).await["term"]["endDate"], json!("2026-03-05T10:00:00.000Z"));
    stage.advance(TimeDelta::days(100)).await;
    assert_eq!(stage.kinds().await, ["Renew", "Renew", "Renew"], "terms end by the clock");
    assert_eq!(stage.subscription(&id).await["term"]["endDate"], json!("2026-05-05T10:00:00.000Z"));

    stage.act(&id, "Danced", json!({})).await;
    stage.act(&id, "Unsubscribe", json!({})).await;
    assert_eq!(stage.kinds().await, ["Danced", "Unsubscribe"]);
    assert_eq!(stage.activate(&id, json!({"planId": "gold", "quantity": 2})).await, 404);
    let path = format!("cloud_b/subscriptions/{id}/Renew");
    assert_eq!(stage.control(Method::POST, &path, json!({})).await.status, 409, "the end is final");
    stage.advance(TimeDelta::days(100)).await;
    assert!(stage.told().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_ends_after_thirty_days_and_a_term_without_renewal_at_its_end() {
    let stage = Stage::new().await;
    let id = stage.subscribed().await;
    stage.act(&id, "Suspend", json!({})).await;
    stage.advance(TimeDelta::days(29)).await;
    assert_eq!(stage.kinds().await, ["Suspend"]);
    stage.advance(TimeDelta::days(1)).await;
    assert_eq!(stage.kinds().await, ["Unsubscribe"]);
    let new = json!({"publisher": "acme", "offerId": "o", "planId": "p", "tenantId": "t", "autoRenew": false});
    let made = stage.post("cloud_b/subscriptions", new).await;
    let id = made["subscription"]["id"].as_str().expect("an id");
    assert_eq!(stage.activate(id, json!({"planId": "p"})).await, 200);
    stage.advance(TimeDelta::days(31)).await;
    assert_eq!(stage.kinds().await, ["Subscribe", "Unsubscribe"]);
    assert_eq!(stage.subscription(id).await["saasSubscriptionStatus"], json!("Unsubscribed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_of_cloud_b_carry_a_token_of_the_published_key() {
    let stage = Stage::new().await;
    let mut checked = Vec::new();
    for _ in 0..2 {
        stage.bought().await;
        stage.post("settle", json!({})).await;
        let (headers, _) = stage.receiver.take().pop().expect("a notification");
        let token =
            headers["authorization"].to_str().expect("text").strip_prefix("Bearer ").expect("a bearer").to_owned();
        let set = stage.send(stage.http.get(format!("{}/cloud_b/keys", stage.simulator.url()))).await.ok();
        let (n, e) = (set["keys"][0]["n"].as_str().expect("n"), set["keys"][0]["e"].as_str().expect("e"));
        let key = DecodingKey::from_rsa_components(n, e).expect("a key");
        let mut rules = Validation::new(Algorithm::RS256);
        rules.set_audience(&[CLIENT]);
        // The token is of the manual clock's time.
        rules.validate_exp = false;
        let read = jsonwebtoken::decode::<Value>(&token, &key, &rules).expect("a token of this key");
        assert_eq!(json!(read.header.kid), set["keys"][0]["kid"]);
        assert_eq!(read.claims["tid"], json!(TENANT));
        assert_eq!(read.claims["exp"], json!(stage.clock.now().as_seconds() + 3600));
        assert!(read.claims["appid"].is_string());
        checked.push(read.header.kid);
        stage.post("keys/rotate", json!({})).await;
    }
    assert_ne!(checked[0], checked[1], "the key was rotated");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_cloud_b_is_accepted_by_its_rules() {
    let stage = Stage::new().await;
    let (id, now) = (stage.subscribed().await, stage.now().await);
    let (waiting, _) = stage.bought().await;
    stage.control(Method::PUT, "dimensions", json!({"suite": ["calls"]})).await.ok();
    let mut other_plan = event(&id, now, json!(1));
    other_plan["planId"] = json!("silver");
    let mut other_dimension = event(&id, now, json!(1));
    other_dimension["dimension"] = json!("dances");
    let hour = TimeDelta::hours(1);
    let events = [
        event(&id, now, json!(2.5)),
        event(&id, now.plus(TimeDelta::minutes(-1)), json!(1)),
        event(&id, now, json!(9)),
        event(&id, now.plus(hour * -24), json!(0.000_001)),
        event(&id, now.plus(hour * -25), json!(1)),
        event(&waiting, now, json!(1)),
        event("nobody", now, json!(1)),
        event(&id, now.plus(hour * -2), json!(0)),
        event(&id, now.plus(hour), json!(1)),
        other_plan,
        other_dimension,
    ];
    let body = stage.usage(&events).await.ok();
    let expected = [
        "Accepted",
        "Accepted",
        "Duplicate",
        "Accepted",
        "Expired",
        "ResourceNotActive",
        "ResourceNotFound",
        "InvalidQuantity",
        "BadArgument",
        "BadArgument",
        "InvalidDimension",
    ];
    assert_eq!(statuses(&body), expected);
    assert_eq!(body["count"], json!(11));
    let accepted = &body["result"][2]["error"]["additionalInfo"]["acceptedMessage"];
    assert_eq!((&accepted["quantity"], &accepted["status"]), (&json!(2.5), &json!("Duplicate")));
    assert_eq!(accepted["usageEventId"], body["result"][0]["usageEventId"]);

    let many = vec![event(&id, now, json!(1)); 26];
    assert_eq!(stage.usage(&many).await.status, 400);
    assert_eq!(stage.usage(&[]).await.status, 400);
    let days = stage.send(stage.b(Method::GET, "api/usageEvents?usageStartDate=2026-01-05")).await.ok();
    assert_eq!(days.as_array().map(Vec::len), Some(1), "{days}");
    assert_eq!((&days[0]["processedQuantity"], &days[0]["submittedCount"]), (&json!(3.5), &json!(2)));
    let days = stage.send(stage.b(Method::GET, "api/usageEvents?usageStartDate=2026-01-04")).await.ok();
    assert_eq!(days[0]["processedQuantity"], json!(0.000_001), "{days}");
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_of_every_type_have_what_belongs_to_them() {
    let stage = Stage::new().await;
    let url = format!("{}/cloud_b/rp/product-ingestion/configure", stage.simulator.url());
    let submit = |changed: Value| {
        let mut offer = json!({
            "name": "our-1", "state": "live", "privateOfferType": "customerPromotion",
            "offerPricingType": "editExistingOfferPricingOnly", "variableStartDate": true, "end": "2026-02-01",
            "acceptBy": "2026-02-01", "beneficiaries": [{"id": "buyer"}],
            "pricing": [{"product": "suite", "discountType": "percentage", "discountPercentage": 10, "durationMonths": 12}],
        });
        for (field, value) in changed.as_object().expect("an object") {
            offer[field] = value.clone();
        }
        let request = stage.http.post(format!("{url}?$version=2022-07-01")).bearer_auth(&stage.bearer);
        stage.send(request.json(&json!({"resources": [offer]})))
    };
    let (csp, multi) = ("cspPromotion", "multipartyPromotionOriginator");
    let margin = json!({"privateOfferType": csp, "acceptBy": null, "variableStartDate": false, "start": "2026-01-05"});
    let with = |changed: &Value, field: &str, value: Value| {
        let mut changed = changed.clone();
        changed[field] = value;
        changed
    };
    let amount = json!([{"product": "suite", "discountType": "absolute", "absoluteAmount": 10, "durationMonths": 12}]);
    let mut jobs = Vec::new();
    for (changed, said) in [
        (json!({}), ""),
        (json!({"privateOfferType": null}), "privateOfferType"),
        (json!({"acceptBy": null}), "acceptBy is missing"),
        (json!({"acceptBy": "2026-02-01T00:00:00.000Z"}), "acceptBy must be a date"),
        (json!({"end": null}), "end is missing"),
        (json!({"end": "2026-01-04", "acceptBy": "2026-01-04"}), "expired already"),
        (json!({"start": "2026-01-05"}), "there must be a start"),
        (margin.clone(), ""),
        (with(&margin, "acceptBy", json!("2026-02-01")), "not accepted"),
        (with(&margin, "pricing", amount), "a percentage"),
        (json!({"privateOfferType": multi}), "selling partner"),
        (json!({"privateOfferType": multi, "partners": [{"id": "12345678"}]}), ""),
    ] {
        let job = submit(changed.clone()).await.ok()["jobId"].as_str().expect("an id").to_owned();
        jobs.push((job, changed, said));
    }
    stage.advance(TimeDelta::seconds(60)).await;
    for (job, changed, said) in jobs {
        let asked = stage.http.get(format!("{url}/{job}/status?$version=2022-07-01")).bearer_auth(&stage.bearer);
        let done = stage.send(asked).await.ok();
        let failed = done["errors"][0]["message"].as_str().unwrap_or_default();
        assert_eq!(failed.is_empty(), said.is_empty(), "{changed}: {done}");
        assert!(failed.contains(said), "{changed}: {done}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulator_that_is_full_says_so() {
    let stage = Stage::of(3).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(stage.bought().await.0);
        stage.agreed(json!({})).await;
    }
    let bought = json!({"publisher": "acme", "offerId": "suite", "planId": "gold", "tenantId": "buyer"});
    let agreed = json!({"publisher": "acme", "accountId": ACCOUNT, "productId": "prod-1"});
    let changed = format!("cloud_b/subscriptions/{}/Suspend", ids[0]);
    for (path, body, what) in [
        ("cloud_b/subscriptions", bought, "3 subscriptions"),
        ("cloud_a/agreements", agreed, "3 agreements"),
        (&changed, json!({}), "3 things to come"),
    ] {
        let full = stage.control(Method::POST, path, body).await;
        assert_eq!(full.status, 507, "{path}: {}", full.body);
        assert!(full.body["message"].as_str().is_some_and(|text| text.contains(what)), "{}", full.body);
    }
    assert_eq!(stage.activate(&ids[0], json!({"planId": "gold", "quantity": 2})).await, 200);
    let now = stage.now().await;
    let events: Vec<Value> = (0..3).map(|hours| event(&ids[0], now.plus(TimeDelta::hours(-hours)), json!(1))).collect();
    assert_eq!(statuses(&stage.usage(&events).await.ok()), ["Accepted"; 3]);
    let full = stage.usage(&events).await;
    assert_eq!((full.status, &full.body["error"]["code"]), (507, &json!("InsufficientStorage")));
    assert_eq!(stage.batch(&[record(now, "seats", json!(1))]).await.refused(507), "ServiceQuotaExceededException");
    let held = stage.control(Method::PUT, "faults", json!({"reorderNotifications": 1001})).await;
    assert_eq!((held.status, held.body["message"].is_string()), (400, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_notifications_that_wait_the_oldest_are_given_up() {
    let stage = Stage::of(3).await;
    stage.faults(json!({"delayNotifications": {"count": 4, "seconds": 60}})).await;
    for _ in 0..2 {
        stage.agreed(json!({})).await;
    }
    let all = stage.state().await["notifications"].as_array().expect("a list").clone();
    let states: Vec<_> = all.iter().filter_map(|it| it["state"].as_str()).collect();
    assert_eq!(states, ["givenUp", "waiting", "waiting", "waiting"]);
    stage.advance(TimeDelta::minutes(1)).await;
    assert_eq!(stage.told().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_offer_of_cloud_b_is_published_accepted_and_replaced() {
    let stage = Stage::new().await;
    let configure = |name: &str, more: Value| {
        let mut offer = json!({
            "$schema": "private-offer/2023-07-15", "name": name, "state": "live",
            "privateOfferType": "customerPromotion", "offerPricingType": "editExistingOfferPricingOnly",
            "variableStartDate": true, "end": "2026-02-01", "acceptBy": "2026-02-01",
            "beneficiaries": [{"id": "buyer"}],
            "pricing": [{"product": "suite", "discountType": "percentage", "discountPercentage": 10, "durationMonths": 12}],
        });
        for (field, value) in more.as_object().expect("an object") {
            offer[field] = value.clone();
        }
        let url = format!("{}/cloud_b/rp/product-ingestion/configure?$version=2022-07-01", stage.simulator.url());
        stage.send(stage.http.post(url).bearer_auth(&stage.bearer).json(&json!({"resources": [offer]})))
    };
    let get = |path: String| {
        let url = format!("{}/cloud_b/rp/product-ingestion/{path}$version=2022-07-01", stage.simulator.url());
        stage.send(stage.http.get(url).bearer_auth(&stage.bearer))
    };
    let status = |started: &Value| get(format!("configure/{}/status?", started["jobId"].as_str().expect("an id")));
    let started = configure("our-1", json!({})).await;
    assert_eq!(started.status, 202);
    assert_eq!(status(&started.body).await.ok()["jobStatus"], json!("notStarted"));
    stage.advance(TimeDelta::seconds(40)).await;
    assert_eq!(status(&started.body).await.ok()["jobStatus"], json!("running"));
    stage.advance(TimeDelta::seconds(20)).await;
    let done = status(&started.body).await.ok();
    assert_eq!((&done["jobStatus"], &done["jobResult"]), (&json!("completed"), &json!("succeeded")));
    let uri = done["resourceUri"].as_str().expect("a resource");
    let named = get("private-offer?name=our-1&".to_owned()).await.ok();
    assert_eq!((&named["value"][0]["id"], &named["value"][0]["state"]), (&json!(uri), &json!("live")));
    assert_eq!(get("private-offer?name=our-2&".to_owned()).await.ok()["value"], json!([]));

    let made = stage.post(&format!("offers/{uri}/accept"), json!({"planId": "gold"})).await;
    let old = made["subscription"]["id"].as_str().expect("an id");
    assert_eq!(
        json!(uri),
        json!(format!("private-offer/{}", made["subscription"]["privateOfferId"].as_str().expect("an offer")))
    );
    assert_eq!(stage.kinds().await, ["Subscribe"]);
    let twice = stage.control(Method::POST, &format!("offers/{uri}/accept"), json!({})).await;
    assert_eq!(twice.status, 409);
    let changed = configure("our-1", json!({"id": uri, "state": "withdrawn"})).await.ok();
    let second = configure("our-2", json!({"replaces": old})).await.ok();
    stage.advance(TimeDelta::seconds(60)).await;
    let refused = status(&changed).await.ok();
    assert_eq!(refused["jobResult"], json!("failed"), "an accepted offer changes only by a replacement");
    assert!(refused["errors"][0]["message"].is_string());
    let uri = status(&second).await.ok()["resourceUri"].as_str().expect("a resource").to_owned();
    stage.post(&format!("offers/{uri}/accept"), json!({})).await;
    assert_eq!(stage.kinds().await, ["Subscribe", "Unsubscribe"]);
    assert_eq!(stage.subscription(old).await["saasSubscriptionStatus"], json!("Unsubscribed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_cloud_a_are_signed() {
    let stage = Stage::new().await;
    let body = json!({"Catalog": "AWSMarketplace", "ChangeSet": [create_offer()]});
    let good = || A::post("StartChangeSet", &body);
    assert_eq!(stage.a(good()).await.status, 200);
    for bad in [
        A { secret: "loud", ..good() },
        A { key: "AKIA2", ..good() },
        A { late: TimeDelta::minutes(-6), ..good() },
        A { late: TimeDelta::minutes(6), ..good() },
        A { tampered: true, ..good() },
    ] {
        assert_eq!(stage.a(bad).await.refused(403), "InvalidSignatureException");
    }
    let unsigned = stage.http.post(format!("{}/cloud_a/StartChangeSet", stage.simulator.url())).json(&body);
    assert_eq!(stage.send(unsigned).await.refused(403), "InvalidSignatureException");
    assert_eq!(stage.a(A { late: TimeDelta::minutes(4), ..good() }).await.status, 200);
    stage.advance(TimeDelta::hours(25)).await;
    assert_eq!(stage.a(good()).await.status, 200, "the machine's clock counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_set_releases_an_offer() {
    let stage = Stage::new().await;
    let id = stage.submitted(create_offer(), "token-1").await;
    assert_eq!(stage.submitted(create_offer(), "token-1").await, id, "the same token is the same change set");
    assert_ne!(stage.submitted(create_offer(), "token-2").await, id);
    assert_eq!(stage.described(&id).await["Status"], json!("PREPARING"));
    stage.advance(TimeDelta::seconds(30)).await;
    assert_eq!(stage.described(&id).await["Status"], json!("APPLYING"));
    stage.advance(TimeDelta::seconds(30)).await;
    let done = stage.described(&id).await;
    assert_eq!((&done["Status"], &done["ChangeSetName"]), (&json!("SUCCEEDED"), &json!("our-1")));
    let offer = done["ChangeSet"][0]["Entity"]["Identifier"].as_str().expect("an offer");
    assert!(offer.starts_with("offer-"), "{offer}");
    let told = stage.told().await;
    assert_eq!(told.len(), 4);
    assert_eq!(
        (&told[0]["detail-type"], &told[0]["source"]),
        (&json!("Change Set Succeeded"), &json!("aws.marketplacecatalog"))
    );
    assert_eq!(
        told[0]["detail"],
        json!({"changeSet": {"id": id, "name": "our-1", "status": "SUCCEEDED"}, "offer": {"id": offer}})
    );
    assert_eq!(told[1]["detail-type"], json!("Offer Released"));

    let named = |kind: &str, details: Value| json!({"ChangeType": kind, "Entity": {"Type": "Offer@1.0", "Identifier": offer}, "DetailsDocument": details});
    let mut expected = Vec::new();
    for (kind, details, status) in [
        ("UpdatePricingTerms", json!({"DurationMonths": 1}), "FAILED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-03-01T00:00:00Z"}), "FAILED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-3-1"}), "FAILED"),
        ("CancelOffer", json!({}), "FAILED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2025-12-31"}), "SUCCEEDED"),
        ("UpdateAvailability", json!({"AvailabilityEndDate": "2026-03-01"}), "SUCCEEDED"),
    ] {
        let started = stage.change_set(&format!("again-{}", expected.len()), vec![named(kind, details)]).await.ok();
        expected.push((started["ChangeSetId"].as_str().expect("an id").to_owned(), status));
    }
    stage.advance(TimeDelta::seconds(60)).await;
    for (id, status) in expected {
        let set = stage.described(&id).await;
        assert_eq!(set["Status"], json!(status), "{set}");
        assert_eq!(set["ChangeSet"][0]["ErrorDetailList"].as_array().map(Vec::is_empty), Some(status == "SUCCEEDED"));
    }
    stage.post(&format!("offers/{offer}/expire"), json!({})).await;
    // It was over by a date in the past, and open again by a later one.
    assert_eq!(stage.control(Method::POST, &format!("offers/{offer}/accept"), json!({})).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_set_fails_as_a_whole() {
    let stage = Stage::new().await;
    let incomplete = stage.change_set("t", vec![create_offer(), change("ReleaseOffer", json!({}))]).await.ok();
    stage.advance(TimeDelta::seconds(60)).await;
    let set = stage.described(incomplete["ChangeSetId"].as_str().expect("an id")).await;
    assert_eq!((&set["Status"], &set["FailureCode"]), (&json!("FAILED"), &json!("CLIENT_ERROR")));
    assert_eq!(set["ChangeSet"][1]["ErrorDetailList"][0]["ErrorCode"], json!("INCOMPLETE_OFFER"));
    assert_eq!(stage.state().await["offers"], json!([]), "nothing is left of one that failed");

    stage.faults(json!({"failPublications": 1})).await;
    let unlucky = stage.submitted(create_offer(), "v").await;
    stage.told().await;
    stage.advance(TimeDelta::seconds(60)).await;
    let set = stage.described(&unlucky).await;
    assert_eq!((&set["Status"], &set["FailureCode"]), (&json!("FAILED"), &json!("SERVER_FAULT")));
    let told = stage.told().await;
    assert_eq!(told[0]["detail-type"], json!("Change Set Failed"));
    assert!(told[0]["detail"]["error"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_offer_and_its_replacement_make_agreements() {
    let stage = Stage::new().await;
    let set = stage.submitted(create_offer(), "t").await;
    stage.advance(TimeDelta::seconds(60)).await;
    let offer = stage.described(&set).await["ChangeSet"][0]["Entity"]["Identifier"].clone();
    stage.told().await;
    let accept = |offer: Value| {
        let path = format!("offers/{}/accept", offer.as_str().expect("an offer"));
        async {
            stage.control(Method::POST, &{ path }, json!({"dimensions": [{"key": "seats", "value": 5}]})).await.ok()
        }
    };
    let old = accept(offer.clone()).await;
    assert_eq!((&old["intent"], &old["offerId"], &old["accountId"]), (&json!("NEW"), &offer, &json!(ACCOUNT)));
    assert_eq!(stage.kinds().await, ["Purchase Agreement Created", "License Updated"]);

    let details = json!({"AgreementId": old["id"], "ProductId": "prod-1", "Name": "Better"});
    let set = stage.submitted(change("CreateReplacementOffer", details), "r").await;
    stage.advance(TimeDelta::seconds(60)).await;
    stage.told().await;
    let new = accept(stage.described(&set).await["ChangeSet"][0]["Entity"]["Identifier"].clone()).await;
    assert_eq!(new["intent"], json!("REPLACE"));
    let told = stage.told().await;
    assert_eq!(told[0]["detail-type"], json!("Purchase Agreement Ended"));
    assert_eq!(
        (&told[0]["detail"]["agreement"]["id"], &told[0]["detail"]["agreement"]["status"]),
        (&old["id"], &json!("REPLACED"))
    );
    assert_eq!(told[1]["detail"]["agreement"]["id"], new["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agreements_are_told_in_the_order_that_was_asked_for() {
    let stage = Stage::new().await;
    let (created, licensed) = ("Purchase Agreement Created", "License Updated");
    for (licence, order) in
        [("before", vec![licensed, created]), ("after", vec![created, licensed]), ("never", vec![created])]
    {
        stage.agreed(json!({"licence": licence, "dimensions": [{"key": "seats", "value": 3}]})).await;
        stage.post("settle", json!({})).await;
        let received = stage.receiver.take();
        let kinds: Vec<&str> = received.iter().filter_map(|(_, body)| body["detail-type"].as_str()).collect();
        assert_eq!(kinds, order);
        assert!(received.iter().all(|(headers, _)| headers["x-mercato-secret"] == "shared"));
        for (_, body) in &received {
            let has_licence = body["detail"]["license"]["arn"].is_string();
            assert_eq!(has_licence, licence == "before" || body["detail-type"] == licensed);
            assert_eq!(body["detail"]["product"], json!({"id": "prod-1", "code": "code-1"}));
            assert_eq!(body["detail"]["dimensions"][0]["key"], json!("seats"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agreements_are_amended_renewed_and_ended() {
    let stage = Stage::new().await;
    let statuses = |told: Vec<Value>| -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        told.iter()
            .map(|it| format!("{} {}", text(&it["detail-type"]), text(&it["detail"]["agreement"]["status"])))
            .collect()
    };
    let first = stage.agreed(json!({"licence": "never", "months": 1})).await;
    let path = |agreement: &Value, action: &str| {
        format!("cloud_a/agreements/{}/{action}", agreement["id"].as_str().expect("an id"))
    };
    let amended = stage.post(&path(&first, "amend"), json!({"months": 2})).await;
    assert_eq!(amended["end"], json!("2026-03-05T10:00:00.000Z"));
    let renewed = stage.post(&path(&first, "renew"), json!({"licence": "never"})).await;
    assert_eq!((&renewed["intent"], &renewed["start"]), (&json!("RENEW"), &amended["end"]));
    stage.post(&path(&renewed, "cancel"), json!({})).await;
    assert_eq!(stage.control(Method::POST, &path(&renewed, "terminate"), json!({})).await.status, 409);
    let expected = [
        "Purchase Agreement Created ACTIVE",
        "Purchase Agreement Amended ACTIVE",
        "Purchase Agreement Ended RENEWED",
        "Purchase Agreement Created ACTIVE",
        "Purchase Agreement Ended CANCELLED",
    ];
    assert_eq!(statuses(stage.told().await), expected);

    let second = stage.agreed(json!({"months": 1})).await;
    stage.post(&path(&second, "deprovision"), json!({})).await;
    stage.agreed(json!({"licence": "never", "months": 1, "autoRenew": true})).await;
    stage.told().await;
    stage.advance(TimeDelta::days(32)).await;
    let expected = [
        "Purchase Agreement Ended EXPIRED",
        "Purchase Agreement Ended RENEWED",
        "Purchase Agreement Created ACTIVE",
        "License Updated ACTIVE",
    ];
    assert_eq!(statuses(stage.told().await), expected, "terms end by the clock");

    let filters = json!([{"name": "PartyType", "values": ["Proposer"]}, {"name": "AgreementType", "values": ["PurchaseAgreement"]}]);
    let mut body = json!({"catalog": "AWSMarketplace", "filters": filters, "maxResults": 3});
    let target = Some("AWSMPCommerceService_v20200301.SearchAgreements");
    let page = stage.a(A { target, ..A::post("", &body) }).await.ok();
    assert_eq!(page["agreementViewSummaries"].as_array().map(Vec::len), Some(3));
    assert_eq!(page["agreementViewSummaries"][0]["agreementId"], first["id"]);
    body["nextToken"] = page["nextToken"].clone();
    let rest = stage.a(A { target, ..A::post("", &body) }).await.ok();
    assert_eq!((rest["agreementViewSummaries"].as_array().map(Vec::len), rest.get("nextToken")), (Some(2), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_cloud_a_is_accepted_by_its_rules() {
    let stage = Stage::new().await;
    let now = stage.now().await;
    let refused = |body: &Answered| body.refused(400).to_owned();
    assert_eq!(refused(&stage.batch(&[record(now, "seats", json!(1))]).await), "InvalidProductCodeException");
    stage.agreed(json!({})).await;
    stage.control(Method::PUT, "dimensions", json!({"code-1": ["seats", "calls"]})).await.ok();
    let mut stranger = record(now, "seats", json!(1));
    stranger["CustomerAWSAccountId"] = json!("999999999999");
    let first =
        stage.batch(&[record(now, "seats", json!(3)), record(now, "calls", json!(0)), stranger.clone()]).await.ok();
    assert_eq!(statuses(&first), ["Success", "Success", "CustomerNotSubscribed"]);
    assert_eq!(first["UnprocessedRecords"], json!([]));
    let second = stage.batch(&[record(now, "seats", json!(3)), record(now, "seats", json!(4))]).await.ok();
    assert_eq!(statuses(&second), ["Success", "DuplicateRecord"]);
    assert_eq!(second["Results"][0]["MeteringRecordId"], first["Results"][0]["MeteringRecordId"]);

    stranger["CustomerAWSAccountId"] = json!("nobody");
    let good = record(now.plus(TimeDelta::hours(-1)), "seats", json!(8));
    for (bad, kind) in [
        (record(now, "dances", json!(1)), "InvalidUsageDimensionException"),
        (record(now.plus(TimeDelta::hours(-25)), "seats", json!(1)), "TimestampOutOfBoundsException"),
        (record(now.plus(TimeDelta::hours(1)), "seats", json!(1)), "TimestampOutOfBoundsException"),
        (record(now, "seats", json!(1.5)), "ValidationException"),
        (record(now, "seats", json!(-1)), "ValidationException"),
        (stranger, "InvalidCustomerIdentifierException"),
    ] {
        assert_eq!(refused(&stage.batch(&[good.clone(), bad]).await), kind);
    }
    assert_eq!(refused(&stage.batch(&vec![good.clone(); 26]).await), "ValidationException");
    assert_eq!(stage.state().await["usage"].as_array().map(Vec::len), Some(2), "a refused batch leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_of_cloud_a_closes_at_six_on_the_first() {
    let stage = Stage::new().await;
    stage.agreed(json!({})).await;
    let midnight: Timestamp = "2026-02-01T00:00:00Z".parse().expect("a moment");
    let at = |hours: i64| midnight.plus(TimeDelta::hours(hours));
    stage.advance(at(5).as_datetime() - stage.now().await.as_datetime()).await;
    assert_eq!(statuses(&stage.batch(&[record(at(-1), "seats", json!(1))]).await.ok()), ["Success"]);
    stage.advance(TimeDelta::hours(1)).await;
    assert_eq!(stage.batch(&[record(at(-2), "seats", json!(1))]).await.refused(400), "TimestampOutOfBoundsException");
    assert_eq!(statuses(&stage.batch(&[record(at(1), "seats", json!(1))]).await.ok()), ["Success"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_dropped_duplicated_delayed_and_reordered() {
    let stage = Stage::new().await;
    let id = stage.subscribed().await;
    stage.faults(json!({"dropNotifications": 1, "duplicateNotifications": 1})).await;
    for action in ["One", "Two", "Three"] {
        stage.act(&id, action, json!({})).await;
    }
    assert_eq!(stage.kinds().await, ["Two", "Two", "Three"]);
    let all = stage.state().await["notifications"].as_array().expect("a list").clone();
    let dropped = all.iter().find(|it| it["state"] == "dropped").expect("one that was dropped");
    assert_eq!(dropped["kind"], json!("One"));
    stage.post(&format!("notifications/{}/resend", dropped["id"]), json!({})).await;
    assert_eq!(stage.kinds().await, ["One"]);

    stage.faults(json!({"delayNotifications": {"count": 1, "seconds": 3600}})).await;
    stage.act(&id, "Late", json!({})).await;
    stage.act(&id, "Soon", json!({})).await;
    assert_eq!(stage.kinds().await, ["Soon"]);
    stage.advance(TimeDelta::minutes(59)).await;
    assert!(stage.told().await.is_empty());
    stage.advance(TimeDelta::minutes(1)).await;
    assert_eq!(stage.kinds().await, ["Late"]);

    stage.faults(json!({"reorderNotifications": 3})).await;
    stage.act(&id, "A", json!({})).await;
    stage.act(&id, "B", json!({})).await;
    assert!(stage.told().await.is_empty(), "they are held");
    stage.act(&id, "C", json!({})).await;
    stage.act(&id, "D", json!({})).await;
    assert_eq!(stage.kinds().await, ["C", "B", "A", "D"]);
    assert_eq!(stage.state().await["faults"]["reorderNotifications"], json!(0), "faults count down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_that_is_refused_is_sent_again() {
    let stage = Stage::new().await;
    stage.receiver.answer_next(&[500]);
    stage.bought().await;
    let backlog = stage.post("settle", json!({})).await["backlog"].clone();
    assert_eq!(backlog, json!({"waiting": 0, "retrying": 1, "scheduled": 0}));
    assert_eq!(stage.receiver.take().len(), 1);
    let seen = stage.state().await["notifications"][0].clone();
    assert_eq!((&seen["attempts"], &seen["lastStatus"], &seen["state"]), (&json!(1), &json!(500), &json!("waiting")));
    assert_eq!(stage.post("settle", json!({"retries": true})).await["settled"], json!(true));
    let seen = stage.state().await["notifications"][0].clone();
    assert_eq!((&seen["attempts"], &seen["lastStatus"], &seen["state"]), (&json!(2), &json!(200), &json!("delivered")));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_fail_on_demand() {
    let stage = Stage::new().await;
    let (id, now) = (stage.subscribed().await, stage.now().await);
    stage.faults(json!({"serverErrors": 1, "throttle": 1, "errorsAfter": 1})).await;
    let one = [event(&id, now, json!(1))];
    let usage = || stage.usage(&one);
    assert_eq!(stage.token("s3cret").await.status, 200, "not those of identity");
    assert_eq!(usage().await.status, 500);
    let throttled = usage().await;
    assert_eq!((throttled.status, &throttled.headers["retry-after"]), (429, &"1".parse().expect("a header")));
    assert_eq!(stage.state().await["usage"], json!([]));
    assert_eq!(usage().await.status, 500, "it was done");
    assert_eq!(statuses(&usage().await.ok()), ["Duplicate"]);

    stage.agreed(json!({})).await;
    stage.faults(json!({"throttle": 2, "poison": "bad"})).await;
    let records: Vec<Value> =
        (0..3).map(|hours| record(now.plus(TimeDelta::hours(-hours)), "seats", json!(1))).collect();
    assert_eq!(stage.batch(&records).await.refused(400), "ThrottlingException");
    let half = stage.batch(&records).await.ok();
    assert_eq!((statuses(&half), &half["UnprocessedRecords"]), (vec!["Success"], &json!(records[1..])));
    assert_eq!(statuses(&stage.batch(&records).await.ok()), ["Success", "Success", "Success"]);
    let poisoned = stage.batch(&[records[0].clone(), record(now, "bad", json!(1))]).await;
    assert_eq!(poisoned.refused(400), "InvalidUsageDimensionException");
    let mut bad = event(&id, now, json!(1));
    bad["dimension"] = json!("bad");
    assert_eq!(statuses(&stage.usage(&[bad, event(&id, now, json!(2))]).await.ok()), ["Error", "Duplicate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_says_what_is_wrong() {
    let stage = Stage::new().await;
    let new = json!({"publisher": "nobody", "offerId": "o", "planId": "p", "tenantId": "t"});
    let cases = [
        (Method::POST, "cloud_b/subscriptions", new, 404),
        (Method::POST, "cloud_b/subscriptions", json!({"publisher": "acme"}), 400),
        (Method::POST, "cloud_b/subscriptions/nobody/Suspend", json!({}), 404),
        (Method::POST, "cloud_a/agreements", json!({"publisher": "acme", "accountId": "1", "productId": "p"}), 400),
        (Method::POST, "cloud_a/agreements/nobody/cancel", json!({}), 404),
        (Method::POST, "offers/nobody/accept", json!({}), 404),
        (Method::POST, "advance", json!({"seconds": -1}), 400),
        (Method::POST, "advance", json!({"seconds": "soon"}), 400),
        (Method::PUT, "faults", json!({"earthquakes": 1}), 400),
        (Method::PUT, "publishers/other", json!({"cloudA": {}}), 400),
        (Method::POST, "notifications/99/resend", json!({}), 404),
        (Method::POST, "nothing", json!({}), 404),
    ];
    for (method, path, body, status) in cases {
        let answer = stage.control(method, path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body["message"].is_string(), "{path}: {}", answer.body);
    }
    let shown = stage.state().await.to_string();
    assert!(!shown.contains("s3cret") && !shown.contains("hush"), "secrets are not shown");
    stage.simulator.stop().await;
}
