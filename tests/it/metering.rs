//! Metering (`contract.md` §11): both doors, slots, remainders, verdicts.

use chrono::TimeDelta;
use futures_util::future::join_all;
use mercato::model::id::MeteringId;
use mercato::model::metering::Verdict;
use mercato::resolvers::metering;
use serde_json::{Value, json};

use crate::harness::{Facade, METERING, Party, TestApp, listen_options};
use crate::snapshot;

async fn customer(party: &Party, vendor: &str) -> String {
    let account = if vendor == "cloud_a" { "cloudAccountId" } else { "tenantId" };
    let mut new = json!({ "vendor": vendor, "companyName": "Metered" });
    new[account] = json!("m-1");
    party.post("/api/v1/customers", &new).await.created()["id"].as_str().expect("an id").to_owned()
}

fn report(customer: &str, rows: &Value) -> Value {
    json!({ "listingId": "lst_1", "details": { "customer": { "id": customer }, "usage": rows } })
}

fn row(dimension: &str, quantity: f64, start: &str) -> Value {
    json!({ "dimension": dimension, "quantity": quantity, "startTime": start })
}

async fn scenario(facade: Facade) -> Vec<Value> {
    let app = TestApp::new().await;
    let party = app.party().await;
    let mut said = Vec::new();
    let mut say = |what: &str, outcome: Value| {
        said.push(json!({ what: outcome }));
        outcome
    };
    let id = customer(&party, "cloud_b").await;
    let rows = json!([row("api_calls", 12.5, "2026-01-05T09:10:00Z"), { "dimension": "gb", "quantity": 0.000_001 }]);
    let made = say("submit", facade.create(&party, METERING, report(&id, &rows)).await);
    let first = made["ok"]["id"].as_str().unwrap_or_default().to_owned();
    let taken = json!([row("api_calls", 1.0, "2026-01-05T09:59:59.999Z")]);
    say("a taken slot", facade.create(&party, METERING, report(&id, &taken)).await);
    let zero = json!({ "details": { "customer": { "id": id } } });
    say("zero usage", facade.create(&party, METERING, zero).await);
    let broken = json!([
        row("", -1.0, "2026-01-04T09:59:59Z"),
        row("x", 0.123_456_7, "2026-01-05T10:05:01Z"),
        row("y", 1.0, "2026-01-05T09:00:00Z"),
        row("y", 2.0, "2026-01-05T09:30:00Z"),
    ]);
    say("every rule broken", facade.create(&party, METERING, report("cus_x", &broken)).await);
    let tenant = app.tenant(party.organization());
    let id = MeteringId::parse(&first).expect("an id");
    metering::submit_to_vendor(&tenant, id).await.expect("submitted");
    say("submitted", facade.get(&party, METERING, &first).await);
    let verdicts = [(Verdict::Confirmed, None), (Verdict::InvalidDimension, Some("no such dimension".to_owned()))];
    metering::settle(&tenant, id, &verdicts).await.expect("settled");
    metering::settle(&tenant, id, &verdicts).await.expect("settled already");
    say("failed", facade.get(&party, METERING, &first).await);
    let again = json!([{ "dimension": "gb", "quantity": 2 }]);
    say(
        "a refused row can be reported again",
        facade.create(&party, METERING, report(&report_customer(&party, &first).await, &again)).await,
    );
    say("list", facade.list(&party, METERING, 10, None).await);
    said.push(json!({ "events": app.events(party.organization()).await }));
    said
}

async fn report_customer(party: &Party, id: &str) -> String {
    let report = party.get(&format!("/api/v1/metering/{id}")).await.data();
    report["details"]["customer"]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_lead_to_the_same_rooms() {
    let (rest, graphql) = (scenario(Facade::Rest).await, scenario(Facade::Graphql).await);
    for (rest, graphql) in rest.iter().zip(&graphql) {
        assert_eq!(rest, graphql);
    }
    snapshot!("metering", rest);
}

/// A slot takes one report, however many arrive at once: on the durable engine, with and without an idempotency key.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_takes_one_of_a_hundred() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("surrealkv://{}", folder.path().join("data").display());
    let app = TestApp::on(&url, listen_options()).await;
    let party = app.party().await;
    let body = report(&customer(&party, "cloud_b").await, &json!([row("api_calls", 1.0, "2026-01-05T09:00:00Z")]));
    let replies = join_all((0..100).map(|_| party.post("/api/v1/metering", &body))).await;
    let with = |status: u16| replies.iter().filter(|reply| reply.status == status).count();
    assert_eq!((with(201), with(409)), (1, 99));
    let holder = replies.iter().find(|reply| reply.status == 201).expect("one was taken").created()["id"].clone();
    let holder = holder.as_str().expect("an id");
    assert!(replies.iter().filter(|reply| reply.status == 409).all(|reply| reply.text.contains(holder)));
    let body = report(&customer(&app.party().await, "cloud_b").await, &json!([]));
    assert_eq!(party.post("/api/v1/metering", &body).await.status, 422);
    assert_eq!(app.rows("SELECT * FROM metering_slot").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_makes_one_report() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let body = report(&customer(&party, "cloud_b").await, &json!([row("api_calls", 1.0, "2026-01-05T09:00:00Z")]));
    let send = || async {
        let request = party.request(reqwest::Method::POST, "/api/v1/metering").header("X-Idempotency-Key", "once");
        crate::harness::Reply::of(request.json(&body)).await
    };
    let replies = join_all((0..100).map(|_| send())).await;
    let made: Vec<_> = replies.iter().filter(|reply| reply.status == 201).collect();
    assert!(!made.is_empty());
    assert!(made.iter().all(|reply| reply.text == made[0].text));
    assert!(replies.iter().all(|reply| [201, 409].contains(&reply.status)));
    let fresh = made.iter().filter(|reply| !reply.headers.contains_key("idempotent-replayed")).count();
    assert_eq!(fresh, 1);
}

/// `cloud_a` is billed whole numbers; nothing of what was reported is lost, and a refused report leaves no trace.
#[tokio::test(flavor = "multi_thread")]
async fn remainders_are_carried_to_the_next_slot() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let (tenant, id) = (app.tenant(party.organization()), customer(&party, "cloud_a").await);
    let submit = async |rows: Value| {
        let reply = party.post("/api/v1/metering", &report(&id, &rows)).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        MeteringId::parse(reply.created()["id"].as_str().expect("an id")).expect("an id")
    };
    let billed = async |id: MeteringId| {
        let report = party.get(&format!("/api/v1/metering/{id}")).await.data();
        let rows = report["details"]["usage"].as_array().expect("rows").clone();
        rows.iter().map(|row| (row["billedQuantity"].as_f64(), row["carriedQuantity"].as_f64())).collect::<Vec<_>>()
    };
    // Told out of order; carried in the order of time.
    let first = submit(json!([row("gb", 0.75, "2026-01-05T08:00:00Z"), row("gb", 0.5, "2026-01-05T07:00:00Z")])).await;
    assert_eq!(billed(first).await, [(Some(1.0), Some(0.25)), (Some(0.0), Some(0.5))]);
    let second = submit(json!([row("gb", 0.8, "2026-01-05T09:00:00Z")])).await;
    assert_eq!(billed(second).await, [(Some(1.0), Some(0.05))]);
    for id in [first, second] {
        metering::submit_to_vendor(&tenant, id).await.expect("submitted");
    }
    metering::settle(&tenant, second, &[(Verdict::NotSubscribed, None)]).await.expect("settled");
    let third = submit(json!([row("gb", 0.75, "2026-01-05T09:30:00Z")])).await;
    assert_eq!(billed(third).await, [(Some(1.0), Some(0.0))]);
}

/// A `VENDOR_ERROR` waits as long as its row can still be reported, and is then the last word.
#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_error_is_tried_again_within_the_window() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let (tenant, id) = (app.tenant(party.organization()), customer(&party, "cloud_b").await);
    let made = party.post("/api/v1/metering", &report(&id, &json!([row("gb", 1.0, "2026-01-05T09:00:00Z")]))).await;
    let id = MeteringId::parse(made.created()["id"].as_str().expect("an id")).expect("an id");
    metering::submit_to_vendor(&tenant, id).await.expect("submitted");
    let failed = [(Verdict::VendorError, Some("try later".to_owned()))];
    let status = async |verdicts: &[(Verdict, Option<String>)]| {
        metering::settle(&tenant, id, verdicts).await.expect("settled").status.as_str()
    };
    assert_eq!(status(&failed).await, "submitted");
    app.advance(TimeDelta::hours(22));
    assert_eq!(status(&failed).await, "submitted");
    app.advance(TimeDelta::hours(2));
    assert_eq!(status(&failed).await, "failed");
    let kinds: Vec<Value> = app.events(party.organization()).await.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, [json!("customer.created"), json!("metering.submitted"), json!("metering.failed")]);
    assert!(metering::settle(&tenant, id, &[]).await.is_ok());
}
