//! Private offers at the marketplaces: published, changed, withdrawn, by workers that may fail or die in between.

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::harness::{Market, Reply};

const VENDORS: [(&str, &str); 2] = [("cloud_a", "123456789012"), ("cloud_b", "buyer-1")];

fn publication(offer: &Value) -> (&str, &str) {
    let publication = &offer["details"]["cloud"]["publication"];
    (publication["state"].as_str().unwrap_or_default(), publication["message"].as_str().unwrap_or_default())
}

/// Until the marketplace has done what it was asked for.
async fn settle(market: &Market) {
    for _ in 0..8 {
        market.pass(TimeDelta::minutes(1)).await;
    }
}

/// A POST that takes no body.
async fn ask(market: &Market, path: &str) -> Value {
    Reply::of(market.party.request(reqwest::Method::POST, path)).await.data()
}

async fn held(market: &Market) -> Vec<Value> {
    market.world().await["offers"].as_array().cloned().unwrap_or_default()
}

/// One of cloud_a is taken back by an expiry that is over.
fn withdrawn(offer: &Value) -> bool {
    offer["state"] == "withdrawn" || offer["state"] == "expired"
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_is_published_moved_replaced_and_withdrawn() {
    for (vendor, account) in VENDORS {
        let market = Market::new().await;
        let customer = market.customer(vendor, account).await;
        let offer = market.new_offer(&customer, vendor).await;
        assert_eq!(publication(&offer).0, "pending");
        market.work().await;
        assert_eq!(publication(&market.offer(&offer).await).0, "pending", "the marketplace is at it");
        settle(&market).await;
        let live = market.offer(&offer).await;
        assert_eq!((publication(&live), live["status"].as_str()), (("live", ""), Some("created")));
        let first = live["vendorOfferId"].as_str().expect("it has the marketplace's id").to_owned();
        assert_eq!(market.told_of(&offer).await, ["private_offer.created", "private_offer.updated"]);

        let path = format!("/api/v1/private-offers/{}", offer["id"].as_str().expect("an id"));
        market.party.put(&path, &json!({ "expiresAt": "2026-02-20T00:00:00Z" })).await.data();
        market.work().await;
        settle(&market).await;
        let found = held(&market).await;
        assert_eq!(found.len(), 1, "{vendor}: the same offer, until later: {found:?}");
        assert!(found[0].to_string().contains("2026-02-20"), "{found:?}");

        market.party.put(&path, &json!({ "details": { "pricing": { "discountPercentage": 30 } } })).await.data();
        settle(&market).await;
        settle(&market).await;
        let found = held(&market).await;
        let second = market.offer(&offer).await["vendorOfferId"].as_str().expect("an id").to_owned();
        assert_ne!(first, second, "other terms are another offer");
        assert_eq!(found.iter().filter(|offer| !withdrawn(offer)).count(), 1, "{vendor}: {found:?}");

        market.party.delete(&path).await.data();
        settle(&market).await;
        assert!(held(&market).await.iter().all(withdrawn), "{vendor}: {:?}", held(&market).await);
        assert_eq!(market.app.rows("SELECT * FROM outbox").await, Vec::<Value>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_visible_explained_and_can_be_retried() {
    for (vendor, account) in VENDORS {
        let market = Market::new().await;
        let customer = market.customer(vendor, account).await;
        market.faults(json!({ "failPublications": 1 })).await;
        let offer = market.new_offer(&customer, vendor).await;
        settle(&market).await;
        let failed = market.offer(&offer).await;
        let (state, message) = publication(&failed);
        assert_eq!((state, failed["status"].as_str()), ("failed", Some("created")));
        assert!(message.starts_with("The marketplace did not publish the offer: "), "{message}");

        let path = format!("/api/v1/private-offers/{}/publish", offer["id"].as_str().expect("an id"));
        assert_eq!(publication(&ask(&market, &path).await).0, "pending");
        settle(&market).await;
        let live = market.offer(&offer).await;
        assert_eq!(publication(&live), ("live", ""));
        assert_eq!(ask(&market, &path).await, live, "there is nothing to try again");
        let told = market.told_of(&offer).await;
        assert_eq!(told.len(), 4, "created, failed, pending, live: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_publishes_nothing_twice() {
    for (vendor, account) in VENDORS {
        let market = Market::new().await;
        let customer = market.customer(vendor, account).await;
        let offer = market.new_offer(&customer, vendor).await;
        // It has the marketplace do the work, and dies before it writes that down.
        market.faults(json!({ "errorsAfter": 1 })).await;
        let before = market.app.rows("SELECT id, note, tries FROM outbox").await;
        market.work().await;
        market
            .app
            .rows(&format!(
                "UPDATE outbox SET note = NONE, tries = {}, due = time::from_millis(0) RETURN NONE",
                before[0]["tries"]
            ))
            .await;
        settle(&market).await;
        settle(&market).await;
        assert_eq!(publication(&market.offer(&offer).await).0, "live");
        assert_eq!(held(&market).await.len(), 1, "{vendor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_an_account_or_a_marketplace_is_not_lost() {
    let market = Market::unconnected().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    let offer = market.new_offer(&customer, "cloud_b").await;
    market.work().await;
    market.connect().await;
    market.faults(json!({ "serverErrors": 1_000_000 })).await;
    settle(&market).await;
    assert_eq!(publication(&market.offer(&offer).await), ("pending", ""));
    market.faults(json!({})).await;
    settle(&market).await;
    assert_eq!(publication(&market.offer(&offer).await).0, "live");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_is_cancelled_while_it_is_published_is_withdrawn() {
    let market = Market::new().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    let offer = market.new_offer(&customer, "cloud_b").await;
    market.work().await;
    market.party.delete(&format!("/api/v1/private-offers/{}", offer["id"].as_str().expect("an id"))).await.data();
    settle(&market).await;
    settle(&market).await;
    let found = held(&market).await;
    assert!(!found.is_empty() && found.iter().all(withdrawn), "{found:?}");
    assert_eq!(market.offer(&offer).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_the_outbox() {
    let market = Market::new().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    let mut offers = Vec::new();
    for _ in 0..5 {
        offers.push(market.new_offer(&customer, "cloud_b").await);
    }
    let clerk = &market.app.app.clerk;
    for _ in 0..8 {
        let (one, other) = tokio::join!(clerk.run(), clerk.run());
        one.and(other).expect("the outbox's work");
        market.app.advance(TimeDelta::minutes(1));
        market.control("POST", "advance", json!({ "seconds": 0 })).await;
    }
    for offer in &offers {
        assert_eq!(publication(&market.offer(offer).await).0, "live");
        assert_eq!(market.told_of(offer).await.len(), 2);
    }
    assert_eq!(held(&market).await.len(), 5);
}

/// A deal with a partner is published as one, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn deals_with_partners_are_published_as_such_or_fail() {
    let market = Market::new().await;
    let customer = market.customer("cloud_b", "partner-1").await;
    let offer = |kind: &str, discount: Value| {
        let mut body = json!({
            "vendor": "cloud_b", "listingId": "lst_1", "customerId": customer["id"],
            "details": { "pricing": { "duration": 12 }, "cloud": { "offerType": kind } },
        });
        for (field, value) in discount.as_object().expect("an object") {
            body["details"]["pricing"][field] = value.clone();
        }
        let party = &market.party;
        async move { party.post("/api/v1/private-offers", &body).await.created() }
    };
    let percent = json!({ "discountPercentage": 20 });
    let margin = offer("csp", percent.clone()).await;
    let amount = offer("csp", json!({ "discountAmount": 100 })).await;
    let multi = offer("multi_party", percent.clone()).await;
    settle(&market).await;
    assert_eq!(publication(&market.offer(&margin).await), ("live", ""));
    assert_eq!(held(&market).await.len(), 1);
    assert_eq!(held(&market).await[0]["details"]["privateOfferType"], "cspPromotion");
    for (failed, said) in [(&amount, "discountAmount cannot be said"), (&multi, "names its selling partner")] {
        let found = market.offer(failed).await;
        let (state, message) = publication(&found);
        assert_eq!((state, message.contains(said)), ("failed", true), "{message}");
    }
    // Said in percent, it can be published.
    let path = format!("/api/v1/private-offers/{}", amount["id"].as_str().expect("an id"));
    market.party.put(&path, &json!({ "details": { "pricing": percent } })).await.data();
    ask(&market, &format!("{path}/publish")).await;
    settle(&market).await;
    assert_eq!(publication(&market.offer(&amount).await), ("live", ""));
}
