//! In whatever order they come and however often: the end is the same, and nothing happens twice.

use mercato::marketplace::cloud_b::CloudB;
use mercato::model::entitlement::{Dimension, EntitlementStatus};
use mercato::model::filter::{Filter, Order};
use mercato::model::notification::NotificationVerdict;
use mercato::model::page::Window;
use mercato::model::time::Timestamp;
use mercato::model::vendor::Vendor;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{act, events, settle, subscribe, tell_a, tenant};
use crate::harness::Market;

/// What an entitlement comes to.
type End = (EntitlementStatus, Timestamp, Option<Timestamp>, Vec<Dimension>, Option<String>);

async fn end(market: &Market, vendor: Vendor, account: &str) -> End {
    let customer = tenant(market).find_customer_at(vendor, account).await.expect("an answer").expect("a customer").id;
    let filter = Filter { customer: Some(customer), ..Filter::default() };
    let window = Window { limit: 10, after: None };
    let listed = tenant(market).list_entitlements(&filter, Order::Newest, window).await.expect("a list").items;
    let [found] = &listed[..] else { panic!("{listed:#?}") };
    (found.status, found.start_date, found.end_date, found.dimensions.clone(), found.plan_id.clone())
}

/// A picture of the agreement, told at this minute.
fn picture(buyer: &str, kind: &str, (minute, status): (u32, &str), (end, seats): (&str, u32), licensed: bool) -> Value {
    let licence = licensed.then(|| json!({ "arn": "arn:licence:1" }));
    json!({
        "version": "0", "id": format!("{buyer}-{minute}"), "detail-type": kind, "source": "agreements",
        "time": format!("2026-01-05T09:{minute:02}:00Z"),
        "detail": {
            "agreement": { "id": format!("agmt-{buyer}"), "intent": "NEW", "status": status, "acceptanceTime": "2026-01-05T09:00:00Z",
                           "startTime": "2026-01-05T09:00:00Z", "endTime": end },
            "acceptor": { "accountId": buyer }, "offer": { "id": "offer-1" }, "license": licence,
            "product": { "id": "lst_1", "code": "lst_1" }, "dimensions": [{ "key": "seats", "value": seats }],
        },
    })
}

/// The life of an agreement that ends so.
fn life(buyer: &str, ends: &str) -> [Value; 4] {
    let (first, longer, over) = ("2027-01-05T09:00:00Z", "2028-01-05T09:00:00Z", "2026-01-05T09:40:00Z");
    [
        picture(buyer, "Purchase Agreement Created", (0, "ACTIVE"), (first, 5), false),
        picture(buyer, "License Updated", (1, "ACTIVE"), (first, 5), true),
        picture(buyer, "Purchase Agreement Amended", (20, "ACTIVE"), (longer, 8), true),
        picture(buyer, "Purchase Agreement Ended", (40, ends), (over, 8), true),
    ]
}

/// Each at least once, some more often, in any order; and after which of them the worker comes round.
fn orders() -> impl Strategy<Value = (Vec<usize>, Vec<bool>)> {
    let told = prop::collection::vec(0..4_usize, 0..4).prop_map(|more| [vec![0, 1, 2, 3], more].concat());
    (told.prop_shuffle(), prop::collection::vec(any::<bool>(), 8))
}

async fn tell_agreement(market: &Market, ends: &str, order: &[usize], works: &[bool]) -> (End, Vec<String>) {
    let before = events(market).await.len();
    let buyer = format!("{before:012}");
    let told = life(&buyer, ends);
    for (place, index) in order.iter().enumerate() {
        assert_eq!(tell_a(market, &told[*index]).await.status, 200);
        if works[place % works.len()] {
            market.app.app.inbox.run().await.expect("the inbox's work");
        }
    }
    market.app.app.inbox.run().await.expect("the inbox's work");
    let kept = tenant(market).notifications_of(Vendor::CloudA, &format!("agmt-{buyer}")).await.expect("a list");
    assert_eq!(kept.len(), 4);
    for kept in kept {
        let settled = matches!(kept.verdict, Some(NotificationVerdict::Applied | NotificationVerdict::Ignored));
        assert!(settled, "{} {:?} {:?}", kept.kind, kept.verdict, kept.reason);
    }
    (end(market, Vendor::CloudA, &buyer).await, events(market).await.split_off(before))
}

fn count(events: &[String], kind: &str) -> usize {
    events.iter().filter(|event| *event == kind).count()
}

/// Runs a property on one market for all its cases.
fn property<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(&tokio::runtime::Runtime, &Market, S::Value) -> Result<(), TestCaseError>,
) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let market = runtime.block_on(Market::new());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let done = TestRunner::new(config).run(strategy, |value| test(&runtime, &market, value));
    done.expect("the same end");
}

#[test]
fn an_agreement_ends_the_same_in_any_order() {
    let ways = prop::sample::select(vec!["CANCELLED", "TERMINATED", "EXPIRED", "RENEWED", "REPLACED"]);
    property(48, &(ways, orders()), |runtime, market, (ends, (order, works))| {
        let (expected, _) = runtime.block_on(tell_agreement(market, ends, &[0, 1, 2, 3], &[true]));
        let (found, events) = runtime.block_on(tell_agreement(market, ends, &order, &works));
        prop_assert_eq!(&found, &expected, "{:?}", events);
        let goes_on = matches!(ends, "RENEWED" | "REPLACED");
        let status = match ends {
            "EXPIRED" => EntitlementStatus::Expired,
            _ if goes_on => EntitlementStatus::Active,
            _ => EntitlementStatus::Cancelled,
        };
        prop_assert_eq!(found.0, status);
        prop_assert_eq!(count(&events, "customer.created"), 1);
        prop_assert_eq!(count(&events, "entitlement.created"), 1);
        let over = count(&events, "entitlement.cancelled") + count(&events, "entitlement.expired");
        prop_assert_eq!(over, usize::from(!goes_on));
        // Each picture but the first has one thing to add, at most.
        prop_assert!(count(&events, "entitlement.updated") <= 3, "{:?}", events);
        Ok(())
    });
}

/// What the simulator has told of a subscription, by its numbers of it.
async fn told_of(market: &Market, subscription: &str) -> Vec<u64> {
    let world = market.world().await;
    let all = world["notifications"].as_array().expect("a list");
    let own = all.iter().filter(|told| told["body"]["subscriptionId"] == json!(subscription));
    own.map(|told| told["id"].as_u64().expect("a number")).collect()
}

async fn tell_subscription(market: &Market, order: &[usize], works: &[bool]) -> (End, Vec<String>) {
    let before = events(market).await.len();
    let buyer = format!("buyer-{before}");
    market.faults(json!({ "dropNotifications": 4 })).await;
    let bought = subscribe(market, json!({ "tenantId": buyer })).await;
    let subscription = bought["subscription"]["id"].as_str().expect("an id").to_owned();
    let cloud = CloudB::new(market.cloud_b(), market.client());
    cloud.activate(&subscription, "gold", Some(5.into())).await.expect("it begins");
    let operation = act(market, &subscription, "ChangeQuantity", json!({ "quantity": 7 })).await;
    cloud.patch_operation(&subscription, &operation, true).await.expect("it is acknowledged");
    act(market, &subscription, "Renew", json!({})).await;
    act(market, &subscription, "Suspend", json!({})).await;
    let told = told_of(market, &subscription).await;
    assert_eq!(told.len(), 4);
    for (place, index) in order.iter().enumerate() {
        market.control("POST", &format!("notifications/{}/resend", told[*index]), json!({})).await;
        if works[place % works.len()] {
            settle(market).await;
        }
    }
    settle(market).await;
    (end(market, Vendor::CloudB, &buyer).await, events(market).await.split_off(before))
}

#[test]
fn a_subscription_ends_the_same_in_any_order() {
    property(12, &orders(), |runtime, market, (order, works)| {
        let (found, events) = runtime.block_on(tell_subscription(market, &order, &works));
        let (status, _, _, dimensions, plan) = found;
        prop_assert_eq!((status, plan.as_deref()), (EntitlementStatus::Suspended, Some("gold")));
        prop_assert_eq!(dimensions[0].value, 7.into());
        prop_assert_eq!(count(&events, "entitlement.created"), 1);
        prop_assert_eq!(count(&events, "entitlement.updated"), 1);
        prop_assert_eq!(count(&events, "customer.created"), 1);
        Ok(())
    });
}
