//! Exact decimals from a body to an answer, never rounded (`contract.md` §11).

use mercato::model::decimal::Decimal;
use proptest::prelude::*;
use serde_json::json;

use crate::harness::TestApp;

#[test]
fn decimals_are_sums_that_people_expect() {
    let decimal = |text: &str| text.parse::<Decimal>().expect("a decimal");
    assert_eq!(decimal("0.1") + decimal("0.2"), decimal("0.3"));
    assert_eq!(decimal("12.50").to_string(), "12.5");
    assert_eq!(decimal("7.9").floor(), decimal("7"));
}

proptest! {
    /// Whatever keeps to 15 digits and 6 decimals survives JSON in both directions, digit for digit.
    #[test]
    fn json_keeps_every_decimal(digits in 0_i64..=999_999_999_999_999, scale in 0_u32..=6) {
        let exact = Decimal::from(rust_decimal::Decimal::new(digits, scale));
        let text = serde_json::to_string(&exact).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Decimal>(&text).expect("a decimal"), exact);
        prop_assert_eq!(exact.to_string().parse::<Decimal>().expect("a decimal"), exact);
    }
}

/// A number that reading would round is refused, in both facades, and names itself.
#[tokio::test(flavor = "multi_thread")]
async fn no_number_is_rounded_silently() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let id = party.customer("1").await["id"].clone();
    let report = |quantity: &str| {
        format!(
            "{{\"details\":{{\"customer\":{{\"id\":{id}}},\"usage\":[{{\"dimension\":\"d\",\"quantity\":{quantity}}}]}}}}"
        )
    };
    let send = async |path: &str, body: String| {
        let request = party.request(reqwest::Method::POST, path).header("content-type", "application/json").body(body);
        crate::harness::Reply::of(request).await
    };
    for quantity in ["0.1234567890123456", "123456789012.1234567", "1234567890123456789012", "1e-400"] {
        let reply = send("/api/v1/metering", report(quantity)).await;
        assert!([400, 422].contains(&reply.status), "{quantity}: {}", reply.text);
    }
    for (quantity, message) in [
        ("0.1234567", "must have at most 15 digits, 6 of them decimals"),
        ("-1", "must be at least 0"),
        ("9999999999.999999", "must have at most 15 digits, 6 of them decimals"),
        ("0.30000000000000004", "must have at most 15 digits, 6 of them decimals"),
    ] {
        let reply = send("/api/v1/metering", report(quantity)).await;
        assert_eq!(reply.status, 422, "{quantity}");
        assert_eq!(
            reply.json()["errors"][0],
            json!({ "field": "details.usage[0].quantity", "message": message }),
            "{quantity}"
        );
    }
    for (hour, quantity) in
        ["0.000001", "999999999.999999", "999999999999999", "12.500000000000000000", "1e3"].iter().enumerate()
    {
        let start = format!("\"startTime\":\"2026-01-05T{:02}:00:00Z\",\"quantity\":{quantity}", hour + 1);
        let reply = send("/api/v1/metering", report("1").replace("\"quantity\":1", &start)).await;
        assert_eq!(reply.status, 201, "{quantity}: {}", reply.text);
        let stored =
            party.get(&format!("/api/v1/metering/{}", reply.created()["id"].as_str().unwrap_or_default())).await;
        let expected: f64 = quantity.parse().expect("a number");
        assert_eq!(stored.data()["details"]["usage"][0]["quantity"].as_f64(), Some(expected), "{quantity}");
    }
    let query = "query ($first: Int) { customers(first: $first) { nodes { id } } }";
    assert_eq!(party.graphql(query, json!({ "first": 1 })).await.status, 200);
    let long =
        send("/graphql", format!("{{\"query\":\"{query}\",\"variables\":{{\"first\":1.00000000000000001}}}}")).await;
    assert!(long.json()["data"].is_null() && !long.json()["errors"].is_null(), "{}", long.text);
    let literal = format!(
        "mutation {{ submitMetering(input: {{ details: {{ customer: {{ id: {id} }}, \
         usage: [{{ dimension: \"x\", quantity: 2.5000000000000001 }}] }} }}) {{ userErrors {{ message }} }} }}"
    );
    assert_eq!(party.graphql(&literal, json!({})).await.status, 400);
}

/// What cannot be kept is set aside with its sign, so that the rest of the body can still be read.
#[test]
fn negative_numbers_are_set_aside_whole() {
    for (number, exact) in [
        ("-2.225073858507203e-309", false),
        ("-0.30000000000000004", false),
        ("-1e-400", false),
        ("-0.5", true),
        ("-9223372036854775808", true),
        ("-1", true),
    ] {
        let body = format!("{{\"ignored\": [{number}, \"-2.225073858507203e-309\"]}}");
        let read = mercato::http::json::parse(body.as_bytes()).unwrap_or_else(|said| panic!("{number}: {said}"));
        assert_eq!(read["ignored"][0].is_number(), exact, "{number}");
        assert_eq!(read["ignored"][1], "-2.225073858507203e-309");
    }
}
