//! Another organization's id, for every operation of the catalogue that takes one: the answer is byte for byte that to an
//! unknown and to a malformed id.

use mercato::model::entitlement::NewEntitlement;
use mercato::model::id::CustomerId;
use mercato::model::operation::{Access, Method, Operation, Route};
use serde_json::{Value, json};

use crate::harness::{Party, Reply, TestApp, new_offer};

/// A record of `party` for the operations of a resource. A new resource needs a line here.
async fn own_id(app: &TestApp, party: &Party, operation: Operation) -> String {
    let resource = operation.spec().resource();
    if resource == "applications" {
        return party.id();
    }
    let id = party.customer(&format!("for-{operation:?}")).await["id"].as_str().expect("an id").to_owned();
    let made = match resource {
        "customers" => return id,
        "entitlements" => {
            let customer = CustomerId::parse(&id).expect("an id");
            let new = NewEntitlement::of(customer, "lst_1");
            return app.entitlement(party.organization(), new).await.id.to_string();
        }
        "private_offers" => party.post("/api/v1/private-offers", &new_offer(&id)).await,
        "metering" => party.post("/api/v1/metering", &json!({ "details": { "customer": { "id": id } } })).await,
        "events" => {
            let events = app.events(party.organization()).await;
            return events.last().and_then(|event| event["id"].as_str()).expect("an event").to_owned();
        }
        "webhooks" | "deliveries" => {
            // Nobody listens there, so its delivery waits for its next attempt.
            let body = json!({ "name": "x", "url": "https://127.0.0.1:1/", "events": ["customer.created"] });
            let hook = party.post("/api/v1/webhook", &body).await;
            if resource == "webhooks" || operation == Operation::DeliveriesList {
                hook
            } else {
                let path = format!("/api/v1/webhook/{}/deliveries", hook.created()["id"].as_str().expect("an id"));
                party.customer(&format!("delivered-for-{operation:?}")).await;
                app.settle().await;
                return party.get(&path).await.data()["items"][0]["id"].as_str().expect("a delivery").to_owned();
            }
        }
        other => panic!("make a record for {other:?}"),
    };
    made.created()["id"].as_str().expect("an id").to_owned()
}

async fn send(party: &Party, operation: Operation, id: &str) -> Reply {
    let path = operation.route().path.replace("{id}", id);
    match operation.route().method {
        Method::Get => party.get(&path).await,
        Method::Delete => party.delete(&path).await,
        Method::Put => party.put(&path, &json!({})).await,
        Method::Post if operation == Operation::WebhooksReplay => party.post(&path, &json!({})).await,
        Method::Post => Reply::of(party.request(reqwest::Method::POST, &path)).await,
    }
}

/// Everything a caller sees of an answer, but what differs for every request.
fn seen(reply: &Reply) -> Value {
    let volatile = ["x-request-id", "date", "x-ratelimit-remaining", "x-ratelimit-reset"];
    let headers: Vec<String> = reply
        .headers
        .iter()
        .filter(|(name, _)| !volatile.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()))
        .collect();
    json!([reply.status, headers, reply.text])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_id_is_as_unknown_as_any() {
    let app = TestApp::new().await;
    let (party, other) = (app.party().await, app.party().await);
    let mut checked = 0;
    for operation in Operation::ALL.iter().copied() {
        if !operation.spec().route.is_some_and(Route::takes_id) || operation.access() == Access::Public {
            continue;
        }
        let foreign = own_id(&app, &other, operation).await;
        let prefix = foreign.split('_').next().unwrap_or_default();
        let unknown = format!("{prefix}_01KE6X17G0C9ZQ4T8V2N5B7XKD");
        let expected = seen(&send(&party, operation, &unknown).await);
        assert_eq!(expected[0], json!(404), "{operation:?}");
        let malformed = ["x", "cus_", "%00", "%FF", "..%2F", &foreign.to_lowercase(), &"a".repeat(2000)];
        for id in malformed.into_iter().chain([foreign.as_str()]) {
            assert_eq!(seen(&send(&party, operation, id).await), expected, "{operation:?} {id}");
        }
        checked += 1;
    }
    assert!(checked >= 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn graphql_shows_nothing_of_others() {
    let app = TestApp::new().await;
    let (party, other) = (app.party().await, app.party().await);
    for operation in Operation::ALL.iter().copied() {
        let Some(field) = operation.spec().graphql.and_then(|field| field.split_once('.')) else { continue };
        // Who subscribes names no record.
        let takes_id = operation.spec().route.is_none_or(Route::takes_id) && field.0 != "Subscription";
        // `notifications::doors` and `staging` ask for what is of others there.
        let elsewhere =
            ["analytics", "notifications", "marketplaces", "simulator"].contains(&operation.spec().resource());
        if !takes_id || operation.access() == Access::Administrator || elsewhere {
            continue;
        }
        let (_, name) = field;
        let foreign = own_id(&app, &other, operation).await;
        let prefix = foreign.split('_').next().unwrap_or_default();
        let document = |id: &str| match field {
            (_, "deliveries") => format!("{{ deliveries(webhookId: \"{id}\") {{ nodes {{ id }} }} }}"),
            (_, "replayWebhook") => {
                let input = "input: { fromSequence: 1 }";
                format!("mutation {{ replayWebhook(id: \"{id}\", {input}) {{ userErrors {{ code }} }} }}")
            }
            ("Query", _) => format!("{{ {name}(id: \"{id}\") {{ id }} }}"),
            (_, name) if name.starts_with("update") => {
                format!("mutation {{ {name}(id: \"{id}\", input: {{}}) {{ userErrors {{ code }} }} }}")
            }
            _ => format!("mutation {{ {name}(id: \"{id}\") {{ userErrors {{ code }} }} }}"),
        };
        let unknown = format!("{prefix}_01KE6X17G0C9ZQ4T8V2N5B7XKD");
        let expected = seen(&party.graphql(&document(&unknown), json!({})).await);
        for id in [foreign.as_str(), "x"] {
            assert_eq!(seen(&party.graphql(&document(id), json!({})).await), expected, "{field:?} {id}");
        }
        let node = |id: &str| format!("{{ node(id: \"{id}\") {{ id }} }}");
        let foreign = party.graphql(&node(&foreign), json!({})).await;
        assert_eq!(seen(&foreign), seen(&party.graphql(&node(&unknown), json!({})).await), "{field:?}");
    }
}

/// Ids inside bodies: a foreign one is refused in the same words as an unknown one.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_id_in_a_body_is_as_unknown_as_any() {
    let app = TestApp::new().await;
    let (party, other) = (app.party().await, app.party().await);
    let foreign = other.customer("1").await["id"].as_str().expect("an id").to_owned();
    let mut answers = Vec::new();
    for id in [foreign.as_str(), "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD", "x", ""] {
        let offer = party.post("/api/v1/private-offers", &new_offer(id)).await;
        let report = party.post("/api/v1/metering", &json!({ "details": { "customer": { "id": id } } })).await;
        assert_eq!((offer.status, report.status), (422, 422), "{id}");
        let filter = json!({ "id": id });
        let query = "query ($id: ID!) { entitlements(filter: { customerId: $id }) { nodes { id } } \
                     privateOffers(filter: { customerId: $id }) { nodes { id } } }";
        answers.push((seen(&offer), seen(&report), seen(&party.graphql(query, filter).await)));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_nothing_of_others() {
    let app = TestApp::new().await;
    let (party, other) = (app.party().await, app.party().await);
    let lists = |operation: &Operation| {
        operation.spec().is_list() && operation.spec().route.is_some_and(|route| !route.takes_id())
    };
    for operation in Operation::ALL.iter().copied().filter(lists) {
        own_id(&app, &other, operation).await;
        let seen = party.get(operation.route().path).await.data()["items"].as_array().map(Vec::len);
        let own = usize::from(operation == Operation::ApplicationsList);
        assert_eq!(seen, Some(own), "{operation:?}");
    }
    for operation in Operation::ALL.iter().copied().filter(|operation| operation.spec().is_export()) {
        assert_eq!(party.get(operation.route().path).await.text.lines().count(), 1, "{operation:?}");
    }
}
