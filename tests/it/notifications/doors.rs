//! Who may tell us something, and what is kept of it.

use std::time::{Duration, Instant};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use axum::Router;
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use chrono::TimeDelta;
use mercato::config::ListenOptions;
use mercato::marketplace::accounts::{Account, CloudAAccount, CloudBAccount};
use mercato::model::id::OrganizationId;
use mercato::model::scope::Scope;
use mercato::model::vendor::Vendor;
use mercato::resolvers::{marketplaces, notifications};
use serde_json::{Value, json};

use crate::harness::{Reply, TestApp, listen_options};

const MARKETPLACE: &str = "20e940b3-4c77-4b0b-9a53-9e16a1b010a7";
/// Nobody listens there.
pub const CLOSED: &str = "http://127.0.0.1:1";

pub struct Signer(KeyPair);

impl Signer {
    pub fn new() -> Self {
        Self(KeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    /// RFC 8017's form: after nine bytes the modulus, and the exponent at the end.
    fn set(&self) -> Value {
        let der = self.0.public_key().as_ref();
        let (modulus, exponent) = (BASE64.encode(&der[9..9 + 256]), BASE64.encode(&der[der.len() - 3..]));
        json!({ "keys": [{ "kty": "RSA", "use": "sig", "kid": "k1", "n": modulus, "e": exponent }] })
    }

    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": "RS256", "kid": "k1", "typ": "JWT" });
        let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).expect("a signature");
        format!("{text}.{}", BASE64.encode(signature))
    }
}

/// A service whose organization has accounts at marketplaces that do not answer; only the keys are there.
pub struct Doors {
    pub app: TestApp,
    pub organization: OrganizationId,
    pub signer: Signer,
}

impl Doors {
    async fn new() -> Self {
        Self::with(listen_options()).await
    }

    pub async fn with(options: ListenOptions) -> Self {
        let (app, signer) = (TestApp::with(options).await, Signer::new());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let keys = format!("http://{}", listener.local_addr().expect("an address"));
        let set = signer.set().to_string();
        let router = Router::new().route("/", get(move || async { set }));
        tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        let organization = app.organization("Acme").await;
        let doors = Self { app, organization, signer };
        doors.connect(&account_a()).await;
        doors.connect(&account_b(&keys)).await;
        doors
    }

    pub async fn connect(&self, account: &Account) {
        let text = serde_json::to_string(account).expect("JSON");
        let call = self.app.operator(self.organization);
        marketplaces::connect(&call, account.vendor(), &text).await.expect("it is kept");
    }

    pub fn claims(&self, changed: Value) -> Value {
        let now = self.app.clock.now().as_seconds();
        let mut claims = json!({ "aud": "client-1", "tid": "tenant-1", "appid": MARKETPLACE, "exp": now + 3600 });
        for (name, value) in changed.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        claims
    }

    pub fn token(&self) -> String {
        self.signer.sign(&self.claims(json!({})))
    }

    pub async fn tell(&self, organization: &str, vendor: &str, header: Option<(&str, &str)>, body: &str) -> Reply {
        let url = format!("{}/marketplace/{vendor}/{organization}", self.app.app.base_url);
        let mut request = self.app.http.post(url).body(body.to_owned()).header("content-type", "application/json");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        Reply::of(request).await
    }

    pub async fn tell_b(&self, token: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        self.tell(&self.organization.to_string(), "cloud_b", Some(("authorization", &bearer)), body).await
    }

    pub async fn tell_a(&self, body: &str) -> Reply {
        self.tell(&self.organization.to_string(), "cloud_a", Some(("x-mercato-secret", "told")), body).await
    }

    pub async fn refusals(&self) -> Vec<Value> {
        self.app.rows("SELECT * FROM audit WHERE action = 'notification.refused' ORDER BY id").await
    }

    async fn count(&self) -> usize {
        self.app.rows("SELECT id FROM notification").await.len()
    }
}

fn account_a() -> Account {
    Account::CloudA(CloudAAccount {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: "s3cret".into(),
        region: "us-east-1".to_owned(),
        metering_url: CLOSED.to_owned(),
        catalog_url: CLOSED.to_owned(),
        agreements_url: CLOSED.to_owned(),
        notification_secret: "told".into(),
    })
}

pub fn account_b(keys: &str) -> Account {
    Account::CloudB(CloudBAccount {
        tenant_id: "tenant-1".to_owned(),
        client_id: "client-1".to_owned(),
        client_secret: "s3cret".into(),
        token_url: CLOSED.to_owned(),
        base_url: CLOSED.to_owned(),
        ingestion_url: CLOSED.to_owned(),
        keys_url: keys.to_owned(),
        audience: "client-1".to_owned(),
        publisher_id: "acme".to_owned(),
    })
}

pub fn notice(id: &str) -> String {
    json!({ "id": id, "action": "Suspend", "subscriptionId": "sub-1", "timeStamp": "2026-01-05T10:00:00.1234567Z" })
        .to_string()
}

/// Organization, marketplace, header, and what the audit entry says, where there is one.
type Refused<'a> = (&'a str, &'a str, Option<(&'a str, &'a str)>, Option<&'a str>);

#[tokio::test(flavor = "multi_thread")]
async fn only_the_marketplace_is_believed() {
    let doors = Doors::new().await;
    let own = doors.organization.to_string();
    let now = doors.app.clock.now().as_seconds();
    let with = |changed| format!("Bearer {}", doors.signer.sign(&doors.claims(changed)));
    let forged = format!("Bearer {}", Signer::new().sign(&doors.claims(json!({}))));
    let none = BASE64.encode(r#"{"alg":"none"}"#);
    let unsigned = format!("Bearer {none}.{}.", BASE64.encode(doors.claims(json!({})).to_string()));
    let (expired, audience) = (with(json!({ "exp": now - 61 })), with(json!({ "aud": "another" })));
    let (tenant, caller) = (with(json!({ "tid": "another" })), with(json!({ "appid": "another" })));
    let good = format!("Bearer {}", doors.token());
    let basic = good.replace("Bearer", "Basic");
    let (authorization, secret) = ("authorization", "x-mercato-secret");
    let early = with(json!({ "nbf": now + 3600 }));
    let table: [Refused; 15] = [
        (&own, "cloud_b", None, Some("the token is missing")),
        (&own, "cloud_b", Some((authorization, &forged)), Some("the token's signature does not fit")),
        (&own, "cloud_b", Some((authorization, &expired)), Some("the token has expired")),
        (&own, "cloud_b", Some((authorization, &early)), Some("the token is not valid yet")),
        (&own, "cloud_b", Some((authorization, &audience)), Some("the token is for another application")),
        (&own, "cloud_b", Some((authorization, &tenant)), Some("the token is of another tenant")),
        (&own, "cloud_b", Some((authorization, &caller)), Some("the token is not from the marketplace")),
        (&own, "cloud_b", Some((authorization, &unsigned)), Some("the token is not signed with RS256")),
        (&own, "cloud_b", Some((authorization, "Bearer x.y")), Some("the token is not a JWT with an expiry")),
        (&own, "cloud_b", Some((authorization, &basic)), Some("the token is missing")),
        (&own, "cloud_a", None, Some("the secret is missing")),
        (&own, "cloud_a", Some((secret, "tolD")), Some("the secret is another one")),
        (&own, "cloud_a", Some((secret, "")), Some("the secret is another one")),
        ("org_01KE6X17G0C9ZQ4T8V2N5B7XKD", "cloud_b", Some((authorization, &good)), None),
        ("nonsense", "cloud_a", Some((secret, "told")), None),
    ];
    let mut noted = Vec::new();
    let mut answers = Vec::new();
    for (organization, vendor, header, why) in table {
        doors.app.advance(TimeDelta::seconds(1));
        let is_new = why.is_some_and(|why| !noted.contains(&(vendor, why)));
        let reply = doors.tell(organization, vendor, header, &notice("op-1")).await;
        assert_eq!(reply.status, 401, "{vendor} {header:?}");
        assert_eq!(reply.json()["code"], json!(401));
        answers.push(reply.text);
        if let Some(why) = why.filter(|_| is_new) {
            noted.push((vendor, why));
            let newest = doors.refusals().await.remove(0);
            assert_eq!((newest["target"].clone(), newest["actor"].clone()), (json!(why), json!(vendor)));
        }
        assert_eq!(doors.refusals().await.len(), noted.len(), "{vendor} {header:?}");
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "nothing tells what is wrong: {answers:?}");
    assert_eq!(doors.count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_without_an_account_believes_nobody() {
    let doors = Doors::new().await;
    let call = doors.app.operator(doors.organization);
    marketplaces::disconnect(&call, Vendor::CloudA).await.expect("it is gone");
    let refused = doors.tell_a("{}").await;
    assert_eq!(refused.status, 401);
    assert_eq!(doors.refusals().await[0]["target"], json!("no account is connected"));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_cannot_be_had_are_not_a_refusal() {
    let doors = Doors::new().await;
    doors.connect(&account_b(CLOSED)).await;
    let later = doors.tell_b(&doors.token(), &notice("op-1")).await;
    assert_eq!(later.status, 503, "{}", later.text);
    assert!(later.headers.contains_key("retry-after"));
    assert!(doors.refusals().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_is_kept_once_and_answered_before_it_is_applied() {
    let doors = Doors::new().await;
    assert_eq!(doors.tell_b(&doors.token(), &notice("op-0")).await.status, 200);
    let token = doors.token();
    for _ in 0..3 {
        let started = Instant::now();
        let told = doors.tell_b(&token, &notice("op-1")).await;
        // The marketplace does not answer at all: only the keys were asked for, and they are known by now.
        assert!(started.elapsed() < Duration::from_secs(1), "it took {:?}", started.elapsed());
        assert_eq!((told.status, told.text.as_str()), (200, "{}"));
    }
    assert_eq!(doors.count().await, 2);
    // The same token with another id is another notification; so is the same id of the other marketplace.
    assert_eq!(doors.tell_b(&token, &notice("op-2")).await.status, 200);
    assert_eq!(doors.tell_a(&notice("op-1")).await.status, 200);
    assert_eq!(doors.count().await, 4);
    // One at a time of a subscription, and it waits until the marketplace answers.
    assert_eq!(doors.app.app.inbox.run().await.expect("the inbox's work"), 2);
    let waiting = doors.app.rows("SELECT * FROM notification WHERE vendor = 'cloud_b' AND tries = 1").await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["external"], json!("op-0"));
    assert!(waiting[0]["reason"].as_str().is_some_and(|reason| reason.contains("could not be reached")));
    assert_eq!(waiting[0]["verdict"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_kept_once_however_many_come_at_a_time() {
    let doors = Doors::new().await;
    let body = notice("op-1");
    let told = (0..16).map(|_| doors.tell_a(&body));
    for reply in futures_util::future::join_all(told).await {
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    assert_eq!(doors.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_and_what_can_is_kept() {
    let doors = Doors::new().await;
    for garbled in ["", "{", "[]", "\"x\"", "\u{0}"] {
        assert_eq!(doors.tell_a(garbled).await.status, 400, "{garbled:?}");
    }
    let huge = format!("{{\"id\": \"{}\"}}", "x".repeat(256 * 1024));
    let refused = doors.tell_a(&huge).await;
    assert_eq!((refused.status, refused.json()["code"].clone()), (413, json!(413)));
    assert_eq!(doors.count().await, 0);
    // Without an id it is known by what it says.
    for odd in ["{}", "{}", "{\"id\": 7}", "{\"id\": \"a\\u0000b\"}", "{\"id\": [], \"detail\": 3}"] {
        assert_eq!(doors.tell_a(odd).await.status, 200, "{odd}");
    }
    assert_eq!(doors.count().await, 4);
    let url = format!("{}/marketplace/cloud_a/{}", doors.app.app.base_url, doors.organization);
    assert_eq!(Reply::of(doors.app.http.get(url)).await.status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_read_entitlements_reads_them() {
    let doors = Doors::new().await;
    for id in ["op-1", "op-2", "op-3"] {
        doors.app.advance(TimeDelta::milliseconds(5));
        doors.tell_a(&notice(id)).await;
        doors.tell_b(&doors.token(), &notice(id)).await;
    }
    let call = doors.app.operator(doors.organization);
    let page = |first, after| mercato::model::page::PageRequest::from_arguments(Some(first), after);
    let filter = |vendor, subject: Option<&str>| mercato::model::notification::NotificationFilter {
        vendor,
        subject: subject.map(str::to_owned),
        ..Default::default()
    };
    let all = notifications::list(&call, filter(None, None), page(4, None)).await.expect("a list");
    assert_eq!((all.items.len(), all.has_more), (4, true));
    assert!(all.items.is_sorted_by_key(|kept| std::cmp::Reverse(kept.id)));
    for (vendor, subject, count) in
        [(Some(Vendor::CloudB), None, 3), (None, Some("sub-1"), 3), (Some(Vendor::CloudA), Some("sub-1"), 0)]
    {
        let first = notifications::list(&call, filter(vendor, subject), page(2, None)).await.expect("a list");
        assert_eq!(first.items.len(), count.min(2), "{vendor:?} {subject:?}");
        assert_eq!(first.has_more, count > 2);
        let scope =
            call.cursor_scope(mercato::model::page::ListName::Notifications, mercato::model::filter::Order::Newest);
        let Some(after) = first.next().map(|position| scope.encode(position)) else { continue };
        let rest = notifications::list(&call, filter(vendor, subject), page(2, Some(after))).await.expect("a list");
        assert_eq!((rest.items.len(), rest.has_more), (count - 2, false));
    }
    let other = doors.app.operator(doors.app.organization("Other").await);
    let id = all.items[0].id.to_string();
    notifications::get(&other, &id).await.expect_err("it is not theirs");
    assert_eq!(notifications::get(&call, &id).await.expect("it is").body, notice("op-3"));
    let ask = async |scope, document: String| {
        let party = doors.app.party_in(doors.organization, &[scope]).await;
        party.graphql(&document, json!({})).await.json()["errors"][0]["extensions"]["status"].clone()
    };
    let many = "{ notifications { nodes { id } } }".to_owned();
    assert_eq!(ask(Scope::ReadEntitlements, many.clone()).await, Value::Null);
    assert_eq!(ask(Scope::ReadCustomers, many).await, json!(403));
    let again = format!("mutation {{ rerunNotification(id: \"{id}\") {{ userErrors {{ code }} }} }}");
    assert_eq!(ask(Scope::ReadEntitlements, again).await, json!(403), "that is for administrators");
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_wait_and_those_that_failed_are_found() {
    let doors = Doors::new().await;
    for id in ["op-1", "op-2", "op-3", "op-4", "op-5", "op-6"] {
        doors.app.advance(TimeDelta::milliseconds(5));
        doors.tell_a(&json!({ "id": id, "detail": { "agreement": { "id": id } } }).to_string()).await;
    }
    for (id, verdict) in [("op-1", "applied"), ("op-2", "failed"), ("op-3", "ignored"), ("op-5", "failed")] {
        let set = format!("UPDATE notification SET verdict = '{verdict}' WHERE external = '{id}'");
        doors.app.rows(&set).await;
    }
    let party = doors.app.party_in(doors.organization, &[Scope::ReadEntitlements]).await;
    let find = async |arguments: &str| {
        let query = format!("{{ notifications{arguments} {{ nodes {{ externalId }} pageInfo {{ hasNextPage }} }} }}");
        let found = party.graphql(&query, json!({})).await.ok()["data"]["notifications"].clone();
        let ids =
            found["nodes"].as_array().expect("a list").iter().map(|node| node["externalId"].as_str().expect("an id"));
        let more = if found["pageInfo"]["hasNextPage"] == json!(true) { "…" } else { "" };
        format!("{}{more}", ids.map(|id| &id[3..]).collect::<String>())
    };
    for (arguments, expected) in [
        ("", "654321"),
        ("(filter: { waiting: true })", "64"),
        ("(filter: { waiting: true }, first: 1)", "6…"),
        ("(filter: { waiting: false })", "5321"),
        ("(filter: { waiting: false }, first: 2)", "53…"),
        ("(filter: { verdict: FAILED })", "52"),
        ("(filter: { verdict: [APPLIED, FAILED] }, first: 2)", "52…"),
        ("(filter: { verdict: [FAILED], waiting: true })", ""),
        ("(filter: { verdict: [] })", ""),
        ("(filter: { vendor: CLOUD_A, waiting: true })", "64"),
        ("(filter: { vendor: CLOUD_B, waiting: true })", ""),
        ("(filter: { subject: \"op-4\", waiting: true })", "4"),
        ("(filter: { subject: \"op-4\", verdict: FAILED })", ""),
        ("(filter: { subject: \"op-5\", verdict: [FAILED, IGNORED] })", "5"),
    ] {
        assert_eq!(find(arguments).await, expected, "{arguments}");
    }
    let explain = format!(
        "SELECT * FROM notification WITH INDEX notification_verdict WHERE organization = '{}' AND verdict = NONE
            AND key > '' ORDER BY key LIMIT 2 EXPLAIN",
        doors.organization
    );
    let plan = json!(doors.app.rows(&explain).await).to_string();
    assert!(plan.contains("IndexScan") && !plan.contains("TableScan") && !plan.contains("Sort"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_is_a_node() {
    let doors = Doors::new().await;
    doors.tell_a(&notice("op-1")).await;
    let party = doors.app.party_in(doors.organization, &[Scope::ReadEntitlements]).await;
    let listed = party.graphql("{ notifications { nodes { id } } }", json!({})).await.ok();
    let id = listed["data"]["notifications"]["nodes"][0]["id"].clone();
    let query = "query ($id: ID!) { node(id: $id) { __typename id ... on Notification { externalId body } } }";
    let node = party.graphql(query, json!({ "id": id })).await.ok()["data"]["node"].clone();
    let expected = json!({ "__typename": "Notification", "id": id, "externalId": "op-1", "body": null });
    assert_eq!(node, expected, "customers stand in the body");
    let other = doors.app.organization("Other").await;
    for (stranger, status) in [
        (doors.app.party_in(doors.organization, &[Scope::ReadCustomers]).await, 403),
        (doors.app.party_in(other, Scope::ALL).await, 404),
    ] {
        let refused = stranger.graphql(query, json!({ "id": id })).await.json();
        assert_eq!(refused["errors"][0]["extensions"]["status"], json!(status), "{refused}");
    }
}
