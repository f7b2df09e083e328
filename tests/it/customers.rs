//! Customers, by one scenario through both doors (`contract.md` §8).

use serde_json::{Value, json};

use mercato::model::entitlement::NewEntitlement;
use mercato::model::lifecycle::Step;

use crate::harness::{CUSTOMERS, Facade, OFFERS, TestApp, new_customer};
use crate::snapshot;

/// Everything that can be done with customers, and every way in which it is refused.
async fn scenario(facade: Facade) -> Vec<Value> {
    let app = TestApp::new().await;
    let party = app.party().await;
    let mut said = Vec::new();
    let mut say = |what: &str, outcome: Value| {
        said.push(json!({ what: outcome }));
        outcome
    };
    let a =
        json!({ "vendor": "cloud_a", "cloudAccountId": "1234", "companyName": "Northwind", "email": "it@nw.example" });
    let b = json!({ "vendor": "cloud_b", "tenantId": "t-1", "companyName": "Blue Harbor" });
    let first = say("create cloud_a", facade.create(&party, CUSTOMERS, a.clone()).await);
    let id = first["ok"]["id"].as_str().unwrap_or_default().to_owned();
    say("create cloud_b", facade.create(&party, CUSTOMERS, b).await);
    say("create a duplicate", facade.create(&party, CUSTOMERS, a).await);
    let crossed = json!({ "vendor": "cloud_b", "cloudAccountId": "9", "companyName": "X" });
    say("create with the other vendor's identifier", facade.create(&party, CUSTOMERS, crossed).await);
    let broken = json!({ "vendor": "cloud_a", "cloudAccountId": "a b", "companyName": " ", "email": "nobody" });
    say("create with every rule broken", facade.create(&party, CUSTOMERS, broken).await);
    say("get", facade.get(&party, CUSTOMERS, &id).await);
    say("get an unknown one", facade.get(&party, CUSTOMERS, "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD").await);
    say("first page", facade.list(&party, CUSTOMERS, 1, None).await);
    say("bad limit", facade.list(&party, CUSTOMERS, 0, None).await);
    say("bad cursor", facade.list(&party, CUSTOMERS, 1, Some("garbled")).await);
    app.advance(chrono::TimeDelta::seconds(5));
    say("update", facade.update(&party, CUSTOMERS, &id, json!({ "email": null, "companyName": "Northwind BV" })).await);
    say("update nothing", facade.update(&party, CUSTOMERS, &id, json!({})).await);
    say("set a status of the service", facade.update(&party, CUSTOMERS, &id, json!({ "status": "suspended" })).await);
    say("break rules", facade.update(&party, CUSTOMERS, &id, json!({ "companyName": "", "email": "x" })).await);
    say("update an unknown one", facade.update(&party, CUSTOMERS, "cus_nonsense", json!({})).await);
    let customer = mercato::model::id::CustomerId::parse(&id).expect("an id");
    let entitlement = app.entitlement(party.organization(), NewEntitlement::of(customer, "lst_1")).await;
    let entitlement = app.step(&entitlement, Step::Suspend).await;
    say(
        "deactivate with a live entitlement",
        facade.update(&party, CUSTOMERS, &id, json!({ "status": "inactive" })).await,
    );
    say("delete with a live entitlement", facade.delete(&party, CUSTOMERS, &id).await);
    say("get with an entitlement", facade.get(&party, CUSTOMERS, &id).await);
    say("set a status while suspended", facade.update(&party, CUSTOMERS, &id, json!({ "status": "active" })).await);
    app.step(&entitlement, Step::Cancel).await;
    say("deactivate", facade.update(&party, CUSTOMERS, &id, json!({ "status": "inactive" })).await);
    let offer = json!({
        "vendor": "cloud_a", "listingId": "lst_1", "customerId": id,
        "details": { "pricing": { "discountPercentage": 10, "duration": 12 } },
    });
    let offer = facade.create(&party, OFFERS, offer).await["ok"]["id"].as_str().expect("an offer").to_owned();
    say("delete with an open offer", facade.delete(&party, CUSTOMERS, &id).await);
    facade.delete(&party, OFFERS, &offer).await;
    say("delete", facade.delete(&party, CUSTOMERS, &id).await);
    say("delete again", facade.delete(&party, CUSTOMERS, &id).await);
    said.push(json!({ "events": app.events(party.organization()).await }));
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_lead_to_the_same_rooms() {
    let (rest, graphql) = (scenario(Facade::Rest).await, scenario(Facade::Graphql).await);
    for (rest, graphql) in rest.iter().zip(&graphql) {
        assert_eq!(rest, graphql);
    }
    snapshot!("customers", rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_can_be_written_back_as_it_was_read() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = party.customer("1").await;
    let path = format!("/api/v1/customers/{}", customer["id"].as_str().expect("an id"));
    let mut read = party.get(&path).await.data();
    assert_eq!(party.put(&path, &read).await.data(), customer);
    read["companyName"] = json!("Renamed");
    assert_eq!(party.put(&path, &read).await.data()["companyName"], json!("Renamed"));
    read["vendor"] = json!("cloud_b");
    read["createdAt"] = json!("2020-01-01T00:00:00.000Z");
    read["status"] = json!("unheard");
    read["color"] = json!("red");
    let reply = party.put(&path, &read).await;
    reply.refused(400, "INVALID_PARAMS");
    read["status"] = json!("active");
    read.as_object_mut().expect("an object").remove("color");
    let reply = party.put(&path, &read).await;
    reply.refused(422, "INVALID_PARAMS");
    assert_eq!(reply.fields(), ["createdAt: cannot be changed", "vendor: cannot be changed"]);
    assert_eq!(app.events(party.organization()).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_cannot_be_understood_are_400_with_every_field() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let path = "/api/v1/customers";
    let reply = party.post(path, &json!({ "vendor": "cloud_c", "companyName": 7, "email": [], "extra": 1 })).await;
    reply.refused(400, "INVALID_PARAMS");
    let expected = [
        "vendor: must be one of: cloud_a, cloud_b",
        "companyName: must be a string",
        "email: must be a string",
        "extra: is not a known field",
    ];
    assert_eq!(reply.fields(), expected);
    for body in ["", "{", "[]", "7", "\"x\"", "{\"vendor\":\"cloud_a\",}", "{\"a\":\"\\ud800\"}", "\u{0}"] {
        let request = party.request(reqwest::Method::POST, path).header("content-type", "application/json");
        let reply = crate::harness::Reply::of(request.body(body)).await;
        reply.refused(400, "INVALID_PARAMS");
        assert_eq!(reply.json()["errors"][0]["field"], json!("body"), "{body}");
    }
    for (body, field) in [
        (r#"{"vendor":"cloud_a","vendor":"cloud_b","companyName":"X","tenantId":"1"}"#, "body"),
        (r#"{"vendor":null,"companyName":"X","tenantId":"1"}"#, "vendor"),
        (r#"{"vendor":"cloud_b","companyName":null,"tenantId":"1"}"#, "companyName"),
    ] {
        let request = party.request(reqwest::Method::POST, path).header("content-type", "application/json");
        let reply = crate::harness::Reply::of(request.body(body)).await;
        reply.refused(400, "INVALID_PARAMS");
        assert_eq!(reply.json()["errors"][0]["field"], json!(field), "{body}");
    }
    for email in ["Joe <a@b.example>", "a@[127.0.0.1]", "a b@c.example", "a@b@c.example", ""] {
        let body = json!({ "vendor": "cloud_a", "cloudAccountId": "1", "companyName": "X", "email": email });
        assert_eq!(party.post(path, &body).await.fields(), ["email: must be an e-mail address"], "{email}");
    }
    // However much is wrong, the answer stays small.
    let fields: serde_json::Map<String, Value> = (0..50_000).map(|n| (format!("field-{n}"), json!(n))).collect();
    let reply = party.post(path, &Value::Object(fields)).await;
    reply.refused(400, "INVALID_PARAMS");
    assert!(reply.fields().len() == 100 && reply.text.len() < 20_000);
    let scopes = json!({ "scopes": vec![1; 400_000] });
    let reply = party.put(&format!("/oauth/applications/{}", party.id()), &scopes).await;
    assert_eq!(reply.fields(), ["scopes: must not have more than 100 items"]);
    let deep = "[".repeat(100_000);
    let request = party.request(reqwest::Method::POST, path).header("content-type", "application/json");
    crate::harness::Reply::of(request.body(deep)).await.refused(400, "INVALID_PARAMS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_customer_keeps_its_status() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let id = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    app.rows("UPDATE customer SET status = 'suspended'").await;
    let path = format!("/api/v1/customers/{id}");
    party.put(&path, &json!({ "status": "active" })).await.refused(409, "CONFLICT");
    party.put(&path, &json!({ "status": null })).await.refused(400, "INVALID_PARAMS");
    let kept = party.put(&path, &json!({ "status": "suspended", "email": "a@b.example" })).await.data();
    assert_eq!(kept["status"], json!("suspended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identifier_is_free_again_after_the_deletion_and_in_other_organizations() {
    let app = TestApp::new().await;
    let (one, other) = (app.party().await, app.party().await);
    let id = one.customer("1").await["id"].as_str().expect("an id").to_owned();
    other.customer("1").await;
    one.post("/api/v1/customers", &new_customer("1")).await.refused(409, "CONFLICT");
    one.delete(&format!("/api/v1/customers/{id}")).await.ok();
    one.customer("1").await;
}
