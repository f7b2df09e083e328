//! Usage at both, by the rules of each.

use chrono::TimeDelta;
use mercato::model::time::Timestamp;
use reqwest::Method;
use serde_json::json;

use super::{Answered, Stage, event, record, statuses};

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_cloud_b_is_accepted_by_its_rules() {
    let stage = Stage::new().await;
    let (id, now) = (stage.subscribed().await, stage.now().await);
    let (waiting, _) = stage.bought().await;
    stage.control(Method::PUT, "dimensions", json!({"suite": ["calls"]})).await.ok();
    let mut other_plan = event(&id, now, json!(1));
    other_plan["planId"] = json!("silver");
    let mut other_dimension = event(&id, now, json!(1));
    other_dimension["dimension"] = json!("dances");
    let hour = TimeDelta::hours(1);
    let events = [
        event(&id, now, json!(2.5)),
        event(&id, now.plus(TimeDelta::minutes(-1)), json!(1)),
        event(&id, now, json!(9)),
        event(&id, now.plus(hour * -24), json!(0.000_001)),
        event(&id, now.plus(hour * -25), json!(1)),
        event(&waiting, now, json!(1)),
        event("nobody", now, json!(1)),
        event(&id, now.plus(hour * -2), json!(0)),
        event(&id, now.plus(hour), json!(1)),
        other_plan,
        other_dimension,
    ];
    let body = stage.usage(&events).await.ok();
    let expected = [
        "Accepted",
        "Accepted",
        "Duplicate",
        "Accepted",
        "Expired",
        "ResourceNotActive",
        "ResourceNotFound",
        "InvalidQuantity",
        "BadArgument",
        "BadArgument",
        "InvalidDimension",
    ];
    assert_eq!(statuses(&body), expected);
    assert_eq!(body["count"], json!(11));
    let accepted = &body["result"][2]["error"]["additionalInfo"]["acceptedMessage"];
    assert_eq!((&accepted["quantity"], &accepted["status"]), (&json!(2.5), &json!("Duplicate")));
    assert_eq!(accepted["usageEventId"], body["result"][0]["usageEventId"]);

    let many = vec![event(&id, now, json!(1)); 26];
    assert_eq!(stage.usage(&many).await.status, 400);
    assert_eq!(stage.usage(&[]).await.status, 400);
    let days = stage.send(stage.b(Method::GET, "api/usageEvents?usageStartDate=2026-01-05")).await.ok();
    assert_eq!(days.as_array().map(Vec::len), Some(1), "{days}");
    assert_eq!((&days[0]["processedQuantity"], &days[0]["submittedCount"]), (&json!(3.5), &json!(2)));
    let days = stage.send(stage.b(Method::GET, "api/usageEvents?usageStartDate=2026-01-04")).await.ok();
    assert_eq!(days[0]["processedQuantity"], json!(0.000_001), "{days}");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_cloud_a_is_accepted_by_its_rules() {
    let stage = Stage::new().await;
    let now = stage.now().await;
    let refused = |body: &Answered| body.refused(400).to_owned();
    assert_eq!(refused(&stage.batch(&[record(now, "seats", json!(1))]).await), "InvalidProductCodeException");
    stage.agreed(json!({})).await;
    stage.control(Method::PUT, "dimensions", json!({"code-1": ["seats", "calls"]})).await.ok();
    let mut stranger = record(now, "seats", json!(1));
    stranger["CustomerAWSAccountId"] = json!("999999999999");
    let first =
        stage.batch(&[record(now, "seats", json!(3)), record(now, "calls", json!(0)), stranger.clone()]).await.ok();
    assert_eq!(statuses(&first), ["Success", "Success", "CustomerNotSubscribed"]);
    assert_eq!(first["UnprocessedRecords"], json!([]));
    let second = stage.batch(&[record(now, "seats", json!(3)), record(now, "seats", json!(4))]).await.ok();
    assert_eq!(statuses(&second), ["Success", "DuplicateRecord"]);
    assert_eq!(second["Results"][0]["MeteringRecordId"], first["Results"][0]["MeteringRecordId"]);

    stranger["CustomerAWSAccountId"] = json!("nobody");
    let good = record(now.plus(TimeDelta::hours(-1)), "seats", json!(8));
    for (bad, kind) in [
        (record(now, "dances", json!(1)), "InvalidUsageDimensionException"),
        (record(now.plus(TimeDelta::hours(-25)), "seats", json!(1)), "TimestampOutOfBoundsException"),
        (record(now.plus(TimeDelta::hours(1)), "seats", json!(1)), "TimestampOutOfBoundsException"),
        (record(now, "seats", json!(1.5)), "ValidationException"),
        (record(now, "seats", json!(-1)), "ValidationException"),
        (stranger, "InvalidCustomerIdentifierException"),
    ] {
        assert_eq!(refused(&stage.batch(&[good.clone(), bad]).await), kind);
    }
    assert_eq!(refused(&stage.batch(&vec![good.clone(); 26]).await), "ValidationException");
    assert_eq!(stage.state().await["usage"].as_array().map(Vec::len), Some(2), "a refused batch leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_month_of_cloud_a_closes_at_six_on_the_first() {
    let stage = Stage::new().await;
    stage.agreed(json!({})).await;
    let midnight: Timestamp = "2026-02-01T00:00:00Z".parse().expect("a moment");
    let at = |hours: i64| midnight.plus(TimeDelta::hours(hours));
    stage.advance(at(5).as_datetime() - stage.now().await.as_datetime()).await;
    assert_eq!(statuses(&stage.batch(&[record(at(-1), "seats", json!(1))]).await.ok()), ["Success"]);
    stage.advance(TimeDelta::hours(1)).await;
    assert_eq!(stage.batch(&[record(at(-2), "seats", json!(1))]).await.refused(400), "TimestampOutOfBoundsException");
    assert_eq!(statuses(&stage.batch(&[record(at(1), "seats", json!(1))]).await.ok()), ["Success"]);
}
