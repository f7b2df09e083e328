//! What happens because time passes: in order, once, also after a long pause and with several processes.

use chrono::TimeDelta;
use futures_util::future::join_all;
use mercato::model::entitlement::NewEntitlement;
use mercato::model::id::CustomerId;
use mercato::model::lifecycle::Step;
use mercato::resolvers::clockwork;
use serde_json::{Value, json};

use crate::harness::{Party, TestApp, listen_options, new_offer};

async fn customer(party: &Party, account: &str) -> CustomerId {
    CustomerId::parse(party.customer(account).await["id"].as_str().expect("an id")).expect("an id")
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).filter(|kind| !kind.ends_with(".created")).collect()
}

/// A pause of months: what became due is done in the order in which it became due, each thing once.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_pause_is_caught_up_in_order() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let organization = party.organization();
    let (now, id) = (app.clock.now(), customer(&party, "1").await);
    let term = |from: i64, to: i64| NewEntitlement {
        start_date: Some(now.plus(TimeDelta::days(from))),
        end_date: Some(now.plus(TimeDelta::days(to))),
        ..NewEntitlement::of(id, "lst_1")
    };
    let late = app.entitlement(organization, term(5, 50)).await.id.to_string();
    let early = app.entitlement(organization, term(0, 10)).await.id.to_string();
    let suspended = app.entitlement(organization, NewEntitlement::of(id, "lst_1")).await;
    app.step(&suspended, Step::Suspend).await;
    let waiting = NewEntitlement { awaits_activation: true, ..NewEntitlement::of(id, "lst_1") };
    let waiting = app.entitlement(organization, waiting).await.id.to_string();
    let offer = party.post("/api/v1/private-offers", &new_offer(&id.to_string())).await.created()["id"].clone();
    let before = app.events(organization).await.len();
    assert_eq!(app.tick().await, 0);
    app.advance(TimeDelta::days(100));
    assert_eq!(app.tick().await, 5);
    assert_eq!(app.tick().await, 0);
    let events = app.events(organization).await.split_off(before);
    let told: Vec<(&str, &Value)> = events
        .iter()
        .filter(|event| event["type"] != "customer.updated")
        .map(|event| (event["type"].as_str().unwrap_or_default(), &event["data"]["id"]))
        .collect();
    let suspended = json!(suspended.id);
    assert_eq!(
        told,
        [
            ("entitlement.updated", &json!(late)),
            ("entitlement.expired", &json!(early)),
            ("entitlement.cancelled", &suspended),
            ("private_offer.expired", &offer),
            ("entitlement.expired", &json!(late)),
        ]
        .map(|(kind, id)| (kind, id))
    );
    party.refresh().await;
    let still = party.get(&format!("/api/v1/entitlements/{waiting}")).await.data();
    assert_eq!(still["status"], "pending");
}

/// Several workers on one database: every step happens once.
#[tokio::test(flavor = "multi_thread")]
async fn several_workers_do_everything_once() {
    let app = TestApp::new().await;
    let mut organizations = Vec::new();
    for name in ["1", "2", "3"] {
        let party = app.party().await;
        let id = customer(&party, name).await.to_string();
        for _ in 0..20 {
            assert_eq!(party.post("/api/v1/private-offers", &new_offer(&id)).await.status, 201);
        }
        organizations.push(party.organization());
    }
    app.advance(TimeDelta::days(31));
    let done: usize =
        join_all((0..4).map(|_| clockwork::run(&app.store))).await.into_iter().map(|run| run.expect("a run")).sum();
    assert_eq!(done, 60);
    for organization in organizations {
        assert_eq!(kinds(&app.events(organization).await).len(), 20);
    }
}

/// A look reads what is due and nothing else: the plan is an index scan up to now.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_reads_only_what_is_due() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("surrealkv://{}", folder.path().join("data").display());
    let app = TestApp::on(&url, listen_options()).await;
    for table in ["entitlement", "private_offer"] {
        let explain = format!(
            "EXPLAIN SELECT id, due FROM {table} WITH INDEX {table}_due WHERE due <= d'2026-01-05T10:00:00Z' ORDER BY due LIMIT 200"
        );
        let plan = app.rows(&explain).await[0].to_string();
        assert!(plan.contains("IndexScan") && plan.contains("limit: 200") && !plan.contains("Sort"), "{plan}");
    }
}
