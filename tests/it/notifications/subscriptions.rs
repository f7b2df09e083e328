//! Subscriptions of `cloud_b`.

use chrono::TimeDelta;
use mercato::model::entitlement::EntitlementStatus::{Active, Cancelled, Suspended};
use mercato::model::notification::NotificationVerdict::{Applied, Ignored};
use serde_json::json;

use super::{act, assert_applied, entitlement, entitlements, events, pass, seats, settle, subscribe, tenant, verdict};
use crate::harness::{Market, Reply};

fn id(bought: &serde_json::Value) -> String {
    bought["subscription"]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_nobody_knew_is_activated_and_gets_customer_and_entitlement() {
    let market = Market::new().await;
    let subscription = id(&subscribe(&market, json!({})).await);
    settle(&market).await;
    assert_applied(&verdict(&market, "Subscribe").await);
    let opened = entitlement(&market).await;
    assert_eq!((opened.status, opened.plan_id.as_deref()), (Active, Some("gold")));
    assert_eq!(
        (opened.vendor_subscription_id.as_deref(), seats(&opened).as_deref()),
        (Some(&*subscription), Some("5"))
    );
    assert!(opened.end_date.is_some());
    let customers = tenant(&market).customers(&[opened.customer_id]).await.expect("a customer");
    assert_eq!(customers[0].tenant_id.as_deref(), Some("buyer-1"));
    assert_eq!(customers[0].company_name, "northwind.example");
    assert_eq!(customers[0].email.as_deref(), Some("ann@northwind.example"));
    assert_eq!(events(&market).await, ["customer.created", "entitlement.created"]);
    let there = market.world().await["subscriptions"][0]["saasSubscriptionStatus"].clone();
    assert_eq!(there, json!("Subscribed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_moves_the_entitlement() {
    let market = Market::new().await;
    let subscription = id(&subscribe(&market, json!({})).await);
    settle(&market).await;
    let end = entitlement(&market).await.end_date;

    act(&market, &subscription, "ChangePlan", json!({ "planId": "silver" })).await;
    settle(&market).await;
    assert_eq!(entitlement(&market).await.plan_id.as_deref(), Some("silver"));
    act(&market, &subscription, "ChangeQuantity", json!({ "quantity": 9 })).await;
    settle(&market).await;
    assert_eq!(seats(&entitlement(&market).await).as_deref(), Some("9"));
    act(&market, &subscription, "Suspend", json!({})).await;
    settle(&market).await;
    assert_eq!(entitlement(&market).await.status, Suspended);
    act(&market, &subscription, "Reinstate", json!({})).await;
    settle(&market).await;
    assert_eq!(entitlement(&market).await.status, Active);
    act(&market, &subscription, "Renew", json!({})).await;
    settle(&market).await;
    assert!(entitlement(&market).await.end_date > end);
    act(&market, &subscription, "Unsubscribe", json!({})).await;
    settle(&market).await;
    assert_eq!(entitlement(&market).await.status, Cancelled);

    for action in ["ChangePlan", "ChangeQuantity", "Suspend", "Reinstate", "Renew", "Unsubscribe"] {
        assert_applied(&verdict(&market, action).await);
    }
    let updated = "entitlement.updated";
    let told: Vec<_> = events(&market).await.into_iter().filter(|kind| kind.starts_with("entitlement")).collect();
    let expected =
        ["entitlement.created", updated, updated, updated, updated, "entitlement.renewed", "entitlement.cancelled"];
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_acknowledged_before_they_succeed_by_themselves() {
    let market = Market::new().await;
    let subscription = id(&subscribe(&market, json!({})).await);
    settle(&market).await;
    for (action, change) in
        [("ChangePlan", json!({ "planId": "silver" })), ("ChangeQuantity", json!({ "quantity": 7 }))]
    {
        act(&market, &subscription, action, change).await;
        settle(&market).await;
        // The clock stands, so nothing succeeded by itself.
        let (outcome, reason) = verdict(&market, action).await;
        assert_eq!(outcome, Some(Applied));
        assert!(reason.starts_with("acknowledged, "), "{reason}");
        let there = &market.world().await["subscriptions"][0];
        assert!(there["planId"] == json!("silver"), "{there}");
    }
    assert_eq!(market.world().await["subscriptions"][0]["quantity"], json!(7));
    // One that nobody acknowledged in time is taken as it is.
    act(&market, &subscription, "ChangePlan", json!({ "planId": "bronze" })).await;
    pass(&market, TimeDelta::seconds(11)).await;
    assert_eq!(entitlement(&market).await.plan_id.as_deref(), Some("bronze"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_action_is_kept_and_ignored() {
    let market = Market::new().await;
    let subscription = id(&subscribe(&market, json!({})).await);
    settle(&market).await;
    let before = events(&market).await;
    act(&market, &subscription, "Transmogrify", json!({})).await;
    settle(&market).await;
    assert_eq!(verdict(&market, "Transmogrify").await, (Some(Ignored), "unknown action Transmogrify".to_owned()));
    assert_eq!(events(&market).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marketplace_that_is_down_is_asked_again() {
    let market = Market::new().await;
    let subscription = id(&subscribe(&market, json!({})).await);
    settle(&market).await;
    act(&market, &subscription, "Suspend", json!({})).await;
    market.faults(json!({ "serverErrors": 4 })).await;
    settle(&market).await;
    let (waiting, why) = verdict(&market, "Suspend").await;
    assert_eq!(waiting, None, "{why}");
    assert_eq!(entitlement(&market).await.status, Active);
    // What comes after it waits for it.
    act(&market, &subscription, "Reinstate", json!({})).await;
    settle(&market).await;
    assert_eq!(verdict(&market, "Reinstate").await.0, None);
    pass(&market, TimeDelta::minutes(5)).await;
    assert_eq!(verdict(&market, "Reinstate").await.0, Some(Applied));
    assert!(verdict(&market, "Suspend").await.0.is_some());
    assert_eq!(entitlement(&market).await.status, Active);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_credentials_that_ran_out_cannot_do_waits_and_can_be_run_again() {
    let market = Market::new().await;
    let subscription = id(&subscribe(&market, json!({})).await);
    market.control("POST", "settle", json!({ "retries": true })).await;
    // Another account's: what it asks for is not let in.
    let mut wrong = mercato::marketplace::accounts::Account::CloudB(market.cloud_b());
    if let mercato::marketplace::accounts::Account::CloudB(account) = &mut wrong {
        account.client_secret = "another".into();
    }
    let text = serde_json::to_string(&wrong).expect("JSON");
    let call = market.app.operator(market.organization);
    mercato::resolvers::marketplaces::connect(&call, wrong.vendor(), &text).await.expect("it is kept");
    settle(&market).await;
    let (outcome, reason) = verdict(&market, "Subscribe").await;
    assert_eq!(outcome, None, "{reason}");
    assert!(reason.contains("credentials"), "{reason}");
    assert!(entitlements(&market).await.is_empty());

    market.connect().await;
    let found = super::kept(&market.app, &market).await.remove(0);
    let again = mercato::resolvers::notifications::rerun(&call, &found.id.to_string()).await.expect("it is due");
    assert_eq!((again.verdict, again.tries), (None, 0));
    settle(&market).await;
    assert_applied(&verdict(&market, "Subscribe").await);
    assert_eq!(entitlement(&market).await.vendor_subscription_id, Some(subscription));
    let before = events(&market).await;
    mercato::resolvers::notifications::rerun(&call, &found.id.to_string()).await.expect("it is due");
    settle(&market).await;
    assert_eq!(verdict(&market, "Subscribe").await, (Some(Ignored), "nothing to change".to_owned()));
    assert_eq!(events(&market).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_lands_and_is_received() {
    let market = Market::new().await;
    let bought = subscribe(&market, json!({})).await;
    let landing = format!("{}/landing", super::path(&market, "cloud_b"));
    let token = bought["token"].as_str().expect("a token");
    let open = |query: String| Reply::of(market.app.http.get(format!("{landing}{query}")));
    let page = open(format!("?token={token}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("was received"), "{}", page.text);
    let opened = entitlement(&market).await;
    assert_eq!((opened.status, opened.vendor_subscription_id), (Active, Some(id(&bought))));
    let before = events(&market).await;
    settle(&market).await;
    assert_eq!(verdict(&market, "Subscribe").await.0, Some(Ignored));
    assert_eq!(events(&market).await, before, "the notification of it changes nothing more");
    for wrong in ["", "?token=", "?token=nonsense", "?token=%0A"] {
        let page = open(wrong.to_owned()).await;
        assert_eq!(page.status, 400, "{wrong}: {}", page.text);
        assert!(page.text.contains("purchase token"), "{}", page.text);
    }
    let elsewhere = landing.replace(&market.organization.to_string(), "org_unknown");
    let page = Reply::of(market.app.http.get(format!("{elsewhere}?token={token}"))).await;
    assert_eq!(page.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_offer_is_accepted_by_its_subscription() {
    let market = Market::new().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    let offer = market.new_offer(&customer, "cloud_b").await;
    market.work().await;
    market.pass(TimeDelta::seconds(61)).await;
    market.pass(TimeDelta::minutes(5)).await;
    let live = market.offer(&offer).await;
    let vendor_id = live["vendorOfferId"].as_str().unwrap_or_else(|| panic!("it is not live: {live}")).to_owned();
    market.control("POST", &format!("offers/{vendor_id}/accept"), json!({ "planId": "gold", "quantity": 3 })).await;
    settle(&market).await;
    assert_applied(&verdict(&market, "Subscribe").await);
    let accepted = market.offer(&offer).await;
    let opened = entitlement(&market).await;
    assert_eq!(accepted["status"], json!("accepted"));
    assert_eq!(accepted["entitlementId"], json!(opened.id));
    assert_eq!((opened.status, seats(&opened).as_deref()), (Active, Some("3")));
    assert_eq!(opened.private_offer_id.map(|id| json!(id)), Some(offer["id"].clone()));
}
