//! Private offers, by one scenario through both doors (`contract.md` §10).

use chrono::TimeDelta;
use mercato::model::id::PrivateOfferId;
use mercato::model::offer::{Acceptance, Published};
use mercato::resolvers::offers;
use serde_json::{Value, json};

use crate::harness::{Facade, OFFERS, Party, TestApp, new_offer};
use crate::snapshot;

fn id_of(outcome: &Value) -> String {
    outcome["ok"]["id"].as_str().unwrap_or_else(|| panic!("no offer: {outcome}")).to_owned()
}

fn offer_id(id: &str) -> PrivateOfferId {
    PrivateOfferId::parse(id).expect("an id")
}

/// A `cloud_b` offer with every field.
fn full_offer(customer: &str) -> Value {
    json!({
        "vendor": "cloud_b", "listingId": "lst_2", "customerId": customer, "expiresAt": "2026-02-01T00:00:00Z",
        "details": {
            "summary": { "offerName": "Two years", "companyName": "Blue Harbor",
                "buyerNotifications": [{ "name": "Kim", "email": "kim@blue.example" }] },
            "pricing": { "discountAmount": 1500.5, "duration": 24, "annualValue": 12000, "currency": "EUR" },
            "cloud": { "offerType": "multi_party" },
        },
    })
}

/// Every rule broken at once.
fn broken_offer() -> Value {
    json!({
        "vendor": "cloud_a", "listingId": "", "customerId": "cus_x", "expiresAt": "2026-01-05T09:00:00Z",
        "details": {
            "summary": { "offerName": "", "buyerNotifications": [{ "name": "", "email": "x" }] },
            "pricing": { "discountPercentage": 101, "discountAmount": 1, "duration": 37, "annualValue": -1, "currency": "XXY" },
            "cloud": { "offerType": "csp", "agreementId": "agr-1" },
        },
    })
}

async fn creating(facade: Facade, app: &TestApp, party: &Party, say: &mut impl FnMut(&str, Value) -> Value) -> String {
    let a = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let b = json!({ "vendor": "cloud_b", "tenantId": "t-1", "companyName": "Blue Harbor" });
    let b = party.post("/api/v1/customers", &b).await.created()["id"].as_str().expect("an id").to_owned();
    let id = id_of(&say("create the least", facade.create(party, OFFERS, new_offer(&a)).await));
    let full = id_of(&say("create in full", facade.create(party, OFFERS, full_offer(&b)).await));
    say("create with every rule broken", facade.create(party, OFFERS, broken_offer()).await);
    let mut crossed = new_offer(&b);
    crossed["details"]["cloud"] = json!({ "isReplacement": true });
    say("create for a customer of the other vendor", facade.create(party, OFFERS, crossed).await);
    let mut orphan = new_offer(&a);
    orphan["details"]["cloud"] = json!({ "isReplacement": true, "agreementId": "agr-none" });
    say("create a replacement of nothing", facade.create(party, OFFERS, orphan).await);
    say("get", facade.get(party, OFFERS, &full).await);
    say("list", facade.list(party, OFFERS, 10, None).await);
    app.advance(TimeDelta::seconds(5));
    let patch =
        json!({ "details": { "pricing": { "discountPercentage": 12.5 }, "summary": { "offerName": "Better" } } });
    say("update", facade.update(party, OFFERS, &full, patch.clone()).await);
    say("update nothing", facade.update(party, OFFERS, &full, patch).await);
    let rules = json!({ "expiresAt": "2020-01-01T00:00:00Z", "details": { "pricing": { "duration": 0 } } });
    say("break rules", facade.update(party, OFFERS, &full, rules).await);
    let amount = json!({ "details": { "pricing": { "discountAmount": 5 } } });
    say("an amount on cloud_a", facade.update(party, OFFERS, &id, amount).await);
    id
}

async fn ending(
    facade: Facade,
    app: &TestApp,
    party: &mut Party,
    id: &str,
    say: &mut impl FnMut(&str, Value) -> Value,
) {
    let tenant = app.tenant(party.organization());
    let live = Published::Live { vendor_offer_id: "vo-1".to_owned() };
    offers::publish(&tenant, offer_id(id), live).await.expect("published");
    app.advance(TimeDelta::days(31));
    assert_eq!(app.tick().await, 2);
    party.refresh().await;
    let party = &*party;
    say("expired", facade.get(party, OFFERS, id).await);
    let name = json!({ "details": { "summary": { "offerName": "Late" } } });
    say("change an expired one", facade.update(party, OFFERS, id, name.clone()).await);
    let reopened = json!({ "expiresAt": app.clock.now().plus(TimeDelta::days(9)).to_string() });
    say("reopen", facade.update(party, OFFERS, id, reopened).await);
    let acceptance = Acceptance { agreement_id: Some("agr-1".to_owned()), ..Acceptance::default() };
    offers::accept(&tenant, offer_id(id), acceptance.clone()).await.expect("accepted");
    offers::accept(&tenant, offer_id(id), acceptance).await.expect("accepted again is no change");
    say("accepted", facade.get(party, OFFERS, id).await);
    say("change an accepted one", facade.update(party, OFFERS, id, name).await);
    say("cancel an accepted one", facade.delete(party, OFFERS, id).await);
    let customer = facade.get(party, OFFERS, id).await["ok"]["customerId"].as_str().expect("an id").to_owned();
    let mut replacement = new_offer(&customer);
    replacement["details"]["cloud"] = json!({ "isReplacement": true, "agreementId": "agr-1" });
    let replacement = id_of(&say("create a replacement", facade.create(party, OFFERS, replacement).await));
    let acceptance = Acceptance { agreement_id: Some("agr-2".to_owned()), ..Acceptance::default() };
    offers::accept(&tenant, offer_id(&replacement), acceptance).await.expect("accepted");
    let third = id_of(&facade.create(party, OFFERS, new_offer(&customer)).await);
    say("cancel", facade.delete(party, OFFERS, &third).await);
    say("cancel again", facade.delete(party, OFFERS, &third).await);
    say(
        "publish a cancelled one",
        json!(
            offers::publish(&tenant, offer_id(&third), Published::Failed { message: "late".to_owned() })
                .await
                .expect_err("it is cancelled")
                .to_string()
        ),
    );
}

async fn scenario(facade: Facade) -> Vec<Value> {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let mut said = Vec::new();
    let mut say = |what: &str, outcome: Value| {
        said.push(json!({ what: outcome }));
        outcome
    };
    let id = creating(facade, &app, &party, &mut say).await;
    ending(facade, &app, &mut party, &id, &mut say).await;
    said.push(json!({ "events": app.events(party.organization()).await }));
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_lead_to_the_same_rooms() {
    let (rest, graphql) = (scenario(Facade::Rest).await, scenario(Facade::Graphql).await);
    for (rest, graphql) in rest.iter().zip(&graphql) {
        assert_eq!(rest, graphql);
    }
    snapshot!("offers", rest);
}

/// What a client reads it can write back; with one field changed, exactly that is refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_can_be_written_back_as_it_was_read() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let created = party.post("/api/v1/private-offers", &new_offer(&customer)).await.created();
    let path = format!("/api/v1/private-offers/{}", created["id"].as_str().unwrap_or_default());
    let events = app.events(party.organization()).await.len();
    assert_eq!(party.put(&path, &created).await.data(), created);
    assert_eq!(app.events(party.organization()).await.len(), events);
    for (pointer, value, field) in [
        ("/listingId", json!("lst_9"), "listingId"),
        ("/status", json!("accepted"), "status"),
        ("/vendor", json!("cloud_b"), "vendor"),
        ("/details/cloud/isReplacement", json!(true), "details.cloud.isReplacement"),
        ("/details/cloud/publication/state", json!("live"), "details.cloud.publication.state"),
    ] {
        let mut changed = created.clone();
        *changed.pointer_mut(pointer).expect("the field") = value;
        let reply = party.put(&path, &changed).await;
        assert_eq!((reply.status, &reply.json()["errors"][0]["field"]), (422, &json!(field)), "{pointer}");
    }
}

/// The same moment in other words is the same value; what is no field of the record is none to send back.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_back_is_compared_by_meaning() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let created = party.post("/api/v1/private-offers", &new_offer(&customer)).await.created();
    let path = format!("/api/v1/private-offers/{}", created["id"].as_str().unwrap_or_default());
    for moment in ["2026-01-05T10:00:00Z", "2026-01-05T10:00:00.000000+00:00"] {
        assert_eq!(party.put(&path, &json!({ "createdAt": moment })).await.status, 200, "{moment}");
    }
    let unknown = party.put(&path, &json!({ "details": { "cloud": { "zz": null } } })).await;
    assert_eq!((unknown.status, unknown.fields()), (400, vec!["details.cloud.zz: is not a known field".to_owned()]));
    let wrong = json!({
        "vendor": "cloud_b", "expiresAt": "2020-01-01T00:00:00Z",
        "details": { "pricing": { "duration": 99, "discountPercentage": null } },
    });
    assert_eq!(party.put(&path, &wrong).await.fields().len(), 4);
}

/// A moment that could not be read back is never stored.
#[tokio::test(flavor = "multi_thread")]
async fn no_moment_is_stored_that_cannot_be_read() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let customer = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    for moment in ["9999-12-31T23:59:60Z", "+10000-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "2026-01-05 10:00:00Z"] {
        let mut offer = new_offer(&customer);
        offer["expiresAt"] = json!(moment);
        assert_eq!(party.post("/api/v1/private-offers", &offer).await.status, 400, "{moment}");
    }
    let mut last = new_offer(&customer);
    last["expiresAt"] = json!("9999-12-31T23:59:59.999Z");
    assert_eq!(party.post("/api/v1/private-offers", &last).await.status, 201);
    assert_eq!(party.get("/api/v1/private-offers").await.status, 200);
}

/// A value that cannot be read refuses the whole request, before any part of it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_scalar_runs_nothing() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let query = "mutation ($d: DateTime) { \
        a: createCustomer(input: { vendor: CLOUD_A, cloudAccountId: \"1\", companyName: \"A\" }) { customer { id } } \
        b: createPrivateOffer(input: { vendor: CLOUD_A, listingId: \"l\", customerId: \"x\", expiresAt: $d, \
            details: { pricing: { duration: 1, discountPercentage: 1 } } }) { privateOffer { id } } }";
    for moment in ["2027-01-01T00:00:00+01:00", "zzz"] {
        let body = party.graphql(query, json!({ "d": moment })).await.json();
        assert!(body["data"].is_null() && !body["errors"].is_null(), "{body}");
    }
    assert_eq!(party.get("/api/v1/customers").await.data()["items"], json!([]));
}

/// Wrong types and unknown fields, at every depth, are 400 and named together.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_offers_name_every_field() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let body = json!({
        "vendor": 5, "listingId": null, "extra": 1, "expiresAt": "soon",
        "details": { "summary": [], "pricing": { "duration": "12", "discountPercentage": "10", "x": 1 },
            "cloud": { "offerType": "other", "isReplacement": "no", "publication": {} } },
    });
    let reply = party.post("/api/v1/private-offers", &body).await;
    assert_eq!(reply.status, 400);
    snapshot!("malformed_offer", reply.json()["errors"]);
    for body in [json!([]), json!({ "details": null }), json!({ "details": { "pricing": 5 } }), json!({})] {
        assert_eq!(party.post("/api/v1/private-offers", &body).await.status, 400, "{body}");
    }
}
