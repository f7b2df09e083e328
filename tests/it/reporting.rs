//! Usage at the marketplaces: reported once, whatever fails on the way, and never dropped silently.

use chrono::TimeDelta;
use mercato::model::id::MeteringId;
use mercato::store::outbox::Errand;
use serde_json::{Value, json};

use crate::harness::Market;

async fn submit(market: &Market, customer: &Value, rows: Value) -> Value {
    let body = json!({ "listingId": "lst_1", "details": { "customer": { "id": customer["id"] }, "usage": rows } });
    market.party.post("/api/v1/metering", &body).await.created()
}

async fn report(market: &Market, receipt: &Value) -> Value {
    market.party.get(&format!("/api/v1/metering/{}", receipt["id"].as_str().expect("an id"))).await.data()
}

fn verdicts(report: &Value) -> Vec<&str> {
    let rows = report["details"]["usage"].as_array().expect("rows");
    rows.iter().map(|row| row["verdict"].as_str().unwrap_or("none")).collect()
}

async fn usage(market: &Market) -> Vec<(String, f64)> {
    let world = market.world().await;
    let rows = world["usage"].as_array().cloned().unwrap_or_default();
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| (row["dimension"].as_str().unwrap_or_default().to_owned(), row["quantity"].as_f64().unwrap_or(-1.0)))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// A customer of each marketplace with a contract there.
async fn parties(market: &Market) -> [Value; 2] {
    let a = market.customer("cloud_a", "123456789012").await;
    market.agreed(&a).await;
    let b = market.customer("cloud_b", "buyer-1").await;
    market.subscribed(&b).await;
    [a, b]
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_submitted_and_confirmed() {
    let market = Market::new().await;
    for customer in parties(&market).await {
        let rows = json!([{ "dimension": "calls", "quantity": 12.5 }, { "dimension": "seats", "quantity": 3 }]);
        let receipt = submit(&market, &customer, rows).await;
        market.work().await;
        let done = report(&market, &receipt).await;
        assert_eq!((done["status"].as_str(), verdicts(&done)), (Some("confirmed"), vec!["CONFIRMED", "CONFIRMED"]));
        assert_eq!(market.told_of(&receipt).await, ["metering.submitted", "metering.confirmed"]);
    }
    // cloud_a takes whole numbers; the rest is carried.
    let expected = [("calls", 12.0), ("calls", 12.5), ("seats", 3.0), ("seats", 3.0)];
    assert_eq!(usage(&market).await, expected.map(|(dimension, quantity)| (dimension.to_owned(), quantity)));
    assert_eq!(market.app.rows("SELECT * FROM outbox").await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_without_usage_is_confirmed_by_us() {
    let market = Market::new().await;
    for customer in parties(&market).await {
        let receipt = submit(&market, &customer, json!([])).await;
        market.work().await;
        assert_eq!(report(&market, &receipt).await["status"], "confirmed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_row_spoils_nothing_but_itself() {
    let market = Market::new().await;
    market.control("PUT", "dimensions", json!({ "lst_1": ["calls", "seats"] })).await;
    for customer in parties(&market).await {
        let rows = json!([
            { "dimension": "calls", "quantity": 1 }, { "dimension": "typo", "quantity": 1 },
            { "dimension": "seats", "quantity": 1 },
        ]);
        let receipt = submit(&market, &customer, rows).await;
        market.work().await;
        let failed = report(&market, &receipt).await;
        assert_eq!(verdicts(&failed), ["CONFIRMED", "INVALID_DIMENSION", "CONFIRMED"]);
        assert_eq!(market.told_of(&receipt).await, ["metering.submitted", "metering.failed"]);
        // The slot of the refused row is free again.
        let again = submit(&market, &customer, json!([{ "dimension": "typo", "quantity": 2 }])).await;
        market.control("PUT", "dimensions", json!({ "lst_1": ["calls", "seats", "typo"] })).await;
        market.work().await;
        assert_eq!(report(&market, &again).await["status"], "confirmed");
        market.control("PUT", "dimensions", json!({ "lst_1": ["calls", "seats"] })).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_or_throttled_bills_nothing_twice() {
    for fault in [json!({ "errorsAfter": 3 }), json!({ "throttle": 3 }), json!({ "serverErrors": 3 })] {
        let mut market = Market::new().await;
        for customer in parties(&market).await {
            market.faults(fault.clone()).await;
            let rows: Vec<Value> =
                (0..6).map(|number| json!({ "dimension": format!("d{number}"), "quantity": number + 1 })).collect();
            let receipt = submit(&market, &customer, json!(rows)).await;
            for _ in 0..6 {
                market.pass(TimeDelta::minutes(5)).await;
            }
            market.party.refresh().await;
            let done = report(&market, &receipt).await;
            assert_eq!(done["status"], "confirmed", "{fault}: {done}");
        }
        let billed = usage(&market).await;
        assert_eq!(billed.len(), 12, "{fault}: {billed:?}");
        for (dimension, quantity) in billed {
            let number: f64 = dimension[1..].parse().expect("a number");
            assert!((quantity - number - 1.0).abs() < f64::EPSILON, "{dimension}: {quantity}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_subscribed_is_told_so() {
    let market = Market::new().await;
    parties(&market).await;
    for (vendor, account) in [("cloud_a", "999999999999"), ("cloud_b", "nobody")] {
        let customer = market.customer(vendor, account).await;
        let receipt = submit(&market, &customer, json!([{ "dimension": "calls", "quantity": 1 }])).await;
        market.work().await;
        assert_eq!(verdicts(&report(&market, &receipt).await), ["NOT_SUBSCRIBED"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marketplace_that_is_down_for_two_days_is_caught_up_with() {
    let mut market = Market::new().await;
    let parties = parties(&market).await;
    let mut early = Vec::new();
    let mut late = Vec::new();
    for customer in &parties {
        early.push(submit(&market, customer, json!([{ "dimension": "calls", "quantity": 1 }])).await);
    }
    market.faults(json!({ "serverErrors": 1_000_000 })).await;
    for hour in 0..48 {
        market.pass(TimeDelta::hours(1)).await;
        if hour == 40 {
            market.party.refresh().await;
            for customer in &parties {
                late.push(submit(&market, customer, json!([{ "dimension": "calls", "quantity": 2 }])).await);
            }
        }
    }
    market.party.refresh().await;
    for receipt in &early {
        let expired = report(&market, receipt).await;
        assert_eq!((expired["status"].as_str(), verdicts(&expired)), (Some("failed"), vec!["EXPIRED"]));
        assert!(
            expired["details"]["usage"][0]["message"]
                .as_str()
                .is_some_and(|said| said.contains("over before") && said.contains("the last attempt"))
        );
        assert_eq!(market.told_of(receipt).await, ["metering.submitted", "metering.failed"]);
    }
    market.faults(json!({})).await;
    for _ in 0..3 {
        market.pass(TimeDelta::minutes(5)).await;
    }
    for receipt in &late {
        assert_eq!(report(&market, receipt).await["status"], "confirmed");
    }
    assert_eq!(usage(&market).await.len(), 2, "what expired was not billed, the rest once");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_near_the_end_of_its_time_goes_first() {
    let market = Market::new().await;
    let [customer, _] = parties(&market).await;
    let now = market.app.clock.now();
    let mut receipts = Vec::new();
    for hours in [1, 23, 5] {
        let at = now.plus(-TimeDelta::hours(hours));
        let rows = json!([{ "dimension": format!("h{hours}"), "quantity": 1, "startTime": at }]);
        receipts.push(submit(&market, &customer, rows).await);
    }
    let taken = market.app.store.take_errands(2, &[]).await.expect("the outbox");
    let errand = |receipt: &Value| MeteringId::parse(receipt["id"].as_str().expect("an id")).map(Errand::Usage);
    let first: Vec<_> = taken.iter().map(|taken| Some(taken.errand)).collect();
    assert_eq!(first, [errand(&receipts[1]), errand(&receipts[2])], "that of 23 hours ago, then that of 5");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_account_usage_waits_and_says_when_it_is_too_late() {
    let mut market = Market::unconnected().await;
    let customer = market.customer("cloud_b", "buyer-1").await;
    let early = submit(&market, &customer, json!([{ "dimension": "calls", "quantity": 1 }])).await;
    market.pass(TimeDelta::hours(23)).await;
    market.party.refresh().await;
    let late = submit(&market, &customer, json!([{ "dimension": "calls", "quantity": 2 }])).await;
    assert_eq!(report(&market, &early).await["status"], "accepted");
    market.pass(TimeDelta::hours(2)).await;
    market.party.refresh().await;
    let expired = report(&market, &early).await;
    assert_eq!((expired["status"].as_str(), verdicts(&expired)), (Some("failed"), vec!["EXPIRED"]));
    market.connect().await;
    market.subscribed(&customer).await;
    market.pass(TimeDelta::minutes(5)).await;
    assert_eq!(report(&market, &late).await["status"], "confirmed");
}

/// What the marketplace has told is applied.
async fn hear(market: &Market) {
    let settled = market.control("POST", "settle", json!({ "retries": true })).await;
    assert_eq!(settled["settled"], json!(true), "{settled}");
    market.app.app.inbox.run().await.expect("the inbox's work");
}

/// The newest record of usage at the marketplace: the product, and the licence.
async fn newest(market: &Market) -> (Value, Value) {
    let world = market.world().await;
    let rows = world["usage"].as_array().cloned().unwrap_or_default();
    let newest = rows.iter().max_by_key(|row| row["at"].to_string()).cloned().unwrap_or_default();
    (newest["product"].clone(), newest["licenseArn"].clone())
}

async fn use_some(market: &mut Market, customer: &Value) -> Value {
    market.party.refresh().await;
    let receipt = submit(market, customer, json!([{ "dimension": "calls", "quantity": 1 }])).await;
    market.work().await;
    receipt
}

/// Usage names the product by its code and the licence, as notifications told them; not a licence that covers nothing yet.
#[tokio::test(flavor = "multi_thread")]
async fn usage_names_what_was_bought() {
    let mut market = Market::new().await;
    let customer = market.customer("cloud_a", "123456789012").await;
    let body = json!({ "publisher": market.organization, "accountId": "123456789012", "productId": "lst_1",
                       "productCode": "code-1", "months": 1 });
    let agreement = market.control("POST", "cloud_a/agreements", body).await;
    hear(&market).await;
    let receipt = use_some(&mut market, &customer).await;
    assert_eq!(report(&market, &receipt).await["status"], "confirmed");
    let (product, licence) = newest(&market).await;
    let at_first = market.world().await["agreements"][0]["licence"].clone();
    assert!(at_first.is_string(), "{at_first}");
    assert_eq!((product, licence), (json!("code-1"), at_first.clone()));

    // Renewed before its end: what is used until then is not of the new licence.
    let path = format!("cloud_a/agreements/{}/renew", agreement["id"].as_str().expect("an id"));
    market.control("POST", &path, json!({})).await;
    hear(&market).await;
    market.pass(TimeDelta::hours(2)).await;
    let receipt = use_some(&mut market, &customer).await;
    assert_eq!(report(&market, &receipt).await["status"], "confirmed");
    assert_eq!(newest(&market).await, (json!("code-1"), Value::Null));
    market.pass(TimeDelta::days(32)).await;
    hear(&market).await;
    let receipt = use_some(&mut market, &customer).await;
    assert_eq!(report(&market, &receipt).await["status"], "confirmed");
    let (product, licence) = newest(&market).await;
    assert_eq!(product, json!("code-1"));
    assert!(licence.is_string() && licence != at_first, "{licence}");
}

/// A note that was written down before licences were goes on as it began.
#[tokio::test(flavor = "multi_thread")]
async fn usage_is_sent_again_as_it_was_sent_first() {
    let mut market = Market::new().await;
    let customer = market.customer("cloud_a", "123456789012").await;
    market.agreed(&customer).await;
    hear(&market).await;
    market.faults(json!({ "serverErrors": 1_000 })).await;
    let receipt = use_some(&mut market, &customer).await;
    let note = r#"{"product":"lst_1","buyer":"123456789012","plan":null}"#;
    market.app.rows(&format!("UPDATE outbox SET note = '{note}' RETURN NONE")).await;
    market.faults(json!({})).await;
    market.pass(TimeDelta::minutes(10)).await;
    assert_eq!(report(&market, &receipt).await["status"], "confirmed");
    assert_eq!(newest(&market).await, (json!("lst_1"), Value::Null));
}
