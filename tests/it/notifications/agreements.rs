//! Agreements of `cloud_a`.

use chrono::TimeDelta;
use mercato::model::entitlement::EntitlementStatus::{Active, Cancelled, Expired, Pending};
use mercato::model::notification::NotificationVerdict::Ignored;
use serde_json::json;

use super::{
    act_on, agree, assert_applied, entitlement, entitlements, events, pass, seats, settle, tell_a, tenant, verdict,
};
use crate::harness::Market;

const CREATED: &str = "Purchase Agreement Created";
const AMENDED: &str = "Purchase Agreement Amended";
const ENDED: &str = "Purchase Agreement Ended";
const LICENSED: &str = "License Updated";

#[tokio::test(flavor = "multi_thread")]
async fn the_licence_may_be_told_before_or_after() {
    for (licence, told) in [
        ("before", vec!["customer.created", "entitlement.created"]),
        ("after", vec!["customer.created", "entitlement.created"]),
    ] {
        let market = Market::new().await;
        let agreement = agree(&market, json!({ "licence": licence })).await;
        settle(&market).await;
        let opened = entitlement(&market).await;
        assert_eq!((opened.status, opened.agreement_id.as_deref()), (Active, Some(&*agreement)), "{licence}");
        assert_eq!(seats(&opened).as_deref(), Some("5"));
        let customers = tenant(&market).customers(&[opened.customer_id]).await.expect("a customer");
        assert_eq!(customers[0].cloud_account_id.as_deref(), Some("123456789012"));
        assert_eq!(customers[0].company_name, "123456789012");
        assert_eq!(events(&market).await, told, "{licence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agreement_without_a_licence_is_pending() {
    let market = Market::new().await;
    agree(&market, json!({ "licence": "never" })).await;
    settle(&market).await;
    assert_applied(&verdict(&market, CREATED).await);
    assert_eq!(entitlement(&market).await.status, Pending);
    market.app.advance(TimeDelta::days(1));
    market.app.tick().await;
    assert_eq!(entitlement(&market).await.status, Pending, "its start alone does not activate it");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_begins_later_waits_for_its_start() {
    let market = Market::new().await;
    let start = market.app.clock.now().plus(TimeDelta::days(3));
    agree(&market, json!({ "startTime": start, "licence": "after" })).await;
    settle(&market).await;
    assert_eq!(entitlement(&market).await.status, Pending);
    market.app.tick().await;
    assert_eq!(entitlement(&market).await.status, Pending);
    market.app.advance(TimeDelta::days(3));
    market.app.tick().await;
    assert_eq!(entitlement(&market).await.status, Active);
}

#[tokio::test(flavor = "multi_thread")]
async fn amendments_and_ends_are_carried_over() {
    for (action, status) in [("cancel", Cancelled), ("terminate", Cancelled), ("expire", Expired)] {
        let market = Market::new().await;
        let agreement = agree(&market, json!({})).await;
        settle(&market).await;
        let end = entitlement(&market).await.end_date;
        pass(&market, TimeDelta::hours(1)).await;
        let fields =
            json!({ "months": 24, "dimensions": [{ "key": "seats", "value": 8 }, { "key": "gb", "value": "1.5" }] });
        act_on(&market, &agreement, "amend", fields).await;
        settle(&market).await;
        assert_applied(&verdict(&market, AMENDED).await);
        let amended = entitlement(&market).await;
        assert_eq!((seats(&amended).as_deref(), amended.dimensions.len()), (Some("8"), 2));
        assert!(amended.end_date > end);
        pass(&market, TimeDelta::hours(1)).await;
        act_on(&market, &agreement, action, json!({})).await;
        settle(&market).await;
        assert_applied(&verdict(&market, ENDED).await);
        assert_eq!(entitlement(&market).await.status, status, "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_licence_that_is_gone_changes_nothing_by_itself() {
    let market = Market::new().await;
    let agreement = agree(&market, json!({})).await;
    settle(&market).await;
    pass(&market, TimeDelta::hours(1)).await;
    let before = events(&market).await;
    act_on(&market, &agreement, "deprovision", json!({})).await;
    settle(&market).await;
    assert_eq!(verdict(&market, "License Deprovisioned").await.0, Some(Ignored));
    assert_eq!(entitlement(&market).await.status, Active);
    assert_eq!(events(&market).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_and_replacements_move_dates_and_agreement() {
    for (action, kind) in [("renew", "entitlement.renewed"), ("replace", "entitlement.updated")] {
        let market = Market::new().await;
        let agreement = agree(&market, json!({})).await;
        settle(&market).await;
        let before = entitlement(&market).await;
        pass(&market, TimeDelta::days(30)).await;
        let next = act_on(&market, &agreement, action, json!({ "months": 24 })).await;
        settle(&market).await;
        let after = entitlement(&market).await;
        assert_eq!((after.id, after.status), (before.id, Active), "{action}");
        assert_eq!(after.agreement_id.as_deref(), next["id"].as_str(), "{action}");
        assert!(after.end_date > before.end_date, "{action}");
        assert_eq!(events(&market).await, ["customer.created", "entitlement.created", kind], "{action}");
        assert_eq!(verdict(&market, ENDED).await.0, Some(Ignored), "{action}");
        assert_applied(&verdict(&market, CREATED).await);
        assert_eq!(verdict(&market, LICENSED).await.0, Some(Ignored));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn publications_are_kept_and_left_to_the_publisher() {
    let market = Market::new().await;
    let customer = market.customer("cloud_a", "123456789012").await;
    let offer = market.new_offer(&customer, "cloud_a").await;
    market.work().await;
    market.pass(TimeDelta::seconds(61)).await;
    market.pass(TimeDelta::minutes(5)).await;
    settle(&market).await;
    for kind in ["Change Set Succeeded", "Offer Released"] {
        assert_eq!(verdict(&market, kind).await, (Some(Ignored), "the publisher asks for it itself".to_owned()));
    }
    let vendor_id = market.offer(&offer).await["vendorOfferId"].as_str().expect("it is live").to_owned();
    let accepted = json!({ "dimensions": [{ "key": "seats", "value": 2 }] });
    market.control("POST", &format!("offers/{vendor_id}/accept"), accepted).await;
    settle(&market).await;
    let opened = entitlement(&market).await;
    assert_eq!((opened.status, seats(&opened).as_deref()), (Active, Some("2")));
    assert_eq!(market.offer(&offer).await["status"], json!("accepted"));
    assert_eq!(market.offer(&offer).await["entitlementId"], json!(opened.id));

    market.faults(json!({ "failPublications": 1 })).await;
    market.new_offer(&customer, "cloud_a").await;
    market.work().await;
    market.pass(TimeDelta::seconds(61)).await;
    settle(&market).await;
    assert_eq!(verdict(&market, "Change Set Failed").await.0, Some(Ignored));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_kinds_and_states_are_kept() {
    let market = Market::new().await;
    let unknown = json!({ "id": "e-1", "detail-type": "Purchase Agreement Sung", "time": "2026-01-05T10:00:00Z",
                          "detail": { "agreement": { "id": "agmt-1" } } });
    let odd = json!({ "id": "e-2", "detail-type": CREATED, "time": "2026-01-05T10:00:00Z", "detail": {
        "agreement": { "id": "agmt-2", "status": "LIMBO" }, "acceptor": { "accountId": "123456789012" },
        "product": { "id": "lst_1" } } });
    let empty = json!({ "id": "e-3", "detail-type": AMENDED, "detail": {} });
    for body in [&unknown, &odd, &empty] {
        assert_eq!(tell_a(&market, body).await.status, 200);
    }
    settle(&market).await;
    let unknown = verdict(&market, "Purchase Agreement Sung").await;
    assert_eq!(unknown, (Some(Ignored), "unknown kind Purchase Agreement Sung".to_owned()));
    assert_eq!(verdict(&market, CREATED).await.0, Some(Ignored));
    assert_eq!(verdict(&market, AMENDED).await.0, Some(mercato::model::notification::NotificationVerdict::Failed));
    assert!(entitlements(&market).await.is_empty());
}
