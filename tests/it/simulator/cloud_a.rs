//! Agreements of `cloud_a`, and whose calls are believed.

use chrono::TimeDelta;
use reqwest::Method;
use serde_json::{Value, json};

use super::{A, Stage, create_offer};

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_cloud_a_are_signed() {
    let stage = Stage::new().await;
    let body = json!({"Catalog": "AWSMarketplace", "ChangeSet": [create_offer()]});
    let good = || A::post("StartChangeSet", &body);
    assert_eq!(stage.a(good()).await.status, 200);
    for bad in [
        A { secret: "loud", ..good() },
        A { key: "AKIA2", ..good() },
        A { late: TimeDelta::minutes(-6), ..good() },
        A { late: TimeDelta::minutes(6), ..good() },
        A { tampered: true, ..good() },
    ] {
        assert_eq!(stage.a(bad).await.refused(403), "InvalidSignatureException");
    }
    let unsigned = stage.http.post(format!("{}/cloud_a/StartChangeSet", stage.simulator.url())).json(&body);
    assert_eq!(stage.send(unsigned).await.refused(403), "InvalidSignatureException");
    assert_eq!(stage.a(A { late: TimeDelta::minutes(4), ..good() }).await.status, 200);
    stage.advance(TimeDelta::hours(25)).await;
    assert_eq!(stage.a(good()).await.status, 200, "the machine's clock counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn agreements_are_told_in_the_order_that_was_asked_for() {
    let stage = Stage::new().await;
    let (created, licensed) = ("Purchase Agreement Created", "License Updated");
    for (licence, order) in
        [("before", vec![licensed, created]), ("after", vec![created, licensed]), ("never", vec![created])]
    {
        stage.agreed(json!({"licence": licence, "dimensions": [{"key": "seats", "value": 3}]})).await;
        stage.post("settle", json!({})).await;
        let received = stage.receiver.take();
        let kinds: Vec<&str> = received.iter().filter_map(|(_, body)| body["detail-type"].as_str()).collect();
        assert_eq!(kinds, order);
        assert!(received.iter().all(|(headers, _)| headers["x-mercato-secret"] == "shared"));
        for (_, body) in &received {
            let has_licence = body["detail"]["license"]["arn"].is_string();
            assert_eq!(has_licence, licence == "before" || body["detail-type"] == licensed);
            assert_eq!(body["detail"]["product"], json!({"id": "prod-1", "code": "code-1"}));
            assert_eq!(body["detail"]["dimensions"][0]["key"], json!("seats"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agreements_are_amended_renewed_and_ended() {
    let stage = Stage::new().await;
    let statuses = |told: Vec<Value>| -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        told.iter()
            .map(|it| format!("{} {}", text(&it["detail-type"]), text(&it["detail"]["agreement"]["status"])))
            .collect()
    };
    let first = stage.agreed(json!({"licence": "never", "months": 1})).await;
    let path = |agreement: &Value, action: &str| {
        format!("cloud_a/agreements/{}/{action}", agreement["id"].as_str().expect("an id"))
    };
    let amended = stage.post(&path(&first, "amend"), json!({"months": 2})).await;
    assert_eq!(amended["end"], json!("2026-03-05T10:00:00.000Z"));
    let renewed = stage.post(&path(&first, "renew"), json!({"licence": "never"})).await;
    assert_eq!((&renewed["intent"], &renewed["start"]), (&json!("RENEW"), &amended["end"]));
    stage.post(&path(&renewed, "cancel"), json!({})).await;
    assert_eq!(stage.control(Method::POST, &path(&renewed, "terminate"), json!({})).await.status, 409);
    let expected = [
        "Purchase Agreement Created ACTIVE",
        "Purchase Agreement Amended ACTIVE",
        "Purchase Agreement Ended RENEWED",
        "Purchase Agreement Created ACTIVE",
        "Purchase Agreement Ended CANCELLED",
    ];
    assert_eq!(statuses(stage.told().await), expected);

    let second = stage.agreed(json!({"months": 1})).await;
    stage.post(&path(&second, "deprovision"), json!({})).await;
    stage.agreed(json!({"licence": "never", "months": 1, "autoRenew": true})).await;
    stage.told().await;
    stage.advance(TimeDelta::days(32)).await;
    let expected = [
        "Purchase Agreement Ended EXPIRED",
        "Purchase Agreement Ended RENEWED",
        "Purchase Agreement Created ACTIVE",
        "License Updated ACTIVE",
    ];
    assert_eq!(statuses(stage.told().await), expected, "terms end by the clock");

    let filters = json!([{"name": "PartyType", "values": ["Proposer"]}, {"name": "AgreementType", "values": ["PurchaseAgreement"]}]);
    let mut body = json!({"catalog": "AWSMarketplace", "filters": filters, "maxResults": 3});
    let target = Some("AWSMPCommerceService_v20200301.SearchAgreements");
    let page = stage.a(A { target, ..A::post("", &body) }).await.ok();
    assert_eq!(page["agreementViewSummaries"].as_array().map(Vec::len), Some(3));
    assert_eq!(page["agreementViewSummaries"][0]["agreementId"], first["id"]);
    body["nextToken"] = page["nextToken"].clone();
    let rest = stage.a(A { target, ..A::post("", &body) }).await.ok();
    assert_eq!((rest["agreementViewSummaries"].as_array().map(Vec::len), rest.get("nextToken")), (Some(2), None));
}
