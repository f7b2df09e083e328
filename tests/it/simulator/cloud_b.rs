//! Subscriptions of `cloud_b`, and who may ask for them.

use chrono::TimeDelta;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CLIENT, SAAS, Stage, TENANT};

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
