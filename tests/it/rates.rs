//! Rate limits (`contract.md` §7): exact windows, headers, and what a GraphQL operation costs.

use std::sync::Arc;

use chrono::TimeDelta;
use mercato::auth::limiter::{Key, Limiter};
use mercato::auth::sharing::Sharing;
use mercato::model::application::RateLimits;
use mercato::model::scope::Scope;
use serde_json::json;

use crate::harness::{Party, Reply, TestApp, listen_options};

const PATH: &str = "/api/v1/customers?limit=1";

async fn limited(app: &TestApp) -> Party {
    app.party_with(app.organization("A").await, Scope::ALL, RateLimits::DOCUMENTED).await
}

fn window(reply: &Reply) -> (String, String) {
    (reply.header("x-ratelimit-limit").to_owned(), reply.header("x-ratelimit-remaining").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_a_minute_and_not_one_more() {
    let app = TestApp::new().await;
    let party = limited(&app).await;
    let start = app.clock.now().as_seconds();
    for left in (0..50).rev() {
        let reply = party.get(PATH).await;
        reply.ok();
        assert_eq!(window(&reply), ("50".to_owned(), left.to_string()));
        assert_eq!(reply.header("x-ratelimit-reset"), (start + 60).to_string());
        app.advance(TimeDelta::milliseconds(1000));
    }
    for _ in 0..3 {
        let reply = party.get(PATH).await;
        assert_eq!(reply.refused(429, "RATE_LIMITED"), "Rate limit exceeded");
        assert_eq!(reply.json()["retryAfter"], json!(10));
        assert_eq!(reply.header("retry-after"), "10");
        assert_eq!(window(&reply), ("50".to_owned(), "0".to_owned()));
    }
    app.advance(TimeDelta::milliseconds(9_999));
    party.get(PATH).await.refused(429, "RATE_LIMITED");
    app.advance(TimeDelta::milliseconds(1));
    party.get(PATH).await.ok();
    party.get(PATH).await.refused(429, "RATE_LIMITED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_an_hour_and_every_authenticated_answer_says_so() {
    let app = TestApp::new().await;
    let mut party = limited(&app).await;
    for _ in 0..20 {
        for _ in 0..49 {
            party.get(PATH).await.ok();
        }
        app.advance(TimeDelta::minutes(1));
    }
    for path in ["/api/v1/nothing", "/api/v1/customers/x", "/oauth/applications/x"] {
        assert_eq!(window(&party.get(path).await).0, "1000", "{path}");
    }
    assert_eq!(window(&party.delete("/api/v1/customers").await), ("1000".to_owned(), "16".to_owned()));
    assert_eq!(window(&party.graphql("{", json!({})).await), ("1000".to_owned(), "15".to_owned()));
    for _ in 0..15 {
        party.get(PATH).await.ok();
    }
    party.get(PATH).await.refused(429, "RATE_LIMITED");
    let graphql = party.graphql("{ __typename }", json!({})).await;
    assert_eq!(graphql.expect(429)["errors"][0]["extensions"]["code"], json!("RATE_LIMITED"));
    assert_eq!(graphql.header("retry-after"), graphql.json()["errors"][0]["extensions"]["retryAfter"].to_string());
    app.advance(TimeDelta::hours(1));
    party.refresh().await;
    party.get(PATH).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graphql_operation_costs_by_its_complexity() {
    let app = TestApp::new().await;
    let party = limited(&app).await;
    let cheap = party.graphql("{ customers(first: 5) { nodes { id } } }", json!({})).await;
    assert_eq!(window(&cheap).1, "49");
    let query = "query ($n: Int) { customers(first: $n) { nodes { id vendor email } } }";
    let costly = party.graphql(query, json!({ "n": 100 })).await;
    assert_eq!(window(&costly).1, (49 - 4).to_string(), "4 fields in 100 places, and the connection itself");
    for _ in 0..11 {
        party.graphql(query, json!({ "n": 100 })).await.ok();
    }
    let refused = party.graphql(query, json!({ "n": 100 })).await;
    refused.expect(429);
    assert_eq!(window(&refused).1, "1", "a refused operation costs nothing");
    party.graphql("{ __typename }", json!({})).await.ok();
}

/// An empty window is no reason to admit what is more than the whole of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_fit_is_refused_at_once() {
    let app = TestApp::new().await;
    let small = RateLimits { hour: 1000, minute: 3 };
    let party = app.party_with(app.organization("A").await, Scope::ALL, small).await;
    let query = "{ customers(first: 100) { nodes { id vendor email } } }";
    let reply = party.graphql(query, json!({})).await.expect(400);
    assert_eq!(reply["errors"][0]["extensions"]["code"], json!("INVALID_PARAMS"));
    let none = RateLimits { hour: 0, minute: 0 };
    let key = Key::Application(party.application.application.id);
    Limiter::default().take(key, none, 1, app.clock.now()).expect_err("nothing is admitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_for_everybody_are_limited_by_address_and_health_is_not() {
    let mut options = listen_options();
    options.address_limit = 20;
    let app = TestApp::with(options).await;
    for _ in 0..20 {
        app.stranger().get("/schema.graphql").await;
    }
    app.stranger().get("/openapi.json").await.refused(429, "RATE_LIMITED");
    assert_eq!(app.stranger().get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_token_are_limited_by_address() {
    let mut options = listen_options();
    options.address_limit = 20;
    let app = TestApp::with(options).await;
    let stranger = app.stranger();
    for _ in 0..20 {
        stranger.get(PATH).await.refused(401, "UNAUTHORIZED");
    }
    stranger.get(PATH).await.refused(429, "RATE_LIMITED");
    let token = stranger.form("/oauth/token", &[("grant_type", "client_credentials".to_owned())]).await.expect(429);
    assert_eq!(token["code"], json!(429));
    app.advance(TimeDelta::minutes(1));
    app.party().await.get(PATH).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_its_own_limit_of_tokens_that_others_cannot_use_up() {
    let app = TestApp::new().await;
    let party = limited(&app).await;
    let mut wrong = party.grant();
    wrong[2].1 = "mcs_wrong".to_owned();
    for _ in 0..100 {
        party.form("/oauth/token", &wrong).await.expect(401);
    }
    // One was taken by the harness.
    for _ in 0..49 {
        party.form("/oauth/token", &party.grant()).await.ok();
    }
    party.form("/oauth/token", &party.grant()).await.expect(429);
}

/// Two processes, one database: what one admits, the other counts after an exchange; and so does one after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn windows_are_shared_through_the_database() {
    let app = TestApp::new().await;
    let party = limited(&app).await;
    let other = Arc::new(Limiter::default());
    let other_process = Sharing::new(app.store.clone(), Arc::clone(&other));
    for _ in 0..30 {
        party.get(PATH).await.ok();
    }
    let take = || {
        let key = Key::Application(party.application.application.id);
        other.take(key, RateLimits::DOCUMENTED, 1, app.clock.now())
    };
    app.app.sharing.exchange().await.expect("the exchange works");
    for _ in 0..3 {
        app.advance(TimeDelta::milliseconds(500));
        other_process.exchange().await.expect("the exchange works");
    }
    for _ in 0..20 {
        take().expect("there is room");
    }
    take().expect_err("the window is full");
    other_process.exchange().await.expect("the exchange works");
    app.app.sharing.exchange().await.expect("the exchange works");
    party.get(PATH).await.refused(429, "RATE_LIMITED");
}

/// Who only looks spends nothing, and sees when nothing is left.
#[test]
fn a_peek_takes_nothing() {
    let (limiter, clock) = (Limiter::default(), mercato::clock::Clock::manual());
    let (key, limits) = (Key::address([127, 0, 0, 1].into()), RateLimits { hour: 100, minute: 3 });
    for _ in 0..3 {
        limiter.peek(key, limits, clock.now()).expect("there is room");
        limiter.take(key, limits, 1, clock.now()).expect("a peek took nothing");
    }
    limiter.peek(key, limits, clock.now()).expect_err("the window is full");
    limiter.peek(Key::address([127, 0, 0, 2].into()), limits, clock.now()).expect("another address has its own");
    clock.advance(TimeDelta::minutes(1));
    limiter.peek(key, limits, clock.now()).expect("the window has passed");
    limiter.peek(key, RateLimits { hour: 0, minute: 0 }, clock.now()).expect_err("nothing is admitted");
}
