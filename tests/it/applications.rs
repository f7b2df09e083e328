//! OAuth applications over REST: people manage all of them, an application manages itself (`contract.md` §4).

use mercato::model::application::ApplicationInput;
use mercato::model::scope::Scope;
use mercato::resolvers::applications;
use serde_json::json;

use crate::harness::{Party, Reply, TestApp};
use crate::snapshot;

fn path(party: &Party) -> String {
    format!("/oauth/applications/{}", party.id())
}

async fn regenerate(caller: &Party, target: &Party) -> Reply {
    let path = format!("{}/regenerate-secret", path(target));
    Reply::of(caller.request(reqwest::Method::POST, &path)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_reads_its_organizations_and_never_a_secret() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    let party = app.party_in(organization, &[Scope::ReadCustomers]).await;
    let sibling = app.party_in(organization, &[Scope::ReadCustomers]).await;
    let list = party.get("/oauth/applications").await;
    assert_eq!(list.data()["items"].as_array().map(Vec::len), Some(2));
    let one = party.get(&path(&sibling)).await;
    assert_eq!(one.data()["id"], json!(sibling.id()));
    for reply in [list, one] {
        assert!(!reply.text.contains("ecret\":\"mcs_") && !reply.text.contains("hash"), "{}", reply.text);
        assert_eq!(reply.header("x-ratelimit-limit"), "1000000000");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_manages_itself_and_nobody_else() {
    let app = TestApp::new().await;
    let organization = app.organization("A").await;
    let party = app.party_in(organization, &[Scope::ReadCustomers, Scope::WriteCustomers]).await;
    let sibling = app.party_in(organization, &[Scope::ReadCustomers]).await;
    let foreign = app.party().await;
    app.advance(chrono::TimeDelta::seconds(1));
    let renamed = party.put(&path(&party), &json!({ "name": "Renamed", "scopes": ["read:customers"] })).await.data();
    snapshot!("application", renamed);
    let widen = json!({ "scopes": ["read:customers", "read:analytics"] });
    party.put(&path(&party), &widen).await.refused(403, "INSUFFICIENT_SCOPE");
    party.put(&path(&party), &renamed).await.ok();
    party.put(&path(&party), &json!({ "clientId": "other" })).await.refused(422, "INVALID_PARAMS");
    party.put(&path(&party), &json!({ "scopes": [] })).await.refused(422, "INVALID_PARAMS");
    party.put(&path(&party), &json!({ "scopes": ["x"], "name": 1 })).await.refused(400, "INVALID_PARAMS");
    for broken in [json!({ "name": null }), json!({ "description": null }), json!({ "scopes": null })] {
        party.put(&path(&party), &broken).await.refused(400, "INVALID_PARAMS");
    }
    for (target, status, code) in [(&sibling, 403, "INSUFFICIENT_SCOPE"), (&foreign, 404, "NOT_FOUND")] {
        party.put(&path(target), &json!({ "name": "X" })).await.refused(status, code);
        party.delete(&path(target)).await.refused(status, code);
        regenerate(&party, target).await.refused(status, code);
    }
    let new = json!({ "name": "New", "scopes": ["read:customers"] });
    party.post("/oauth/applications", &new).await.refused(403, "INSUFFICIENT_SCOPE");
    party.delete(&path(&party)).await.ok();
    party.get(&path(&party)).await.refused(401, "UNAUTHORIZED");
    let gone = party.form("/oauth/token", &party.grant()).await.expect(401);
    assert_eq!(gone["message"], json!("Invalid client credentials"));
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_scopes_apply_to_new_tokens() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    party.put(&path(&party), &json!({ "scopes": ["read:analytics"] })).await.ok();
    party.get("/api/v1/customers").await.ok();
    party.refresh().await;
    party.get("/api/v1/customers").await.refused(403, "INSUFFICIENT_SCOPE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_works_at_once_and_the_old_one_never_again() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let old = party.grant();
    let rotated = regenerate(&party, &party).await.data();
    let secret = rotated["clientSecret"].as_str().expect("a secret").to_owned();
    party.get("/api/v1/customers").await.refused(401, "UNAUTHORIZED");
    party.form("/oauth/token", &old).await.expect(401);
    party.application.client_secret = secret;
    party.refresh().await;
    assert!(party.get(&path(&party)).await.data().get("clientSecret").is_none());
    let trail = app.rows("SELECT action, actor, target FROM audit").await;
    let actions: Vec<_> = trail.iter().map(|entry| entry["action"].as_str().unwrap_or_default()).collect();
    assert_eq!(actions, ["application.secret_regenerated", "application.created"]);
    assert_eq!(trail[0]["actor"], json!(party.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn people_create_applications() {
    let app = TestApp::new().await;
    let call = app.operator(app.organization("A").await);
    let input = ApplicationInput::for_create(Ok(json!({ "name": "Sync", "scopes": ["read:customers"] })));
    let created = applications::create(&call, input).await.expect("an application");
    assert!(created.client_secret.starts_with("mcs_"));
    let broken = ApplicationInput::for_create(Ok(json!({ "name": "", "scopes": ["nothing"], "color": 1 })));
    let refused = applications::create(&call, broken).await.expect_err("a refusal");
    assert_eq!(refused.class().0, 400);
    assert_eq!(refused.fields().len(), 3);
}
