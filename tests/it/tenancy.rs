//! Another organization's id, for every operation of the catalogue that takes one: the answer is byte for byte that to an
//! unknown and to a malformed id.

use mercato::model::operation::{Access, Method, Operation};
use serde_json::{Value, json};

use crate::harness::{Party, Reply, TestApp};

/// A record of `party` for the operations of a resource. A new resource needs a line here.
async fn own_id(party: &Party, operation: Operation) -> String {
    match operation.spec().name.split_once('.').map(|(resource, _)| resource) {
        Some("applications") => party.id(),
        Some("customers") => {
            let customer = party.customer(&format!("for-{operation:?}")).await;
            customer["id"].as_str().expect("an id").to_owned()
        }
        other => panic!("make a record for {other:?}"),
    }
}

async fn send(party: &Party, operation: Operation, id: &str) -> Reply {
    let spec = operation.spec();
    let path = spec.path.replace("{id}", id);
    match spec.method {
        Method::Get => party.get(&path).await,
        Method::Delete => party.delete(&path).await,
        Method::Put => party.put(&path, &json!({})).await,
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
        if !operation.spec().path.contains("{id}") || operation.access() == Access::Public {
            continue;
        }
        let foreign = own_id(&other, operation).await;
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
    assert!(checked >= 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn graphql_and_lists_show_nothing_of_others() {
    let app = TestApp::new().await;
    let (party, other) = (app.party().await, app.party().await);
    let foreign = other.customer("1").await["id"].as_str().expect("an id").to_owned();
    let query = "query ($id: ID!) { customer(id: $id) { id } }";
    let answers =
        [foreign.as_str(), "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD", "x"].map(|id| party.graphql(query, json!({ "id": id })));
    let [foreign, unknown, malformed] = futures_util::future::join_all(answers).await.try_into().expect("three");
    assert_eq!(seen(&foreign), seen(&unknown));
    assert_eq!(seen(&foreign), seen(&malformed));
    assert_eq!(party.get("/api/v1/customers").await.data()["items"], json!([]));
    assert_eq!(party.get("/oauth/applications").await.data()["items"].as_array().map(Vec::len), Some(1));
}
