//! Renewals that are told late: our clock leaves the end of a contract that may renew itself to its marketplace's word.

use chrono::TimeDelta;
use mercato::model::entitlement::EntitlementStatus::{Active, Expired};
use mercato::model::entitlement::{Entitlement, HistoryAction};
use serde_json::json;

use super::{agree, entitlement, events, pass, settle, subscribe, tenant};
use crate::harness::Market;

/// A contract of a month that renews itself.
async fn contract(market: &Market, vendor: &str) -> Entitlement {
    match vendor {
        "cloud_a" => drop(agree(market, json!({ "months": 1, "autoRenew": true })).await),
        _ => drop(subscribe(market, json!({ "months": 1, "autoRenew": true })).await),
    }
    settle(market).await;
    pass(market, TimeDelta::minutes(1)).await;
    market.app.tick().await;
    entitlement(market).await
}

/// To some time after the end of a contract.
async fn pass_end(market: &Market, contract: &Entitlement, after: TimeDelta) {
    let end = contract.end_date.expect("an end").as_datetime();
    pass(market, end - market.app.clock.now().as_datetime() + after).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_is_told_late_is_one_all_the_same() {
    for vendor in ["cloud_a", "cloud_b"] {
        for hours in [1, 20] {
            let market = Market::new().await;
            let before = contract(&market, vendor).await;
            market.faults(json!({ "delayNotifications": { "count": 3, "seconds": hours * 3600 } })).await;
            pass_end(&market, &before, TimeDelta::minutes(5)).await;
            assert_eq!(market.app.tick().await, 0, "{vendor}");
            assert_eq!(entitlement(&market).await, before, "{vendor}: nothing was told yet");

            pass_end(&market, &before, TimeDelta::hours(hours) + TimeDelta::minutes(5)).await;
            assert_eq!(market.app.tick().await, 0, "{vendor}");
            let after = entitlement(&market).await;
            assert_eq!((after.id, after.status), (before.id, Active), "{vendor}, {hours} hours");
            assert!(after.end_date > before.end_date, "{vendor}: {after:?}");
            let told: Vec<_> = events(&market).await.into_iter().filter(|kind| kind.starts_with("entitle")).collect();
            let renewed = told.iter().filter(|kind| *kind == "entitlement.renewed").count();
            assert_eq!((told[0].as_str(), renewed), ("entitlement.created", 1), "{vendor}: {told:?}");
            assert!(!told.iter().any(|kind| kind == "entitlement.expired"), "{vendor}: {told:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_of_which_nothing_is_told_for_two_days_was_none() {
    for vendor in ["cloud_a", "cloud_b"] {
        let market = Market::new().await;
        let before = contract(&market, vendor).await;
        market.faults(json!({ "dropNotifications": 3 })).await;
        pass_end(&market, &before, TimeDelta::hours(47)).await;
        // One that was written down as due at its very end is not moved, and is not looked at again.
        market.app.rows("UPDATE entitlement SET due = time::from_millis(0) RETURN NONE").await;
        assert_eq!((market.app.tick().await, entitlement(&market).await.status), (0, Active), "{vendor}");
        assert!(market.app.rows("SELECT id FROM entitlement WHERE due < d'2026-01-01T00:00:00Z'").await.is_empty());

        pass_end(&market, &before, TimeDelta::hours(49)).await;
        assert_eq!((market.app.tick().await, entitlement(&market).await.status), (1, Expired), "{vendor}");
        let detail = tenant(&market).get_entitlement(before.id).await.expect("it is there");
        assert_eq!(detail.history.last().map(|entry| entry.action), Some(HistoryAction::Expired));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_does_not_renew_itself_ends_at_its_end() {
    let market = Market::new().await;
    subscribe(&market, json!({ "months": 1, "autoRenew": false })).await;
    settle(&market).await;
    let before = entitlement(&market).await;
    assert_eq!(before.auto_renew, Some(false));
    market.faults(json!({ "dropNotifications": 1 })).await;
    pass_end(&market, &before, TimeDelta::minutes(1)).await;
    assert_eq!((market.app.tick().await, entitlement(&market).await.status), (1, Expired));
}
