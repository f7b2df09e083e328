//! Idempotency keys (`contract.md` §6).

use reqwest::Method;
use serde_json::json;

use crate::harness::{Party, Reply, TestApp, new_customer, shared};

const PATH: &str = "/api/v1/customers";

async fn create(party: &Party, key: &str, account: &str) -> Reply {
    party.keyed(Method::POST, PATH, key, &new_customer(account)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gets_the_first_answer_again() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let first = create(&party, "k", "1").await;
    assert_eq!(first.header("idempotent-replayed"), "");
    app.advance(chrono::TimeDelta::hours(2));
    party.refresh().await;
    let id = first.created()["id"].as_str().expect("an id").to_owned();
    party.put(&format!("{PATH}/{id}"), &json!({ "companyName": "Changed since" })).await.ok();
    let again = create(&party, "\"k\"", "1").await;
    assert_eq!((again.status, &again.text), (201, &first.text));
    assert_eq!(again.header("idempotent-replayed"), "true");
    let reordered = r#"{"companyName":"Company 1",  "cloudAccountId":"1","vendor":"cloud_a"}"#;
    let request = party.request(Method::POST, PATH).header("X-Idempotency-Key", "k");
    let again = Reply::of(request.header("content-type", "application/json").body(reordered)).await;
    assert_eq!(again.text, first.text);
    assert_eq!(app.events(party.organization()).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_request_under_the_key_is_refused() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let id = create(&party, "k", "1").await.created()["id"].as_str().expect("an id").to_owned();
    create(&party, "k", "2").await.refused(422, "INVALID_PARAMS");
    party.keyed(Method::PUT, &format!("{PATH}/{id}"), "k", &new_customer("1")).await.refused(422, "INVALID_PARAMS");
    // A key belongs to its application.
    let sibling = app.party_in(party.organization(), mercato::model::scope::Scope::ALL).await;
    create(&sibling, "k", "2").await.created();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_checked() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let long = "k".repeat(256);
    for key in ["", "\"\"", "\"", "a\"b", "a b", "ä", long.as_str()] {
        create(&party, key, "1").await.refused(400, "INVALID_PARAMS");
    }
    let request = party.request(Method::POST, PATH).json(&new_customer("1"));
    let both = request.header("Idempotency-Key", "a").header("X-Idempotency-Key", "b");
    Reply::of(both).await.refused(400, "INVALID_PARAMS");
    let request = party.request(Method::POST, PATH).json(&new_customer("1"));
    let same = request.header("Idempotency-Key", "a").header("X-Idempotency-Key", "\"a\"");
    Reply::of(same).await.created();
    create(&party, &"k".repeat(255), "2").await.created();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_the_state_are_remembered_and_those_of_the_caller_are_not() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let missing = format!("{PATH}/cus_01KE6X17G0C9ZQ4T8V2N5B7XKD");
    create(&party, "seed", "1").await.created();
    for (key, method, path, body, status) in [
        ("conflict", Method::POST, PATH, new_customer("1"), 409),
        ("rule", Method::POST, PATH, json!({ "vendor": "cloud_a", "cloudAccountId": "!", "companyName": "X" }), 422),
        ("unknown", Method::PUT, missing.as_str(), json!({}), 404),
    ] {
        let first = party.keyed(method.clone(), path, key, &body).await;
        assert_eq!((first.status, first.header("idempotent-replayed")), (status, ""));
        let again = party.keyed(method, path, key, &body).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (status, "true"), "{key}");
        assert_eq!(again.text, first.text);
    }
    party.keyed(Method::POST, PATH, "malformed", &json!({})).await.refused(400, "INVALID_PARAMS");
    create(&party, "malformed", "2").await.created();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_free_again_after_a_day() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    create(&party, "k", "1").await.created();
    app.advance(chrono::TimeDelta::hours(24));
    party.refresh().await;
    create(&party, "k", "2").await.created();
    app.advance(chrono::TimeDelta::hours(25));
    assert_eq!(app.store.sweep(chrono::TimeDelta::days(30)).await.expect("the sweep runs").keys, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_twins_make_one_change() {
    let app = shared(TestApp::new().await);
    let party = app.party().await;
    let twins = (0..50).map(|_| {
        let party = party.clone();
        tokio::spawn(async move { create(&party, "k", "1").await })
    });
    let replies: Vec<Reply> =
        futures_util::future::join_all(twins).await.into_iter().map(|reply| reply.expect("an answer")).collect();
    let fresh = |reply: &&Reply| reply.status == 201 && reply.header("idempotent-replayed").is_empty();
    assert_eq!(replies.iter().filter(fresh).count(), 1);
    for reply in &replies {
        match reply.status {
            201 => {}
            409 => assert_eq!(reply.header("retry-after"), "1"),
            other => panic!("{other}: {}", reply.text),
        }
    }
    assert_eq!(app.events(party.organization()).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn graphql_mutations_take_keys_each_field_for_itself() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let query = "mutation { \
        a: createCustomer(input: { vendor: CLOUD_A, cloudAccountId: \"1\", companyName: \"A\" }) { customer { id } } \
        b: createCustomer(input: { vendor: CLOUD_A, cloudAccountId: \"1\", companyName: \"B\" }) { userErrors { code } } }";
    let body = json!({ "query": query });
    let first = party.keyed(Method::POST, "/graphql", "k", &body).await;
    let again = party.keyed(Method::POST, "/graphql", "k", &body).await;
    assert_eq!(first.ok()["data"]["b"]["userErrors"][0]["code"], json!("CONFLICT"));
    assert_eq!(again.text, first.text);
    assert_eq!(again.header("idempotent-replayed"), "true");
    let other = party.keyed(Method::POST, "/graphql", "k", &json!({ "query": format!("{query} ") })).await;
    assert_eq!(other.ok()["data"]["a"]["customer"], json!(null));
    assert_eq!(app.events(party.organization()).await.len(), 1);
}
