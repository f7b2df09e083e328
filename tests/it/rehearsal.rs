//! From offer to contract to usage to renewal to the end, at each marketplace, over HTTP: whatever goes wrong on the way,
//! it ends as it does when nothing goes wrong.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use mercato::model::vendor::Vendor;
use mercato::resolvers::marketplaces;
use serde_json::{Value, json};

use crate::harness::Market;

/// What is compared: all that does not depend on when something arrived.
#[derive(Debug, PartialEq)]
struct End {
    offer: Value,
    publication: Value,
    entitlement: Vec<Value>,
    verdicts: Vec<Value>,
    billed: Vec<(String, String)>,
    told: BTreeMap<String, usize>,
}

/// Some minutes with these faults and some without them, in which both sides do their work.
async fn pass(market: &mut Market) {
    work(market).await;
    market.faults(json!({})).await;
    work(market).await;
    market.party.refresh().await;
}

/// Both accounts are compared, and whatever is found is adopted.
async fn reconcile(market: &Market) {
    let (call, reconciler) = (market.app.operator(market.organization), &market.app.app.reconciler);
    for vendor in Vendor::ALL {
        marketplaces::compare(&call, *vendor).await.expect("an account");
    }
    reconciler.run().await.expect("the comparisons");
    for found in marketplaces::differences(&call).await.expect("a list") {
        marketplaces::adopt(&call, found.vendor, &found.subject).await.expect("it is ordered");
    }
    reconciler.run().await.expect("the adoptions");
    assert_eq!(marketplaces::differences(&call).await.expect("a list"), [], "all of it can be adopted");
}

async fn work(market: &Market) {
    for _ in 0..8 {
        market.pass(TimeDelta::minutes(1)).await;
        let settled = market.control("POST", "settle", json!({ "retries": true })).await;
        assert_eq!(settled["settled"], json!(true), "{settled}");
        market.app.app.inbox.run().await.expect("the inbox's work");
    }
}

/// The contract at the marketplace: its path in the control, and what it is.
async fn contract(market: &Market, vendor: &str) -> String {
    let world = market.world().await;
    let (list, path) = match vendor {
        "cloud_a" => ("agreements", "cloud_a/agreements"),
        _ => ("subscriptions", "cloud_b/subscriptions"),
    };
    let id = world[list][0]["id"].as_str().unwrap_or_else(|| panic!("a contract: {world:#}"));
    format!("{path}/{id}")
}

async fn rehearse(vendor: &str, account: &str, faults: &Value) -> End {
    let mut market = Market::new().await;
    let is_deaf = faults["dropNotifications"].is_u64();
    let customer = market.customer(vendor, account).await;
    market.faults(faults.clone()).await;
    let offer = market.new_offer(&customer, vendor).await;
    pass(&mut market).await;
    let live = market.offer(&offer).await;
    let id = live["vendorOfferId"].as_str().unwrap_or_else(|| panic!("{faults}: it is published: {live:#}"));

    market.faults(faults.clone()).await;
    let terms = match vendor {
        "cloud_a" => json!({ "dimensions": [{ "key": "seats", "value": 5 }] }),
        _ => json!({ "planId": "gold", "quantity": 5 }),
    };
    market.control("POST", &format!("offers/{id}/accept"), terms).await;
    pass(&mut market).await;
    if is_deaf {
        reconcile(&market).await;
    }

    market.faults(faults.clone()).await;
    let rows = json!([{ "dimension": "calls", "quantity": 7 }, { "dimension": "hours", "quantity": 2 }]);
    let body = json!({ "listingId": "lst_1", "details": { "customer": { "id": customer["id"] }, "usage": rows } });
    let receipt = market.party.post("/api/v1/metering", &body).await.created();
    pass(&mut market).await;

    let contract = contract(&market, vendor).await;
    let (renewal, end) = if vendor == "cloud_a" { ("renew", "terminate") } else { ("Renew", "Unsubscribe") };
    for action in [renewal, end] {
        market.faults(faults.clone()).await;
        // A renewal at cloud_a is another agreement, which carries this one on.
        let path = if action == "terminate" { newest(&market).await } else { contract.clone() };
        market.control("POST", &format!("{path}/{action}"), json!({})).await;
        pass(&mut market).await;
        if is_deaf {
            reconcile(&market).await;
        }
    }
    ended(&market, &offer, &customer, &receipt).await
}

/// The agreement of cloud_a that is in force.
async fn newest(market: &Market) -> String {
    let world = market.world().await;
    let agreements = world["agreements"].as_array().expect("a list");
    let active = agreements.iter().find(|agreement| agreement["status"] == "ACTIVE");
    let id = active.and_then(|agreement| agreement["id"].as_str()).unwrap_or_else(|| panic!("{agreements:#?}"));
    format!("cloud_a/agreements/{id}")
}

async fn ended(market: &Market, offer: &Value, customer: &Value, receipt: &Value) -> End {
    let offer = market.offer(offer).await;
    let customer_id = customer["id"].as_str().expect("an id");
    let customer = market.party.get(&format!("/api/v1/customers/{customer_id}")).await.data();
    let mut entitlement = Vec::new();
    for summary in customer["entitlements"].as_array().expect("a list") {
        let path = format!("/api/v1/entitlements/{}", summary["id"].as_str().expect("an id"));
        let found = market.party.get(&path).await.data();
        let history: Vec<&Value> =
            found["history"].as_array().expect("a list").iter().map(|one| &one["action"]).collect();
        entitlement.push(json!([found["status"], found["planId"], found["dimensions"], history]));
    }
    let report = market.party.get(&format!("/api/v1/metering/{}", receipt["id"].as_str().expect("an id"))).await.data();
    let rows = report["details"]["usage"].as_array().expect("rows");
    let world = market.world().await;
    let billed = world["usage"].as_array().expect("a list").iter();
    let mut billed: Vec<_> = billed.map(|row| (row["dimension"].to_string(), row["quantity"].to_string())).collect();
    billed.sort();
    let mut told = BTreeMap::new();
    for event in market.app.events(market.organization).await {
        *told.entry(event["type"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    End {
        offer: offer["status"].clone(),
        publication: offer["details"]["cloud"]["publication"]["state"].clone(),
        entitlement,
        verdicts: rows.iter().map(|row| row["verdict"].clone()).collect(),
        billed,
        told,
    }
}

async fn ends_the_same(vendor: &str, account: &str) {
    let expected = rehearse(vendor, account, &json!({})).await;
    assert_eq!(expected.offer, json!("accepted"), "{expected:#?}");
    assert_eq!(expected.verdicts, [json!("CONFIRMED"), json!("CONFIRMED")], "{expected:#?}");
    assert_eq!(expected.entitlement.len(), 1, "{expected:#?}");
    assert_eq!(expected.entitlement[0][0], json!("cancelled"), "{expected:#?}");
    assert_eq!(expected.told.get("entitlement.renewed"), Some(&1), "{expected:#?}");
    for faults in [
        json!({ "duplicateNotifications": 100 }),
        json!({ "delayNotifications": { "count": 100, "seconds": 120 } }),
        json!({ "reorderNotifications": 2 }),
        json!({ "serverErrors": 6 }),
        json!({ "errorsAfter": 3 }),
        json!({ "throttle": 4 }),
    ] {
        assert_eq!(rehearse(vendor, account, &faults).await, expected, "{vendor} with {faults}");
    }
    // Nothing is ever told: comparing and adopting after each step comes to the same.
    let mut deaf = rehearse(vendor, account, &json!({ "dropNotifications": 1000 })).await;
    if vendor == "cloud_a" {
        // Its list of agreements has no dimensions.
        assert_eq!(deaf.entitlement[0][2], json!([]));
        deaf.entitlement[0][2] = expected.entitlement[0][2].clone();
    }
    assert_eq!(deaf, expected, "{vendor} when nothing is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_year_at_cloud_a_ends_the_same_with_every_fault() {
    ends_the_same("cloud_a", "123456789012").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_year_at_cloud_b_ends_the_same_with_every_fault() {
    ends_the_same("cloud_b", "buyer-1").await;
}

/// The marketplace has published an offer, and its buyer accepts it, before we have asked how far it is.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_is_accepted_before_we_know_that_it_is_live_is_accepted() {
    for (vendor, account) in [("cloud_a", "123456789012"), ("cloud_b", "buyer-1")] {
        let mut market = Market::new().await;
        let customer = market.customer(vendor, account).await;
        let offer = market.new_offer(&customer, vendor).await;
        market.work().await;
        market.app.advance(TimeDelta::seconds(61));
        market.control("POST", "advance", json!({ "seconds": 0 })).await;
        let id = market.world().await["offers"][0]["id"].as_str().expect("it is made").to_owned();
        market.control("POST", &format!("offers/{id}/accept"), json!({ "planId": "gold" })).await;
        market.control("POST", "settle", json!({})).await;
        market.app.app.inbox.run().await.expect("the inbox's work");
        assert_eq!(market.offer(&offer).await["status"], "created", "it is not known yet which offer that was");
        pass(&mut market).await;
        let accepted = market.offer(&offer).await;
        assert_eq!(accepted["status"], "accepted", "{vendor}: {accepted:#}");
    }
}
