//! Events (`contract.md` §13): written with the change, numbered without a gap, serialized once.

use serde_json::json;

use crate::harness::{TestApp, new_customer, shared};

#[tokio::test(flavor = "multi_thread")]
async fn every_change_has_its_event_and_no_change_has_none() {
    let app = TestApp::new().await;
    let party = app.party().await;
    let id = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/customers/{id}");
    party.put(&path, &json!({})).await.ok();
    party.put(&path, &json!({ "companyName": "Company 1" })).await.ok();
    party.put(&path, &json!({ "companyName": "Renamed" })).await.ok();
    party.post("/api/v1/customers", &new_customer("1")).await.refused(409, "CONFLICT");
    party.delete(&path).await.ok();
    let events = app.events(party.organization()).await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["customer.created", "customer.updated", "customer.deleted"]);
    assert_eq!(events[1]["changes"], json!({ "companyName": { "from": "Company 1", "to": "Renamed" } }));
    assert_eq!(events[2]["data"]["status"], json!("deleted"));
}

/// Many writers at once: the numbers are 1, 2, 3 … and the stored bytes are the JSON as the contract orders it.
#[tokio::test(flavor = "multi_thread")]
async fn the_sequence_has_no_gap_under_parallel_writers() {
    let app = shared(TestApp::new().await);
    let party = app.party().await;
    let writers = (0..60).map(|account| {
        let party = party.clone();
        // Every third is refused, which must not use a number up.
        tokio::spawn(
            async move { party.post("/api/v1/customers", &new_customer(&(account / 3 * 2).to_string())).await },
        )
    });
    let replies = futures_util::future::join_all(writers).await;
    let created = replies.into_iter().filter(|reply| reply.as_ref().is_ok_and(|reply| reply.status == 201)).count();
    assert_eq!(created, 20);
    let rows = app.rows("SELECT * FROM event ORDER BY id").await;
    let sequences: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = row["envelope"].as_str().unwrap_or_default();
            assert!(text.starts_with("{\"id\":\"evt_"), "{text}");
            let envelope: serde_json::Value = serde_json::from_str(text).expect("JSON");
            envelope["sequence"].as_i64().unwrap_or_default()
        })
        .collect();
    assert_eq!(sequences, (1..=20).collect::<Vec<_>>());
}

/// Somebody else (another process) keeps writing the row that numbers the events: writers collide and try again.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_collides_is_tried_again() {
    let app = shared(TestApp::new().await);
    let party = app.party().await;
    let disturbance = {
        let (app, organization) = (std::sync::Arc::clone(&app), party.organization());
        tokio::spawn(async move {
            let mut collisions = 0;
            for round in 0..200 {
                let surrealql = format!("UPDATE organization:`{organization}` SET name = 'round {round}'");
                let response = app.store.engine().query(surrealql).await.expect("the query runs");
                collisions += usize::from(response.check().is_err());
            }
            collisions
        })
    };
    for account in 0..40 {
        party.customer(&account.to_string()).await;
    }
    disturbance.await.expect("the disturbance ends");
    assert_eq!(app.events(party.organization()).await.len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_forgotten_after_their_retention() {
    let app = TestApp::new().await;
    let party = app.party().await;
    party.customer("1").await;
    app.advance(chrono::TimeDelta::days(29));
    let retention = chrono::TimeDelta::days(30);
    assert_eq!(app.store.sweep(retention).await.expect("the sweep runs").events, 0);
    app.advance(chrono::TimeDelta::days(2));
    assert_eq!(app.store.sweep(retention).await.expect("the sweep runs").events, 1);
}

/// Reads are remembered; a read that begins after a write was answered must show it, however many readers there are.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_after_a_write_shows_it() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let app = shared(TestApp::new().await);
    let party = app.party().await;
    let id = party.customer("1").await["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/customers/{id}");
    let answered = std::sync::Arc::new(AtomicUsize::new(0));
    let readers = (0..8).map(|_| {
        let (party, path, answered) = (party.clone(), path.clone(), std::sync::Arc::clone(&answered));
        tokio::spawn(async move {
            let mut reads = 0;
            while answered.load(Ordering::SeqCst) < 60 {
                let known = answered.load(Ordering::SeqCst);
                let name = party.get(&path).await.data()["companyName"].as_str().unwrap_or_default().to_owned();
                let seen: usize = name.trim_start_matches("Company ").trim_start_matches("Round ").parse().unwrap_or(0);
                assert!(known == 0 || seen >= known, "round {known} was answered, and {name} was read");
                reads += 1;
            }
            reads
        })
    });
    let readers: Vec<_> = readers.collect();
    for round in 1..=60 {
        party.put(&path, &json!({ "companyName": format!("Round {round}") })).await.ok();
        answered.store(round, Ordering::SeqCst);
    }
    for reader in readers {
        assert!(reader.await.expect("a reader ends") > 0);
    }
}
