//! What is forgotten in time, what never is while it is needed, and that what was forgotten is not done again; and the
//! work as it runs in production.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use mercato::model::entitlement::EntitlementStatus::{Active, Cancelled};
use mercato::model::notification::NotificationVerdict::Ignored;
use mercato::model::vendor::Vendor;
use serde_json::json;

use super::{act_on, agree, entitlement, events, kept, pass, settle, subscribe, tell_a};
use crate::harness::{Market, TestApp};

const CREATED: &str = "Purchase Agreement Created";

async fn sweep(market: &Market) -> usize {
    market.app.app.inbox.sweep().await.expect("the sweep runs")
}

async fn count(market: &Market, vendor: Vendor) -> usize {
    kept(&market.app, market).await.iter().filter(|kept| kept.vendor == vendor).count()
}

/// The marketplace tells everything once more.
async fn replay(market: &Market) {
    for told in market.world().await["notifications"].as_array().expect("a list") {
        market.control("POST", &format!("notifications/{}/resend", told["id"]), json!({})).await;
    }
    settle(market).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_forgotten_unless_their_agreement_lives() {
    let market = Market::new().await;
    let agreement = agree(&market, json!({})).await;
    subscribe(&market, json!({ "months": 12, "tenantId": "buyer-2" })).await;
    tell_a(&market, &json!({ "id": "odd", "detail-type": "Odd", "time": market.app.clock.now() })).await;
    settle(&market).await;
    assert_eq!((count(&market, Vendor::CloudA).await, count(&market, Vendor::CloudB).await), (3, 1));
    market.app.advance(TimeDelta::days(90));
    assert_eq!(sweep(&market).await, 0);
    market.app.advance(TimeDelta::days(1));
    assert_eq!(sweep(&market).await, 2, "what is not of an agreement");
    assert_eq!((count(&market, Vendor::CloudA).await, count(&market, Vendor::CloudB).await), (2, 0));

    // What was told first is needed: nothing else names the licence.
    act_on(&market, &agreement, "cancel", json!({})).await;
    settle(&market).await;
    market.app.advance(TimeDelta::days(89));
    assert_eq!(sweep(&market).await, 0, "it is over for a while only");
    market.app.advance(TimeDelta::days(91));
    assert_eq!(sweep(&market).await, 3, "all that was told of it, at once");
    assert!(kept(&market.app, &market).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_forgotten_and_comes_again_does_no_harm() {
    let market = Market::new().await;
    let first = agree(&market, json!({})).await;
    subscribe(&market, json!({ "months": 12, "autoRenew": false, "tenantId": "buyer-2" })).await;
    settle(&market).await;
    let renewed = act_on(&market, &first, "renew", json!({})).await;
    settle(&market).await;
    pass(&market, TimeDelta::days(91)).await;
    let (before, told) = (super::entitlements(&market).await, events(&market).await);
    assert!(sweep(&market).await > 0);
    let left = kept(&market.app, &market).await;
    assert!(left.iter().all(|kept| renewed["id"] == json!(kept.subject)), "only what lives: {left:#?}");

    replay(&market).await;
    assert_eq!(super::entitlements(&market).await, before);
    assert_eq!(events(&market).await, told);
    let again = kept(&market.app, &market).await.into_iter().find(|kept| kept.subject == first);
    let again = again.expect("it is shown");
    assert_eq!(again.verdict, Some(Ignored));
    assert_eq!(again.reason.as_deref(), Some("it came more than 90 days late"));

    // What lives is still known in full: an amendment names no licence.
    act_on(
        &market,
        renewed["id"].as_str().expect("an id"),
        "amend",
        json!({ "dimensions": [{ "key": "seats", "value": 9 }] }),
    )
    .await;
    settle(&market).await;
    let all = super::entitlements(&market).await;
    let entitlement = all.into_iter().find(|found| json!(found.agreement_id) == renewed["id"]).expect("it lives");
    assert_eq!((entitlement.status, super::seats(&entitlement).as_deref()), (Active, Some("9")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_say_when_it_happened_is_not_forgotten() {
    let market = Market::new().await;
    let undated = json!({ "id": "undated", "detail-type": CREATED, "detail": { "agreement": { "id": "agmt-1" } } });
    for _ in 0..2 {
        tell_a(&market, &undated).await;
        settle(&market).await;
        market.app.advance(TimeDelta::days(400));
        assert_eq!(sweep(&market).await, 0);
        assert_eq!(count(&market, Vendor::CloudA).await, 1, "and so it is kept once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_refused_is_forgotten_too() {
    let market = Market::new().await;
    let path = super::path(&market, "cloud_a");
    market.app.http.post(path).body("{}").send().await.expect("an answer");
    market.app.advance(TimeDelta::days(90));
    assert_eq!(market.app.store.sweep(TimeDelta::days(30)).await.expect("the sweep runs").refusals, 0);
    market.app.advance(TimeDelta::days(1));
    assert_eq!(market.app.store.sweep(TimeDelta::days(30)).await.expect("the sweep runs").refusals, 1);
    let left = market.app.rows("SELECT VALUE action FROM audit").await;
    assert!(left.contains(&json!("marketplace.connected")) && !left.contains(&json!("notification.refused")));
}

/// Nobody drives the workers here.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_service_applies_what_it_is_told_and_stops() {
    let market = Market::around(TestApp::working().await).await;
    market.connect().await;
    let agreement = agree(&market, json!({})).await;
    let settled = async |count| {
        while kept(&market.app, &market).await.iter().filter(|kept| kept.verdict.is_some()).count() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), settled(2)).await.expect("both are applied");
    assert_eq!(entitlement(&market).await.status, Active);
    act_on(&market, &agreement, "cancel", json!({})).await;
    tokio::time::timeout(Duration::from_mins(1), settled(3)).await.expect("the end is applied");
    assert_eq!(entitlement(&market).await.status, Cancelled);

    let Market { app, simulator, .. } = market;
    let app = Arc::into_inner(app).expect("nobody else has it");
    simulator.stop().await;
    tokio::time::timeout(Duration::from_mins(1), app.app.stop()).await.expect("the workers end");
}
