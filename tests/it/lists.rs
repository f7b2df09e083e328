//! Lists (`contract.md` §2): limits, cursors, walks that meet everything once.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::{Party, TestApp};

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().expect("items");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

async fn page(party: &Party, query: &str) -> Value {
    party.get(&format!("/api/v1/customers{query}")).await.data()
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_defaulted_capped_and_checked() {
    let app = TestApp::new().await;
    let party = app.party().await;
    for account in 0..103 {
        party.customer(&account.to_string()).await;
    }
    assert_eq!(ids(&page(&party, "").await).len(), 20);
    for limit in ["100", "101", "100000", "99999999999999999999999"] {
        assert_eq!(ids(&page(&party, &format!("?limit={limit}")).await).len(), 100, "{limit}");
    }
    for query in ["limit=0", "limit=-1", "limit=1.5", "limit=", "limit=x", "limit=+5", "limit=1&limit=2", "page=2"] {
        party.get(&format!("/api/v1/customers?{query}")).await.refused(400, "INVALID_PARAMS");
    }
    let reply = party.get("/api/v1/customers?vendor=cloud_a&sort=name").await;
    let named: Vec<String> =
        reply.fields().iter().map(|line| line.split(':').next().unwrap_or("").to_owned()).collect();
    assert_eq!(named, ["vendor", "sort"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_meets_every_record_of_its_start_once_whatever_happens_meanwhile() {
    let app = TestApp::new().await;
    let mut party = app.party().await;
    let mut start = Vec::new();
    for account in 0..25 {
        start.push(party.customer(&account.to_string()).await["id"].as_str().expect("an id").to_owned());
    }
    start.reverse();
    let mut met: Vec<String> = Vec::new();
    let mut query = "?limit=4".to_owned();
    while met.len() <= start.len() {
        let page = page(&party, &query).await;
        met.extend(ids(&page));
        // One comes, one that was met goes, and a year passes: none of it may shift the rest.
        party.customer(&format!("new-{}", met.len())).await;
        party.delete(&format!("/api/v1/customers/{}", met[met.len() - 1])).await.ok();
        app.advance(chrono::TimeDelta::days(366));
        party.refresh().await;
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        query = format!("?limit=4&cursor={cursor}");
    }
    assert_eq!(met, start);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_opens_its_own_list_only() {
    let app = TestApp::new().await;
    let (party, other) = (app.party().await, app.party().await);
    for account in ["1", "2", "3"] {
        party.customer(account).await;
        other.customer(account).await;
    }
    let cursor = page(&party, "?limit=1").await["nextCursor"].as_str().expect("a cursor").to_owned();
    assert_eq!(ids(&page(&party, &format!("?limit=5&cursor={cursor}")).await).len(), 2);
    other.get(&format!("/api/v1/customers?cursor={cursor}")).await.refused(400, "INVALID_PARAMS");
    party.get(&format!("/oauth/applications?cursor={cursor}")).await.refused(400, "INVALID_PARAMS");
    let mut seen = BTreeSet::new();
    for index in 0..cursor.len() {
        let mut bent = cursor.clone().into_bytes();
        bent[index] = if bent[index] == b'A' { b'B' } else { b'A' };
        let bent = String::from_utf8(bent).expect("ASCII");
        let reply = party.get(&format!("/api/v1/customers?cursor={bent}")).await;
        seen.insert(reply.status);
        assert_eq!(reply.fields(), ["cursor: is not a cursor of this list"]);
    }
    assert_eq!(seen, BTreeSet::from([400]));
    party.get("/api/v1/customers?cursor=").await.refused(400, "INVALID_PARAMS");
}
