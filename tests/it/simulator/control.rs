//! The control: faults, notifications, limits, and what is wrong.

use chrono::TimeDelta;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ACCOUNT, Stage, event, record, statuses};

#[tokio::test(flavor = "multi_thread")]
async fn a_simulator_that_is_full_says_so() {
    let stage = Stage::of(3).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(stage.bought().await.0);
        stage.agreed(json!({})).await;
    }
    let bought = json!({"publisher": "acme", "offerId": "suite", "planId": "gold", "tenantId": "buyer"});
    let agreed = json!({"publisher": "acme", "accountId": ACCOUNT, "productId": "prod-1"});
    let changed = format!("cloud_b/subscriptions/{}/Suspend", ids[0]);
    for (path, body, what) in [
        ("cloud_b/subscriptions", bought, "3 subscriptions"),
        ("cloud_a/agreements", agreed, "3 agreements"),
        (&changed, json!({}), "3 things to come"),
    ] {
        let full = stage.control(Method::POST, path, body).await;
        assert_eq!(full.status, 507, "{path}: {}", full.body);
        assert!(full.body["message"].as_str().is_some_and(|text| text.contains(what)), "{}", full.body);
    }
    assert_eq!(stage.activate(&ids[0], json!({"planId": "gold", "quantity": 2})).await, 200);
    let now = stage.now().await;
    let events: Vec<Value> = (0..3).map(|hours| event(&ids[0], now.plus(TimeDelta::hours(-hours)), json!(1))).collect();
    assert_eq!(statuses(&stage.usage(&events).await.ok()), ["Accepted"; 3]);
    let full = stage.usage(&events).await;
    assert_eq!((full.status, &full.body["error"]["code"]), (507, &json!("InsufficientStorage")));
    assert_eq!(stage.batch(&[record(now, "seats", json!(1))]).await.refused(507), "ServiceQuotaExceededException");
    let held = stage.control(Method::PUT, "faults", json!({"reorderNotifications": 1001})).await;
    assert_eq!((held.status, held.body["message"].is_string()), (400, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_notifications_that_wait_the_oldest_are_given_up() {
    let stage = Stage::of(3).await;
    stage.faults(json!({"delayNotifications": {"count": 4, "seconds": 60}})).await;
    for _ in 0..2 {
        stage.agreed(json!({})).await;
    }
    let all = stage.state().await["notifications"].as_array().expect("a list").clone();
    let states: Vec<_> = all.iter().filter_map(|it| it["state"].as_str()).collect();
    assert_eq!(states, ["givenUp", "waiting", "waiting", "waiting"]);
    stage.advance(TimeDelta::minutes(1)).await;
    assert_eq!(stage.told().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_dropped_duplicated_delayed_and_reordered() {
    let stage = Stage::new().await;
    let id = stage.subscribed().await;
    stage.faults(json!({"dropNotifications": 1, "duplicateNotifications": 1})).await;
    for action in ["One", "Two", "Three"] {
        stage.act(&id, action, json!({})).await;
    }
    assert_eq!(stage.kinds().await, ["Two", "Two", "Three"]);
    let all = stage.state().await["notifications"].as_array().expect("a list").clone();
    let dropped = all.iter().find(|it| it["state"] == "dropped").expect("one that was dropped");
    assert_eq!(dropped["kind"], json!("One"));
    stage.post(&format!("notifications/{}/resend", dropped["id"]), json!({})).await;
    assert_eq!(stage.kinds().await, ["One"]);

    stage.faults(json!({"delayNotifications": {"count": 1, "seconds": 3600}})).await;
    stage.act(&id, "Late", json!({})).await;
    stage.act(&id, "Soon", json!({})).await;
    assert_eq!(stage.kinds().await, ["Soon"]);
    stage.advance(TimeDelta::minutes(59)).await;
    assert!(stage.told().await.is_empty());
    stage.advance(TimeDelta::minutes(1)).await;
    assert_eq!(stage.kinds().await, ["Late"]);

    stage.faults(json!({"reorderNotifications": 3})).await;
    stage.act(&id, "A", json!({})).await;
    stage.act(&id, "B", json!({})).await;
    assert!(stage.told().await.is_empty(), "they are held");
    stage.act(&id, "C", json!({})).await;
    stage.act(&id, "D", json!({})).await;
    assert_eq!(stage.kinds().await, ["C", "B", "A", "D"]);
    assert_eq!(stage.state().await["faults"]["reorderNotifications"], json!(0), "faults count down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_that_is_refused_is_sent_again() {
    let stage = Stage::new().await;
    stage.receiver.answer_next(&[500]);
    stage.bought().await;
    let backlog = stage.post("settle", json!({})).await["backlog"].clone();
    assert_eq!(backlog, json!({"waiting": 0, "retrying": 1, "scheduled": 0}));
    assert_eq!(stage.receiver.take().len(), 1);
    let seen = stage.state().await["notifications"][0].clone();
    assert_eq!((&seen["attempts"], &seen["lastStatus"], &seen["state"]), (&json!(1), &json!(500), &json!("waiting")));
    assert_eq!(stage.post("settle", json!({"retries": true})).await["settled"], json!(true));
    let seen = stage.state().await["notifications"][0].clone();
    assert_eq!((&seen["attempts"], &seen["lastStatus"], &seen["state"]), (&json!(2), &json!(200), &json!("delivered")));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_fail_on_demand() {
    let stage = Stage::new().await;
    let (id, now) = (stage.subscribed().await, stage.now().await);
    stage.faults(json!({"serverErrors": 1, "throttle": 1, "errorsAfter": 1})).await;
    let one = [event(&id, now, json!(1))];
    let usage = || stage.usage(&one);
    assert_eq!(stage.token("s3cret").await.status, 200, "not those of identity");
    assert_eq!(usage().await.status, 500);
    let throttled = usage().await;
    assert_eq!((throttled.status, &throttled.headers["retry-after"]), (429, &"1".parse().expect("a header")));
    assert_eq!(stage.state().await["usage"], json!([]));
    assert_eq!(usage().await.status, 500, "it was done");
    assert_eq!(statuses(&usage().await.ok()), ["Duplicate"]);

    stage.agreed(json!({})).await;
    stage.faults(json!({"throttle": 2, "poison": "bad"})).await;
    let records: Vec<Value> =
        (0..3).map(|hours| record(now.plus(TimeDelta::hours(-hours)), "seats", json!(1))).collect();
    assert_eq!(stage.batch(&records).await.refused(400), "ThrottlingException");
    let half = stage.batch(&records).await.ok();
    assert_eq!((statuses(&half), &half["UnprocessedRecords"]), (vec!["Success"], &json!(records[1..])));
    assert_eq!(statuses(&stage.batch(&records).await.ok()), ["Success", "Success", "Success"]);
    let poisoned = stage.batch(&[records[0].clone(), record(now, "bad", json!(1))]).await;
    assert_eq!(poisoned.refused(400), "InvalidUsageDimensionException");
    let mut bad = event(&id, now, json!(1));
    bad["dimension"] = json!("bad");
    assert_eq!(statuses(&stage.usage(&[bad, event(&id, now, json!(2))]).await.ok()), ["Error", "Duplicate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_says_what_is_wrong() {
    let stage = Stage::new().await;
    let new = json!({"publisher": "nobody", "offerId": "o", "planId": "p", "tenantId": "t"});
    let cases = [
        (Method::POST, "cloud_b/subscriptions", new, 404),
        (Method::POST, "cloud_b/subscriptions", json!({"publisher": "acme"}), 400),
        (Method::POST, "cloud_b/subscriptions/nobody/Suspend", json!({}), 404),
        (Method::POST, "cloud_a/agreements", json!({"publisher": "acme", "accountId": "1", "productId": "p"}), 400),
        (Method::POST, "cloud_a/agreements/nobody/cancel", json!({}), 404),
        (Method::POST, "offers/nobody/accept", json!({}), 404),
        (Method::POST, "advance", json!({"seconds": -1}), 400),
        (Method::POST, "advance", json!({"seconds": "soon"}), 400),
        (Method::PUT, "faults", json!({"earthquakes": 1}), 400),
        (Method::PUT, "publishers/other", json!({"cloudA": {}}), 400),
        (Method::POST, "notifications/99/resend", json!({}), 404),
        (Method::POST, "nothing", json!({}), 404),
    ];
    for (method, path, body, status) in cases {
        let answer = stage.control(method, path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(answer.body["message"].is_string(), "{path}: {}", answer.body);
    }
    let shown = stage.state().await.to_string();
    assert!(!shown.contains("s3cret") && !shown.contains("hush"), "secrets are not shown");
    stage.simulator.stop().await;
}
