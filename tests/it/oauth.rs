//! The client-credentials grant, revocation and introspection (`contract.md` §4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::TimeDelta;
use mercato::model::scope::Scope;
use serde_json::{Value, json};

use crate::harness::{Party, Reply, TestApp};

const LIST: &str = "/api/v1/customers";

/// Checks that an error carries both contracts and may not be cached.
#[track_caller]
fn oauth_error(reply: &Reply, status: u16, error: &str) -> String {
    let body = reply.expect(status);
    assert_eq!(body["code"], json!(status));
    assert_eq!(body["error"], json!(error));
    assert_eq!(body["message"], body["error_description"]);
    assert_eq!(reply.header("cache-control"), "no-store");
    body["message"].as_str().unwrap_or_default().to_owned()
}

fn with<'a>(fields: &[(&'a str, String)], name: &'a str, value: &str) -> Vec<(&'a str, String)> {
    let others = fields.iter().filter(|(field, _)| *field != name).cloned();
    others.chain([(name, value.to_owned())]).collect()
}

async fn basic(party: &Party, credentials: &str, body: &str) -> Reply {
    let header = format!("Basic {}", BASE64_STANDARD.encode(credentials));
    let mut stranger = party.clone();
    stranger.token = None;
    let request = stranger.request(reqwest::Method::POST, "/oauth/token").header("authorization", header);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body.to_owned());
    Reply::of(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_issued_for_the_form_or_for_basic() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let reply = party.form("/oauth/token", &party.grant()).await;
    let body = reply.ok();
    assert_eq!(body["token_type"], json!("Bearer"));
    assert_eq!(body["expires_in"], json!(3600));
    assert_eq!(body["scope"], json!(Scope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")));
    let token = body["access_token"].as_str().expect("a token");
    assert!(token.starts_with("mct_") && token.len() == 53, "{token}");
    assert_eq!(reply.header("cache-control"), "no-store");

    let credentials = format!("{}:{}", party.client_id(), party.application.client_secret);
    basic(&party, &credentials, "grant_type=client_credentials").await.ok();
    let both = format!("grant_type=client_credentials&client_secret={}", party.application.client_secret);
    oauth_error(&basic(&party, &credentials, &both).await, 400, "invalid_request");
    let wrong = basic(&party, "a:b", "grant_type=client_credentials").await;
    oauth_error(&wrong, 401, "invalid_client");
    assert!(wrong.header("www-authenticate").starts_with("Basic"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_token_requests_are_told_apart_only_where_that_is_safe() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let grant = party.grant();
    let post = |fields: Vec<(&'static str, String)>| {
        let party = party.clone();
        async move { party.form("/oauth/token", &fields).await }
    };
    let unknown_client = post(with(&grant, "client_id", "mci_nobody")).await;
    let wrong_secret = post(with(&grant, "client_secret", "mcs_wrong")).await;
    assert_eq!(oauth_error(&unknown_client, 401, "invalid_client"), "Invalid client credentials");
    assert_eq!(unknown_client.text, wrong_secret.text);
    oauth_error(&post(with(&grant, "grant_type", "password")).await, 400, "unsupported_grant_type");
    oauth_error(&post(with(&grant, "grant_type", "")).await, 400, "invalid_request");
    oauth_error(&post(with(&grant, "client_secret", "")).await, 400, "invalid_request");
    oauth_error(&post(with(&grant, "scope", "read:everything")).await, 400, "invalid_scope");
    let twice = [grant.clone(), vec![("client_id", "x".to_owned())]].concat();
    oauth_error(&party.form("/oauth/token", &twice).await, 400, "invalid_request");
    oauth_error(&app.stranger().post("/oauth/token", &json!({})).await, 415, "invalid_request");
    let reply = app.stranger().get("/oauth/token").await;
    oauth_error(&reply, 405, "invalid_request");
    assert_eq!(reply.header("allow"), "POST");
    oauth_error(&party.form("/oauth/token?client_secret=x", &grant).await, 400, "invalid_request");
    let latin = app.stranger().request(reqwest::Method::POST, "/oauth/token").body("grant_type=client_credentials");
    let latin = latin.header("content-type", "application/x-www-form-urlencoded; charset=latin1");
    oauth_error(&Reply::of(latin).await, 415, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_narrows_the_token_and_never_widens_it() {
    let app = TestApp::new().await;
    let mut party = app.party_in(app.organization("A").await, &[Scope::ReadCustomers, Scope::WriteCustomers]).await;
    let narrow = party.form("/oauth/token", &with(&party.grant(), "scope", "read:customers")).await.ok();
    assert_eq!(narrow["scope"], json!("read:customers"));
    party.token = narrow["access_token"].as_str().map(str::to_owned);
    party.get(LIST).await.ok();
    let refused = party.post(LIST, &json!({})).await;
    assert_eq!(refused.refused(403, "INSUFFICIENT_SCOPE"), "Insufficient scope for this endpoint");
    assert!(refused.header("www-authenticate").contains("scope=\"write:customers\""));
    let wide = party.form("/oauth/token", &with(&party.grant(), "scope", "read:customers read:analytics")).await;
    oauth_error(&wide, 400, "invalid_scope");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lives_for_an_hour_and_is_known_as_expired_for_a_day() {
    let app = TestApp::new().await;
    let party = app.party().await;
    app.advance(TimeDelta::seconds(3599));
    party.get(LIST).await.ok();
    app.advance(TimeDelta::seconds(1));
    let reply = party.get(LIST).await;
    assert_eq!(reply.refused(401, "UNAUTHORIZED"), "Token expired");
    assert!(reply.header("www-authenticate").contains("invalid_token"));
    app.advance(TimeDelta::hours(24) + TimeDelta::seconds(1));
    let swept = app.store.sweep(TimeDelta::days(30)).await.expect("the sweep runs");
    assert_eq!(swept.tokens, 1);
    assert_eq!(party.get(LIST).await.refused(401, "UNAUTHORIZED"), "Invalid or revoked token");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_is_refused_with_a_challenge() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let token = party.token.clone().expect("a token");
    let stranger = app.stranger();
    assert_eq!(stranger.get(LIST).await.header("www-authenticate"), "Bearer realm=\"mercato\"");
    let mut bent = token.clone();
    bent.replace_range(10..11, if &bent[10..11] == "A" { "B" } else { "A" });
    let headers =
        ["Bearer", "Bearer ", "Basic abc", &format!("Token {token}"), &format!("Bearer {bent}"), "Bearer a b", "é"];
    for header in headers {
        let request = stranger.request(reqwest::Method::GET, LIST).header("authorization", header);
        Reply::of(request).await.refused(401, "UNAUTHORIZED");
    }
    // Two of them: a proxy may believe the other one.
    let twice = party.request(reqwest::Method::GET, LIST).header("authorization", "Bearer other");
    Reply::of(twice).await.refused(401, "UNAUTHORIZED");
    let request = stranger.request(reqwest::Method::GET, LIST).header("authorization", format!("bEARER {token}"));
    Reply::of(request).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_follows_rfc_7009() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    let party = app.party_in(organization, Scope::ALL).await;
    let other = app.party_in(organization, Scope::ALL).await;
    let token = party.token.clone().expect("a token");
    let revoke = |by: &Party| with(&by.grant(), "token", &token);
    oauth_error(&party.form("/oauth/revoke", &revoke(&other)).await, 400, "unauthorized_client");
    party.get(LIST).await.ok();
    party.form("/oauth/revoke", &revoke(&party)).await.ok();
    party.form("/oauth/revoke", &revoke(&party)).await.ok();
    party.get(LIST).await.refused(401, "UNAUTHORIZED");
    oauth_error(&party.form("/oauth/revoke", &party.grant()).await, 400, "invalid_request");
    oauth_error(&party.form("/oauth/revoke", &[("token", token)]).await, 400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn introspection_tells_a_client_about_its_organization_only() {
    let app = TestApp::new().await;
    let (party, foreign) = (app.party().await, app.party().await);
    let token = party.token.clone().expect("a token");
    let ask = |by: &Party| with(&by.grant(), "token", &token);
    let body = party.form("/oauth/introspect", &ask(&party)).await.ok();
    assert_eq!(body["active"], json!(true));
    assert_eq!(body["client_id"], json!(party.client_id()));
    assert_eq!(body["exp"].as_i64().expect("exp") - body["iat"].as_i64().expect("iat"), 3600);
    let inactive = json!({ "active": false });
    assert_eq!(party.form("/oauth/introspect", &ask(&foreign)).await.ok(), inactive);
    app.advance(TimeDelta::hours(2));
    assert_eq!(party.form("/oauth/introspect", &ask(&party)).await.ok(), inactive);
    oauth_error(&party.form("/oauth/introspect", &[("token", token.clone())]).await, 400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_names_the_endpoints() {
    let app = TestApp::new().await;
    let body = app.stranger().get("/.well-known/oauth-authorization-server").await.ok();
    assert_eq!(body["token_endpoint"], json!(format!("{}/oauth/token", app.app.auth_url)));
    assert_eq!(body["grant_types_supported"], json!(["client_credentials"]));
}

/// A request that begins after the answer to the regeneration must not pass, however many are under way.
#[tokio::test(flavor = "multi_thread")]
async fn revocation_is_exact_under_a_thousand_parallel_requests() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let revoked = Arc::new(AtomicBool::new(false));
    let requests = (0..1000).map(|_| {
        let (party, revoked) = (party.clone(), Arc::clone(&revoked));
        tokio::spawn(async move {
            let began_after = revoked.load(Ordering::SeqCst);
            (began_after, party.get("/api/v1/customers?limit=1").await.status)
        })
    });
    let mut tasks: Vec<_> = requests.collect();
    let path = format!("/oauth/applications/{}/regenerate-secret", party.id());
    let reply = Reply::of(party.request(reqwest::Method::POST, &path)).await;
    revoked.store(true, Ordering::SeqCst);
    reply.ok();
    tasks.extend((0..100).map(|_| {
        let party = party.clone();
        tokio::spawn(async move { (true, party.get("/api/v1/customers?limit=1").await.status) })
    }));
    let mut late = 0;
    for task in tasks {
        let (began_after, status) = task.await.expect("a request ends");
        assert!(matches!(status, 200 | 401), "{status}");
        if began_after {
            late += 1;
            assert_eq!(status, 401);
        }
    }
    assert!(late >= 100);
    let old: Value = party.form("/oauth/token", &party.grant()).await.expect(401);
    assert_eq!(old["message"], json!("Invalid client credentials"));
}
