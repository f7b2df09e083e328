//! What a marketplace has otherwise than we, because we were never told: it is listed, and adopted when somebody asks.

use chrono::TimeDelta;
use mercato::model::vendor::Vendor;
use mercato::resolvers::marketplaces;
use serde_json::{Value, json};

use crate::harness::Market;

async fn compare(market: &Market) {
    marketplaces::compare(&market.app.operator(market.organization), Vendor::CloudB).await.expect("an account");
    market.app.app.reconciler.run().await.expect("the comparison");
}

/// What GraphQL shows of the differences.
async fn differences(market: &Market) -> Vec<Value> {
    let query = "{ marketplaceDifferences { vendor contract what isBeingAdopted } }";
    let data = market.party.graphql(query, json!({})).await.ok();
    data["data"]["marketplaceDifferences"].as_array().cloned().unwrap_or_default()
}

async fn adopt(market: &Market, contract: &str) {
    let call = market.app.operator(market.organization);
    marketplaces::adopt(&call, Vendor::CloudB, contract).await.expect("it is a difference");
    market.app.app.reconciler.run().await.expect("the adoption");
}

async fn kinds(market: &Market) -> Vec<String> {
    let events = market.app.events(market.organization).await;
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_told_is_found_and_adopted() {
    let market = Market::new().await;
    market.faults(json!({ "dropNotifications": 1000 })).await;
    let body = json!({ "publisher": market.organization, "offerId": "lst_1", "planId": "gold", "tenantId": "buyer-1" });
    let bought = market.control("POST", "cloud_b/subscriptions", body).await;
    let id = bought["subscription"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(differences(&market).await, Vec::<Value>::new());
    compare(&market).await;
    let found = differences(&market).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0]["contract"].as_str(), found[0]["isBeingAdopted"].as_bool()), (Some(&*id), Some(false)));
    assert_eq!(kinds(&market).await, Vec::<String>::new(), "nothing happens by itself");

    adopt(&market, &id).await;
    assert_eq!(kinds(&market).await, ["customer.created", "entitlement.created"]);
    compare(&market).await;
    assert_eq!(differences(&market).await, Vec::<Value>::new(), "once adopted it is none");

    market.subscribed_at(&id).await;
    market.control("POST", &format!("cloud_b/subscriptions/{id}/Unsubscribe"), json!({})).await;
    compare(&market).await;
    let found = differences(&market).await;
    assert!(found[0]["what"].as_str().is_some_and(|what| what.contains("cancelled at the marketplace")), "{found:?}");
    adopt(&market, &id).await;
    assert_eq!(kinds(&market).await.last().map(String::as_str), Some("entitlement.cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_account_is_compared_each_hour() {
    let market = Market::new().await;
    let reconciler = &market.app.app.reconciler;
    assert_eq!(reconciler.run().await.expect("a comparison"), 2, "both accounts, when they are connected");
    assert_eq!(reconciler.run().await.expect("a comparison"), 0);
    market.app.advance(TimeDelta::hours(1));
    assert_eq!(reconciler.run().await.expect("a comparison"), 2);
    // A marketplace that is down is compared the next time; what was found before stays.
    market.faults(json!({ "serverErrors": 1000 })).await;
    market.app.advance(TimeDelta::hours(1));
    assert_eq!(reconciler.run().await.expect("it goes on"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_difference_cannot_be_adopted() {
    let market = Market::new().await;
    let call = market.app.operator(market.organization);
    let refused = marketplaces::adopt(&call, Vendor::CloudB, "nothing").await.expect_err("there is none");
    assert_eq!(refused.to_string(), "Resource not found");
    let alone = Market::unconnected().await;
    let call = alone.app.operator(alone.organization);
    let refused = marketplaces::compare(&call, Vendor::CloudA).await.expect_err("there is no account");
    assert_eq!(refused.to_string(), "No account of cloud_a is connected");
}
