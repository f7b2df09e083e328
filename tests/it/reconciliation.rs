//! What a marketplace has otherwise than we, because we were never told: it is listed, and adopted when somebody asks.

use std::sync::Arc;

use chrono::TimeDelta;
use mercato::model::difference::{DifferenceKind, Subject};
use mercato::model::vendor::Vendor::{self, CloudA, CloudB};
use mercato::resolvers::marketplaces;
use serde_json::{Value, json};

use crate::harness::Market;

async fn compare(market: &Market, vendor: Vendor) {
    marketplaces::compare(&market.app.operator(market.organization), vendor).await.expect("an account");
    market.app.app.reconciler.run().await.expect("the comparison");
}

/// What GraphQL shows of the differences.
async fn differences(market: &mut Market) -> Vec<Value> {
    market.party.refresh().await;
    let query = "{ marketplaceDifferences { vendor kind subject what isAdoptable isBeingAdopted } }";
    let data = market.party.graphql(query, json!({})).await.ok();
    data["data"]["marketplaceDifferences"].as_array().cloned().unwrap_or_default()
}

/// The only difference: its kind, its subject, and whether it can be adopted; and what it says.
async fn only(market: &mut Market) -> ((String, String, bool), String) {
    let found = differences(market).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let text = |name: &str| found[0][name].as_str().unwrap_or_default().to_owned();
    let is_adoptable = found[0]["isAdoptable"].as_bool().expect("a word");
    ((text("kind"), text("subject"), is_adoptable), text("what"))
}

async fn adopt(market: &Market, vendor: Vendor, kind: DifferenceKind, id: &str) {
    let call = market.app.operator(market.organization);
    let subject = Subject { kind, id: id.to_owned() };
    marketplaces::adopt(&call, vendor, &subject).await.expect("it is a difference");
    market.app.app.reconciler.run().await.expect("the adoption");
}

async fn kinds(market: &Market) -> Vec<String> {
    let events = market.app.events(market.organization).await;
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The last that was told of anything but customers, which follow.
async fn last(market: &Market) -> String {
    kinds(market).await.into_iter().rfind(|kind| !kind.starts_with("customer.")).unwrap_or_default()
}

/// What was told is applied.
async fn hear(market: &Market) {
    let settled = market.control("POST", "settle", json!({})).await;
    assert_eq!(settled["settled"], json!(true), "{settled}");
    market.app.app.inbox.run().await.expect("the inbox's work");
}

/// Nothing is told from now on.
async fn deafen(market: &Market) {
    market.faults(json!({ "dropNotifications": 1000 })).await;
}

async fn subscribe(market: &Market) -> String {
    let body = json!({ "publisher": market.organization, "offerId": "lst_1", "planId": "gold", "tenantId": "buyer-1" });
    let bought = market.control("POST", "cloud_b/subscriptions", body).await;
    bought["subscription"]["id"].as_str().expect("an id").to_owned()
}

async fn agree(market: &Market, account: &str) -> String {
    let body = json!({ "publisher": market.organization, "accountId": account, "productId": "lst_1" });
    market.control("POST", "cloud_a/agreements", body).await["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_told_is_found_and_adopted() {
    let mut market = Market::new().await;
    deafen(&market).await;
    let id = subscribe(&market).await;
    assert_eq!(differences(&mut market).await, Vec::<Value>::new());
    compare(&market, CloudB).await;
    assert_eq!(only(&mut market).await.0, ("CONTRACT".to_owned(), id.clone(), true));
    assert_eq!(kinds(&market).await, Vec::<String>::new(), "nothing happens by itself");

    adopt(&market, CloudB, DifferenceKind::Contract, &id).await;
    assert_eq!(kinds(&market).await, ["customer.created", "entitlement.created"]);
    assert_eq!(market.world().await["subscriptions"][0]["saasSubscriptionStatus"], "Subscribed", "it is activated");
    compare(&market, CloudB).await;
    assert_eq!(differences(&mut market).await, Vec::<Value>::new(), "once adopted it is none");

    market.control("POST", &format!("cloud_b/subscriptions/{id}/Unsubscribe"), json!({})).await;
    compare(&market, CloudB).await;
    let (_, what) = only(&mut market).await;
    assert!(what.contains("cancelled at the marketplace"), "{what}");
    adopt(&market, CloudB, DifferenceKind::Contract, &id).await;
    assert_eq!(last(&market).await, "entitlement.cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_was_never_told_renews_what_it_carries_on() {
    let mut market = Market::new().await;
    let first = agree(&market, "123456789012").await;
    // Another contract of the same customer and listing, and another customer's: neither is carried on.
    let other = agree(&market, "123456789012").await;
    agree(&market, "999999999999").await;
    hear(&market).await;
    deafen(&market).await;
    let mut current = first;
    for (action, expected) in [("renew", "entitlement.renewed"), ("replace", "entitlement.updated")] {
        market.app.advance(TimeDelta::minutes(1));
        market.control("POST", &format!("cloud_a/agreements/{current}/{action}"), json!({})).await;
        compare(&market, CloudA).await;
        let ((kind, successor, _), _) = only(&mut market).await;
        assert_eq!(kind, "CONTRACT");
        adopt(&market, CloudA, DifferenceKind::Contract, &successor).await;
        assert_eq!(last(&market).await, expected);
        let entitlements = market.app.rows("SELECT VALUE agreement FROM entitlement").await;
        assert_eq!(entitlements.len(), 3, "no second contract: {entitlements:?}");
        assert!(entitlements.contains(&json!(successor)) && entitlements.contains(&json!(other)), "{entitlements:?}");
        compare(&market, CloudA).await;
        assert_eq!(differences(&mut market).await, Vec::<Value>::new());
        current = successor;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waits_for_our_word_is_found_and_answered() {
    let mut market = Market::new().await;
    let id = subscribe(&market).await;
    hear(&market).await;
    for (action, change, becomes) in [
        ("ChangePlan", json!({ "planId": "silver" }), ("active", "silver")),
        ("Suspend", json!({}), ("suspended", "silver")),
        ("Reinstate", json!({}), ("active", "silver")),
    ] {
        deafen(&market).await;
        let path = format!("cloud_b/subscriptions/{id}/{action}");
        let operation = market.control("POST", &path, change).await["operationId"].as_str().expect("an id").to_owned();
        compare(&market, CloudB).await;
        let ((kind, subject, is_adoptable), what) = only(&mut market).await;
        let expected =
            if action == "Suspend" { ("CONTRACT", id.clone()) } else { ("OPERATION", format!("{id}/{operation}")) };
        assert_eq!((kind.as_str(), subject.clone(), is_adoptable), (expected.0, expected.1, true), "{what}");
        let kind = DifferenceKind::parse(&kind).expect("a kind");
        adopt(&market, CloudB, kind, &subject).await;
        let events = market.app.events(market.organization).await;
        let told = events.iter().rfind(|event| event["type"] == "entitlement.updated").expect("it is told");
        let told = (told["data"]["status"].as_str(), told["data"]["planId"].as_str());
        assert_eq!(told, (Some(becomes.0), Some(becomes.1)), "{action}");
        let settled = &market.world().await["subscriptions"][0]["operations"];
        assert!(!settled.to_string().contains("InProgress"), "{settled}");
        compare(&market, CloudB).await;
        assert_eq!(differences(&mut market).await, Vec::<Value>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_told_is_left_to_the_inbox() {
    let mut market = Market::new().await;
    let id = subscribe(&market).await;
    hear(&market).await;
    let change = json!({ "planId": "silver" });
    market.control("POST", &format!("cloud_b/subscriptions/{id}/ChangePlan"), change).await;
    market.control("POST", "settle", json!({})).await;
    compare(&market, CloudB).await;
    assert_eq!(differences(&mut market).await, Vec::<Value>::new());
    market.app.app.inbox.run().await.expect("the inbox's work");
}

async fn submit(market: &Market, customer: &Value, rows: Value) -> String {
    let body = json!({ "listingId": "lst_1", "details": { "customer": { "id": customer["id"] }, "usage": rows } });
    let receipt = market.party.post("/api/v1/metering", &body).await.created();
    receipt["id"].as_str().expect("an id").to_owned()
}

/// Usage that the marketplace takes although nobody here reported it.
async fn bill_elsewhere(market: &Market, subscription: &str, dimension: &str, quantity: i64) {
    let cloud = mercato::marketplace::cloud_b::CloudB::new(market.cloud_b(), market.client());
    let event = mercato::marketplace::cloud_b::metering::UsageEvent {
        subscription: subscription.to_owned(),
        plan: "gold".to_owned(),
        dimension: dimension.to_owned(),
        quantity: quantity.into(),
        at: market.app.clock.now(),
    };
    let said = cloud.report_usage(&[event]).await;
    assert_eq!(said[0].0.as_str(), "CONFIRMED", "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_that_was_accepted_is_confirmed_by_adopting_it() {
    let mut market = Market::new().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    subscribe(&market).await;
    hear(&market).await;
    // The marketplace takes it, and every answer is lost.
    market.faults(json!({ "errorsAfter": 1000 })).await;
    let rows = json!([{ "dimension": "calls", "quantity": 7 }, { "dimension": "hours", "quantity": 2 }]);
    let report = submit(&market, &customer, rows).await;
    market.work().await;
    market.faults(json!({})).await;
    compare(&market, CloudB).await;
    let (found, what) = only(&mut market).await;
    assert_eq!(found, ("USAGE".to_owned(), report.clone(), true));
    assert!(what.contains("calls on ") && what.contains("hours on "), "{what}");

    adopt(&market, CloudB, DifferenceKind::Usage, &report).await;
    assert_eq!(last(&market).await, "metering.confirmed");
    compare(&market, CloudB).await;
    assert_eq!(differences(&mut market).await, Vec::<Value>::new());
    market.pass(TimeDelta::minutes(5)).await;
    assert_eq!(market.app.rows("SELECT * FROM outbox").await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_that_nobody_here_reported_is_for_a_person() {
    let mut market = Market::new().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    let subscription = subscribe(&market).await;
    hear(&market).await;
    submit(&market, &customer, json!([{ "dimension": "calls", "quantity": 7 }])).await;
    market.work().await;
    bill_elsewhere(&market, &subscription, "hours", 3).await;
    compare(&market, CloudB).await;
    let ((kind, subject, is_adoptable), what) = only(&mut market).await;
    assert_eq!((kind.as_str(), is_adoptable), ("USAGE", false), "what both have is no difference");
    assert!(subject.contains("/hours/"), "{subject}");
    assert!(what.contains("3 accepted there, 0 confirmed here; it was reported elsewhere"), "{what}");
    let call = market.app.operator(market.organization);
    let refused = marketplaces::adopt(&call, CloudB, &Subject { kind: DifferenceKind::Usage, id: subject }).await;
    assert!(refused.expect_err("nothing can be done").to_string().starts_with("There is nothing to adopt: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_that_the_marketplace_lost_is_for_a_person() {
    let market = Market::new().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    market.subscribed(&customer).await;
    submit(&market, &customer, json!([{ "dimension": "calls", "quantity": 7 }])).await;
    market.work().await;
    // Another simulator in its place has forgotten everything.
    let market = &mut market.forgotten().await;
    compare(market, CloudB).await;
    assert_eq!(differences(market).await, Vec::<Value>::new(), "it may not show it yet");
    market.app.advance(TimeDelta::hours(1));
    compare(market, CloudB).await;
    let ((_, _, is_adoptable), what) = only(market).await;
    assert!(!is_adoptable && what.contains("0 accepted there, 7 confirmed here"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_account_is_compared_each_hour() {
    let mut market = Market::new().await;
    let reconciler = Arc::clone(&market.app.app.reconciler);
    assert_eq!(reconciler.run().await.expect("a comparison"), 2, "both accounts, when they are connected");
    assert_eq!(reconciler.run().await.expect("a comparison"), 0);
    market.app.advance(TimeDelta::hours(1));
    assert_eq!(reconciler.run().await.expect("a comparison"), 2);
    // A marketplace that is down is compared the next time; what was found before stays.
    market.faults(json!({ "serverErrors": 1000 })).await;
    market.app.advance(TimeDelta::hours(1));
    assert_eq!(reconciler.run().await.expect("it goes on"), 2);
    let failed = differences(&mut market).await;
    assert_eq!(failed.iter().map(|one| &one["kind"]).collect::<Vec<_>>(), ["ACCOUNT", "ACCOUNT"], "{failed:?}");
    assert!(failed[0]["what"].as_str().is_some_and(|what| what.contains("could not be compared")), "{failed:?}");
    market.faults(json!({})).await;
    market.app.advance(TimeDelta::hours(1));
    assert_eq!(reconciler.run().await.expect("a comparison"), 2);
    assert_eq!(differences(&mut market).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_difference_cannot_be_adopted() {
    let market = Market::new().await;
    let call = market.app.operator(market.organization);
    let nothing = Subject { kind: DifferenceKind::Contract, id: "nothing".to_owned() };
    let refused = marketplaces::adopt(&call, CloudB, &nothing).await.expect_err("there is none");
    assert_eq!(refused.to_string(), "Resource not found");
    let alone = Market::unconnected().await;
    let call = alone.app.operator(alone.organization);
    let refused = marketplaces::compare(&call, CloudA).await.expect_err("there is no account");
    assert_eq!(refused.to_string(), "No account of cloud_a is connected");
}
