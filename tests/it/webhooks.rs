//! Webhooks (`contract.md` §14) as records: created, read, changed, rotated, tested, removed, over both doors.

use chrono::TimeDelta;
use mercato::courier::sign::Signer;
use mercato::model::event::EventKind;
use mercato::model::scope::Scope;
use mercato::model::webhook::SigningSecret;
use serde_json::{Value, json};

use crate::deliveries::{app, webhook};
use crate::harness::receiver::{Manner, Received, Receiver};
use crate::harness::{Facade, Party, TestApp, WEBHOOKS};
use crate::snapshot;

const URL: &str = "https://hooks.example.com/mercato";

fn id(record: &Value) -> String {
    record["id"].as_str().unwrap_or_else(|| panic!("an id in {record}")).to_owned()
}

/// A life of a webhook, the same through both doors. Its secret is in one answer.
#[tokio::test(flavor = "multi_thread")]
async fn both_doors_tell_the_same_story() {
    let mut stories = Vec::new();
    for facade in [Facade::Rest, Facade::Graphql] {
        let app = TestApp::new().await;
        let party = app.party().await;
        let new = json!({ "name": "Billing", "url": URL, "events": ["metering.failed", "customer.created"] });
        let mut story = vec![facade.create(&party, WEBHOOKS, new.clone()).await];
        let hook = id(&story[0]["ok"]);
        story.push(facade.get(&party, WEBHOOKS, &hook).await);
        let own = json!({ "name": "Own", "url": URL, "events": ["customer.created"], "secret": "my own words" });
        story.push(facade.create(&party, WEBHOOKS, own).await);
        story.push(facade.list(&party, WEBHOOKS, 1, None).await);
        app.advance(TimeDelta::seconds(1));
        for patch in [
            json!({ "name": "Accounts", "events": ["entitlement.renewed"] }),
            json!({ "status": "disabled" }),
            json!({}),
            json!({ "status": "active" }),
            json!({ "url": "http://hooks.example.com/" }),
            json!({ "url": "https://10.0.0.1/", "name": "" }),
            json!({ "events": [] }),
        ] {
            story.push(facade.update(&party, WEBHOOKS, &hook, patch).await);
        }
        let short = json!({ "name": "x", "url": URL, "events": ["customer.created"], "secret": "" });
        story.push(facade.create(&party, WEBHOOKS, short).await);
        story.push(facade.delete(&party, WEBHOOKS, &hook).await);
        story.push(facade.delete(&party, WEBHOOKS, &hook).await);
        stories.push(story);
    }
    // REST says of what was deleted only that it was; cursors are made of chance.
    let tell = |mut story: Vec<Value>| {
        story[12] = json!(story[12]["ok"]["id"]);
        story[3]["ok"]["nextCursor"] = json!(story[3]["ok"]["nextCursor"].is_string());
        story
    };
    let [rest, graphql] = <[_; 2]>::try_from(stories.into_iter().map(tell).collect::<Vec<_>>()).expect("two stories");
    assert_eq!(rest, graphql);
    snapshot!("webhooks", rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_is_told_all_at_once() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let fields = |reply: &crate::harness::Reply| {
        let errors = reply.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let bad = json!({ "name": 1, "events": ["customer.created", "customer.moved", 7], "color": "red" });
    let reply = party.post("/api/v1/webhook", &bad).await;
    assert_eq!(
        (reply.status, fields(&reply)),
        (400, ["name", "events[1]", "events[2]", "url", "color"].map(str::to_owned).to_vec())
    );
    for secret in ["whsec_", "whsec_!!!", "whsec_c2hvcnQ=", "whsec_AAAA"] {
        let body = json!({ "name": "x", "url": URL, "events": ["customer.created"], "secret": secret });
        let reply = party.post("/api/v1/webhook", &body).await;
        assert_eq!((reply.status, fields(&reply)), (400, vec!["secret".to_owned()]), "{secret}");
    }
    let hook = webhook(&party, URL).await;
    let path = format!("/api/v1/webhook/{}", id(&hook));
    // Read, change, write back.
    let mut read = party.get(&path).await.data();
    read["name"] = json!("Changed");
    party.put(&path, &read).await.ok();
    assert_eq!(party.put(&path, &json!({ "failureCount": 7 })).await.data()["failureCount"], 0);
    assert_eq!(party.put(&path, &json!({ "hasSecret": false })).await.status, 422);
    assert_eq!(fields(&party.put(&path, &json!({ "secret": "x" })).await), ["secret"]);
}

/// The one scope rule: who creates, changes, tests or reads deliveries must hold the scope of every kind.
#[tokio::test(flavor = "multi_thread")]
async fn each_kind_needs_its_scope() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    let all = app.party_in(organization, Scope::ALL).await;
    for kind in EventKind::ALL {
        let body = json!({ "name": "x", "url": URL, "events": [kind] });
        let hook = id(&all.post("/api/v1/webhook", &body).await.created());
        for scope in Scope::ALL {
            let party = app.party_in(organization, &[*scope]).await;
            let may = *scope == kind.scope();
            let path = format!("/api/v1/webhook/{hook}");
            assert_eq!(
                party.post("/api/v1/webhook", &body).await.status,
                if may { 201 } else { 403 },
                "{kind} {scope}"
            );
            let answers = [
                party.put(&path, &json!({})).await.status,
                party.get(&format!("{path}/deliveries")).await.status,
                party.post("/api/webhook/test", &json!({ "webhookId": hook })).await.status,
                party.post(&format!("{path}/rotate-secret"), &json!({})).await.status,
            ];
            assert_eq!(answers, [if may { 200 } else { 403 }; 4], "{kind} {scope}");
            assert_eq!(party.get(&path).await.status, 200);
        }
    }
    let customers = app.party_in(organization, &[Scope::ReadCustomers]).await;
    let own = id(&webhook(&customers, URL).await);
    let wider = json!({ "events": ["customer.created", "metering.failed"] });
    customers.put(&format!("/api/v1/webhook/{own}"), &wider).await.refused(403, "INSUFFICIENT_SCOPE");
}

fn is_signed_with(received: &Received, secret: &str) -> bool {
    let signer = Signer::new(&[SigningSecret::known(secret.to_owned())]);
    let moment = received.header("webhook-timestamp").parse().expect("seconds");
    let signature = signer.signatures(received.header("webhook-id"), moment, &received.body);
    received.header("webhook-signature").split(' ').any(|one| one == signature)
}

/// The secret is sealed at rest, shown once, again only to the same idempotent request; after a rotation both sign for a
/// day.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_shown_once_and_rotated_without_a_gap() {
    let (app, authority) = app().await;
    let mut party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let body = json!({ "name": "x", "url": receiver.url(), "events": ["customer.created"] });
    let first = party.keyed(reqwest::Method::POST, "/api/v1/webhook", "once", &body).await;
    let again = party.keyed(reqwest::Method::POST, "/api/v1/webhook", "once", &body).await;
    assert_eq!((first.status, &first.text), (again.status, &again.text));
    let hook = first.created();
    let secret = hook["secret"].as_str().expect("a secret").to_owned();
    assert!(secret.starts_with("whsec_") && hook["hasSecret"] == true);
    let path = format!("/api/v1/webhook/{}", id(&hook));
    assert!(party.get(&path).await.data().get("secret").is_none());
    for table in ["webhook", "idempotency", "audit", "dispatch"] {
        let rows = json!(app.rows(&format!("SELECT * FROM {table}")).await).to_string();
        assert!(!rows.contains(&secret["whsec_".len()..]), "{table}");
    }
    let rotate =
        party.request(reqwest::Method::POST, &format!("{path}/rotate-secret")).send().await.expect("an answer");
    assert_eq!(rotate.status().as_u16(), 200);
    let rotated: Value = rotate.json().await.expect("JSON");
    assert_ne!(rotated["data"]["secret"], json!(secret));
    let mut signatures = Vec::new();
    for account in 0..2 {
        party.customer(&account.to_string()).await;
        app.settle().await;
        let delivered = receiver.take().remove(0);
        signatures.push(delivered.header("webhook-signature").split(' ').count());
        app.advance(TimeDelta::hours(25));
        party.refresh().await;
    }
    assert_eq!(signatures, [2, 1]);
    // A rotation keeps the promise of those before it, of the last four.
    let rotated = ["first", "second", "third", "fourth", "fifth", "sixth"];
    for secret in rotated {
        party.post(&format!("{path}/rotate-secret"), &json!({ "secret": secret })).await.data();
    }
    party.customer("rotated").await;
    app.settle().await;
    let delivered = receiver.take().remove(0);
    let signing: Vec<&str> = rotated.into_iter().filter(|secret| is_signed_with(&delivered, secret)).collect();
    assert_eq!(signing, rotated[1..]);
    let own = party.post(&format!("{path}/rotate-secret"), &json!({ "secret": "plain words" })).await.data();
    assert_eq!(own["secret"], "plain words");
}

/// `contract.md` §14: one signed sample, never counted, also to a disabled webhook; nothing of the answer is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_tells_the_class_of_the_outcome() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let receiver = Receiver::start(&authority).await;
    let hook = webhook(&party, &receiver.url()).await;
    let test = async |party: &Party| party.post("/api/webhook/test", &json!({ "webhookId": hook["id"] })).await.data();
    let told = test(&party).await;
    let delivered = receiver.take().remove(0);
    let sample = delivered.json();
    assert_eq!(
        (&sample["type"], &sample["test"], &sample["sequence"]),
        (&json!("customer.created"), &json!(true), &json!(0))
    );
    assert_eq!(
        (&sample["id"], delivered.header("webhook-id")),
        (&told["eventId"], told["eventId"].as_str().expect("an id"))
    );
    assert_eq!((&told["success"], &told["statusCode"], &told["error"]), (&json!(true), &json!(200), &Value::Null));
    receiver.behave(Manner::AnswerWith(500, Vec::new(), "secrets of the receiver".to_owned()));
    party.put(&format!("/api/v1/webhook/{}", id(&hook)), &json!({ "status": "disabled" })).await.ok();
    let told = test(&party).await;
    assert_eq!((&told["success"], &told["statusCode"], &told["error"]), (&json!(false), &json!(500), &json!("http")));
    assert!(!told.to_string().contains("secrets"));
    let read = party.get(&format!("/api/v1/webhook/{}", id(&hook))).await.data();
    assert_eq!((&read["failureCount"], &read["lastTriggeredAt"]), (&json!(0), &Value::Null));
    for unknown in ["whk_01KE6X17G0C9ZQ4T8V2N5B7XKD", "x", ""] {
        party.post("/api/webhook/test", &json!({ "webhookId": unknown })).await.refused(422, "INVALID_PARAMS");
    }
    party.post("/api/webhook/test", &json!({})).await.refused(400, "INVALID_PARAMS");
}

/// The samples that receivers are tested with look like the real thing: each has the fields of its resource.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_has_a_sample() {
    use mercato::model::event_sample::sample;
    use mercato::model::{customer, entitlement, metering, offer};
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    for kind in EventKind::ALL {
        let event = mercato::model::id::EventId(app.clock.mint());
        let made = sample(*kind, event, organization).expect("a sample").test_envelope();
        let data = serde_json::from_str::<Value>(&made).expect("JSON")["data"].clone();
        let read = match kind.scope() {
            Scope::ReadCustomers => serde_json::from_value::<customer::CustomerDetail>(data).map(drop),
            Scope::ReadEntitlements => serde_json::from_value::<entitlement::Entitlement>(data).map(drop),
            Scope::ReadPrivateOffers => serde_json::from_value::<offer::PrivateOffer>(data).map(drop),
            _ => serde_json::from_value::<metering::MeteringSubmission>(data).map(drop),
        };
        read.unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_has_a_bounded_number() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for _ in 0..100 {
        webhook(&party, URL).await;
    }
    let body = json!({ "name": "x", "url": URL, "events": ["customer.created"] });
    party.post("/api/v1/webhook", &body).await.refused(409, "CONFLICT");
}

/// Nested deliveries: one query however many webhooks a page has.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_found_by_status_kind_and_webhook() {
    let (app, authority) = app().await;
    let party = app.party().await;
    let (well, ill) = (Receiver::start(&authority).await, Receiver::start(&authority).await);
    ill.behave(Manner::Answer(500));
    let hooks = [webhook(&party, &well.url()).await, webhook(&party, &ill.url()).await];
    let customer = id(&party.customer("1").await);
    party.put(&format!("/api/v1/customers/{customer}"), &json!({ "companyName": "Renamed" })).await.ok();
    app.settle().await;
    let query = "query ($id: ID!, $status: DeliveryStatus, $kind: EventKind, $first: Int, $after: String) {
        deliveries(webhookId: $id, status: $status, kind: $kind, first: $first, after: $after) {
            nodes { sequence status attempts { number error statusCode } } pageInfo { hasNextPage endCursor } } }";
    let found = async |variables: Value| {
        let data = party.graphql(query, variables).await.ok()["data"]["deliveries"].clone();
        data["nodes"]
            .as_array()
            .expect("nodes")
            .iter()
            .map(|node| node["sequence"].as_i64().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let (well_id, ill_id) = (id(&hooks[0]), id(&hooks[1]));
    assert_eq!(found(json!({ "id": well_id })).await, [2, 1]);
    assert_eq!(found(json!({ "id": well_id, "status": "DELIVERED" })).await, [2, 1]);
    assert_eq!(found(json!({ "id": well_id, "status": "PENDING" })).await, [0_i64; 0]);
    assert_eq!(found(json!({ "id": ill_id, "status": "PENDING" })).await, [2, 1]);
    assert_eq!(found(json!({ "id": ill_id, "status": "PENDING", "kind": "CUSTOMER_UPDATED" })).await, [2]);
    assert_eq!(found(json!({ "id": ill_id, "kind": "CUSTOMER_CREATED" })).await, [1]);
    let page =
        party.graphql(query, json!({ "id": ill_id, "first": 1 })).await.ok()["data"]["deliveries"]["pageInfo"].clone();
    assert_eq!(page["hasNextPage"], true);
    assert_eq!(found(json!({ "id": ill_id, "first": 1, "after": page["endCursor"] })).await, [1]);
    let foreign = party.graphql(query, json!({ "id": well_id, "after": page["endCursor"] })).await.json();
    assert_eq!(foreign["errors"][0]["extensions"]["status"], 400);
    let before = app.store.queries();
    let nested = "{ webhooks { nodes { id deliveries(first: 1) { nodes { id sequence } } } } }";
    let nodes = party.graphql(nested, json!({})).await.ok()["data"]["webhooks"]["nodes"].clone();
    assert_eq!(nodes.as_array().map(Vec::len), Some(2));
    assert!(app.store.queries() - before <= 4, "{} queries", app.store.queries() - before);
    let node = format!("{{ node(id: {}) {{ id }} }}", nodes[0]["deliveries"]["nodes"][0]["id"]);
    assert_eq!(
        party.graphql(&node, json!({})).await.ok()["data"]["node"]["id"],
        nodes[0]["deliveries"]["nodes"][0]["id"]
    );
}
