//! The clients of the marketplaces (`docs/marketplaces.md`), against a marketplace that answers as it is told.

mod accounts;
mod jwt;
mod metering;
mod offers;
mod rehearsal;
mod stub;

use std::time::{Duration, Instant};

use chrono::TimeDelta;
use mercato::clock::Clock;
use mercato::marketplace::cloud_b::CloudB;
use mercato::marketplace::http::{Client, ClientSettings, MarketplaceError, Unreached};
use mercato::model::time::Timestamp;
use serde_json::{Value, json};
use stub::{Says, Stub, account_b, client, cloud_b, grants, says, says_text, settings};

fn subscription() -> Value {
    json!({ "id": "sub-1", "offerId": "lst_1", "planId": "gold", "quantity": 5, "saasSubscriptionStatus": "Subscribed",
            "beneficiary": { "tenantId": "buyer-1", "emailId": "a@b.example" }, "autoRenew": true,
            "term": { "startDate": "2026-01-01", "endDate": "2026-02-01T00:00:00Z" }, "somethingNew": [1] })
}

/// What a call comes to when the marketplace answers it so, and how many requests that took.
async fn call_of(answer: impl Fn(usize) -> Says + Send + Sync + 'static) -> (Result<String, MarketplaceError>, usize) {
    let stub = Stub::cloud_b(move |before, _| answer(before)).await;
    let outcome = cloud_b(&stub).subscription("sub-1").await;
    (outcome.map(|subscription| subscription.id), stub.asked().len())
}

#[tokio::test]
async fn a_token_serves_many_calls_until_it_nearly_expires() {
    let stub = Stub::cloud_b(|_, _| says(200, subscription())).await;
    let clock = Clock::manual();
    let cloud = CloudB::new(account_b(&stub.url), client(&clock));
    let calls = (0..8).map(|_| cloud.subscription("sub-1"));
    for called in futures_util::future::join_all(calls).await {
        called.expect("a subscription");
    }
    assert_eq!(stub.asked_for_tokens().len(), 1, "calls at the same time share a request for a token");
    clock.advance(TimeDelta::seconds(3600 - 61));
    cloud.subscription("sub-1").await.expect("a subscription");
    assert_eq!(stub.asked_for_tokens().len(), 1, "it is still good");
    clock.advance(TimeDelta::seconds(2));
    cloud.subscription("sub-1").await.expect("a subscription");
    assert_eq!(stub.asked_for_tokens().len(), 2, "it would expire during a call");
    assert_eq!(stub.asked().last().map(|asked| asked.header("authorization").to_owned()), Some("Bearer t1".to_owned()));

    let form = &stub.asked_for_tokens()[0];
    let fields: Vec<_> = form_urlencoded::parse(form.text.as_bytes()).into_owned().collect();
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    assert_eq!(field("grant_type").as_deref(), Some("client_credentials"));
    assert_eq!(field("client_secret").as_deref(), Some("s3cret&="));
    assert_eq!(form.header("content-type"), "application/x-www-form-urlencoded");
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let stub = Stub::cloud_b(|_, asked| match asked.header("authorization") {
        "Bearer t0" => says(401, json!({ "error": { "code": "Unauthorized", "message": "withdrawn" } })),
        _ => says(200, subscription()),
    })
    .await;
    let cloud = cloud_b(&stub);
    let calls = (0..4).map(|_| cloud.subscription("sub-1"));
    for called in futures_util::future::join_all(calls).await {
        called.expect("a subscription");
    }
    assert_eq!(stub.asked_for_tokens().len(), 2, "calls that were refused together share the new token");

    let stub = Stub::cloud_b(|_, _| says(401, json!({ "error": { "message": "not you" } }))).await;
    let refused = cloud_b(&stub).subscription("sub-1").await.expect_err("nobody is let in");
    assert_eq!(refused, MarketplaceError::Unauthorized { message: "not you".to_owned() });
    assert!(!refused.is_transient());
    assert_eq!((stub.asked().len(), stub.asked_for_tokens().len()), (2, 2));
}

#[tokio::test]
async fn credentials_that_are_not_accepted_are_said_to_be_so() {
    for status in [400, 401] {
        let body = json!({ "error": "invalid_client", "error_description": "no such client" });
        let stub = Stub::start(move |_, _| says(status, body.clone())).await;
        let cloud = cloud_b(&stub);
        let refused = cloud.subscription("sub-1").await.expect_err("no token");
        assert_eq!(refused, MarketplaceError::Unauthorized { message: "no such client".to_owned() });
        assert_eq!((stub.asked().len(), stub.asked_for_tokens().len()), (0, 1));
        cloud.subscription("sub-1").await.expect_err("no token");
        assert_eq!(stub.asked_for_tokens().len(), 2, "a failure is not remembered");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_had_now_is_asked_for_again() {
    let stub = Stub::start(|before, asked| match (asked.is_for_token(), before) {
        (true, 0) => says_text(503, "busy"),
        (true, _) => grants(before),
        (false, _) => says(200, subscription()),
    })
    .await;
    cloud_b(&stub).subscription("sub-1").await.expect("a subscription");
    assert_eq!(stub.asked_for_tokens().len(), 2);
}

#[tokio::test]
async fn a_marketplace_that_asks_to_wait_is_waited_for() {
    let throttled = |before| match before {
        0 => says(429, json!({})).with("retry-after", "1"),
        _ => says(200, subscription()),
    };
    let started = Instant::now();
    let (outcome, requests) = call_of(throttled).await;
    assert_eq!((outcome, requests), (Ok("sub-1".to_owned()), 2));
    assert!(started.elapsed() >= Duration::from_secs(1), "it came back after {:?}", started.elapsed());
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let minute = Some(Duration::from_mins(1));
    // The manual clock stands at 2026-01-05T10:00:00Z.
    for asked in ["60", "Mon, 05 Jan 2026 10:01:00 GMT"] {
        let (outcome, requests) = call_of(move |_| says(429, json!({})).with("retry-after", asked)).await;
        assert_eq!((outcome, requests), (Err(MarketplaceError::Throttled { retry_after: minute }), 1));
    }
    let (outcome, requests) = call_of(|_| says(429, json!({}))).await;
    assert_eq!((outcome, requests), (Err(MarketplaceError::Throttled { retry_after: None }), 4));
}

#[tokio::test]
async fn passing_failures_are_tried_again_and_others_are_not() {
    let recovers =
        |before| if before < 3 { says_text([500, 502, 503][before], "oops") } else { says(200, subscription()) };
    assert_eq!(call_of(recovers).await, (Ok("sub-1".to_owned()), 4));

    let (outcome, requests) = call_of(|_| says_text(500, "")).await;
    let error = outcome.expect_err("it never recovers");
    assert_eq!((&error, requests), (&refused(500, "", ""), 4));
    assert!(error.is_transient());

    let not_found = json!({ "error": { "code": "EntityNotFound", "message": "no such\nsubscription" } });
    let (outcome, requests) = call_of(move |_| says(404, not_found.clone())).await;
    let error = outcome.expect_err("there is none");
    assert_eq!((&error, requests), (&refused(404, "EntityNotFound", "no such subscription"), 1));
    assert!(!error.is_transient());
    let words = "The marketplace answered with status 404: EntityNotFound: no such subscription";
    assert_eq!(error.to_string(), words);
}

fn refused(status: u16, code: &str, message: &str) -> MarketplaceError {
    MarketplaceError::Refused { status, code: code.to_owned(), message: message.to_owned() }
}

#[tokio::test]
async fn silence_and_closed_doors_are_told_apart() {
    let stub = Stub::cloud_b(|_, _| says(200, subscription()).after(Duration::from_secs(2))).await;
    let hasty = ClientSettings { timeout: Duration::from_millis(150), ..settings() };
    let clock = Clock::manual();
    let cloud = CloudB::new(account_b(&stub.url), Client::new(hasty, clock.clone()).expect("a client"));
    let error = cloud.subscription("sub-1").await.expect_err("it is silent");
    assert_eq!(error, MarketplaceError::Unreachable(Unreached::Timeout));
    assert!(error.is_transient());
    assert_eq!(stub.asked().len(), 4);

    let address = stub.url.clone();
    drop(stub);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = CloudB::new(account_b(&address), client(&clock)).subscription("sub-1").await.expect_err("it is closed");
    assert_eq!(error, MarketplaceError::Unreachable(Unreached::Connect));
}

/// An account's URLs are a tenant's words.
#[tokio::test]
async fn addresses_that_are_not_public_are_not_connected_to() {
    let stub = Stub::cloud_b(|_, _| says(200, subscription())).await;
    let strict = Client::new(ClientSettings { allowed: Vec::new(), ..settings() }, Clock::manual()).expect("a client");
    let error = CloudB::new(account_b(&stub.url), strict.clone()).subscription("sub-1").await.expect_err("loopback");
    assert_eq!(error, MarketplaceError::Unreachable(Unreached::Blocked));
    assert!(!error.is_transient());
    let named = stub.url.replace("127.0.0.1", "localhost");
    CloudB::new(account_b(&named), strict).subscription("sub-1").await.expect_err("loopback by its name");
    assert_eq!((stub.asked().len(), stub.asked_for_tokens().len()), (0, 0));
    CloudB::new(account_b(&named), client(&Clock::manual())).subscription("sub-1").await.expect("admitted by its name");
}

#[tokio::test]
async fn answers_that_make_no_sense_are_said_to_be_so() {
    for nonsense in ["", "<html>", "{\"id\": 1}", "{}"] {
        let (outcome, requests) = call_of(move |_| says_text(200, nonsense)).await;
        let error = outcome.expect_err("nonsense");
        assert!(matches!(error, MarketplaceError::Garbled { .. }), "{error}");
        assert_eq!(requests, 1);
    }
    let huge = || says_text(200, format!("{{\"id\": \"{}\"}}", "x".repeat(1024 * 1024)));
    let (outcome, _) = call_of(move |_| huge()).await;
    let error = outcome.expect_err("too much");
    assert!(matches!(&error, MarketplaceError::Garbled { reason } if reason.contains("1048576 bytes")), "{error}");

    let long = json!({ "error": { "code": "Bad", "message": "y".repeat(5000) } });
    let (outcome, _) = call_of(move |_| says(400, long.clone())).await;
    assert_eq!(outcome, Err(refused(400, "Bad", &"y".repeat(500))));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Stub::cloud_b(|_, _| says(200, subscription())).await;
    let location = format!("{}/b/x", elsewhere.url);
    let (outcome, requests) = call_of(move |_| says_text(307, "").with("location", location.clone())).await;
    assert_eq!((outcome, requests), (Err(refused(307, "", "")), 1));
    assert_eq!(elsewhere.asked().len(), 0);
}

#[tokio::test]
async fn pages_are_followed_within_their_origin_only() {
    let stub = Stub::cloud_b(|before, asked| {
        let host = asked.header("host").to_owned();
        let next = format!("http://{host}/b/api/saas/subscriptions?continuationToken=2");
        match before {
            0 => says(200, json!({ "subscriptions": [subscription(), subscription()], "@nextLink": next })),
            _ => says(200, json!({ "subscriptions": [subscription()] })),
        }
    })
    .await;
    assert_eq!(cloud_b(&stub).subscriptions().await.expect("a list").len(), 3);
    let paths: Vec<_> = stub.asked().into_iter().map(|asked| asked.path).collect();
    let expected =
        ["/b/api/saas/subscriptions?api-version=2018-08-31", "/b/api/saas/subscriptions?continuationToken=2"];
    assert_eq!(paths, expected);

    let foreign = Stub::cloud_b(|_, _| says(200, json!({ "subscriptions": [] }))).await;
    for link in [format!("{}/more", foreign.url), "not a url".to_owned()] {
        let stub =
            Stub::cloud_b(move |_, _| says(200, json!({ "subscriptions": [subscription()], "@nextLink": link }))).await;
        let error = cloud_b(&stub).subscriptions().await.expect_err("a link elsewhere");
        assert!(matches!(error, MarketplaceError::Garbled { .. }), "{error}");
    }
    assert_eq!(foreign.asked().len() + foreign.asked_for_tokens().len(), 0, "no token went there");
}

#[tokio::test]
async fn subscriptions_are_resolved_activated_and_answered() {
    let stub = Stub::cloud_b(|_, asked| match asked.path.split(['?', '/']).nth(5) {
        Some("resolve") => {
            let resolved = json!({ "id": "sub-1", "subscriptionName": "s", "offerId": "lst_1", "planId": "gold",
                                   "quantity": 5, "subscription": subscription() });
            says(200, resolved)
        }
        _ if asked.method == "GET" => {
            let operation = json!({ "id": "op-1", "subscriptionId": "sub-1", "action": "ChangePlan", "status": "Odd",
                                    "planId": "gold", "quantity": 7, "timeStamp": "2026-01-05T10:00:00.1234567Z" });
            says(200, operation)
        }
        _ => says_text(200, ""),
    })
    .await;
    let cloud = cloud_b(&stub);
    let resolved = cloud.resolve("token+/=").await.expect("a subscription");
    assert_eq!((resolved.id.as_str(), resolved.quantity()), ("sub-1", Some(5.into())));
    cloud.activate("sub-1", "gold", Some(5.into())).await.expect("it begins");
    let operation = cloud.operation("sub-1", "op-1").await.expect("an operation");
    assert_eq!((operation.status.as_str(), operation.quantity()), ("Odd", Some(7.into())));
    let at: Timestamp = "2026-01-05T10:00:00.123Z".parse().expect("a moment");
    assert_eq!(operation.time_stamp, Some(at));
    cloud.patch_operation("sub-1", "op-1", true).await.expect("it is told");
    cloud.patch_operation("sub-1", "op-1", false).await.expect("it is told");

    let asked = stub.asked();
    assert_eq!(asked[0].header("x-ms-marketplace-token"), "token+/=");
    assert_eq!((asked[0].method.as_str(), asked[0].text.as_str()), ("POST", ""));
    assert_eq!(asked[1].path, "/b/api/saas/subscriptions/sub-1/activate?api-version=2018-08-31");
    assert_eq!(asked[1].text, r#"{"planId":"gold","quantity":5}"#);
    assert_eq!(asked[2].path, "/b/api/saas/subscriptions/sub-1/operations/op-1?api-version=2018-08-31");
    assert_eq!((asked[3].method.as_str(), asked[3].text.as_str()), ("PATCH", r#"{"status":"Success"}"#));
    assert_eq!(asked[4].text, r#"{"status":"Failure"}"#);
}

/// Ids come from the other side.
#[tokio::test]
async fn ids_cannot_name_another_path() {
    let stub = Stub::cloud_b(|_, _| says(200, subscription())).await;
    let cloud = cloud_b(&stub);
    for id in ["..", ".", ""] {
        let refused = cloud.subscription(id).await.expect_err("not an id");
        assert!(matches!(refused, MarketplaceError::Refused { status: 404, .. }), "{refused}");
    }
    cloud.subscription("../a b?c#d").await.expect("an id like any other");
    assert_eq!(stub.asked()[0].path, "/b/api/saas/subscriptions/..%2Fa%20b%3Fc%23d?api-version=2018-08-31");
    assert_eq!(stub.asked().len(), 1);
}
